//! Connections of HTTP/1 that go from one worker to another, because the load needs fewer workers,
//! or more.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use agent::Agent;
use registry::MemoryHub;

use crate::support::http2::{Http2, PING};
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, StopAtEnd, block_on, metric, register, request,
    start, wait_until,
};

fn agent(hub: &MemoryHub) -> Agent {
    let text = "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 2\n\
                [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
                [defaults]\ntimeout_ms = 10000\n\
                [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";
    start(text, hub)
}

fn n_connections(agent: &Agent) -> [u64; 2] {
    [0, 1]
        .map(|worker| metric(agent, &format!("dubmesh_worker_connections{{worker=\"{worker}\"}}")))
}

/// Requests that come in all kinds of ways, each answered by what it asks for.
fn ask_in_many_ways(caller: &mut Http) {
    let path = format!("/{SERVICE}/echo");
    assert_eq!(caller.post(&path, &[STRING], "[\"a\"]").body, "\"a\"");
    let whole = request(&path, &[STRING], "[\"in pieces\"]");
    for cut in [1, 20, whole.len() - 3] {
        caller.send(&whole[..cut]);
        caller.send(&whole[cut..]);
        assert_eq!(caller.read().body, "\"in pieces\"", "cut at {cut}");
    }
    // Two at once, the second one by half.
    let second = request(&path, &[STRING], "[\"second\"]");
    caller.send(format!("{whole}{}", &second[..second.len() / 2]));
    assert_eq!(caller.read().body, "\"in pieces\"");
    caller.send(&second[second.len() / 2..]);
    assert_eq!(caller.read().body, "\"second\"");
    caller.send(format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\n{STRING}\r\ntransfer-encoding: chunked\r\n\r\n\
         4\r\n[\"ch\r\n7\r\nunked\"]\r\n0\r\n\r\n"
    ));
    assert_eq!(caller.read().body, "\"chunked\"");
    assert_eq!(caller.post(&path, &[STRING], "[1").status, 400);
}

/// Calls on all connections until `is_done`.
fn call_until(callers: &mut [Http], what: &str, is_done: impl Fn() -> bool) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&done);
        for caller in callers {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    ask_in_many_ways(caller);
                }
            });
        }
        wait_until(what, || is_done().then_some(()));
        done.store(true, Relaxed);
    });
}

#[test]
fn connections_go_where_the_load_wants_them_and_no_call_is_lost() {
    let (provider, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = register(&hub, provider.addr);
    let agent = agent(&hub);
    let n_used = || metric(&agent, "dubmesh_workers_used");
    let mut callers: Vec<_> = (0..16).map(|_| Http::to(&agent)).collect();
    wait_until("the first answer", || {
        let path = format!("/{SERVICE}/echo");
        (callers[0].post(&path, &[STRING], "[\"a\"]").status == 200).then_some(())
    });
    assert_eq!(n_connections(&agent), [8, 8]);
    for _ in 0..2 {
        wait_until("one worker is enough", || (n_used() == 1).then_some(()));
        // One call after the other leaves it time.
        wait_until("they go to the one that stays", || {
            callers.iter_mut().for_each(ask_in_many_ways);
            (n_connections(&agent) == [16, 0] || n_used() == 2).then_some(())
        });
        call_until(&mut callers, "one worker is not enough", || n_used() == 2);
        call_until(&mut callers, "half of them go to the other", || {
            n_connections(&agent) == [8, 8] || n_used() == 1
        });
    }
    // Those that come go to the worker that is used, but for those that cannot leave it later.
    wait_until("one worker is enough", || (n_used() == 1).then_some(()));
    let mut late = Http::to(&agent);
    ask_in_many_ways(&mut late);
    let before = n_connections(&agent);
    let mut http2: Vec<_> = (0..4).map(|_| Http2::to(&agent, 65_535)).collect();
    for connection in &mut http2 {
        connection.frame(PING, 0, 0, &[7; 8]);
        assert_eq!(connection.next(PING).1, [7; 8]);
    }
    wait_until("they are spread", || {
        let now = n_connections(&agent);
        (before[1] < now[1] || n_used() == 2).then_some(())
    });
    drop(http2);
    callers.push(late);
    // They end with the agent, wherever they are.
    block_on(agent.drain());
    assert!(callers.iter_mut().all(|caller| caller.try_read().is_none()));
}
