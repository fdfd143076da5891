use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::pages::ROUTES;
use super::*;
use crate::inspect::QuestionSender;
use crate::{config, metrics};

const NAMES: &[&str] = &["timeout"];

/// A filter that changes nothing.
struct Level(Mutex<String>);

impl LogLevel for Level {
    fn current(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    fn change(&self, filter: &str) -> Result<(), String> {
        config::check_log_filter(filter)?;
        filter.clone_into(&mut self.0.lock().unwrap());
        Ok(())
    }
}

/// Runs `client` against a server; both are gone afterwards.
fn with_server(client: impl FnOnce(SocketAddr, &AdminState) + Send + 'static) {
    with_registry("kind = 'file'\npath = 'x'\n", CertificateFiles::default(), client);
}

/// The same where the configuration has this registry.
fn with_registry(
    registry: &str,
    certificate_files: CertificateFiles,
    client: impl FnOnce(SocketAddr, &AdminState) + Send + 'static,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let hosts = ["mesh.example".to_owned()].into();
        let text = format!(
            "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n[[registry]]\n{registry}"
        );
        let config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
        let log_level: Arc<dyn LogLevel> = Arc::new(Level(Mutex::new("info".to_owned())));
        let state = AdminState {
            journal: crate::journal::Journal::default(),
            hub: Hub::new(NAMES),
            readiness: Readiness::new(),
            hosts,
            // A worker that never answers.
            inspector: Inspector::new([Box::new(std::mem::forget) as QuestionSender]),
            registries: Arc::from([]),
            describer: Describer::new(Arc::from([])),
            config: watch::Sender::new(Arc::new(config)).subscribe(),
            certificate_files,
            log_level: Some(log_level),
            started: Instant::now(),
        };
        let socket = wire::listen("127.0.0.1:0".parse().unwrap(), "admin.listen").unwrap();
        let listener = listener(socket.into(), Files::of_process(), &state.hub).unwrap();
        let address = listener.address().tcp().unwrap();
        let server = tokio::spawn(serve(listener, state.clone()));
        let client = tokio::task::spawn_blocking(move || client(address, &state));
        client.await.unwrap();
        server.abort();
    });
}

/// Sends `bytes` and reads until the server closes.
fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

fn get(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    exchange(address, request.as_bytes())
}

#[test]
fn every_route_answers() {
    with_server(|address, state| {
        let root = get(address, "/");
        assert!(root.starts_with("HTTP/1.1 200 OK\r\n") && root.ends_with(ROUTES), "{root}");
        assert!(get(address, "/healthz").ends_with("\r\n\r\nalive\n"));
        let _stats = state.hub.ingress("127.0.0.1:1");
        let reply = get(address, "/metrics");
        assert!(reply.contains(&format!("content-type: {}\r\n", metrics::CONTENT_TYPE)));
        assert!(reply.contains("dubmesh_ingress_in_flight{listener=\"127.0.0.1:1\"} 0\n"));
        let reply = get(address, "/nothing");
        assert!(reply.starts_with("HTTP/1.1 404 ") && reply.ends_with(ROUTES), "{reply}");
    });
}

/// As on a network file system whose server is away.
#[test]
fn a_certificate_that_cannot_be_read_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    std::fs::write(path("a.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(path("a.key"), key.serialize_pem()).unwrap();
    let registry = format!(
        "kind = 'zookeeper'\nendpoints = ['h:1']\ntls = true\ncert_file = '{}'\nkey_file = '{}'\n",
        path("a.pem"),
        path("a.key")
    );
    let (hangs, begun) = std::sync::mpsc::channel();
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let files = CertificateFiles::reading(move |file| {
        let _ = hangs.send(());
        let _ = wait.lock().unwrap().recv();
        crate::config::ShownChain::read(file)
    });
    with_registry(&registry, files, move |address, _| {
        let metric = "\ndubmesh_certificate_expiry_timestamp_seconds{";
        std::thread::scope(|scope| {
            let scrape = scope.spawn(|| get(address, "/metrics"));
            begun.recv().unwrap();
            assert!(get(address, "/healthz").ends_with("\r\n\r\nalive\n"));
            let reply = scrape.join().unwrap();
            assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && !reply.contains(metric), "{reply}");
        });
        drop(go_on);
        while !get(address, "/metrics").contains(metric) {}
        assert!(begun.try_recv().is_err(), "it was read once");
    });
}

#[test]
fn a_worker_that_does_not_answer_is_named_and_not_waited_for() {
    with_server(|address, _| {
        for page in ["/services", "/endpoints", "/connections", "/routes"] {
            // More often than it may owe answers.
            for n in 0..4 {
                let reply = get(address, page);
                assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{page} {n}: {reply}");
                assert!(reply.contains("\r\ncontent-type: application/json\r\n"), "{reply}");
                assert!(reply.contains("\r\ncache-control: no-store\r\n"), "{reply}");
                let page = r#"{"total":0,"truncated":false,"silent_workers":[0],"items":[]}"#;
                assert!(reply.ends_with(&format!("\r\n\r\n{page}\n")), "{reply}");
            }
        }
    });
}

#[test]
fn what_is_logged_can_be_read_and_changed() {
    with_server(|address, state| {
        let put = |headers: &str, body: &str| {
            let len = body.len();
            let request = format!(
                "PUT /loglevel HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 {headers}content-length: {len}\r\n\r\n{body}"
            );
            exchange(address, request.as_bytes())
        };
        assert!(get(address, "/loglevel").ends_with("\r\n\r\ninfo\n"));
        let reply = put("", "info,agent=debug\n");
        assert!(
            reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("\r\n\r\ninfo,agent=debug\n")
        );
        assert!(get(address, "/config").contains(r#""level":"info,agent=debug""#));
        for bad in ["loud", "", "agent=", "info,,", "\u{fffd}"] {
            let reply = put("", bad);
            assert!(reply.starts_with("HTTP/1.1 400 "), "{bad}: {reply}");
            assert!(reply.contains("is not a log level; write one of off, error,"), "{reply}");
        }
        assert!(put("", &"a".repeat(1025)).starts_with("HTTP/1.1 413 "));
        for page in ["origin: https://evil.example\r\n", "sec-fetch-site: cross-site\r\n"] {
            assert!(put(page, "off").starts_with("HTTP/1.1 403 "), "{page}");
        }
        let evil = b"PUT /loglevel HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\
                     content-length: 3\r\n\r\noff";
        assert!(exchange(address, evil).starts_with("HTTP/1.1 421 "));
        assert_eq!(state.log_level.as_ref().unwrap().current(), "info,agent=debug");
        let delete = b"DELETE /loglevel HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let reply = exchange(address, delete);
        assert!(reply.starts_with("HTTP/1.1 405 ") && reply.contains("allow: GET, HEAD, PUT\r\n"));
    });
}

#[test]
fn a_query_that_cannot_be_right_is_refused() {
    with_server(|address, _| {
        for (page, problem) in [
            ("/services?limit=0", "limit must be a number from 1 to 1000"),
            ("/services?limit=1001", "limit must be a number from 1 to 1000"),
            ("/services?svc=a", "unknown parameter; this page takes limit, service"),
            ("/routes?worker=0", "unknown parameter; this page takes limit, service"),
            ("/registries?service=a", "unknown parameter; this page takes limit\n"),
            ("/connections?direction=up", "direction must be downstream or upstream"),
            ("/connections?worker=x", "worker must be a number"),
            ("/describe", "write /describe?service="),
            ("/describe?service=a..b", "parts separated by dots; write /describe?service="),
            ("/describe?service=a.B&limit=1", "unknown parameter; write /describe?service="),
        ] {
            let reply = get(address, page);
            assert!(reply.starts_with("HTTP/1.1 400 ") && reply.contains(problem), "{reply}");
        }
    });
}

#[test]
fn readiness_tells_what_is_missing() {
    with_server(|address, state| {
        assert!(get(address, "/readyz").starts_with("HTTP/1.1 200 "));
        state.readiness.block("registry main", "not connected");
        state.readiness.block("link", "cannot listen");
        state.readiness.block("link", "starting");
        let reply = get(address, "/readyz");
        assert!(reply.starts_with("HTTP/1.1 503 "), "{reply}");
        assert!(reply.ends_with("\r\n\r\nlink: starting\nregistry main: not connected\n"));
        state.readiness.clear("registry main");
        state.readiness.clear("link");
        assert!(state.readiness.is_ready());
        assert!(get(address, "/readyz").ends_with("\r\n\r\nready\n"));
        state.readiness.drain();
        assert!(get(address, "/readyz").ends_with("\r\n\r\nagent: draining\n"));
        assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 "));
    });
}

#[test]
fn bad_requests_are_refused() {
    with_server(|address, _| {
        let post = b"POST /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let reply = exchange(address, post);
        assert!(reply.starts_with("HTTP/1.1 405 ") && reply.contains("allow: GET, HEAD\r\n"));
        assert!(reply.ends_with("only GET and HEAD are allowed here\n"), "{reply}");
        assert!(exchange(address, b"nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
        let mut long = b"GET / HTTP/1.1\r\nx: ".to_vec();
        // No more than is read, or the close would overtake the answer.
        long.resize(MAX_HEAD_LEN, b'a');
        assert!(exchange(address, &long).starts_with("HTTP/1.1 431 "));
    });
}

#[test]
fn a_name_that_somebody_else_has_given_is_refused() {
    with_server(|address, _| {
        let get = |hosts: &str| {
            let request = format!("GET /metrics HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
            exchange(address, request.as_bytes())
        };
        for good in ["localhost:9700", "127.0.0.1", "[::1]:9700", "10.1.2.3:9700", "Mesh.Example"] {
            let reply = get(&format!("host: {good}\r\n"));
            assert!(reply.starts_with("HTTP/1.1 200 "), "{good}: {reply}");
        }
        for bad in [
            "host: evil.example:9700\r\n",
            "host: a b\r\n",
            "host:\r\n",
            "",
            "host: localhost\r\nhost: localhost\r\n",
        ] {
            let reply = get(bad);
            assert!(reply.starts_with("HTTP/1.1 421 "), "{bad}: {reply}");
            assert!(reply.contains("hosts of [admin]"), "{reply}");
        }
    });
}

#[test]
fn head_has_no_body_and_the_connection_stays() {
    with_server(|address, _| {
        let two = b"HEAD /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n\
                    GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let reply = exchange(address, two);
        assert_eq!(reply.matches("HTTP/1.1 200 OK\r\n").count(), 2);
        assert_eq!(reply.matches("alive\n").count(), 1);
    });
}

/// HEAD is answered wherever GET is, and calls are shown to nobody by it.
#[test]
fn head_is_answered_where_calls_are_shown() {
    with_server(|address, _| {
        for (query, status) in [("", "200 OK"), ("?failed=maybe", "400 Bad Request")] {
            let request = format!(
                "HEAD /tap{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
            );
            let reply = exchange(address, request.as_bytes());
            assert!(reply.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{reply}");
            assert!(reply.ends_with("\r\n\r\n"), "{reply}");
        }
    });
}

/// Asks and leaves the connection open.
fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    while !reply.ends_with(b"alive\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        reply.push(byte[0]);
    }
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = (&*stream).read(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn silent_connections_make_room_for_new_ones() {
    with_server(|address, state| {
        let start = Instant::now();
        let mut asking = TcpStream::connect(address).unwrap();
        ask(&mut asking);
        let silent: Vec<_> =
            (1..MAX_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let counts = state.hub.connections(&address.to_string());
        while counts.n_open() < MAX_CONNECTIONS as u64 {
            std::thread::yield_now();
        }
        // All places are taken. Whoever asks is active, so the silent ones go first.
        ask(&mut asking);
        for n in 1..=3 {
            assert!(get(address, "/healthz").ends_with("alive\n"), "{n}");
        }
        assert!(start.elapsed() < HEAD_TIMEOUT, "it was not their own timeout that made room");
        assert!(silent.iter().any(|stream| !is_open(stream)));
        ask(&mut asking);
        assert!(counts.n_open() <= MAX_CONNECTIONS as u64);
        drop((silent, asking));
        while counts.n_open() != 0 {
            std::thread::yield_now();
        }
    });
}
