//! `dubmesh doctor` as somebody runs it: the condition is brought about, and named.

#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use interop_harness::{Child, free_port};
use serde_json::Value;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Its exit status, and what it prints.
fn doctor(args: &[&str]) -> (i32, String, String) {
    dubmesh(&[&["doctor"], args].concat())
}

/// The same of any command.
fn dubmesh(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dubmesh")).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The causes that it names for a port.
fn causes(args: &[&str]) -> (i32, Vec<String>, Value) {
    causes_for("2s", args)
}

/// The same, watched for some time.
fn causes_for(time: &str, args: &[&str]) -> (i32, Vec<String>, Value) {
    let quick = ["--for", time, "--every", "100ms", "--json"];
    let (status, out, err) = doctor(&[args, &quick[..]].concat());
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let findings = report["findings"].as_array().unwrap();
    let causes = findings.iter().map(|it| it["cause"].as_str().unwrap().to_owned()).collect();
    (status, causes, report)
}

/// What it says, in its order.
fn verdicts(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|it| it["verdict"].as_str().unwrap().to_owned()).collect()
}

/// A connection over which one thread sends and another reads, until it is dropped.
struct Traffic {
    port: String,
    stop: Arc<AtomicBool>,
    sockets: [TcpStream; 2],
}

impl Traffic {
    fn start(
        send: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static,
        read: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let sockets = [client.try_clone().unwrap(), server.try_clone().unwrap()];
        let spawn = |mut stream: TcpStream, stop: Arc<AtomicBool>, act: Box<Act>| {
            thread::spawn(move || while !stop.load(Relaxed) && act(&mut stream).is_ok() {});
        };
        spawn(client, Arc::clone(&stop), Box::new(send));
        spawn(server, Arc::clone(&stop), Box::new(read));
        Self { port: address.port().to_string(), stop, sockets }
    }
}

type Act = dyn Fn(&mut TcpStream) -> std::io::Result<()> + Send;

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for socket in &self.sockets {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

#[test]
fn a_process_that_does_not_read_is_named() {
    let traffic = Traffic::start(
        |stream| stream.write_all(&[0; 65_536]),
        |stream| {
            thread::sleep(Duration::from_millis(20));
            stream.read_exact(&mut [0; 1024])
        },
    );
    let (status, causes, report) = causes(&["--port", &traffic.port]);
    assert_eq!((status, &causes[..]), (3, &["reads_slowly".to_owned()][..]), "{report:#}");
    let subject = report["findings"][0]["subject"].as_str().unwrap();
    let own = format!("(pid {}), callers of 127.0.0.1:{}", std::process::id(), traffic.port);
    assert!(subject.ends_with(&own), "{subject}");
}

/// Requests come, are read, and nobody answers. Both ends are here: the server is to blame.
#[test]
fn a_server_that_reads_and_answers_nothing_is_named() {
    let traffic = Traffic::start(
        |stream| {
            thread::sleep(Duration::from_millis(50));
            stream.write_all(&[0; 100])
        },
        |stream| stream.read_exact(&mut [0; 100]),
    );
    let (status, causes, report) = causes_for("5s", &["--port", &traffic.port]);
    assert_eq!((status, &causes[..]), (3, &["no_answer".to_owned()][..]), "{report:#}");
    let verdict = &verdicts(&report)[0];
    assert!(verdict.starts_with("the process has answered nothing for "), "{verdict}");
}

/// Too little comes to fill any buffer, and no agent is there.
#[test]
fn a_process_that_is_stopped_is_named_without_an_agent() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.args(["provider", "--listen", "127.0.0.1:0"]);
    let mut provider = Child::spawn("provider", &command).unwrap();
    let ready = provider.wait_for_line("READY", PATIENCE).unwrap();
    let address = ready.rsplit("//").next().unwrap().trim();
    let mut caller = TcpStream::connect(address).unwrap();
    // A heartbeat, which is answered once the connection was accepted.
    let heartbeat = b"\xda\xbb\xe2\x00\0\0\0\0\0\0\0\x01\0\0\0\x01N";
    caller.write_all(heartbeat).unwrap();
    caller.read_exact(&mut [0; 16]).unwrap();
    provider.suspend();
    caller.write_all(&[0; 100]).unwrap();
    let (status, causes, report) = causes_for("5s", &["--pid", &provider.pid().to_string()]);
    provider.resume();
    assert_eq!((status, &causes[..]), (3, &["stopped", "reads_slowly"].map(String::from)[..]));
    let verdict = &verdicts(&report)[1];
    assert!(verdict.starts_with("the process has read nothing for "), "{verdict}");
    let evidence = report["findings"][1]["evidence"].to_string();
    let local = caller.local_addr().unwrap();
    assert!(evidence.contains(&format!("the caller is {local}")), "{evidence}");
}

#[test]
fn a_connection_that_is_well_has_no_verdict() {
    let traffic = Traffic::start(
        |stream| {
            thread::sleep(Duration::from_millis(1));
            stream.write_all(&[0; 100])
        },
        |stream| stream.read_exact(&mut [0; 100]),
    );
    let pid = std::process::id().to_string();
    let (status, out, _) = doctor(&["--port", &traffic.port, "--for", "1s", "--every", "100ms"]);
    let told = "Nothing was found that holds calls up.\nSockets do not show what happens inside of";
    assert!(status == 0 && out.contains(told), "{out}");
    let (status, causes, report) = causes(&["--port", &traffic.port, "--pid", &pid]);
    // Other tests of this process are watched, too.
    let own = |it: &&Value| it["subject"].as_str().unwrap().ends_with(&traffic.port);
    let about = report["findings"].as_array().unwrap().iter().find(own);
    assert_eq!(about, None, "{status} {causes:?}");
    assert!(2 <= report["connections"].as_u64().unwrap());
}

#[test]
fn a_full_accept_queue_is_named() {
    for backlog in [0, 2] {
        let queue = FullQueue::new(backlog);
        let (status, causes, report) = causes(&["--port", &queue.address.port().to_string()]);
        assert_eq!((status, &causes[..]), (3, &["accept_queue".to_owned()][..]), "{report:#}");
    }
}

/// A listener that accepts nobody, and as many connections as the kernel keeps for it.
struct FullQueue {
    address: SocketAddr,
    _listener: socket2::Socket,
    _waiting: Vec<TcpStream>,
}

impl FullQueue {
    fn new(backlog: i32) -> Self {
        let listener =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(backlog).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let waiting = (0..=backlog).map(|_| TcpStream::connect(address).unwrap()).collect();
        Self { address, _listener: listener, _waiting: waiting }
    }
}

/// It drops what comes further, and whoever calls asks again and again.
#[test]
fn an_address_where_nothing_answers_is_named() {
    let FullQueue { address, .. } = &FullQueue::new(2);
    let trying = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    trying.set_nonblocking(true).unwrap();
    trying.connect(&(*address).into()).unwrap_err();
    let (status, causes, report) = causes_for("5s", &["--port", &address.port().to_string()]);
    assert_eq!(status, 3, "{report:#}");
    for cause in ["cannot_connect", "accept_queue"] {
        assert!(causes.contains(&cause.to_owned()), "{cause}: {report:#}");
    }
}

const SERVICE: &str = "com.alibaba.dubbo.performance.demo.provider.IHelloService";

/// A provider, an agent that calls it, and callers of that agent, until it is dropped.
struct Mesh {
    provider: Child,
    _agent: Child,
    http: u16,
    admin: String,
    stop: Arc<AtomicBool>,
    n_answers: Arc<AtomicU32>,
    callers: Vec<thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Mesh {
    /// The provider works on each call for so many milliseconds.
    fn start(work_ms: u32) -> Self {
        Self::with(work_ms, |provider| {
            let services = format!(
                "[[registry.service]]\ninterface = \"{SERVICE}\"\nendpoints = [\"{provider}\"]\n"
            );
            format!("[[registry]]\nkind = \"static\"\n{services}")
        })
    }

    /// The same with an agent beside the provider, which is also the one that calls. So many
    /// calls at once get to the provider.
    fn with_capacity(work_ms: u32, capacity: u32) -> Self {
        Self::with(work_ms, |provider| {
            format!(
                "[[registry]]\nkind = \"memory\"\n[link]\nlisten = \"127.0.0.1:0\"\n\
                 [[export]]\ninterface = \"{SERVICE}\"\napp = \"{provider}\"\n\
                 capacity = {capacity}\n"
            )
        })
    }

    /// `services` is the part of the configuration where calls go, by the provider's address.
    fn with(work_ms: u32, services: impl Fn(&str) -> String) -> Self {
        Self::with_provider(&["--work-ms", &work_ms.to_string()], services)
    }

    /// The same with these options of the provider.
    fn with_provider(options: &[&str], services: impl Fn(&str) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = env!("CARGO_BIN_EXE_dubmesh");
        let mut command = Command::new(program);
        command.args(["provider", "--listen", "127.0.0.1:0"]).args(options);
        let mut provider = Child::spawn("provider", &command).unwrap();
        let ready = provider.wait_for_line("READY", PATIENCE).unwrap();
        let services = services(ready.split_whitespace().last().unwrap());
        let [http, admin] = [free_port(), free_port()];
        let config = format!(
            "[agent]\nstage_sample = 1\n{services}\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{http}\"\n\
             [admin]\nlisten = \"127.0.0.1:{admin}\"\n[defaults]\ntimeout_ms = 20000\n"
        );
        let path = folder.path().join("agent.toml");
        std::fs::write(&path, config).unwrap();
        let mut command = Command::new(program);
        command.args(["run", "--config"]).arg(&path);
        let mut agent = Child::spawn("agent", &command).unwrap();
        let is_there = || TcpStream::connect(("127.0.0.1", admin)).is_ok();
        agent.wait_ready(PATIENCE, is_there).unwrap();
        // It takes calls before it knows of the service.
        agent.wait_ready(PATIENCE, || try_call(http, "hash", "a").starts_with(OK)).unwrap();
        let (stop, n_answers) = (Arc::default(), Arc::default());
        let admin = format!("127.0.0.1:{admin}");
        let (callers, _folder) = (Vec::new(), folder);
        Self { provider, _agent: agent, http, admin, stop, n_answers, callers, _folder }
    }

    /// So many callers make one call after the other.
    fn call(&mut self, n_callers: usize, method: &'static str, argument: &'static str) {
        self.call_so(n_callers, move |port| call(port, method, argument));
    }

    fn call_so(&mut self, n_callers: usize, call: impl Fn(u16) + Clone + Send + 'static) {
        for _ in 0..n_callers {
            let (stop, n_answers) = (Arc::clone(&self.stop), Arc::clone(&self.n_answers));
            let (http, call) = (self.http, call.clone());
            self.callers.push(thread::spawn(move || {
                while !stop.load(Relaxed) {
                    call(http);
                    n_answers.fetch_add(1, Relaxed);
                }
            }));
        }
        self.wait_for_answers(2 * n_callers);
    }

    fn wait_for_answers(&self, n: usize) {
        let before = self.n_answers.load(Relaxed) as usize;
        let n_more = || self.n_answers.load(Relaxed) as usize - before;
        interop_harness::wait_until("answers", PATIENCE, || n <= n_more());
    }

    /// What the doctor says of the agent, after all calls have ended well.
    fn diagnosed(self) -> (i32, Vec<String>, Value) {
        self.diagnosed_for("2s")
    }

    fn diagnosed_for(mut self, time: &str) -> (i32, Vec<String>, Value) {
        let found = causes_for(time, &["--admin", &self.admin]);
        self.stop.store(true, Relaxed);
        self.callers.drain(..).for_each(|caller| caller.join().unwrap());
        found
    }
}

#[test]
fn an_agent_tells_a_slow_provider_from_a_slow_network() {
    let mut mesh = Mesh::start(300);
    mesh.call(1, "hash", "a");
    let (status, causes, report) = mesh.diagnosed();
    assert_eq!((status, &causes[..]), (3, &["slow_provider".to_owned()][..]), "{report:#}");
    let verdict = report["findings"][0]["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("the network is fine: "), "{verdict}");
    // Its sockets were found by its process.
    assert!(1 <= report["connections"].as_u64().unwrap(), "{report:#}");
    assert_eq!(report["notes"].as_array().map(Vec::len), Some(0), "{report:#}");
}

#[test]
fn a_healthy_mesh_has_no_verdict() {
    let mut mesh = Mesh::with_capacity(5, 8);
    mesh.call(2, "hash", "a");
    let (status, causes, report) = mesh.diagnosed();
    assert_eq!((status, &causes[..]), (0, &[][..]), "{report:#}");
}

/// The agent waits for the rest of a request, and for a caller to read its answer. Neither is the
/// provider's doing.
#[test]
fn a_caller_that_is_slow_itself_makes_no_verdict() {
    let mut mesh = Mesh::start(1);
    mesh.call_so(2, |port| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request = request("sized", "3000");
        let (first, rest) = request.split_at(request.len() - 3);
        stream.write_all(first.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(150));
        stream.write_all(rest.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(150));
        read_answer(&mut stream);
    });
    let (status, causes, report) = mesh.diagnosed();
    assert_eq!((status, &causes[..]), (0, &[][..]), "{report:#}");
}

/// They are decoded beside the event loops. If these are late all the same, because others need the
/// processors, that is said instead.
#[test]
fn large_replies_that_take_long_to_decode_are_named() {
    let mut mesh = Mesh::start(0);
    mesh.call(2, "sized", "2000000");
    // Few of them end in a second on a busy machine.
    let (status, causes, report) = mesh.diagnosed_for("6s");
    assert_eq!(status, 3, "{report:#}");
    assert!(!causes.contains(&"slow_provider".to_owned()), "{report:#}");
    let findings = report["findings"].as_array().unwrap();
    let about = |it: &&Value| it["cause"] == "event_loop" || it["cause"] == "long_messages";
    let finding = findings.iter().find(about).unwrap_or_else(|| panic!("{report:#}"));
    let (verdict, lag) = (finding["verdict"].as_str().unwrap(), finding["evidence"][1].as_str());
    if finding["cause"] == "event_loop" {
        assert_eq!(verdict, "the event loop is starved by decoding its replies");
        assert!(lag.unwrap().ends_with("late (dubmesh_worker_lag_seconds)"), "{report:#}");
    } else {
        assert!(verdict.starts_with("decoding its replies takes "), "{verdict}");
        assert!(lag.unwrap().starts_with("other calls do not wait for it"), "{report:#}");
    }
}

/// Calls that are in flight all the time have not failed, and are in no mean.
#[test]
fn a_provider_that_has_stopped_is_named_before_any_call_fails() {
    let mut mesh = Mesh::start(1);
    mesh.call(2, "hash", "a");
    mesh.provider.suspend();
    let quick = ["--for", "5s", "--every", "200ms", "--json"];
    let (status, out, err) = doctor(&[&["--admin", &mesh.admin], &quick[..]].concat());
    mesh.provider.resume();
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!(status, 3, "{report:#}");
    let verdicts = verdicts(&report);
    // Its socket is on this machine, too, and says the same.
    let [first, .., last] = &verdicts[..] else { panic!("{report:#}") };
    assert_eq!(first, "the process is stopped", "{report:#}");
    assert!(last.contains("the provider does not answer"), "{report:#}");
    mesh.stop.store(true, Relaxed);
    mesh.callers.drain(..).for_each(|caller| caller.join().unwrap());
}

/// The work itself is quick. What calls take is the wait for one of two threads.
#[test]
fn a_full_pool_is_named_by_itself() {
    let mut mesh = Mesh::with_capacity(20, 2);
    mesh.call_so(8, |port| drop(try_call(port, "hash", "a")));
    let (status, causes, report) = mesh.diagnosed();
    assert_eq!((status, &causes[..]), (3, &["pool_full".to_owned()][..]), "{report:#}");
    let verdict = report["findings"][0]["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("the provider's thread pool is full: 2 of 2 in use"), "{verdict}");
}

/// Two causes at once: each call takes long, and only two of eight get to the provider.
#[test]
fn a_full_pool_is_named_beside_slow_work() {
    let mut mesh = Mesh::with_capacity(300, 2);
    // Those that would wait for too long are shed, which is as it should be.
    mesh.call_so(8, |port| drop(try_call(port, "hash", "a")));
    let (status, causes, report) = mesh.diagnosed();
    assert_eq!(status, 3, "{report:#}");
    for cause in ["pool_full", "slow_provider"] {
        assert!(causes.contains(&cause.to_owned()), "{cause}: {report:#}");
    }
    let findings = report["findings"].as_array().unwrap();
    let full = findings.iter().find(|it| it["cause"] == "pool_full").unwrap();
    let verdict = full["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("the provider's thread pool is full: 2 of 2 in use"), "{verdict}");
}

/// Straight to a provider that is said to take two calls at a time: the others wait in the agent.
#[test]
fn calls_that_wait_for_an_endpoint_are_named() {
    let mut mesh = Mesh::with(20, |provider| {
        format!(
            "[[registry]]\nkind = \"static\"\n[[registry.service]]\ninterface = \"{SERVICE}\"\n\
             endpoints = [\"{provider}\"]\n\
             [[cluster]]\ninterface = \"{SERVICE}\"\nendpoint_capacity = 2\n"
        )
    });
    mesh.call_so(8, |port| drop(try_call(port, "hash", "a")));
    let (status, causes, report) = mesh.diagnosed();
    assert_eq!((status, &causes[..]), (3, &["calls_wait".to_owned()][..]), "{report:#}");
}

/// One of two endpoints is not there.
#[test]
fn an_endpoint_that_gets_no_calls_is_named() {
    let mut mesh = Mesh::with(5, |provider| {
        format!(
            "[[registry]]\nkind = \"static\"\n[[registry.service]]\ninterface = \"{SERVICE}\"\n\
             endpoints = [\"{provider}\", \"dubbo://127.0.0.1:1\"]\n"
        )
    });
    mesh.call(2, "hash", "a");
    let (status, causes, report) = mesh.diagnosed();
    assert_eq!((status, &causes[..]), (3, &["endpoint_out".to_owned()][..]), "{report:#}");
    let subject = report["findings"][0]["subject"].as_str().unwrap();
    assert!(subject.ends_with(" at 127.0.0.1:1"), "{subject}");
}

/// The provider has two threads, and the agent was told that it has more.
#[test]
fn a_pool_that_rejects_calls_is_named() {
    let mut mesh = Mesh::with_provider(&["--work-ms", "20", "--threads", "2"], |provider| {
        format!(
            "[[registry]]\nkind = \"static\"\n[[registry.service]]\ninterface = \"{SERVICE}\"\n\
             endpoints = [\"{provider}\"]\n\
             [[cluster]]\ninterface = \"{SERVICE}\"\nendpoint_capacity = 100\n"
        )
    });
    mesh.call_so(8, |port| drop(try_call(port, "hash", "a")));
    let (status, causes, report) = mesh.diagnosed();
    assert_eq!(status, 3, "{report:#}");
    assert!(causes.contains(&"pool_rejects".to_owned()), "{report:#}");
}

/// As a garbage collector stops a provider: calls of that time are late, all others are not.
#[test]
fn a_pause_of_two_seconds_makes_no_slow_provider() {
    let mut mesh = Mesh::start(10);
    mesh.call(4, "hash", "a");
    let admin = mesh.admin.clone();
    let watching = thread::spawn(move || {
        let (status, out, err) =
            doctor(&["--admin", &admin, "--for", "7s", "--every", "100ms", "--json"]);
        (status, serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{out}{err}")))
    });
    // The doctor has begun to look; how far it is does not matter.
    mesh.wait_for_answers(40);
    mesh.provider.suspend();
    thread::sleep(Duration::from_secs(2));
    mesh.provider.resume();
    mesh.wait_for_answers(40);
    let (status, report) = watching.join().unwrap();
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(0), "{status} {report:#}");
    mesh.stop.store(true, Relaxed);
    mesh.callers.drain(..).for_each(|caller| caller.join().unwrap());
}

/// How the answer of a call begins that went well.
const OK: &str = "HTTP/1.1 200";

/// One call by HTTP, which has to go well.
fn call(port: u16, method: &str, argument: &str) {
    let answer = try_call(port, method, argument);
    assert!(answer.starts_with(OK), "{:?}", answer.split("\r\n\r\n").next());
}

/// The same; its whole answer.
fn try_call(port: u16, method: &str, argument: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request(method, argument).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn request(method: &str, argument: &str) -> String {
    let body = format!("[\"{argument}\"]");
    let head = format!(
        "POST /{SERVICE}/{method} HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    head + &body
}

fn read_answer(stream: &mut TcpStream) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let head = answer.split("\r\n\r\n").next();
    assert!(answer.starts_with(OK), "{head:?}");
}

#[test]
fn what_cannot_be_watched_is_told() {
    let (status, _, err) = doctor(&["--for", "1s", "--every", "1s"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("make 1 looks; 5 to 600"), "{err}");
    let (status, _, err) = doctor(&["--pid", "4194305"]);
    assert_eq!((status, err.as_str()), (1, "dubmesh doctor: there is no process 4194305\n"));
    let admin = format!("127.0.0.1:{}", free_port());
    let (status, _, err) = doctor(&["--admin", &admin]);
    assert_eq!(status, 1);
    assert!(err.contains("write the address of its admin listener after --admin"), "{err}");
    let port = free_port().to_string();
    let (status, out, _) = doctor(&["--port", &port, "--for", "500ms", "--every", "50ms"]);
    assert_eq!(status, 0);
    assert!(out.contains(&format!("note: no connection from or to port {port} was open")), "{out}");
    assert!(out.ends_with("\nNothing was watched, so nothing is known.\n"), "{out}");
}

/// Something else listens there. It is told once, in one short line.
#[test]
fn what_answers_but_is_no_agent_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let body = format!("<html>{}\u{1b}[2J</html>", "x".repeat(100_000));
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let status = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
            let _ = write!(stream, "{status}content-length: {}\r\n\r\n{body}", body.len());
        }
    });
    for command in [&["doctor"][..], &["top", "--once"], &["tap"]] {
        let (status, out, err) = dubmesh(&[command, &["--admin", &admin]].concat());
        assert_eq!((status, &*out), (1, ""), "{command:?} {err}");
        assert!(err.contains(&admin) && err.contains("dubmesh agent"), "{command:?} {err}");
        assert!(err.len() < 1000 && !err.contains('\u{1b}'), "{command:?} {err}");
    }
}

/// A server that answers each connection with the same bytes.
fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(bytes);
        }
    });
    address
}

#[test]
fn why_there_is_no_page_is_told() {
    let told = |bytes| {
        let (status, out, err) = doctor(&["--admin", &answering(bytes)]);
        assert_eq!((status, &*out), (1, ""), "{err}");
        err
    };
    let err = told(b"");
    assert!(err.contains("/version: the connection was closed without an answer; write"), "{err}");
    // As a listener with TLS refuses plain HTTP.
    let err = told(b"\x15\x03\x03\0\x02\x02\x46");
    assert!(err.contains("one that speaks TLS ([admin.tls]) cannot be read"), "{err}");
    let err = told(b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    assert!(err.contains("/version: 302 Found; write"), "{err}");
}

/// The pages of an agent that does nothing; `before` is told of each one that is asked for.
fn fake_agent(before: impl Fn(&str) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let before = Arc::new(before);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, before) = (stream.unwrap(), Arc::clone(&before));
            thread::spawn(move || {
                let mut question = [0; 4096];
                let len = stream.read(&mut question).unwrap();
                let question = String::from_utf8_lossy(&question[..len]).into_owned();
                let path = question.split([' ', '?']).nth(1).unwrap();
                before(path);
                let page = match path {
                    "/version" => {
                        r#"{"program":"dubmesh","version":"1","agent":"a","pid":0,"uptime_s":1}"#
                    }
                    _ => r#"{"total":0,"truncated":false,"silent_workers":[],"items":[]}"#,
                };
                let status = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
                let _ = write!(stream, "{status}content-length: {}\r\n\r\n{page}", page.len());
            });
        }
    });
    address
}

/// A page that takes long holds up the look, but no other page.
#[test]
fn all_pages_are_asked_for_at_once() {
    let n_asked = Arc::new(AtomicU32::new(0));
    let asked = Arc::clone(&n_asked);
    // None is answered until all of a look were asked for.
    let admin = fake_agent(move |path| {
        if ["/services", "/endpoints", "/apps", "/connections", "/stages"].contains(&path) {
            let nth = asked.fetch_add(1, Relaxed);
            let last_of_look = nth / 5 * 5 + 5;
            interop_harness::wait_until("all pages", PATIENCE, || {
                last_of_look <= asked.load(Relaxed)
            });
        }
    });
    let (status, out, err) = doctor(&["--admin", &admin, "--for", "500ms", "--every", "100ms"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(n_asked.load(Relaxed).is_multiple_of(5));
}

/// Whoever ends it early has not seen that all is well.
#[test]
fn a_few_looks_are_told_to_show_little() {
    let (asked, looks) = std::sync::mpsc::channel();
    let admin = fake_agent(move |path| {
        if path == "/stages" {
            let _ = asked.send(());
        }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.args(["doctor", "--admin", &admin, "--for", "10m", "--every", "1m"]);
    let doctor = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    looks.recv_timeout(PATIENCE).unwrap();
    let mut interrupt = Command::new("kill");
    interrupt.args(["-INT", &doctor.id().to_string()]);
    assert!(interrupt.status().unwrap().success());
    let output = doctor.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("note: there was only 1 look, which shows little: watch"), "{out}");
}

/// Only root may make such a process.
#[test]
fn a_process_in_another_network_namespace_is_told() {
    let mut command = Command::new("unshare");
    command.args(["--net", "sleep", "60"]);
    let Ok(mut child) = command.stderr(std::process::Stdio::null()).spawn() else { return };
    let (pid, own) = (child.id(), std::fs::read_link("/proc/self/ns/net").unwrap());
    let other = || std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let is_there = || other().is_some_and(|other| other != own);
    while !is_there() {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let (_, out, err) = doctor(&["--pid", &pid.to_string(), "--for", "500ms", "--every", "50ms"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let told = format!("nsenter -t {pid} -n dubmesh doctor --pid {pid}");
    assert!(out.contains(&told), "{out}{err}");
}

/// Whoever may not look into a process is told what it takes. Only root can try that out.
#[test]
fn a_process_of_another_user_needs_its_rights() {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;

    const NOBODY: u32 = 65_534;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let pid = std::process::id().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.args(["doctor", "--for", "2s", "--every", "100ms", "--pid", &pid]);
    // The program may be where nobody else may go.
    let Ok(output) = command.current_dir("/").uid(NOBODY).gid(NOBODY).output() else { return };
    let told = format!(
        "dubmesh doctor: the sockets of process {pid} belong to another user; run this as that \
         user or root, or name a port by --port\n"
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), told);
    assert_eq!(output.status.code(), Some(1));
}
