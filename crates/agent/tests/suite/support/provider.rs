//! A Dubbo provider that behaves as told.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use dubbo_proto::{
    ReplyKind, ReplyTo, Request, Serialization, ServerConfig, ServerConnection, ServerEvent, Status,
};

use super::wait_until;

/// How a fake provider treats requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Behaviour {
    /// As `Good`, but a request of 64 KiB holds its connection up until [`FakeProvider::go_on`].
    Jams,
    /// As it should; see [`answer`].
    Good,
    /// As `Good`, and its `payload` is 64 MiB.
    Wide,
    /// It reads and never answers.
    Hang,
    /// It answers with bytes that are not Dubbo.
    Garbage,
    /// It answers with a reply that ends in the middle of a value.
    BrokenValue,
    /// It answers with a reply of a kind that there is not.
    BrokenKind,
    /// It closes the connection when a request comes.
    Close,
    /// Its thread pool is always full.
    Busy,
    /// It is an agent in an app's place, and the app is away.
    Away,
    /// It has withdrawn its services, and says so as Dubbo 2.7 does.
    Leaving,
    /// It has not all of its services yet, and says so as Dubbo 3 does.
    Starting,
    /// It has no service until [`FakeProvider::go_on`], and then is `Good`.
    Exporting,
    /// As `Good`, but it cannot read arguments with the text `unreadable`, and says so as Dubbo 3
    /// does. It can in a generic call.
    Picky,
    /// As `Good`, but its enums have the constants RED, GREEN and DARK alone. A generic call with
    /// another text is refused; in any other call, such a text is null, as in Dubbo 2.
    Enums,
    /// As Dubbo 3 where it has no method with the types of a call. By its name it has.
    Changed,
    /// It answers a megabyte, whatever the question.
    Long,
    /// It fails at once, outside of the service's code.
    Fails,
    /// Its methods throw at once, whatever they are called.
    Throws,
    /// It loses whatever comes, heartbeats too, until [`FakeProvider::go_on`], and then is `Good`.
    Loses,
    /// The same, and it never answers a heartbeat.
    LosesAndIsDeaf,
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
    /// Whether those go on that do something else first.
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

    fn is_open(&self) -> bool {
        *self.0.lock().unwrap()
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

    /// Answers what [`Behaviour::Jams`] has held back, exports what [`Behaviour::Exporting`] has
    /// not yet, and loses nothing any more.
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
    let config = match behaviour {
        Behaviour::Wide => ServerConfig::with_payload_limit(WIDE_LEN),
        _ => ServerConfig::default(),
    };
    let mut machine = ServerConnection::new(config, Instant::now());
    let mut input = BytesMut::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if !machine.has_backlog() {
            let Ok(len @ 1..) = stream.read(&mut buffer) else { return };
            input.extend_from_slice(&buffer[..len]);
        }
        let may_lose = matches!(behaviour, Behaviour::Loses | Behaviour::LosesAndIsDeaf);
        let is_heard = !may_lose || gate.is_open();
        if machine.handle_bytes(Instant::now(), &mut input).is_err() {
            return;
        }
        if behaviour == Behaviour::LosesAndIsDeaf || !is_heard {
            // The answers to heartbeats.
            machine.transmit().clear();
        }
        while let Some(event) = machine.poll_event() {
            let ServerEvent::Request { to, two_way, request } = event else { continue };
            *last.lock().unwrap() = Some((*request).clone());
            n_requests.fetch_add(1, Ordering::SeqCst);
            if !two_way || !is_heard {
                continue;
            }
            if !treat(&mut stream, &mut machine, behaviour, (to, &request), gate) {
                return;
            }
        }
        let output = machine.transmit();
        if stream.write_all(output).is_err() {
            return;
        }
        output.clear();
    }
}

/// Treats one request; whether the connection goes on.
fn treat(
    stream: &mut TcpStream,
    machine: &mut ServerConnection,
    behaviour: Behaviour,
    (to, request): (ReplyTo, &Request),
    gate: &Gate,
) -> bool {
    let now = Instant::now();
    if let Some((status, text)) = refused(behaviour, request) {
        machine.reply_error(now, to, status, &text).unwrap();
        return true;
    }
    match behaviour {
        Behaviour::Exporting if !gate.is_open() => {
            let text = "org.apache.dubbo.remoting.RemotingException: Not found exported service: \
                        com.acme.Echo:20880 in []";
            machine.reply_error(now, to, Status::ServiceError, text).unwrap();
        }
        Behaviour::Good
        | Behaviour::Wide
        | Behaviour::Slow
        | Behaviour::Jams
        | Behaviour::Exporting
        | Behaviour::Picky
        | Behaviour::Enums
        | Behaviour::Loses
        | Behaviour::LosesAndIsDeaf
        | Behaviour::Changed => {
            if behaviour == Behaviour::Jams && LONG_LEN <= request.args().len() {
                gate.pass();
            }
            if behaviour == Behaviour::Slow {
                std::thread::sleep(Duration::from_millis(20));
            }
            let (kind, value) = answer(request);
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
        Behaviour::BrokenKind => {
            machine.reply_body(now, to, Status::Ok, b"\x97x").unwrap();
        }
        Behaviour::Long => {
            let mut value = Vec::new();
            hessian::write_string(&mut value, &"x".repeat(1 << 20));
            machine.reply(now, to, ReplyKind::Value, &value, &[]).unwrap();
            return stream.write_all(&machine.transmit().split()).is_ok();
        }
        Behaviour::Close => {
            let _ = stream.shutdown(Shutdown::Both);
            return false;
        }
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
        Behaviour::Starting => {
            machine.reply_error(now, to, Status::BadRequest, UNREADABLE).unwrap();
        }
    }
    true
}

/// What Dubbo 3 says of all that it cannot read.
const UNREADABLE: &str =
    "Fail to decode request due to: RpcInvocation [methodName=echo, parameterTypes=null]";

/// Where Dubbo fails that cannot make an argument of a generic call.
const NOT_MADE: &str = "\n\tat org.apache.dubbo.common.utils.PojoUtils.realize(PojoUtils.java:211)\
                        \n\tat org.apache.dubbo.rpc.filter.GenericFilter.invoke(GenericFilter.java:96)";

/// What a provider refuses that reads generic calls.
fn refused(behaviour: Behaviour, request: &Request) -> Option<(Status, Cow<'static, str>)> {
    let is_generic = request.method() == "$invoke";
    // A generic call without arguments, where the types are some.
    let asks_for_types = is_generic && request.args().ends_with(b"[object");
    match behaviour {
        Behaviour::Picky if asks_for_types => Some((
            Status::ServiceError,
            "org.apache.dubbo.rpc.RpcException: args.length != types.length\n\tat \
             org.apache.dubbo.rpc.filter.GenericFilter.invoke(GenericFilter.java:96)"
                .into(),
        )),
        Behaviour::Picky if !is_generic => {
            let mut words = request.args().windows(b"unreadable".len());
            let is_unreadable = words.any(|word| word == b"unreadable");
            is_unreadable.then_some((Status::BadRequest, UNREADABLE.into()))
        }
        Behaviour::Enums if is_generic => {
            let has = |text: &str| memchr::memmem::find(request.args(), text.as_bytes()).is_some();
            let refused = [
                (
                    "PURPLE",
                    "java.lang.IllegalArgumentException: No enum constant com.acme.Color.PURPLE",
                ),
                (
                    "dark",
                    "java.lang.IllegalArgumentException: No enum constant com.acme.Shop.Tint.dark",
                ),
                ("unset", "java.lang.RuntimeException: Failed to set pojo"),
            ];
            let (_, why) = refused.into_iter().find(|(text, _)| has(text))?;
            Some((Status::ServiceError, Cow::Owned(format!("{why}{NOT_MADE}"))))
        }
        Behaviour::Changed if asks_for_types => Some((
            Status::ServiceError,
            "org.apache.dubbo.rpc.RpcException: java.lang.NoSuchMethodException: echo(int)\n\tat \
             org.apache.dubbo.rpc.filter.GenericFilter.invoke(GenericFilter.java:150)"
                .into(),
        )),
        Behaviour::Changed if !is_generic && request.method() != "nothing" => {
            Some((Status::BadRequest, UNREADABLE.into()))
        }
        _ => None,
    }
}

/// What [`Behaviour::Wide`] takes.
const WIDE_LEN: usize = 64 << 20;

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
