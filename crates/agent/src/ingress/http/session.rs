//! One HTTP connection: which version it speaks, how long it may dawdle, how it ends.
//!
//! Invariants:
//! - A connection on which no request is being answered ends after a bounded time.
//! - A request that is being answered when the agent drains is answered.
//!
//! Timeouts are kept by the worker's sweep, not by a timer per connection: moving a timer with
//! every request would cost more than all the rest of this file.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::ReadBufCursor;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncReadExt;
use tracing::debug;
use wire::Connection;

use super::chunks::Chunks;
use super::last_read::LAST_READ;
use super::{HttpListener, handle, prepared};
use crate::worker::{Session, Worker};

/// How every HTTP/2 connection begins; no method of HTTP/1 begins like this.
const HTTP2_START: &[u8] = b"PRI";
/// Requests that one HTTP/2 connection may have in flight.
const MAX_STREAMS: u32 = 1024;
/// An HTTP/2 peer that is silent is asked for a sign of life after this time, and given up if it
/// does not answer within as long again.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Smallest read buffer that hyper accepts.
const MIN_BUFFER_LEN: usize = 8192;

/// What a connection is doing, as far as time is concerned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Between requests.
    Idle,
    /// A request's head is arriving.
    Head,
    /// A request is being answered.
    Busy,
}

/// The clock and the exit of one connection; the worker holds it weakly.
pub struct HttpSession {
    phase: Cell<Phase>,
    since: Cell<Instant>,
    n_active: Cell<u32>,
    limits: Cell<Limits>,
    is_http2: Cell<bool>,
    expired: Cell<bool>,
    draining: Cell<bool>,
    /// Of the request that is being answered, if its body is chunked and its begin is known.
    chunks: Cell<Option<Chunks>>,
    /// Whether that body has announced more than it may have.
    is_too_long: Cell<bool>,
    task: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy)]
struct Limits {
    head: Duration,
    idle: Duration,
}

impl HttpSession {
    /// A connection that has just been accepted: its first request's head is awaited.
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            phase: Cell::new(Phase::Head),
            since: Cell::new(Instant::now()),
            n_active: Cell::new(0),
            limits: Cell::new(Limits { head: Duration::MAX, idle: Duration::MAX }),
            is_http2: Cell::new(false),
            expired: Cell::new(false),
            draining: Cell::new(false),
            chunks: Cell::new(None),
            is_too_long: Cell::new(false),
            task: RefCell::new(None),
        })
    }

    /// Watches the chunks of the request's body, of which at most `max_len` bytes are taken. To be called as
    /// soon as the request's head is known to say that there are any.
    pub(super) fn watch_chunks(&self, max_len: usize) {
        let begin = LAST_READ.with_borrow_mut(|last| {
            let body = last.take_body_of(self)?;
            let mut chunks = Chunks::new(max_len);
            Some((chunks.read(body), chunks))
        });
        if let Some((is_too_long, chunks)) = begin {
            self.is_too_long.set(is_too_long);
            self.chunks.set(Some(chunks));
        }
    }

    /// Whether the body of the request that is being answered has announced more than is taken.
    pub(super) fn is_body_too_long(&self) -> bool {
        self.is_too_long.get()
    }

    fn read_of_chunks(&self, bytes: &[u8]) {
        if let Some(mut chunks) = self.chunks.get() {
            let is_too_long = chunks.read(bytes);
            self.is_too_long.set(self.is_too_long.get() || is_too_long);
            self.chunks.set(Some(chunks));
        }
    }

    fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(Instant::now());
    }

    fn set_task(&self, waker: &Waker) {
        let mut task = self.task.borrow_mut();
        match task.as_ref() {
            Some(known) if known.will_wake(waker) => {}
            _ => *task = Some(waker.clone()),
        }
    }

    /// Serves the connection to its end.
    pub async fn serve(
        self: &Rc<Self>,
        worker: Rc<Worker>,
        listener: &Arc<HttpListener>,
        mut stream: Connection,
    ) {
        let config = &listener.config;
        self.limits.set(Limits { head: config.head_timeout, idle: config.idle_timeout });
        let Some(start) = self.read_start(&mut stream).await else {
            return;
        };
        let is_http2 = start.starts_with(HTTP2_START);
        let io = SessionIo { stream: TokioIo::new(stream), start, session: Rc::clone(self) };
        let session = Rc::clone(self);
        let service = service_fn(|request| {
            let active = Active::begin(&session);
            let (worker, listener) = (Rc::clone(&worker), Arc::clone(listener));
            async move {
                let answer = handle(&worker, &listener, &active.0, request).await;
                drop(active);
                Ok::<_, Infallible>(answer)
            }
        });
        let result = match is_http2 {
            true => self.serve_http2(listener, io, service).await,
            false => self.serve_http1(listener, io, service).await,
        };
        if let Err(error) = result {
            debug!(%error, "connection ended");
        }
    }

    async fn serve_http1<S>(
        &self,
        listener: &HttpListener,
        io: SessionIo,
        service: S,
    ) -> hyper::Result<()>
    where
        S: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
        S::Future: 'static,
    {
        let connection = pin!(
            http1::Builder::new()
                .half_close(true)
                .max_buf_size(listener.config.max_head_len.max(MIN_BUFFER_LEN))
                .max_header_size(listener.config.max_head_len)
                .writev(false)
                .serve_connection(io, service)
        );
        self.until_end(connection, http1::Connection::graceful_shutdown).await
    }

    async fn serve_http2<S>(
        &self,
        listener: &HttpListener,
        io: SessionIo,
        service: S,
    ) -> hyper::Result<()>
    where
        S: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
        S::Future: 'static,
    {
        self.is_http2.set(true);
        self.enter(Phase::Idle);
        let max_head_len = u32::try_from(listener.config.max_head_len).unwrap_or(u32::MAX);
        let connection = pin!(
            http2::Builder::new(LocalExecutor)
                .timer(TokioTimer::new())
                .keep_alive_interval(Some(PING_INTERVAL))
                .keep_alive_timeout(PING_INTERVAL)
                .max_concurrent_streams(MAX_STREAMS)
                .max_header_list_size(max_head_len)
                .serve_connection(io, service)
        );
        self.until_end(connection, http2::Connection::graceful_shutdown).await
    }

    /// Polls a connection to its end, and has it take no further requests once it is to leave. One
    /// of HTTP/1 that has expired ends by what it reads.
    async fn until_end<C>(
        &self,
        mut connection: Pin<&mut C>,
        leave: impl Fn(Pin<&mut C>),
    ) -> hyper::Result<()>
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut told = false;
        poll_fn(|cx| {
            self.set_task(cx.waker());
            let expired = self.expired.get() && self.is_http2.get();
            if (self.draining.get() || expired) && !told {
                told = true;
                leave(connection.as_mut());
            }
            connection.as_mut().poll(cx)
        })
        .await
    }

    /// Reads until it is clear which version of HTTP this is.
    async fn read_start(&self, stream: &mut Connection) -> Option<Bytes> {
        let mut start = BytesMut::new();
        while HTTP2_START.starts_with(&start) && start.len() < HTTP2_START.len() {
            start.reserve(MIN_BUFFER_LEN);
            let read = {
                let mut reading = pin!(stream.read_buf(&mut start));
                poll_fn(|cx| {
                    self.set_task(cx.waker());
                    match self.expired.get() || self.draining.get() {
                        true => Poll::Ready(Ok(0)),
                        false => reading.as_mut().poll(cx),
                    }
                })
                .await
            };
            if read.ok().filter(|len| *len != 0).is_none() {
                if self.expired.get() {
                    let _ = stream.try_write(prepared::TIMEOUT);
                }
                return None;
            }
        }
        Some(start.freeze())
    }
}

impl Session for HttpSession {
    /// Ends the connection once it has answered what it has begun to read.
    fn drain(&self) {
        self.draining.set(true);
        self.wake();
    }

    /// Ends the connection if it has dawdled too long.
    fn check_time(&self, now: Instant) {
        let limits = self.limits.get();
        let limit = match self.phase.get() {
            Phase::Busy => return,
            Phase::Head => limits.head,
            Phase::Idle => limits.idle,
        };
        if limit <= now.saturating_duration_since(self.since.get()) {
            self.expired.set(true);
            self.wake();
        }
    }
}

/// Marks the connection busy for as long as a request is being answered.
struct Active(Rc<HttpSession>);

impl Active {
    fn begin(session: &Rc<HttpSession>) -> Self {
        session.n_active.set(session.n_active.get() + 1);
        session.phase.set(Phase::Busy);
        Self(Rc::clone(session))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.n_active.set(self.0.n_active.get() - 1);
        if self.0.n_active.get() == 0 {
            self.0.chunks.set(None);
            self.0.is_too_long.set(false);
            self.0.enter(Phase::Idle);
        }
    }
}

/// The socket, with what was read to tell the version, watched for the sake of time.
struct SessionIo {
    stream: TokioIo<Connection>,
    start: Bytes,
    session: Rc<HttpSession>,
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
        let session = &this.session;
        let is_watched = session.phase.get() != Phase::Busy || session.chunks.get().is_some();
        let stream = Pin::new(&mut this.stream);
        let read = match is_watched && !session.is_http2.get() {
            true => LAST_READ.with_borrow_mut(|last| {
                ready!(last.poll_read(session, stream, cx, buffer))?;
                session.read_of_chunks(last.bytes());
                Poll::Ready(Ok(()))
            }),
            false => stream.poll_read(cx, buffer),
        };
        if read.is_ready() && session.phase.get() == Phase::Idle && !session.is_http2.get() {
            session.enter(Phase::Head);
        }
        read
    }
}

impl SessionIo {
    /// The end of a connection that has dawdled: with an answer if a request had begun.
    fn give_up(&self) -> io::Result<()> {
        if self.session.phase.get() == Phase::Head {
            // The socket's buffer is empty between requests, so that this goes out whole.
            let _ = self.stream.inner().try_write(prepared::TIMEOUT);
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
            let _ = self.stream.inner().try_write(instead);
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Runs hyper's tasks on this worker.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move { drop(future.await) });
    }
}
