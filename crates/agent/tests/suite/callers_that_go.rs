//! Callers by HTTP/1 that hang up while their call is under way, or ask ahead.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::{
    Behaviour, FakeProvider, SERVICE, STRING, consumer_with_metrics, n_calls, register, request,
    wait_until,
};
use agent::Agent;
use registry::MemoryHub;

const PATIENCE: Duration = Duration::from_secs(10);

fn echo() -> Vec<u8> {
    request(&format!("/{SERVICE}/echo"), &[STRING], "[\"x\"]").into_bytes()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Has a call be under way that is never answered, and its caller hang up.
fn check<C>(agent: &Agent, silent: &FakeProvider, mut caller: C, send: Send<C>, hang_up: fn(C)) {
    let (n_requests, before) = (silent.n_requests(), n_calls(agent, silent.addr, "cancelled"));
    send(&mut caller);
    wait_until("the request", || (n_requests < silent.n_requests()).then_some(()));
    assert_eq!(n_calls(agent, silent.addr, "cancelled"), before);
    hang_up(caller);
    wait_until("its end", || {
        (n_calls(agent, silent.addr, "cancelled") == before + 1).then_some(())
    });
}

/// Makes a call with little time, and says whether that was over before an answer came.
fn is_late(address: SocketAddr) -> bool {
    let request = String::from_utf8(echo()).unwrap();
    let request = request.replacen("\r\n", "\r\nx-dubbo-timeout-ms: 50\r\n", 1);
    let mut caller = connect(address);
    caller.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 12];
    caller.read_exact(&mut answer).unwrap();
    answer == *b"HTTP/1.1 504"
}

type Send<C> = fn(&mut C);

fn at_once(caller: &mut impl Write) {
    caller.write_all(&echo()).unwrap();
}

fn by_and_by(caller: &mut impl Write) {
    for byte in echo() {
        caller.write_all(&[byte]).unwrap();
    }
}

#[test]
fn each_way_to_hang_up_gives_the_call_up() {
    let (hub, silent) = (MemoryHub::new(), FakeProvider::start(Behaviour::Hang));
    let _registered = register(&hub, silent.addr);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("http.sock");
    let agent = consumer_with_metrics(
        &hub,
        &format!(
            "[[ingress]]\nprotocol = \"http\"\nlisten = \"unix:{}\"\n\
             [defaults]\ntimeout_ms = 60000\neject_silence_ms = 0\n",
            socket.display()
        ),
    );
    let address = agent.addresses().http[0];
    // Each of these calls has ended before the next one is made.
    wait_until("the service", || is_late(address).then_some(()));
    check(&agent, &silent, connect(address), at_once, drop);
    check(&agent, &silent, connect(address), by_and_by, drop);
    check(&agent, &silent, UnixStream::connect(&socket).unwrap(), at_once, drop);
}

/// Who ends its own direction after a whole request, as `nc -N` does, still waits for the answer.
#[test]
fn who_ends_its_direction_alone_is_answered() {
    let (hub, slow) = (MemoryHub::new(), FakeProvider::start(Behaviour::Slow));
    let _registered = register(&hub, slow.addr);
    let agent = consumer_with_metrics(&hub, "");
    let address = agent.addresses().http[0];
    let ask = |version: &str| {
        let request = String::from_utf8(echo()).unwrap().replacen("HTTP/1.1", version, 1);
        let mut caller = connect(address);
        caller.write_all(request.as_bytes()).unwrap();
        caller.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        caller.read_to_string(&mut answer).unwrap();
        answer
    };
    wait_until("the service", || ask("HTTP/1.0").starts_with("HTTP/1.0 200").then_some(()));
    for version in ["HTTP/1.1", "HTTP/1.0"] {
        for _ in 0..20 {
            let answer = ask(version);
            let answer = answer.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&answer);
            assert!(answer.starts_with(&format!("{version} 200 ")), "{answer:?}");
            assert!(answer.ends_with("\r\n\r\n\"x\""), "{answer:?}");
        }
    }
    assert_eq!(n_calls(&agent, slow.addr, "cancelled"), 0);
}

/// Who sends the next request before the answer to the last one gets both, in order.
#[test]
fn who_asks_ahead_is_answered() {
    let (hub, good) = (MemoryHub::new(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, good.addr);
    let agent = consumer_with_metrics(&hub, "");
    let mut caller = connect(agent.addresses().http[0]);
    let ask = |n: u32| request(&format!("/{SERVICE}/echo"), &[STRING], &format!("[\"{n}\"]"));
    let read = |caller: &mut TcpStream, n: u32| {
        let (mut answer, end) = (Vec::new(), format!("\r\n\r\n\"{n}\""));
        while !answer.ends_with(end.as_bytes()) {
            let mut byte = [0];
            caller.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    };
    wait_until("the service", || {
        let mut http = crate::support::Http::to(&agent);
        (http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    for n in 0..50 {
        let (first, second) = (2 * n, 2 * n + 1);
        match n % 2 {
            0 => caller.write_all((ask(first) + &ask(second)).as_bytes()).unwrap(),
            _ => {
                caller.write_all(ask(first).as_bytes()).unwrap();
                caller.write_all(ask(second).as_bytes()).unwrap();
            }
        }
        read(&mut caller, first);
        read(&mut caller, second);
    }
}
