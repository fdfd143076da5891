//! What is measured of a connection: how many bytes have passed, and what the kernel says when
//! asked.
//!
//! Invariants:
//! - The number of the socket is known only while the socket is open, so that no other socket is
//!   taken for it.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use super::stream::Socket;
use crate::tcp_info::TcpInfo;

/// No TCP socket is open.
const NO_SOCKET: RawFd = -1;

/// What is measured of one connection. The thread that serves the connection counts; any may read
/// the counts.
#[derive(Debug)]
pub struct Meter {
    read: AtomicU64,
    written: AtomicU64,
    socket: AtomicI32,
}

impl Default for Meter {
    fn default() -> Self {
        Self { read: AtomicU64::new(0), written: AtomicU64::new(0), socket: NO_SOCKET.into() }
    }
}

impl Meter {
    /// Bytes that came, above TLS.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// Bytes that went, above TLS.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// What the kernel knows of the connection now: one system call. `None` for a Unix socket, for
    /// one that has been closed, and where the kernel does not say.
    ///
    /// Ask on the thread that serves the connection. Elsewhere the answer may be about another
    /// socket, if this one is closed at the same moment.
    #[must_use]
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        match self.socket.load(Relaxed) {
            NO_SOCKET => None,
            socket => TcpInfo::of_socket(socket),
        }
    }

    /// The connection has this socket from now on.
    pub(super) fn attach(&self, socket: &Socket) {
        self.socket.store(socket.tcp().map_or(NO_SOCKET, AsRawFd::as_raw_fd), Relaxed);
    }

    /// The socket is going to be closed, or given away.
    pub(super) fn detach(&self) {
        self.socket.store(NO_SOCKET, Relaxed);
    }

    #[inline]
    pub(super) fn add_read(&self, len: usize) {
        add(&self.read, len);
    }

    #[inline]
    pub(super) fn add_written(&self, len: usize) {
        add(&self.written, len);
    }
}

/// There is one writer, so no other one's addition can be lost.
#[inline]
fn add(counter: &AtomicU64, len: usize) {
    counter.store(counter.load(Relaxed).wrapping_add(len as u64), Relaxed);
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream, UnixStream};

    use crate::connection::Connection;

    #[tokio::test]
    async fn a_connection_is_measured_until_it_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut accepted, _) = listener.accept().await.unwrap();
        let mut connection = Connection::outgoing(stream, "http").unwrap();
        let meter = connection.meter();
        connection.write_all(b"hello").await.unwrap();
        let mut buf = [0; 5];
        accepted.read_exact(&mut buf).await.unwrap();
        accepted.write_all(b"you").await.unwrap();
        connection.read_exact(&mut buf[..3]).await.unwrap();
        assert_eq!((meter.bytes_written(), meter.bytes_read()), (5, 3));
        #[cfg(target_os = "linux")]
        assert!(0 < meter.tcp_info().unwrap().cwnd_segments().unwrap());
        drop(connection);
        assert!(meter.tcp_info().is_none(), "its number may be another socket's now");
        assert_eq!((meter.bytes_written(), meter.bytes_read()), (5, 3));
    }

    #[tokio::test]
    async fn a_unix_socket_has_no_figures_of_tcp() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let mut connection = Connection::outgoing_unix(stream, "http");
        connection.write_all(b"hello").await.unwrap();
        assert_eq!(connection.meter().bytes_written(), 5);
        assert!(connection.meter().tcp_info().is_none());
    }
}
