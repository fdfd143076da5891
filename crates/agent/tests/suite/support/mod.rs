//! What the tests of the agent share: providers that behave as told, agents from a few lines of
//! configuration, and an HTTP client that shows every byte.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test file uses its own part of this"
)]

pub mod backend;
pub mod dubbo;
pub mod http2;
pub mod http_app;
pub mod load;
pub mod log;
pub mod network;
pub mod pool;
mod provider;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agent::{Agent, config};
use registry::{MemoryHub, RegistryConfig};

pub use self::provider::{Behaviour, FakeProvider};

pub const SERVICE: &str = "com.acme.Hello";

/// No test waits longer for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An agent that calls the services of `hub` for HTTP callers; `extra` goes into its
/// `[[ingress]]`. The registry that the text names is replaced by the hub.
pub fn consumer(hub: &MemoryHub, extra: &str) -> Agent {
    consumer_with(hub, "", extra)
}

/// The same, with further keys of its `[[registry]]`.
pub fn consumer_with(hub: &MemoryHub, keys: &str, extra: &str) -> Agent {
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 2\ndrain_ms = 5000\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n{keys}\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n{extra}\n"
    );
    start(&text, hub)
}

/// An agent that calls the services of `hub` for Dubbo consumers; `extra` goes into its
/// `[[ingress]]` or behind it.
pub fn dubbo_consumer(hub: &MemoryHub, extra: &str) -> Agent {
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 1\ndrain_ms = 5000\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:0\"\n{extra}\n"
    );
    start(&text, hub)
}

/// Sets a flag when it is dropped, so that threads end however a test does.
pub struct StopAtEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// An agent that offers [`SERVICE`] of the Dubbo app at `app`.
pub fn provider_agent(hub: &MemoryHub, app: SocketAddr) -> Agent {
    exporting(hub, &format!("interface = \"{SERVICE}\"\napp = \"dubbo://{app}\"\n"))
}

/// An agent with one `[[export]]` of these lines, for Dubbo's own consumers and for other agents.
pub fn dubbo_exporting(hub: &MemoryHub, export: &str) -> Agent {
    start(&dubbo_exports(export), hub)
}

/// An agent with one `[[export]]` of these lines, for other agents; it shows what it does.
pub fn exporting_with_admin(hub: &MemoryHub, export: &str) -> Agent {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\ndrain_ms = 5000\n\
         [[registry]]\nname = \"main\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         [link]\nlisten = \"127.0.0.1:0\"\n[[export]]\n{export}"
    );
    start(&text, hub)
}

/// The configuration of [`dubbo_exporting`].
pub fn dubbo_exports(export: &str) -> String {
    format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 1\ndrain_ms = 5000\n\
         [[registry]]\nname = \"main\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         [link]\nlisten = \"127.0.0.1:0\"\n[dubbo]\nlisten = \"127.0.0.1:0\"\napplication = \"shop\"\n\
         [[export]]\n{export}"
    )
}

/// An agent that calls the services of `hub` for HTTP callers, and shows its metrics; `extra`
/// comes after its `[[ingress]]`.
pub fn consumer_with_metrics(hub: &MemoryHub, extra: &str) -> Agent {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 2\ndrain_ms = 5000\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n{extra}\n"
    );
    start(&text, hub)
}

/// Has an agent of [`consumer_with_metrics`] go by other keys.
pub fn reload(agent: &Agent, hub: &MemoryHub, extra: &str) {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 2\ndrain_ms = 5000\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n{extra}\n"
    );
    let mut config = config::parse(&text, "test.toml").unwrap();
    for registry in &mut config.registries {
        registry.config = RegistryConfig::Memory(hub.clone());
    }
    assert!(block_on(agent.reload(config)).unwrap().needs_restart.is_empty());
}

/// The value of a sample in an agent's metrics; 0 if there is none.
pub fn metric(agent: &Agent, sample: &str) -> u64 {
    let mut http = Http::connect(agent.addresses().admin.unwrap());
    http.send("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    let body = http.read().body;
    let line = body.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

/// Calls that went to an endpoint and ended with this code.
pub fn n_calls(agent: &Agent, endpoint: SocketAddr, code: &str) -> u64 {
    let labels = format!("service=\"{SERVICE}\",endpoint=\"{endpoint}\",code=\"{code}\"");
    metric(agent, &format!("dubmesh_upstream_calls_total{{{labels}}}"))
}

/// An agent with one `[[export]]` of these lines.
pub fn exporting(hub: &MemoryHub, export: &str) -> Agent {
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 1\ndrain_ms = 5000\n\
         [[registry]]\nname = \"main\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n[link]\nlisten = \"127.0.0.1:0\"\n\
         [[export]]\n{export}"
    );
    start(&text, hub)
}

/// An agent with this configuration. The registries that the text names are replaced by the hub.
pub fn start(text: &str, hub: &MemoryHub) -> Agent {
    let mut config = config::parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    for registry in &mut config.registries {
        registry.config = RegistryConfig::Memory(hub.clone());
    }
    Agent::start(config).unwrap()
}

/// Registers a plain Dubbo provider in `hub`, for as long as the result lives.
pub struct Registered {
    _runtime: tokio::runtime::Runtime,
    _registered: registry::Registered,
}

pub fn register(hub: &MemoryHub, addr: SocketAddr) -> Registered {
    register_with(hub, addr, &[])
}

/// Registers a provider whose URL has these parameters.
pub fn register_with(hub: &MemoryHub, addr: SocketAddr, params: &[(&str, &str)]) -> Registered {
    register_as(registry::Protocol::Dubbo, SERVICE, hub, addr, params)
}

/// Registers a provider of another service.
pub fn register_service(hub: &MemoryHub, service: &str, addr: SocketAddr) -> Registered {
    register_as(registry::Protocol::Dubbo, service, hub, addr, &[])
}

/// Registers a provider of another service, with these parameters.
pub fn register_service_with(
    hub: &MemoryHub,
    service: &str,
    addr: SocketAddr,
    params: &[(&str, &str)],
) -> Registered {
    register_as(registry::Protocol::Dubbo, service, hub, addr, params)
}

/// Registers the link of an agent whose own registration is elsewhere.
pub fn register_link(hub: &MemoryHub, addr: SocketAddr) -> Registered {
    register_as(registry::Protocol::Link, SERVICE, hub, addr, &[])
}

fn register_as(
    protocol: registry::Protocol,
    service: &str,
    hub: &MemoryHub,
    addr: SocketAddr,
    params: &[(&str, &str)],
) -> Registered {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let _entered = runtime.enter();
    let registry = registry::Registry::open(RegistryConfig::Memory(hub.clone())).unwrap();
    let mut endpoint = registry::Endpoint::new(protocol, &addr.ip().to_string(), addr.port());
    endpoint.params = params.iter().copied().collect();
    let registration = registry::Registration {
        service: service.parse().unwrap(),
        endpoint,
        methods: Vec::new(),
        app_address: None,
    };
    let registered = registry.register(&registration).unwrap();
    drop(_entered);
    Registered { _runtime: runtime, _registered: registered }
}

/// What an HTTP server answered.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl HttpResponse {
    /// The code of a JSON error.
    pub fn code(&self) -> String {
        let json: serde_json::Value =
            serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"));
        json["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// A connection to an HTTP server.
pub struct Http(pub TcpStream);

impl Http {
    pub fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    pub fn to(agent: &Agent) -> Self {
        Self::connect(agent.addresses().http[0])
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Reads one answer; `None` if the server closed the connection instead.
    pub fn try_read(&mut self) -> Option<HttpResponse> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match self.0.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                Ok(_) => return None,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&head)),
            }
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let status = head[9..12].parse().unwrap();
        let len = head
            .split("content-length: ")
            .nth(1)
            .map_or(0, |rest| rest.split("\r\n").next().unwrap().trim().parse::<usize>().unwrap());
        let mut body = vec![0; len];
        self.0.read_exact(&mut body).unwrap();
        Some(HttpResponse { status, head, body: String::from_utf8_lossy(&body).into_owned() })
    }

    pub fn read(&mut self) -> HttpResponse {
        self.try_read().expect("the server closed the connection")
    }

    /// `POST`s `body` to `path`, with further header lines.
    pub fn post(&mut self, path: &str, headers: &[&str], body: &str) -> HttpResponse {
        self.send(request(path, headers, body));
        self.read()
    }
}

pub fn request(path: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let len = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {len}\r\n\r\n{body}")
}

/// `POST`s JSON to a method of [`SERVICE`] on a connection of its own.
pub fn call(agent: &Agent, method: &str, headers: &[&str], body: &str) -> HttpResponse {
    Http::to(agent).post(&format!("/{SERVICE}/{method}"), headers, body)
}

/// The type header of a method that takes one string.
pub const STRING: &str = "x-dubbo-parameter-types: java.lang.String";

/// Asks again and again until `check` is content.
pub fn wait_until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(result) = check() {
            return result;
        }
        assert!(start.elapsed() < PATIENCE, "{what} did not happen within {PATIENCE:?}");
        // The next look is soon; whoever is waited for may have the core meanwhile.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a future to its end.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A port on which nobody listens.
pub fn free_addr() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
