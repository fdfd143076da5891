//! One connection: its bytes, who is at its other end, and what counts it.
//!
//! Invariants:
//! - What counts a connection lives exactly as long as its socket: nothing can take the one out of
//!   here without the other.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::counts::Open;
use crate::loads::Assigned;

/// The number of the next connection of this process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// What is known of a connection as long as it lasts.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its number in this process, for logs.
    pub id: u64,
    /// The other end.
    pub peer: SocketAddr,
    /// What is spoken on it, such as `http`.
    pub carries: &'static str,
    /// When it was accepted, or had been made.
    pub opened: Instant,
}

impl Facts {
    fn new(peer: SocketAddr, carries: &'static str) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self { id, peer, carries, opened: Instant::now() }
    }

    /// How old the connection is.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.opened.elapsed()
    }
}

/// `http connection 17 of 10.0.0.7:41234`.
impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} connection {} of {}", self.carries, self.id, self.peer)
    }
}

/// A connection on the event loop that it is served on: a byte stream that knows its [`Facts`].
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    facts: Facts,
    counted: Counted,
}

/// What counts a connection until it is dropped.
#[derive(Debug, Default)]
struct Counted {
    _open: Option<Open>,
    _assigned: Option<Assigned>,
}

impl Connection {
    /// One that a listener has accepted.
    pub(crate) fn accepted(
        stream: TcpStream,
        peer: SocketAddr,
        carries: &'static str,
        open: Open,
    ) -> Self {
        let counted = Counted { _open: Some(open), _assigned: None };
        Self { stream, facts: Facts::new(peer, carries), counted }
    }

    /// One that this process has made. Nothing counts it.
    ///
    /// # Errors
    /// It is closed already.
    pub fn outgoing(stream: TcpStream, carries: &'static str) -> io::Result<Self> {
        let facts = Facts::new(stream.peer_addr()?, carries);
        Ok(Self { stream, facts, counted: Counted::default() })
    }

    /// What is known of it.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Its socket, to ask the kernel about it.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        &self.stream
    }

    /// Takes the connection off this event loop, for a worker that has others of its own.
    ///
    /// # Errors
    /// What the operating system says. The connection is closed then.
    pub fn detach(self, assigned: Assigned) -> io::Result<Detached> {
        let Self { stream, facts, mut counted } = self;
        counted._assigned = Some(assigned);
        Ok(Detached { stream: stream.into_std()?, facts, counted })
    }

    /// Writes as much as fits at once, without waiting.
    ///
    /// # Errors
    /// As of [`TcpStream::try_write`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.try_write(bytes)
    }
}

/// A connection on its way to another event loop. It counts as open meanwhile.
#[derive(Debug)]
pub struct Detached {
    stream: StdStream,
    facts: Facts,
    counted: Counted,
}

impl Detached {
    /// What is known of it.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Puts the connection on the event loop that this is called on.
    ///
    /// # Errors
    /// What the operating system says. The connection is closed then.
    pub fn attach(self) -> io::Result<Connection> {
        let Self { stream, facts, counted } = self;
        Ok(Connection { stream: TcpStream::from_std(stream)?, facts, counted })
    }
}

impl AsyncRead for Connection {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
