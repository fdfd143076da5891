//! What contradicts between sections.

use super::share_a_port;
use crate::config::parse;
use crate::config::tests::{GOOD, assert_errors, assert_errors_behind_good, errors};

#[test]
fn nothing_to_do() {
    let remedy = "add [[ingress]] to take calls, or [link] and [[export]] to offer a service";
    assert_errors("", &[&format!("a.toml: the agent has nothing to do; {remedy}")]);
}

#[test]
fn listeners_that_clash() {
    let remedy = "give each listener its own port";
    let second = |listen| format!("[[ingress]]\nprotocol = 'http'\nlisten = '{listen}'");
    let taken = |address| {
        format!(
            "a.toml:8: ingress.listen: {address} is already used by ingress.listen in line 5; {remedy}"
        )
    };
    let mapped = ["[::ffff:127.0.0.1]:20000", "[::ffff:0.0.0.0]:20000"];
    for clash in ["127.0.0.1:20000", "0.0.0.0:20000", "[::]:20000"].into_iter().chain(mapped) {
        assert_errors_behind_good(&second(clash), &[&taken(clash)]);
    }
    for good in ["127.0.0.2:20000", "127.0.0.1:20001", "[::1]:20000"] {
        assert_errors_behind_good(&second(good), &[]);
    }
    assert_errors_behind_good(
        &second("127.0.0.1:9700"),
        &[&format!(
            "a.toml:8: ingress.listen: 127.0.0.1:9700 is already used by admin.listen \
             (the default); {remedy}"
        )],
    );
    assert_errors_behind_good(
        &format!("{}\n[admin]\nenabled = false", second("127.0.0.1:9700")),
        &[],
    );
    // Port 0 is another one each time.
    let free = GOOD.replace(":20000", ":0");
    assert_errors(&format!("{free}{}", second("127.0.0.1:0")), &[]);
}

#[test]
fn exports_and_the_link_belong_together() {
    let export = "[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\n";
    let link = "[link]\nlisten = '127.0.0.1:3'\n";
    assert_errors_behind_good(&format!("{export}{link}"), &[]);
    assert_errors_behind_good(
        export,
        &["a.toml:7: link: an export needs a listener; add [link] with listen = \"IP:PORT\" \
           for other agents, or [dubbo] for Dubbo's own consumers"],
    );
    assert_errors_behind_good(link, &[]);
    let text = format!("[[registry]]\nkind = 'etcd'\n{link}");
    let warnings = parse(&text, "a.toml").unwrap().warnings;
    let said =
        "a.toml:3: link: nothing is exported over this listener; add [[export]], or remove [link]";
    assert_eq!(warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), [said]);
    assert_errors_behind_good(
        &format!("{link}{export}{export}"),
        &[
            "a.toml:12: export.interface: a.B is exported already, in line 9; remove one, or give it \
           another group or version",
        ],
    );
    assert_errors_behind_good(&format!("{link}{export}{export}version = '2'"), &[]);
}

#[test]
fn exports_that_their_registry_cannot_hold() {
    let rest = "[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\ngroup = 'g'\n\
                [link]\nlisten = '127.0.0.1:3'\n";
    assert_errors(
        &format!("[[registry]]\nkind = 'etcd'\nlayout = 'contest'\n{rest}"),
        &["a.toml:7: export.group: layout \"contest\" of registry \"main\" cannot store it; \
           remove it, or use layout = \"dubbo\""],
    );
    assert_errors(
        &format!("[[registry]]\nkind = 'file'\npath = 'x'\n{rest}"),
        &["a.toml:4: export.registry: registry \"main\" is a file; services cannot be \
           registered in a file; export into a registry of kind \"etcd\", \"zookeeper\" or \
           \"nacos\"; for a file, write the endpoint into it by hand"],
    );
    let warned =
        parse(&format!("[[registry]]\nkind = 'memory'\n{rest}"), "a.toml").unwrap().warnings;
    assert_eq!(
        warned.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["a.toml:1: registry.name: no ingress of this process uses this registry in memory, so \
             no agent finds what is exported here; use kind = \"etcd\", \"zookeeper\" or \"nacos\", \
             unless callers know this agent's address"]
    );
    let memory = GOOD.replace("etcd", "memory");
    assert_errors(&format!("{memory}{rest}"), &[]);
    let unused = errors(&memory);
    assert_eq!(unused.len(), 1, "{unused:?}");
    let others =
        "use kind = \"file\", \"static\", \"etcd\", \"zookeeper\", \"nacos\" or \"kubernetes\"";
    assert!(unused[0].ends_with(others), "{unused:?}");
}

#[test]
fn an_app_that_is_the_agents_own_ingress_is_doubted() {
    let text = |app: &str, protocol: &str| {
        format!(
            "[[registry]]\nkind = 'memory'\n\
             [[ingress]]\nprotocol = '{protocol}'\nlisten = '127.0.0.1:20881'\n\
             [link]\nlisten = '127.0.0.1:3'\n\
             [[export]]\ninterface = 'a.B'\napp = 'dubbo://{app}'\n"
        )
    };
    let warnings = |text: &str| parse(text, "a.toml").unwrap().warnings;
    let doubted = warnings(&text("localhost:20881", "dubbo"));
    assert_eq!(
        doubted.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "a.toml:10: export.app: localhost:20881 is this agent's own [[ingress]] in line 3, which \
          sends calls where its registry says; if that is here, they come back again and again; \
          write the address of the app, unless this export is a bridge between two registries"
        ]
    );
    for (app, protocol) in
        [("127.0.0.1:20880", "dubbo"), ("127.0.0.1:20881", "http"), ("h:20881", "dubbo")]
    {
        let doubted = warnings(&text(app, protocol));
        assert!(doubted.is_empty(), "{app}: {doubted:?}");
    }
}

fn warnings(text: &str) -> Vec<String> {
    parse(text, "a.toml").unwrap().warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn an_app_that_is_the_agents_own_listener_is_refused() {
    let text = |section: &str, listen: &str, app: &str| {
        format!(
            "[[registry]]\nkind = 'etcd'\n\
             [{section}]\nlisten = '{listen}'\nadvertise = '10.0.0.5:20880'\n\
             [[export]]\ninterface = 'a.B'\napp = '{app}'\n"
        )
    };
    assert_errors(
        &text("dubbo", "0.0.0.0:20880", "dubbo://127.0.0.1:20880"),
        &["a.toml:8: export.app: 127.0.0.1:20880 is this agent's own [dubbo] listener in line 3; \
           write the address of the app, and give one of them another port"],
    );
    for (listen, app) in [
        ("127.0.0.1:20880", "dubbo://localhost:20880"),
        ("[::]:20880", "dubbo://127.0.0.2:20880"),
        ("[::]:20880", "dubbo://[::1]:20880"),
        ("127.0.0.1:20880", "http://127.0.0.1:20880/orders"),
        ("unix:/run/a.sock", "dubbo+unix:/run/a.sock"),
    ] {
        for section in ["dubbo", "link"] {
            let found = errors(&text(section, listen, app));
            let expected = format!("is this agent's own [{section}] listener in line 3;");
            assert!(found.len() == 1 && found[0].contains(&expected), "{app}: {found:?}");
        }
    }
    for (listen, app) in [
        ("127.0.0.1:20880", "dubbo://127.0.0.1:20881"),
        ("127.0.0.1:20880", "dubbo://127.0.0.2:20880"),
        ("0.0.0.0:20880", "dubbo://[::1]:20880"),
        ("0.0.0.0:20880", "dubbo://192.0.2.7:20880"),
        ("127.0.0.1:0", "dubbo://127.0.0.1:20880"),
        ("unix:/run/a.sock", "dubbo+unix:/run/b.sock"),
    ] {
        assert_errors(&text("dubbo", listen, app), &[]);
    }
}

#[test]
fn an_http_app_that_is_the_agents_own_ingress_is_doubted() {
    let text = |protocol: &str| {
        format!(
            "[[registry]]\nkind = 'memory'\n\
             [[ingress]]\nprotocol = '{protocol}'\nlisten = '127.0.0.1:20000'\n\
             [link]\nlisten = '127.0.0.1:3'\n\
             [[export]]\ninterface = 'a.B'\napp = 'http://127.0.0.1:20000'\n"
        )
    };
    let doubted = warnings(&text("http"));
    assert!(doubted.len() == 1 && doubted[0].contains("own [[ingress]] in line 3"), "{doubted:?}");
    assert_eq!(warnings(&text("dubbo")), [""; 0]);
}

#[test]
fn a_list_with_the_ingress_that_reads_it_is_doubted() {
    let text = |protocol: &str, endpoint: &str| {
        format!(
            "[[registry]]\nname = 'list'\nkind = 'static'\n\
             [[registry.service]]\ninterface = 'a.B'\nendpoints = ['{endpoint}']\n\
             [[registry]]\nname = 'both'\nkind = 'several'\nof = ['list', 'x']\n\
             [[registry]]\nname = 'x'\nkind = 'file'\npath = 'x'\n\
             [[ingress]]\nregistry = 'list'\nprotocol = '{protocol}'\nlisten = '0.0.0.0:20880'\n"
        )
    };
    let doubted = "a.toml:6: registry.service.endpoints: 127.0.0.1:20880 is this agent's own \
                   [[ingress]] in line 15, so calls come back there again and again; remove it";
    let own = text("dubbo", "dubbo://127.0.0.1:20880");
    assert_eq!(warnings(&own), [doubted]);
    let through_several = own.replace("registry = 'list'", "registry = 'both'");
    assert_eq!(warnings(&through_several), [doubted]);
    for (protocol, endpoint) in [
        ("dubbo", "dubbo://127.0.0.1:20881"),
        ("dubbo", "link://127.0.0.1:20880"),
        ("http", "dubbo://127.0.0.1:20880"),
    ] {
        assert_eq!(warnings(&text(protocol, endpoint)), [""; 0], "{endpoint}");
    }
}

#[test]
fn listeners_that_java_consumers_do_not_reach_are_told() {
    let dubbo = |registry: &str, keys: &str| {
        warnings(&format!(
            "[[registry]]\n{registry}\n[dubbo]\n{keys}\n\
             [[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\n\
             [[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:3'\n"
        ))
    };
    assert_eq!(
        dubbo("kind = 'etcd'", "listen = '127.0.0.1:20990'"),
        [
            "a.toml:4: dubbo.listen: 127.0.0.1 is registered in registry \"main\", but Java consumers \
          do not reach it, not even on this machine; write listen = \"0.0.0.0:20990\", and \
          advertise = with the address of this machine"
        ]
    );
    let v6 = dubbo("kind = 'etcd'", "listen = '[::1]:20990'");
    assert!(v6[0].contains("consumers on other machines do not reach it"), "{v6:?}");
    for (registry, keys) in [
        ("kind = 'memory'", "listen = '127.0.0.1:20990'"),
        ("kind = 'etcd'", "listen = '127.0.0.1:20990'\nadvertise = '10.0.0.5'"),
        ("kind = 'etcd'", "listen = '10.0.0.5:20990'"),
        ("kind = 'etcd'", "listen = 'unix:/run/a.sock'"),
    ] {
        assert_eq!(dubbo(registry, keys), [""; 0], "{registry} {keys}");
    }
    let ingress = |registry: &str, protocol: &str, listen: &str| {
        warnings(&format!(
            "[[registry]]\n{registry}\n[[ingress]]\nprotocol = '{protocol}'\nlisten = '{listen}'\n"
        ))
    };
    let told = ingress("kind = 'etcd'", "dubbo", "127.0.0.1:20880");
    assert!(told[0].starts_with("a.toml:5: ingress.listen: Java consumers do not"), "{told:?}");
    for (registry, protocol, listen) in [
        ("kind = 'file'\npath = 'x'", "dubbo", "127.0.0.1:20880"),
        ("kind = 'etcd'", "http", "127.0.0.1:20880"),
        ("kind = 'etcd'", "dubbo", "0.0.0.0:20880"),
    ] {
        assert_eq!(ingress(registry, protocol, listen), [""; 0], "{registry} {protocol} {listen}");
    }
}

#[test]
fn sockets_clash_by_their_path() {
    let unix = |path| {
        let good = GOOD.replace("127.0.0.1:20000", "unix:/run/a.sock");
        errors(&format!("{good}[[ingress]]\nprotocol = 'http'\nlisten = 'unix:{path}'"))
    };
    assert_eq!(unix("/run/b.sock"), Vec::<String>::new());
    let clash = unix("/run/a.sock");
    assert!(clash[0].contains("is already used by ingress.listen in line 5"), "{clash:?}");
    assert!(clash[0].ends_with("give each listener its own path"), "{clash:?}");
}

#[test]
fn all_interfaces_take_the_port_of_each() {
    for (a, b, clash) in [
        ("[::]:1", "1.2.3.4:1", true),
        ("0.0.0.0:1", "[::]:1", true),
        ("0.0.0.0:1", "[::1]:1", false),
        ("[::]:1", "[::1]:1", true),
        ("[::]:0", "[::]:0", false),
        ("1.2.3.4:1", "1.2.3.4:2", false),
    ] {
        let (a, b) = (a.parse().unwrap(), b.parse().unwrap());
        assert_eq!([share_a_port(a, b), share_a_port(b, a)], [clash; 2], "{a} {b}");
    }
}

#[test]
fn the_contests_layout_has_no_dubbo_consumers() {
    let rest =
        "[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\n[dubbo]\nlisten = '127.0.0.1:3'\n";
    let with = |layout| format!("[[registry]]\nkind = 'etcd'\nlayout = '{layout}'\n{rest}");
    assert_errors(&with("dubbo"), &[]);
    assert_errors(
        &with("contest"),
        &["a.toml:7: dubbo: layout \"contest\" of registry \"main\" cannot store it; remove \
           [dubbo], or use layout = \"dubbo\""],
    );
}

/// What only Unix sockets reach is not registered, so that a file will do.
#[test]
fn exports_by_sockets_alone_may_use_a_file() {
    let text = |listen: &str| {
        format!(
            "[[registry]]\nkind = 'file'\npath = 'x'\n[[export]]\ninterface = 'a.B'\n\
             app = 'dubbo://h:1'\n[link]\nlisten = '{listen}'\n"
        )
    };
    assert_errors(&text("unix:/run/a.sock"), &[]);
    let errors = errors(&text("127.0.0.1:3"));
    assert!(errors[0].contains("services cannot be registered in a file"), "{errors:?}");
}
