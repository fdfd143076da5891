//! Interim answers (1xx) of an app: how many may come before the answer of a call.
//!
//! hyper reads past any number of them without a pause, and nothing else happens on the worker
//! meanwhile. So they are counted, and the stream under hyper fails once there are too many.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use http::Request;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use wire::Connection;

/// More than an app has reason to send: one 100 or 103, and a 102 now and then.
pub const MAX_INTERIM_ANSWERS: usize = 32;

/// An app sends nothing but interim answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the app sent more than {MAX_INTERIM_ANSWERS} interim answers (1xx) to one request")]
pub struct TooManyInterimAnswers;

/// How many have come for the call that is on a connection.
#[derive(Clone, Debug, Default)]
pub struct InterimCount(Arc<AtomicUsize>);

impl InterimCount {
    /// Counts what comes for `request`, and for no other any more.
    pub fn begin<B>(&self, request: &mut Request<B>) {
        self.0.store(0, Relaxed);
        let count = Arc::clone(&self.0);
        hyper::ext::on_informational(request, move |_| {
            count.fetch_add(1, Relaxed);
        });
    }

    /// # Errors
    /// If too many have come.
    pub fn check(&self) -> Result<(), TooManyInterimAnswers> {
        match self.0.load(Relaxed) {
            ..=MAX_INTERIM_ANSWERS => Ok(()),
            _ => Err(TooManyInterimAnswers),
        }
    }
}

/// A connection to an app, of which hyper reads no more after too many interim answers.
pub struct AppStream {
    stream: TokioIo<Connection>,
    count: InterimCount,
}

impl AppStream {
    /// `count` is told by hyper.
    pub fn new(stream: Connection, count: InterimCount) -> Self {
        Self { stream: TokioIo::new(stream), count }
    }
}

impl Read for AppStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if let Err(error) = self.count.check() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer).map_err(of_stream)
    }
}

/// hyper and TLS have the same kind of error for bytes that they cannot read. What comes from TLS
/// gets another one, since it is no fault of an answer.
fn of_stream(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidData => match error.into_inner() {
            Some(inner) => io::Error::other(inner),
            None => io::ErrorKind::Other.into(),
        },
        _ => error,
    }
}

impl Write for AppStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }
}
