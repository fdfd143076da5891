//! Whatever panics fails its own call alone, and leaves nothing behind: handlers, what they leave
//! to be dropped, what their panics carry, observers, and the wakers of callers.

use std::panic::panic_any;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::Duration;

use crate::support::{ECHO, Gauge, LONG, NEVER, calls, quickly, serve, test, until};
use bytes::Bytes;
use link::codec::{Raw, Serde};
use link::observe::{CallInfo, Observer, Outcome};
use link::trace::TraceContext;
use link::{
    CallError, Client, ClientConfig, Connections, Context, Failure, Method, NoItems, Server,
    ServerConfig, Service, Status, StreamMethod,
};

const WORK: Method<u64, u64> = Method::new::<Serde>("test.Panics", "work");
const HI: Bytes = Bytes::from_static(b"hi");

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// What a call does whose number is a multiple of 50.
#[derive(Clone, Copy, Debug)]
enum Misdeed {
    Panic,
    /// What the panic carries panics when it is dropped.
    PanicWithBomb,
    /// The future panics when it is dropped after its reply.
    LeaveBomb,
    /// The same with one that has waited.
    WaitAndLeaveBomb,
}

/// Gives its number, and leaves what it has.
struct Leaves {
    n: u64,
    _left: Option<Bomb>,
}

impl Future for Leaves {
    type Output = u64;
    fn poll(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<u64> {
        Poll::Ready(self.n)
    }
}

/// The same, but it waits once.
struct WaitsAndLeaves {
    has_waited: bool,
    leaves: Leaves,
}

impl Future for WaitsAndLeaves {
    type Output = u64;
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<u64> {
        if std::mem::replace(&mut self.has_waited, true) {
            return Pin::new(&mut self.leaves).poll(cx);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

type Work = Pin<Box<dyn Future<Output = u64> + Send>>;

fn work(misdeed: Misdeed) -> impl Fn(Context, u64) -> Work + Send + Sync + 'static {
    let leaves = |n| Leaves { n, _left: Some(Bomb) };
    move |_, n| match misdeed {
        _ if n % 50 != 0 => Box::pin(async move { n }),
        Misdeed::Panic => Box::pin(async { panic!("on purpose") }),
        Misdeed::PanicWithBomb => Box::pin(async { panic_any(Bomb) }),
        Misdeed::LeaveBomb => Box::pin(leaves(n)),
        Misdeed::WaitAndLeaveBomb => {
            Box::pin(WaitsAndLeaves { has_waited: false, leaves: leaves(n) })
        }
    }
}

/// Makes calls that come together. Those with a misdeed fail, and the others get their replies.
async fn call_together(client: &Client, what: &str) {
    // From the second call on the method is known to be fast, and its calls share a task.
    for n in 1..20 {
        assert_eq!(quickly(client.call(&WORK, n)).await.unwrap(), n);
    }
    let callers: Vec<_> = (0..400)
        .map(|n| {
            let work = client.bind(&WORK);
            tokio::spawn(async move { quickly(work.call(n).timeout(LONG)).await })
        })
        .collect();
    for (n, caller) in (0..).zip(callers) {
        match caller.await.unwrap() {
            Ok(reply) => assert!(reply == n && n % 50 != 0, "{what}: {n} gave {reply}"),
            Err(CallError::Failed(Failure::Refused { status: Status::SERVER_ERROR, text })) => {
                assert_eq!(n % 50, 0, "{what}: {n} failed: {text}");
                assert!(text.starts_with("the handler panicked: "), "{what}: {text}");
            }
            Err(other) => panic!("{what}: {n} failed: {other}"),
        }
    }
}

#[test]
fn only_the_call_that_panics_fails() {
    test(|| async {
        use Misdeed::{LeaveBomb, Panic, PanicWithBomb, WaitAndLeaveBomb};
        for misdeed in [Panic, PanicWithBomb, LeaveBomb, WaitAndLeaveBomb] {
            for observer in [None, Some(Arc::new(Panics) as Arc<dyn Observer>)] {
                let what = format!("{misdeed:?}, observed: {}", observer.is_some());
                let config = ServerConfig { observer, max_calls: 500, ..Default::default() };
                let service = Service::new("test.Panics").method(&WORK, work(misdeed));
                let server = serve(config, service).await;
                let connections = Connections::Fixed(1);
                let config = ClientConfig { connections, ..Default::default() };
                let client = Client::connect_with(server.local_addr(), config).await.unwrap();
                for _ in 0..3 {
                    call_together(&client, &what).await;
                }
                quickly(until(|| server.n_calls() == 0)).await;
                assert_eq!(server.n_connections(), 1, "{what}");
            }
        }
    });
}

#[test]
fn handlers_of_all_kinds_may_panic_with_what_panics_when_it_is_dropped() {
    test(|| async {
        const BLOCK: Method<u64, u64> = Method::new::<Serde>("test.Panics", "block");
        const NOW: Method<Bytes, Bytes> = Method::new::<(Raw,)>("test.Panics", "now");
        const ITEMS: StreamMethod<u64, NoItems, u64, u64> =
            StreamMethod::down::<Serde>("test.Panics", "items");
        let service = Service::new("test.Panics")
            .blocking(&BLOCK, |_, _| panic_any(Bomb))
            .in_place("now", |_, _| panic_any(Bomb))
            .streaming(&ITEMS, |_, _, _, _| async { panic_any(Bomb) });
        let config = ServerConfig { max_calls: 1, blocking_threads: 1, ..Default::default() };
        let server = serve(config, service).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let text = "the server answered SERVER_ERROR: the handler panicked: no text";
        for _ in 0..3 {
            let failure = quickly(client.call(&BLOCK, 7)).await.unwrap_err();
            assert_eq!(failure.to_string(), text);
            quickly(until(|| server.n_calls() == 0)).await;
            let failure = quickly(client.call(&NOW, HI)).await.unwrap_err();
            assert_eq!(failure.to_string(), text);
            let call = client.bind_stream(&ITEMS).open(7).await.unwrap();
            let failure = quickly(call.finish()).await.unwrap_err();
            assert_eq!(failure.to_string(), text);
            quickly(until(|| server.n_calls() == 0)).await;
        }
        assert_eq!(server.n_connections(), 1);
    });
}

#[test]
fn a_handler_that_panics_when_it_is_given_up_gives_its_place_back() {
    test(|| async {
        let begun = Gauge::default();
        let entered = begun.clone();
        let service = Service::new("test.Panics").method(&WORK, move |_, n| {
            let inside = entered.enter();
            async move {
                let _bomb = (n == 0).then(|| Bomb);
                if n == 0 {
                    std::future::pending::<()>().await;
                }
                drop(inside);
                n
            }
        });
        let config = ServerConfig { max_calls: 1, ..Default::default() };
        let server = serve(config, service).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let work = client.bind(&WORK);
        for _ in 0..3 {
            let held = {
                let work = work.clone();
                tokio::spawn(async move { work.call(0).await })
            };
            quickly(until(|| begun.n_now() == 1)).await;
            held.abort();
            quickly(until(|| begun.n_now() == 0 && server.n_calls() == 0)).await;
            assert_eq!(quickly(work.call(1)).await.unwrap(), 1);
            quickly(until(|| server.n_calls() == 0)).await;
        }
    });
}

/// Panics at everything.
struct Panics;

impl Observer for Panics {
    fn outgoing(&self, _: &CallInfo<'_>) -> Option<TraceContext> {
        panic!("outgoing");
    }

    fn incoming(&self, _: &CallInfo<'_>, _: Option<&TraceContext>) -> tracing::Span {
        panic!("incoming");
    }

    fn ended(&self, _: &CallInfo<'_>, _: Outcome, _: Duration) {
        panic!("ended");
    }
}

#[test]
fn a_client_calls_as_if_its_observer_did_not_panic() {
    test(|| async {
        let never = Gauge::default();
        let server = Server::new().offer(calls(&never)).listen("127.0.0.1:0").await.unwrap();
        let config = ClientConfig { observer: Some(Arc::new(Panics)), ..Default::default() };
        let client = Client::connect_with(server.local_addr(), config).await.unwrap();
        assert_eq!(quickly(client.call(&ECHO, HI)).await.unwrap(), HI);
        // A caller panics itself, and its call is dropped meanwhile.
        let method = client.bind(&NEVER);
        let caller = tokio::spawn(async move {
            let mut call = pin!(method.call(()));
            std::future::poll_fn(|cx| {
                assert!(call.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            panic!("the caller");
        });
        assert!(quickly(caller).await.unwrap_err().is_panic());
        quickly(until(|| server.n_calls() == 0)).await;
        assert_eq!(quickly(client.call(&ECHO, HI)).await.unwrap(), HI);
    });
}

/// A waker of an executor that has ended.
struct DeadExecutor;

impl Wake for DeadExecutor {
    fn wake(self: Arc<Self>) {
        panic!("the executor has ended");
    }
}

#[test]
fn a_waker_that_panics_does_not_end_the_connection_of_others() {
    test(|| async {
        let server = serve(ServerConfig::default(), calls(&Gauge::default())).await;
        let client = Client::connect(server.local_addr()).await.unwrap();
        let echo = client.bind(&ECHO);
        let waker = Waker::from(Arc::new(DeadExecutor));
        let mut call = pin!(echo.call(HI));
        assert!(call.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
        for _ in 0..10 {
            assert_eq!(quickly(echo.call(HI)).await.unwrap(), HI);
        }
        assert_eq!(quickly(call).await.unwrap(), HI);
    });
}
