//! Listeners: addresses, web pages, limits.

use crate::config::parse;
use crate::config::tests::{GOOD, assert_errors_behind_good, errors};

#[test]
fn addresses_that_others_cannot_use() {
    let export = "[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\n";
    assert_errors_behind_good(
        &format!("{export}[link]\nlisten = '0.0.0.0:3'\n"),
        &["a.toml:9: link.advertise: is missing; it is required because listen means all \
           interfaces; write the host that others reach, such as advertise = \"10.0.0.5\""],
    );
    for (listen, meaning) in [
        ("[::ffff:0.0.0.0]:3", "means all interfaces"),
        (
            "[fe80::1%4]:3",
            "is a link-local address, which needs the name of an interface of the caller",
        ),
    ] {
        let problem = format!(
            "a.toml:9: link.advertise: is missing; it is required because listen {meaning}; write \
             the host that others reach, such as advertise = \"10.0.0.5\""
        );
        assert_errors_behind_good(&format!("{export}[link]\nlisten = '{listen}'\n"), &[&problem]);
        let link = format!("[link]\nlisten = '{listen}'\nadvertise = '2001:db8::1'\n");
        assert_errors_behind_good(&format!("{export}{link}"), &[]);
    }
    let remedy = "write HOST or HOST:PORT such as \"10.0.0.5\" or \"10.0.0.5:30880\"";
    for (advertise, problem) in [
        ("0.0.0.0", "others cannot connect to 0.0.0.0: it means all interfaces"),
        ("[::]:5", "others cannot connect to ::: it means all interfaces"),
        ("::ffff:0.0.0.0", "others cannot connect to ::ffff:0.0.0.0: it means all interfaces"),
        (
            "fe80::1%2",
            "others cannot connect to fe80::1%2: it is a link-local address, which needs the name \
             of an interface of the caller",
        ),
        (
            "[2001:db8::1%eth0]:5",
            "others cannot connect to 2001:db8::1%eth0: it has a zone, which is an interface of \
             one machine",
        ),
        ("a:0", "\"a:0\" is not a host: the port is not a number from 1 to 65535"),
        ("http://a", "\"http://a\" is not a host: the port is not a number from 1 to 65535"),
        (
            "a b",
            "\"a b\" is not a host: the host is neither a name nor an IP address (write an IPv6 \
             address in brackets)",
        ),
    ] {
        assert_errors_behind_good(
            &format!("{export}[link]\nlisten = '0.0.0.0:3'\nadvertise = '{advertise}'"),
            &[&format!("a.toml:11: link.advertise: {problem}; {remedy}")],
        );
    }
    for app in ["127.0.0.1:1", "dubbo://h", "dubbo://h:0", "dubbo://h:99999", "dubbo://:1"] {
        let export = format!("[[export]]\ninterface = 'a.B'\napp = '{app}'\n");
        let errors = errors(&format!("{GOOD}{export}[link]\nlisten = '127.0.0.1:3'"));
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(&format!("export.app: \"{app}\" is not the address of an app")));
    }
}

#[test]
fn web_pages_are_told_by_origins_and_names() {
    let text = format!(
        "{GOOD}hosts = ['Mesh.example', '10.0.0.7']\n[ingress.cors]\n\
         origins = ['https://Shop.example', 'http://localhost:5173', 'http://[::1]:1', 'null']\n\
         headers = ['x-tenant']\nmax_age_s = 0\n[admin]\nhosts = ['agent']"
    );
    let config = parse(&text, "a.toml").unwrap();
    assert_eq!(config.http[0].hosts, ["mesh.example", "10.0.0.7"]);
    assert_eq!(config.admin.unwrap().hosts, ["agent"]);
    let cors = config.http[0].cors.as_ref().unwrap();
    for (origin, is_allowed) in [
        ("https://shop.example", true),
        ("http://localhost:5173", true),
        ("http://[::1]:1", true),
        ("null", true),
        ("http://shop.example", false),
        ("https://shop.example:444", false),
        ("*", false),
        ("", false),
    ] {
        assert_eq!(cors.allows(origin.as_bytes()), is_allowed, "{origin}");
    }
    let all = parse(&format!("{GOOD}[ingress.cors]\norigins = ['*']"), "a.toml").unwrap();
    assert!(all.http[0].cors.as_ref().unwrap().allows(b"https://any.example"));
    assert!(parse(GOOD, "a.toml").unwrap().http[0].cors.is_none());
}

#[test]
fn origins_are_those_that_browsers_write() {
    for wrong in [
        "shop.example",
        "https://shop.example/",
        "https://shop.example/cart",
        "https://u:p@shop.example",
        "https://shop.example:443",
        "http://shop.example:80",
        "http://shop.example:",
        "https://",
        "://x",
        "https://*.example",
    ] {
        let text = format!("{GOOD}[ingress.cors]\norigins = ['{wrong}']");
        let errors = errors(&text);
        assert!(errors.iter().any(|it| it.contains("is not an origin")), "{wrong}: {errors:?}");
    }
    for (lines, problem) in [
        ("", "ingress.cors.origins: is missing"),
        ("origins = ['*', 'null']", "\"*\" already allows all origins"),
        ("origins = ['*']\ncredentials = true", "would let every web page"),
        ("origins = ['null']\nheaders = ['a b']", "\"a b\" is not the name of a header"),
        ("origins = ['null']\nmax_age_s = 86401", "from 0 to 86400"),
        ("origins = ['null']\nmethods = ['GET']", "ingress.cors.methods: unknown key"),
    ] {
        let errors = errors(&format!("{GOOD}[ingress.cors]\n{lines}"));
        assert!(errors.len() == 1 && errors[0].contains(problem), "{lines}: {errors:?}");
    }
    for host in ["a:80", "http://a", ""] {
        let errors = errors(&format!("{GOOD}hosts = ['{host}']"));
        assert!(errors.iter().any(|it| it.contains("ingress.hosts")), "{host}: {errors:?}");
    }
}

#[test]
fn a_window_is_no_larger_than_the_protocols() {
    let link = |window: u32| {
        format!(
            "{GOOD}[link]\nlisten = \"127.0.0.1:30880\"\nwindow = {window}\n[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'"
        )
    };
    assert_eq!(errors(&link(65_536)), Vec::<String>::new());
    let too_large = errors(&link(65_537));
    assert!(
        too_large[0]
            .contains("link.window: 65537 is out of range; write a whole number from 1 to 65536"),
        "{too_large:?}"
    );
    let policy = errors(&format!("{GOOD}[defaults]\nmax_in_flight = 65537"));
    assert!(policy[0].contains("from 1 to 65536"), "{policy:?}");
}

/// It stands in for the application of `[dubbo]`, which not every agent has.
#[test]
fn a_wrong_name_of_the_agent_is_told_once() {
    let agent = "[agent]\nname = 'my agent'\n";
    let told = "a.toml:7: agent.name: contains a space; write a name without spaces";
    assert_errors_behind_good(agent, &[told]);
    let dubbo =
        "[dubbo]\nlisten = '127.0.0.1:3'\n[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\n";
    let errors = errors(&format!("{GOOD}{agent}{dubbo}"));
    assert!(errors.iter().any(|it| it.contains("dubbo.application: \"my agent\"")), "{errors:?}");
}
