//! A TCP proxy that can be told to misbehave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a proxy does with bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    Pass,
    /// Takes bytes, and passes nothing on.
    Swallow,
    /// Takes no bytes.
    Stall,
    /// Takes few bytes at a time, and pauses after them.
    Slow,
}

/// Carries bytes to a server; ends when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    /// Connections of an older round are broken.
    round: watch::Sender<usize>,
    n_accepted: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// A proxy in front of `target`.
    pub async fn start(target: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // So that a peer soon feels that nobody reads.
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(128).unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, round) = (watch::Sender::new(Mode::Pass), watch::Sender::new(0));
        let n_accepted = Arc::<AtomicUsize>::default();
        let (modes, rounds, count) = (mode.clone(), round.clone(), Arc::clone(&n_accepted));
        let accepting = tokio::spawn(accept(listener, target, modes, rounds, count));
        Self { address, mode, round, n_accepted, accepting }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Breaks all connections that there are.
    pub fn break_all(&self) {
        self.round.send_modify(|round| *round += 1);
    }

    /// Connections so far.
    pub fn n_accepted(&self) -> usize {
        self.n_accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.break_all();
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    mode: watch::Sender<Mode>,
    round: watch::Sender<usize>,
    n_accepted: Arc<AtomicUsize>,
) {
    loop {
        let Ok((near, _)) = listener.accept().await else {
            continue;
        };
        n_accepted.fetch_add(1, Ordering::SeqCst);
        let (mode, mut round) = (mode.subscribe(), round.subscribe());
        let first = *round.borrow_and_update();
        tokio::spawn(async move {
            let carrying = async {
                if let Ok(far) = TcpStream::connect(target).await {
                    carry(near, far, mode).await;
                }
            };
            tokio::select! {
                () = carrying => {}
                _ = round.wait_for(|round| *round != first) => {}
            }
        });
    }
}

async fn carry(near: TcpStream, far: TcpStream, mode: watch::Receiver<Mode>) {
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    tokio::select! {
        () = copy(near_in, far_out, mode.clone()) => {}
        () = copy(far_in, near_out, mode) => {}
    }
}

/// Carries bytes one way until either side has ended.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut mode: watch::Receiver<Mode>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if mode.wait_for(|mode| *mode != Mode::Stall).await.is_err() {
            return;
        }
        // The mode may change while it waits for bytes.
        let read_len = tokio::select! {
            read = from.read(&mut buffer) => read.unwrap_or(0),
            _ = mode.changed() => continue,
        };
        if read_len == 0 {
            return;
        }
        let now = *mode.borrow_and_update();
        if now == Mode::Slow {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if now != Mode::Swallow && to.write_all(&buffer[..read_len]).await.is_err() {
            return;
        }
    }
}
