//! The socket below TLS, read in larger pieces than rustls asks for.
//!
//! Invariants:
//! - A connection keeps a buffer only while there are bytes in it that rustls has not taken. The
//!   buffer of a thread goes from one connection to the next.
//! - What a client sends before the server's first answer has a limit, and what a handshake keeps
//!   is known to [`HandshakeInput`].

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Room for nearly two of the longest records of TLS. Rustls by itself reads 4 KiB at a time,
/// which was 1.7 times as many system calls under load.
const RECORDS_LEN: usize = 32 * 1024;

/// The longest ClientHello, with the headers of its records. Those of browsers have less than 2
/// KiB with keys against quantum computers. Rustls itself would keep 64 KiB for everybody.
pub(super) const MAX_HELLO_LEN: usize = 16 * 1024;
/// The room that rustls has beside what it keeps, to read the next piece.
const NEXT_PIECE_LEN: usize = 4 * 1024;

thread_local! {
    /// The buffer that is read into next, if there is one.
    static SPARE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// What a client has sent of its handshake since it was last answered, in bytes. Rustls keeps all
/// of it until a message is whole. Clones are handles to the same.
#[derive(Clone, Debug, Default)]
pub(super) struct HandshakeInput(Arc<AtomicUsize>);

impl HandshakeInput {
    /// What rustls holds of the handshake, in bytes; nothing before the first byte has come.
    pub(super) fn held_len(&self) -> usize {
        match self.0.load(Relaxed) {
            0 => 0,
            len => len + NEXT_PIECE_LEN,
        }
    }
}

/// A handshake with a client that goes on.
#[derive(Debug)]
struct ClientHandshake {
    input: HandshakeInput,
    /// The client's first message was read.
    is_answered: bool,
}

impl ClientHandshake {
    fn note_read(&self, len: usize) -> io::Result<()> {
        let before = self.input.0.fetch_add(len, Relaxed);
        if self.is_answered || before + len <= MAX_HELLO_LEN {
            return Ok(());
        }
        let text = format!("its ClientHello is over the limit of {MAX_HELLO_LEN} bytes");
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }

    fn note_written(&mut self) {
        self.is_answered = true;
        self.input.0.store(0, Relaxed);
    }
}

/// A socket and what was read from it and not taken yet.
#[derive(Debug)]
pub(crate) struct RecordSocket<S> {
    socket: S,
    unread: Option<Unread>,
    handshake: Option<ClientHandshake>,
}

struct Unread {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<S> RecordSocket<S> {
    pub(crate) fn new(socket: S) -> Self {
        Self { socket, unread: None, handshake: None }
    }

    /// From now on a client shakes hands, until [`end_handshake`](Self::end_handshake).
    pub(super) fn begin_handshake(&mut self, input: HandshakeInput) {
        self.handshake = Some(ClientHandshake { input, is_answered: false });
    }

    pub(super) fn end_handshake(&mut self) {
        self.handshake = None;
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

impl<S: AsyncRead + Unpin> RecordSocket<S> {
    fn poll_records(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_none() {
            if RECORDS_LEN <= into.remaining() {
                return Pin::new(&mut self.socket).poll_read(cx, into);
            }
            let spare = SPARE.take();
            let mut bytes = spare.unwrap_or_else(|| vec![0; RECORDS_LEN].into_boxed_slice());
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut self.socket).poll_read(cx, &mut buffer);
            let end = buffer.filled().len();
            if !matches!(read, Poll::Ready(Ok(()))) || end == 0 {
                SPARE.set(Some(bytes));
                return read;
            }
            self.unread = Some(Unread { bytes, start: 0, end });
        }
        self.take_unread(into);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RecordSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = into.filled().len();
        ready!(this.poll_records(cx, into))?;
        Poll::Ready(match &this.handshake {
            None => Ok(()),
            Some(handshake) => handshake.note_read(into.filled().len() - start),
        })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RecordSocket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(handshake) = &mut this.handshake {
            handshake.note_written();
        }
        Pin::new(&mut this.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(handshake) = &mut this.handshake {
            handshake.note_written();
        }
        Pin::new(&mut this.socket).poll_write_vectored(cx, pieces)
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

    /// A message after the first answer may be a chain of certificates, which rustls limits.
    #[tokio::test]
    async fn a_hello_has_a_limit_and_what_is_kept_of_a_handshake_is_known() {
        let (mut peer, socket) = tokio::io::duplex(256 * 1024);
        let mut socket = RecordSocket::new(socket);
        let input = HandshakeInput::default();
        socket.begin_handshake(input.clone());
        assert_eq!(input.held_len(), 0);
        let mut all = vec![0; 3 * MAX_HELLO_LEN];
        peer.write_all(&all[..MAX_HELLO_LEN]).await.unwrap();
        socket.read_exact(&mut all[..MAX_HELLO_LEN]).await.unwrap();
        assert_eq!(input.held_len(), MAX_HELLO_LEN + NEXT_PIECE_LEN);
        socket.write_all(b"hello").await.unwrap();
        assert_eq!(input.held_len(), 0);
        peer.write_all(&all).await.unwrap();
        socket.read_exact(&mut all).await.unwrap();
        assert_eq!(input.held_len(), all.len() + NEXT_PIECE_LEN);

        socket.begin_handshake(HandshakeInput::default());
        peer.write_all(&all[..=MAX_HELLO_LEN]).await.unwrap();
        let refused = socket.read_exact(&mut all[..=MAX_HELLO_LEN]).await.unwrap_err().to_string();
        assert_eq!(refused, "its ClientHello is over the limit of 16384 bytes");
        socket.end_handshake();
        peer.write_all(&all).await.unwrap();
        socket.read_exact(&mut all).await.unwrap();
    }
}
