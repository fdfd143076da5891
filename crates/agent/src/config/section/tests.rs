//! How values are read, and how mistakes in them are reported.

use crate::config::parse;
use crate::config::tests::{GOOD, assert_errors, assert_errors_behind_good, errors};

#[test]
fn wrong_shapes_of_sections() {
    assert_errors(
        "[ingress]\nlisten = '127.0.0.1:1'",
        &["a.toml:1: ingress: found a section, expected a list of sections; write [[ingress]] \
           above each, with double brackets"],
    );
    assert_errors_behind_good(
        "[[agent]]\nname = 'a'",
        &["a.toml:6: agent: found a list, expected a section; write [agent] once, with its keys \
           below"],
    );
    assert_errors_behind_good(
        "[defaults]\ntimeout_ms = {}\nbalance = ''",
        &[
            "a.toml:7: defaults.timeout_ms: found a section, expected a number; write a whole number \
             from 1 to 3600000",
            "a.toml:8: defaults.balance: is empty; give it a value or leave the key out",
        ],
    );
}

#[test]
fn errors_know_their_column_and_key() {
    let errors = parse("[[ingress]]\n  listen = 3", "x/a.toml").unwrap_err();
    let error = errors.as_slice().iter().find(|error| error.key == "ingress.listen").unwrap();
    assert_eq!((error.file.as_str(), error.line, error.column), ("x/a.toml", 2, 3));
}

/// Each is told as fast as the first, and nobody reads them all.
#[test]
fn of_many_mistakes_the_first_are_told_and_the_number_of_the_others() {
    let keys: String = (0..30_000).map(|n| format!("k{n} = 1\n")).collect();
    let told = errors(&format!("{keys}{GOOD}"));
    assert_eq!(told.len(), 101);
    assert!(told[0].starts_with("a.toml:1: k0: unknown key"), "{}", told[0]);
    assert_eq!(told[100], "a.toml: 29900 more problems are not shown; correct these first");
    let endpoints: String = (1..=150).map(|port| format!("'tri://h:{port}', ")).collect();
    let list =
        format!("\"static\"\n[[registry.service]]\ninterface = 'a.B'\nendpoints = [{endpoints}]\n");
    let warnings = parse(&GOOD.replace("\"etcd\"\n", &list), "a.toml").unwrap().warnings;
    assert_eq!(warnings.len(), 101);
    assert!(warnings[100].to_string().contains("50 more warnings"), "{}", warnings[100]);
}

#[test]
fn numbers_are_taken_up_to_their_limits() {
    for (weight, is_good) in
        [("0", false), ("1", true), ("-1", false), ("1_000", true), ("0x10", true)]
    {
        let text = format!(
            "{GOOD}[link]\nlisten = '127.0.0.1:3'\n[[export]]\ninterface = 'a.B'\n\
             app = 'dubbo://h:1'\nweight = {weight}"
        );
        assert_eq!(errors(&text).is_empty(), is_good, "{weight}: {:?}", errors(&text));
    }
    let huge = errors(&format!("{GOOD}[defaults]\ntimeout_ms = 99999999999999999999"));
    assert!(huge[0].contains("is out of range"), "{huge:?}");
}

#[test]
fn sockets_have_a_whole_path_and_a_mode_of_permissions() {
    let listen = |path: &str, mode: &str| {
        let text = GOOD.replace("127.0.0.1:20000", &format!("unix:{path}"));
        errors(&format!("{text}socket_mode = '{mode}'"))
    };
    let longest = format!("/{}", "a".repeat(wire::MAX_SOCKET_PATH_LEN - 1));
    assert_eq!(listen(&longest, "0660"), Vec::<String>::new());
    assert_eq!(listen("/a", "666"), Vec::<String>::new());
    let too_long = listen(&format!("{longest}a"), "0660");
    assert!(too_long[0].contains("the path has 108 bytes"), "{too_long:?}");
    assert!(listen("run/a", "0660")[0].contains("is not an absolute path"));
    for mode in ["1000", "0888", "77", "00660", "rw-"] {
        let errors = listen("/a", mode);
        assert!(
            errors.len() == 1 && errors[0].contains("is not a file mode"),
            "{mode}: {errors:?}"
        );
    }
    let tcp = errors(&format!("{GOOD}socket_mode = '0660'"));
    assert!(tcp[0].contains("works only with a Unix socket; remove it"), "{tcp:?}");
}

#[test]
fn what_others_call_a_key_or_a_value_is_understood() {
    let registry = |lines: &str| {
        errors(&GOOD.replace("kind = \"etcd\"\n", &format!("kind = 'etcd'\n{lines}\n")))
    };
    for (lines, meant) in [
        ("address = 'h:1'", "registry.address: unknown key; did you mean \"endpoints\"?"),
        ("username = 'u'", "registry.username: unknown key; did you mean \"user\"?"),
    ] {
        let told = registry(lines);
        assert!(told.iter().any(|it| it.contains(meant)), "{told:?}");
    }
    let told = errors(&GOOD.replace("\"etcd\"", "\"ETCD\""));
    assert!(told[0].contains("\"ETCD\" is not known; did you mean \"etcd\"?"), "{told:?}");
}

#[test]
fn a_path_that_waits_for_a_shell_is_told() {
    let warnings = |path: &str| {
        let file = format!("kind = \"file\"\npath = \"{path}\"");
        let warned = parse(&GOOD.replace("kind = \"etcd\"", &file), "a.toml").unwrap().warnings;
        warned.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (path, what) in [
        ("~/s.toml", "~ is not replaced here; write the whole path"),
        ("$HOME/s.toml", "a variable such as $HOME is not replaced here"),
        ("/etc/${MESH}/s.toml", "a variable such as $HOME is not replaced here"),
    ] {
        let told = warnings(path);
        let place = "a.toml:3: registry.path: there is no ";
        assert!(told[0].starts_with(place) && told[0].contains(what), "{told:?}");
    }
    for path in ["s.toml", "/s~.toml", "a$.toml"] {
        assert_eq!(warnings(path), [""; 0], "{path}");
    }
}
