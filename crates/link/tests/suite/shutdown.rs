//! Nothing that was accepted is lost when either side leaves in good order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{
    Gauge, LONG, NEVER, calls, quickly, serve, serve_again, test, test_on_threads, until,
};
use bytes::Bytes;
use link::codec::Serde;
use link::{CallError, Client, Failure, Method, Server, ServerConfig, Service};

const ADD: Method<u64, u64> = Method::new::<Serde>("test.Sums", "add");
const NOTE: Method<Bytes, ()> = Method::new::<(link::codec::Raw,)>("test.Sums", "note");

/// Counts the calls, some of which take a while.
fn sums(n_done: &Arc<AtomicU64>) -> Service {
    let (added, noted) = (Arc::clone(n_done), Arc::clone(n_done));
    Service::new("test.Sums")
        .method(&ADD, move |_, n| {
            let added = Arc::clone(&added);
            async move {
                if n % 4 == 0 {
                    tokio::time::sleep(Duration::from_millis(n % 16)).await;
                }
                added.fetch_add(1, Ordering::SeqCst);
                n + 1
            }
        })
        .method(&NOTE, move |_, _| {
            noted.fetch_add(1, Ordering::SeqCst);
            async {}
        })
}

#[test]
fn one_way_calls_before_a_client_leaves_arrive() {
    test(|| async {
        for len in [0, 10_000] {
            let n_done = Arc::<AtomicU64>::default();
            let server = serve(ServerConfig::default(), sums(&n_done)).await;
            let client = Client::connect(server.local_addr()).await.unwrap();
            let note = client.bind(&NOTE);
            for _ in 0..1000 {
                note.call_one_way(vec![0; len].into()).await.unwrap();
            }
            drop(note);
            match len {
                0 => client.close(LONG).await,
                _ => drop(client),
            }
            until(|| server.n_connections() == 0 && server.n_calls() == 0).await;
            assert_eq!(n_done.load(Ordering::SeqCst), 1000);
        }
    });
}

#[test]
fn a_server_that_leaves_under_load_loses_no_call() {
    for on_threads in [false, true] {
        let body = || async move {
            let n_done = Arc::<AtomicU64>::default();
            let mut server = serve(ServerConfig::default(), sums(&n_done)).await;
            let address = server.local_addr();
            let client = Client::connect(address).await.unwrap();
            let goes_on = Arc::new(std::sync::atomic::AtomicBool::new(true));
            let callers: Vec<_> = (0..50)
                .map(|caller| {
                    let (add, note) = (client.bind(&ADD), client.bind(&NOTE));
                    let goes_on = Arc::clone(&goes_on);
                    tokio::spawn(async move {
                        let mut n_calls = 0;
                        while goes_on.load(Ordering::SeqCst) {
                            let n = caller * 1_000_000 + n_calls;
                            if n % 5 == 0 {
                                note.call_one_way(Bytes::new()).await.unwrap();
                            } else {
                                assert_eq!(add.call(n).await.unwrap(), n + 1);
                            }
                            n_calls += 1;
                        }
                        n_calls
                    })
                })
                .collect();
            for _ in 0..5 {
                let before = n_done.load(Ordering::SeqCst);
                until(|| before + 200 < n_done.load(Ordering::SeqCst)).await;
                let counted = Arc::clone(&n_done);
                let next = serve_again(address, move || sums(&counted));
                let (is_clean, next) = tokio::join!(server.shutdown(LONG), next);
                assert!(is_clean);
                server = next;
            }
            goes_on.store(false, Ordering::SeqCst);
            let mut n_calls = 0;
            for caller in callers {
                n_calls += caller.await.unwrap();
            }
            client.close(LONG).await;
            until(|| server.n_connections() == 0 && server.n_calls() == 0).await;
            assert_eq!(n_done.load(Ordering::SeqCst), n_calls, "each was done exactly once");
        };
        match on_threads {
            true => test_on_threads(body),
            false => test(body),
        }
    }
}

#[test]
fn a_client_that_is_closed_under_load_finishes_what_it_took() {
    test_on_threads(|| async {
        let n_done = Arc::<AtomicU64>::default();
        let server = serve(ServerConfig::default(), sums(&n_done)).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let callers: Vec<_> = (0..50)
            .map(|caller| {
                let add = client.bind(&ADD);
                tokio::spawn(async move {
                    for n in caller.. {
                        match add.call(n).await {
                            Ok(sum) => assert_eq!(sum, n + 1),
                            Err(CallError::Failed(Failure::Closed)) => return n - caller,
                            Err(other) => panic!("{other}"),
                        }
                    }
                    0
                })
            })
            .collect();
        until(|| 1000 < n_done.load(Ordering::SeqCst)).await;
        quickly(client.close(LONG)).await;
        let mut n_calls = 0;
        for caller in callers {
            n_calls += caller.await.unwrap();
        }
        assert_eq!(n_done.load(Ordering::SeqCst), n_calls);
        until(|| server.n_connections() == 0).await;
        assert_eq!(client.call(&ADD, 1).await.unwrap_err().to_string(), "the client is closed");
    });
}

#[test]
fn patience_ends() {
    test(|| async {
        let never = Gauge::default();
        let server = serve(ServerConfig::default(), calls(&never)).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let method = client.bind(&NEVER);
        let call = tokio::spawn(async move { method.call(()).await });
        until(|| never.n_now() == 1).await;
        assert!(!quickly(server.shutdown(Duration::from_millis(20))).await, "one was broken off");
        let failure = quickly(call).await.unwrap().unwrap_err();
        assert!(matches!(failure, CallError::Failed(Failure::Broken(_))), "{failure}");
        until(|| never.n_now() == 0).await;

        // So does a client's, and a server without clients leaves at once.
        let server = Server::new().offer(calls(&never)).listen("127.0.0.1:0").await.unwrap();
        let client = Client::connect(server.local_addr()).await.unwrap();
        let method = client.bind(&NEVER);
        let call = tokio::spawn(async move { method.call(()).await });
        until(|| never.n_now() == 1).await;
        quickly(client.close(Duration::from_millis(20))).await;
        let failure = quickly(call).await.unwrap().unwrap_err();
        assert!(matches!(failure, CallError::Failed(Failure::Broken(_))), "{failure}");
        assert!(quickly(server.shutdown(LONG)).await);
        assert_eq!(never.n_now(), 0);
    });
}

#[test]
fn a_program_without_a_runtime_waits_for_its_one_way_calls() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let n_done = Arc::<AtomicU64>::default();
    let server = runtime.block_on(serve(ServerConfig::default(), sums(&n_done)));
    let config = link::ClientConfig::default();
    let client = Client::connect_blocking(server.local_addr(), config).unwrap();
    let note = client.bind(&NOTE);
    for _ in 0..1000 {
        note.call_one_way(Bytes::new()).wait().unwrap();
    }
    client.close_wait(LONG);
    // All have left; the server may still be at the last.
    runtime.block_on(quickly(until(|| n_done.load(Ordering::SeqCst) == 1000)));
    let failure = note.call_one_way(Bytes::new()).wait().unwrap_err();
    assert!(matches!(failure, Failure::Closed), "{failure}");
}
