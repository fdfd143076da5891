//! What an agent tells of the calls that go through it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use interop_harness::{Child, free_port};
use serde_json::Value;

use crate::{PATIENCE, causes_for, report, verdicts};

pub(crate) const SERVICE: &str = "com.alibaba.dubbo.performance.demo.provider.IHelloService";

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
    assert!(verdict.starts_with("the network is fine up to the next hop: "), "{verdict}");
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

/// They are decoded beside the event loops. If these are late all the same, because others need
/// the processors, that is said instead.
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
    let (status, report) = report(&[&["--admin", &mesh.admin], &quick[..]].concat());
    mesh.provider.resume();
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
        report(&["--admin", &admin, "--for", "7s", "--every", "100ms", "--json"])
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

/// A fault that was left on is nobody's slow work.
#[test]
fn a_delay_on_purpose_is_named_and_the_provider_is_not() {
    let mut mesh = Mesh::with(1, |provider| {
        format!(
            "[[registry]]\nkind = \"static\"\n[[registry.service]]\ninterface = \"{SERVICE}\"\n\
             endpoints = [\"{provider}\"]\n\
             [[cluster]]\ninterface = \"{SERVICE}\"\n[[cluster.method]]\nfault_delay_ms = 300\n"
        )
    });
    mesh.call(3, "hash", "a");
    let (status, causes, report) = mesh.diagnosed();
    assert_eq!((status, &causes[..]), (3, &["faults_injected".to_owned()][..]), "{report:#}");
}

/// A limit that refuses nearly all calls.
#[test]
fn calls_that_fail_are_named_with_their_code() {
    let mut mesh = Mesh::with(1, |provider| {
        format!(
            "[[registry]]\nkind = \"static\"\n[[registry.service]]\ninterface = \"{SERVICE}\"\n\
             endpoints = [\"{provider}\"]\n\
             [[cluster]]\ninterface = \"{SERVICE}\"\n[[cluster.method]]\nrate_limit = 2\n"
        )
    });
    mesh.call_so(2, |port| drop(try_call(port, "hash", "a")));
    let (status, causes, report) = mesh.diagnosed();
    assert_eq!((status, &causes[..]), (3, &["calls_fail".to_owned()][..]), "{report:#}");
    let verdict = report["findings"][0]["verdict"].as_str().unwrap();
    assert!(verdict.ends_with("% of its calls fail with rate_limited"), "{verdict}");
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

pub(crate) fn request(method: &str, argument: &str) -> String {
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
