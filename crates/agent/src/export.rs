//! Services of the local app, offered to other agents over links.
//!
//! A request goes from the link's driver straight into the app's connection, and its reply the
//! same way back: no task and no copy of its own stands in between.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::{RequestTemplate, Serialization, ServiceKey};
use link::{Conn, Ending, drive};
use link_proto::{CallId, Event, Meta, RouteDef, RouteId, Status};
use tokio::net::TcpStream;
use tracing::{debug, info};

use crate::call::{LinkCaller, LinkServer, ReplyTo};
use crate::metrics::CallStats;
use crate::route::template;
use crate::upstream::dubbo::{DubboClient, DubboPeer, refused};
use crate::upstream::{Standing, Upstream};

/// The deadline of a request that brings none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// One exported service and the way to the app.
pub struct Backend {
    /// What is offered.
    pub service: ServiceKey,
    /// What the app speaks.
    pub serialization: Serialization,
    /// The app.
    pub upstream: Rc<Upstream<DubboPeer>>,
    /// What counts its calls.
    pub stats: Arc<CallStats>,
}

/// What a worker exports, by service key as text.
pub type Backends = HashMap<String, Rc<Backend>>;

/// One link from another agent; clones are handles to the same.
#[derive(Clone)]
pub struct LinkSession {
    conn: Conn<LinkServer>,
    backends: Rc<Backends>,
    /// By the peer's number of the route.
    routes: Rc<RefCell<Vec<Option<Rc<Target>>>>>,
}

/// One request of the peer.
struct Call {
    id: CallId,
    codec: u8,
    now: Instant,
    deadline: Instant,
    meta: Meta,
    payload: Bytes,
    one_way: bool,
}

/// Where the calls of a route go.
struct Target {
    backend: Rc<Backend>,
    template: RequestTemplate,
}

impl LinkSession {
    /// A link that has just been accepted.
    pub fn new(config: &link_proto::Config, backends: Rc<Backends>) -> Rc<Self> {
        let machine = LinkServer::server(config.clone(), Instant::now());
        Rc::new(Self { conn: Conn::new(machine), backends, routes: Rc::default() })
    }

    /// Serves the link until it ends.
    pub async fn serve(&self, stream: TcpStream) -> Ending<link_proto::LinkError> {
        drive(stream, &self.conn, |event| self.on_event(event)).await
    }

    /// Takes no further calls; the link closes once those in flight are answered.
    pub fn drain(&self) {
        self.conn.with(|link| link.go_away(link_proto::GoAwayReason::SHUTDOWN));
    }

    fn on_event(&self, event: Event<()>) {
        match event {
            Event::Request { id, route, codec, timeout, meta, payload, one_way, .. } => {
                let now = Instant::now();
                let deadline = now + timeout.unwrap_or(DEFAULT_TIMEOUT);
                let call = Call { id, codec, now, deadline, meta, payload, one_way };
                self.request(route, call);
            }
            Event::Defined { route, def } => self.define(route, &def),
            Event::Ready(hello) => debug!(peer = hello.name, "link accepted"),
            Event::GoAway { reason, text } => debug!(?reason, text, "peer is leaving"),
            other => debug!(event = ?other),
        }
    }

    fn define(&self, route: RouteId, def: &RouteDef) {
        let place = route.index();
        let mut routes = self.routes.borrow_mut();
        if routes.len() <= place {
            routes.resize_with(place + 1, || None);
        }
        match self.target(def) {
            Ok(target) => {
                let codec = target.backend.serialization.id();
                self.conn.with(|link| link.accept_route(route, codec));
                routes[place] = Some(Rc::new(target));
            }
            Err((status, text)) => {
                info!(service = def.service, method = def.method, text, "route refused");
                self.conn.with(|link| link.refuse_route(route, status, &text));
                routes[place] = None;
            }
        }
    }

    fn target(&self, def: &RouteDef) -> Result<Target, (Status, String)> {
        let Some(backend) = self.backends.get(&def.service) else {
            let text = format!("this agent does not export {}", def.service);
            return Err((Status::NOT_FOUND_SERVICE, text));
        };
        let template = template(backend.serialization, &backend.service.version, def)
            .map_err(|error| (Status::BAD_REQUEST, error.to_string()))?;
        Ok(Target { backend: Rc::clone(backend), template })
    }

    fn request(&self, route: RouteId, mut call: Call) {
        let target = self.routes.borrow().get(route.index()).cloned().flatten();
        let Some(target) = target else {
            return self.refuse(&call, Status::NOT_FOUND_SERVICE, "the route was refused");
        };
        let spoken = target.backend.serialization;
        if call.codec != 0 && call.codec != spoken.id() {
            let text = format!("the app speaks {}, as the route's answer said", spoken.name());
            return self.refuse(&call, Status::UNSUPPORTED_CODEC, &text);
        }
        match target.backend.upstream.conn() {
            Ok(conn) => self.pass_on(&target, &conn, &call),
            Err(_) if target.backend.upstream.standing() == Standing::Connecting => {
                let session = self.clone();
                tokio::task::spawn_local(async move {
                    match target.backend.upstream.connected(call.deadline).await {
                        Ok(conn) => {
                            call.now = Instant::now();
                            session.pass_on(&target, &conn, &call);
                        }
                        Err(error) => session.caller(&target, &call).complete(Err(error)),
                    }
                });
            }
            Err(error) => self.caller(&target, &call).complete(Err(error)),
        }
    }

    fn pass_on(&self, target: &Target, conn: &Conn<DubboClient>, call: &Call) {
        let meta: Vec<_> = call.meta.iter().collect();
        let caller = self.caller(target, call);
        let Call { now, deadline, payload, one_way, .. } = call;
        if *one_way {
            let sent = conn.with(|app| app.0.send_one_way(*now, &target.template, payload, &meta));
            return caller.finish(sent.err().map(|error| refused(&error)).as_ref());
        }
        let token = ReplyTo::Link(caller);
        let sent =
            conn.with(|app| app.0.send(*now, &target.template, payload, &meta, *deadline, token));
        if let Err((token, error)) = sent {
            token.complete(Err(refused(&error)));
        }
    }

    /// Who waits for the answer to a call that from now on counts as one of the backend's.
    fn caller(&self, target: &Target, call: &Call) -> LinkCaller {
        let stats = Arc::clone(&target.backend.stats);
        stats.started();
        LinkCaller { conn: self.conn.clone(), id: call.id, started: call.now, stats }
    }

    fn refuse(&self, call: &Call, status: Status, text: &str) {
        self.conn.with(|link| link.respond(call.id, link_proto::Reply::error(status, text)));
    }
}
