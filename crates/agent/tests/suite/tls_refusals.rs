//! What is said when TLS does not come about, on every kind of listener and upstream. What HTTP
//! apps do is in `http_tls.rs`, what etcd does in the tests of `registry`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support;
use crate::support::log::log;
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, block_on, call, consumer_with_metrics,
    register, register_link, start, wait_until,
};
use agent::inspect::snapshot::{EndpointSnapshot, Page};
use agent::{Agent, config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use registry::MemoryHub;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, RootCertStore, server::WebPkiClientVerifier};
use wire::tls::{Certificate, ClientTls, ClientTlsConfig, Pem};
use wire::{Connection, Destination};

const PATIENCE: Duration = Duration::from_secs(10);

/// A folder with two authorities that have nothing to do with each other, `ca.pem` and
/// `other.pem`, and certificates: `good` and `expired` for 127.0.0.1, `named` for another name,
/// all of the first authority; and `stranger` of the second.
struct RefusalCertificates(tempfile::TempDir);

impl RefusalCertificates {
    fn new() -> Self {
        let all = Self(tempfile::tempdir().unwrap());
        let (ca, other) = (all.authority("ca"), all.authority("other"));
        all.certificate("good", &ca, "127.0.0.1", false);
        all.certificate("expired", &ca, "127.0.0.1", true);
        all.certificate("named", &ca, "users.internal", false);
        all.certificate("stranger", &other, "127.0.0.1", false);
        all
    }

    fn authority(&self, name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), ca.pem()).unwrap();
        ca
    }

    fn certificate(
        &self,
        name: &str,
        authority: &CertifiedIssuer<'static, KeyPair>,
        host: &str,
        is_expired: bool,
    ) {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        if is_expired {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let pem = params.signed_by(&key, authority).unwrap().pem();
        std::fs::write(self.path(&format!("{name}.pem")), pem).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// The keys of a listener that shows this certificate, and asks clients for theirs.
    fn listener(&self, name: &str) -> String {
        format!("{}ca_file = '{}'\n", self.shown(name), self.path("ca.pem"))
    }

    fn shown(&self, name: &str) -> String {
        let (cert, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        format!("cert_file = '{cert}'\nkey_file = '{key}'\n")
    }

    fn client(&self, ca: &str, shown: Option<&str>, protocols: wire::tls::Protocols) -> ClientTls {
        let pem = |name: String| Pem::file(Path::new(&self.path(&name)));
        let certificate = shown.map(|name| Certificate {
            chain: pem(format!("{name}.pem")),
            key: pem(format!("{name}.key")),
        });
        let config =
            ClientTlsConfig { ca: pem(format!("{ca}.pem")), certificate, server_name: None };
        ClientTls::new(config, protocols).unwrap()
    }

    /// A server that shows `name`, and takes clients with certificates of `clients` alone.
    fn acceptor(&self, name: &str, clients: Option<&str>) -> TlsAcceptor {
        let read = |name: &str| std::fs::read(self.path(name)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = read(&format!("{name}.pem"));
        let chain = CertificateDer::pem_slice_iter(&chain).map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(&read(&format!("{name}.key"))).unwrap();
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                let authority = read(&format!("{authority}.pem"));
                roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
                let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(clients.build().unwrap())
            }
        };
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![link::tls::ALPN.to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A client that was not served.
struct RefusedClient {
    /// Its own address, which another one may have had before.
    address: SocketAddr,
    /// So many lines were in the log when it came.
    n_lines: usize,
}

/// The line of the log that says why a listener has closed the connection of `client`.
fn logged(listener: &str, client: &RefusedClient) -> String {
    let carries = listener.split(' ').next().unwrap_or_default();
    let (of_listener, of_client) =
        (format!("{carries} connection "), format!("of {} is closed", client.address));
    wait_until("a line of the log", || {
        let lines = log().lock().unwrap();
        let is_it = |line: &&String| line.contains(&of_listener) && line.contains(&of_client);
        lines[client.n_lines..].iter().find(is_it).cloned()
    })
}

/// An agent with TLS on each of its listeners. They show `name`, and take only clients that have a
/// certificate.
fn listening(certificates: &RefusalCertificates, name: &str, app: SocketAddr) -> Agent {
    let tls = certificates.listener(name);
    let text = format!(
        "[admin]\nlisten = '127.0.0.1:0'\n[admin.tls]\n{tls}[agent]\nworkers = 1\ndrain_ms = 5000\n\
         [[registry]]\nname = 'main'\nkind = 'etcd'\nendpoints = ['http://127.0.0.1:1']\n\
         [[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n[ingress.tls]\n{tls}\
         [[ingress]]\nprotocol = 'dubbo'\nlisten = '127.0.0.1:0'\n[ingress.tls]\n{tls}\
         [link]\nlisten = '127.0.0.1:0'\n[link.tls]\n{tls}\
         [dubbo]\nlisten = '127.0.0.1:0'\napplication = 'shop'\n[dubbo.tls]\n{tls}\
         [[export]]\ninterface = '{SERVICE}'\napp = 'dubbo://{app}'\n"
    );
    start(&text, &MemoryHub::new())
}

/// The listeners, by name, with what their clients say by ALPN.
fn listeners(agent: &Agent) -> [(&'static str, SocketAddr, wire::tls::Protocols); 5] {
    let addresses = agent.addresses();
    [
        ("http", addresses.http[0], &[b"http/1.1"]),
        ("dubbo ingress", addresses.dubbo[0], &[]),
        ("dubbo exports", addresses.dubbo_exports.unwrap(), &[]),
        ("link", addresses.link.unwrap(), &[link::tls::ALPN]),
        ("admin", addresses.admin.unwrap(), &[b"http/1.1"]),
    ]
}

/// Connects, and reads until the listener ends the connection. Gives the client, and why it was
/// not served.
fn refused(address: SocketAddr, tls: Option<ClientTls>) -> (RefusedClient, String) {
    let n_lines = log().lock().unwrap().len();
    block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let own = RefusedClient { address: stream.local_addr().unwrap(), n_lines };
        let connection = Connection::outgoing(stream, "test").unwrap();
        let mut connection = match tls {
            None => {
                let mut plain = connection;
                plain.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
                plain
            }
            Some(tls) => match tls.connect("127.0.0.1", connection).await {
                Ok(connection) => connection,
                Err(error) => return (own, error.to_string()),
            },
        };
        // TLS 1.3 tells a client only after its handshake what is wrong with its certificate.
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut answer)).await;
        let why = match read.expect("an end") {
            Ok(_) => String::from_utf8_lossy(&answer).into_owned(),
            Err(error) => wire::tls::words(&error, "server").unwrap_or_else(|| error.to_string()),
        };
        (own, why)
    })
}

#[test]
fn every_listener_says_which_clients_it_does_not_take() {
    log();
    let certificates = RefusalCertificates::new();
    let app = FakeProvider::start(Behaviour::Good);
    let agent = listening(&certificates, "good", app.addr);
    for (listener, address, protocols) in listeners(&agent) {
        for (shown, in_log, to_client) in [
            (None, "the client showed no certificate", "requires a certificate"),
            (Some("stranger"), "not come from a trusted authority", "refused our certificate"),
            (Some("expired"), "the client's certificate is out of date", "refused our certificate"),
        ] {
            let tls = certificates.client("ca", shown, protocols);
            let (client, why) = refused(address, Some(tls));
            assert!(why.contains(to_client), "{listener}, {shown:?}: {why}");
            let line = logged(listener, &client);
            assert!(line.contains(in_log), "{listener}, {shown:?}: {line}");
        }
        let (client, why) = refused(address, None);
        assert!(!why.starts_with("HTTP"), "{listener}: {why}");
        assert!(logged(listener, &client).contains("the client does not speak TLS"), "{listener}");
    }
}

/// What comes to a listener for links, or for Dubbo, that is none: one line says what it seems to
/// be.
#[test]
fn a_listener_says_who_speaks_something_else() {
    log();
    let app = FakeProvider::start(Behaviour::Good);
    let text = format!(
        "[agent]\nworkers = 1\n[[registry]]\nname = 'main'\nkind = 'etcd'\n\
         endpoints = ['http://127.0.0.1:1']\n[link]\nlisten = '127.0.0.1:0'\n\
         [[ingress]]\nprotocol = 'dubbo'\nlisten = '127.0.0.1:0'\n\
         [[export]]\ninterface = '{SERVICE}'\napp = 'dubbo://{}'\n",
        app.addr
    );
    let agent = start(&text, &MemoryHub::new());
    let links = ("link", agent.addresses().link.unwrap());
    let consumers = ("dubbo", agent.addresses().dubbo[0]);
    let (http, http2) =
        (&b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..], &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..]);
    let tls = &b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\0\0\0\0\0"[..];
    for ((listener, address), bytes, words) in [
        (links, http, "the peer seems to speak HTTP"),
        (links, http2, "the peer seems to speak HTTP"),
        (links, tls, "the peer speaks TLS, but this"),
        (
            links,
            b"\xda\xbb\xc2\0\0\0\0\0\0\0\0\x01\0\0\0\0",
            "the peer speaks Dubbo's own protocol",
        ),
        (links, &[0xff; 40], "is the peer a link?"),
        (consumers, http, "the peer seems to speak HTTP"),
        (consumers, http2, "the peer seems to speak HTTP"),
        (consumers, tls, "the peer speaks TLS, but this"),
        (consumers, &[0xff; 40], "magic is 0xffff, expected 0xdabb"),
    ] {
        let n_lines = log().lock().unwrap().len();
        let client = block_on(async {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let own = RefusedClient { address: stream.local_addr().unwrap(), n_lines };
            stream.write_all(bytes).await.unwrap();
            // The end may be a reset, for what was sent is not read to its end.
            let mut rest = Vec::new();
            let end = stream.read_to_end(&mut rest);
            let _ = tokio::time::timeout(PATIENCE, end).await.expect("an end");
            own
        });
        let line = logged(listener, &client);
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn every_listener_says_which_clients_do_not_take_it() {
    log();
    let certificates = RefusalCertificates::new();
    let app = FakeProvider::start(Behaviour::Good);
    for (name, ca, to_client) in [
        ("expired", "ca", "the server's certificate is out of date"),
        ("named", "ca", "the server's certificate is for another name"),
        ("good", "other", "the server's certificate does not come from a trusted authority"),
    ] {
        let agent = listening(&certificates, name, app.addr);
        for (listener, address, protocols) in listeners(&agent) {
            let tls = certificates.client(ca, Some("good"), protocols);
            let (client, why) = refused(address, Some(tls));
            assert!(why.contains(to_client), "{listener}, {name}: {why}");
            let line = logged(listener, &client);
            assert!(line.contains("the client refused our certificate"), "{listener}: {line}");
        }
    }
}

/// A server that speaks TLS as told; one that closes, as Dubbo does with what it cannot read; or
/// one that answers in plain text.
enum ScriptedServer {
    Tls(TlsAcceptor),
    Closes,
    Plain,
}

/// Serves until the test ends.
fn serve(server: ScriptedServer) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        block_on(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut hello = [0; 16];
                match &server {
                    ScriptedServer::Tls(acceptor) => {
                        if let Ok(mut stream) = acceptor.accept(stream).await {
                            let _ = stream.read(&mut hello).await;
                        }
                    }
                    ScriptedServer::Closes => {
                        let mut nowhere = vec![0; 4096];
                        let _ = stream.read(&mut nowhere).await;
                    }
                    ScriptedServer::Plain => {
                        let _ = stream.read(&mut hello).await;
                        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
                        let _ = stream.shutdown().await;
                    }
                }
            }
        });
    });
    address
}

/// Why the only endpoint is down.
fn why(agent: &Agent) -> String {
    let admin = agent.addresses().admin.unwrap();
    wait_until("a reason", || {
        let mut http = Http::connect(admin);
        http.send("GET /endpoints HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        let page: Page<EndpointSnapshot> = serde_json::from_str(&http.read().body).unwrap();
        page.items.first()?.why.first().cloned()
    })
}

#[test]
fn every_upstream_says_why_there_is_no_tls() {
    let certificates = RefusalCertificates::new();
    let tls = |name, clients| ScriptedServer::Tls(certificates.acceptor(name, clients));
    let mut addresses = HashMap::new();
    for (case, server, expected) in [
        ("expired", tls("expired", None), "the server's certificate is out of date"),
        ("another name", tls("named", None), "the server's certificate is for another name"),
        ("stranger", tls("stranger", None), "does not come from a trusted authority"),
        ("no certificate", tls("good", Some("ca")), "requires a certificate, but none was shown"),
        ("plain", ScriptedServer::Plain, "the server does not speak TLS"),
        ("closes", ScriptedServer::Closes, "closed the connection during the TLS handshake"),
    ] {
        addresses.insert(case, (serve(server), expected));
    }
    for (case, (address, expected)) in &addresses {
        for protocol in ["dubbo", "link"] {
            let hub = MemoryHub::new();
            let _registered = match protocol {
                "dubbo" => register(&hub, *address),
                _ => register_link(&hub, *address),
            };
            let ca = certificates.path("ca.pem");
            let sections = format!("[defaults.tls]\nendpoints = 'all'\nca_file = '{ca}'\n");
            let agent = consumer_with_metrics(&hub, &sections);
            let answer = call(&agent, "echo", &[STRING, "x-dubbo-timeout-ms: 3000"], "[\"a\"]");
            // By TLS 1.3, a client learns only after its handshake that its certificate is missed.
            // Dubbo's has sent the call by then.
            assert!([502, 503].contains(&answer.status), "{protocol}, {case}: {answer:?}");
            assert!(answer.body.contains(expected), "{protocol}, {case}: {answer:?}");
            let why = why(&agent);
            assert!(why.contains(expected), "{protocol}, {case}: {why}");
        }
    }
}

#[test]
fn a_unix_socket_can_have_tls() {
    let certificates = RefusalCertificates::new();
    let socket = certificates.path("http.sock");
    let app = FakeProvider::start(Behaviour::Good);
    let hub = MemoryHub::new();
    let _registered = register(&hub, app.addr);
    let tls = certificates.listener("good");
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 1\ndrain_ms = 5000\n\
         [[registry]]\nname = 'main'\nkind = 'file'\npath = 'x'\n\
         [[ingress]]\nprotocol = 'http'\nlisten = 'unix:{socket}'\n[ingress.tls]\n{tls}"
    );
    assert!(config::parse(&text, "a.toml").is_ok());
    let _agent = start(&text, &hub);
    let body = "[\"hello\"]";
    let headers = ["content-type: application/json", "connection: close", STRING];
    let request = support::request(&format!("/{SERVICE}/echo"), &headers, body);
    let answer = wait_until("a call", || {
        let answer = block_on(async {
            let stream = UnixStream::connect(&socket).await.unwrap();
            let tls = certificates.client("ca", Some("good"), &[b"http/1.1"]);
            let plain = Connection::outgoing_unix(stream, "test");
            let mut stream = tls.connect("127.0.0.1", plain).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        });
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    });
    assert!(answer.ends_with("\"hello\""), "{answer}");
    // Who speaks no TLS there is not served.
    let plain = block_on(async {
        let destination = Destination::Unix(socket.into());
        let mut stream = destination.connect("test", PATIENCE).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer
    });
    assert!(!plain.starts_with(b"HTTP"), "{plain:?}");
}
