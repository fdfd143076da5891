//! Connections of HTTP/1 that rest between their requests, because there are many.

use std::io::Write;
use std::net::TcpStream;

use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, block_on, metric, register, request, start,
    wait_until,
};
use registry::MemoryHub;

/// More than a worker has without minding what an idle one keeps.
const N_SILENT: usize = 1_001;

#[test]
fn who_rests_is_served_as_before() {
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let (provider, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = register(&hub, provider.addr);
    let text = "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\n\
                [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
                [defaults]\ntimeout_ms = 10000\n\
                [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";
    let agent = start(text, &hub);
    let address = agent.addresses().http[0];
    let silent: Vec<TcpStream> =
        (0..N_SILENT).map(|_| TcpStream::connect(address).unwrap()).collect();
    let is_open = format!("dubmesh_connections_open{{listener=\"{address}\"}}");
    wait_until("the silent connections", || {
        (N_SILENT <= usize::try_from(metric(&agent, &is_open)).unwrap()).then_some(())
    });
    let path = format!("/{SERVICE}/echo");
    let mut caller = Http::to(&agent);
    wait_until("the first answer", || {
        (caller.post(&path, &[STRING], "[\"a\"]").status == 200).then_some(())
    });
    // In pieces: the first of them wakes it.
    let whole = request(&path, &[STRING], "[\"in pieces\"]");
    for cut in [1, 2, 3, 20, whole.len() - 3] {
        caller.send(&whole[..cut]);
        // Whoever calls meanwhile is served.
        assert_eq!(Http::to(&agent).post(&path, &[STRING], "[\"b\"]").status, 200);
        caller.send(&whole[cut..]);
        assert_eq!(caller.read().body, "\"in pieces\"", "cut at {cut}");
    }
    // Two at once, the second one by half.
    let second = request(&path, &[STRING], "[\"second\"]");
    caller.send(format!("{whole}{}", &second[..second.len() / 2]));
    assert_eq!(caller.read().body, "\"in pieces\"");
    caller.send(&second[second.len() / 2..]);
    assert_eq!(caller.read().body, "\"second\"");
    // By chunks.
    caller.send(format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\n{STRING}\r\ntransfer-encoding: chunked\r\n\r\n\
         4\r\n[\"ch\r\n7\r\nunked\"]\r\n0\r\n\r\n"
    ));
    assert_eq!(caller.read().body, "\"chunked\"");
    // A body that is not read is not taken for a request.
    caller.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n"));
    assert_eq!(caller.read().status, 405);
    let rest = format!("xyz{}", request(&path, &[STRING], "[\"after\"]"));
    let _ = caller.0.write_all(rest.as_bytes());
    if let Some(answer) = caller.try_read() {
        assert_eq!((answer.status, &*answer.body), (200, "\"after\""));
    }
    // The last one.
    let mut caller = Http::to(&agent);
    assert_eq!(caller.post(&path, &[STRING], "[\"c\"]").status, 200);
    let answer = caller.post(&path, &[STRING, "connection: close"], "[\"last\"]");
    assert_eq!((answer.status, caller.try_read().is_none()), (200, true));
    // Those who rest end with the agent.
    let mut caller = Http::to(&agent);
    assert_eq!(caller.post(&path, &[STRING], "[\"d\"]").status, 200);
    drop(silent);
    block_on(agent.drain());
    assert!(caller.try_read().is_none());
}
