//! The hostile peer: a process with one event loop that attacks one listener for a bounded time,
//! and then prints what it did.
//!
//! Invariants:
//! - It connects to loopback addresses alone, and ends at its deadline.
//! - It has a process of its own, so that its memory and descriptors are not the caller's.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::AttackError;
use crate::plan::Orders;

/// A peer that wants to hold what it is sent back takes as little of it as the kernel allows.
const SMALL_RECEIVE_BUFFER: u32 = 4096;
/// What is read at a time by few connections, and by many.
const READ_LEN: usize = 64 * 1024;
const SMALL_READ_LEN: usize = 4096;
/// Who is slow does something once in this time.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);
/// A connection that does not come about is tried again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What an attack does: it ends at its aim's deadline.
pub(crate) type Attacking = fn(Rc<Aim>) -> Pin<Box<dyn Future<Output = ()>>>;

/// What is attacked, until when, and what has been done.
pub(crate) struct Aim {
    pub(crate) addr: SocketAddr,
    origin: Ipv4Addr,
    pub(crate) start: Instant,
    pub(crate) deadline: Instant,
    counts: RefCell<BTreeMap<&'static str, u64>>,
    /// Connections that were answered and are open, now.
    n_served: Cell<u64>,
}

/// The names of what is counted.
pub(crate) mod count {
    /// Connections that came about.
    pub(crate) const CONNECTIONS: &str = "connections";
    /// Attempts that did not become one.
    pub(crate) const REFUSED: &str = "refused";
    /// Connections that the agent ended.
    pub(crate) const CLOSED: &str = "closed by the agent";
    /// Bytes that were sent.
    pub(crate) const SENT: &str = "sent_bytes";
    /// Bytes that were read.
    pub(crate) const RECEIVED: &str = "received_bytes";
    /// The most connections that were answered and open at a time.
    pub(crate) const SERVED: &str = "served at once";
}

/// Be hostile, and print what was done as one line of JSON.
pub(crate) fn run(orders: &Orders) -> Result<(), AttackError> {
    let Orders { attack, addr, time, origin } = orders;
    if !addr.ip().is_loopback() {
        return Err(AttackError::NotLoopback { addr: *addr });
    }
    rlimit::increase_nofile_limit(u64::MAX).map_err(AttackError::io("the limit of descriptors"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(AttackError::io("the runtime"))?;
    let aim = runtime.block_on(async {
        let start = Instant::now();
        let aim = Rc::new(Aim {
            addr: *addr,
            origin: *origin,
            start,
            deadline: start + *time,
            counts: RefCell::default(),
            n_served: Cell::new(0),
        });
        let tasks = LocalSet::new();
        let attacking = tasks.run_until((attack.peer)(Rc::clone(&aim)));
        // An attack ends by itself; this is for one that would not.
        let _ = timeout_at(aim.deadline + Duration::from_secs(1), attacking).await;
        aim
    });
    let counts = aim.counts.borrow();
    let counts = counts.iter().map(|(name, n)| ((*name).to_owned(), Value::from(*n)));
    println!("{}", Value::Object(counts.collect()));
    // Thousands of connections are closed by the end of the process: at once, as in a crash.
    std::process::exit(0);
}

impl Aim {
    pub(crate) fn add(&self, name: &'static str, n: usize) {
        *self.counts.borrow_mut().entry(name).or_default() += u64::try_from(n).unwrap_or(0);
    }

    fn note_most(&self, name: &'static str, n: u64) {
        let mut counts = self.counts.borrow_mut();
        let most = counts.entry(name).or_default();
        *most = n.max(*most);
    }

    async fn connect(self: &Rc<Self>, with: Crowd) -> io::Result<Peer> {
        let socket = TcpSocket::new_v4()?;
        // The port is chosen as it connects: to find one for any address takes the kernel long.
        setsockopt(&socket, IpBindAddressNoPort, &true)?;
        socket.bind((self.origin, 0).into())?;
        if with.is_small {
            socket.set_recv_buffer_size(SMALL_RECEIVE_BUFFER)?;
        }
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let stream = timeout_at(deadline, socket.connect(self.addr)).await??;
        stream.set_nodelay(true)?;
        self.add(count::CONNECTIONS, 1);
        let buffer = vec![0; with.read_len];
        Ok(Peer { stream, aim: Rc::clone(self), buffer, is_served: false })
    }
}

/// How many connections attack at once, and how.
#[derive(Clone, Copy)]
pub(crate) struct Crowd {
    n_connections: usize,
    /// How long after its end a connection is made again.
    pause: Duration,
    /// Whether the kernel is to take little of what is sent back.
    is_small: bool,
    /// What is read at a time.
    read_len: usize,
}

impl Crowd {
    /// Few connections that come back almost at once.
    pub(crate) const fn of(n_connections: usize) -> Self {
        let pause = Duration::from_millis(10);
        Self { n_connections, pause, is_small: false, read_len: READ_LEN }
    }

    /// Many connections, which wait before they come back: they are to be held, not to be a flood.
    pub(crate) const fn held(n_connections: usize) -> Self {
        let pause = Duration::from_millis(500);
        Self { n_connections, pause, is_small: false, read_len: SMALL_READ_LEN }
    }

    /// They read a byte at a time, if at all.
    pub(crate) const fn not_reading(self) -> Self {
        Self { is_small: true, read_len: 1, ..self }
    }

    /// Runs `attack` on each connection, and again on a new one when that has ended, until the
    /// deadline.
    pub(crate) async fn run<F, Fut>(self, aim: Rc<Aim>, attack: F)
    where
        F: Fn(Peer) -> Fut + Copy + 'static,
        Fut: Future<Output = io::Result<()>> + 'static,
    {
        let mut tasks = JoinSet::new();
        for _ in 0..self.n_connections {
            let aim = Rc::clone(&aim);
            tasks.spawn_local(async move {
                let deadline = aim.deadline;
                let attacking = async {
                    loop {
                        match aim.connect(self).await {
                            Ok(peer) => {
                                if attack(peer).await.is_err() {
                                    aim.add(count::CLOSED, 1);
                                }
                            }
                            Err(_) => aim.add(count::REFUSED, 1),
                        }
                        sleep(self.pause).await;
                    }
                };
                let _: Result<(), _> = timeout_at(deadline, attacking).await;
            });
        }
        while tasks.join_next().await.is_some() {}
    }
}

/// One connection to the agent.
pub(crate) struct Peer {
    stream: TcpStream,
    pub(crate) aim: Rc<Aim>,
    buffer: Vec<u8>,
    is_served: bool,
}

impl Peer {
    /// Sends all of it, however long that takes.
    pub(crate) async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let len = self.stream.write(bytes).await?;
            self.aim.add(count::SENT, len);
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// What the agent has sent, at least a byte; its end is an error.
    pub(crate) async fn read(&mut self) -> io::Result<&[u8]> {
        let len = self.stream.read(&mut self.buffer).await?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.aim.add(count::RECEIVED, len);
        Ok(&self.buffer[..len])
    }

    /// Reads and forgets, until the agent ends the connection.
    pub(crate) async fn drain(&mut self) -> io::Result<()> {
        loop {
            self.read().await?;
        }
    }

    /// As long as somebody waits who does things slowly.
    pub(crate) async fn pause(&self) {
        sleep(SLOW_INTERVAL).await;
    }

    /// Sends `byte` once a second, and reads nothing, until the agent ends the connection.
    pub(crate) async fn trickle(&mut self, byte: u8) -> io::Result<()> {
        loop {
            self.pause().await;
            self.send(&[byte]).await?;
        }
    }

    /// Waits until something can be read, or written if `out` is not empty, and does both as far
    /// as that goes. Takes what was written off `out`, and returns what was read, which may be
    /// nothing.
    pub(crate) async fn turn(&mut self, out: &mut Vec<u8>) -> io::Result<&[u8]> {
        let wanted = match out.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        self.stream.ready(wanted).await?;
        match self.stream.try_write(out) {
            Ok(len) => {
                self.aim.add(count::SENT, len);
                out.drain(..len);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match self.stream.try_read(&mut self.buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.aim.add(count::RECEIVED, len);
                Ok(&self.buffer[..len])
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(&[]),
            Err(error) => Err(error),
        }
    }

    /// Sends `batch` again and again, as fast as the agent takes it, and forgets what comes back.
    pub(crate) async fn flood(&mut self, batch: &[u8]) -> io::Result<()> {
        let mut out = Vec::new();
        loop {
            if out.is_empty() {
                out.extend_from_slice(batch);
                // One loop serves all connections: none may keep it for itself.
                tokio::task::yield_now().await;
            }
            self.turn(&mut out).await?;
        }
    }

    /// The same, without reading.
    pub(crate) async fn flood_deaf(&mut self, batch: &[u8]) -> io::Result<()> {
        loop {
            self.send(batch).await?;
            tokio::task::yield_now().await;
        }
    }

    /// Notes that this connection was answered.
    pub(crate) fn is_served(&mut self) {
        if !self.is_served {
            self.is_served = true;
            self.aim.n_served.set(self.aim.n_served.get() + 1);
            self.aim.note_most(count::SERVED, self.aim.n_served.get());
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.is_served {
            self.aim.n_served.set(self.aim.n_served.get() - 1);
        }
    }
}
