//! Files that are good, and for each thing that can be wrong the exact message.

use std::fs;
use std::path::Path;
use std::time::Duration;

use balance::Policy;
use registry::Layout;

use super::*;

/// An agent that does something, to be followed by what a test is about: lines 1 to 5.
pub(super) const GOOD: &str = "\
[[registry]]
kind = \"etcd\"
[[ingress]]
protocol = \"http\"
listen = \"127.0.0.1:20000\"
";

pub(super) fn errors(text: &str) -> Vec<String> {
    match parse(text, "a.toml") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.to_string().lines().map(str::to_owned).collect(),
    }
}

#[track_caller]
pub(super) fn assert_errors(text: &str, expected: &[&str]) {
    assert_eq!(errors(text), expected, "{text}");
}

/// What is wrong with lines behind [`GOOD`]; the first of them is line 6.
#[track_caller]
pub(super) fn assert_errors_behind_good(lines: &str, expected: &[&str]) {
    assert_errors(&format!("{GOOD}{lines}"), expected);
}

pub(super) fn changed(old: &str, new: &str) -> ReloadPlan {
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
    assert_eq!((etcd.user.as_deref(), &etcd.password), (Some("u"), &Some("p".into())));
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
            "a.toml:2: agent.name: found number 3, expected a string; write name = \"...\"",
            "a.toml:3: agent.wrokers: unknown key; did you mean \"workers\"?",
            "a.toml:5: log.level: \"loud\" is not a log level; write one of off, error, warn, \
             info, debug, trace, or a filter such as \"info,agent=debug\"",
            "a.toml:7: registry.kind: \"etc\" is not known; did you mean \"etcd\"? known values: \
             memory, file, static, etcd, zookeeper, nacos, kubernetes, several",
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
fn what_is_not_toml_is_told_with_its_line() {
    let errors = errors("[agent]\nname = \n[log]\nlevel = ]\n");
    assert!(errors[0].starts_with("a.toml:2: not TOML: "), "{errors:?}");
    assert!(errors.last().unwrap().starts_with("a.toml:4: not TOML: "), "{errors:?}");
    for value in ["file", "etcd", "true1", "inf2"] {
        let errors = self::errors(&format!("[[registry]]\nkind = {value}\n"));
        assert!(errors[0].starts_with("a.toml:2: not TOML: "), "{errors:?}");
        assert!(errors[0].ends_with("; a text needs quotes, such as key = \"text\""), "{errors:?}");
    }
    assert_eq!(parse("a = 1\na = 2", "a.toml").unwrap_err().as_slice()[0].line, 2);
}

#[test]
fn a_file_that_cannot_be_read() {
    let errors = load(Path::new("/no/such/file.toml")).unwrap_err();
    let text = errors.to_string();
    assert!(text.starts_with("/no/such/file.toml: cannot be read: No such file"), "{text}");
    let errors = load(Path::new("/")).unwrap_err();
    assert!(errors.to_string().starts_with("/: cannot be read: "), "{errors}");
    let errors = load(Path::new("/dev/zero")).unwrap_err();
    assert!(errors.to_string().contains(": cannot be read: it is not a regular file"), "{errors}");
    let file = tempfile::NamedTempFile::new().unwrap();
    for (bytes, expected) in [
        (
            vec![b'#'; (1 << 20) + 1],
            ": is longer than a configuration may be: 1048577 bytes are over the limit of \
             1048576; name the right file, or shorten this one",
        ),
        (
            b"[agent]\nname = 'M\xfcller'\n".into(),
            ":2: not UTF-8: byte 0xfc; save the file as UTF-8",
        ),
    ] {
        fs::write(file.path(), bytes).unwrap();
        let errors = load(file.path()).unwrap_err();
        assert_eq!(errors.to_string(), format!("{}{expected}", file.path().display()));
    }
}

#[test]
fn missing_keys() {
    assert_errors(
        "[[registry]]\n[[ingress]]\n[link]\n[[export]]\n[[cluster]]",
        &[
            "a.toml:1: registry.kind: is missing; write one of memory, file, static, etcd, zookeeper, nacos, kubernetes, several",
            "a.toml:2: ingress.protocol: is missing; write protocol = \"http\" or \"dubbo\"",
            "a.toml:2: ingress.listen: is missing; write IP:PORT such as \"127.0.0.1:20000\", or \"unix:\" and the path of a socket",
            "a.toml:3: link.listen: is missing; write IP:PORT such as \"127.0.0.1:20000\", or \"unix:\" and the path of a socket",
            "a.toml:4: export.interface: is missing; write a Java interface such as \
             \"com.acme.Orders\"",
            "a.toml:4: export.app: is missing; if the app speaks Dubbo, write \
             \"dubbo://127.0.0.1:20880\", \"dubbos://...\" (TLS) or \
             \"dubbo+unix:/run/users.sock\"; if it speaks HTTP, write \"http://127.0.0.1:8080\", \
             \"https://users.internal\" or \"unix:/run/users.sock\"",
            "a.toml:5: cluster.interface: is missing; write an interface such as \
             \"com.acme.Orders\", or \"com.acme.*\"",
        ],
    );
}

#[test]
fn the_longest_body_fits_into_the_memory() {
    let text = "[agent]\nmemory_bytes = 8388608\n[[registry]]\nkind = 'file'\npath = 'x'\n\
                [[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:1'\nmax_body_bytes = 5000000\n\
                write_timeout_ms = 7\n[defaults]\nmax_reply_bytes = 1000\n";
    assert_errors(
        text,
        &["a.toml:2: agent.memory_bytes: 8388608 is too small for ingress.max_body_bytes = \
             5000000: one connection may use at most half of it; write at least 10000000, or lower \
             ingress.max_body_bytes"],
    );
    let config = parse(&text.replace("5000000", "4000000"), "a.toml").unwrap();
    assert_eq!(config.process.memory_len, 8_388_608);
    assert_eq!(config.http[0].write_timeout, Duration::from_millis(7));
    let config = parse(&text.replace("memory_bytes = 8388608", ""), "a.toml").unwrap();
    assert!(10_000_000 <= config.process.memory_len);
}
