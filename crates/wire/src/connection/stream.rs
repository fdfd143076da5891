//! The bytes below a [`Connection`](crate::Connection): a TCP or Unix socket, with TLS over it or
//! without.
//!
//! What is read and written on a plain TCP socket costs one branch more than the socket itself.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
#[cfg(feature = "tls")]
use tokio_rustls::TlsStream;

#[cfg(feature = "tls")]
use super::tls::records::RecordSocket;

/// A socket that is connected.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Unix(_) => None,
        }
    }

    /// Waits until something has come, or nothing more will, and takes it in another way than by
    /// reading.
    pub(super) fn poll_input(
        &self,
        cx: &mut Context<'_>,
        take: fn(&SockRef<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let taken = match self {
                Self::Tcp(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    stream.try_io(Interest::READABLE, || take(&SockRef::from(stream)))
                }
                Self::Unix(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    stream.try_io(Interest::READABLE, || take(&SockRef::from(stream)))
                }
            };
            match taken {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                taken => return Poll::Ready(taken),
            }
        }
    }
}

/// A socket on no event loop, which does not block.
#[derive(Debug)]
pub(crate) enum DetachedSocket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl DetachedSocket {
    pub(crate) fn attach(self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream)?),
            Self::Unix(stream) => Socket::Unix(UnixStream::from_std(stream)?),
        })
    }
}

impl AsRawFd for DetachedSocket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

/// A socket below TLS.
#[cfg(feature = "tls")]
pub(crate) type BufferedSocket = RecordSocket<Socket>;

#[cfg(feature = "tls")]
pub(crate) fn buffered(socket: Socket) -> BufferedSocket {
    RecordSocket::new(socket)
}

/// A byte stream.
pub(crate) enum ByteStream {
    Plain(Socket),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<BufferedSocket>>),
    /// It was given to who closes it.
    Closed,
}

impl ByteStream {
    /// What is below.
    pub(crate) fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Plain(socket) => Some(socket),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Some(stream.get_ref().0.get_ref()),
            Self::Closed => None,
        }
    }

    /// Whether TLS is spoken.
    pub(crate) fn is_tls(&self) -> bool {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(_) => true,
            Self::Plain(_) | Self::Closed => false,
        }
    }
}

/// What is read or written of what is closed.
#[cold]
fn closed<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.is_tls() { "Tls" } else { "Plain" };
        f.debug_tuple(name).field(&self.socket()).finish()
    }
}

macro_rules! on_socket {
    ($self:expr, $stream:ident => $do:expr) => {
        match $self {
            Socket::Tcp($stream) => $do,
            Socket::Unix($stream) => $do,
        }
    };
}

impl AsyncRead for Socket {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_socket!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_socket!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_socket!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        on_socket!(self, stream => stream.is_write_vectored())
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}

/// An error of TLS in words. The end of the socket without a word of TLS stays as it is: protocols
/// whose messages tell their own length may take it for the end.
#[cfg(feature = "tls")]
fn in_words(error: io::Error, stream: &TlsStream<BufferedSocket>) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return error;
    }
    let peer = if matches!(stream, TlsStream::Client(_)) { "server" } else { "client" };
    super::tls::explain(error, peer)
}

impl AsyncRead for ByteStream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => match ready!(Pin::new(&mut **stream).poll_read(cx, buf)) {
                Ok(()) => Poll::Ready(Ok(())),
                Err(error) => Poll::Ready(Err(in_words(error, stream))),
            },
            Self::Closed => closed(),
        }
    }
}

impl AsyncWrite for ByteStream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, bytes),
            Self::Closed => closed(),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, pieces),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, pieces),
            Self::Closed => closed(),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Closed => false,
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
            Self::Closed => closed(),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            Self::Closed => closed(),
        }
    }
}
