//! What a caller awaits.
//!
//! Invariants:
//! - Arguments are encoded, and replies decoded, by the task that polls the call.
//! - A call that is dropped is given up: the server is told, and its place is free.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use link_proto::{Meta, Payload, RouteDef, SendError, Status};

use super::Bound;
use super::lane::ClientSession;
use super::lanes::Lanes;
use super::session::{CallEnd, CallHead, CallKey, NotTaken, Response};
use crate::error::{CallError, Failure, Full};
use crate::method::Method;
use crate::observe::{self, CallInfo, Observer, Side};
use crate::trace::{TRACEPARENT, TraceContext};
use wire::SharedMachine;

/// How often one call is made again because the server has refused it unbegun, or, if it is
/// idempotent, because its connection broke.
const MAX_RESTARTS: u16 = 4;
/// Buffers for encoding that have grown beyond this are given back.
const KEEP_LEN: usize = 256 * 1024;
/// Payloads from here on are handed over without a further copy.
const SHARE_LEN: usize = 32 * 1024;

thread_local! {
    /// Where arguments are encoded before they are copied into the connection's buffer.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A call: a future of its reply. Nothing happens until it is polled.
#[must_use = "a call does nothing unless it is awaited"]
pub struct Call<'a, Req: 'static, Resp: 'static, E: 'static = crate::NoError> {
    bound: &'a Bound<Req, Resp, E>,
    args: Req,
    pub(super) codec: u8,
    pub(super) timeout: Option<Duration>,
    meta: Vec<(String, String)>,
    one_way: bool,
    deadline: Option<Instant>,
    n_restarts: u16,
    /// A connection broke while the call was out.
    has_broken: bool,
    pub(super) begun: Option<CallPlace>,
    pub(super) stream_in: bool,
    pub(super) stream_out: bool,
    /// When an observer was told that the call begins.
    pub(super) watched: Option<Instant>,
}

/// Where a call is that was begun.
pub(super) struct CallPlace {
    pub(super) session: Arc<ClientSession>,
    /// Whose load the call is part of.
    pub(super) lane: usize,
    pub(super) key: CallKey,
}

/// A reply with what came beside it.
#[derive(Clone, Debug)]
pub struct Reply<T> {
    /// What the method returned.
    pub value: T,
    /// Metadata that the handler added.
    pub meta: Meta,
}

impl<Req: 'static, Resp: 'static, E: 'static> Unpin for Call<'_, Req, Resp, E> {}

impl<'a, Req: 'static, Resp: 'static, E: 'static> Call<'a, Req, Resp, E> {
    #[inline]
    pub(super) fn new(bound: &'a Bound<Req, Resp, E>, args: Req, one_way: bool) -> Self {
        let config = bound.client.0.lanes.config();
        Self {
            bound,
            args,
            codec: config.codec,
            timeout: config.timeout,
            meta: Vec::new(),
            one_way,
            deadline: None,
            n_restarts: 0,
            has_broken: false,
            begun: None,
            stream_in: false,
            stream_out: false,
            watched: None,
        }
    }

    /// Fails the call if there is no answer within this time, which begins when it is first
    /// polled. The server is told how much of it is left. A call with a timeout of zero fails, and
    /// nothing is sent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Lets the call take as long as it takes.
    pub fn no_timeout(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// Adds an entry of metadata; keys may repeat. At most 128 entries in 32 KiB.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.push((key.into(), value.into()));
        self
    }

    /// Uses the codec of this number, if the method knows it.
    pub fn codec(mut self, number: u8) -> Self {
        self.codec = number;
        self
    }

    /// Makes the call part of this trace, as a span of its own.
    pub fn trace(mut self, caller: &TraceContext) -> Self {
        caller.child().add_to(&mut self.meta);
        self
    }

    /// A future of the reply together with its metadata.
    pub fn with_reply(self) -> WithReply<'a, Req, Resp, E> {
        WithReply(self)
    }

    /// Blocks this thread until the reply is there.
    ///
    /// For threads that run no asynchronous tasks: the runtime that drives the client must be
    /// another one, as that of [`blocking`](crate::blocking) is.
    ///
    /// # Errors
    /// As the call's.
    pub fn wait(self) -> Result<Resp, CallError<E>> {
        crate::blocking::block_on(self)
    }

    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Response>, Failure>> {
        loop {
            let Some(begun) = &self.begun else {
                self.begin(cx.waker()).map_err(|failure| self.failure_of_all(failure))?;
                if !self.one_way {
                    return Poll::Pending;
                }
                continue;
            };
            let outcome = begun.session.lock(|session| session.poll_outcome(begun.key, cx.waker()));
            let outcome = ready!(outcome);
            let lane = begun.lane;
            self.begun = None;
            self.bound.client.0.lanes.end(lane);
            let may_restart = self.n_restarts < MAX_RESTARTS;
            match outcome {
                CallEnd::Answer(response) if response.status == Status::REFUSED && may_restart => {}
                CallEnd::Broken(_) if self.bound.method.is_idempotent && may_restart => {
                    self.has_broken = true;
                }
                // It goes on to the next connection, and waits there as long as it may.
                CallEnd::NotBegun => continue,
                outcome => {
                    let response = self.response(outcome);
                    return Poll::Ready(response.map_err(|failure| self.failure_of_all(failure)));
                }
            }
            self.n_restarts += 1;
        }
    }

    /// The failure of a call of which this is the last try's. Where a connection broke, the call
    /// may have been done before, whatever has become of it since.
    #[cold]
    fn failure_of_all(&self, last: Failure) -> Failure {
        match self.has_broken && last.is_not_begun() {
            true => Failure::Broken(format!("then {last}")),
            false => last,
        }
    }

    /// Tells the observer that the call begins.
    #[cold]
    fn watch(&mut self, observer: &dyn Observer, now: Instant) {
        self.watched = Some(now);
        let trace = observe::outgoing(observer, &self.info());
        let has_trace = self.meta.iter().any(|(key, _)| key == TRACEPARENT);
        if let Some(trace) = trace.filter(|_| !has_trace) {
            trace.add_to(&mut self.meta);
        }
    }

    /// Tells the observer that the call has ended.
    #[cold]
    pub(super) fn unwatch(&mut self, outcome: observe::Outcome) {
        let observer = self.bound.client.0.lanes.config().observer.as_deref();
        if let (Some(start), Some(observer)) = (self.watched.take(), observer) {
            observe::ended(observer, &self.info(), outcome, start.elapsed());
        }
    }

    fn info(&self) -> CallInfo<'_> {
        let (service, method) = (&*self.bound.def.service, &*self.bound.def.method);
        let peer = self.bound.client.0.lanes.dialer();
        CallInfo { side: Side::Client, service, method, peer }
    }

    /// Polls for what a caller gets, and tells the observer of it.
    #[inline]
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply<Resp>, CallError<E>>> {
        let result = match ready!(self.poll_response(cx)) {
            Ok(Some(response)) => read(&self.bound.method, response),
            Ok(None) => Err(Failure::Closed.into()),
            Err(failure) => Err(failure.into()),
        };
        if self.watched.is_some() {
            self.unwatch(observed(&result));
        }
        Poll::Ready(result)
    }

    /// Encodes the arguments and hands them to a session.
    pub(super) fn begin(&mut self, waker: &Waker) -> Result<(), Failure> {
        let now = Instant::now();
        let is_first = self.deadline.is_none();
        if is_first {
            self.deadline = self.timeout.and_then(|timeout| now.checked_add(timeout));
        }
        if let Some(observer) = &self.bound.client.0.lanes.config().observer
            && self.watched.is_none()
        {
            self.watch(&**observer, now);
        }
        if self.timeout == Some(Duration::ZERO) {
            return Err(Failure::Timeout(Duration::ZERO));
        }
        let requests = self.bound.method.requests;
        let head = CallHead {
            method: self.bound.number,
            def: &self.bound.def,
            codec: requests.choose(self.codec),
            deadline: self.deadline,
            timeout: self.timeout.filter(|_| is_first),
            one_way: self.one_way,
            stream_in: self.stream_in,
            stream_out: self.stream_out,
        };
        let begun = SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            let shared =
                requests.encode(head.codec, &self.args, scratch).map_err(Failure::Encode)?;
            let payload = match shared {
                Some(bytes) if bytes.len() < SHARE_LEN => Payload::Slice(bytes),
                Some(bytes) => Payload::Bytes(bytes.clone()),
                None if scratch.len() < SHARE_LEN => Payload::Slice(scratch),
                None => Payload::Bytes(std::mem::take(scratch).into()),
            };
            let begun = self.start(now, head, &payload, waker);
            if scratch.capacity() > KEEP_LEN {
                *scratch = Vec::new();
            }
            begun
        })?;
        self.begun = Some(begun);
        Ok(())
    }

    fn start(
        &self,
        now: Instant,
        head: CallHead<&Arc<RouteDef>>,
        payload: &Payload<'_>,
        waker: &Waker,
    ) -> Result<CallPlace, Failure> {
        let meta = as_strs(&self.meta);
        let lanes = &self.bound.client.0.lanes;
        let (number, lane) = lanes.pick().ok_or(Failure::Closed)?;
        let mut session = lane.session();
        let key = loop {
            let taken =
                session.with(|session| session.start(now, head, &meta, payload.clone(), waker));
            match taken {
                Ok(key) => break key,
                Err(NotTaken::Elsewhere) => {
                    session = lane.next(&session).ok_or(Failure::Closed)?;
                }
                Err(not_taken) => return Err(self.not_taken(not_taken)),
            }
        };
        lanes.begin(number);
        Ok(CallPlace { session, lane: number, key })
    }

    pub(super) fn lanes(&self) -> &Arc<Lanes> {
        &self.bound.client.0.lanes
    }

    fn not_taken(&self, not_taken: NotTaken) -> Failure {
        match not_taken {
            NotTaken::Elsewhere => Failure::Closed,
            NotTaken::Full(full) => Failure::Full(full),
            NotTaken::Unreachable(reason) => self.unreachable(&reason),
            NotTaken::Unsendable(error) => unsendable(error),
        }
    }

    fn unreachable(&self, reason: &str) -> Failure {
        let endpoint = self.bound.client.0.lanes.dialer().to_string();
        Failure::Unreachable { endpoint, reason: reason.to_owned() }
    }

    #[inline]
    fn response(&self, outcome: CallEnd) -> Result<Option<Response>, Failure> {
        match outcome {
            CallEnd::Answer(response) => Ok(Some(response)),
            outcome => {
                let timeout = self.timeout.unwrap_or_default();
                settled(outcome, timeout, self.bound.client.0.lanes.dialer())
            }
        }
    }
}

/// What a call that ended gives: `None` for a one-way call that was sent.
pub(super) fn settled(
    outcome: CallEnd,
    timeout: Duration,
    endpoint: &(impl ToString + ?Sized),
) -> Result<Option<Response>, Failure> {
    let unreachable = |reason: Arc<str>| Failure::Unreachable {
        endpoint: endpoint.to_string(),
        reason: reason.to_string(),
    };
    match outcome {
        CallEnd::Answer(response) => Ok(Some(response)),
        CallEnd::Sent => Ok(None),
        CallEnd::Expired(None) => Err(Failure::Timeout(timeout)),
        CallEnd::Expired(Some(reason)) | CallEnd::Unreachable(reason) => Err(unreachable(reason)),
        CallEnd::Broken(reason) => Err(Failure::Broken(reason.to_string())),
        CallEnd::NotBegun => {
            Err(unreachable("the connection ended before the call was sent".into()))
        }
        CallEnd::Unsendable(error) => Err(unsendable(error)),
    }
}

/// What an observer is told of a call's end.
pub(super) fn observed<T, E>(result: &Result<T, CallError<E>>) -> observe::Outcome {
    match result {
        Ok(_) => observe::Outcome::Ok,
        Err(CallError::Service(_)) => observe::Outcome::ServiceError,
        Err(CallError::Failed(failure)) => observe::Outcome::Failed(failure.name()),
    }
}

/// Reads an answer.
#[inline]
pub(super) fn read<Req, Resp, E>(
    method: &Method<Req, Resp, E>,
    response: Response,
) -> Result<Reply<Resp>, CallError<E>> {
    let Response { status, codec, meta, payload } = response;
    match (status, method.errors) {
        (Status::OK, _) => {
            let value = method.responses.decode(codec, payload).map_err(Failure::Decode)?;
            Ok(Reply { value, meta })
        }
        (Status::APP_ERROR, Some(errors)) => {
            let error = errors.decode(codec, payload).map_err(Failure::Decode)?;
            Err(CallError::Service(error))
        }
        (status, _) => Err(refused(status, &payload).into()),
    }
}

impl<Req: 'static, Resp: 'static, E: 'static> Future for Call<'_, Req, Resp, E> {
    type Output = Result<Resp, CallError<E>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_reply(cx).map_ok(|reply| reply.value)
    }
}

impl<Req: 'static, Resp: 'static, E: 'static> Drop for Call<'_, Req, Resp, E> {
    fn drop(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.bound.client.0.lanes.end(begun.lane);
            begun.session.with(|session| session.give_up(begun.key));
        }
        if self.watched.is_some() {
            self.unwatch(observe::Outcome::Abandoned);
        }
    }
}

/// A call whose reply's metadata is wanted, too.
#[must_use = "a call does nothing unless it is awaited"]
pub struct WithReply<'a, Req: 'static, Resp: 'static, E: 'static = crate::NoError>(
    Call<'a, Req, Resp, E>,
);

impl<Req: 'static, Resp: 'static, E: 'static> Future for WithReply<'_, Req, Resp, E> {
    type Output = Result<Reply<Resp>, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_reply(cx)
    }
}

/// A call that wants no answer.
#[must_use = "a call does nothing unless it is awaited"]
pub struct OneWay<'a, Req: 'static, Resp: 'static, E: 'static = crate::NoError>(
    pub(super) Call<'a, Req, Resp, E>,
);

impl<Req: 'static, Resp: 'static, E: 'static> OneWay<'_, Req, Resp, E> {
    /// Blocks this thread until the call is in the connection's buffer; see [`Call::wait`].
    ///
    /// # Errors
    /// As of the future.
    pub fn wait(self) -> Result<(), Failure> {
        crate::blocking::block_on(self)
    }
}

impl<Req: 'static, Resp: 'static, E: 'static> Future for OneWay<'_, Req, Resp, E> {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(self.0.poll_response(cx)).map(|_| ());
        if self.0.watched.is_some() {
            self.0.unwatch(match &result {
                Ok(()) => observe::Outcome::Ok,
                Err(failure) => observe::Outcome::Failed(failure.name()),
            });
        }
        Poll::Ready(result)
    }
}

/// Metadata as it is sent.
#[inline]
pub(crate) fn as_strs(meta: &[(String, String)]) -> Vec<(&str, &str)> {
    match meta {
        // Most calls have none: not worth an iterator.
        [] => Vec::new(),
        meta => meta.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
    }
}

fn unsendable(error: SendError) -> Failure {
    match error {
        SendError::TooLarge { len, max } => Failure::TooLarge { len, max },
        SendError::TooManyEntries { n, max } => Failure::TooManyEntries { n, max },
        SendError::RoutesFull { .. } => Failure::Full(Full::Methods),
        SendError::NoCredit => Failure::Full(Full::Calls(0)),
        SendError::BufferFull => Failure::Full(Full::Bytes(0)),
        SendError::NoStreams => Failure::Unsupported("streams"),
        _ => Failure::Closed,
    }
}

fn refused(status: Status, payload: &Bytes) -> Failure {
    Failure::Refused { status, text: String::from_utf8_lossy(payload).into_owned() }
}
