//! Short messages whose JSON is long: it is bounded, drawn from the budget, and written away from
//! the event loops.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::support::dubbo::DubboConsumer;
use crate::support::http_app::{Does, TestApp};
use crate::support::{SERVICE, STRING, block_on, call, metric, register, start, wait_until};
use agent::Agent;
use agent::offload::Thread;
use dubbo_proto::frame::{HEADER_LEN, Header};
use dubbo_proto::{ClientConfig, ClientConnection};
use dubbo_proto::{RequestHead, RequestTemplate, Serialization, Status};
use hessian::Encoder;
use registry::MemoryHub;

const MIB: usize = 1 << 20;
const BUDGET: usize = 64 * MIB;
const PATIENT: &str = "x-dubbo-timeout-ms: 30000";

/// A list of a text, in lists that refer to the list before `width` times: `depth` of them.
fn lists_of_lists(depth: u32, width: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.list_begin(None, depth as usize + 1);
    encoder.list_begin(None, 1);
    encoder.string(&"x".repeat(900));
    for inner in 1..=depth {
        encoder.list_begin(None, width);
        (0..width).for_each(|_| encoder.reference(inner));
    }
    bytes
}

/// 51 MB as JSON.
fn over_the_limit() -> Vec<u8> {
    lists_of_lists(3, 38)
}

/// 9 MB as JSON.
fn within_the_limit() -> Vec<u8> {
    lists_of_lists(2, 100)
}

/// The body of a request with one argument.
fn request(method: &str, args: &[u8]) -> Vec<u8> {
    let descriptor = "Ljava/lang/Object;";
    let head = RequestHead { path: SERVICE, version: "", method, descriptor };
    let timeout = [("timeout", "30000")];
    let template = RequestTemplate::new(Serialization::Hessian2, &head, &timeout).unwrap();
    let (now, mut client) =
        (Instant::now(), ClientConnection::new(ClientConfig::default(), Instant::now()));
    client.send(now, &template, args, &[], now + Duration::from_secs(30), ()).unwrap();
    client.transmit()[HEADER_LEN..].to_vec()
}

fn used(agent: &Agent) -> usize {
    metric(agent, "dubmesh_memory_used_bytes").try_into().unwrap()
}

/// All threads for long work, which then wait.
fn all_threads(agent: &Agent) -> Vec<Thread> {
    let n_cores = std::thread::available_parallelism().unwrap().get();
    (0..n_cores).map(|_| block_on(agent.threads().free(None)).unwrap()).collect()
}

/// An agent with one worker before an HTTP app, for consumers by Dubbo.
fn before_app(app: &TestApp) -> Agent {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\nmemory_bytes = {BUDGET}\n\
         [[registry]]\nname = \"main\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         [dubbo]\nlisten = \"127.0.0.1:0\"\n\
         [[export]]\ninterface = \"{SERVICE}\"\napp = \"http://{}\"\n",
        app.addr
    );
    start(&text, &MemoryHub::new())
}

/// A consumer, once the app answers.
fn connected(agent: &Agent) -> DubboConsumer {
    let mut consumer = DubboConsumer::connect(agent.addresses().dubbo_exports.unwrap());
    wait_until("the app", || (consumer.call("ready", "x", &[]).status == Status::Ok).then_some(()));
    consumer
}

/// None of them is expanded before there is a thread for it, and none is more than its share.
#[test]
fn requests_that_expand_wait_for_a_thread_and_are_refused_for_good() {
    const N: u64 = 12;
    let app = TestApp::start(|_| Does::json("null"));
    let agent = before_app(&app);
    let (mut hostile, mut other) = (connected(&agent), connected(&agent));
    let threads = all_threads(&agent);
    let body = request("m", &over_the_limit());
    assert!(body.len() < 2000, "{}", body.len());
    (0..N).for_each(|token| hostile.send(Serialization::Hessian2, &body, token));
    // The requests have come, of which each holds what it is long itself.
    wait_until("the requests", || (4_000 < used(&agent)).then_some(()));
    for _ in 0..3 {
        assert_eq!(other.call("m", "short", &[]).status, Status::Ok);
        assert!(used(&agent) < 4 * MIB, "{}", used(&agent));
    }
    assert!(!hostile.hears(Duration::from_millis(1)));
    drop(threads);
    for _ in 0..N {
        let (_, answer) = hostile.answer();
        let text = answer.text();
        assert!(text.contains("may have 16777216 bytes: 128 times as many"), "{text}");
    }
    wait_until("the memory to be given back", || (used(&agent) == 0).then_some(()));
}

/// What is under the limit is drawn from the budget while it grows, and so there is never more of
/// it than that.
#[test]
fn many_requests_that_expand_share_the_budget() {
    const N: u64 = 20;
    let app = TestApp::start(|_| Does::json("null"));
    let agent = before_app(&app);
    let mut hostile = connected(&agent);
    let body = request("m", &within_the_limit());
    (0..N).for_each(|token| hostile.send(Serialization::Hessian2, &body, token));
    let (mut n_ok, mut most) = (0, 0);
    std::thread::scope(|scope| {
        let answers = scope.spawn(|| (0..N).map(|_| hostile.answer().1).collect::<Vec<_>>());
        while !answers.is_finished() {
            most = most.max(used(&agent));
        }
        for answer in answers.join().unwrap() {
            n_ok += usize::from(answer.status == Status::Ok);
            let is_refused = answer.status != Status::Ok && answer.text().contains("memory_bytes");
            assert!(answer.status == Status::Ok || is_refused, "{}", answer.text());
        }
    });
    assert!(0 < n_ok && most <= BUDGET, "{n_ok} answered, {most} bytes");
    assert!(9_000_000 < app.last().body.len(), "{}", app.last().body.len());
    wait_until("the memory to be given back", || (used(&agent) == 0).then_some(()));
}

/// A provider that answers every request with this body; each connection has a thread.
fn provider(body: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, body) = (stream.unwrap(), body.clone());
            // It ends with the agent's end of the connection.
            std::thread::spawn(move || answer_all(stream, body));
        }
    });
    addr
}

fn answer_all(mut stream: TcpStream, body: impl Fn(&str) -> Vec<u8>) -> Option<()> {
    loop {
        let mut head = [0; HEADER_LEN];
        stream.read_exact(&mut head).ok()?;
        let asked = Header::parse(&head).unwrap();
        let mut request = vec![0; asked.body_len];
        stream.read_exact(&mut request).ok()?;
        let body =
            if asked.is_event { vec![b'N'] } else { body(&String::from_utf8_lossy(&request)) };
        let header =
            Header { is_request: false, two_way: false, status: 20, body_len: body.len(), ..asked };
        stream.write_all(&[&header.encode()[..], &body].concat()).ok()?;
    }
}

/// A reply that expands is no trouble for other calls of its worker, and a final error if it is
/// over the limit. By references it can be had.
#[test]
fn replies_that_expand_are_written_by_another_thread() {
    let hub = MemoryHub::new();
    let addr = provider(|request| match () {
        () if request.contains("bomb") => [&b"\x91"[..], &over_the_limit()].concat(),
        () if request.contains("long") => [&b"\x91"[..], &within_the_limit()].concat(),
        () => b"\x91\x02hi".to_vec(),
    });
    let _registered = register(&hub, addr);
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\nmemory_bytes = {BUDGET}\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n"
    );
    let agent = &start(&text, &hub);
    wait_until("an answer", || {
        (call(agent, "short", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let threads = all_threads(agent);
    std::thread::scope(|scope| {
        let bomb = scope.spawn(move || call(agent, "bomb", &[STRING, PATIENT], "[\"x\"]"));
        let long = scope.spawn(move || call(agent, "long", &[STRING, PATIENT], "[\"x\"]"));
        wait_until("the replies", || (2000 < used(agent)).then_some(()));
        for _ in 0..3 {
            assert_eq!(call(agent, "short", &[STRING], "[\"x\"]").body, "\"hi\"");
        }
        assert!(!bomb.is_finished() && !long.is_finished());
        drop(threads);
        let bomb = bomb.join().unwrap();
        assert_eq!((bomb.status, &*bomb.code()), (502, "reply_too_large"), "{bomb:?}");
        for part in ["may have 16777216 bytes", "refs=path", "\"retryable\":false"] {
            assert!(bomb.body.contains(part), "{bomb:?}");
        }
        let long = long.join().unwrap();
        assert!(long.status == 200 && 9_000_000 < long.body.len(), "{}", long.body.len());
    });
    let by_paths = [STRING, "x-dubbo-json: refs=path"];
    let answer = call(agent, "bomb", &by_paths, "[\"x\"]");
    assert!(answer.status == 200 && answer.body.len() < 10_000, "{answer:?}");
    wait_until("the memory to be given back", || (used(agent) == 0).then_some(()));
}
