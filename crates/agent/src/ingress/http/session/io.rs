//! What hyper reads and writes of a connection, and where its tasks run.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::rt::ReadBufCursor;
use hyper_util::rt::TokioIo;
use wire::{Connection, Watched};

use super::{HttpSession, LAST_READ, Phase, prepared};

/// The socket, with what was read to tell the version, watched for the sake of time.
pub(super) struct SessionIo {
    pub(super) stream: TokioIo<Watched<Connection>>,
    pub(super) start: Bytes,
    pub(super) session: Rc<HttpSession>,
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
            LAST_READ.with_borrow_mut(|last| last.keep(&this.session, &start));
            return Poll::Ready(Ok(()));
        }
        if this.session.expired.get() && !this.session.is_http2.get() {
            return Poll::Ready(this.give_up());
        }
        let mut has_room = true;
        let session = &this.session;
        let is_watched = session.phase.get() != Phase::Busy || session.chunks.get().is_some();
        let stream = Pin::new(&mut this.stream);
        let read = match is_watched && !session.is_http2.get() {
            true => LAST_READ.with_borrow_mut(|last| {
                ready!(last.poll_read(session, stream, cx, buffer))?;
                session.read_of_chunks(last.bytes());
                has_room = session.read_of_head(last.bytes().len());
                Poll::Ready(Ok(()))
            }),
            false => stream.poll_read(cx, buffer),
        };
        if read.is_ready() && session.phase.get() == Phase::Idle && !session.is_http2.get() {
            session.enter(Phase::Head);
        }
        if !has_room {
            // As a request that is late: nothing else waits to be written.
            let _ = this.stream.inner().get_ref().try_write(prepared::NO_MEMORY);
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        read
    }
}

impl SessionIo {
    /// The end of a connection that has dawdled: with an answer if a request had begun.
    fn give_up(&self) -> io::Result<()> {
        if self.session.phase.get() == Phase::Head {
            // The socket's buffer is empty between requests, so that this goes out whole.
            let _ = self.stream.inner().get_ref().try_write(prepared::TIMEOUT);
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
            && let Some(instead) = prepared::instead_of(bytes)
        {
            // As above: this goes out whole.
            let _ = self.stream.inner().get_ref().try_write(instead);
            return Poll::Ready(Ok(bytes.len()));
        }
        let this = &mut *self;
        let wrote = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes));
        if let Ok(len) = wrote
            && !this.session.is_http2.get()
        {
            let handed_len = this.session.handed_len.get();
            this.session.count_handed(handed_len.saturating_sub(len));
        }
        Poll::Ready(wrote)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
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
