//! One connection: its bytes, who is at its other end, and what counts it.
//!
//! Invariants:
//! - What counts a connection lives exactly as long as its socket: nothing can take the one out of
//!   here without the other.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::counts::Open;
use crate::loads::Assigned;
use crate::stream::{Socket, Stream};
use crate::tcp_info::TcpInfo;

/// The number of the next connection of this process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peer {
    /// A program at this address.
    Tcp(SocketAddr),
    /// A program of this machine, over a socket in the file system.
    Unix,
}

impl Peer {
    /// Its IP address. A program of this machine counts as 127.0.0.1.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        match self {
            Self::Tcp(address) => address.ip(),
            Self::Unix => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Its address and port, which a Unix socket does not have.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix => None,
        }
    }
}

/// `10.0.0.7:41234`, or `a local program`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("a local program"),
        }
    }
}

/// What is known of a connection as long as it lasts.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its number in this process, for logs.
    pub id: u64,
    /// The other end.
    pub peer: Peer,
    /// What is spoken on it, such as `http`.
    pub carries: &'static str,
    /// When it was accepted, or had been made.
    pub opened: Instant,
}

impl Facts {
    fn new(peer: Peer, carries: &'static str) -> Self {
        let id = NEXT_ID.fetch_add(1, Relaxed);
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

/// How many bytes have passed through a connection, above TLS. One thread counts, any may read.
#[derive(Debug, Default)]
pub struct Bytes {
    read: AtomicU64,
    written: AtomicU64,
}

impl Bytes {
    /// Bytes that came.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// Bytes that went.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// There is one writer, so no other one's addition can be lost.
    #[inline]
    fn add(counter: &AtomicU64, len: usize) {
        counter.store(counter.load(Relaxed).wrapping_add(len as u64), Relaxed);
    }
}

/// A connection on the event loop that it is served on: a byte stream that knows its [`Facts`].
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    facts: Facts,
    bytes: Arc<Bytes>,
    awaited: Option<Secured>,
    counted: Counted,
}

/// What counts a connection until it is dropped.
#[derive(Debug, Default)]
struct Counted {
    _open: Option<Open>,
    _assigned: Option<Assigned>,
}

#[cfg(feature = "tls")]
pub use crate::tls::Secured;

/// Without the feature `tls`, no listener asks for TLS.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub enum Secured {}

impl Connection {
    /// One that a listener has accepted. `awaited` is the TLS that the client has to begin with.
    pub(crate) fn accepted(
        socket: Socket,
        peer: Peer,
        carries: &'static str,
        awaited: Option<Secured>,
        open: Open,
    ) -> Self {
        let counted = Counted { _open: Some(open), _assigned: None };
        Self { awaited, counted, ..Self::new(socket, peer, carries) }
    }

    fn new(socket: Socket, peer: Peer, carries: &'static str) -> Self {
        Self {
            stream: Stream::Plain(socket),
            facts: Facts::new(peer, carries),
            bytes: Arc::default(),
            awaited: None,
            counted: Counted::default(),
        }
    }

    /// One that this process has made. Nothing counts it.
    ///
    /// # Errors
    /// It is closed already.
    pub fn outgoing(stream: TcpStream, carries: &'static str) -> io::Result<Self> {
        let peer = Peer::Tcp(stream.peer_addr()?);
        Ok(Self::new(Socket::Tcp(stream), peer, carries))
    }

    /// The same by a socket in the file system.
    #[must_use]
    pub fn outgoing_unix(stream: UnixStream, carries: &'static str) -> Self {
        Self::new(Socket::Unix(stream), Peer::Unix, carries)
    }

    /// What is known of it.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// What counts its bytes, also after the connection has moved elsewhere.
    #[must_use]
    pub fn bytes(&self) -> Arc<Bytes> {
        Arc::clone(&self.bytes)
    }

    /// Whether its bytes are encrypted by TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    /// What the kernel knows of it now. `None` for a Unix socket, and where the kernel does not say.
    #[must_use]
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.stream.socket().tcp().and_then(TcpInfo::of)
    }

    /// Takes the connection off this event loop, for a worker that has others of its own.
    ///
    /// # Errors
    /// What the operating system says, or TLS is spoken already: only a connection that was just
    /// accepted can move. The connection is closed then.
    pub fn detach(self, assigned: Assigned) -> io::Result<Detached> {
        let Self { stream, facts, bytes, awaited, mut counted } = self;
        counted._assigned = Some(assigned);
        let socket = match stream {
            Stream::Plain(Socket::Tcp(stream)) => DetachedSocket::Tcp(stream.into_std()?),
            Stream::Plain(Socket::Unix(stream)) => DetachedSocket::Unix(stream.into_std()?),
            #[cfg(feature = "tls")]
            Stream::Tls(_) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        Ok(Detached { socket, facts, bytes, awaited, counted })
    }

    /// Writes as much as can be written at once, without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if that is nothing, and what the operating system says.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(written) = Pin::new(&mut *self).poll_write(&mut cx, bytes) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        // TLS keeps what it has encrypted until it is flushed.
        if let Poll::Ready(flushed) = Pin::new(self).poll_flush(&mut cx) {
            flushed?;
        }
        written
    }

    /// The client has not yet begun TLS, although the listener is set to it.
    #[must_use]
    pub fn is_unsecured(&self) -> bool {
        self.awaited.is_some()
    }

    #[cfg(feature = "tls")]
    pub(crate) fn take_awaited(&mut self) -> Option<Secured> {
        self.awaited.take()
    }

    /// The connection with another stream over its socket; what counts it stays.
    #[cfg(feature = "tls")]
    pub(crate) fn with_tls(
        parts: Parts,
        stream: tokio_rustls::TlsStream<crate::stream::BufferedSocket>,
    ) -> Self {
        let Parts { facts, bytes, counted } = parts;
        Self { stream: Stream::Tls(Box::new(stream)), facts, bytes, awaited: None, counted }
    }

    /// The socket, and the rest. `None` if TLS is spoken already.
    #[cfg(feature = "tls")]
    pub(crate) fn into_parts(self) -> Option<(Socket, Parts)> {
        let Self { stream, facts, bytes, awaited: _, counted } = self;
        match stream {
            Stream::Plain(socket) => Some((socket, Parts { facts, bytes, counted })),
            Stream::Tls(_) => None,
        }
    }
}

/// A connection without its stream, while TLS shakes hands.
#[cfg(feature = "tls")]
#[derive(Debug)]
pub(crate) struct Parts {
    facts: Facts,
    bytes: Arc<Bytes>,
    counted: Counted,
}

/// A connection on its way to another event loop. It counts as open meanwhile.
#[derive(Debug)]
pub struct Detached {
    socket: DetachedSocket,
    facts: Facts,
    bytes: Arc<Bytes>,
    awaited: Option<Secured>,
    counted: Counted,
}

#[derive(Debug)]
enum DetachedSocket {
    Tcp(std::net::TcpStream),
    Unix(StdUnixStream),
}

impl Detached {
    /// What is known of it.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// What counts its bytes.
    #[must_use]
    pub fn bytes(&self) -> Arc<Bytes> {
        Arc::clone(&self.bytes)
    }

    /// Puts the connection on the event loop that this is called on.
    ///
    /// # Errors
    /// What the operating system says. The connection is closed then.
    pub fn attach(self) -> io::Result<Connection> {
        let Self { socket, facts, bytes, awaited, counted } = self;
        let socket = match socket {
            DetachedSocket::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream)?),
            DetachedSocket::Unix(stream) => Socket::Unix(UnixStream::from_std(stream)?),
        };
        Ok(Connection { stream: Stream::Plain(socket), facts, bytes, awaited, counted })
    }
}

impl AsyncRead for Connection {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        Bytes::add(&this.bytes.read, buf.filled().len() - start);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        Bytes::add(&this.bytes.written, written);
        Poll::Ready(Ok(written))
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(cx, pieces))?;
        Bytes::add(&this.bytes.written, written);
        Poll::Ready(Ok(written))
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
