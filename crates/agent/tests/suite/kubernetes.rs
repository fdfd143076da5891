//! An agent that finds a provider in Kubernetes.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use crate::support::{Behaviour, FakeProvider, SERVICE, STRING, call, wait_until};

/// An API server that lists these objects, and whose watches say nothing.
fn api_server(slices: String, services: String) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut watches = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(head)) = lines.next() else { continue };
            // An agent that stops leaves its request unfinished.
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            if head.contains("watch=true") {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                watches.push(stream);
                continue;
            }
            let items = if head.contains("/endpointslices?") { &slices } else { &services };
            let body = format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{items}]}}"#);
            let len = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    addr
}

#[test]
fn calls_reach_a_provider_that_an_annotation_names() {
    let app = FakeProvider::start(Behaviour::Good);
    let slice = format!(
        r#"{{"metadata":{{"name":"orders-1","namespace":"shop","labels":
        {{"kubernetes.io/service-name":"orders"}}}},"ports":[{{"name":"dubbo","port":{}}}],
        "endpoints":[{{"addresses":["127.0.0.1"],"conditions":{{"ready":true}}}},
        {{"addresses":["127.0.0.2"],"conditions":{{"ready":false,"terminating":true}}}}]}}"#,
        app.addr.port()
    );
    let orders = format!(
        r#"{{"metadata":{{"name":"orders","namespace":"shop","annotations":
        {{"dubmesh.io/services":"{SERVICE}"}}}}}}"#
    );
    let api = api_server(slice, orders);
    let text = format!(
        "[agent]\nworkers = 1\n[[registry]]\nkind = \"kubernetes\"\nserver = \"http://{api}\"\n\
         namespace = \"shop\"\n[[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n"
    );
    let agent = agent::Agent::start(agent::config::parse(&text, "test.toml").unwrap()).unwrap();
    wait_until("an answer", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    for _ in 0..20 {
        assert_eq!(call(&agent, "echo", &[STRING], "[\"x\"]").status, 200);
    }
}
