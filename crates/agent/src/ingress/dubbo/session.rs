//! One consumer's connection: what comes in, how calls end, how it ends itself. How requests are
//! sent on is in [`super::send`].
//!
//! Invariants:
//! - Every two-way request is answered once, or given up where it is when the consumer goes away.
//! - Nothing that the connection holds grows without bound: calls in flight are bounded by
//!   [`super::machine`], what is kept of requests by the limits in [`super::waiting`]. At a limit,
//!   and while memory is short, the consumer is not read until some of its requests have ended.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::{ProtoError, ReplyTo, ServerConfig, ServerEvent, ServiceKey, Status};
use flow::GiveUp;
use tracing::{debug, info};
use wire::{Account, Conn, Connection, Ending, Peer, Taking, TimedEvent, WatchedStream, drive};

use super::flights::{Again, CallCounter, Flight, Flights};
use super::machine::DubboServer;
use super::metadata::{self, MetadataResult};
use super::received::DubboRequest;
use super::services::{self, RequestTarget, ServiceTarget, Services};
use super::waiting::WaitingRequest;
use super::{DubboListener, SOURCE};
use crate::call::{
    Consumer, DubboAnswer, Outcome, ProviderReply, Times, WholeBody, failure_of, note_reply, watch,
};
use crate::cluster::{Doubt, too_late};
use crate::connections::{Session, SessionActivity};
use crate::error::{CallError, Code};
use crate::facts::WholeFacts;
use crate::journal::{self, JournalEntry};
use crate::memory::{Metered, no_room_for_reply, write_timeout};
use crate::metrics::CallStats;
use crate::stages::{Stage, enter};
use crate::worker::Worker;

/// A connection that was asked to send nothing new closes after so much silence: requests that had
/// been on their way by then have come.
const QUIET_BEFORE_CLOSE: Duration = Duration::from_millis(200);

/// Bytes of requests of one connection that may wait for an endpoint, or be kept in case that one
/// refuses: four of the longest, or tens of thousands of common ones.
pub(super) const MAX_KEPT_LEN: usize = 32 << 20;

/// One consumer's connection.
pub struct DubboSession {
    pub(super) conn: Conn<Metered<DubboServer>>,
    /// Who calls.
    pub(super) peer: Peer,
    account: Rc<Account>,
    taking: Rc<Taking>,
    write_timeout: Duration,
    pub(super) max_body_len: usize,
    pub(super) services: Services,
    pub(super) stats: Arc<CallStats>,
    pub(super) flights: RefCell<Flights>,
    /// Bytes of requests that are kept.
    pub(super) kept_len: Cell<usize>,
    is_draining: Cell<bool>,
    /// Whether a call of it was answered.
    pub(super) is_known: Cell<bool>,
}

/// What stays of a call that is sent again.
pub(super) struct Begun {
    pub(super) to: ReplyTo,
    pub(super) started: Instant,
    pub(super) entry: Option<Box<JournalEntry>>,
}

impl DubboSession {
    /// A connection that has just been accepted.
    pub fn new(
        worker: &Rc<Worker>,
        listener: Arc<DubboListener>,
        account: Rc<Account>,
        peer: Peer,
    ) -> Rc<Self> {
        let config = ServerConfig {
            max_body_len: listener.limits.max_body_len,
            body_timeout: listener.limits.body_timeout,
            heartbeat: listener.limits.heartbeat,
            // What providers may answer is limited where it is read.
            payload_limit: u32::MAX as usize,
            pass_through: true,
            ..ServerConfig::default()
        };
        let machine = DubboServer::new(config, Instant::now());
        Rc::new(Self {
            conn: Conn::new(Metered::new(machine, Rc::clone(&account))),
            peer,
            account,
            taking: Taking::new(),
            write_timeout: listener.limits.write_timeout,
            max_body_len: listener.limits.max_body_len,
            stats: Arc::clone(&listener.stats[worker.index]),
            services: Services::new(Rc::clone(worker), listener),
            flights: RefCell::default(),
            kept_len: Cell::new(0),
            is_draining: Cell::new(false),
            is_known: Cell::new(false),
        })
    }

    /// Serves the connection until it ends, and gives up then what is under way.
    pub async fn serve(self: &Rc<Self>, stream: Connection) {
        let facts = stream.facts();
        let stream = WatchedStream::new(stream, Rc::clone(&self.taking));
        let ending = drive(stream, &self.conn, |event| self.on_event(event)).await;
        match &ending {
            // The peer is no consumer: somebody has to mend that.
            Ending::Protocol(ProtoError::Frame(error)) => info!("{facts} is closed: {error}"),
            _ => debug!(%ending, "consumer's connection closed"),
        }
        let flights = self.flights.borrow_mut().take_all();
        for flight in flights {
            self.stats.finished(flight.started.elapsed(), Some(Code::Cancelled as u8));
            flight.cancel();
        }
    }

    pub(super) fn on_event(self: &Rc<Self>, timed: TimedEvent<ServerEvent>) {
        let now = timed.read_at;
        match timed.event {
            ServerEvent::Body { to, two_way, body } => {
                let entry = self.services.worker().journal.begin(SOURCE, Some(self.peer), now);
                let clock = entry.as_ref().and_then(|entry| entry.clock().cloned());
                let entry = Cell::new(entry);
                let may_force_tag = Cell::default();
                self.request(&DubboRequest { to, two_way, body, now, entry, clock, may_force_tag });
            }
            ServerEvent::TooLong { len } => self.note_too_long(now, len),
            ServerEvent::Dead(reason) => debug!(?reason, "consumer is gone"),
            ServerEvent::Request { .. } => debug_assert!(false, "bodies are passed on unread"),
        }
    }

    #[inline]
    fn request(self: &Rc<Self>, received: &DubboRequest) {
        self.stats.started();
        if let Some(mut entry) = received.entry.take() {
            if entry.is_told() {
                received.facts().note(&mut entry);
            }
            received.entry.set(Some(entry));
        }
        let found = self.services.of_request(received.to.serialization, &received.body);
        if let Some(clock) = &received.clock {
            services::name_clock(clock, found.as_ref().ok());
        }
        let RequestTarget { service, timeout, reply_len, may_force_tag } = match found {
            Ok(found) => found,
            Err(error) => return self.refuse(received, &error),
        };
        received.may_force_tag.set(may_force_tag);
        match service {
            ServiceTarget::Route(route) => self.send_to_route(received, route, timeout, reply_len),
            ServiceTarget::Export(export) => {
                self.send_to_export(received, export, timeout, reply_len);
            }
            ServiceTarget::Metadata => self.tell_metadata(received),
        }
    }

    /// Answers a consumer that asks what is offered here.
    #[cold]
    fn tell_metadata(&self, received: &DubboRequest) {
        match metadata::tell(self.services.worker(), received) {
            Ok(_) if !received.two_way => {
                self.end_one_way(received.now, received.entry.take(), None);
            }
            Ok(MetadataResult { kind, value }) => {
                let now = Instant::now();
                if let Some(entry) = received.entry.take() {
                    entry.answered(journal::RecordedAnswer::default());
                }
                self.stats.finished(now.saturating_duration_since(received.now), None);
                self.conn.with(|consumer| consumer.reply(now, received.to, kind, &value));
            }
            Err(error) => self.refuse(received, &error),
        }
    }

    /// Ends a call that went nowhere.
    #[cold]
    pub(super) fn refuse(&self, received: &DubboRequest, error: &CallError) {
        if received.two_way {
            if let Some(entry) = received.entry.take() {
                entry.failed(error, None);
            }
            self.stats.finished(received.now.elapsed(), Some(error.code as u8));
            self.reply_error(received.to, error);
        } else {
            self.end_one_way(received.now, received.entry.take(), Some(error));
        }
    }

    /// Counts a call that came at `started`, and that nobody wants an answer to.
    pub(super) fn end_one_way(
        &self,
        started: Instant,
        entry: Option<Box<JournalEntry>>,
        error: Option<&CallError>,
    ) {
        if let Some(error) = error {
            debug!(%error, "one-way call failed");
        }
        match (entry, error) {
            (Some(entry), None) => entry.answered(journal::RecordedAnswer::default()),
            (Some(entry), Some(error)) => entry.failed(error, None),
            (None, _) => {}
        }
        match error {
            None => self.stats.sent_one_way(),
            Some(error) => self.stats.finished(started.elapsed(), Some(error.code as u8)),
        }
    }

    #[cold]
    fn reply_error(&self, to: ReplyTo, error: &CallError) {
        debug!(%error, "call failed");
        let (status, text) = error.for_dubbo();
        self.conn.with(|consumer| consumer.reply_error(Instant::now(), to, status, &text));
    }

    /// Answers a call with a provider's body. It counts as `failure`, or as `error` if there is
    /// one.
    #[inline]
    fn finish(
        &self,
        flight: Box<Flight>,
        answer: &DubboAnswer<'_>,
        error: Option<&CallError>,
        mut failure: Option<Code>,
    ) {
        let Flight { to, started, counted, reply_len, entry, .. } = *flight;
        match error {
            Some(error) => debug!(%error, "call failed"),
            None => self.is_known.set(true),
        }
        let clock = entry.as_ref().and_then(|entry| entry.clock().cloned());
        if let Some(clock) = &clock {
            counted.note_reply(clock, answer.at);
        }
        if let Some(expected) = reply_len {
            expected.note(answer.body.len());
        }
        match (entry, error) {
            (None, _) => {}
            (Some(entry), None) => {
                counted.tell_answer(entry, answer.body.len(), failure, None);
            }
            (Some(entry), Some(error)) => counted.tell_failure(entry, error),
        }
        let latency = match error {
            None => {
                let body = (answer.serialization, answer.body);
                counted.answered(started, answer.at, body, &mut failure)
            }
            Some(error) => {
                failure = Some(error.code);
                counted.failed(started, answer.at, error);
                answer.at.saturating_duration_since(started)
            }
        };
        self.stats.finished(latency, failure.map(|code| code as u8));
        if let Err(refused) = self.account.check(answer.body.len()) {
            return self.reply_error(to, &no_room_for_reply(answer.body.len(), &refused));
        }
        // Whatever the provider has written says so in its header.
        let to = ReplyTo { serialization: answer.serialization, ..to };
        self.conn.with(|consumer| consumer.reply_body(answer.at, to, answer.status, answer.body));
        watch(&self.conn, clock);
    }

    /// A call has failed: another endpoint is asked if none has begun it, or its caller is told.
    #[cold]
    fn fail(
        self: &Rc<Self>,
        mut flight: Box<Flight>,
        error: &CallError,
        answer: Option<&DubboAnswer<'_>>,
    ) {
        let now = Instant::now();
        let mut told = match &flight.counted {
            CallCounter::Attempt(attempt) => attempt.left(now, error),
            CallCounter::Export(..) | CallCounter::Elsewhere => None,
        };
        if let (Some(again), CallCounter::Attempt(attempt)) = (flight.again.take(), &flight.counted)
        {
            let Again { route, body, deadline } = *again;
            let whole = WholeBody { serialization: flight.to.serialization, body: &body };
            let facts = WholeFacts::new(whole);
            match route.cluster.after_first(attempt, Times { now, deadline }, error, &facts) {
                Ok(attempts) => {
                    flight.counted.failed(flight.started, now, error);
                    let (to, started, entry) = (flight.to, flight.started, flight.entry);
                    let waiting = WaitingRequest::ForEndpoint(route, attempts, Doubt::of(error));
                    return self.send_again(Begun { to, started, entry }, body, waiting, deadline);
                }
                Err(GiveUp::TooLate) => told = Some(too_late(error)),
                Err(_) if attempt.may_be_repeated(error) => {
                    return self.repeat(flight, route, body, error);
                }
                Err(_) => {}
            }
        }
        if let (Some(answer), None) = (answer, &told) {
            return self.finish(flight, answer, Some(error), None);
        }
        let Flight { to, started, deadline, counted, entry, .. } = *flight;
        if let CallCounter::Attempt(attempt) = &counted
            && error.is_overdue(deadline)
        {
            let message = attempt.overdue(now - started).into();
            told = Some(CallError { message, ..error.clone() });
        }
        let said = told.as_ref().unwrap_or(error);
        if let Some(entry) = entry {
            counted.tell_failure(entry, said);
        }
        counted.failed(started, now, error);
        let error = said;
        self.stats.finished(now - started, Some(error.code as u8));
        self.reply_error(to, error);
    }

    /// Sends a call again that another endpoint had.
    #[cold]
    pub(super) fn send_again(
        self: &Rc<Self>,
        Begun { to, started, entry }: Begun,
        body: Bytes,
        waiting: WaitingRequest,
        deadline: Instant,
    ) {
        let clock = entry.as_ref().and_then(|it| it.clock().cloned());
        enter(clock.as_ref(), Stage::Wait);
        let entry = entry.into();
        let (two_way, now, may_force_tag) = (true, started, Cell::default());
        let received = DubboRequest { to, two_way, body, now, entry, clock, may_force_tag };
        self.wait(&received, waiting, deadline);
    }

    /// Sends the calls again, if they may go elsewhere, that are stuck at a silent endpoint.
    fn send_stuck_again(self: &Rc<Self>, now: Instant) {
        let stuck: Vec<u32> = self.flights.borrow().stuck(now).collect();
        for number in stuck {
            let attempts = self.flights.borrow().get(number).and_then(|flight| {
                let CallCounter::Attempt(attempt) = &flight.counted else { return None };
                let Again { route, body, deadline } = &**flight.again.as_ref()?;
                let whole = WholeBody { serialization: flight.to.serialization, body };
                route.cluster.move_stuck(attempt, *deadline, now, &WholeFacts::new(whole))
            });
            let Some(attempts) = attempts else { continue };
            let Some(flight) = self.take(number) else { continue };
            let Flight { to, started, sent, counted, again, entry, .. } = *flight;
            sent.cancel();
            // What is counted there ends with it.
            drop(counted);
            if let Some(Again { route, body, deadline }) = again.map(|again| *again) {
                let waiting = WaitingRequest::ForEndpoint(route, attempts, Doubt::default());
                self.send_again(Begun { to, started, entry }, body, waiting, deadline);
            }
        }
    }

    /// The call under that number; `None` if the consumer has gone.
    #[inline]
    fn take(&self, number: u32) -> Option<Box<Flight>> {
        let flight = self.flights.borrow_mut().take(number)?;
        if let Some(again) = &flight.again {
            self.forget_bytes(again.body.len());
        }
        Some(flight)
    }

    /// Counts bytes of a request that are kept for later; says whether there is room for them.
    #[inline]
    pub(super) fn keep_bytes(&self, len: usize) -> bool {
        let before = self.kept_len.get();
        let fits = self.may_keep(len);
        if fits {
            self.kept_len.set(before + len);
            let _ = self.account.set(before, before + len);
        }
        fits
    }

    /// Whether there is room to keep bytes of a request.
    #[inline]
    pub(super) fn may_keep(&self, len: usize) -> bool {
        self.kept_len.get() + len <= MAX_KEPT_LEN && self.account.check(len).is_ok()
    }

    /// These bytes are kept no longer.
    #[inline]
    pub(super) fn forget_bytes(&self, len: usize) {
        let before = self.kept_len.get();
        self.kept_len.set(before - len);
        let _ = self.account.set(before, before - len);
    }
}

impl Session for DubboSession {
    /// Asks the consumer to send nothing new, and closes when all is answered.
    fn drain(&self) {
        self.is_draining.set(true);
        self.conn.with(|consumer| consumer.send_readonly(Instant::now()));
    }

    /// Closes a connection that drains and has nothing left to do.
    fn check_time(&self, now: Instant) {
        let is_done = self.is_draining.get()
            && self.conn.look(|consumer| {
                let silence = now.saturating_duration_since(consumer.read_at());
                consumer.in_flight() == 0 && QUIET_BEFORE_CLOSE <= silence
            });
        if is_done {
            self.conn.with(|consumer| consumer.close());
        }
        if self.taking.check(now, write_timeout(&self.account, self.write_timeout)) {
            debug!("consumer's connection closed: it did not read its answers");
        }
    }

    fn move_stuck(self: Rc<Self>, now: Instant) {
        let is_any = self.flights.borrow().stuck(now).next().is_some();
        if is_any {
            tokio::task::spawn_local(async move { self.send_stuck_again(Instant::now()) });
        }
    }

    fn app_changed(&self, service: &ServiceKey) {
        self.services.forget(service);
    }

    fn is_known(&self) -> bool {
        self.is_known.get()
    }

    fn activity(&self) -> SessionActivity {
        let in_flight = self.conn.look(|consumer| consumer.in_flight());
        let doing = match in_flight {
            _ if self.is_draining.get() => "draining",
            0 => "idle",
            _ => "answering",
        };
        SessionActivity { doing, in_flight, held_bytes: self.account.held(), peer_name: None }
    }
}

impl Consumer for DubboSession {
    #[inline]
    fn answer(
        self: Rc<Self>,
        number: u32,
        answer: &DubboAnswer<'_>,
        error: &dyn Fn() -> CallError,
    ) {
        let Some(flight) = self.take(number) else { return };
        match answer.status {
            Status::Ok => {
                let failure = failure_of(answer.serialization, answer.body);
                self.finish(flight, answer, None, failure);
            }
            _ => self.fail(flight, &error(), Some(answer)),
        }
    }

    fn complete(self: Rc<Self>, number: u32, outcome: Outcome) {
        let Some(mut flight) = self.take(number) else { return };
        match outcome {
            Ok(ProviderReply { serialization, body, endpoint, came, failure, .. }) => {
                flight.counted.note_app(came);
                let mut clock = None;
                if let Some(entry) = flight.entry.take() {
                    clock = entry.clock().cloned();
                    if let Some(clock) = &clock {
                        note_reply(clock, came);
                    }
                    let endpoint = Some(&*endpoint);
                    flight.counted.tell_answer(entry, body.len(), failure, endpoint);
                }
                let (at, status) = (Instant::now(), Status::Ok);
                let answer = DubboAnswer { at, status, serialization, body: &body };
                self.finish(flight, &answer, None, failure);
                watch(&self.conn, clock);
            }
            Err(error) => self.fail(flight, &error, None),
        }
    }
}
