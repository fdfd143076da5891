//! What a call costs in the two state machines, without sockets: nanoseconds per call.
//!
//! `cargo run --release -p dubbo-proto --example client_bench [CALLS [SERIALIZATION]]`
//!
//! Calls go out in batches of 64, as they do on a busy connection. The client's part (writing the
//! request, finding the reply) and the server's part are timed apart.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use dubbo_proto::{
    ClientConfig, ClientConnection, ClientEvent, ReplyKind, RequestHead, RequestTemplate,
    Serialization, ServerConfig, ServerConnection, ServerEvent,
};

const BATCH: u32 = 64;
const ARG_LEN: usize = 100;

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
    Instant::now()
}

/// One machine's output becomes the other's input, through a buffer that is used again.
fn carry(from: &mut BytesMut, to: &mut BytesMut) {
    to.extend_from_slice(from);
    from.clear();
}

fn template(serialization: Serialization) -> RequestTemplate {
    let head = RequestHead {
        path: "com.alibaba.dubbo.performance.demo.provider.IHelloService",
        version: "",
        method: "hash",
        descriptor: "Ljava/lang/String;",
    };
    let interface = [("path", head.path), ("interface", head.path), ("timeout", "1000")];
    RequestTemplate::new(serialization, &head, &interface).expect("the names are good")
}

fn argument(serialization: Serialization) -> Vec<u8> {
    let text = "x".repeat(ARG_LEN);
    let mut args = Vec::new();
    match serialization {
        Serialization::Fastjson => args = format!("\"{text}\"").into_bytes(),
        _ => hessian::write_string(&mut args, &text),
    }
    args
}

fn measure(serialization: Serialization, n_calls: u32) {
    let (template, args) = (template(serialization), argument(serialization));
    let start = now();
    let mut client = ClientConnection::new(ClientConfig::default(), start);
    let mut server = ServerConnection::new(ServerConfig::default(), start);
    let (mut to_server, mut to_client) = (BytesMut::new(), BytesMut::new());
    let (mut in_client, mut in_server) = (Duration::ZERO, Duration::ZERO);
    let mut n_replies = 0;
    for _ in 0..n_calls / BATCH {
        let begin = now();
        let deadline = begin + Duration::from_secs(1);
        for token in 0..BATCH {
            let sent = client.send(begin, &template, &args, &[], deadline, token);
            assert!(sent.is_ok());
        }
        carry(client.transmit(), &mut to_server);
        let sent = now();
        server.handle_bytes(sent, &mut to_server).expect("good requests");
        while let Some(ServerEvent::Request { to, request, .. }) = server.poll_event() {
            server.reply(sent, to, ReplyKind::Value, request.args(), &[]).expect("room");
        }
        carry(server.transmit(), &mut to_client);
        let replied = now();
        client.handle_bytes(replied, &mut to_client).expect("good replies");
        while let Some(event) = client.poll_event() {
            n_replies += u32::from(matches!(event, ClientEvent::Reply { .. }));
        }
        let end = now();
        in_client += (sent - begin) + (end - replied);
        in_server += replied - sent;
    }
    assert_eq!(n_replies, n_calls / BATCH * BATCH);
    let ns = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(n_replies);
    println!("{serialization}: client {:.0} ns, server {:.0} ns", ns(in_client), ns(in_server));
}

fn main() {
    let mut args = std::env::args().skip(1);
    let n_calls = args.next().and_then(|n| n.parse().ok()).unwrap_or(2_000_000);
    let only = args.next().and_then(|name| Serialization::from_name(&name));
    for serialization in [Serialization::Hessian2, Serialization::Fastjson] {
        if only.is_none_or(|only| only == serialization) {
            measure(serialization, n_calls);
        }
    }
}
