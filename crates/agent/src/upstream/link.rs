//! Calls to a provider's agent over the link.

mod calls;
mod request;
mod routes;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::{Serialization, Status as DubboStatus};
use link::LinkMachine;
use link_proto::{CallId, Connection, Event, Meta, PoolId, RequestOut, RouteId, Status, features};
use tokio::sync::Notify;
use tracing::{debug, info};
use wire::Conn;

pub use self::calls::{begin, call};
use self::request::{refused, request_out};
use self::routes::{LinkRoutes, RouteState};
use super::credits::{Credit, LinkCredits, LinkPurse};
use super::{PeerProtocol, SharedSetup, Signs, queued};
use crate::call::{APP_US, Call, Outcome, ProviderReply, ReplyTiming, ReplyTo, WholeBody};
use crate::codec;
use crate::connections::SessionActivity;
use crate::error::{CallError, Code};
use crate::memory::{EndpointMemory, MAX_LINK_WAITING_LEN, Metered, check_link_room};
use crate::offload::Threads;
use crate::route::{Route, RouteVariant};
use crate::scratch::Scratch;

/// A link from the calling side.
pub type LinkClient = Metered<LinkMachine<ReplyTo>>;

/// The protocol's side of one provider's agent.
pub struct LinkPeer {
    address: Rc<str>,
    memory: Rc<EndpointMemory>,
    agent_name: Box<str>,
    setup: Rc<SharedSetup>,
    /// By the worker's own number of a route. Belongs to the connection that is up.
    routes: RefCell<LinkRoutes>,
    /// A route has been accepted or refused.
    settled: Notify,
    /// Services whose app the peer cannot reach, as it said last. It says so again when that has
    /// changed. Belongs to the connection that is up.
    away: RefCell<Vec<Box<str>>>,
    pub(super) credits: LinkCredits,
    /// The peer has said that it ends the connection in order.
    is_leaving: Cell<bool>,
    /// The connection that is up, once a route was asked for there.
    conn: RefCell<Option<Conn<LinkClient>>>,
    scratch: Scratch,
    threads: Threads,
}

impl LinkPeer {
    /// The agent at `address`; `agent_name` is what we call ourselves.
    pub fn new(
        address: &str,
        agent_name: &str,
        setup: Rc<SharedSetup>,
        memory: Rc<EndpointMemory>,
        threads: Threads,
    ) -> Self {
        Self {
            address: address.into(),
            memory,
            agent_name: agent_name.into(),
            setup,
            routes: RefCell::default(),
            settled: Notify::new(),
            away: RefCell::default(),
            credits: LinkCredits::default(),
            is_leaving: Cell::default(),
            conn: RefCell::default(),
            scratch: Scratch::default(),
            threads,
        }
    }

    /// Of a connection that is made now.
    fn config(&self) -> link_proto::Config {
        let setup = self.setup.now();
        let config = link_proto::Config {
            name: self.agent_name.clone().into(),
            window: setup.max_in_flight,
            max_message_len: u32::try_from(setup.max_reply_len).unwrap_or(u32::MAX),
            // Agents carry calls with one request and one reply, and say so.
            features: features::CREDITS,
            max_buffered_bytes: MAX_LINK_WAITING_LEN,
            ..link_proto::Config::default()
        };
        match setup.heartbeat {
            Some(heartbeat) => config.with_heartbeat(heartbeat),
            None => config,
        }
    }

    /// Takes the peer's word on a route; true if it means that a service has gone or is back.
    fn settle(&self, id: RouteId, state: RouteState) -> bool {
        let mut routes = self.routes.borrow_mut();
        let has_changed = routes.by_id_mut(id).is_some_and(|route| {
            let is_away = matches!(&state,
                RouteState::Refused(error, _) if error.code == Code::Unreachable);
            route.state = state;
            self.set_away(&route.service, is_away)
        });
        self.settled.notify_waiters();
        has_changed
    }

    pub(super) fn set_away(&self, service: &str, is_away: bool) -> bool {
        let mut all = self.away.borrow_mut();
        let known = all.iter().position(|known| **known == *service);
        match known {
            None if is_away => all.push(service.into()),
            Some(at) if !is_away => drop(all.swap_remove(at)),
            _ => return false,
        }
        let (endpoint, what) = (&self.address, if is_away { "away" } else { "back" });
        info!(%endpoint, service, "the app behind the agent is {what}");
        true
    }

    /// What calls of a service need a credit from; `None` while they need none.
    #[inline]
    pub fn purse(&self, service: &str) -> Option<Rc<LinkPurse>> {
        self.credits.of(service)
    }

    /// Whether the peer has said that it cannot reach the app of a service.
    #[inline]
    pub fn is_away(&self, service: &str) -> bool {
        let away = self.away.borrow();
        !away.is_empty() && away.iter().any(|known| **known == *service)
    }

    /// Whether a credit is of this link.
    pub(super) fn has_lent(&self, credit: &Credit) -> bool {
        self.credits.has_lent(credit)
    }

    fn note_pool(&self, id: RouteId, pool: Option<PoolId>) {
        let routes = self.routes.borrow();
        if let Some(route) = routes.by_id(id) {
            self.credits.note(&route.service, pool);
        }
    }

    fn forget_credits(&self) {
        self.credits.clear();
        *self.conn.borrow_mut() = None;
    }

    fn outcome(
        &self,
        status: Status,
        codec: u8,
        payload: Bytes,
        came: Option<ReplyTiming>,
    ) -> Outcome {
        let error = match status {
            Status::OK => {
                let serialization = codec::serialization(codec);
                if !serialization.fits_header() {
                    let text = format!("the agent answers in codec {codec}, which nobody knows");
                    return Err(CallError::new(Code::BadReply, text).at(&self.address));
                }
                let endpoint = Rc::clone(&self.address);
                return Ok(ProviderReply {
                    came,
                    ..ProviderReply::new(serialization, payload, endpoint)
                });
            }
            Status::DUBBO_STATUS => match payload.split_first() {
                Some((&status, text)) => CallError::from_provider(
                    DubboStatus::from_u8(status),
                    &String::from_utf8_lossy(text),
                ),
                None => CallError::new(Code::BadReply, "the agent sent an empty Dubbo status"),
            },
            // The agent there has read the call, and its app's method takes no such arguments.
            Status::BAD_REQUEST => {
                CallError::new(Code::BadArguments, &*String::from_utf8_lossy(&payload))
            }
            _ => CallError::new(Code::from_link(status), &*String::from_utf8_lossy(&payload)),
        };
        Err(error.at(&self.address))
    }

    /// The peer's number of a route and what state it is in, asking the peer if it does not know
    /// it yet.
    fn route(
        &self,
        conn: &Conn<LinkClient>,
        route: &Route,
        variant: &RouteVariant,
    ) -> Result<(RouteId, RouteState), CallError> {
        let mut routes = self.routes.borrow_mut();
        if let Some(known) = routes.find(route, variant) {
            return Ok((known.id, known.state.clone()));
        }
        if self.conn.borrow().is_none() {
            *self.conn.borrow_mut() = Some(conn.clone());
        }
        let id = conn
            .with(|link| match routes.free_for(route, variant) {
                Some(id) => link.redefine(id, &variant.def).map(|()| id),
                None => link.define(&variant.def),
            })
            .map_err(|error| refused(&error).at(&self.address))?;
        routes.ask(route, variant, id);
        Ok((id, RouteState::Asked))
    }

    /// Whether calls of a route still go by this number and serialization.
    ///
    /// # Errors
    /// [`Code::Unreachable`] if not: the call may be made again.
    fn check_still(
        &self,
        route: &Route,
        variant: &RouteVariant,
        agreed: (RouteId, Serialization),
    ) -> Result<(), CallError> {
        let routes = self.routes.borrow();
        match routes.find(route, variant).map(|known| (known.id, &known.state)) {
            Some((id, RouteState::Accepted(serialization))) if (id, *serialization) == agreed => {
                Ok(())
            }
            _ => {
                let message =
                    "the agent there has changed what it agreed for the method; nothing was sent";
                Err(CallError::new(Code::Unreachable, message).at(&self.address))
            }
        }
    }

    /// Whether the peer has accepted a route; it is asked if it does not know it.
    pub fn knows(&self, conn: &Conn<LinkClient>, route: &Route, variant: &RouteVariant) -> bool {
        matches!(self.route(conn, route, variant), Ok((_, RouteState::Accepted(_))))
    }

    /// The serialization that was agreed for a route, by its index and generation.
    pub fn agreed(&self, index: usize, generation: u64) -> Option<Serialization> {
        self.routes.borrow().agreed(index, generation)
    }

    /// Queues a whole request for a route that the peer has accepted.
    ///
    /// # Errors
    /// Why it was not queued.
    pub fn send_whole(
        &self,
        conn: &Conn<LinkClient>,
        call: &Call<'_, &Rc<Route>, WholeBody<'_>>,
        variant: &RouteVariant,
        token: ReplyTo,
    ) -> Result<CallId, CallError> {
        let (route, _) = self.route(conn, call.method, variant)?;
        let WholeBody { serialization, body } = call.payload;
        check_link_room(conn, body.len()).map_err(|error| error.at(&self.address))?;
        let request = request_out(route, serialization, call, body.clone().into());
        let id = self.send(conn, call.times.now, request, token)?;
        queued(conn, call.clock);
        Ok(id)
    }

    fn send(
        &self,
        conn: &Conn<LinkClient>,
        now: Instant,
        request: RequestOut<'_>,
        token: ReplyTo,
    ) -> Result<CallId, CallError> {
        conn.with(|link| link.send_request(now, request, token))
            .map_err(|(_, error)| refused(&error).at(&self.address))
    }

    /// Waits for the peer's word on a route: its number, and the serialization to use.
    async fn settled_route(
        &self,
        conn: &Conn<LinkClient>,
        request_route: &Route,
        variant: &RouteVariant,
        deadline: Instant,
    ) -> Result<(RouteId, Serialization), CallError> {
        loop {
            let settled = self.settled.notified();
            match self.route(conn, request_route, variant)? {
                (id, RouteState::Accepted(serialization)) => return Ok((id, serialization)),
                (_, RouteState::Refused(error, _)) => return Err(error),
                (_, RouteState::Asked) => {}
            }
            if tokio::time::timeout_at(deadline.into(), settled).await.is_err() {
                return Err(CallError::new(Code::Timeout, "the agent did not answer in time"));
            }
            if !conn.look(|link| link.is_accepting()) {
                return Err(CallError::new(Code::Unreachable, "the link broke"));
            }
        }
    }
}

impl PeerProtocol for LinkPeer {
    const PROTOCOL: &'static str = "link";
    type Machine = LinkClient;

    fn connect_timeout(&self) -> Duration {
        self.setup.now().connect_timeout
    }

    fn machine(&self, now: Instant) -> LinkClient {
        self.routes.borrow_mut().clear();
        self.away.borrow_mut().clear();
        self.is_leaving.set(false);
        self.forget_credits();
        let machine = LinkMachine(Connection::client(self.config(), now));
        Metered::new(machine, self.memory.account())
    }

    fn is_ready(machine: &LinkClient) -> bool {
        machine.is_accepting()
    }

    fn ask(machine: &mut LinkClient, now: Instant) {
        machine.ask(now);
    }

    fn activity(machine: &LinkClient) -> SessionActivity {
        let in_flight = machine.in_flight();
        let doing = match in_flight {
            _ if !Self::is_ready(machine) => "taking no calls",
            0 => "idle",
            _ => "calling",
        };
        let held_bytes = machine.account().held();
        SessionActivity {
            doing,
            in_flight,
            held_bytes,
            peer_name: machine.peer().map(|hello| hello.name.clone()),
        }
    }

    fn in_flight(machine: &LinkClient) -> usize {
        machine.in_flight()
    }

    fn waited(machine: &LinkClient, now: Instant) -> Duration {
        machine.waited(now)
    }

    fn signs(machine: &LinkClient) -> Signs {
        // Every agent answers each PING.
        let asked_at = None;
        let (heard_at, unanswered_since) = (machine.heard_at(), machine.unanswered_since());
        Signs { heard_at, unanswered_since, asked_at }
    }

    fn on_event(&self, event: Event<ReplyTo>) -> bool {
        match event {
            Event::Response { token, status, codec, meta, payload } => {
                let came = if meta.is_empty() { None } else { came(&meta) };
                token.complete(self.outcome(status, codec, payload, came));
            }
            Event::Expired { token } => {
                let error = CallError::new(Code::Timeout, "no answer before the deadline");
                token.complete(Err(error.at(&self.address)));
            }
            Event::Credits { pool, credits } => {
                self.credits.set(self.conn.borrow().as_ref(), pool, credits);
            }
            Event::Pause { pool, pauses } => self.credits.set_paused(pool, pauses),
            Event::RouteAccepted { route, codec, pool } => {
                self.note_pool(route, pool);
                let serialization = match codec {
                    codec::UNSET => Serialization::DEFAULT,
                    codec => codec::serialization(codec),
                };
                return self.settle(route, RouteState::Accepted(serialization));
            }
            Event::RouteRefused { route, status, text } => {
                let error = CallError::new(Code::from_link(status), text).at(&self.address);
                return self.settle(route, RouteState::Refused(error, Instant::now()));
            }
            Event::GoAway { reason, text } => {
                self.is_leaving.set(!reason.is_fatal());
                let text = Some(&*text).filter(|text| !text.is_empty());
                info!(endpoint = %self.address, %reason, text, "agent is leaving");
                return true;
            }
            Event::Ready(hello) => debug!(endpoint = %self.address, name = hello.name, "linked"),
            other => debug!(endpoint = %self.address, event = ?other),
        }
        false
    }

    fn has_said_goodbye(&self, _: &LinkClient) -> bool {
        self.is_leaving.get()
    }

    fn failure(machine: &LinkClient) -> Option<String> {
        machine.failure().map(|error| error.to_string())
    }

    fn on_end(&self, conn: &Conn<LinkClient>, error: &CallError) {
        self.forget_credits();
        self.away.borrow_mut().clear();
        let pending: Vec<ReplyTo> = conn.with(|link| link.drain_pending().collect());
        for token in pending {
            token.complete(Err(error.clone()));
        }
        self.settled.notify_waiters();
    }

    fn retire(&self, now: Instant) {
        self.credits.retire(now);
    }

    fn close(machine: &mut LinkClient, _: Instant) {
        machine.go_away(link_proto::GoAwayReason::IDLE);
    }
}

/// What the metadata of an answer says of the time.
#[cold]
fn came(meta: &Meta) -> Option<ReplyTiming> {
    let (_, text) = meta.iter().find(|(name, _)| *name == APP_US)?;
    let app = text.parse().ok().map(Duration::from_micros);
    Some(ReplyTiming { at: Instant::now(), app })
}

#[cfg(test)]
mod tests;
