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
pub mod pool;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use agent::{Agent, config};
use bytes::BytesMut;
use dubbo_proto::{
    ReplyKind, Request, Serialization, ServerConfig, ServerConnection, ServerEvent, Status,
};
use registry::{MemoryHub, RegistryConfig};

pub const SERVICE: &str = "com.acme.Hello";

/// No test waits longer for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How a fake provider treats requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Behaviour {
    /// As `Good`, but a request of 64 KiB holds its connection up until [`FakeProvider::go_on`].
    Jams,
    /// As it should; see [`answer`].
    Good,
    /// It reads and never answers.
    Hang,
    /// It answers with bytes that are not Dubbo.
    Garbage,
    /// It answers with a reply that ends in the middle of a value.
    BrokenValue,
    /// It closes the connection when a request comes.
    Close,
    /// Its thread pool is always full.
    Busy,
    /// It is an agent in an app's place, and the app is away.
    Away,
    /// It has withdrawn its services, and says so as Dubbo 2.7 does.
    Leaving,
    /// It answers a megabyte, whatever the question.
    Long,
    /// It fails at once, outside of the service's code.
    Fails,
    /// Its methods throw at once, whatever they are called.
    Throws,
    /// It answers as it should, after 20 ms, one request of a connection after the other.
    Slow,
}

/// A Dubbo provider on threads, for tests.
pub struct FakeProvider {
    pub addr: SocketAddr,
    pub n_requests: Arc<AtomicUsize>,
    n_open: Arc<AtomicUsize>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    stopped: Arc<AtomicBool>,
    /// Whether [`Behaviour::Jams`] goes on.
    gate: Arc<Gate>,
    last: Arc<Mutex<Option<Request>>>,
}

/// Closed until it is opened.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |is_open| !*is_open).unwrap());
    }
}

impl FakeProvider {
    pub fn start(behaviour: Behaviour) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), behaviour)
    }

    pub fn start_at(addr: SocketAddr, behaviour: Behaviour) -> Self {
        let listener = link::socket::listen(addr).unwrap();
        listener.set_nonblocking(false).unwrap();
        let provider = Self {
            addr: listener.local_addr().unwrap(),
            n_requests: Arc::default(),
            n_open: Arc::default(),
            connections: Arc::default(),
            stopped: Arc::default(),
            gate: Arc::default(),
            last: Arc::default(),
        };
        let (n_requests, connections) =
            (Arc::clone(&provider.n_requests), Arc::clone(&provider.connections));
        let n_open = Arc::clone(&provider.n_open);
        let (stopped, gate) = (Arc::clone(&provider.stopped), Arc::clone(&provider.gate));
        let last = Arc::clone(&provider.last);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                connections.lock().unwrap().push(stream.try_clone().unwrap());
                let (n_requests, gate) = (Arc::clone(&n_requests), Arc::clone(&gate));
                let (n_open, last) = (Arc::clone(&n_open), Arc::clone(&last));
                n_open.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    serve(stream, behaviour, &n_requests, &gate, &last);
                    n_open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        provider
    }

    /// What was asked last.
    pub fn last_request(&self) -> Request {
        self.last.lock().unwrap().clone().expect("nobody has asked")
    }

    /// Says on every connection that it is leaving, as Dubbo does before it ends.
    pub fn say_readonly(&self) {
        let mut machine = ServerConnection::new(ServerConfig::default(), Instant::now());
        machine.send_readonly(Instant::now());
        for stream in &mut *self.connections.lock().unwrap() {
            stream.write_all(machine.transmit()).unwrap();
        }
    }

    /// Connections that were accepted so far.
    pub fn n_connections(&self) -> usize {
        self.connections.lock().unwrap().len()
    }

    /// Connections that the agent has not closed.
    pub fn n_open(&self) -> usize {
        self.n_open.load(Ordering::SeqCst)
    }

    /// Answers what [`Behaviour::Jams`] has held back.
    pub fn go_on(&self) {
        self.gate.open();
    }

    /// Stops listening. Connections that are there stay.
    pub fn take_no_more(&self) {
        if !self.stopped.swap(true, Ordering::SeqCst) {
            wait_until("the listener's end", || TcpStream::connect(self.addr).err());
        }
    }

    /// Stops listening and cuts every connection, as a killed process does.
    pub fn kill(&self) {
        self.take_no_more();
        self.gate.open();
        for stream in self.connections.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn n_requests(&self) -> usize {
        self.n_requests.load(Ordering::SeqCst)
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(
    mut stream: TcpStream,
    behaviour: Behaviour,
    n_requests: &AtomicUsize,
    gate: &Gate,
    last: &Mutex<Option<Request>>,
) {
    let mut machine = ServerConnection::new(ServerConfig::default(), Instant::now());
    let mut input = BytesMut::new();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        input.extend_from_slice(&buffer[..len]);
        if machine.handle_bytes(Instant::now(), &mut input).is_err() {
            return;
        }
        while let Some(event) = machine.poll_event() {
            let ServerEvent::Request { to, two_way, request } = event else { continue };
            *last.lock().unwrap() = Some((*request).clone());
            n_requests.fetch_add(1, Ordering::SeqCst);
            if !two_way {
                continue;
            }
            let now = Instant::now();
            match behaviour {
                Behaviour::Good | Behaviour::Slow | Behaviour::Jams => {
                    if behaviour == Behaviour::Jams && LONG_LEN <= request.args().len() {
                        gate.pass();
                    }
                    if behaviour == Behaviour::Slow {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    let (kind, value) = answer(&request);
                    let attached = if request.method() == "attach" { &ATTACHED[..] } else { &[] };
                    machine.reply(now, to, kind, &value, attached).unwrap();
                }
                Behaviour::Hang => {}
                Behaviour::Garbage => {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nthis is not Dubbo");
                }
                Behaviour::BrokenValue => {
                    // A string of 31 characters that has three.
                    machine.reply(now, to, ReplyKind::Value, b"\x1fabc", &[]).unwrap();
                }
                Behaviour::Long => {
                    let mut value = Vec::new();
                    hessian::write_string(&mut value, &"x".repeat(1 << 20));
                    machine.reply(now, to, ReplyKind::Value, &value, &[]).unwrap();
                    if stream.write_all(&machine.transmit().split()).is_err() {
                        return;
                    }
                }
                Behaviour::Close => return drop(stream.shutdown(Shutdown::Both)),
                Behaviour::Busy => {
                    let status = Status::ServerThreadpoolExhausted;
                    machine.reply_error(now, to, status, "Thread pool is EXHAUSTED!").unwrap();
                }
                Behaviour::Away => {
                    let status = Status::ServerError;
                    machine.reply_error(now, to, status, "Thread pool is EXHAUSTED!").unwrap();
                }
                Behaviour::Fails => {
                    machine.reply_error(now, to, Status::ServiceError, "out of order").unwrap();
                }
                Behaviour::Throws => {
                    let mut value = Vec::new();
                    let mut encoder = hessian::Encoder::new(&mut value);
                    encoder.object_begin("com.acme.Oops", &["detailMessage"]);
                    encoder.string("it broke");
                    machine.reply(now, to, ReplyKind::Exception, &value, &[]).unwrap();
                }
                Behaviour::Leaving => {
                    let text = "Fail to decode request due to: java.lang.IllegalArgumentException: \
                                Service not found:com.acme.Echo, echo";
                    machine.reply_error(now, to, Status::BadRequest, text).unwrap();
                }
            }
        }
        let output = machine.transmit();
        if stream.write_all(output).is_err() {
            return;
        }
        output.clear();
    }
}

/// What agents keep apart from shorter messages.
const LONG_LEN: usize = 64 * 1024;

/// What a reply of the method `attach` has as its attachments: a text, and what is none.
const ATTACHED: [(&str, &str); 4] =
    [("dubbo", "2.0.2"), ("shadeOf", "grün"), ("\u{1}count", "5"), ("\u{1}late", "true")];

/// `echo` returns its one argument as it came, `nothing` null, `long` 64 KiB, `fail` throws,
/// `attached` returns the attachments of its request; a generic call is answered by its method's
/// name.
fn answer(request: &Request) -> (ReplyKind, Vec<u8>) {
    let mut value = Vec::new();
    match (request.method(), request.serialization()) {
        ("nothing", _) => return (ReplyKind::Null, value),
        ("long", Serialization::Hessian2) => {
            hessian::write_string(&mut value, &"x".repeat(LONG_LEN));
        }
        ("fail", Serialization::Hessian2) => {
            let mut encoder = hessian::Encoder::new(&mut value);
            encoder.object_begin("com.acme.Oops", &["detailMessage", "code"]);
            encoder.string("it broke");
            encoder.int(4001);
            return (ReplyKind::Exception, value);
        }
        ("$invoke", Serialization::Hessian2) => {
            let mut decoder = hessian::Decoder::new(request.args(), hessian::Limits::default());
            let name = decoder.read_string().unwrap();
            hessian::write_string(&mut value, &format!("generic {name}"));
        }
        ("attachment", Serialization::Hessian2) => {
            let text = request.attachment("colour").unwrap_or("none");
            hessian::write_string(&mut value, text);
        }
        ("attached", Serialization::Hessian2) => {
            let (body, args) = (request.body(), request.args());
            let end = args.as_ptr().addr() - body.as_ptr().addr() + args.len();
            value.extend_from_slice(&body[end..]);
        }
        ("calledAs", Serialization::Hessian2) => {
            let attached = |name| request.attachment(name).unwrap_or("none");
            let text = format!("{} {} {}", request.path(), attached("path"), attached("token"));
            hessian::write_string(&mut value, &text);
        }
        _ => value.extend_from_slice(request.args()),
    }
    (ReplyKind::Value, value)
}

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
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    endpoint.params = std::sync::Arc::new(params.collect());
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
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
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
    pub fn try_read(&mut self) -> Option<Answer> {
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
        Some(Answer { status, head, body: String::from_utf8_lossy(&body).into_owned() })
    }

    pub fn read(&mut self) -> Answer {
        self.try_read().expect("the server closed the connection")
    }

    /// `POST`s `body` to `path`, with further header lines.
    pub fn post(&mut self, path: &str, headers: &[&str], body: &str) -> Answer {
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
pub fn call(agent: &Agent, method: &str, headers: &[&str], body: &str) -> Answer {
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
