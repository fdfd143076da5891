//! Services of the local app, offered to other agents over links.
//!
//! A request goes from the link's driver straight into a Dubbo app's connection, and its reply the
//! same way back: no task and no copy of its own is in between. For an HTTP app the backend
//! runs a task, which ends when the caller gives the call up.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dubbo_proto::{RequestTemplate, Serialization, ServiceKey};
use flow::lender::Demand;
use link::LinkMachine;
use link_proto::{CallId, Connection, DefinedRoute, Event, LinkError, RouteDef, Status};
use tokio::task::AbortHandle;
use tracing::{debug, info};
use wire::{Account, Conn, Peer, Taking, WatchedStream, drive};

use self::pools::{CreditPool, Pools};
use self::requests::PeerRequest;
use crate::backend::{App, Backend, Backends, DubboApp, HttpApp};
use crate::call::{LinkRoute, LinkServer, Times};
use crate::codec;
use crate::config::HTTP_APP_SERIALIZATIONS;
use crate::connections::{Session, SessionActivity};
use crate::expected_len::ExpectedLen;
use crate::journal::{CallSource, Journal};
use crate::memory::write_timeout;
use crate::route::{WHOLE, template, with_service};
use crate::stages::{CallSide, Stage};
use crate::upstream::Standing;

mod journal_entry;
mod kept;
mod pools;
mod requests;

/// The calls of links.
const SOURCE: CallSource =
    CallSource { protocol: "link", side: CallSide::Export, first: Stage::Wait };

/// For so long calls are still made that were sent before the peer heard that the service is no
/// longer exported.
const WITHDRAWN_TIME: Duration = Duration::from_secs(5);

/// A link that defines so many routes between two looks at it is read no further until the next
/// one. A peer has as many as it calls methods; one that defines on and on would keep us busy.
const MAX_DEFINED: u32 = 1_000;
/// A route that is refused counts as so many: few peers define one, and none many.
const REFUSED_COUNTS: u32 = 10;

/// Longest reason that is kept, and told, for each route that was refused. It holds the names that
/// people give; longer ones are cut.
const MAX_REASON_LEN: usize = 512;

/// The deadline of a request that brings none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// One link from another agent; clones are handles to the same.
#[derive(Clone)]
pub struct LinkSession {
    conn: Conn<LinkServer>,
    backends: Rc<Backends>,
    /// By the peer's number of the route.
    routes: Rc<RefCell<Vec<PeerRoute>>>,
    /// Some of them go to apps whose services are no longer exported.
    has_withdrawn: Rc<Cell<bool>>,
    /// Routes that were defined since it was looked at.
    n_defined: Rc<Cell<u32>>,
    /// The calls of HTTP apps that run, and those that wait at the gate.
    running: Rc<RefCell<HashMap<CallId, AbortHandle>>>,
    taking: Rc<Taking>,
    write_timeout: Duration,
    /// Longest body of a request for a Dubbo app.
    payload_limit: usize,
    pools: Pools,
    journal: Journal,
    peer: Peer,
}

/// A route that the peer has defined.
struct PeerRoute {
    defined: DefinedRoute,
    target: PeerTarget,
}

/// What becomes of the calls of a peer's route.
enum PeerTarget {
    /// They are answered as its definition was.
    Refused { status: Status, text: Box<str> },
    /// They go to an app, which may be away.
    Known(Rc<RouteBackend>),
    /// Their service is offered no longer, and may be again.
    Withdrawn(Rc<RouteDef>),
}

/// Where the calls of a route go.
struct RouteBackend {
    def: Rc<RouteDef>,
    backend: Rc<Backend>,
    way: RequestForm,
    /// What those need who answer its calls.
    route: Rc<LinkRoute>,
    /// What its calls need credits of, if the peer knows credits.
    pool: Option<Rc<CreditPool>>,
}

/// The app, and what all calls of the route have in common: nothing if they are whole Dubbo
/// requests.
enum RequestForm {
    /// The constant parts of a Dubbo request.
    Dubbo(DubboApp, Option<Rc<RequestTemplate>>),
    /// All that the caller has told, unless its requests tell it.
    Http(Rc<HttpApp>, Option<Rc<RouteDef>>),
}

impl RouteBackend {
    fn takes(&self, codec: u8) -> bool {
        match &self.way {
            // A whole request is in the serialization that its consumer has chosen, which its
            // header on the way to the app has to name.
            RequestForm::Dubbo(_, None) | RequestForm::Http(_, None) => {
                codec::serialization(codec).fits_header()
            }
            RequestForm::Dubbo(app, _) => codec == codec::of(app.serialization),
            RequestForm::Http(..) => HTTP_APP_SERIALIZATIONS.contains(&codec::serialization(codec)),
        }
    }

    /// Why the app cannot take a call in that codec.
    #[cold]
    fn wrong_codec(&self, codec: u8) -> String {
        let given = codec::serialization(codec);
        match &self.way {
            RequestForm::Dubbo(_, None) | RequestForm::Http(_, None) => {
                format!("wrong serialization: Dubbo has none with the number {codec}")
            }
            _ => format!(
                "wrong serialization {given}: the app takes {}, as the answer to DEFINE says",
                self.preferred().name()
            ),
        }
    }

    /// What the peer is told to write.
    fn codec(&self) -> u8 {
        match &self.way {
            RequestForm::Dubbo(_, None) | RequestForm::Http(_, None) => codec::UNSET,
            _ => codec::of(self.preferred()),
        }
    }

    fn preferred(&self) -> Serialization {
        match &self.way {
            RequestForm::Dubbo(app, _) => app.serialization,
            RequestForm::Http(..) => HTTP_APP_SERIALIZATIONS[0],
        }
    }
}

impl LinkSession {
    /// A link that has just been accepted, whose peer may leave its answers unread for
    /// `write_timeout`.
    pub fn new(
        protocol: link_proto::Config,
        write_timeout: Duration,
        backends: Rc<Backends>,
        account: Rc<Account>,
        peer: Peer,
        journal: Journal,
    ) -> Rc<Self> {
        let payload_limit = protocol.max_message_len as usize;
        let machine = LinkMachine(Connection::server(protocol, Instant::now()));
        let machine = LinkServer::new(machine, account);
        let taking = Taking::new();
        let (routes, has_withdrawn, n_defined, running) = Default::default();
        let conn = Conn::new(machine);
        let pools = Pools::default();
        Rc::new(Self {
            conn,
            backends,
            routes,
            has_withdrawn,
            n_defined,
            running,
            taking,
            write_timeout,
            payload_limit,
            pools,
            journal,
            peer,
        })
    }

    /// Serves the link until it ends.
    pub async fn serve(&self, stream: wire::Connection) {
        let _credits_return = self.pools.return_at_end(self.number());
        let facts = stream.facts();
        let stream = WatchedStream::new(stream, Rc::clone(&self.taking));
        let ending = drive(stream, &self.conn, |event| self.on_event(event)).await;
        match self.conn.with(|link| link.failure()) {
            // The peer is no link, or one that is not understood: somebody has to mend that.
            Some(error) if !is_ordinary(error) => info!("{facts} is closed: {error}"),
            _ => debug!(%ending, "link closed"),
        }
        for (_, call) in self.running.borrow_mut().drain() {
            call.abort();
        }
    }

    /// Accepts a route, or refuses it for as long as its app is away.
    fn answer(&self, route: DefinedRoute, target: &RouteBackend) {
        self.conn.with(|link| match target.backend.standing() {
            Standing::Down => {
                let text = target.backend.trouble();
                link.refuse_route(route, Status::UPSTREAM_UNREACHABLE, &text);
            }
            Standing::Ready | Standing::Full | Standing::Connecting => match &target.pool {
                Some(pool) => link.accept_route_of_pool(route, target.codec(), pool.id),
                None => link.accept_route(route, target.codec()),
            },
        });
    }

    fn on_event(&self, event: Event<()>) {
        match event {
            Event::Request { id, route, codec, timeout, meta, payload, one_way, timed, .. } => {
                let now = Instant::now();
                let deadline = now + timeout.unwrap_or(DEFAULT_TIMEOUT);
                let times = Times { now, deadline };
                let mut entry = self.journal.begin(SOURCE, Some(self.peer), now);
                if timed && entry.is_none() {
                    entry = Some(self.journal.begin_untold(SOURCE, now));
                }
                let clock = entry.as_ref().and_then(|entry| entry.clock().cloned());
                let entry = entry.into();
                let call =
                    PeerRequest { id, codec, times, meta, payload, one_way, entry, clock, timed };
                self.request(route, call);
            }
            Event::Defined { route, def } => self.define(route, &def),
            Event::Cancelled { id } => {
                if let Some(call) = self.running.borrow_mut().remove(&id) {
                    call.abort();
                }
            }
            Event::Demand { pool, n_waiting, n_seen } => {
                if let Some(pool) = self.pools.get(pool) {
                    let demand = Demand { n_waiting, n_seen };
                    pool.gate.demanded(Instant::now(), self.number(), demand);
                }
            }
            Event::Ready(hello) => debug!(peer = hello.name, "link accepted"),
            Event::GoAway { reason, text } => debug!(?reason, text, "peer is leaving"),
            other => debug!(event = ?other),
        }
    }

    fn note_defined(&self, n: u32) {
        let before = self.n_defined.get();
        self.n_defined.set(before.saturating_add(n));
        if before < MAX_DEFINED && MAX_DEFINED <= self.n_defined.get() {
            self.conn.with(|link| link.set_rests(true));
        }
    }

    fn define(&self, defined: DefinedRoute, def: &RouteDef) {
        let target = match self.target(&Rc::new(def.clone())) {
            Ok(target) => {
                self.note_defined(1);
                self.answer(defined, &target);
                PeerTarget::Known(Rc::new(target))
            }
            Err((status, mut text)) => {
                self.note_defined(REFUSED_COUNTS);
                info!(service = def.service, method = def.method, text, "route refused");
                text.truncate(text.floor_char_boundary(MAX_REASON_LEN));
                self.conn.with(|link| link.refuse_route(defined, status, &text));
                PeerTarget::Refused { status, text: text.into() }
            }
        };
        let (mut routes, route) = (self.routes.borrow_mut(), PeerRoute { defined, target });
        match routes.get_mut(defined.id.index()) {
            Some(old) => *old = route,
            // A peer numbers its routes without gaps.
            None => routes.push(route),
        }
    }

    fn target(&self, def: &Rc<RouteDef>) -> Result<RouteBackend, (Status, String)> {
        let Some(backend) = self.backends.get(&def.service) else {
            let text = format!("this agent does not export {}", def.service);
            return Err((Status::NOT_FOUND_SERVICE, text));
        };
        let is_whole = def.method == WHOLE;
        let way = match &backend.app {
            App::Dubbo(app) if is_whole => RequestForm::Dubbo(app.clone(), None),
            App::Dubbo(app) => {
                let (service, def) = (&backend.service, with_service(def, &backend.service));
                let template = template(app.serialization, &service.version, &def)
                    .map_err(|error| (Status::BAD_REQUEST, error.to_string()))?;
                let template = template.with_payload_limit(self.payload_limit);
                RequestForm::Dubbo(app.clone(), Some(template.into()))
            }
            App::Http(app) => {
                RequestForm::Http(Rc::clone(app), (!is_whole).then(|| Rc::clone(def)))
            }
        };
        let stats = Arc::clone(&backend.stats);
        let route = Rc::new(LinkRoute { stats, reply_len: ExpectedLen::default() });
        let pool = match self.conn.look(|link| link.has_credits()) {
            true => self.pools.of(&self.conn, &backend.gate),
            false => None,
        };
        Ok(RouteBackend { def: Rc::clone(def), backend, way, route, pool })
    }

    fn forget_withdrawn(&self, now: Instant) {
        let mut is_left = false;
        for route in &mut *self.routes.borrow_mut() {
            let PeerTarget::Known(target) = &route.target else { continue };
            let Some(at) = target.backend.withdrawn_at() else { continue };
            if WITHDRAWN_TIME <= now.saturating_duration_since(at) {
                route.target = PeerTarget::Withdrawn(Rc::clone(&target.def));
            } else {
                is_left = true;
            }
        }
        self.has_withdrawn.set(is_left);
    }
}

impl Session for LinkSession {
    /// Takes no further calls; the link closes once those in flight are answered.
    fn drain(&self) {
        self.conn.with(|link| link.go_away(link_proto::GoAwayReason::SHUTDOWN));
    }

    /// The link's driver keeps its own time, but for a peer that does not read.
    fn check_time(&self, now: Instant) {
        let time = self.conn.look(|link| write_timeout(link.account(), self.write_timeout));
        if self.taking.check(now, time) {
            debug!("link closed: the peer did not read its answers");
        }
        if MAX_DEFINED <= self.n_defined.replace(0) {
            self.conn.with(|link| link.set_rests(false));
        }
        // The connection to an app that is no longer exported is not kept for ever.
        if self.has_withdrawn.get() {
            self.forget_withdrawn(now);
        }
    }

    /// Whether the app behind `service` can be reached has changed. The peer is told at once, so
    /// that it offers its calls to others, or to this agent again.
    fn app_changed(&self, service: &ServiceKey) {
        let (mut routes, name) = (self.routes.borrow_mut(), service.to_string());
        for PeerRoute { defined, target: known } in routes.iter_mut() {
            let def = match known {
                PeerTarget::Known(target) if target.backend.service != *service => continue,
                PeerTarget::Known(target) if target.backend.withdrawn_at().is_none() => {
                    self.answer(*defined, target);
                    continue;
                }
                PeerTarget::Known(target) => Rc::clone(&target.def),
                PeerTarget::Withdrawn(def) if def.service == name => Rc::clone(def),
                PeerTarget::Withdrawn(_) | PeerTarget::Refused { .. } => continue,
            };
            match self.target(&def) {
                // Another app offers the service.
                Ok(target) => {
                    self.answer(*defined, &target);
                    *known = PeerTarget::Known(Rc::new(target));
                }
                Err(_) => {
                    if let PeerTarget::Known(target) = known {
                        self.answer(*defined, target);
                        self.has_withdrawn.set(true);
                    }
                }
            }
        }
    }

    fn activity(&self) -> SessionActivity {
        self.conn.look(|link| {
            let in_flight = link.in_flight();
            let doing = match in_flight {
                _ if link.peer().is_none() => "shaking hands",
                _ if !link.is_accepting() => "draining",
                0 => "idle",
                _ => "answering",
            };
            let peer_name = link.peer().map(|hello| hello.name.clone());
            SessionActivity { doing, in_flight, held_bytes: link.account().held(), peer_name }
        })
    }
}

/// Whether links end so in the course of things.
fn is_ordinary(error: LinkError) -> bool {
    matches!(error, LinkError::Closed | LinkError::PeerSilent | LinkError::PeerFailed { .. })
}

#[cfg(test)]
mod tests;
