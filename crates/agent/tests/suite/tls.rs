//! TLS on every kind of listener and upstream, by configuration alone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::support;
use crate::support::{
    Behaviour, FakeProvider, SERVICE, STRING, block_on, metric, register, request, wait_until,
};
use agent::{Agent, config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use registry::{MemoryHub, RegistryConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::tls::{Certificate, ClientTls, ClientTlsConfig, Pem};
use wire::{Connection, Destination, SocketOptions};

const PATIENCE: Duration = Duration::from_secs(10);

/// A folder with an authority (`ca.pem`), and a certificate of it for 127.0.0.1 (`own.pem`,
/// `own.key`).
struct Certificates(tempfile::TempDir);

impl Certificates {
    fn new() -> Self {
        let all = Self(tempfile::tempdir().unwrap());
        all.renew();
        all
    }

    /// Writes another authority and another certificate.
    fn renew(&self) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = params.signed_by(&key, &ca).unwrap();
        std::fs::write(self.path("ca.pem"), ca.pem()).unwrap();
        std::fs::write(self.path("own.pem"), own.pem()).unwrap();
        std::fs::write(self.path("own.key"), key.serialize_pem()).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// The keys of a certificate of ours.
    fn own(&self) -> String {
        let (cert, key) = (self.path("own.pem"), self.path("own.key"));
        format!("cert_file = '{cert}'\nkey_file = '{key}'\n")
    }

    /// The same, with the authority of the others.
    fn both(&self) -> String {
        format!("{}ca_file = '{}'\n", self.own(), self.path("ca.pem"))
    }

    fn client(&self, shows_own: bool) -> ClientTls {
        let pem = |name| Pem::file(Path::new(&self.path(name)));
        let certificate =
            shows_own.then(|| Certificate { chain: pem("own.pem"), key: pem("own.key") });
        let config = ClientTlsConfig { ca: pem("ca.pem"), certificate, server_name: None };
        ClientTls::new(config, &[b"http/1.1"]).unwrap()
    }
}

fn read_config(text: &str, hub: &MemoryHub) -> config::Config {
    let mut config = config::parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    for registry in &mut config.registries {
        registry.config = RegistryConfig::Memory(hub.clone());
    }
    config
}

fn start(hub: &MemoryHub, sections: &str) -> Agent {
    Agent::start(read_config(&with_registry(sections), hub)).unwrap()
}

fn with_registry(sections: &str) -> String {
    format!(
        "[agent]\nworkers = 1\ndrain_ms = 5000\n[[registry]]\nname = \"main\"\nkind = \"etcd\"\n\
         endpoints = [\"http://127.0.0.1:1\"]\n{sections}"
    )
}

async fn connect(address: SocketAddr, tls: Option<ClientTls>) -> std::io::Result<Connection> {
    let (host, port) = (address.ip().to_string(), address.port());
    Destination::Tcp { host, port, options: SocketOptions::default(), tls }
        .connect("test", PATIENCE)
        .await
}

/// Asks for a page or makes a call; what was answered, head and body, until the server closes.
fn ask(address: SocketAddr, tls: ClientTls, request: &str) -> std::io::Result<String> {
    block_on(async {
        let mut stream = connect(address, Some(tls)).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    })
}

fn hello(address: SocketAddr, tls: ClientTls) -> std::io::Result<String> {
    let headers = ["content-type: application/json", "connection: close", STRING];
    ask(address, tls, &request(&format!("/{SERVICE}/echo"), &headers, "[\"hello\"]"))
}

/// A caller by HTTPS, an agent, a link by TLS with certificates on both sides, an agent, Dubbo by
/// TLS, an agent, and the app. The admin listener of the first is by TLS, too.
#[test]
fn every_hop_can_be_tls() {
    let certificates = Certificates::new();
    let (app, own, both) =
        (FakeProvider::start(Behaviour::Good), certificates.own(), certificates.both());
    let no_admin = "[admin]\nenabled = false\n";
    let (first_hub, second_hub) = (MemoryHub::new(), MemoryHub::new());
    let offering = start(
        &first_hub,
        &format!(
            "{no_admin}[dubbo]\nlisten = \"127.0.0.1:0\"\n[dubbo.tls]\n{own}\
             [[export]]\ninterface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n",
            app.addr
        ),
    );
    let dubbos = offering.addresses().dubbo_exports.unwrap();
    let _passing = start(
        &second_hub,
        &format!(
            "{no_admin}[link]\nlisten = \"127.0.0.1:0\"\n[link.tls]\n{both}\
             [[export]]\ninterface = \"{SERVICE}\"\napp = \"dubbos://{dubbos}\"\nca_file = '{}'\n",
            certificates.path("ca.pem")
        ),
    );
    let calling = start(
        &second_hub,
        &format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[admin.tls]\n{own}\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n[ingress.tls]\n{own}\
             [[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:0\"\n[ingress.tls]\n{both}\
             [defaults.tls]\n{both}"
        ),
    );
    let addresses = calling.addresses();
    let answer = wait_until("a call through all of them", || {
        let answer = hello(addresses.http[0], certificates.client(false)).unwrap();
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    });
    assert!(answer.ends_with("\"hello\""), "{answer}");
    let health = "GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
    let answer = ask(addresses.admin.unwrap(), certificates.client(false), health).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The listener for Dubbo asks for a certificate: who has none is told so, in TLS's words.
    let refused = ask(addresses.dubbo[0], certificates.client(false), "x").unwrap_err().to_string();
    assert!(refused.contains("requires a certificate"), "{refused}");
}

/// What TLS has of an answer waits as well: a caller who does not read it is left.
#[test]
fn who_does_not_read_by_tls_is_left() {
    let certificates = Certificates::new();
    let (app, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = register(&hub, app.addr);
    let agent = start(
        &hub,
        &format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[[ingress]]\nprotocol = \"http\"\n\
             listen = \"127.0.0.1:0\"\nwrite_timeout_ms = 300\n[ingress.tls]\n{}",
            certificates.own()
        ),
    );
    let address = agent.addresses().http[0];
    wait_until("the first endpoint", || {
        hello(address, certificates.client(false)).ok()?.contains(" 200 ").then_some(())
    });
    let text = "x".repeat(4 << 20);
    let long = request(&format!("/{SERVICE}/echo"), &[STRING], &format!("[\"{text}\"]"));
    block_on(async {
        let mut stream = connect(address, Some(certificates.client(false))).await.unwrap();
        stream.write_all(long.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let used = || metric(&agent, "dubmesh_memory_used_bytes");
        wait_until("the answer", || (text.len() as u64 / 2 < used()).then_some(()));
        wait_until("the end of the connection", || (used() == 0).then_some(()));
        drop(stream);
    });
}

#[test]
fn who_speaks_no_tls_or_is_silent_holds_up_nobody() {
    let certificates = Certificates::new();
    let (app, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = support::register(&hub, app.addr);
    let agent = start(
        &hub,
        &format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[[ingress]]\nprotocol = \"http\"\n\
             listen = \"127.0.0.1:0\"\n[ingress.tls]\nhandshake_timeout_ms = 300\n{}",
            certificates.own()
        ),
    );
    let address = agent.addresses().http[0];
    let open = format!("dubmesh_connections_open{{listener=\"{address}\"}}");
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut said = Vec::new();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    // TLS's alert, and the end; by a reset if the request was not read whole.
    let _ = plain.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    wait_until("a call beside silent clients", || {
        let answer = hello(address, certificates.client(false)).unwrap();
        answer.starts_with("HTTP/1.1 200").then_some(())
    });
    wait_until("the end of silent clients", || (support::metric(&agent, &open) == 0).then_some(()));
    drop(silent);
}

/// The first `len` bytes of a ClientHello of 60 KiB, in records.
fn part_of_hello(len: usize) -> Vec<u8> {
    let hello = [&[1, 0, 0xf0, 0, 3, 3][..], &[0; 60 << 10]].concat();
    let record = |part: &[u8]| {
        let part_len = u16::try_from(part.len()).unwrap().to_be_bytes();
        [&[0x16, 3, 1][..], &part_len, part].concat()
    };
    hello.chunks(4 << 10).flat_map(record).take(len).collect()
}

/// Nobody knows yet who shakes hands: all of them together have a budget, and each has a limit.
#[test]
fn handshakes_stay_within_the_budget() {
    const BUDGET: u64 = 1 << 20;
    let certificates = Certificates::new();
    let (app, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = register(&hub, app.addr);
    let sections = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[[ingress]]\nprotocol = \"http\"\n\
         listen = \"127.0.0.1:0\"\n[ingress.tls]\nhandshake_timeout_ms = 60000\n{}",
        certificates.own()
    );
    let mut config = read_config(&with_registry(&sections), &hub);
    config.process.memory_len = usize::try_from(BUDGET).unwrap();
    let agent = Agent::start(config).unwrap();
    let (address, used) =
        (agent.addresses().http[0], || metric(&agent, "dubmesh_memory_used_bytes"));
    let calls_pass = || {
        wait_until("a call", || {
            let answer = hello(address, certificates.client(false)).unwrap();
            answer.starts_with("HTTP/1.1 200").then_some(())
        });
    };
    calls_pass();
    let begin = |len: usize| {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(&part_of_hello(len));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| {
            let stream = begin(15 << 10);
            assert!(used() <= BUDGET, "{}", used());
            stream
        })
        .collect();
    wait_until("a refusal", || (0 < metric(&agent, "dubmesh_memory_refused_total")).then_some(()));
    assert!(0 < used());
    calls_pass();
    drop(silent);
    wait_until("the memory to be given back", || (used() == 0).then_some(()));

    // Who sends more than any client needs is left at once, without an alert.
    let mut long = begin(20 << 10);
    assert_eq!(long.read(&mut [0; 16]).unwrap_or(0), 0);
    calls_pass();
}

/// Where no TLS is configured, who begins with it is turned away at once, on every listener.
#[test]
fn tls_at_a_listener_without_it_ends_at_once() {
    let certificates = Certificates::new();
    let (app, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let sections = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[[ingress]]\nprotocol = \"http\"\n\
         listen = \"127.0.0.1:0\"\n[[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:0\"\n\
         [link]\nlisten = \"127.0.0.1:0\"\n\
         [[export]]\ninterface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n",
        app.addr
    );
    let agent = start(&hub, &sections);
    let addresses = agent.addresses();
    let listeners =
        [Some(addresses.http[0]), Some(addresses.dubbo[0]), addresses.link, addresses.admin];
    for address in listeners.into_iter().flatten() {
        // Less than any time after which a silent peer is left.
        let client = certificates.client(false);
        let connected = block_on(async {
            let connecting = connect(address, Some(client));
            tokio::time::timeout(Duration::from_secs(5), connecting).await
        });
        assert!(connected.expect("an end").is_err(), "{address}");
    }
}

#[test]
fn certificates_are_renewed_while_the_agent_runs() {
    let certificates = Certificates::new();
    let (app, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = support::register(&hub, app.addr);
    let sections = format!(
        "[admin]\nenabled = false\n[[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
         [ingress.tls]\n{}",
        certificates.own()
    );
    let agent = start(&hub, &sections);
    let address = agent.addresses().http[0];
    let first = certificates.client(false);
    assert!(hello(address, first.clone()).is_ok());
    certificates.renew();
    let second = certificates.client(false);
    assert!(hello(address, second.clone()).is_err(), "not read again yet");
    let config = read_config(&with_registry(&sections), &hub);
    let plan = block_on(agent.reload(config)).unwrap();
    assert_eq!(plan.changed, [format!("certificates in {}", certificates.path("own.pem"))]);
    assert!(plan.needs_restart.is_empty(), "{plan:?}");
    let same = block_on(agent.reload(read_config(&with_registry(&sections), &hub))).unwrap();
    assert!(same.is_empty(), "{same:?}");
    assert!(hello(address, second).is_ok());
    let untrusted = hello(address, first).unwrap_err().to_string();
    assert!(untrusted.contains("not come from a trusted authority"), "{untrusted}");
}

#[test]
fn what_is_missing_is_said() {
    let problems = |section: &str| {
        let text = with_registry(&format!(
            "[[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n{section}"
        ));
        config::parse(&text, "a.toml").unwrap_err().to_string()
    };
    let said = problems("[ingress.tls]\nclients = \"require\"\n");
    for expected in [
        "ingress.tls.cert_file: is missing, and TLS needs it",
        "ingress.tls.key_file: is missing, and TLS needs it",
        "ingress.tls.clients: has no effect without ca_file",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    let said = problems("[defaults.tls]\nca_file = \"/nowhere.pem\"\nendpoints = \"some\"\n");
    assert!(said.contains("defaults.tls.ca_file: cannot read /nowhere.pem"), "{said}");
    assert!(said.contains("defaults.tls.endpoints"), "{said}");
}
