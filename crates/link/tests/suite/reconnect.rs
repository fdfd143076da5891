//! Servers that die, come back, fall silent, or are none.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::support::proxy::{Mode, Proxy};
use crate::support::{ECHO, Gauge, LONG, NEVER, calls, quickly, serve, serve_again, test, until};
use bytes::Bytes;
use link::codec::Serde;
use link::{CallError, Client, ClientConfig, Failure, Method, ServerConfig, Service, WhenDown};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const MS: Duration = Duration::from_millis(1);
const HI: Bytes = Bytes::from_static(b"hi");

fn impatient() -> ClientConfig {
    ClientConfig { min_backoff: 5 * MS, max_backoff: 50 * MS, ..Default::default() }
}

/// An address where nobody listens.
async fn nowhere() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[test]
fn calls_wait_for_a_server_that_comes_back() {
    test(|| async {
        let never = Gauge::default();
        let server = serve(ServerConfig::default(), calls(&never)).await;
        let address = server.local_addr();
        let client = Client::connect_with(address, impatient()).await.unwrap();
        let method = client.bind(&NEVER);
        let held = tokio::spawn(async move { method.call(()).await });
        until(|| never.n_now() == 1).await;
        drop(server);
        let failure = quickly(held).await.unwrap().unwrap_err();
        assert!(
            failure.to_string().starts_with("the connection broke while the call was in flight: "),
            "{failure}"
        );
        assert!(!failure.failure().unwrap().is_not_begun());
        let mut waiting = Vec::new();
        for _ in 0..10 {
            let echo = client.bind(&ECHO);
            let mut call = Box::pin(async move { echo.call(HI).timeout(LONG).await });
            // It is made now, while nobody is there.
            let polled = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
            assert!(polled.is_pending(), "{polled:?}");
            waiting.push(call);
        }
        let _server = serve_again(address, || calls(&never)).await;
        for call in waiting {
            assert_eq!(call.await.unwrap(), HI);
        }
    });
}

#[test]
fn a_server_that_is_not_there_is_named() {
    test(|| async {
        let address = nowhere().await;
        let error = Client::connect(address).await.err().expect("nobody listens");
        let text = error.to_string();
        assert!(text.starts_with(&format!("cannot connect to {address}: ")), "{text}");
        assert!(text.contains("refused"), "{text}");

        // A call waits for it until its time is over.
        let client = Client::lazy(address, impatient()).unwrap();
        let failure = client.bind(&ECHO).call(HI).timeout(50 * MS).await.unwrap_err();
        let text = failure.to_string();
        assert!(text.starts_with(&format!("cannot reach {address}: ")), "{text}");
        assert!(text.contains("refused") && failure.failure().unwrap().is_not_begun(), "{text}");

        // Or it does not wait.
        let config = ClientConfig { when_down: WhenDown::Fail, ..impatient() };
        let client = Client::lazy(address, config).unwrap();
        for _ in 0..3 {
            let failure = quickly(client.call(&ECHO, HI)).await.unwrap_err();
            assert_eq!(failure.failure().unwrap().name(), "unreachable");
        }
        let server = serve_again(address, || calls(&Gauge::default())).await;
        while client.call(&ECHO, HI).await.is_err() {
            tokio::time::sleep(MS).await;
        }
        drop(server);
    });
}

/// What comes of calls to a server that does this with each connection.
async fn call_a_stranger(greeting: &'static [u8], when_down: WhenDown, closes: bool) -> Failure {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stranger = tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(greeting).await.unwrap();
            if !closes {
                held.push(stream);
            }
        }
    });
    let config = ClientConfig { when_down, connect_timeout: 50 * MS, ..impatient() };
    let error = Client::connect_with(address, config.clone()).await.err().expect("a stranger");
    let client = Client::lazy(address, config).unwrap();
    let failure = match client.bind(&ECHO).call(HI).timeout(500 * MS).await {
        Err(CallError::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    };
    stranger.abort();
    let Failure::Unreachable { reason, .. } = &failure else {
        panic!("{failure} ({error})");
    };
    // The first attempt may have met a connection that was reset, which says less.
    assert!(error.to_string().contains(reason) || closes, "{error}: {reason}");
    failure
}

#[test]
fn a_peer_that_is_no_link_is_told_from_one() {
    test(|| async {
        for when_down in [WhenDown::Wait, WhenDown::Fail] {
            let http = call_a_stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n", when_down, false).await;
            assert!(http.to_string().contains("protocol error"), "{http}");
            let silent = call_a_stranger(b"", when_down, false).await;
            assert!(
                silent.to_string().contains("no HELLO within the handshake timeout"),
                "{silent}"
            );
            let later = b"\0\0\0\x06\x01\0\0\0\0\0\0\0\0\0\0\0DMSH\x09\x0a";
            let later = call_a_stranger(later, when_down, false).await;
            assert!(later.to_string().contains("speaks versions 9 to 10"), "{later}");
            let closed = call_a_stranger(b"", when_down, true).await.to_string();
            assert!(
                closed.contains("closed the connection") || closed.contains("reset"),
                "{closed}"
            );
        }
    });
}

#[test]
fn a_server_gets_rid_of_strangers_and_serves_the_others() {
    test(|| async {
        let config = ServerConfig { handshake_timeout: 50 * MS, ..Default::default() };
        let server = serve(config, calls(&Gauge::default())).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let greetings: [&[u8]; 5] = [
            b"",
            b"GET / HTTP/1.1\r\nhost: here\r\n\r\n",
            b"\0\0\0\x06\x01\0\0\0\0\0\0\0\0\0\0\0DMSH\x09\x0a",
            b"\0\0\0\x06\x01\0\0",
            &[0xff; 4096],
        ];
        let mut strangers = Vec::new();
        for greeting in greetings {
            let mut stream = TcpStream::connect(server.local_addr()).await.unwrap();
            stream.write_all(greeting).await.unwrap();
            strangers.push(stream);
        }
        for mut stream in strangers {
            let mut last_words = Vec::new();
            let _ = quickly(stream.read_to_end(&mut last_words)).await;
        }
        until(|| server.n_connections() == 1).await;
        assert_eq!(quickly(client.call(&ECHO, HI)).await.unwrap(), HI);
    });
}

#[test]
fn attempts_to_connect_become_rarer() {
    test(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config =
            ClientConfig { min_backoff: 4 * MS, max_backoff: 32 * MS, ..Default::default() };
        let _client = Client::lazy(address, config).unwrap();
        let mut last = None;
        for attempt in 0..8_u32 {
            drop(listener.accept().await.unwrap());
            let now = Instant::now();
            if let Some(last) = last.replace(now) {
                // Between half and all of the pause; the connection was there a little before.
                let pause = 4 * MS * (1 << (attempt - 1).min(3));
                assert!(pause / 2 <= now - last + 2 * MS, "{attempt}: {:?}", now - last);
            }
        }
    });
}

#[test]
fn only_idempotent_calls_are_made_again_after_a_break() {
    test(|| async {
        const ONCE: Method<(), u64> = Method::new::<Serde>("test.Count", "once");
        const AGAIN: Method<(), u64> = Method::new::<Serde>("test.Count", "again").idempotent();
        /// The first call never ends.
        fn count(n_begun: &Arc<AtomicUsize>) -> impl Fn(link::Context, ()) -> Reply + use<> {
            let n_begun = Arc::clone(n_begun);
            move |_, ()| {
                let n = n_begun.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move {
                    if n == 0 {
                        std::future::pending::<()>().await;
                    }
                    7
                })
            }
        }
        type Reply = std::pin::Pin<Box<dyn Future<Output = u64> + Send>>;
        let (once, again) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let service =
            Service::new("test.Count").method(&ONCE, count(&once)).method(&AGAIN, count(&again));
        let server = serve(ServerConfig::default(), service).await;
        let proxy = Proxy::start(server.local_addr()).await;
        let client = Client::connect_with(proxy.address(), impatient()).await.unwrap();
        let (first, second) = (client.bind(&ONCE), client.bind(&AGAIN));
        let first = tokio::spawn(async move { first.call(()).await });
        let second = tokio::spawn(async move { second.call(()).await });
        until(|| once.load(Ordering::SeqCst) == 1 && again.load(Ordering::SeqCst) == 1).await;
        proxy.break_all();
        assert_eq!(quickly(second).await.unwrap().unwrap(), 7);
        let failure = quickly(first).await.unwrap().unwrap_err();
        assert_eq!(failure.failure().unwrap().name(), "broken");
        assert_eq!((once.load(Ordering::SeqCst), again.load(Ordering::SeqCst)), (1, 2));
    });
}

#[test]
fn an_idempotent_call_is_begun_five_times_at_most() {
    test(|| async {
        const STUCK: Method<(), ()> = Method::new::<Serde>("test.Count", "stuck").idempotent();
        let n_begun = Arc::<AtomicUsize>::default();
        let begun = Arc::clone(&n_begun);
        let service = Service::new("test.Count").method(&STUCK, move |_, ()| {
            begun.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        });
        let server = serve(ServerConfig::default(), service).await;
        let proxy = Proxy::start(server.local_addr()).await;
        for timeout in [None, Some(2 * LONG)] {
            n_begun.store(0, Ordering::SeqCst);
            let config = ClientConfig { timeout, ..impatient() };
            let client = Client::connect_with(proxy.address(), config).await.unwrap();
            let method = client.bind(&STUCK);
            let call = tokio::spawn(async move { method.call(()).await });
            for n in 1..=5 {
                quickly(until(|| n_begun.load(Ordering::SeqCst) == n)).await;
                proxy.break_all();
            }
            let failure = quickly(call).await.unwrap().unwrap_err();
            assert_eq!(failure.failure().unwrap().name(), "broken");
            assert_eq!(n_begun.load(Ordering::SeqCst), 5);
        }
    });
}

/// Its last try finds nobody. That does not make it a call that was never begun.
#[test]
fn a_call_that_broke_and_finds_no_server_may_have_been_done() {
    test(|| async {
        const STUCK: Method<(), ()> = Method::new::<Serde>("test.Count", "stuck").idempotent();
        let begun = Gauge::default();
        let work = begun.clone();
        let service = Service::new("test.Count").method(&STUCK, move |_, ()| {
            let inside = work.enter();
            async move {
                std::future::pending::<()>().await;
                drop(inside);
            }
        });
        let server = serve(ServerConfig::default(), service).await;
        for when_down in [WhenDown::Wait, WhenDown::Fail] {
            let proxy = Proxy::start(server.local_addr()).await;
            let config = ClientConfig { when_down, timeout: Some(500 * MS), ..impatient() };
            let client = Client::connect_with(proxy.address(), config).await.unwrap();
            let method = client.bind(&STUCK);
            let call = tokio::spawn(async move { method.call(()).await });
            until(|| begun.n_now() == 1).await;
            drop(proxy);
            let failure = quickly(call).await.unwrap().unwrap_err();
            assert!(!failure.failure().unwrap().is_not_begun(), "{failure}");
            until(|| begun.n_now() == 0).await;
        }
    });
}

#[test]
fn a_client_finds_a_connection_that_is_half_open() {
    test(|| async {
        let never = Gauge::default();
        let server = serve(ServerConfig::default(), calls(&never)).await;
        // Bytes vanish; or nobody takes them, and those that were sent fill all buffers.
        for (mode, len) in [(Mode::Swallow, 0), (Mode::Stall, 0), (Mode::Stall, 1 << 20)] {
            let proxy = Proxy::start(server.local_addr()).await;
            let config = ClientConfig { keepalive: 50 * MS, ping_timeout: 50 * MS, ..impatient() };
            let client = Client::connect_with(proxy.address(), config).await.unwrap();
            client.call(&ECHO, HI).await.unwrap();
            proxy.set(mode);
            let calls: Vec<_> = (0..20)
                .map(|_| {
                    let echo = client.bind(&ECHO);
                    tokio::spawn(async move { echo.call(vec![0; len].into()).await })
                })
                .collect();
            // The last may wait for room, and go on to the next connection.
            let first = calls.into_iter().next().unwrap();
            let text = quickly(first).await.unwrap().unwrap_err().to_string();
            assert!(text.ends_with("the peer is silent"), "{mode:?} {len}: {text}");
            proxy.set(Mode::Pass);
            let echo = client.bind(&ECHO);
            while quickly(echo.call(HI).timeout(100 * MS)).await.is_err() {}
        }
    });
}

#[test]
fn a_server_finds_clients_that_are_gone() {
    test(|| async {
        let never = Gauge::default();
        let config =
            ServerConfig { keepalive: 50 * MS, ping_timeout: 50 * MS, ..Default::default() };
        let server = serve(config, calls(&never)).await;
        for mode in [Mode::Swallow, Mode::Stall] {
            let proxy = Proxy::start(server.local_addr()).await;
            let client = Client::connect_with(proxy.address(), impatient()).await.unwrap();
            let method = client.bind(&NEVER);
            let call = tokio::spawn(async move { method.call(()).await });
            until(|| never.n_now() == 1).await;
            proxy.set(mode);
            quickly(until(|| never.n_now() == 0 && server.n_connections() == 0)).await;
            call.abort();
        }
    });
}
