//! Unix sockets: every listener on one, and calls that go over one wherever they can.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Behaviour, FakeProvider, SERVICE, STRING, block_on, request, wait_until};
use agent::{Agent, StartError, config};

const PATIENCE: Duration = Duration::from_secs(10);

/// A folder of sockets and registry files.
struct SocketFolder(tempfile::TempDir);

impl SocketFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `unix:` and the path of a socket.
    fn unix(&self, name: &str) -> String {
        format!("unix:{}", self.path(name).display())
    }

    /// A registry file that lists one endpoint, as a section.
    fn registry(&self, name: &str, endpoint: &str) -> String {
        let path = self.path(name);
        let text = format!("[[service]]\ninterface = '{SERVICE}'\nendpoints = ['{endpoint}']\n");
        std::fs::write(&path, text).unwrap();
        format!("[[registry]]\nname = 'main'\nkind = 'file'\npath = '{}'\n", path.display())
    }

    fn start(&self, sections: &str) -> Agent {
        Agent::start(parse(sections)).unwrap()
    }
}

fn parse(sections: &str) -> config::Config {
    let has_admin = sections.contains("[admin]");
    let admin = if has_admin { "" } else { "[admin]\nenabled = false\n" };
    config::parse(&format!("{admin}{sections}"), "test.toml")
        .unwrap_or_else(|error| panic!("{error}"))
}

fn get(socket: &Path, page: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("GET {page} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn echo(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let call = request(&format!("/{SERVICE}/echo"), &[STRING, "connection: close"], "[\"x\"]");
    stream.write_all(call.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// HTTP, link and Dubbo TCP, each over a socket: an app calls its agent, that one the provider's
/// agent, that one its app, which is a third agent here, since that speaks Dubbo over a socket.
#[test]
fn a_call_goes_over_sockets_all_the_way() {
    let (folder, provider) = (SocketFolder::new(), FakeProvider::start(Behaviour::Good));
    let to_provider = folder.registry("tcp.toml", &format!("dubbo://{}", provider.addr));
    let app = folder.start(&format!(
        "{to_provider}[[ingress]]\nprotocol = 'dubbo'\nlisten = '{}'\n",
        folder.unix("app.sock")
    ));
    let nowhere = folder.registry("nowhere.toml", "dubbo://127.0.0.1:1");
    let exporting = folder.start(&format!(
        "{nowhere}[link]\nlisten = '{}'\n[[export]]\ninterface = '{SERVICE}'\napp = 'dubbo+{}'\n",
        folder.unix("link.sock"),
        folder.unix("app.sock")
    ));
    let over_link = folder.registry("link.toml", &format!("link+{}", folder.unix("link.sock")));
    let taking = folder.start(&format!(
        "[admin]\nlisten = '{}'\n{over_link}[[ingress]]\nprotocol = 'http'\nlisten = '{}'\n\
         socket_mode = '0600'\n",
        folder.unix("admin.sock"),
        folder.unix("http.sock")
    ));
    let http = folder.path("http.sock");
    assert_eq!(std::fs::metadata(&http).unwrap().permissions().mode() & 0o777, 0o600);
    let answer = wait_until("the call to pass", || {
        Some(echo(&http)).filter(|answer| answer.starts_with("HTTP/1.1 200"))
    });
    assert!(answer.ends_with("\"x\""), "{answer}");
    assert_eq!(provider.n_requests(), 1);

    let admin = folder.path("admin.sock");
    let connections = get(&admin, "/connections");
    let link = format!("\"peer\":\"{}\"", folder.unix("link.sock"));
    assert!(
        connections.contains("a local program") || connections.contains(&link),
        "{connections}"
    );
    let endpoints = get(&admin, "/endpoints");
    assert!(endpoints.contains(&folder.unix("link.sock")), "{endpoints}");
    let config = get(&admin, "/config");
    assert!(config.contains(&folder.unix("http.sock")) && config.contains("0600"), "{config}");
    let metrics = get(&admin, "/metrics");
    assert!(metrics.contains(&format!("listener=\"{}\"", folder.unix("http.sock"))), "{metrics}");

    // An ordinary end takes the sockets' files along.
    for agent in [taking, exporting, app] {
        assert!(block_on(agent.drain()).is_some_and(|summary| summary.complete));
    }
    for name in ["http.sock", "admin.sock", "link.sock", "app.sock"] {
        assert!(!folder.path(name).exists(), "{name}");
    }
}

/// A Dubbo provider on a socket, named in a registry file.
#[test]
fn a_dubbo_endpoint_may_be_a_socket() {
    let (folder, provider) = (SocketFolder::new(), FakeProvider::start(Behaviour::Good));
    let to_provider = folder.registry("tcp.toml", &format!("dubbo://{}", provider.addr));
    let _app = folder.start(&format!(
        "{to_provider}[[ingress]]\nprotocol = 'dubbo'\nlisten = '{}'\n",
        folder.unix("app.sock")
    ));
    let endpoint = format!("dubbo+{}?weight=7", folder.unix("app.sock"));
    let over_socket = folder.registry("socket.toml", &endpoint);
    let _taking = folder.start(&format!(
        "{over_socket}[[ingress]]\nprotocol = 'http'\nlisten = '{}'\n",
        folder.unix("http.sock")
    ));
    wait_until("the call to pass", || {
        echo(&folder.path("http.sock")).starts_with("HTTP/1.1 200").then_some(())
    });
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let folder = SocketFolder::new();
    let nowhere = folder.registry("nowhere.toml", "dubbo://127.0.0.1:1");
    let sections =
        format!("{nowhere}[[ingress]]\nprotocol = 'http'\nlisten = '{}'\n", folder.unix("a.sock"));
    let path = folder.path("a.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "its listener has ended without removing it");
    let agent = folder.start(&sections);
    assert!(get(&path, "/").starts_with("HTTP/1.1 4"));
    let refusal = |sections: &str| match Agent::start(parse(sections)) {
        Err(StartError::Listen(error)) => error.to_string(),
        other => panic!("{:?}", other.err()),
    };
    let text = refusal(&sections);
    assert!(text.contains("another process listens on this socket"), "{text}");
    assert!(get(&path, "/").starts_with("HTTP/1.1 4"), "the first one is not disturbed");
    drop(agent);
    assert!(!path.exists());

    std::fs::write(&path, "precious").unwrap();
    let text = refusal(&sections);
    assert!(text.contains("a file that is not a socket has this path"), "{text}");
    assert!(text.contains("ingress.listen"), "{text}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn what_cannot_be_a_socket_is_refused_with_its_line() {
    let long = format!("unix:/tmp/{}.sock", "a".repeat(100));
    for (keys, expected) in [
        (format!("listen = '{long}'"), "the path of a socket has at most 107 bytes"),
        ("listen = 'unix:a.sock'".to_owned(), "write an absolute path"),
        ("listen = 'unix:/tmp/a.sock'\nsocket_mode = '9'".to_owned(), "is not a file mode"),
        (
            "listen = '127.0.0.1:0'\nsocket_mode = '0600'".to_owned(),
            "works only with a Unix socket",
        ),
    ] {
        let text = format!(
            "[[registry]]\nkind = 'file'\npath = 'a.toml'\n[[ingress]]\nprotocol = 'http'\n{keys}\n"
        );
        let error = config::parse(&text, "test.toml").unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("test.toml:"), "{error}");
    }
    let twice = "[[registry]]\nkind = 'file'\npath = 'a.toml'\n\
                 [[ingress]]\nprotocol = 'http'\nlisten = 'unix:/tmp/a.sock'\n\
                 [[ingress]]\nprotocol = 'http'\nlisten = 'unix:/tmp/a.sock'\n";
    let error = config::parse(twice, "test.toml").unwrap_err().to_string();
    assert!(error.contains("give each listener its own path"), "{error}");
}
