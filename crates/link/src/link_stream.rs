//! The byte stream below a link: it counts traffic, and names a peer that speaks TLS unasked.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::Connection;

use crate::traffic::Traffic;

/// The byte stream below a link.
pub(crate) struct LinkStream {
    connection: Connection,
    /// Nothing has come yet.
    is_fresh: bool,
    /// What is counted of it; of plain TCP alone.
    traffic: Option<Arc<Traffic>>,
}

impl LinkStream {
    pub(crate) fn new(connection: Connection, traffic: Option<Arc<Traffic>>) -> Self {
        let traffic = traffic.filter(|_| !connection.is_tls());
        Self { connection, is_fresh: true, traffic }
    }

    /// How reading ends where TLS was cut off without a word: as TCP does. The link's frames say
    /// what is cut off, so nothing is lost by that.
    fn end_of_tls(&self, error: io::Error) -> io::Result<()> {
        if error.kind() == io::ErrorKind::UnexpectedEof && self.connection.is_tls() {
            return Ok(());
        }
        Err(error)
    }
}

impl Drop for LinkStream {
    fn drop(&mut self) {
        if let Some(traffic) = &self.traffic {
            traffic.count_segments(self.connection.tcp_info());
        }
    }
}

/// Whether a peer's first bytes are a record of TLS. No link begins so: its first frame would be
/// longer than any may be.
fn is_tls(first: &[u8]) -> bool {
    matches!(first, [0x14..=0x17, 3, ..])
}

impl AsyncRead for LinkStream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = buf.filled().len();
        if let Err(error) = ready!(Pin::new(&mut this.connection).poll_read(cx, buf)) {
            return Poll::Ready(this.end_of_tls(error));
        }
        if let Some(traffic) = &this.traffic {
            traffic.count_read(buf.filled().len() - start);
        }
        if !std::mem::take(&mut this.is_fresh) || this.connection.is_tls() {
            return Poll::Ready(Ok(()));
        }
        if buf.filled().get(start..).is_some_and(is_tls) {
            let text = "the peer speaks TLS, which is not set up on this side";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LinkStream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.connection).poll_write(cx, buf))?;
        if let Some(traffic) = &this.traffic {
            traffic.count_write(written);
        }
        Poll::Ready(Ok(written))
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_shutdown(cx)
    }
}
