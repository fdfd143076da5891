//! How many connections a client has, and clients without a runtime.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::support::proxy::{Mode, Proxy};
use crate::support::{ECHO, Gauge, LONG, NEVER, calls, quickly, serve, test, until};
use bytes::Bytes;
use link::codec::Serde;
use link::{Client, ClientConfig, Connections, Method, Server, ServerConfig, Service};

const WHO: Method<(), String> = Method::new::<Serde>("test.Who", "who");
const NOTE: Method<u64, ()> = Method::new::<Serde>("test.Who", "note");

fn who(n_notes: &Arc<AtomicUsize>) -> Service {
    let n_notes = Arc::clone(n_notes);
    Service::new("test.Who")
        .method(&WHO, |context, ()| async move { context.peer().address().to_string() })
        .method(&NOTE, move |_, _| {
            n_notes.fetch_add(1, Ordering::SeqCst);
            async {}
        })
}

#[test]
fn a_fixed_number_of_connections_share_the_calls() {
    test(|| async {
        let server = serve(ServerConfig::default(), who(&Arc::default())).await;
        let config = ClientConfig { connections: Connections::Fixed(4), ..Default::default() };
        let client = Client::connect_with(server.local_addr(), config).await.unwrap();
        until(|| server.n_connections() == 4).await;
        assert_eq!(client.n_connections(), 4);
        let seen = Arc::<Mutex<BTreeSet<String>>>::default();
        let callers: Vec<_> = (0..20)
            .map(|_| {
                let (who, seen) = (client.bind(&WHO), Arc::clone(&seen));
                tokio::spawn(async move {
                    for _ in 0..20 {
                        let address = who.call(()).await.unwrap();
                        seen.lock().unwrap().insert(address);
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        assert_eq!(seen.lock().unwrap().len(), 4);
        client.close(LONG).await;
        until(|| server.n_connections() == 0).await;
    });
}

#[test]
fn connections_are_added_when_bytes_wait_and_only_then() {
    test(|| async {
        let server = serve(ServerConfig::default(), calls(&Gauge::default())).await;
        let proxy = Proxy::start(server.local_addr()).await;
        let client = Client::connect(proxy.address()).await.unwrap();
        let echo = client.bind(&ECHO);
        for _ in 0..2000 {
            echo.call(Bytes::from_static(b"light")).await.unwrap();
        }
        assert_eq!(client.n_connections(), 1);
        proxy.set(Mode::Slow);
        let callers: Vec<_> = (0..50)
            .map(|_| {
                let echo = echo.clone();
                tokio::spawn(async move {
                    loop {
                        let _ = echo.call(vec![0; 200_000].into()).await;
                    }
                })
            })
            .collect();
        until(|| 1 < client.n_connections()).await;
        until(|| 1 < proxy.n_accepted()).await;
        callers.iter().for_each(tokio::task::JoinHandle::abort);
        proxy.set(Mode::Pass);
        echo.call(Bytes::from_static(b"light")).await.unwrap();
        assert!(client.n_connections() <= 4);
    });
}

/// A server on a runtime of its own.
fn beside<T>(body: impl FnOnce(&tokio::runtime::Runtime) -> T) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    body(&runtime)
}

#[test]
fn threads_share_a_blocking_client() {
    beside(|runtime| {
        let n_notes = Arc::<AtomicUsize>::default();
        let server = runtime.block_on(serve(ServerConfig::default(), who(&n_notes)));
        let config = ClientConfig { max_calls: 4, ..Default::default() };
        let client = Client::connect_blocking(server.local_addr(), config).unwrap();
        let address = client.bind(&WHO).call(()).wait().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                let (who, address) = (client.bind(&WHO), &address);
                scope.spawn(move || {
                    for _ in 0..200 {
                        assert_eq!(who.call(()).wait().unwrap(), *address);
                    }
                });
            }
        });
        // What was sent arrives although the client is dropped at once.
        let note = client.bind(&NOTE);
        for n in 0..500 {
            runtime.block_on(async { note.call_one_way(n).await.unwrap() });
        }
        drop((note, client));
        runtime.block_on(quickly(until(|| server.n_connections() == 0 && server.n_calls() == 0)));
        assert_eq!(n_notes.load(Ordering::SeqCst), 500);
    });
}

#[test]
fn a_blocking_client_may_be_dropped_while_its_calls_are_out() {
    beside(|runtime| {
        let never = Gauge::default();
        let server = runtime.block_on(serve(ServerConfig::default(), calls(&never)));
        let config = ClientConfig { timeout: None, ..Default::default() };
        let client = Client::connect_blocking(server.local_addr(), config).unwrap();
        let method = client.bind(&NEVER);
        let caller = std::thread::spawn(move || {
            method.call(()).timeout(Duration::from_millis(100)).wait().unwrap_err().to_string()
        });
        runtime.block_on(quickly(until(|| never.n_ever() == 1)));
        drop(client);
        assert_eq!(caller.join().unwrap(), "no answer within 100ms");
        runtime.block_on(quickly(until(|| server.n_connections() == 0 && never.n_now() == 0)));
    });
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let text = "this needs a tokio runtime to be called on; Client::connect_blocking needs none";
    let error = Client::lazy("127.0.0.1:1", ClientConfig::default()).err().unwrap();
    assert_eq!(error.to_string(), text);
    let listening = pin!(Server::new().listen("127.0.0.1:0"));
    let Poll::Ready(Err(error)) = listening.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it cannot listen");
    };
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_blocking_client_of_nobody_fails() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Client::connect_blocking(address, ClientConfig::default()).err().unwrap();
    assert!(error.to_string().starts_with(&format!("cannot connect to {address}: ")), "{error}");
}
