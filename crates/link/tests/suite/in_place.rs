//! Methods that are answered while requests are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{ECHO, Gauge, calls, test, test_on_threads};
use bytes::Bytes;
use link::codec::{Raw, Serde};
use link::observe::{CallInfo, Observer, Outcome};
use link::{CallError, Client, Failure, Method, Server, ServerConfig, Service, Status};

const UPPER: Method<Bytes, Bytes> = Method::new::<(Raw,)>("test.InPlace", "upper");
const REPEAT: Method<Bytes, Bytes> = Method::new::<(Raw,)>("test.InPlace", "repeat");
const PANIC: Method<Bytes, Bytes> = Method::new::<(Raw,)>("test.InPlace", "panic");
/// The same in a codec that it does not have.
const TYPED: Method<String, String> = Method::new::<Serde>("test.InPlace", "upper");

fn service() -> Service {
    Service::new("test.InPlace")
        .in_place("upper", |text, reply| reply.extend(text.iter().map(u8::to_ascii_uppercase)))
        .in_place("repeat", |text, reply| (0..1000).for_each(|_| reply.extend_from_slice(text)))
        .in_place("panic", |text, reply| {
            reply.extend_from_slice(text);
            panic!("on purpose");
        })
}

async fn check(client: &Client) {
    let reply = client.call(&UPPER, Bytes::from_static(b"quiet")).await.unwrap();
    assert_eq!(reply, "QUIET");
    assert_eq!(client.call(&UPPER, Bytes::new()).await.unwrap(), "");
    let long = Bytes::from(vec![b'x'; 300_000]);
    assert_eq!(client.call(&UPPER, long).await.unwrap(), vec![b'X'; 300_000]);
    let reply = client.call(&REPEAT, Bytes::from_static(b"0123456789")).await.unwrap();
    assert_eq!(reply, "0123456789".repeat(1000));
    let reply = client.call(&REPEAT, Bytes::from(vec![7; 1000])).await.unwrap();
    assert_eq!(reply, vec![7; 1_000_000]);
    match client.call(&PANIC, Bytes::from_static(b"lost")).await {
        Err(CallError::Failed(Failure::Refused { status: Status::SERVER_ERROR, text })) => {
            assert_eq!(text, "the handler panicked: on purpose");
        }
        other => panic!("{other:?}"),
    }
    match client.call(&TYPED, "text".to_owned()).await {
        Err(CallError::Failed(Failure::Refused { status: Status::BAD_REQUEST, text })) => {
            assert!(text.contains("takes raw bytes"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_call_gets_its_answer() {
    test(|| async {
        let server = Server::new().offer(service()).listen("127.0.0.1:0").await.unwrap();
        check(&Client::connect(server.local_addr()).await.unwrap()).await;
    });
}

#[test]
fn they_live_beside_other_methods() {
    test_on_threads(|| async {
        let server = Server::new().offer(service()).offer(calls(&Gauge::default()));
        let server = server.listen("127.0.0.1:0").await.unwrap();
        let client = Client::connect(server.local_addr()).await.unwrap();
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..2000_u32 {
            let client = client.clone();
            calls.spawn(async move {
                let text = Bytes::from(format!("call {n}"));
                let method = if n % 3 == 0 { &ECHO } else { &UPPER };
                let reply = client.call(method, text.clone()).await.unwrap();
                assert!(reply.eq_ignore_ascii_case(&text), "{reply:?}");
                assert_eq!(reply == text, n % 3 == 0);
            });
        }
        while let Some(ended) = calls.join_next().await {
            ended.unwrap();
        }
    });
}

#[derive(Default)]
struct Counts(AtomicUsize);

impl Observer for Counts {
    fn ended(&self, _: &CallInfo<'_>, _: Outcome, _: Duration) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_observer_hears_of_them() {
    test(|| async {
        let counts = Arc::new(Counts::default());
        let observer: Arc<dyn Observer> = Arc::clone(&counts) as _;
        let config = ServerConfig { observer: Some(observer), ..ServerConfig::default() };
        let server = Server::with_config(config).offer(service());
        let server = server.listen("127.0.0.1:0").await.unwrap();
        check(&Client::connect(server.local_addr()).await.unwrap()).await;
        assert_eq!(counts.0.load(Ordering::SeqCst), 7);
    });
}
