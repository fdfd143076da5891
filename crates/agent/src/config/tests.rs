//! Files that are good, and for each thing that can be wrong the exact message.

use std::fs;
use std::time::Duration;

use balance::Policy;
use registry::Layout;

use super::*;

/// An agent that does something, to be followed by what a test is about: lines 1 to 5.
const GOOD: &str = "\
[[registry]]
kind = \"etcd\"
[[ingress]]
protocol = \"http\"
listen = \"127.0.0.1:20000\"
";

fn errors(text: &str) -> Vec<String> {
    match parse(text, "a.toml") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.to_string().lines().map(str::to_owned).collect(),
    }
}

#[track_caller]
fn assert_errors(text: &str, expected: &[&str]) {
    assert_eq!(errors(text), expected, "{text}");
}

/// What is wrong with lines behind [`GOOD`]; the first of them is line 6.
#[track_caller]
fn assert_errors_behind_good(lines: &str, expected: &[&str]) {
    assert_errors(&format!("{GOOD}{lines}"), expected);
}

fn changed(old: &str, new: &str) -> ReloadPlan {
    parse(old, "a.toml").unwrap().reload_difference(&parse(new, "a.toml").unwrap())
}

#[test]
fn the_examples_are_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let mut n_read = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        if let Err(errors) = load(&path) {
            panic!("{errors}");
        }
        n_read += 1;
    }
    assert_eq!(n_read, 4);
}

/// What a reader of the guide copies is what the tests run.
#[test]
fn the_guide_to_http_apps_shows_its_examples() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let guide = fs::read_to_string(docs.join("http-apps.md")).unwrap();
    let files = ["http-app.toml", "http-apps/users.js", "http-apps/users.py", "http-apps/users.go"];
    for file in files {
        let example = fs::read_to_string(docs.join("examples").join(file)).unwrap();
        assert!(guide.contains(&example), "docs/http-apps.md shows another {file}");
    }
}

#[test]
fn what_the_file_leaves_out_has_its_default() {
    let config = parse(GOOD, "a.toml").unwrap();
    assert!(!config.process.name.is_empty());
    assert_eq!(config.process.drain_timeout, Duration::from_secs(10));
    assert_eq!(config.log, LogConfig { filter: "info".into(), format: LogFormat::Text });
    assert_eq!(config.admin.unwrap().listen.to_string(), "127.0.0.1:9700");
    assert_eq!(config.registries[0].name, "main");
    let RegistryConfig::Etcd(etcd) = &config.registries[0].config else {
        panic!("not etcd");
    };
    assert_eq!(etcd.endpoints, ["http://127.0.0.1:2379"]);
    assert_eq!(etcd.layout, Layout::dubbo());
    assert!(etcd.tls.is_none());
    let ingress = &config.http[0];
    assert_eq!(ingress.registry, 0);
    assert_eq!((ingress.max_connections, ingress.max_body_len), (10_000, 8 << 20));
    assert_eq!((ingress.max_head_len, ingress.idle_timeout.as_secs()), (65_536, 75));
    assert_eq!((config.link, config.exports.len()), (None, 0));
    let policy = config.clusters.policy("com.acme.Orders");
    assert_eq!(policy.balance, Policy::Adaptive);
    assert_eq!((policy.timeout, policy.max_timeout.as_secs()), (None, 60));
    assert_eq!((policy.max_attempts, policy.max_in_flight), (3, 4096));
    assert_eq!((policy.hold.time.as_secs(), policy.hold.percent), (300, 50));
}

#[test]
fn holding_is_limited_and_can_be_switched_off() {
    let hold = |keys: &str| {
        let text = format!(
            "[[registry]]\nkind = 'etcd'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n[defaults]\n{keys}"
        );
        parse(&text, "agent.toml").map(|config| config.clusters.policy("a.B").hold)
    };
    let off = hold("hold_ms = 0\nhold_percent = 99").unwrap();
    assert!(off.time.is_zero() && off.percent == 99);
    for wrong in ["hold_ms = 3600001", "hold_ms = -1", "hold_percent = 100"] {
        assert!(hold(wrong).unwrap_err().to_string().contains("is out of range"), "{wrong}");
    }
}

#[test]
fn ejection_is_checked_and_can_be_switched_off() {
    let base =
        "[[registry]]\nkind = 'etcd'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    let read = |keys: &str| parse(&format!("{base}{keys}"), "a.toml");
    let outlier =
        |keys: &str, interface| read(keys).map(|config| config.clusters.policy(interface).outlier);
    let said = "[defaults]\neject_failures = 7\neject_error_percent = 30\neject_min_calls = 9\n\
                eject_window_ms = 2000\neject_silence_ms = 250\neject_ms = 300\neject_max_ms = 4000\n\
                eject_max_percent = 20\neject_exceptions = true\n\
                [[cluster]]\ninterface = 'a.B'\neject_failures = 0\neject_silence_ms = 0\n";
    let all = balance::OutlierPolicy {
        failures: 7,
        error_percent: 30,
        min_calls: 9,
        window: Duration::from_millis(2000),
        silence: Duration::from_millis(250),
        time: Duration::from_millis(300),
        max_time: Duration::from_millis(4000),
        max_percent: 20,
        exceptions: true,
    };
    assert_eq!(outlier(said, "b.B").unwrap(), all);
    let narrower = balance::OutlierPolicy { failures: 0, silence: Duration::ZERO, ..all };
    assert_eq!(outlier(said, "a.B").unwrap(), narrower, "the rest comes from the defaults");
    assert_eq!(outlier("", "a.B").unwrap(), super::defaults::OUTLIER);
    for wrong in [
        "eject_failures = 100001",
        "eject_error_percent = 101",
        "eject_min_calls = 0",
        "eject_window_ms = 0",
        "eject_silence_ms = -1",
        "eject_ms = 0",
        "eject_max_ms = 3600001",
        "eject_max_percent = 101",
    ] {
        let error = read(&format!("[defaults]\n{wrong}\n")).unwrap_err().to_string();
        assert!(error.contains("is out of range"), "{wrong}: {error}");
    }
    let crossed = read("[defaults]\neject_ms = 5000\neject_max_ms = 4000\n").unwrap_err();
    assert!(
        crossed.to_string().contains(
            "defaults.eject_ms: eject_ms, 5000 ms, is longer than eject_max_ms, 4000 ms; lower \
             eject_ms, or raise eject_max_ms"
        ),
        "{crossed}"
    );
    let error = read("[defaults]\neject_exceptions = 1\n").unwrap_err().to_string();
    assert!(error.contains("eject_exceptions"), "{error}");
}

#[test]
fn everything_can_be_said() {
    let text = "\
[agent]
name = 'a'
workers = 3
drain_ms = 5_000
[log]
level = 'warn,agent=debug'
format = 'json'
[admin]
enabled = false
[[registry]]
name = 'contest'
kind = 'etcd'
endpoints = ['http://a:2379', 'http://b:2379']
layout = 'contest'
root = 'mesh'
user = 'u'
password = 'p'
lease_ttl_s = 30
[link]
listen = '0.0.0.0:30880'
advertise = 'host-1:30881'
max_connections = 7
window = 8
[[export]]
interface = 'a.B'
app = 'dubbo://[::1]:20880'
serialization = 'fastjson'
weight = 300
[defaults]
balance = 'random'
timeout_ms = 500
[[cluster]]
interface = 'a.B'
max_attempts = 1
[[cluster]]
interface = 'a.*'
balance = 'round-robin'
";
    let config = parse(text, "a.toml").unwrap();
    assert_eq!((config.process.name.as_str(), config.process.workers.get()), ("a", 3));
    assert_eq!(config.process.drain_timeout, Duration::from_secs(5));
    assert_eq!(config.log.format, LogFormat::Json);
    assert!(config.admin.is_none());
    let RegistryConfig::Etcd(etcd) = &config.registries[0].config else {
        panic!("not etcd");
    };
    assert_eq!(etcd.layout, Layout::Contest { root: "mesh".into() });
    assert_eq!((etcd.user.as_deref(), etcd.password.as_deref()), (Some("u"), Some("p")));
    assert_eq!(etcd.lease_ttl, Duration::from_secs(30));
    let link = config.link.unwrap();
    assert_eq!(link.advertise.host.as_deref(), Some("host-1"));
    assert_eq!((link.advertise.port, link.max_connections, link.window), (Some(30881), 7, 8));
    let export = &config.exports[0];
    assert_eq!((export.app.address(), export.weight), ("[::1]:20880".into(), 300));
    assert_eq!(export.app.serializations(), [Serialization::Fastjson]);
    let policy = |interface| config.clusters.policy(interface);
    assert_eq!(policy("a.B").balance, Policy::Random);
    assert_eq!((policy("a.B").max_attempts, policy("a.BB").max_attempts), (1, 3));
    assert_eq!(policy("a.BB").balance, Policy::RoundRobin);
    assert_eq!(policy("b.B").balance, Policy::Random);
    assert_eq!(policy("a.BB").timeout, Some(Duration::from_millis(500)));
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let text = "\
[agent]
name = 3
wrokers = 2
[log]
level = 'loud'
[[registry]]
kind = 'etc'
[[ingress]]
protocol = 'htp'
listen = 'foo'
max_body_bytes = 0
head_timeout_ms = '10s'
[clusters]
";
    assert_errors(
        text,
        &[
            "a.toml:2: agent.name: found number 3, expected a text; write name = \"...\"",
            "a.toml:3: agent.wrokers: unknown key; did you mean \"workers\"?",
            "a.toml:5: log.level: \"loud\" is not a log level; write one of off, error, warn, \
             info, debug, trace, or for parts such as \"info,agent=debug\"",
            "a.toml:7: registry.kind: \"etc\" is not known; did you mean \"etcd\"? known values: \
             memory, file, etcd",
            "a.toml:9: ingress.protocol: \"htp\" is not known; did you mean \"http\"? known values: \
             http, dubbo",
            "a.toml:10: ingress.listen: \"foo\" is not an address; write IP:PORT such as \
             \"127.0.0.1:20000\", or \"unix:\" and the path of a socket",
            "a.toml:11: ingress.max_body_bytes: 0 is out of range; write a whole number from 1 to \
             1073741824",
            "a.toml:12: ingress.head_timeout_ms: found text \"10s\", expected a number; write a \
             whole number from 1 to 3600000",
            "a.toml:13: clusters: unknown section; did you mean \"cluster\"?",
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
fn what_is_not_toml_is_told_with_its_line() {
    let errors = errors("[agent]\nname = \n[log]\nlevel = ]\n");
    assert!(errors[0].starts_with("a.toml:2: not TOML: "), "{errors:?}");
    assert!(errors.last().unwrap().starts_with("a.toml:4: not TOML: "), "{errors:?}");
    assert_eq!(parse("a = 1\na = 2", "a.toml").unwrap_err().as_slice()[0].line, 2);
}

#[test]
fn a_file_that_cannot_be_read() {
    let errors = load(Path::new("/no/such/file.toml")).unwrap_err();
    let text = errors.to_string();
    assert!(text.starts_with("/no/such/file.toml: cannot be read: No such file"), "{text}");
    let errors = load(Path::new("/")).unwrap_err();
    assert!(errors.to_string().starts_with("/: cannot be read: "), "{errors}");
}

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
fn nothing_to_do() {
    let remedy = "add [[ingress]] to take calls, or [link] and [[export]] to offer a service";
    assert_errors("", &[&format!("a.toml: the agent has nothing to do; {remedy}")]);
}

#[test]
fn missing_keys() {
    assert_errors(
        "[[registry]]\n[[ingress]]\n[link]\n[[export]]\n[[cluster]]",
        &[
            "a.toml:1: registry.kind: is missing; write one of memory, file, etcd",
            "a.toml:2: ingress.protocol: is missing; write protocol = \"http\" or \"dubbo\"",
            "a.toml:2: ingress.listen: is missing; write IP:PORT such as \"127.0.0.1:20000\", or \"unix:\" and the path of a socket",
            "a.toml:3: link.listen: is missing; write IP:PORT such as \"127.0.0.1:20000\", or \"unix:\" and the path of a socket",
            "a.toml:4: export.interface: is missing; write a Java interface such as \
             \"com.acme.Orders\"",
            "a.toml:4: export.app: is missing; write where the app listens: \
             \"dubbo://127.0.0.1:20880\" if it speaks Dubbo TCP, \"dubbos://...\" if it does so over \
             TLS, \"dubbo+unix:/run/users.sock\" if it does so over a Unix socket; \"http://127.0.0.1:8080\", \"https://users.internal\" or \"unix:/run/users.sock\" if it speaks HTTP",
            "a.toml:5: cluster.interface: is missing; write an interface such as \
             \"com.acme.Orders\", or \"com.acme.*\"",
        ],
    );
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
    for clash in ["127.0.0.1:20000", "0.0.0.0:20000", "[::]:20000"] {
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
fn names_of_registries() {
    let two = format!("{GOOD}[[registry]]\nname = 'other'\nkind = 'etcd'\n");
    assert_errors(
        &two,
        &["a.toml:3: ingress.registry: is missing, and there are several registries; write \
           registry = \"...\" with one of main, other"],
    );
    assert_errors_behind_good(
        "registry = 'mian'",
        &["a.toml:6: ingress.registry: there is no registry \"mian\"; did you mean \"main\"?"],
    );
    assert_errors_behind_good(
        "registry = 'other'\n[[registry]]\nkind = 'etcd'",
        &[
            "a.toml:6: ingress.registry: there is no registry \"other\"; known registries: main, main",
            "a.toml:7: registry.name: \"main\" is the name of the registry in line 1; give each \
             registry a name of its own",
        ],
    );
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
    assert_errors_behind_good(
        link,
        &[
            "a.toml:6: link: nothing is exported over this listener; add [[export]], or remove [link]",
        ],
    );
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
fn addresses_that_others_cannot_use() {
    let export = "[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\n";
    assert_errors_behind_good(
        &format!("{export}[link]\nlisten = '0.0.0.0:3'\n"),
        &["a.toml:9: link.advertise: is missing; it is required because listen means all \
           interfaces; write the host that others reach, such as advertise = \"10.0.0.5\""],
    );
    let remedy = "write HOST or HOST:PORT such as \"10.0.0.5\" or \"10.0.0.5:30880\"";
    for (advertise, problem) in [
        ("0.0.0.0", "others cannot connect to 0.0.0.0: it means all interfaces"),
        ("[::]:5", "others cannot connect to ::: it means all interfaces"),
        ("a:0", "\"a:0\" is not a host: the port is not a number from 1 to 65535"),
        ("http://a", "\"http://a\" is not a host: the port is not a number from 1 to 65535"),
        (
            "a b",
            "\"a b\" is not a host: the host is neither a name nor an IP address (an IPv6 address stands in brackets)",
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
           registered in a file; export into a registry of kind \"etcd\"; for a file, write the endpoint into it \
           by hand"],
    );
    assert_errors(
        &format!("[[registry]]\nkind = 'memory'\n{rest}"),
        &["a.toml:1: registry.name: no ingress of this process uses this registry in \
           memory, so nobody sees what is exported here; a registry in memory ends with the process; use kind = \"etcd\" or \"file\""],
    );
    let memory = GOOD.replace("etcd", "memory");
    assert_errors(&format!("{memory}{rest}"), &[]);
    assert_eq!(errors(&memory).len(), 1);
}

#[test]
fn settings_of_etcd_that_contradict() {
    let etcd = |lines: &str| errors(&GOOD.replace("\"etcd\"\n", &format!("\"etcd\"\n{lines}\n")));
    let one = |lines: &str| {
        let errors = etcd(lines);
        assert_eq!(errors.len(), 1, "{lines}: {errors:?}");
        errors[0].clone()
    };
    assert!(one("user = 'u'").contains("registry.user: a user without a password; add"));
    assert!(one("password = 'p'").contains("registry.password: a password without a user; add"));
    assert!(one("endpoints = []").contains("registry.endpoints: is not a list of texts; write"));
    assert!(one("endpoints = ['a:1']").contains("\"a:1\" is not an address of etcd; write http"));
    assert!(one("root = '/a'").contains("registry.root: \"/a\" is not the first part of a key"));
    assert!(one("path = 'a'").contains("registry.path: does not belong here; remove it; only"));
    assert!(one("lease_ttl_s = 1").contains("1 is out of range; write a whole number from 3 to"));
    assert!(one("server_name = 'a'").contains("has no effect, because no endpoint is https"));
    assert!(one("endpoints = ['https://a:1']").contains("registry.ca_file: is missing, and https"));
    assert!(
        one("user = 'u'\npassword_file = '/no/file'").contains("cannot read /no/file: No such")
    );
    let both = etcd("endpoints = ['https://a:1', 'http://a:2']\nca_file = '/dev/null'");
    assert!(both[0].contains("some members use http, others https"), "{both:?}");
    let cert = "endpoints = ['https://a:1']\nca_file = '/dev/null'\ncert_file = '/dev/null'";
    assert!(one(cert).contains("registry.cert_file: is of no use without key_file; add key_file"));
    assert_eq!(etcd(&format!("{cert}\nkey_file = '/dev/null'")), Vec::<String>::new());
}

#[test]
fn secrets_and_paths_start_from_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "from file\n").unwrap();
    let path = folder.path().join("a.toml");
    let text = GOOD.replace("\"etcd\"", "\"etcd\"\nuser = 'u'\npassword_file = 'secret'");
    fs::write(&path, text).unwrap();
    let config = load(&path).unwrap();
    let RegistryConfig::Etcd(etcd) = &config.registries[0].config else {
        panic!("not etcd");
    };
    assert_eq!(etcd.password.as_deref(), Some("from file"));
    fs::write(&path, GOOD.replace("\"etcd\"", "\"file\"\npath = 'list.toml'")).unwrap();
    let config = load(&path).unwrap();
    let RegistryConfig::File { path } = &config.registries[0].config else {
        panic!("not a file");
    };
    assert_eq!(*path, folder.path().join("list.toml"));
}

#[test]
fn timeouts_that_contradict() {
    assert_errors_behind_good(
        "[defaults]\ntimeout_ms = 70_000\nconnect_timeout_ms = 0\n",
        &[
            "a.toml:7: defaults.timeout_ms: 70000 ms is longer than max_timeout_ms, 60000 ms; \
             write at most 60000, or raise max_timeout_ms",
            "a.toml:8: defaults.connect_timeout_ms: 0 is out of range; write a whole number from 1 \
             to 3600000",
        ],
    );
    assert_errors_behind_good(
        "[defaults]\ntimeout_ms = 10_000\n[[cluster]]\ninterface = 'a'\nmax_timeout_ms = 5_000\n",
        &[
            "a.toml:8: cluster.timeout_ms: 10000 ms is longer than max_timeout_ms, 5000 ms; write at \
           most 5000, or raise max_timeout_ms",
        ],
    );
}

#[test]
fn rules_that_never_match() {
    let rule = |interface| format!("[[cluster]]\ninterface = '{interface}'\n");
    let both = |first, second| format!("{}{}", rule(first), rule(second));
    assert_errors_behind_good(
        &both("a.*", "a.b.*"),
        &[
            "a.toml:9: cluster.interface: \"a.b.*\" is never reached: the first match wins, and line \
           7 matches all of it; put the narrower pattern first, or remove one",
        ],
    );
    assert_errors_behind_good(&both("a.b.*", "a.*"), &[]);
    assert_errors_behind_good(&both("a.B", "a.B*"), &[]);
    assert_eq!(errors(&format!("{GOOD}{}", both("a.B", "a.B"))).len(), 1);
    for bad in ["a.*.b", "a..*", "a b"] {
        assert_eq!(errors(&format!("{GOOD}{}", rule(bad))).len(), 1, "{bad}");
    }
}

#[test]
fn reload_tells_what_changes_at_once() {
    let plan = changed(GOOD, GOOD);
    assert!(plan.is_empty(), "{plan:?}");
    let link = "[link]\nlisten = '127.0.0.1:3'\n";
    let export = "[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\n";
    let old = format!("{GOOD}{link}{export}");
    let new = format!(
        "{old}weight = 7\n[log]\nlevel = 'debug'\n[defaults]\nmax_attempts = 1\n[[cluster]]\n\
         interface = 'a.B'"
    );
    let plan = changed(&old, &new);
    assert_eq!(plan.changed, ["log.level", "defaults", "cluster", "export.weight of a.B"]);
    assert_eq!(plan.needs_restart, [""; 0]);
}

#[test]
fn reload_tells_what_needs_a_restart() {
    let link = "[link]\nlisten = '127.0.0.1:3'\n";
    let export = "[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'\n";
    let other = "[[export]]\ninterface = 'a.C'\napp = 'dubbo://h:1'\n";
    let old = format!("{GOOD}{link}{export}");
    let new = format!("{GOOD}{link}{export}{other}[agent]\nname = 'new'\n[log]\nformat = 'json'\n[admin]\nenabled = false")
        .replace("\"etcd\"", "\"etcd\"\nlease_ttl_s = 20")
        .replace(":20000", ":20001")
        .replace("0.1:3", "0.1:4")
        .replace("h:1", "h:2");
    let plan = changed(&old, &new);
    assert_eq!(plan.changed, [""; 0]);
    assert_eq!(
        plan.needs_restart,
        [
            "agent.name",
            "log.format",
            "admin",
            "registry",
            "ingress",
            "link",
            "export of a.B",
            "new export of a.C"
        ]
    );
    let plan = changed(&new, &old);
    assert_eq!(plan.needs_restart.last().unwrap(), "removed export of a.C");
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
        ("origins = ['*', 'null']", "\"*\" is for all origins"),
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

#[test]
fn passwords_are_not_shown() {
    for line in [
        "endpoints = ['http://root:s3cret@h:2379']",
        "endpoints = ['http://root:s3@cret@h:2379']",
        "endpoints = ['root:s3cret@h:2379']",
        "user = 'u'\npassword = 12345",
        "user = 'u'\npassword = ['s3cret']",
    ] {
        let text = GOOD.replace("\"etcd\"", &format!("\"etcd\"\n{line}"));
        let errors = errors(&text);
        assert!(!errors.is_empty());
        assert!(
            errors.iter().all(|it| !it.contains("cret") && !it.contains("12345")),
            "{errors:?}"
        );
    }
    let app = "[link]\nlisten = \"127.0.0.1:30880\"\n[[export]]\ninterface = 'a.B'\napp = 'http://u:s3cret@h'";
    let errors = errors(&format!("{GOOD}{app}"));
    assert!(errors[0].contains("\"http://***@h\" is not the address"), "{errors:?}");
}

#[test]
fn secrets_that_all_may_read_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (secret, file) = (folder.path().join("secret"), folder.path().join("a.toml"));
    fs::write(&secret, "x").unwrap();
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let warnings = |keys: &str, modes: [u32; 2]| {
        fs::write(&file, GOOD.replace("\"etcd\"", &format!("\"etcd\"\nuser = 'u'\n{keys}")))
            .unwrap();
        set_mode(&secret, modes[0]);
        set_mode(&file, modes[1]);
        load(&file).unwrap().warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let in_file = "password_file = 'secret'";
    let open = warnings(in_file, [0o644, 0o644]);
    assert_eq!(open.len(), 1);
    let said = format!(
        "a.toml:4: registry.password_file: every user may read {} (mode 644); chmod o-r {}",
        secret.display(),
        secret.display()
    );
    assert!(open[0].ends_with(&said), "{open:?}");
    assert_eq!(warnings(in_file, [0o640, 0o644]), Vec::<String>::new());
    let direct = warnings("password = 'x'", [0o600, 0o644]);
    assert!(
        direct.len() == 1 && direct[0].contains("registry.password: every user may read"),
        "{direct:?}"
    );
    assert_eq!(warnings("password = 'x'", [0o644, 0o600]), Vec::<String>::new());
}

#[test]
fn the_longest_body_fits_into_the_memory() {
    let text = "[agent]\nmemory_bytes = 8388608\n[[registry]]\nkind = 'file'\npath = 'x'\n\
                [[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:1'\nmax_body_bytes = 5000000\n\
                write_timeout_ms = 7\n[defaults]\nmax_reply_bytes = 1000\n";
    assert_errors(
        text,
        &[
            "a.toml:2: agent.memory_bytes: 8388608 is too little for ingress.max_body_bytes = 5000000: \
           one connection may use half of it; write at least 10000000, or lower ingress.max_body_bytes",
        ],
    );
    let config = parse(&text.replace("5000000", "4000000"), "a.toml").unwrap();
    assert_eq!(config.process.memory_len, 8_388_608);
    assert_eq!(config.http[0].write_timeout, Duration::from_millis(7));
    let config = parse(&text.replace("memory_bytes = 8388608", ""), "a.toml").unwrap();
    assert!(10_000_000 <= config.process.memory_len);
}
