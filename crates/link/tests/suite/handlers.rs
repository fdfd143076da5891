//! Handlers that panic, block, or never answer hurt nobody but their callers.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::support::{
    ECHO, Gauge, NEVER, PANIC, calls, quickly, serve, test, test_on_threads, until,
};
use bytes::Bytes;
use link::codec::Serde;
use link::{
    CallError, Client, ClientConfig, Failure, Method, NoItems, Server, ServerConfig, Service,
    Status, StreamMethod,
};

const WORK: Method<u64, u64> = Method::new::<Serde>("test.Work", "work");
const SHOUT: Method<String, String> = Method::new::<Serde>("test.Work", "shout");
const ITEMS: StreamMethod<u64, NoItems, u64, ()> =
    StreamMethod::down::<Serde>("test.Work", "items");

/// A gate that handlers wait at in their threads.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let mut is_open = self.0.0.lock().unwrap();
        while !*is_open {
            is_open = self.0.1.wait(is_open).unwrap();
        }
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// Whoever waits at the gate goes on, also if the test fails.
impl Drop for Gate {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) <= 2 {
            self.open();
        }
    }
}

fn status<T: std::fmt::Debug>(result: Result<T, CallError>) -> (Status, String) {
    match result {
        Err(CallError::Failed(Failure::Refused { status, text })) => (status, text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_panic_ends_its_own_call() {
    test(|| async {
        let after = Gauge::default();
        let service = Service::new("test.Work")
            .blocking(&SHOUT, |_, text| -> String { panic!("blocking {text}") })
            .method(&WORK, |_, n| async move {
                tokio::task::yield_now().await;
                assert!(n % 2 == 0, "odd");
                n
            })
            .streaming(&ITEMS, |_, n, _, mut out| async move {
                out.send(&n).await.unwrap();
                panic!("streaming");
            });
        let server = Server::new().offer(service).offer(calls(&after));
        let server = server.listen("127.0.0.1:0").await.unwrap();
        let client = Client::connect(server.local_addr()).await.unwrap();
        let at_once = status(client.call(&PANIC, "at once".into()).await);
        assert_eq!(at_once, (Status::SERVER_ERROR, "the handler panicked: at once".into()));
        let blocking = status(client.call(&SHOUT, "thread".into()).await);
        let text = "the handler panicked: blocking thread";
        assert_eq!(blocking, (Status::SERVER_ERROR, text.into()));
        assert_eq!(status(client.call(&WORK, 3).await).1, "the handler panicked: odd");
        let mut call = client.bind_stream(&ITEMS).open(7).await.unwrap();
        assert_eq!(call.receiver.next().await.unwrap(), Some(7));
        let end = call.receiver.next().await;
        assert!(matches!(end, Err(Failure::Interrupted)), "{end:?}");
        assert_eq!(status(call.reply.await).1, "the handler panicked: streaming");
        client.bind(&PANIC).call_one_way("nobody hears it".into()).await.unwrap();
        // Those that came together with one that panics are served.
        let (work, panics, echo) = (client.bind(&WORK), client.bind(&PANIC), client.bind(&ECHO));
        let many = (0..300_u64).map(|n| {
            let (work, panics, echo) = (work.clone(), panics.clone(), echo.clone());
            tokio::spawn(async move {
                match n % 3 {
                    0 => assert_eq!(work.call(n * 2).await.unwrap(), n * 2),
                    1 => drop(panics.call("again".into()).await.unwrap_err()),
                    _ => drop(echo.call(Bytes::from_static(b"echo")).await.unwrap()),
                }
            })
        });
        for call in many.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        until(|| server.n_calls() == 0).await;
        assert_eq!(server.n_connections(), 1);
    });
}

#[test]
fn blocking_handlers_have_their_own_threads_and_are_rejected_when_these_are_full() {
    test(|| async {
        let (gate, inside) = (Gate::default(), Gauge::default());
        let (held, entered) = (gate.clone(), inside.clone());
        let service = Service::new("test.Work").blocking(&WORK, move |_, n| {
            let _inside = entered.enter();
            held.pass();
            n
        });
        let config =
            ServerConfig { blocking_threads: 3, max_waiting_blocking: 2, ..Default::default() };
        let server = Server::with_config(config).offer(service).offer(calls(&Gauge::default()));
        let server = server.listen("127.0.0.1:0").await.unwrap();
        let client = Client::connect(server.local_addr()).await.unwrap();
        let work = client.bind(&WORK);
        let spawn = |n| {
            let work = work.clone();
            tokio::spawn(async move { work.call(n).await })
        };
        let busy: Vec<_> = (0..5).map(spawn).collect();
        until(|| inside.n_now() == 3 && server.n_calls() == 5).await;
        let (status, text) = status(quickly(work.call(9)).await);
        assert_eq!(status, Status::OVERLOADED);
        assert_eq!(text, "all 3 threads for blocking calls are busy, and 2 calls wait for one");
        // Others are served meanwhile.
        for _ in 0..100 {
            quickly(client.call(&ECHO, Bytes::from_static(b"hi"))).await.unwrap();
        }
        // One that waits for a thread is not begun if its caller has gone.
        let mut busy = busy.into_iter();
        let last = busy.next_back().unwrap();
        last.abort();
        let _ = last.await;
        quickly(client.call(&ECHO, Bytes::new())).await.unwrap();
        gate.open();
        for (n, call) in (0..).zip(busy) {
            assert_eq!(call.await.unwrap().unwrap(), n);
        }
        until(|| server.n_calls() == 0).await;
        assert_eq!(inside.n_ever(), 4);
    });
}

#[test]
fn an_async_handler_that_wrongly_blocks_its_thread_holds_up_no_others() {
    test_on_threads(|| async {
        let (gate, inside) = (Gate::default(), Gauge::default());
        let (held, entered) = (gate.clone(), inside.clone());
        let service = Service::new("test.Work").method(&WORK, move |_, n| {
            let (held, entered) = (held.clone(), entered.clone());
            async move {
                let _inside = entered.enter();
                held.pass();
                n
            }
        });
        let server = Server::new().offer(service).offer(calls(&Gauge::default()));
        let server = server.listen("127.0.0.1:0").await.unwrap();
        let client = Client::connect(server.local_addr()).await.unwrap();
        let work = client.bind(&WORK);
        let mut blocked = Vec::new();
        for n in 0..2 {
            let work = work.clone();
            blocked.push(tokio::spawn(async move { work.call(n).await }));
            // One by one: calls that come together begin one after the other.
            until(|| inside.n_now() == blocked.len()).await;
        }
        let echo = client.bind(&ECHO);
        for _ in 0..200 {
            quickly(echo.call(Bytes::from_static(b"hi"))).await.unwrap();
        }
        gate.open();
        for (n, call) in (0..).zip(blocked) {
            assert_eq!(call.await.unwrap().unwrap(), n);
        }
    });
}

#[test]
fn a_call_that_is_dropped_or_times_out_is_cancelled_at_the_server() {
    test(|| async {
        let never = Gauge::default();
        let server = serve(ServerConfig::default(), calls(&never)).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let method = client.bind(&NEVER);
        let calls: Vec<_> = (0..20)
            .map(|_| {
                let method = method.clone();
                tokio::spawn(async move { method.call(()).no_timeout().await })
            })
            .collect();
        until(|| never.n_now() == 20).await;
        quickly(client.call(&ECHO, Bytes::new())).await.unwrap();
        calls.iter().for_each(tokio::task::JoinHandle::abort);
        until(|| never.n_now() == 0 && server.n_calls() == 0).await;
        let short = Duration::from_millis(20);
        let failure = method.call(()).timeout(short).await.unwrap_err();
        assert_eq!(failure.to_string(), "no answer within 20ms");
        until(|| never.n_now() == 0 && server.n_calls() == 0).await;
        assert_eq!(never.n_ever(), 21);
        // The connection's end cancels, too.
        let waiting = tokio::spawn(async move { method.call(()).no_timeout().await });
        until(|| never.n_now() == 1).await;
        client.close(Duration::ZERO).await;
        let failure = waiting.await.unwrap().unwrap_err();
        assert!(matches!(failure, CallError::Failed(Failure::Broken(_))), "{failure}");
        until(|| never.n_now() == 0 && server.n_connections() == 0).await;
    });
}

#[test]
fn cancelling_frees_places() {
    test(|| async {
        let never = Gauge::default();
        let server = serve(ServerConfig::default(), calls(&never)).await;
        let config = ClientConfig { max_calls: 2, ..Default::default() };
        let client = Client::connect_with(server.local_addr(), config).await.unwrap();
        let method = client.bind(&NEVER);
        for n in 1..=50 {
            let mut both = Box::pin(async { tokio::join!(method.call(()), method.call(())) });
            let entered = async {
                until(|| never.n_ever() == 2 * n).await;
            };
            tokio::select! {
                _ = &mut both => unreachable!(),
                () = entered => {}
            }
        }
        quickly(client.call(&ECHO, Bytes::new())).await.unwrap();
        until(|| never.n_now() == 0).await;
    });
}

#[test]
fn handlers_see_the_deadline() {
    test(|| async {
        const LEFT: Method<(), Option<u64>> = Method::new::<Serde>("test.Work", "left");
        let service = Service::new("test.Work").method(&LEFT, |context, ()| async move {
            context.time_left().map(|left| u64::try_from(left.as_millis()).unwrap())
        });
        let server = serve(ServerConfig::default(), service).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let method = client.bind(&LEFT);
        let left = method.call(()).timeout(Duration::from_secs(100)).await.unwrap().unwrap();
        assert!((90_000..=100_000).contains(&left), "{left}");
        assert_eq!(method.call(()).no_timeout().await.unwrap(), None);
        let left = method.call(()).await.unwrap().unwrap();
        assert!(left <= 10_000, "the client's own default");
    });
}

#[test]
fn a_server_takes_only_so_many_calls() {
    test(|| async {
        let never = Gauge::default();
        let config = ServerConfig { max_calls: 3, ..Default::default() };
        let server = serve(config, calls(&never)).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let method = client.bind(&NEVER);
        let held: Vec<_> = (0..3)
            .map(|_| {
                let method = method.clone();
                tokio::spawn(async move { method.call(()).await })
            })
            .collect();
        until(|| never.n_now() == 3).await;
        let (status, text) = status(quickly(client.call(&ECHO, Bytes::new())).await);
        assert_eq!(status, Status::OVERLOADED);
        assert_eq!(text, "the server is working on as many calls as it allows");
        // Another connection makes no difference.
        let other = Client::connect(server.local_addr()).await.unwrap();
        let failure = quickly(other.call(&ECHO, Bytes::new())).await.unwrap_err();
        assert!(failure.failure().unwrap().is_not_begun());
        held.iter().for_each(tokio::task::JoinHandle::abort);
        until(|| server.n_calls() == 0).await;
        client.call(&ECHO, Bytes::new()).await.unwrap();
    });
}

#[test]
fn a_connection_has_only_so_many_calls_and_a_server_so_many_connections() {
    test(|| async {
        let never = Gauge::default();
        let config =
            ServerConfig { max_calls_per_connection: 2, max_connections: 2, ..Default::default() };
        let server = serve(config, calls(&never)).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let method = client.bind(&NEVER);
        let held: Vec<_> = (0..2)
            .map(|_| {
                let method = method.clone();
                tokio::spawn(async move { method.call(()).await })
            })
            .collect();
        until(|| never.n_now() == 2).await;
        // It waits for a place, and not for longer than its time.
        let echo = client.bind(&ECHO);
        let short = Duration::from_millis(20);
        let failure = echo.call(Bytes::new()).timeout(short).await.unwrap_err();
        assert_eq!(failure.failure().unwrap().name(), "timeout");
        let waiting = {
            let echo = echo.clone();
            tokio::spawn(async move { echo.call(Bytes::new()).await })
        };
        let other = Client::connect(server.local_addr()).await.unwrap();
        other.call(&ECHO, Bytes::new()).await.unwrap();
        until(|| server.n_connections() == 2).await;
        let error = Client::connect(server.local_addr()).await.err().expect("one too many");
        let text = error.to_string();
        assert!(text.contains("closed the connection") || text.contains("reset"), "{text}");
        held[0].abort();
        quickly(waiting).await.unwrap().unwrap();
    });
}
