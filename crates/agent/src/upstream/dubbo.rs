//! A Dubbo provider, over Dubbo TCP.

mod calls;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use dubbo_proto::{
    ClientConfig, ClientConnection, ClientEvent, DeadReason, ProtoError, Serialization, Status,
    error_text,
};
use tracing::{debug, info};
use wire::{Conn, Machine, TimedEvent};

pub use self::calls::{NotSent, begin, call, pass_on, refused, send, send_whole, too_long};
use super::{PeerProtocol, SharedSetup, Signs};
use crate::call::{DubboAnswer, Outcome, ProviderReply, ReplyTiming, ReplyTo};
use crate::connections::SessionActivity;
use crate::error::{CallError, Code};
use crate::memory::{Buffers, EndpointMemory, Metered};
use crate::offload::Threads;
use crate::scratch::Scratch;

/// The protocol's side of one Dubbo endpoint.
pub struct DubboPeer {
    address: Rc<str>,
    setup: Rc<SharedSetup>,
    memory: Rc<EndpointMemory>,
    scratch: Scratch,
    threads: Threads,
    doubt: Cell<Option<Suspicion>>,
    /// Replies that came too late on connections that have ended, of all connections to the
    /// endpoint.
    late_ends_of_ended: Rc<Cell<u64>>,
}

/// Why what accepts the next connection may not be a provider, by the end of the last one. It is
/// asked for a heartbeat's answer before it gets calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Suspicion {
    /// It answers heartbeats, and then answered none: there may be a proxy in its place.
    Silent,
    /// It hung up, and had not answered anything.
    HungUp,
}

/// Who hung up and then says nothing gets calls after so long: it may know no heartbeats.
const PATIENCE: Duration = Duration::from_secs(3);

impl Suspicion {
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
    /// The endpoint at `address`. All connections to it have the same `late_ends_of_ended`.
    pub fn new(
        address: &str,
        setup: Rc<SharedSetup>,
        memory: Rc<EndpointMemory>,
        threads: Threads,
        late_ends_of_ended: Rc<Cell<u64>>,
    ) -> Self {
        let (scratch, doubt) = Default::default();
        Self { address: address.into(), setup, memory, scratch, threads, doubt, late_ends_of_ended }
    }

    /// Most calls in flight.
    pub fn max_in_flight(&self) -> usize {
        self.setup.now().max_in_flight as usize
    }

    /// Calls that were given up on connections that have ended: they have ended with them.
    pub(super) fn late_ends_of_ended(&self) -> u64 {
        self.late_ends_of_ended.get()
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
            let came = Some(ReplyTiming { at, app: None });
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

    fn connect_timeout(&self) -> Duration {
        self.setup.now().connect_timeout
    }

    fn machine(&self, now: Instant) -> DubboClient {
        let (usual, setup) = (ClientConfig::default(), self.setup.now());
        let config = ClientConfig {
            heartbeat: setup.heartbeat.unwrap_or(usual.heartbeat),
            asks_first: self.doubt.get().map(Suspicion::patience),
            max_in_flight: setup.max_in_flight as usize,
            max_body_len: setup.max_reply_len,
            // Whoever took the request has set a limit to it.
            max_request_len: u32::MAX as usize,
            tells_time_left: setup.tells_time_left,
            ..usual
        };
        let reading = Reading { at: now, died_of: None };
        let machine = DubboMachine(ClientConnection::new(config, now), reading);
        Metered::new(machine, self.memory.account())
    }

    fn is_ready(machine: &DubboClient) -> bool {
        machine.0.is_accepting()
    }

    fn ask(machine: &mut DubboClient, now: Instant) {
        machine.0.ask(now);
    }

    fn activity(machine: &DubboClient) -> SessionActivity {
        let in_flight = machine.0.in_flight();
        let doing = match in_flight {
            _ if !Self::is_ready(machine) => "taking no calls",
            0 => "idle",
            _ => "calling",
        };
        let held_bytes = machine.account().held();
        SessionActivity { doing, in_flight, held_bytes, peer_name: None }
    }

    fn in_flight(machine: &DubboClient) -> usize {
        machine.0.in_flight()
    }

    fn waited(machine: &DubboClient, now: Instant) -> Duration {
        machine.waited(now)
    }

    fn signs(machine: &DubboClient) -> Signs {
        // Who reads them may drop them, or answer calls and no heartbeats.
        let asked_at = Some(machine.0.asked_at());
        let (heard_at, unanswered_since) = (machine.0.heard_at(), machine.0.unanswered_since());
        Signs { heard_at, unanswered_since, asked_at }
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

    fn has_said_goodbye(&self, machine: &DubboClient) -> bool {
        machine.0.is_readonly()
    }

    fn failure(machine: &DubboClient) -> Option<String> {
        machine.1.died_of.map(|reason| reason.to_string())
    }

    fn on_end(&self, conn: &Conn<DubboClient>, error: &CallError) {
        self.doubt.set(conn.look(|machine| Suspicion::after(self.doubt.get(), machine)));
        let pending: Vec<ReplyTo> = conn.with(|machine| machine.0.drain_pending().collect());
        for token in pending {
            token.complete(Err(error.clone()));
        }
        // The connection is not up any more as soon as this is over. What is still unanswered of
        // the calls that were given up on it will stay so.
        let n_ended = conn.look(|machine| {
            let stats = machine.0.stats();
            stats.given_up.max(stats.stale_replies)
        });
        self.late_ends_of_ended.set(self.late_ends_of_ended.get().wrapping_add(n_ended));
    }

    fn close(machine: &mut DubboClient, _: Instant) {
        machine.0.close();
    }
}
