//! What is over a limit, or not there, is said clearly and hurts nobody else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{ECHO, Gauge, NEVER, calls, quickly, serve, test, until};
use bytes::{Bytes, BytesMut};
use link::codec::{Raw, Serde};
use link::{
    CallError, Client, ClientConfig, Connections, Failure, Full, Method, NoItems, Server,
    ServerConfig, Service, Status, StreamMethod, WhenFull,
};
use link_proto::{Connection, Event, RequestOut, RouteDef};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

const ORDER: Method<u64, u64> = Method::new::<Serde>("test.Order", "order");

fn refused<T: std::fmt::Debug>(result: Result<T, CallError>) -> (Status, String) {
    match result {
        Err(CallError::Failed(Failure::Refused { status, text })) => (status, text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_over_a_limit_are_refused_alone() {
    test(|| async {
        let config = ServerConfig { max_message_len: 100_000, ..Default::default() };
        let server = serve(config, calls(&Gauge::default())).await;
        let config = ClientConfig { max_message_len: 50_000, ..Default::default() };
        let client = Client::connect_with(server.local_addr(), config).await.unwrap();
        let echo = client.bind(&ECHO);
        let text = |result: Result<Bytes, CallError>| result.unwrap_err().to_string();
        assert_eq!(
            text(echo.call(vec![0; 100_001].into()).await),
            "message of 100001 bytes is over the limit of 100000"
        );
        assert_eq!(
            refused(echo.call(vec![0; 50_001].into()).await),
            (Status::TOO_LARGE, "answer of 50001 bytes is over the caller's limit of 50000".into())
        );
        assert_eq!(echo.call(vec![7; 50_000].into()).await.unwrap().len(), 50_000);
        assert_eq!(server.n_connections(), 1);
    });
}

#[test]
fn metadata_over_a_limit_is_refused_in_both_directions() {
    test(|| async {
        const GROW: Method<u32, ()> = Method::new::<Serde>("test.Meta", "grow");
        let service = Service::new("test.Meta").method(&GROW, |context, n| async move {
            for n in 0..n {
                context.add_reply_meta(n.to_string(), "");
            }
        });
        let server = serve(ServerConfig::default(), service).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let grow = client.bind(&GROW);
        let many = (0..129).fold(grow.call(0), |call, n| call.meta(n.to_string(), ""));
        let failure = many.await.unwrap_err();
        assert_eq!(failure.failure().unwrap().name(), "too_large");
        assert_eq!(failure.to_string(), "129 entries of metadata are over the limit of 128");
        let long = grow.call(0).meta("key", "x".repeat(33_000)).await.unwrap_err();
        assert!(matches!(long, CallError::Failed(Failure::TooLarge { max: 32_768, .. })), "{long}");
        let (status, text) = refused(grow.call(129).await);
        assert_eq!(status, Status::SERVER_ERROR);
        assert_eq!(text, "metadata of the answer: too many entries: 129, the limit is 128");
        let reply = grow.call(128).meta("key", "x".repeat(30_000)).with_reply().await.unwrap();
        assert_eq!(reply.meta.value("127"), Some(""));
    });
}

#[test]
fn what_is_not_there_is_named() {
    test(|| async {
        let server = serve(ServerConfig::default(), calls(&Gauge::default())).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        const OTHER: Method<(), ()> = Method::new::<Serde>("test.Other", "echo");
        const LATER: Method<(), ()> = Method::new::<Serde>("test.Calls", "later");
        const TYPED: Method<u64, u64> = Method::new::<Serde>("test.Calls", "echo");
        // The first calls come together with the method's definition, later ones do not.
        for _ in 0..3 {
            let (status, text) = refused(client.call(&OTHER, ()).await);
            assert_eq!(status, Status::NOT_FOUND_SERVICE);
            assert_eq!(text, "there is no service 'test.Other' here");
            let (status, text) = refused(client.call(&LATER, ()).await);
            assert_eq!(status, Status::NOT_FOUND_METHOD);
            assert_eq!(text, "service 'test.Calls' has no method 'later'");
            let (status, text) = refused(client.call(&TYPED, 7).await);
            assert_eq!(status, Status::BAD_REQUEST);
            assert!(text.starts_with("cannot decode the arguments: codec "), "{text}");
            assert!(text.ends_with(" is not among 1 (raw)"), "{text}");
        }
        client.bind(&OTHER).call_one_way(()).await.unwrap();
        let no_stream: StreamMethod<Bytes, NoItems, Bytes, Bytes> =
            StreamMethod::down::<(Raw,)>("test.Calls", "echo");
        let call = client.bind_stream(&no_stream).open(Bytes::new()).await.unwrap();
        assert_eq!(refused(call.finish().await).1, "this method does not stream");
        // A codec that the method does not know is not used.
        let echo = client.bind(&ECHO);
        assert_eq!(echo.call(Bytes::from_static(b"hi")).codec(99).await.unwrap(), "hi");
        until(|| server.n_calls() == 0).await;
    });
}

#[test]
fn names_that_clash_are_refused() {
    test(|| async {
        const SUM: Method<u64, u64> = Method::new::<Serde>("test.Order", "sum");
        let listen = async |services: [Service; 2]| {
            let [one, two] = services;
            let server = Server::new().offer(one).offer(two).listen("127.0.0.1:0").await;
            server.err().expect("names clash").to_string()
        };
        let one = || Service::new("test.Order").method(&ORDER, |_, n| async move { n });
        let two = one().method(&SUM, |_, n| async move { n });
        assert_eq!(
            listen([one(), two]).await,
            "two services are called 'test.Order'; offer each name once"
        );
        let text = "service 'test.Order' has two methods called 'order'";
        let other = || Service::new("test.Other");
        assert_eq!(listen([one().blocking(&ORDER, |_, n| n), other()]).await, text);
        assert_eq!(listen([other(), one().in_place("order", |_, _| {})]).await, text);
        assert_eq!(
            listen([one(), other().method(&SUM, |_, n| async move { n })]).await,
            "method 'sum' belongs to service 'test.Order' and was added to service 'test.Other'; \
             Method::of changes the service of a method"
        );
        let moved = other().method(&SUM.of("test.Other"), |_, n| async move { n });
        Server::new().offer(one()).offer(moved).listen("127.0.0.1:0").await.unwrap();
    });
}

#[test]
fn settings_out_of_their_ranges_are_refused() {
    test(|| async {
        let client = |change: fn(&mut ClientConfig)| {
            let mut config = ClientConfig::default();
            change(&mut config);
            Client::lazy("127.0.0.1:1", config).err().map(|error| error.to_string())
        };
        let connections = "ClientConfig::connections is";
        for (change, text) in [
            (
                (|config| config.connections = Connections::Fixed(0)) as fn(&mut ClientConfig),
                format!("{connections} 0; it must be 1 to 64"),
            ),
            (
                |config| config.connections = Connections::Fixed(5000),
                format!("{connections} 5000; it must be 1 to 64"),
            ),
            (
                |config| config.connections = Connections::Auto { max: 65 },
                format!("{connections} 65; it must be 1 to 64"),
            ),
            (
                |config| config.max_calls = 0,
                "ClientConfig::max_calls is 0; it must be 1 to 65536".to_owned(),
            ),
            (
                |config| config.max_bytes = 0,
                "ClientConfig::max_bytes is 0; it must be at least 1".to_owned(),
            ),
            (
                |config| config.max_message_len = (1 << 30) + 1,
                "ClientConfig::max_message_len is 1073741825; it must be at most 1073741824"
                    .to_owned(),
            ),
        ] {
            assert_eq!(client(change), Some(text));
        }
        assert_eq!(client(|config| config.connections = Connections::Fixed(64)), None);
        for change in [
            (|config| config.max_calls_per_connection = 0) as fn(&mut ServerConfig),
            |config| config.max_calls_per_connection = 65_537,
            |config| config.max_calls = 0,
            |config| config.max_connections = 0,
            |config| config.max_buffered_bytes = 0,
            |config| config.blocking_threads = 0,
            |config| config.max_message_len = u32::MAX,
        ] {
            let mut config = ServerConfig::default();
            change(&mut config);
            let server = Server::with_config(config).listen("127.0.0.1:0").await;
            let text = server.err().expect("a wrong setting").to_string();
            assert!(text.starts_with("ServerConfig::"), "{text}");
        }
    });
}

#[test]
fn a_timeout_of_zero_fails_and_sends_nothing() {
    test(|| async {
        let n_begun = Arc::new(AtomicU64::new(0));
        let begun = Arc::clone(&n_begun);
        let service = Service::new("test.Order").method(&ORDER, move |_, n| {
            begun.fetch_add(1, Ordering::SeqCst);
            async move { n }
        });
        let server = serve(ServerConfig::default(), service).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let order = client.bind(&ORDER);
        let failure = quickly(order.call(7).timeout(Duration::ZERO)).await.unwrap_err();
        assert_eq!(failure.to_string(), "no answer within 0ns");
        const ITEMS: StreamMethod<u64, NoItems, u64, u64> =
            StreamMethod::down::<Serde>("test.Order", "order");
        let failure = client.bind_stream(&ITEMS).open(7).timeout(Duration::ZERO).await.err();
        assert_eq!(failure.unwrap().name(), "timeout");
        let config = ClientConfig { timeout: Some(Duration::ZERO), ..Default::default() };
        let hasty = Client::connect_with(server.local_addr(), config).await.unwrap().bind(&ORDER);
        assert_eq!(hasty.call_one_way(7).await.unwrap_err().name(), "timeout");
        assert_eq!(hasty.call(7).no_timeout().await.unwrap(), 7);
        assert_eq!(n_begun.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_full_client_rejects_or_says_what_is_full() {
    test(|| async {
        let never = Gauge::default();
        let server = serve(ServerConfig::default(), calls(&never)).await;
        let config =
            ClientConfig { max_calls: 2, when_full: WhenFull::Reject, ..Default::default() };
        let client = Client::connect_with(server.local_addr(), config.clone()).await.unwrap();
        let hold = |client: &Client| {
            let method = client.bind(&NEVER);
            tokio::spawn(async move { method.call(()).await })
        };
        let held = [hold(&client), hold(&client)];
        until(|| never.n_now() == 2).await;
        let failure = quickly(client.call(&ECHO, Bytes::new())).await.unwrap_err();
        assert_eq!(failure.to_string(), "2 calls are in flight, which is the limit");
        assert!(failure.failure().unwrap().is_not_begun());
        held[0].abort();
        until(|| never.n_now() == 1).await;
        quickly(client.call(&ECHO, Bytes::new())).await.unwrap();

        let config = ClientConfig { max_waiting_calls: 1, when_full: WhenFull::Wait, ..config };
        let client = Client::connect_with(server.local_addr(), config).await.unwrap();
        let _held = [hold(&client), hold(&client)];
        until(|| never.n_now() == 3).await;
        let _waiting = hold(&client);
        tokio::task::yield_now().await;
        let failure = quickly(client.call(&ECHO, Bytes::new())).await.unwrap_err();
        assert!(matches!(failure, CallError::Failed(Failure::Full(Full::Waiting(1)))), "{failure}");
    });
}

#[test]
fn calls_that_wait_are_served_in_the_order_in_which_they_came() {
    test(|| async {
        let (order, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(0)));
        let (seen, held) = (Arc::clone(&order), Arc::clone(&gate));
        let service = Service::new("test.Order").method(&ORDER, move |_, n| {
            seen.lock().unwrap().push(n);
            let held = Arc::clone(&held);
            async move {
                held.acquire().await.unwrap().forget();
                n
            }
        });
        let server = Server::new().offer(service).listen("127.0.0.1:0").await.unwrap();
        let config = ClientConfig { max_calls: 3, ..Default::default() };
        let client = Client::connect_with(server.local_addr(), config).await.unwrap();
        let method = client.bind(&ORDER);
        let calls: Vec<_> = (0..200)
            .map(|n| {
                let method = method.clone();
                tokio::spawn(async move { method.call(n).await.unwrap() })
            })
            .collect();
        until(|| order.lock().unwrap().len() == 3).await;
        gate.add_permits(200);
        for (n, call) in (0..).zip(calls) {
            assert_eq!(call.await.unwrap(), n);
        }
        assert!(order.lock().unwrap().is_sorted());
    });
}

/// Reads from `stream` until the connection's machine has what it waits for.
async fn read_until(
    stream: &mut TcpStream,
    machine: &mut Connection<u32>,
    mut is_done: impl FnMut(Event<u32>) -> bool,
) {
    let mut input = BytesMut::new();
    loop {
        while let Some(event) = machine.poll_event() {
            if is_done(event) {
                return;
            }
        }
        assert_ne!(stream.read_buf(&mut input).await.unwrap(), 0, "the server is gone");
        machine.handle_bytes(Instant::now(), &mut input).unwrap();
    }
}

#[test]
fn a_client_that_asks_and_does_not_read_makes_the_server_wait() {
    test(|| async {
        const N_CALLS: u32 = 4000;
        let n_begun = Arc::new(AtomicU64::new(0));
        let begun = Arc::clone(&n_begun);
        let answer = Bytes::from(vec![7; 64 << 10]);
        let service = Service::new("test.Large")
            .method(&Method::<(), Bytes>::new::<(Raw,)>("test.Large", "get"), move |_, ()| {
                begun.fetch_add(1, Ordering::SeqCst);
                let answer = answer.clone();
                async move { answer }
            })
            .method(&ORDER.of("test.Large"), |_, n| async move { n });
        let server = serve(ServerConfig::default(), service).await;
        let mut stream = TcpStream::connect(server.local_addr()).await.unwrap();
        let mut machine = Connection::client(
            link_proto::Config { window: N_CALLS, ..Default::default() },
            Instant::now(),
        );
        stream.write_all_buf(machine.transmit()).await.unwrap();
        read_until(&mut stream, &mut machine, |event| matches!(event, Event::Ready(_))).await;
        let def =
            RouteDef { service: "test.Large".into(), method: "get".into(), ..Default::default() };
        let route = machine.define(&def).unwrap();
        for n in 0..N_CALLS {
            let request = RequestOut { codec: 1, ..RequestOut::new(route) };
            machine.send_request(Instant::now(), request, n).unwrap();
        }
        stream.write_all_buf(machine.transmit()).await.unwrap();

        // Others are served, and what is begun for the one that does not read stays limited.
        let client = Client::connect(server.local_addr()).await.unwrap();
        until(|| 0 < n_begun.load(Ordering::SeqCst)).await;
        for n in 0..500 {
            let order = Method::<u64, u64>::new::<Serde>("test.Large", "order");
            assert_eq!(quickly(client.call(&order, n)).await.unwrap(), n);
        }
        assert!(n_begun.load(Ordering::SeqCst) < 1500, "{n_begun:?} of {N_CALLS} calls were begun");

        // When it reads at last, every call is answered.
        let mut n_answered = 0;
        read_until(&mut stream, &mut machine, |event| {
            if let Event::Response { payload, .. } = event {
                assert_eq!(payload.len(), 64 << 10);
                n_answered += 1;
            }
            n_answered == N_CALLS
        })
        .await;
    });
}
