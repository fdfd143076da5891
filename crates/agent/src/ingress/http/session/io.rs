//! What hyper reads and writes of a connection, and where its tasks run.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::rt::ReadBufCursor;
use hyper_util::rt::TokioIo;
use tracing::warn;
use wire::{Connection, WatchedStream};

use super::{HttpSession, LAST_READ, Phase, prepared_answers};
use crate::scratch::Scratch;

/// What is put together of an answer's head and pieces: of what is longer the rest goes out alone.
const MAX_JOINED_LEN: usize = 16 * 1024;

thread_local! {
    /// That of this thread's connections; each puts together and writes in one go.
    static JOINED: Scratch = Scratch::default();
}

/// The socket, with what was read to tell the version, watched for the sake of time.
pub(super) struct SessionIo {
    pub(super) stream: TokioIo<WatchedStream<Connection>>,
    pub(super) start: Bytes,
    pub(super) session: Rc<HttpSession>,
    /// The longest head that is read.
    pub(super) max_head_len: usize,
}

impl hyper::rt::Read for SessionIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.start.is_empty() {
            let len = this.start.len().min(buffer.remaining());
            let start = this.start.split_to(len);
            buffer.put_slice(&start);
            if this.session.is_http2.get() {
                return Poll::Ready(this.check_pace(&start));
            }
            LAST_READ.with_borrow_mut(|last| last.keep(&this.session, &start));
            return Poll::Ready(Ok(()));
        }
        if this.session.is_http2.get() {
            if this.session.pace(|pace| pace.has_read_enough()) {
                // What has come is answered, or refused, first.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let most = this.session.pace(|pace| pace.room());
            return LAST_READ.with_borrow_mut(|last| {
                let stream = Pin::new(&mut this.stream);
                ready!(last.poll_read(&this.session, stream, cx, buffer, most))?;
                let checked = this.check_pace(last.bytes());
                last.forget();
                Poll::Ready(checked)
            });
        }
        if this.session.expired.get() {
            return Poll::Ready(this.give_up());
        }
        let mut has_room = true;
        let session = &this.session;
        let is_watched = session.phase.get() != Phase::Busy || session.chunks.get().is_some();
        let stream = Pin::new(&mut this.stream);
        let read = LAST_READ.with_borrow_mut(|last| {
            ready!(last.poll_read(session, stream, cx, buffer, usize::MAX))?;
            if !is_watched {
                last.forget();
                return Poll::Ready(Ok(()));
            }
            session.read_of_chunks(last.bytes());
            has_room = session.read_of_head(last.bytes().len());
            Poll::Ready(Ok(()))
        });
        if read.is_ready() && session.phase.get() == Phase::Idle {
            session.enter(Phase::Head);
        }
        if !has_room {
            // As a request that is late: nothing else waits to be written.
            this.session.refuse(&prepared_answers::NO_MEMORY);
            let answer = prepared_answers::NO_MEMORY.bytes;
            let _ = this.stream.inner_mut().get_mut().try_write(answer);
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        read
    }
}

impl SessionIo {
    /// Whether the socket alone says that the caller has hung up. By TLS, it says so in TLS.
    pub(super) fn tells_hang_up(&self) -> bool {
        !self.stream.inner().get_ref().is_tls()
    }

    /// Ends a connection of HTTP/2 by whose frames `bytes` too many have come that ask for
    /// nothing.
    fn check_pace(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.session.pace(|pace| pace.read(bytes)) {
            return Ok(());
        }
        let text = "too many PING, SETTINGS or similar frames";
        let stream = self.stream.inner_mut().get_mut();
        warn!(peer = %stream.facts().peer, "connection closed: {text}");
        if !self.session.taking.is_blocked() {
            // No frame has been written in part, so that this is one.
            let _ = stream.try_write(prepared_answers::CALM_DOWN);
        }
        Err(io::Error::other(text))
    }

    /// The end of a connection that has dawdled: with an answer if a request had begun.
    fn give_up(&mut self) -> io::Result<()> {
        if self.session.phase.get() == Phase::Head {
            // The socket's buffer is empty between requests, so that this goes out whole.
            self.session.refuse(&prepared_answers::TIMEOUT);
            let answer = prepared_answers::TIMEOUT.bytes;
            let _ = self.stream.inner_mut().get_mut().try_write(answer);
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

impl hyper::rt::Write for SessionIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let session = &self.session;
        let expired = session.expired.get() && !session.is_http2.get();
        if expired && session.phase.get() != Phase::Busy {
            // A peer that asks and does not read its answers. (One of HTTP/2 still gets a GOAWAY;
            // if it does not read, it does not answer pings either.)
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if session.phase.get() == Phase::Head
            && !session.is_http2.get()
            && let Some(instead) = prepared_answers::instead_of(bytes)
        {
            // As above: this goes out whole.
            let instead = session.exact(instead, self.max_head_len);
            session.refuse(instead);
            let _ = self.stream.inner_mut().get_mut().try_write(instead.bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        let this = &mut *self;
        this.session.hang_up.end();
        let wrote = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes));
        match wrote {
            Ok(len) if this.session.is_http2.get() => this.session.pace(|pace| pace.wrote(len)),
            Ok(len) => {
                let handed_len = this.session.handed_len.get();
                this.session.count_handed(handed_len.saturating_sub(len));
            }
            Err(_) => {}
        }
        Poll::Ready(wrote)
    }

    /// hyper gives heads and bodies apart, so that it keeps no buffer as long as the longest
    /// answer. What is short is put together, so that it goes out at once.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match pieces {
            [] => self.poll_write(cx, &[]),
            [piece] => self.poll_write(cx, piece),
            [piece, ..] if MAX_JOINED_LEN <= piece.len() => self.poll_write(cx, piece),
            pieces => JOINED.with(|joined| {
                joined.with(|joined| {
                    for piece in pieces {
                        let len = piece.len().min(MAX_JOINED_LEN - joined.len());
                        joined.extend_from_slice(&piece[..len]);
                    }
                    self.poll_write(cx, joined)
                })
            }),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper flushes in each turn. While a request is answered, this is where its caller's end is
    /// noticed.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        let this = &mut *self;
        Poll::Ready(this.session.hang_up.look(cx, this.stream.inner_mut().get_mut()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Runs hyper's tasks on this worker.
pub(super) struct LocalExecutor(pub(super) Rc<HttpSession>);

impl Clone for LocalExecutor {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        let task = tokio::task::spawn_local(async move { drop(future.await) });
        // hyper asks for a request's future, and has it run, without doing anything in between.
        if let Some(stream) = self.0.last_stream.take() {
            stream.runs_in(task.abort_handle());
            self.0.streams.borrow_mut().push(Rc::downgrade(&stream));
        }
    }
}
