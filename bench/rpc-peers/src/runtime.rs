//! What the asynchronous peers share: the runtime, callers as tasks, and how a server begins.

use std::fmt::Display;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};

use crate::error::PeerError;
use crate::measure::Tally;
use crate::options::ClientOptions;
use crate::payload;

/// One connection of a library's client.
pub(crate) trait Peer: Clone + Send + 'static {
    type Error: Display + Send;

    /// Makes one call of the echo.
    fn call(&mut self, request: Bytes) -> impl Future<Output = Result<Bytes, Self::Error>> + Send;
}

/// With one thread all runs on the caller's own.
pub(crate) fn runtime(n_threads: usize) -> io::Result<Runtime> {
    let mut builder = match n_threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(n_threads).enable_all().build()
}

/// Tells the address, and ends this process when standard input closes.
pub(crate) fn announce(addr: SocketAddr) {
    println!("listening {addr}");
    // Whoever reads it waits for it; without a reader there is nobody to tell.
    let _ = io::stdout().flush();
    thread::spawn(|| {
        let mut ignored = [0; 1024];
        while let Ok(1..) = io::stdin().read(&mut ignored) {}
        std::process::exit(0);
    });
}

/// Runs all callers until the end of the measurement, each as a task; `connections` must not be
/// empty.
pub(crate) async fn call_all<P: Peer>(
    connections: &[P],
    options: &ClientOptions,
) -> Result<Tally, PeerError> {
    let tally = Arc::new(Tally::start(options));
    let response_len = options.response_bytes;
    let spawn = |caller: usize| {
        let peer = connections[caller % connections.len()].clone();
        let request = payload::request(caller, options.request_bytes, response_len);
        tokio::spawn(run_caller(peer, request.into(), response_len, Arc::clone(&tally)))
    };
    let callers: Vec<_> = (0..options.concurrency).map(spawn).collect();
    for caller in callers {
        caller.await.map_err(PeerError::library("a caller"))?;
    }
    Ok(Arc::into_inner(tally).expect("all callers have ended"))
}

async fn run_caller<P: Peer>(mut peer: P, request: Bytes, response_len: usize, tally: Arc<Tally>) {
    let mut started = Instant::now();
    loop {
        let answer = peer.call(request.clone()).await;
        let ended = Instant::now();
        let goes_on = match answer {
            Ok(answer) if payload::is_answer(&request, &answer, response_len) => {
                tally.record(started, ended)
            }
            Ok(_) => {
                tally.record_error(PeerError::WrongAnswer);
                tally.goes_on(ended)
            }
            Err(error) => {
                tally.record_error(error);
                // The error may have come at once, and others want to run too.
                tokio::task::yield_now().await;
                tally.goes_on(ended)
            }
        };
        if !goes_on {
            return;
        }
        started = ended;
    }
}
