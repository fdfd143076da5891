//! One HTTP connection: which version it speaks, how long it may dawdle, how it ends.
//!
//! Invariants:
//! - A connection on which no request is being answered ends after a bounded time.
//! - A request that is being answered when the agent drains is answered.
//!
//! `http1` serves that version and `answering` its requests, `io` is its bytes, `body_wakes` wakes
//! its task, `hang_up` notices callers that go, `memory_account` is what it holds in memory,
//! `idle_frames` how many frames of HTTP/2 may come that ask for nothing, `refusal` what is told
//! of requests that never were any, `lingering` how a connection ends whose caller still sends.
//!
//! Timeouts are kept by the worker's sweep, not by a timer per connection: moving a timer with
//! every request would cost more than all the rest of this file.

mod answering;
mod body_wakes;
mod hang_up;
mod http1;
mod idle_frames;
mod io;
mod lingering;
mod memory_account;
mod refusal;

use std::cell::{Cell, OnceCell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use flow::queue::CallerId;
use http::Response;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tracing::{debug, info};
use wire::{Account, Connection, Peer, Taking, WatchedStream};

use self::answering::{AcceptedRequest, Answering};
use self::body_wakes::BodyWakes;
use self::hang_up::HangUpWatch;
use self::idle_frames::FramePace;
use self::io::{LocalExecutor, SessionIo};
use self::refusal::RefusedHead;
use super::chunks::Chunks;
use super::last_read::LAST_READ;
use super::outgoing_answer::{Leaving, StreamAnswer, UnwrittenPieces};
use super::{HttpAnswer, HttpListener, answer, prepared_answers};
use crate::connections::{Session, SessionActivity};
use crate::memory::{no_room_for_reply, write_timeout};
use crate::stages::StageClock;
use crate::worker::Worker;

/// How every HTTP/2 connection begins; no method of HTTP/1 begins like this.
const HTTP2_START: &[u8] = b"PRI";
/// Requests that one HTTP/2 connection may have in flight.
///
/// A client of HTTP/2 counts on 100. Each may cost its head and a piece of its answer, so 1024
/// were too many.
const MAX_STREAMS: u32 = 100;
/// What a peer may send on one stream of HTTP/2 before it is read, and on all of a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Streams of HTTP/2 that we have reset, and that may still be spoken of.
const MAX_RESET_STREAMS: usize = 100;
/// How long a connection of HTTP/2 that was told to end may take to do so.
const END_TIME: Duration = Duration::from_secs(5);
/// How long one of HTTP/1 is kept whose caller sends what nobody wants.
const LEAVE_TIME: Duration = Duration::from_secs(5);
/// A connection of HTTP/1 that has been idle for so long keeps nothing to answer with.
const REST_AFTER: Duration = Duration::from_secs(1);
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
    /// The last request was answered, and its caller has not noticed.
    Leaving,
}

/// The clock and the exit of one connection; the worker holds it weakly.
pub struct HttpSession {
    phase: Cell<Phase>,
    since: Cell<Instant>,
    n_active: Cell<u32>,
    limits: Cell<SessionLimits>,
    is_http2: Cell<bool>,
    expired: Cell<bool>,
    draining: Cell<bool>,
    /// Of the request that is being answered, if its body is chunked and its begin is known.
    chunks: Cell<Option<Chunks>>,
    /// Whether that body has announced more than it may have.
    is_too_long: Cell<bool>,
    wakes: RefCell<Option<Arc<BodyWakes>>>,
    /// Who calls.
    peer: Peer,
    account: Rc<Account>,
    taking: Rc<Taking>,
    /// Bytes of heads, and of answers that hyper has; the account knows them.
    head_len: Cell<usize>,
    handed_len: Cell<usize>,
    /// What was handed out in this turn of the task.
    turn_len: Cell<usize>,
    /// The streams of HTTP/2 that are being answered, and the last one, whose task is not known
    /// yet.
    streams: RefCell<Vec<Weak<StreamAnswer>>>,
    last_stream: RefCell<Option<Rc<StreamAnswer>>>,
    pieces: Arc<UnwrittenPieces>,
    /// Since when pieces wait, how many bytes, and how many had been written by then.
    pieces_mark: Cell<Option<(Instant, u64, u64)>>,
    /// Of HTTP/2.
    pace: Cell<FramePace>,
    /// The connection is to end, whatever is on it.
    is_over: Cell<bool>,
    /// Of HTTP/1.
    answering: OnceCell<Answering>,
    /// Whether a call of it was answered.
    is_known: Cell<bool>,
    /// Whether the last request is of a caller who may ask again, and was read to its end.
    is_read_whole: Cell<bool>,
    /// Of HTTP/1.
    hang_up: HangUpWatch,
    /// How many bytes of the last request may still come when it is answered.
    unread_len: Cell<u64>,
    /// What was refused before it was a request, if the journal has not been told yet.
    refusal: Cell<Option<Box<RefusedHead>>>,
}

#[derive(Clone, Copy)]
struct SessionLimits {
    head: Duration,
    idle: Duration,
    write: Duration,
}

impl HttpSession {
    /// A connection that has just been accepted: its first request's head is awaited.
    pub fn new(account: Rc<Account>, peer: Peer) -> Rc<Self> {
        let unlimited = Duration::MAX;
        Rc::new(Self {
            peer,
            account,
            taking: Taking::new(),
            head_len: Cell::new(0),
            handed_len: Cell::new(0),
            turn_len: Cell::new(0),
            streams: RefCell::default(),
            last_stream: RefCell::default(),
            pieces: Arc::default(),
            pieces_mark: Cell::new(None),
            pace: Cell::new(FramePace::new()),
            is_over: Cell::new(false),
            answering: OnceCell::new(),
            is_known: Cell::new(false),
            is_read_whole: Cell::new(false),
            hang_up: HangUpWatch::default(),
            unread_len: Cell::new(0),
            refusal: Cell::new(None),
            phase: Cell::new(Phase::Head),
            since: Cell::new(Instant::now()),
            n_active: Cell::new(0),
            limits: Cell::new(SessionLimits { head: unlimited, idle: unlimited, write: unlimited }),
            is_http2: Cell::new(false),
            expired: Cell::new(false),
            draining: Cell::new(false),
            chunks: Cell::new(None),
            is_too_long: Cell::new(false),
            wakes: RefCell::new(None),
        })
    }

    /// Who calls.
    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// The caller, by a number that no other session of the worker has. All streams of a
    /// connection have it.
    pub(super) fn caller(&self) -> CallerId {
        let number = std::ptr::from_ref(self).addr() as u64;
        CallerId { number, is_known: self.is_known.get() }
    }

    /// Watches the chunks of the request's body, of which at most `max_len` bytes are taken. To be
    /// called as soon as the request's head is known to say that there are any.
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

    /// A turn of its task begins.
    pub(super) fn begin_turn(&self) {
        self.turn_len.set(0);
    }

    /// Whether less than `max_len` bytes of answers were handed out in this turn of its task.
    pub(super) fn has_turn(&self, max_len: usize) -> bool {
        self.turn_len.get() < max_len
    }

    fn read_of_chunks(&self, bytes: &[u8]) {
        if let Some(mut chunks) = self.chunks.get() {
            let is_too_long = chunks.read(bytes);
            self.is_too_long.set(self.is_too_long.get() || is_too_long);
            self.chunks.set(Some(chunks));
        }
    }

    fn pace<R>(&self, change: impl FnOnce(&mut FramePace) -> R) -> R {
        let mut pace = self.pace.get();
        let result = change(&mut pace);
        self.pace.set(pace);
        result
    }

    fn wake(&self) {
        if let Some(wakes) = &*self.wakes.borrow() {
            wakes.wake_task();
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(Instant::now());
    }

    /// What wakes the task that is being polled: it is that of the connection.
    fn set_task(&self, cx: &Context<'_>) -> Arc<BodyWakes> {
        let mut wakes = self.wakes.borrow_mut();
        drop(wakes.take_if(|known| !known.is_of(cx)));
        Arc::clone(wakes.get_or_insert_with(|| BodyWakes::of(cx)))
    }

    /// Polls what takes the body of a request.
    pub(super) fn poll_body<T, E>(
        &self,
        take: impl FnOnce() -> Poll<Result<T, E>>,
    ) -> Poll<Result<T, E>> {
        match &*self.wakes.borrow() {
            // A stream of HTTP/2 has a task of its own, and wakes that of the connection for more.
            Some(wakes) if !self.is_http2.get() => wakes.while_taking(take),
            _ => take(),
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
        let (head, idle, write) = (config.head_timeout, config.idle_timeout, config.write_timeout);
        self.limits.set(SessionLimits { head, idle, write });
        let Some(start) = self.read_start(&mut stream).await else {
            self.tell_refusal(&worker, listener, None);
            return;
        };
        if wire::tls::is_handshake(&start) {
            // No request begins with these bytes: the answer is 400, and the connection ends.
            info!(
                peer = %stream.facts().peer,
                "the caller speaks TLS, but this listener does not; configure [ingress.tls], or \
                 use http:// in the caller"
            );
        }
        let is_http2 = start.starts_with(HTTP2_START);
        self.read_of_head(start.len());
        let stream = TokioIo::new(WatchedStream::new(stream, Rc::clone(&self.taking)));
        let max_head_len = config.max_head_len;
        let io = SessionIo { stream, start, session: Rc::clone(self), max_head_len };
        let result = match is_http2 {
            true => Box::pin(self.serve_http2(Rc::clone(&worker), listener, io)).await,
            false => self.serve_http1(Rc::clone(&worker), listener, io).await,
        };
        self.tell_refusal(&worker, listener, result.as_ref().err());
        if let Err(error) = result {
            debug!(%error, "connection ended");
        }
    }

    async fn serve_http2(
        self: &Rc<Self>,
        worker: Rc<Worker>,
        listener: &Arc<HttpListener>,
        io: SessionIo,
    ) -> hyper::Result<()> {
        let service = service_fn(|request| {
            let asked = AcceptedRequest::new(self, request);
            let (worker, listener) = (Rc::clone(&worker), Arc::clone(listener));
            async move { Ok::<_, Infallible>(asked.answer(&worker, &listener).await) }
        });
        self.is_http2.set(true);
        self.enter(Phase::Idle);
        let max_head_len = u32::try_from(listener.config.max_head_len).unwrap_or(u32::MAX);
        let heartbeat = listener.config.heartbeat;
        let connection = pin!(
            http2::Builder::new(LocalExecutor(Rc::clone(self)))
                .timer(TokioTimer::new())
                .keep_alive_interval(Some(heartbeat))
                .keep_alive_timeout(heartbeat.saturating_mul(2))
                .max_concurrent_streams(MAX_STREAMS)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_local_error_reset_streams(MAX_RESET_STREAMS)
                .max_header_list_size(max_head_len)
                .serve_connection(io, service)
        );
        let never_rests = || {
            self.tell_refused_streams(&worker, listener);
            false
        };
        let leave = http2::Connection::graceful_shutdown;
        let ended = self.until_end(connection, leave, never_rests).await;
        self.tell_refused_streams(&worker, listener);
        ended.unwrap_or(Ok(()))
    }

    /// Polls a connection to its end, and has it take no further requests once it is to leave. One
    /// of HTTP/1 that has expired ends by what it reads. `None` if it rests instead, as soon as
    /// `rests` says that it may.
    async fn until_end<C>(
        &self,
        mut connection: Pin<&mut C>,
        leave: impl Fn(Pin<&mut C>),
        rests: impl Fn() -> bool,
    ) -> Option<hyper::Result<()>>
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut told = false;
        poll_fn(|cx| {
            let waker = Waker::from(self.set_task(cx));
            self.begin_turn();
            self.pace(FramePace::turn);
            let expired = self.expired.get() && self.is_http2.get();
            if (self.draining.get() || expired) && !told {
                told = true;
                leave(connection.as_mut());
            }
            if self.is_over.get() {
                return Poll::Ready(Some(Ok(())));
            }
            match connection.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending if rests() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
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
        let write = write_timeout(&self.account, limits.write);
        if self.taking.check(now, write) {
            debug!("connection closed: the caller did not read its answers");
        }
        if self.is_http2.get() {
            self.pace(FramePace::sweep);
            self.check_streams(now, write);
        }
        if self.hang_up.is_in_doubt() {
            self.wake();
        }
        let limit = match self.phase.get() {
            Phase::Busy => return,
            Phase::Head => limits.head,
            Phase::Idle => limits.idle,
            Phase::Leaving => LEAVE_TIME,
        };
        let time = now.saturating_duration_since(self.since.get());
        if let Some(answering) = self.answering.get().filter(|_| REST_AFTER <= time) {
            answering.rest();
        }
        if limit <= time {
            // One of HTTP/2 is asked to leave first.
            let is_over = self.is_http2.get() && limit.saturating_add(END_TIME) <= time;
            self.is_over.set(is_over);
            self.expired.set(true);
            self.wake();
        }
    }

    fn is_known(&self) -> bool {
        self.is_known.get()
    }

    fn activity(&self) -> SessionActivity {
        let doing = match self.phase.get() {
            _ if self.draining.get() => "draining",
            Phase::Idle => "idle",
            Phase::Head => "reading a request",
            Phase::Busy => "answering",
            Phase::Leaving => "leaving",
        };
        let in_flight = self.n_active.get() as usize;
        SessionActivity { doing, in_flight, held_bytes: self.account.held(), peer_name: None }
    }
}

/// Marks the connection busy for as long as a request is being answered.
pub(super) struct Active {
    session: Rc<HttpSession>,
    /// What stops the time of the call's stages, until hyper has all of the answer.
    clock: OnceCell<Rc<StageClock>>,
}

impl Active {
    /// A request of this connection begins to be answered.
    pub(super) fn begin(session: &Rc<HttpSession>) -> Self {
        session.n_active.set(session.n_active.get() + 1);
        session.phase.set(Phase::Busy);
        session.is_read_whole.set(false);
        Self { session: Rc::clone(session), clock: OnceCell::new() }
    }

    /// The connection.
    pub(super) fn session(&self) -> &HttpSession {
        &self.session
    }

    /// Has the clock run until hyper has all of the answer.
    #[cold]
    pub(super) fn keep(&self, clock: &Rc<StageClock>) {
        let _ = self.clock.set(Rc::clone(clock));
    }

    /// Hands an answer to hyper, piece by piece.
    fn leave(self, answer: HttpAnswer, stream: Option<Rc<StreamAnswer>>) -> Response<Leaving> {
        let session = &self.session;
        session.is_known.set(session.is_known.get() || answer.status().is_success());
        let len = answer.body().len();
        let hold = match self.session.account.take(len) {
            Ok(hold) => hold,
            Err(refused) => {
                let answer = answer::error(&no_room_for_reply(len, &refused), answer.version());
                return answer.map(|body| Leaving::new(body, None, self, stream));
            }
        };
        answer.map(|body| Leaving::new(body, Some(hold), self, stream))
    }

    /// hyper has so many bytes more of the answer, or `waiting_len` of all answers.
    pub(super) fn handed_out(&self, len: usize, waiting_len: Option<usize>) {
        let session = &self.session;
        session.turn_len.set(session.turn_len.get() + len);
        session.count_handed(waiting_len.unwrap_or(session.handed_len.get() + len));
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.session.n_active.set(self.session.n_active.get() - 1);
        if self.session.n_active.get() == 0 {
            self.session.end_head();
            self.session.hang_up.end();
            self.session.chunks.set(None);
            self.session.is_too_long.set(false);
            self.session.enter(Phase::Idle);
        }
    }
}
