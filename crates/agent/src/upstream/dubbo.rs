//! Calls to a Dubbo provider over Dubbo TCP.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use dubbo_proto::{
    CallDeadline, ClientConfig, ClientConnection, ClientEvent, DeadReason, ProtoError, RequestId,
    RequestTemplate, SendError, Serialization, Status, error_text,
};
use tokio::sync::oneshot;
use tracing::{debug, info};
use wire::{Conn, Machine, TimedEvent};

use super::{
    DubboForm, Lanes, MessageLen, PeerProtocol, ReadyLane, SentCall, Setup, Signs,
    encoded_offloaded, note_outcome, queued, sent,
};
use crate::args::ArgumentList;
use crate::call::{
    Call, Came, DubboAnswer, Encoded, Outcome, Payload, ProviderReply, ReplyTo, RoutedCall, Times,
    UNTOLD, Whole, note_end, wait,
};
use crate::connections::Activity;
use crate::error::{CallError, Code};
use crate::memory::{Buffers, Memory, Metered, check_room};
use crate::offload::{LONG_LEN, Threads};
use crate::scratch::Scratch;
use crate::stages::{Stage, enter};

/// What a reply may carry beside a value of the longest kind.
const ATTACHMENTS_LEN: usize = 64 * 1024;

/// The protocol's side of one Dubbo endpoint.
pub struct DubboPeer {
    address: Rc<str>,
    setup: Setup,
    memory: Rc<Memory>,
    scratch: Scratch,
    threads: Threads,
    doubt: Cell<Option<Doubt>>,
    /// Replies that came too late on connections that have ended, of all connections to the
    /// endpoint.
    late_of_ended: Rc<Cell<u64>>,
}

/// Why what accepts the next connection may not be a provider, by the end of the last one. It is
/// asked for a heartbeat's answer before it gets calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Doubt {
    /// It answers heartbeats, and then answered none: there may be a proxy in its place.
    Silent,
    /// It hung up, and had not answered anything.
    HungUp,
}

/// Who hung up and then says nothing gets calls after so long: it may know no heartbeats.
const PATIENCE: Duration = Duration::from_secs(3);

impl Doubt {
    /// How long an answer is waited for.
    const fn patience(self) -> Duration {
        match self {
            Self::Silent => Duration::MAX,
            Self::HungUp => PATIENCE,
        }
    }

    /// What is left of `before`, or has arisen, at the end of a connection.
    fn after(before: Option<Self>, machine: &DubboMachine) -> Option<Self> {
        let knows_heartbeats =
            machine.0.stats().heartbeats_heard != 0 || before == Some(Self::Silent);
        match (machine.1.died_of, machine.0.has_answered()) {
            (Some(_), _) => knows_heartbeats.then_some(Self::Silent),
            (None, false) => before.or(Some(Self::HungUp)),
            (None, true) => None,
        }
    }
}

/// A connection to a provider.
pub type DubboClient = Metered<DubboMachine>;

/// [`ClientConnection`] as the driver sees it.
pub struct DubboMachine(pub ClientConnection<ReplyTo>, Reading);

/// What came of the driver's readings.
struct Reading {
    /// When the last one was.
    at: Instant,
    /// Why the provider will not take what waits to be written.
    died_of: Option<DeadReason>,
}

impl Machine for DubboMachine {
    type Event = TimedEvent<ClientEvent<ReplyTo>>;
    type Error = dubbo_proto::ProtoError;

    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), Self::Error> {
        self.1.at = now;
        self.0.handle_bytes(now, input)
    }
    fn room_for(&self, input: &BytesMut) -> Option<usize> {
        self.0.front_len(input)
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Self::Event> {
        let event = self.0.poll_event()?;
        if let ClientEvent::Dead(reason) = &event {
            self.1.died_of = Some(*reason);
        }
        Some(TimedEvent { read_at: self.1.at, event })
    }
    fn transmit(&mut self) -> &mut BytesMut {
        self.0.transmit()
    }
    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
    fn is_broken(&self) -> bool {
        self.1.died_of.is_some()
    }
}

impl Buffers for DubboMachine {
    const IS_ASKED: bool = false;

    fn waiting_len(&self) -> usize {
        self.0.buffered_bytes()
    }

    /// A frame that is not whole is in the driver's input.
    fn assembly_len(&self) -> usize {
        0
    }

    fn shed(&mut self, _: Instant, input: &mut BytesMut, _: &str) -> Result<bool, ProtoError> {
        self.0.shed_frame(input)
    }
}

impl DubboPeer {
    /// The endpoint at `address`. All connections to it have the same `late_of_ended`.
    pub fn new(
        address: &str,
        setup: Setup,
        memory: Rc<Memory>,
        threads: Threads,
        late_of_ended: Rc<Cell<u64>>,
    ) -> Self {
        let (scratch, doubt) = Default::default();
        Self { address: address.into(), setup, memory, scratch, threads, doubt, late_of_ended }
    }

    /// Most calls in flight.
    pub fn max_in_flight(&self) -> usize {
        self.setup.max_in_flight as usize
    }

    /// Replies that came too late on connections that have ended.
    pub(super) fn late_of_ended(&self) -> u64 {
        self.late_of_ended.get()
    }

    fn outcome(
        &self,
        status: Status,
        serialization: Serialization,
        body: bytes::Bytes,
        at: Instant,
    ) -> Outcome {
        if status == Status::Ok {
            let endpoint = Rc::clone(&self.address);
            let came = Some(Came { at, app: None });
            return Ok(ProviderReply { came, ..ProviderReply::new(serialization, body, endpoint) });
        }
        Err(self.refusal(status, serialization, &body))
    }

    /// What a reply says whose status is not OK.
    fn refusal(&self, status: Status, serialization: Serialization, body: &[u8]) -> CallError {
        let mut error = CallError::from_provider(status, &error_text(serialization, body));
        error.provider_serialization = Some(serialization.of_body(body));
        error.at(&self.address)
    }
}

impl PeerProtocol for DubboPeer {
    const PROTOCOL: &'static str = "dubbo";
    type Machine = DubboClient;

    fn machine(&self, now: Instant) -> DubboClient {
        let usual = ClientConfig::default();
        let config = ClientConfig {
            heartbeat: self.setup.heartbeat.unwrap_or(usual.heartbeat),
            asks_first: self.doubt.get().map(Doubt::patience),
            max_in_flight: self.setup.max_in_flight as usize,
            max_body_len: self.setup.max_reply_len.saturating_add(ATTACHMENTS_LEN),
            // Whoever took the request has set a limit to it.
            max_request_len: u32::MAX as usize,
            tells_time_left: self.setup.tells_time_left,
            ..usual
        };
        let reading = Reading { at: now, died_of: None };
        let machine = DubboMachine(ClientConnection::new(config, now), reading);
        Metered::new(machine, self.memory.endpoint())
    }

    fn is_ready(machine: &DubboClient) -> bool {
        machine.0.is_accepting()
    }

    fn ask(machine: &mut DubboClient, now: Instant) {
        machine.0.ask(now);
    }

    fn activity(machine: &DubboClient) -> Activity {
        let in_flight = machine.0.in_flight();
        let doing = match in_flight {
            _ if !Self::is_ready(machine) => "taking no calls",
            0 => "idle",
            _ => "calling",
        };
        let held_bytes = machine.account().held();
        Activity { doing, in_flight, held_bytes, peer_name: None }
    }

    fn in_flight(machine: &DubboClient) -> usize {
        machine.0.in_flight()
    }

    fn waited(machine: &DubboClient, now: Instant) -> Duration {
        machine.waited(now)
    }

    fn signs(machine: &DubboClient) -> Signs {
        let (heard_at, unanswered_since) = (machine.0.heard_at(), machine.0.unanswered_since());
        Signs { heard_at, unanswered_since }
    }

    fn on_event(&self, timed: TimedEvent<ClientEvent<ReplyTo>>) -> bool {
        match timed.event {
            ClientEvent::Reply { token: ReplyTo::Dubbo(token), status, serialization, body } => {
                token.answer(
                    &DubboAnswer { at: timed.read_at, status, serialization, body: &body },
                    &|| self.refusal(status, serialization, &body),
                );
            }
            ClientEvent::Reply { token, status, serialization, body } => {
                token.complete(self.outcome(status, serialization, body, timed.read_at));
            }
            ClientEvent::Shed { token, len } => {
                let message = format!(
                    "a reply of {len} bytes was dropped: connections hold all the memory that they \
                     may (memory_bytes of [agent])"
                );
                let error = CallError::new(Code::ReplyTooLarge, message);
                token.complete(Err(error.at(&self.address)));
            }
            ClientEvent::Expired { token } => {
                let error = CallError::new(Code::Timeout, "no answer before the deadline");
                token.complete(Err(error.at(&self.address)));
            }
            ClientEvent::TooLong { token, len, max } => {
                let message = format!("a reply of {len} bytes is over the limit of {max}");
                let error = CallError::new(Code::ReplyTooLarge, message);
                token.complete(Err(error.at(&self.address)));
            }
            ClientEvent::ReadOnly => {
                info!(endpoint = %self.address, "provider is leaving");
                return true;
            }
            ClientEvent::Writeable => {
                info!(endpoint = %self.address, "provider takes calls again");
                return true;
            }
            other => debug!(endpoint = %self.address, event = ?other),
        }
        false
    }

    fn failure(machine: &DubboClient) -> Option<String> {
        machine.1.died_of.map(|reason| reason.to_string())
    }

    fn on_end(&self, conn: &Conn<DubboClient>, error: &CallError) {
        self.doubt.set(conn.look(|machine| Doubt::after(self.doubt.get(), machine)));
        let pending: Vec<ReplyTo> = conn.with(|machine| machine.0.drain_pending().collect());
        for token in pending {
            token.complete(Err(error.clone()));
        }
        // The connection is not up any more as soon as this is over.
        let n_late = conn.look(|machine| machine.0.stats().stale_replies);
        self.late_of_ended.set(self.late_of_ended.get().wrapping_add(n_late));
    }

    fn close(machine: &mut DubboClient, _: Instant) {
        machine.0.close();
    }
}

/// A call with its arguments in JSON, on its way to a connection.
struct JsonRequest<'a> {
    lanes: &'a Lanes<DubboPeer>,
    conn: &'a Conn<DubboClient>,
    call: &'a RoutedCall<'a>,
    form: DubboForm<'a>,
}

impl JsonRequest<'_> {
    /// Encodes the arguments, which are short, and queues the call.
    #[inline]
    fn send_short(
        &self,
        peer: &DubboPeer,
        args: &ArgumentList<'_>,
        now: Instant,
        to: Option<ReplyTo>,
    ) -> Result<RequestId, CallError> {
        peer.scratch.with(|bytes| {
            args.encode(self.call.method, self.form.serialization, bytes)?;
            self.send(bytes, now, to)
        })
    }

    /// Queues the call, its arguments encoded.
    fn send(
        &self,
        bytes: &[u8],
        now: Instant,
        to: Option<ReplyTo>,
    ) -> Result<RequestId, CallError> {
        let (route, serialization) = (self.call.method, self.form.serialization);
        let with_path = self.form.path.map(|path| route.template_for_path(serialization, path));
        let with_path = with_path.transpose()?;
        let template = match &with_path {
            Some(template) => template,
            None => route.template(serialization)?,
        };
        check_room(self.conn, bytes.len())?;
        let mut call = self.call.with(template, Encoded { serialization, bytes });
        call.times.now = now;
        send(self.conn, &call, to).map_err(|unsent| refused(&unsent.1).at(self.lanes.address()))
    }
}

/// How long the messages of a call are. Arguments are about as long in any form.
fn message_len(call: &RoutedCall<'_>, args: &ArgumentList<'_>) -> MessageLen {
    MessageLen { request: args.len_in_bytes(), reply: call.method.reply_len.get() }
}

/// Sends a call, if that can be done at once, as [`AnyUpstream::begin`](super::AnyUpstream::begin)
/// says.
///
/// # Errors
/// Why it was not sent.
pub fn begin(
    lanes: &Lanes<DubboPeer>,
    call: &RoutedCall<'_>,
    form: DubboForm<'_>,
) -> Result<Option<SentCall>, CallError> {
    let Payload::Json(args) = call.payload else { return Ok(None) };
    let (len, now) = (message_len(call, args), call.times.now);
    if call.one_way || LONG_LEN <= len.request {
        return Ok(None);
    }
    let upstream = lanes.pick(len, now, |_| true);
    let Some(conn) = upstream.ready_conn() else { return Ok(None) };
    let (task, outcome) = oneshot::channel();
    enter(call.clock, Stage::Encode);
    let request = JsonRequest { lanes, conn: &conn, call, form };
    let id = request.send_short(upstream.peer(), args, now, Some(ReplyTo::Task(task)))?;
    Ok(Some(SentCall::by_dubbo(outcome, conn, id, form.serialization)))
}

/// Makes a call and waits for its outcome.
pub async fn call(lanes: &Lanes<DubboPeer>, call: &RoutedCall<'_>, form: DubboForm<'_>) -> Outcome {
    let args = match call.payload {
        Payload::Json(args) => args,
        Payload::Whole(whole) => return pass_on(lanes, &call.with((), whole)).await,
    };
    let len = message_len(call, args);
    let ReadyLane { upstream, conn, now } =
        lanes.conn_soon(len, call.times.deadline, call.times.now, |_| true).await?;
    let peer = upstream.peer();
    let (to, outcome) = caller(call.one_way);
    enter(call.clock, Stage::Encode);
    let request = JsonRequest { lanes, conn: &conn, call, form };
    let id = match len.request < LONG_LEN {
        true => request.send_short(peer, args, now, to)?,
        false => {
            let (conn, serialization) = (&conn, form.serialization);
            let bytes = encoded_offloaded(args, call, serialization, conn, &peer.threads).await?;
            request.send(&bytes, Instant::now(), to)?
        }
    };
    let outcome = finish(lanes, &conn, id, outcome).await;
    note_outcome(call, &outcome);
    outcome
}

/// Passes a whole request on and waits for its outcome.
pub async fn pass_on(lanes: &Lanes<DubboPeer>, call: &Call<'_, (), Whole<'_>>) -> Outcome {
    let request = call.payload.body.len();
    let len = MessageLen { request, reply: 0 };
    let ReadyLane { conn, now, .. } =
        lanes.conn_soon(len, call.times.deadline, call.times.now, |_| true).await?;
    check_room(&conn, request)?;
    let (to, outcome) = caller(call.one_way);
    let times = Times { now, ..call.times };
    let sent = send_whole(&conn, &Call { times, ..*call }, to);
    let id = sent.map_err(|unsent| refused(&unsent.1).at(lanes.address()))?;
    let outcome = finish(lanes, &conn, id, outcome).await;
    note_end(call.clock, &outcome);
    outcome
}

/// A task that waits for the outcome of a call, unless nobody does.
fn caller(one_way: bool) -> (Option<ReplyTo>, Option<oneshot::Receiver<Outcome>>) {
    if one_way {
        return (None, None);
    }
    let (task, outcome) = oneshot::channel();
    (Some(ReplyTo::Task(task)), Some(outcome))
}

async fn finish(
    lanes: &Lanes<DubboPeer>,
    conn: &Conn<DubboClient>,
    id: RequestId,
    outcome: Option<oneshot::Receiver<Outcome>>,
) -> Outcome {
    match outcome {
        // A caller that goes away frees its place in the table of pending calls.
        Some(outcome) => wait(outcome, || drop(conn.with(|machine| machine.0.cancel(id)))).await,
        None => sent(lanes.address()),
    }
}

/// Why a call was not sent, and who waits for its outcome.
pub type NotSent = Box<(Option<ReplyTo>, SendError)>;

/// Queues a call on a connection. `to` is who waits for its outcome; nobody waits for a one-way
/// call.
///
/// # Errors
/// Why it was not queued.
#[inline]
pub fn send(
    conn: &Conn<DubboClient>,
    call: &Call<'_, &RequestTemplate, Encoded<'_>>,
    to: Option<ReplyTo>,
) -> Result<RequestId, NotSent> {
    debug_assert_eq!(call.one_way, to.is_none());
    let Call { method, payload: Encoded { bytes, .. }, attachments, times, .. } = *call;
    let Times { now, deadline } = times;
    let is_told = !attachments.contains(&UNTOLD);
    let deadline = CallDeadline { at: deadline, is_told };
    let others: Vec<(&str, &str)>;
    let attachments = match is_told {
        true => attachments,
        // It is for this agent.
        false => {
            others = attachments.iter().copied().filter(|one| *one != UNTOLD).collect();
            &others
        }
    };
    let sent = conn.with(|machine| match to {
        Some(to) => machine
            .0
            .send(now, method, bytes, attachments, deadline, to)
            .map_err(|(to, error)| Box::new((Some(to), error))),
        None => {
            let sent = machine.0.send_one_way(now, method, bytes, attachments);
            sent.map_err(|error| Box::new((None, error)))
        }
    })?;
    queued(conn, call.clock);
    Ok(sent)
}

/// The same for a whole request.
///
/// # Errors
/// As [`send`].
#[inline]
pub fn send_whole(
    conn: &Conn<DubboClient>,
    call: &Call<'_, (), Whole<'_>>,
    to: Option<ReplyTo>,
) -> Result<RequestId, NotSent> {
    debug_assert_eq!(call.one_way, to.is_none());
    let (Whole { serialization, body }, Times { now, deadline }) = (call.payload, call.times);
    let sent = conn.with(|machine| match to {
        Some(to) => machine
            .0
            .send_body(now, serialization, body, deadline, to)
            .map_err(|(to, error)| Box::new((Some(to), error))),
        None => {
            let sent = machine.0.send_body_one_way(now, serialization, body);
            sent.map_err(|error| Box::new((None, error)))
        }
    })?;
    queued(conn, call.clock);
    Ok(sent)
}

/// The failure of a call that could not be sent: nothing has been begun.
pub fn refused(error: &SendError) -> CallError {
    let code = match error {
        SendError::TooManyInFlight { .. } | SendError::BufferFull { .. } => Code::Overloaded,
        SendError::NotAccepting => Code::Unreachable,
        SendError::Encode(ProtoError::PayloadTooLong { .. }) => Code::BodyTooLarge,
        SendError::Encode(_) => Code::BadRequest,
    };
    CallError::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever reads the code knows whether another endpoint may be tried.
    #[test]
    fn each_refusal_to_send_has_its_code() {
        for (error, code) in [
            (SendError::TooManyInFlight { max: 1 }, Code::Overloaded),
            (SendError::BufferFull { buffered: 2, max: 1 }, Code::Overloaded),
            (SendError::NotAccepting, Code::Unreachable),
            (SendError::Encode(ProtoError::PayloadTooLong { len: 2, max: 1 }), Code::BodyTooLarge),
            (SendError::Encode(ProtoError::UnsupportedSerialization { id: 9 }), Code::BadRequest),
        ] {
            let failure = refused(&error);
            assert_eq!((failure.code, &*failure.message), (code, &*error.to_string()));
        }
    }
}
