//! A call inside the agent, and how it ends, whatever protocol it came by or leaves by.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::{ReplyKind, Serialization, Status as DubboStatus};
use http::HeaderMap;
use link_proto::{CallId, Status};
use tokio::sync::oneshot;
use tracing::debug;
use wire::Conn;

use crate::args::ArgumentList;
use crate::codec;
use crate::error::{CallError, Code};
use crate::expected_len::ExpectedLen;
use crate::gate::Admitted;
use crate::journal::{JournalEntry, RecordedAnswer};
use crate::memory::{LinkToken, Metered, check_shared_reply, no_room_for_reply};
use crate::metrics::CallStats;
use crate::route::Route;
use crate::stages::{Stage, StageClock};

/// One call on its way through the agent, whatever protocol it came by or leaves by.
///
/// It borrows all that it is made of. The module of the protocol that it came by keeps the bytes,
/// and knows where the answer goes.
///
/// `M` is what is called, in the form in which the receiver knows it: by its [`Route`] on the way
/// to an endpoint, by name and descriptor on the way to an HTTP app. `P` is the payload:
/// [`Payload`] where it may be of several forms, or the one form that the receiver takes.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a, M, P> {
    /// What is called.
    pub method: M,
    /// The arguments.
    pub payload: P,
    /// Attachments of this call alone, the trace context among them. The last one of a name
    /// counts.
    pub attachments: &'a [(&'a str, &'a str)],
    /// When it came, and when its caller gives up.
    pub times: Times,
    /// Whether nobody waits for a reply: then null is the outcome once the call is queued on the
    /// connection.
    pub one_way: bool,
    /// What stops the time of its stages, if anything does.
    pub clock: Option<&'a Rc<StageClock>>,
    /// The headers that it came with, if it came by HTTP.
    pub headers: Option<&'a HeaderMap>,
    /// The address of an endpoint that it was at, and that it does not go to again.
    pub not_at: Option<&'a str>,
}

/// A call on its way to an endpoint.
pub type RoutedCall<'a> = Call<'a, &'a Rc<Route>, Payload<'a>>;

/// What a call carries.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Arguments in JSON, to be written in the serialization that the endpoint wants.
    Json(&'a ArgumentList<'a>),
    /// A request that is passed on as it is.
    Whole(WholeBody<'a>),
}

/// The whole body of a Dubbo request, as its consumer wrote it. It names service, method and
/// types, and holds the attachments.
#[derive(Clone, Copy, Debug)]
pub struct WholeBody<'a> {
    /// How it is written.
    pub serialization: Serialization,
    /// The body.
    pub body: &'a Bytes,
}

/// Arguments as they are in the body of a Dubbo request.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    /// How they are written.
    pub serialization: Serialization,
    /// The arguments, one after the other.
    pub bytes: &'a [u8],
}

impl<'a, M, P> Call<'a, M, P> {
    /// The same call of what the receiver knows by another form, with the payload in another form.
    pub fn with<N, Q>(&self, method: N, payload: Q) -> Call<'a, N, Q> {
        let Self { attachments, times, one_way, clock, headers, not_at, .. } = *self;
        Call { method, payload, attachments, times, one_way, clock, headers, not_at }
    }
}

/// The time of a call. One look at the clock serves all that happens to a call in the same turn.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When the call came, or when it went on after it had to wait or had failed somewhere.
    pub now: Instant,
    /// When the caller gives up.
    pub deadline: Instant,
}

/// The attachment by which a caller says that it waits for no reply, as Dubbo for Java has it.
pub const ONE_WAY: (&str, &str) = ("return", "false");

/// The attachment by which an agent tells the provider's agent that the app is not to be told how
/// much time the call has left (`tell_time_left` of its configuration).
pub const UNTOLD: (&str, &str) = ("dubmesh.tell-time-left", "false");

/// How a call ended.
pub type Outcome = Result<ProviderReply, CallError>;

/// A reply of status OK, as the provider wrote it.
#[derive(Clone, Debug)]
pub struct ProviderReply {
    /// How `body` is written.
    pub serialization: Serialization,
    /// The body of the provider's Dubbo reply: its type, then value and attachments.
    pub body: Bytes,
    /// Where it came from.
    pub endpoint: Rc<str>,
    /// Which method has answered, if more is known of its result than the reply tells.
    pub route: Option<Rc<Route>>,
    /// When it came, if that is known.
    pub came: Option<ReplyTiming>,
    /// When its caller gives up, where somebody still has to read it.
    pub deadline: Option<Instant>,
    /// It stands for an answer that will not come: the call was sent one way.
    pub is_unheard: bool,
    /// The failure that it counts as.
    pub failure: Option<Code>,
}

impl ProviderReply {
    /// A reply of which no more is known.
    #[inline]
    pub fn new(serialization: Serialization, body: Bytes, endpoint: Rc<str>) -> Self {
        let (route, came, deadline, is_unheard) = Default::default();
        let failure = failure_of(serialization, &body);
        Self { serialization, body, endpoint, route, came, deadline, is_unheard, failure }
    }
}

/// The failure that a reply of status OK counts as, by the kind at the front of its body: an
/// exception, or bytes of which nobody can tell what they are. What is written in a serialization
/// that we do not know may be a good one.
#[inline]
pub fn failure_of(serialization: Serialization, body: &[u8]) -> Option<Code> {
    match ReplyKind::of(serialization, body) {
        Some(ReplyKind::Value | ReplyKind::Null) => None,
        Some(ReplyKind::Exception) => Some(Code::Exception),
        None => serialization.is_supported().then_some(Code::BadReply),
    }
}

/// The failure that a call counts as, by how it ended.
#[inline]
pub fn counted_as(outcome: &Outcome) -> Option<Code> {
    match outcome {
        Ok(reply) => reply.failure,
        Err(error) => Some(error.code),
    }
}

/// When a reply came, and what its sender says of the time.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTiming {
    /// When it was read.
    pub at: Instant,
    /// How long the provider worked on it, as its agent says.
    pub app: Option<Duration>,
}

/// Notes on the clock of a call how its attempt has ended.
#[inline]
pub fn note_end(clock: Option<&Rc<StageClock>>, outcome: &Outcome) {
    if let Some(clock) = clock {
        let came = outcome.as_ref().map(|reply| reply.came);
        match came {
            Ok(came) => note_reply(clock, came),
            // Another attempt may follow.
            Err(_) => clock.enter(Stage::Wait, Instant::now()),
        }
    }
}

/// Notes on the clock of a call that its reply has come.
#[cold]
pub fn note_reply(clock: &StageClock, came: Option<ReplyTiming>) {
    clock.enter(Stage::Decode, came.map_or_else(Instant::now, |came| came.at));
    if let Some(app) = came.and_then(|came| came.app) {
        clock.app_took(app);
    }
}

/// A connection from another agent's side: it has no calls of its own.
pub type LinkServer = Metered<link::LinkMachine<()>>;

/// Who waits for the outcome of a call.
#[derive(Debug)]
pub enum ReplyTo {
    /// A task of this worker.
    Task(oneshot::Sender<Outcome>),
    /// Another agent; no task is between its link and the provider's connection.
    Link(LinkCaller),
    /// A Dubbo consumer; no task is between its connection and the endpoint's.
    Dubbo(DubboToken),
}

impl LinkToken for ReplyTo {
    const IS_ASKED: bool = false;
}

impl ReplyTo {
    /// Hands over the outcome; a caller that has gone away misses nothing.
    pub fn complete(self, outcome: Outcome) {
        match self {
            Self::Task(task) => drop(task.send(outcome)),
            Self::Link(caller) => caller.complete(outcome),
            Self::Dubbo(token) => token.complete(outcome),
        }
    }
}

/// A Dubbo consumer's connection, as those see it who answer its calls. Calls are known by
/// numbers.
pub trait Consumer {
    /// Passes a provider's answer on as it is; `error` says what one means whose status is not OK.
    fn answer(self: Rc<Self>, number: u32, answer: &DubboAnswer<'_>, error: &dyn Fn() -> CallError);

    /// Hands over the outcome of a call.
    fn complete(self: Rc<Self>, number: u32, outcome: Outcome);
}

/// Who is to be told how a call ended that was sent for a consumer.
pub struct DubboToken {
    /// The connection that the call came on.
    pub consumer: Rc<dyn Consumer>,
    /// The call's number there.
    pub number: u32,
}

/// A reply as a Dubbo provider wrote it.
pub struct DubboAnswer<'a> {
    /// When it was read.
    pub at: Instant,
    /// How the call ended.
    pub status: DubboStatus,
    /// How `body` is written.
    pub serialization: Serialization,
    /// The whole body.
    pub body: &'a [u8],
}

impl DubboToken {
    /// Passes a provider's answer on as it is; `error` says what one means whose status is not OK.
    #[inline]
    pub fn answer(self, answer: &DubboAnswer<'_>, error: &dyn Fn() -> CallError) {
        self.consumer.answer(self.number, answer, error);
    }

    /// Hands over an outcome.
    #[inline]
    pub fn complete(self, outcome: Outcome) {
        self.consumer.complete(self.number, outcome);
    }
}

impl std::fmt::Debug for DubboToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DubboToken").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What the calls of one route of a link have in common, for those who answer them.
pub struct LinkRoute {
    /// What counts them.
    pub stats: Arc<CallStats>,
    /// What is learnt of their replies.
    pub reply_len: ExpectedLen,
}

/// A request that its app's thread pool may reject, kept until it is answered.
pub trait KeptRequest {
    /// The app has rejected it: it is offered to the app again, or its caller is told.
    fn rejected(self: Rc<Self>, caller: LinkCaller, error: CallError);
}

/// A call that came over a link.
pub struct LinkCaller {
    /// The link that it came over.
    pub conn: Conn<LinkServer>,
    /// Its number there.
    pub id: CallId,
    /// Its route.
    pub route: Rc<LinkRoute>,
    /// Its leave to be in the app.
    pub admitted: Admitted,
    /// The request, if its app may reject it.
    pub kept: Option<Rc<dyn KeptRequest>>,
    /// What is to be told of it, if anybody wants to know.
    pub entry: Option<Box<JournalEntry>>,
}

impl LinkCaller {
    /// Counts a call that has ended, and that nobody wants an answer to.
    pub fn finish(mut self, error: Option<&CallError>) {
        let now = self.count(error, error.map(|error| error.code));
        self.tell(error);
        self.admitted.ended(now, error);
    }

    /// Counts a call that nobody wants an answer to, and that the app has got, unless it failed.
    pub fn sent_one_way(mut self, error: Option<&CallError>) {
        self.tell(error);
        match error {
            Some(failed) => {
                let now = self.count(error, Some(failed.code));
                self.admitted.ended(now, error);
            }
            None => {
                self.route.stats.sent_one_way();
                self.admitted.sent_one_way(Instant::now());
            }
        }
    }

    fn count(&self, error: Option<&CallError>, failure: Option<Code>) -> Instant {
        if let Some(error) = error {
            debug!(%error, "another agent's call failed");
        }
        let now = Instant::now();
        let latency = self.admitted.age(now);
        self.route.stats.finished(latency, failure.map(|code| code as u8));
        now
    }

    /// Tells how a call has ended that nobody wants an answer to.
    fn tell(&mut self, error: Option<&CallError>) {
        match (self.entry.take(), error) {
            (Some(entry), Some(error)) => entry.failed(error, None),
            (Some(entry), None) => entry.answered(RecordedAnswer::default()),
            (None, _) => {}
        }
    }

    /// Answers the call.
    pub fn complete(mut self, outcome: Outcome) {
        let outcome = match (outcome, self.kept.take()) {
            (Err(error), Some(kept)) if error.code == Code::ThreadPoolExhausted => {
                return kept.rejected(self, error);
            }
            (outcome, _) => outcome,
        };
        let now = self.count(outcome.as_ref().err(), counted_as(&outcome));
        self.admitted.ended(now, outcome.as_ref().err());
        let passed_on = self.entry.as_ref().and_then(|entry| entry.passed_on_at());
        let clock = self.entry.as_ref().and_then(|entry| entry.clock().cloned());
        if let Some(clock) = &clock {
            clock.enter(Stage::Answer, now);
            clock.app_took(Duration::MAX);
        }
        if let Some(entry) = self.entry.take() {
            tell(entry, &outcome);
        }
        if let Ok(reply) = &outcome {
            self.route.reply_len.note(reply.body.len());
        }
        let outcome = outcome.and_then(|reply| {
            let len = reply.body.len();
            let room = self.conn.look(|link| check_shared_reply(link.account(), len));
            room.map_err(|refused| no_room_for_reply(len, &refused)).map(|()| reply)
        });
        let reply = match outcome {
            Ok(reply) => link_proto::Reply {
                codec: codec::of(reply.serialization),
                payload: reply.body.into(),
                ..link_proto::Reply::new(Status::OK)
            },
            Err(error) => error_reply(&error),
        };
        let is_wanted = match passed_on {
            None => self.conn.with(|link| link.respond(self.id, reply)),
            Some(passed_on) => {
                let app = now.saturating_duration_since(passed_on);
                respond_timed(&self.conn, self.id, reply, app)
            }
        };
        // Of a call that was given up nothing waits to be written.
        if is_wanted {
            watch(&self.conn, clock);
        }
    }
}

/// Answers a call with how long the app took. Returns whether the caller still waits for that.
#[cold]
fn respond_timed(
    conn: &Conn<LinkServer>,
    id: CallId,
    reply: link_proto::Reply<'_>,
    app: Duration,
) -> bool {
    let text = app.as_micros().to_string();
    let reply = link_proto::Reply { meta: &[(APP_US, &text)], ..reply };
    conn.with(|link| link.respond(id, reply))
}

/// In the metadata of a link's answer: how long the app took, in microseconds.
pub const APP_US: &str = "app-us";

/// Has the clock of a call run until its answer is written, which waits on `conn`.
#[inline]
pub fn watch<M>(conn: &Conn<Metered<M>>, clock: Option<Rc<StageClock>>) {
    if let Some(clock) = clock {
        conn.with(|machine| machine.watch(clock));
    }
}

impl std::fmt::Debug for LinkCaller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkCaller").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Tells how a call has ended.
#[cold]
fn tell(entry: Box<JournalEntry>, outcome: &Outcome) {
    match outcome {
        Ok(reply) => {
            let (endpoint, len) = (Some(&*reply.endpoint), reply.body.len());
            entry.answered(RecordedAnswer { endpoint, len, failure: reply.failure });
        }
        Err(error) => entry.failed(error, None),
    }
}

/// A provider's own status travels as it is; it tells a Dubbo consumer most.
pub(crate) fn error_reply(error: &CallError) -> link_proto::Reply<'static> {
    let text = error.message.as_bytes();
    let (status, payload) = match error.provider_status {
        Some(status) => (Status::DUBBO_STATUS, [&[status.to_u8()][..], text].concat()),
        None => (error.code.row().link_status, text.to_vec()),
    };
    link_proto::Reply { payload: payload.into(), ..link_proto::Reply::new(status) }
}

/// Waits for the outcome of a call that was sent; `cancel` is called if the caller goes away
/// first.
pub async fn wait(outcome: oneshot::Receiver<Outcome>, cancel: impl FnOnce()) -> Outcome {
    let mut cancel = OnDrop(Some(cancel));
    let outcome = outcome.await.unwrap_or_else(|_| forgotten());
    cancel.0 = None;
    outcome
}

/// The outcome of a call that nobody answers any more.
#[cold]
pub fn forgotten() -> Outcome {
    let message = "the call was dropped without an answer; please report this";
    Err(CallError::new(Code::Internal, message))
}

/// Calls a function when it is dropped, unless that was taken back.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(function) = self.0.take() {
            function();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn outcome() -> Outcome {
        Err(CallError::new(Code::Refused, "no"))
    }

    /// A caller that is gone has its call cancelled; one that has its answer does not.
    #[test]
    fn only_a_call_without_an_answer_is_cancelled() {
        let n_cancelled = Cell::new(0);
        let cancel = || n_cancelled.set(n_cancelled.get() + 1);
        let mut cx = Context::from_waker(Waker::noop());
        {
            let (_task, outcome) = oneshot::channel();
            let mut waiting = pin!(wait(outcome, cancel));
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
            assert_eq!(n_cancelled.get(), 0);
        }
        assert_eq!(n_cancelled.get(), 1);
        {
            let (task, answered) = oneshot::channel();
            let mut waiting = pin!(wait(answered, cancel));
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
            assert!(task.send(outcome()).is_ok());
            assert!(waiting.as_mut().poll(&mut cx).is_ready());
        }
        assert_eq!(n_cancelled.get(), 1);
    }

    #[test]
    fn a_call_that_is_dropped_fails_and_says_so() {
        let (task, outcome) = oneshot::channel();
        let mut waiting = pin!(wait(outcome, || ()));
        drop(task);
        let Poll::Ready(Err(error)) =
            waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            panic!("it does not fail")
        };
        assert_eq!(error.code, Code::Internal);
    }

    #[test]
    fn a_providers_own_status_goes_over_a_link_unchanged() {
        let reply = error_reply(&CallError::from_provider(DubboStatus::ServiceError, "x"));
        assert_eq!(reply.status, Status::DUBBO_STATUS);
        let own = CallError::new(Code::Overloaded, "full");
        assert_eq!(error_reply(&own).status, Status::OVERLOADED);
    }
}
