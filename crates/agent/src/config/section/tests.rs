//! How values are read, and how mistakes in them are reported.

use super::{closest, edits};
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

#[test]
fn a_wrong_word_is_corrected_only_if_it_is_close() {
    let known = ["http", "dubbo", "round-robin"];
    for (word, meant) in [
        ("htp", Some("http")),
        ("dubo", Some("dubbo")),
        ("roundrobin", Some("round-robin")),
        // One letter in three may be wrong.
        ("hxxp", Some("http")),
        ("hxxx", None),
        ("xyz", None),
        ("", None),
    ] {
        assert_eq!(closest(word, &known), meant, "{word}");
    }
    assert_eq!(closest("ab", &["abc", "ab"]), Some("ab"), "the closest one counts");
    assert_eq!([edits("", "abc"), edits("abc", "abd"), edits("abc", "bc")], [3, 1, 1]);
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
