//! One connection: its bytes, who is at its other end, and what counts it.
//!
//! Invariants:
//! - What counts a connection lives exactly as long as its socket: nothing can take the one out of
//!   here without the other.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::connection_counts::OpenConnection;
use crate::tcp_info::TcpInfo;
use crate::worker_loads::Assigned;
pub use departures::Departures;
pub use meter::Meter;
use stream::ByteStream;
pub(crate) use stream::{DetachedSocket, Socket};

mod departures;
mod discard;
mod hang_up;
mod meter;
mod stream;
#[cfg(test)]
mod testing;
#[cfg(feature = "tls")]
pub mod tls;

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

/// A connection on the event loop that it is served on: a byte stream that knows its [`Facts`].
#[derive(Debug)]
pub struct Connection {
    stream: ByteStream,
    facts: Facts,
    meter: Arc<Meter>,
    awaited: Option<Secured>,
    counted: CountGuards,
    departures: Option<Departures>,
}

/// What is left of a connection: its socket, and what counts it, which lives as long.
#[derive(Debug)]
pub(crate) struct Ended {
    _stream: ByteStream,
    _counted: CountGuards,
}

/// What counts a connection until it is dropped.
#[derive(Debug, Default)]
struct CountGuards {
    _open: Option<OpenConnection>,
    _assigned: Option<Assigned>,
}

#[cfg(feature = "tls")]
pub use tls::Secured;

/// Without the feature `tls`, no listener asks for TLS.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub enum Secured {}

impl Connection {
    fn new(socket: Socket, peer: Peer, carries: &'static str) -> Self {
        let meter = Arc::<Meter>::default();
        meter.attach(&socket);
        Self {
            stream: ByteStream::Plain(socket),
            facts: Facts::new(peer, carries),
            meter,
            awaited: None,
            counted: CountGuards::default(),
            departures: None,
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

    /// From now on it is closed by `departures` when it ends.
    pub fn close_by(&mut self, departures: &Departures) {
        self.departures = Some(departures.clone());
    }

    /// What is measured of it, also after the connection has moved elsewhere.
    #[must_use]
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// Whether its bytes are encrypted by TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    #[cfg(test)]
    pub(crate) fn socket(&self) -> Option<&Socket> {
        self.stream.socket()
    }

    /// What the kernel knows of it now. `None` for a Unix socket, and where the kernel does not
    /// say.
    #[must_use]
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.stream.socket().and_then(Socket::tcp).and_then(TcpInfo::of)
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
        parts: ConnectionParts,
        stream: tokio_rustls::TlsStream<stream::BufferedSocket>,
    ) -> Self {
        let ConnectionParts { facts, meter, counted, departures } = parts;
        meter.attach(stream.get_ref().0.get_ref());
        let stream = ByteStream::Tls(Box::new(stream));
        Self { stream, facts, meter, awaited: None, counted, departures }
    }

    /// The socket, and the rest. `None` if TLS is spoken already.
    #[cfg(feature = "tls")]
    pub(crate) fn into_parts(mut self) -> Option<(Socket, ConnectionParts)> {
        let departures = self.departures.take();
        let (facts, meter) = (self.facts, Arc::clone(&self.meter));
        // The socket may end while TLS shakes hands.
        meter.detach();
        let counted = std::mem::take(&mut self.counted);
        match std::mem::replace(&mut self.stream, ByteStream::Closed) {
            ByteStream::Plain(socket) => {
                Some((socket, ConnectionParts { facts, meter, counted, departures }))
            }
            ByteStream::Tls(_) | ByteStream::Closed => None,
        }
    }
}

/// A connection without its stream, while TLS shakes hands.
#[cfg(feature = "tls")]
#[derive(Debug)]
pub(crate) struct ConnectionParts {
    facts: Facts,
    meter: Arc<Meter>,
    counted: CountGuards,
    departures: Option<Departures>,
}

/// A connection on its way to an event loop. It counts as open meanwhile.
#[derive(Debug)]
pub struct Detached {
    socket: DetachedSocket,
    facts: Facts,
    meter: Arc<Meter>,
    awaited: Option<Secured>,
    counted: CountGuards,
}

impl Detached {
    /// One that a listener has accepted, and that does not block. `awaited` is the TLS that the
    /// client has to begin with.
    pub(crate) fn accepted(
        socket: DetachedSocket,
        peer: Peer,
        carries: &'static str,
        awaited: Option<Secured>,
        open: OpenConnection,
    ) -> Self {
        let facts = Facts::new(peer, carries);
        let counted = CountGuards { _open: Some(open), _assigned: None };
        Self { socket, facts, meter: Arc::default(), awaited, counted }
    }

    /// The same, counted for a worker too.
    #[must_use]
    pub fn assigned(mut self, assigned: Assigned) -> Self {
        self.counted._assigned = Some(assigned);
        self
    }

    /// What is known of it.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// What is measured of it.
    #[must_use]
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// Puts the connection on the event loop that this is called on.
    ///
    /// # Errors
    /// What the operating system says. The connection is closed then.
    pub fn attach(self) -> io::Result<Connection> {
        let Self { socket, facts, meter, awaited, counted } = self;
        let socket = socket.attach()?;
        meter.attach(&socket);
        let stream = ByteStream::Plain(socket);
        Ok(Connection { stream, facts, meter, awaited, counted, departures: None })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.stream.socket().is_some() {
            self.meter.detach();
        }
        if let Some(departures) = self.departures.take() {
            departures.close(Ended {
                _stream: std::mem::replace(&mut self.stream, ByteStream::Closed),
                _counted: std::mem::take(&mut self.counted),
            });
        }
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
        this.meter.add_read(buf.filled().len() - start);
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
        this.meter.add_written(written);
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
        this.meter.add_written(written);
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
