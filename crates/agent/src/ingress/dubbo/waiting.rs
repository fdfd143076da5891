//! Requests that wait: for an endpoint, for room in an app, or for what holds for their method.
//!
//! Invariant: what waits is counted, and has a limit for each connection.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use flow::queue::CallerId;
use flow::{Attempts, Repeats};
use tokio::sync::oneshot;

use super::flights::{CallCounter, CallLocation, Flight};
use super::received::DubboRequest;
use super::services::ExportedApp;
use super::session::{Begun, DubboSession};
use crate::backend::{self, App, Backend};
use crate::call::{Call, Consumer, Outcome, Payload, Times, WholeBody, counted_as, wait};
use crate::cluster::{Attempt, Doubt, Member, MethodRule};
use crate::error::{CallError, Code};
use crate::gate::{self, Admitted};
use crate::metrics::CallStats;
use crate::routes::ClusterRoute;
use crate::upstream::{CallForm, dubbo};

/// A short body is copied rather than that it keeps the whole buffer alive that it was read into.
pub(super) const MAX_COPIED_LEN: usize = 64 << 10;

impl DubboSession {
    /// Has a task wait.
    #[cold]
    pub(super) fn wait(
        self: &Rc<Self>,
        received: &DubboRequest,
        waiting: WaitingRequest,
        deadline: Instant,
    ) {
        let Some(kept) = CountedRequest::new(self, received.body.len(), !received.two_way) else {
            let message = "too many requests of this connection wait for an endpoint";
            match waiting {
                WaitingRequest::ForEndpoint(route, attempts, _) if attempts.is_first() => {
                    route.cluster.count_without_endpoint(received.now, Code::Overloaded);
                }
                WaitingRequest::Rejected(_, attempt, error) => attempt.failed(received.now, &error),
                _ => {}
            }
            return self.refuse(received, &CallError::new(Code::Overloaded, message));
        };
        let DubboRequest { to, two_way, ref body, now, ref entry, ref clock, ref may_force_tag } =
            *received;
        let mut entry = entry.take();
        let number = self.reserve(received);
        let (session, kept_entry) = (Rc::clone(self), Cell::default());
        let (body, clock, may_force_tag) = (compact(body), clock.clone(), may_force_tag.clone());
        let received =
            DubboRequest { to, two_way, body, now, entry: kept_entry, clock, may_force_tag };
        let of_one_way = entry.take_if(|_| !two_way);
        if two_way {
            let (counted, sent) = (CallCounter::Elsewhere, CallLocation::Nowhere);
            let (started, again, reply_len, entry) = (now, None, None, entry.take());
            let flight = Flight { to, started, deadline, counted, sent, again, reply_len, entry };
            self.flights.borrow_mut().put(number, Box::new(flight));
        }
        let is_new = waiting.is_of_new_request();
        let caller = self.caller();
        let mut outcome =
            Box::pin(async move { pass_on(waiting, &received, caller, deadline).await });
        let end = move |outcome: Outcome| {
            drop(kept);
            if two_way {
                session.complete(number, outcome);
            } else {
                session.end_one_way(now, of_one_way, outcome.as_ref().err());
            }
        };
        // Most that end at once are refused: that takes no task, and no memory until its turn.
        if is_new && let Poll::Ready(outcome) = poll_once(outcome.as_mut()) {
            return end(outcome);
        }
        let task = tokio::task::spawn_local(async move { end(outcome.await) });
        if two_way {
            let sent = CallLocation::Task(task.abort_handle());
            self.flights.borrow_mut().moved(number, sent);
        }
    }

    /// Has a task offer a call again to the endpoint that has rejected it with `error`.
    #[cold]
    pub(super) fn repeat(
        self: &Rc<Self>,
        flight: Box<Flight>,
        route: Rc<ClusterRoute>,
        body: Bytes,
        error: &CallError,
    ) {
        let Flight { to, started, deadline, counted, entry, .. } = *flight;
        // No other call has been at an endpoint.
        let CallCounter::Attempt(attempt) = counted else { return };
        let waiting = WaitingRequest::Rejected(route, attempt, error.clone());
        self.send_again(Begun { to, started, entry }, body, waiting, deadline);
    }
}

/// What a request waits for.
pub(super) enum WaitingRequest {
    /// For an endpoint that it was not offered to yet.
    ForEndpoint(Rc<ClusterRoute>, Attempts<Member>, Doubt),
    /// For the endpoint that has rejected it so, and may take it a moment later.
    Rejected(Rc<ClusterRoute>, Attempt, CallError),
    /// For what comes of it by what holds for its method.
    Ruled(Rc<ClusterRoute>, Rc<MethodRule>),
    /// For room in the app of an export.
    AtGate(ExportedApp, gate::WaitingAtGate),
    /// For the app of an export, which has room: for its first connection, or for a thread that
    /// may be late.
    ForApp(ExportedApp, Admitted),
}

impl WaitingRequest {
    /// Whether no endpoint was asked, and nothing but the consumer's own turn led here.
    fn is_of_new_request(&self) -> bool {
        matches!(self, Self::ForEndpoint(_, attempts, _) if attempts.is_first())
    }
}

/// What comes of it without waiting. Who polls again is woken.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Sends a request as soon as what it waits for is there.
pub(super) async fn pass_on(
    waiting: WaitingRequest,
    received: &DubboRequest,
    caller: CallerId,
    deadline: Instant,
) -> Outcome {
    match waiting {
        WaitingRequest::ForEndpoint(route, attempts, doubt) => {
            let now = if attempts.is_first() { received.now } else { Instant::now() };
            let cluster = &route.cluster;
            let facts = received.facts();
            let offer = cluster.offer(now, attempts, caller, &facts, async |attempt, now| {
                // Its future is large, and many may wait before they need it.
                Box::pin(call_endpoint(attempt, &route, received, Times { now, deadline })).await
            });
            offer.await.map_err(|error| doubt.told(error))
        }
        WaitingRequest::Rejected(route, attempt, error) => {
            let repeated = attempt.repeat(deadline, error, async |attempt, now| {
                call_endpoint(attempt, &route, received, Times { now, deadline }).await
            });
            Box::pin(repeated).await
        }
        WaitingRequest::Ruled(route, rule) => {
            let whole = received.call(&route.route, deadline);
            let call = whole.with(whole.method, Payload::Whole(whole.payload));
            Box::pin(route.cluster.call_ruled(&rule, &call, caller)).await
        }
        WaitingRequest::AtGate(ExportedApp { backend, .. }, waiting) => {
            let admitted = waiting.admitted().await;
            let counted = ExportCall::begin(&backend.stats, received.now);
            match admitted {
                Ok(admitted) => call_app(&backend, counted, admitted, received, deadline).await,
                Err(error) => {
                    counted.finished(Instant::now(), Some(error.code));
                    Err(error)
                }
            }
        }
        WaitingRequest::ForApp(ExportedApp { backend, .. }, admitted) => {
            let counted = ExportCall::begin(&backend.stats, received.now);
            call_app(&backend, counted, admitted, received, deadline).await
        }
    }
}

/// Makes a call at the endpoint that was chosen for it.
async fn call_endpoint(
    attempt: &Attempt,
    route: &ClusterRoute,
    received: &DubboRequest,
    times: Times,
) -> Outcome {
    let whole = received.call(&route.route, times.deadline);
    let serialization = whole.payload.serialization;
    let body = attempt.whole_for(whole.payload)?;
    let body = body.as_ref().unwrap_or(whole.payload.body);
    let payload = Payload::Whole(WholeBody { serialization, body });
    let call = Call { times, ..whole.with(whole.method, payload) };
    let variant = attempt.variant(&route.route);
    let variant = variant.as_deref().unwrap_or(&route.own);
    let payload_limit = attempt.payload_limit();
    let form = CallForm { variant, serialization, path: None, payload_limit };
    attempt.call(&call, form).await
}

/// A call that an export counts as begun. Dropped, its caller has gone away.
struct ExportCall<'a> {
    stats: Option<&'a CallStats>,
    came: Instant,
}

impl<'a> ExportCall<'a> {
    fn begin(stats: &'a CallStats, came: Instant) -> Self {
        stats.started();
        Self { stats: Some(stats), came }
    }

    fn sent_one_way(mut self) {
        if let Some(stats) = self.stats.take() {
            stats.sent_one_way();
        }
    }

    fn finished(mut self, now: Instant, code: Option<Code>) {
        self.finish(now, code);
    }

    fn finish(&mut self, now: Instant, code: Option<Code>) {
        if let Some(stats) = self.stats.take() {
            let latency = now.saturating_duration_since(self.came);
            stats.finished(latency, code.map(|code| code as u8));
        }
    }
}

impl Drop for ExportCall<'_> {
    fn drop(&mut self) {
        self.finish(Instant::now(), Some(Code::Cancelled));
    }
}

/// Makes a call that was let in, and waits for its outcome.
async fn call_app(
    backend: &Backend,
    counted: ExportCall<'_>,
    mut admitted: Admitted,
    received: &DubboRequest,
    deadline: Instant,
) -> Outcome {
    let call = received.call((), deadline);
    let mut repeats = Repeats::default();
    let outcome = loop {
        let call = Call { times: Times { now: Instant::now(), deadline }, ..call };
        match send_to_app(&backend.app, &call).await {
            Err(error) if admitted.is_offered_again(deadline, &error, &mut repeats).await => {}
            outcome => break outcome,
        }
    };
    let (now, error) = (Instant::now(), outcome.as_ref().err());
    let is_sent_one_way = call.one_way && matches!(backend.app, App::Dubbo(_));
    match error {
        None if is_sent_one_way => {
            admitted.sent_one_way(now);
            counted.sent_one_way();
        }
        error => {
            admitted.ended(now, error);
            counted.finished(now, counted_as(&outcome));
        }
    }
    outcome
}

async fn send_to_app(app: &App, call: &Call<'_, (), WholeBody<'_>>) -> Outcome {
    match app {
        App::Dubbo(app) => dubbo::pass_on(&app.upstream, call).await,
        App::Http(app) => {
            let (task, outcome) = oneshot::channel();
            let handle = backend::call_whole(app, call, move |outcome| drop(task.send(outcome)));
            let give_up = || {
                if let Some(handle) = handle {
                    handle.abort();
                }
            };
            wait(outcome, give_up).await
        }
    }
}

/// The same bytes, without a large buffer behind a few of them.
pub(super) fn compact(body: &Bytes) -> Bytes {
    if body.len() <= MAX_COPIED_LEN { Bytes::copy_from_slice(body) } else { body.clone() }
}

/// Counts what a waiting request takes, until it is dropped.
pub(super) struct CountedRequest {
    session: Rc<DubboSession>,
    len: usize,
    one_way: bool,
}

impl CountedRequest {
    /// `None` if there is no room.
    pub(super) fn new(session: &Rc<DubboSession>, len: usize, one_way: bool) -> Option<Self> {
        if !session.keep_bytes(len) {
            return None;
        }
        session.conn.with(|consumer| consumer.begin_wait(one_way));
        Some(Self { session: Rc::clone(session), len, one_way })
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.session.forget_bytes(self.len);
        // The consumer may be read again.
        self.session.conn.with(|consumer| consumer.end_wait(self.one_way));
    }
}
