//! How many connections there are to a provider, or to its agent: as many as configured, or as
//! many as the calls need.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{
    Behaviour, FakeProvider, STRING, StopAtEnd, call, provider_agent, register, register_link,
    start, wait_until,
};
use registry::MemoryHub;
use socket2::SockRef;

/// What a connection of the narrow network carries at a time, and then rests.
const PORTION_LEN: usize = 8 * 1024;
const REST: Duration = Duration::from_millis(4);

/// A network where each connection carries two megabytes a second towards its client, however many
/// there are.
fn narrow(provider: SocketAddr) -> SocketAddr {
    network(provider, Rests { to_client: REST, ..Rests::default() }).address
}

/// A network to one place.
struct Network {
    address: SocketAddr,
    /// Connections so far.
    n_made: Arc<AtomicUsize>,
}

/// How long a connection rests after each portion.
#[derive(Clone, Copy, Default)]
struct Rests {
    from_client: Duration,
    to_client: Duration,
}

fn network(server: SocketAddr, rests: Rests) -> Network {
    network_of(TcpListener::bind("127.0.0.1:0").unwrap(), server, rests)
}

fn network_of(listener: TcpListener, server: SocketAddr, rests: Rests) -> Network {
    let address = listener.local_addr().unwrap();
    let n_made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&n_made);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            count.fetch_add(1, Ordering::SeqCst);
            let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || pass_on(from, to, rests.to_client));
            thread::spawn(move || pass_on(client, server, rests.from_client));
        }
    });
    Network { address, n_made }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, rest: Duration) {
    let mut bytes = vec![0; PORTION_LEN];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
        thread::sleep(rest);
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// An agent with one worker, so that its connections can be counted.
fn one_worker(hub: &MemoryHub, defaults: &str) -> agent::Agent {
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 1\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n[defaults]\n{defaults}\n"
    );
    start(&text, hub)
}

/// Has so many callers make calls with long replies, one after the other, until `is_over`.
fn callers(agent: &agent::Agent, n: usize, is_over: impl Fn(usize) -> bool) {
    callers_of("long", agent, n, is_over);
}

fn callers_of(method: &str, agent: &agent::Agent, n: usize, is_over: impl Fn(usize) -> bool) {
    asking(method, "[\"x\"]", agent, n, is_over);
}

fn asking(
    method: &str,
    arguments: &str,
    agent: &agent::Agent,
    n: usize,
    is_over: impl Fn(usize) -> bool,
) {
    let (ended, n_answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..n {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let patient = "x-dubbo-timeout-ms: 30000";
                    let answer = call(agent, method, &[STRING, patient], arguments);
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    n_answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _ended = StopAtEnd(&ended);
        wait_until("the end of the calls", || {
            is_over(n_answers.load(Ordering::Relaxed)).then_some(())
        });
    });
}

fn is_called(agent: &agent::Agent) {
    wait_until("an answer", || {
        (call(agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
}

#[test]
fn slow_connections_are_joined_by_others_while_messages_wait_for_each_other() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, narrow(provider.addr));
    let agent = one_worker(&hub, "");
    is_called(&agent);
    // One of them is for short messages.
    callers(&agent, 24, |_| 5 <= provider.n_connections());
}

/// A network where each connection takes some 200 kB a second from its client, and keeps little of
/// what it has taken.
fn slow_to_take(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    SockRef::from(&listener).set_recv_buffer_size(8 * 1024).unwrap();
    let rests = Rests { from_client: Duration::from_millis(40), ..Rests::default() };
    network_of(listener, server, rests).address
}

/// The socket takes most requests at once, so that nothing but the kernel shows what is slow.
#[test]
fn requests_that_are_taken_slowly_get_more_connections() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, slow_to_take(provider.addr));
    let agent = one_worker(&hub, "");
    is_called(&agent);
    let text = format!("[\"{}\"]", "x".repeat(8_000));
    asking("echo", &text, &agent, 24, |_| 4 <= provider.n_connections());
}

#[test]
fn there_are_as_many_as_configured() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, narrow(provider.addr));
    let agent = one_worker(&hub, "connections = 3\nlong_bytes = 0");
    is_called(&agent);
    wait_until("three", || (provider.n_connections() == 3).then_some(()));
    callers(&agent, 12, |n_answers| 200 <= n_answers);
    assert_eq!(provider.n_connections(), 3);
}

/// A provider behind an agent, and an agent that calls it over a network of such rests.
fn linked(
    provider: &FakeProvider,
    rest: Duration,
) -> (agent::Agent, Network, agent::Agent, impl Sized) {
    let (near, far) = (MemoryHub::default(), MemoryHub::default());
    let providers = provider_agent(&far, provider.addr);
    let rests = Rests { to_client: rest, ..Rests::default() };
    let network = network(providers.addresses().link.unwrap(), rests);
    let registered = register_link(&near, network.address);
    let consumers = one_worker(&near, "");
    is_called(&consumers);
    (consumers, network, providers, registered)
}

#[test]
fn narrow_links_are_joined_by_others_while_messages_wait_for_each_other() {
    let provider = FakeProvider::start(Behaviour::Good);
    let (consumers, network, _providers, _registered) = linked(&provider, REST);
    // One of them is for short messages.
    callers(&consumers, 24, |_| 5 <= network.n_made.load(Ordering::SeqCst));
}

#[test]
fn a_link_that_is_not_held_up_stays_alone() {
    let provider = FakeProvider::start(Behaviour::Good);
    let (consumers, network, _providers, _registered) = linked(&provider, Duration::ZERO);
    callers_of("echo", &consumers, 8, |n_answers| 5000 <= n_answers);
    assert_eq!(network.n_made.load(Ordering::SeqCst), 1);
}

#[test]
fn long_messages_have_a_link_of_their_own() {
    let provider = FakeProvider::start(Behaviour::Good);
    let (consumers, network, _providers, _registered) = linked(&provider, Duration::ZERO);
    callers(&consumers, 1, |n_answers| 100 <= n_answers);
    callers_of("echo", &consumers, 1, |n_answers| 100 <= n_answers);
    assert_eq!(network.n_made.load(Ordering::SeqCst), 2);
}
