//! What the tests over real sockets share.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "a module of several programs, none of which uses all of it"
)]

pub mod proxy;
pub mod soak;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use link::codec::{Raw, Serde};
use link::{Listening, Method, Server, ServerConfig, Service};

/// For whatever should happen soon; a test that waits so long has failed.
pub const LONG: Duration = Duration::from_secs(15);
/// For what must not take long, with room for a busy machine.
pub const QUICK: Duration = Duration::from_secs(5);

pub const ECHO: Method<Bytes, Bytes> = Method::new::<(Raw,)>("test.Calls", "echo");
pub const NEVER: Method<(), ()> = Method::new::<Serde>("test.Calls", "never");
pub const PANIC: Method<String, ()> = Method::new::<Serde>("test.Calls", "panic");

/// Runs a test on one thread, and not for ever.
pub fn test<F: Future<Output = ()>>(body: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(2 * LONG, body()).await.expect("the test hangs");
    });
}

/// As `test`, on four threads.
pub fn test_on_threads<F: Future<Output = ()>>(body: impl FnOnce() -> F) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(2 * LONG, body()).await.expect("the test hangs");
    });
    // A handler that wrongly blocks its thread is not waited for.
    runtime.shutdown_background();
}

/// Waits until something is so.
pub async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits for something that must not take long.
pub async fn quickly<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(QUICK, work).await.expect("it takes too long")
}

/// How many of something there were and are.
#[derive(Clone, Default)]
pub struct Gauge(Arc<[AtomicUsize; 2]>);

impl Gauge {
    /// One more, until what is given is dropped.
    pub fn enter(&self) -> Inside {
        self.0.iter().for_each(|n| assert!(n.fetch_add(1, Ordering::SeqCst) < usize::MAX));
        Inside(self.clone())
    }

    pub fn n_now(&self) -> usize {
        self.0[0].load(Ordering::SeqCst)
    }

    pub fn n_ever(&self) -> usize {
        self.0[1].load(Ordering::SeqCst)
    }
}

pub struct Inside(Gauge);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0[0].fetch_sub(1, Ordering::SeqCst);
    }
}

/// Methods that echo, panic, and never answer; the gauge has those that never do.
pub fn calls(never: &Gauge) -> Service {
    let never = never.clone();
    Service::new("test.Calls")
        .method(&ECHO, |_, bytes| async move { bytes })
        .method(&PANIC, |_, text| async move { panic!("{text}") })
        .method(&NEVER, move |_, ()| {
            let inside = never.enter();
            async move {
                std::future::pending::<()>().await;
                drop(inside);
            }
        })
}

pub async fn serve(config: ServerConfig, service: Service) -> Listening {
    Server::with_config(config).offer(service).listen("127.0.0.1:0").await.unwrap()
}

/// A server on a port that another one had just now.
pub async fn serve_again(
    address: std::net::SocketAddr,
    service: impl Fn() -> Service,
) -> Listening {
    loop {
        match Server::new().offer(service()).listen(address).await {
            Ok(server) => return server,
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}
