//! Long messages do not hold up short ones: they have a connection of their own to a Dubbo
//! provider.

use crate::support::dubbo::{DubboConsumer, body, string};
use crate::support::{
    Behaviour, FakeProvider, SERVICE, STRING, block_on, call, dubbo_consumer, dubbo_exporting,
    metric, provider_agent, register, start, wait_until,
};
use dubbo_proto::Status;
use registry::MemoryHub;

/// Long by default.
const LONG_LEN: usize = 64 * 1024;

/// An agent for HTTP callers with one worker, so that its connections can be counted.
fn one_worker(hub: &MemoryHub, extra: &str) -> agent::Agent {
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 1\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n{extra}\n"
    );
    start(&text, hub)
}

fn argument(len: usize) -> String {
    format!("[\"{}\"]", "x".repeat(len))
}

/// Calls through an agent by HTTP: a long one is held up by the provider, a short one is not.
fn short_ones_pass_by_http(agent: &agent::Agent, provider: &FakeProvider) {
    wait_until("an answer", || {
        (call(agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    std::thread::scope(|scope| {
        let long = argument(LONG_LEN);
        let long = scope.spawn(move || call(agent, "echo", &[STRING, PATIENT], &long));
        wait_until("the long call", || (provider.n_connections() == 2).then_some(()));
        for _ in 0..10 {
            assert_eq!(call(agent, "echo", &[STRING], "[\"short\"]").body, "\"short\"");
        }
        assert!(!long.is_finished());
        provider.go_on();
        assert_eq!(long.join().unwrap().status, 200);
    });
    assert_eq!(provider.n_connections(), 2);
}

const PATIENT: &str = "x-dubbo-timeout-ms: 30000";
/// Shorter than a long message waits before the worker turns it into another form itself.
const HURRIED: &str = "x-dubbo-timeout-ms: 700";

#[test]
fn straight_to_a_provider() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Jams));
    let _registered = register(&hub, provider.addr);
    short_ones_pass_by_http(&one_worker(&hub, ""), &provider);
}

#[test]
fn from_an_agent_to_its_app() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Jams));
    let _agent = provider_agent(&hub, provider.addr);
    short_ones_pass_by_http(&one_worker(&hub, ""), &provider);
}

/// The same for a Dubbo consumer, which sends one after the other on one connection.
fn short_ones_pass_by_dubbo(mut dubbo: DubboConsumer, provider: &FakeProvider) {
    wait_until("an answer", || (dubbo.call("echo", "x", &[]).status == Status::Ok).then_some(()));
    let timeout = [("timeout", "30000")];
    let long = body(SERVICE, "echo", &"x".repeat(LONG_LEN), &timeout);
    dubbo.send(dubbo_proto::Serialization::Hessian2, &long, 77);
    for _ in 0..10 {
        assert_eq!(dubbo.call("echo", "short", &[]).value(), string("short"));
    }
    provider.go_on();
    let (number, answer) = dubbo.answer();
    assert_eq!((number, answer.status), (77, Status::Ok));
    assert!(LONG_LEN < answer.value().len());
    assert_eq!(provider.n_connections(), 2);
}

#[test]
fn of_a_dubbo_consumer() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Jams));
    let _registered = register(&hub, provider.addr);
    let agent = dubbo_consumer(&hub, "");
    short_ones_pass_by_dubbo(DubboConsumer::to(&agent), &provider);
}

#[test]
fn of_a_dubbo_consumer_to_the_app_beside_the_agent() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Jams));
    let export = format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"", provider.addr);
    let agent = dubbo_exporting(&hub, &export);
    let dubbo = DubboConsumer::connect(agent.addresses().dubbo_exports.unwrap());
    short_ones_pass_by_dubbo(dubbo, &provider);
}

/// Nobody knows how long a reply will be but from those before.
#[test]
fn methods_whose_replies_are_long_are_learnt() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, provider.addr);
    let agent = one_worker(&hub, "");
    wait_until("an answer", || {
        (call(&agent, "long", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    assert_eq!(provider.n_connections(), 1);
    assert_eq!(call(&agent, "echo", &[STRING], "[\"x\"]").status, 200);
    assert_eq!(provider.n_connections(), 1, "another method");
    assert_eq!(call(&agent, "long", &[STRING], "[\"x\"]").status, 200);
    assert_eq!(provider.n_connections(), 2);
    assert_eq!(call(&agent, "long", &[STRING], "[\"x\"]").status, 200);
    assert_eq!(provider.n_connections(), 2);
}

#[test]
fn it_can_be_turned_off() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, provider.addr);
    let agent = one_worker(&hub, "[defaults]\nlong_bytes = 0");
    let long = argument(LONG_LEN);
    for _ in 0..3 {
        wait_until("an answer", || {
            (call(&agent, "echo", &[STRING], &long).status == 200).then_some(())
        });
    }
    assert_eq!(provider.n_connections(), 1);
}

/// A provider that refuses a second connection still gets its long calls.
#[test]
fn a_provider_that_takes_one_connection_gets_them_all() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, provider.addr);
    let agent = one_worker(&hub, "");
    wait_until("an answer", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    provider.take_no_more();
    assert_eq!(call(&agent, "echo", &[STRING], &argument(LONG_LEN)).status, 200);
}

/// While a long message waits to be turned into another form, others are answered by the same
/// worker: it does not do that itself. `held_len` is what the long one holds meanwhile.
fn short_ones_pass_what_is_worked_on(method: &'static str, len: usize, held_len: usize) {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, provider.addr);
    let text = "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\n\
                [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
                [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";
    let agent = &start(text, &hub);
    let held = || usize::try_from(metric(agent, "dubmesh_memory_used_bytes")).unwrap();
    wait_until("an answer", || {
        (call(agent, "nothing", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let n_cores = std::thread::available_parallelism().unwrap().get();
    let threads: Vec<_> =
        (0..n_cores).map(|_| block_on(agent.threads().free(None)).unwrap()).collect();
    std::thread::scope(|scope| {
        let long = scope.spawn(move || call(agent, method, &[STRING, PATIENT], &argument(len)));
        wait_until("the long message", || (held_len <= held()).then_some(()));
        for _ in 0..3 {
            assert_eq!(call(agent, "nothing", &[STRING], "[\"short\"]").body, "null");
        }
        assert!(!long.is_finished());
        drop(threads);
        let answer = long.join().unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, LONG_LEN + "\"\"".len()));
    });
    wait_until("the memory to be given back", || (held() == 0).then_some(()));
}

/// Nothing is done for a call whose time is up: its request is not sent, nor its reply made JSON.
#[test]
fn a_call_whose_time_is_up_while_others_are_worked_on_is_given_up() {
    let (hub, provider) = (MemoryHub::default(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, provider.addr);
    // A call that may still be at the provider would keep others away from it.
    let agent = one_worker(&hub, "[defaults]\nendpoint_capacity = 1\n");
    let echo = |argument: &str| call(&agent, "echo", &[STRING, HURRIED], argument);
    wait_until("an answer", || (echo("[\"x\"]").status == 200).then_some(()));
    let n_cores = std::thread::available_parallelism().unwrap().get();
    let threads: Vec<_> =
        (0..n_cores).map(|_| block_on(agent.threads().free(None)).unwrap()).collect();
    let n_before = provider.n_requests();
    for (method, len, n_requests) in [("echo", LONG_LEN, 0), ("long", 1, 1)] {
        let n_before = provider.n_requests();
        let answer = call(&agent, method, &[STRING, HURRIED], &argument(len));
        assert_eq!((answer.status, &*answer.code()), (504, "timeout"), "{answer:?}");
        assert!(answer.body.contains("the deadline passed while a long message"), "{answer:?}");
        assert_eq!(provider.n_requests() - n_before, n_requests, "{method}");
    }
    assert_eq!(echo("[\"x\"]").status, 200, "the provider has room");
    drop(threads);
    assert_eq!(provider.n_requests(), n_before + 2);
}

#[test]
fn short_ones_pass_a_long_reply_that_is_made_json() {
    // The reply, and room for its JSON; some kilobytes of each connection do not count.
    short_ones_pass_what_is_worked_on("long", 1, LONG_LEN / 2 * 3);
}

#[test]
fn short_ones_pass_a_long_request_that_is_encoded() {
    short_ones_pass_what_is_worked_on("echo", LONG_LEN, LONG_LEN / 2);
}
