//! Services of the local app, offered to other agents over links.
//!
//! A request goes from the link's driver straight into the app's connection, and its reply the
//! same way back: no task and no copy of its own stands in between.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dubbo_proto::{RequestTemplate, Serialization, ServiceKey};
use link::{Conn, Ending, drive};
use link_proto::{CallId, Event, Meta, RouteDef, RouteId, Status};
use tokio::net::TcpStream;
use tracing::{debug, info};

use crate::call::{LinkCaller, LinkServer, ReplyTo};
use crate::error::{CallError, Code};
use crate::metrics::CallStats;
use crate::route::template;
use crate::upstream::dubbo::{DubboPeer, send};
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

/// One link from another agent.
pub struct LinkSession {
    conn: Conn<LinkServer>,
    backends: Rc<Backends>,
    /// By the peer's number of the route.
    routes: RefCell<Vec<Option<Rc<Target>>>>,
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
        Rc::new(Self { conn: Conn::new(machine), backends, routes: RefCell::default() })
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
            Event::Request { id, route, timeout, meta, payload, one_way, .. } => {
                let deadline = Instant::now() + timeout.unwrap_or(DEFAULT_TIMEOUT);
                self.request(id, route, deadline, &meta, payload, one_way);
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

    fn request(
        &self,
        id: CallId,
        route: RouteId,
        deadline: Instant,
        meta: &Meta,
        payload: bytes::Bytes,
        one_way: bool,
    ) {
        let target = self.routes.borrow().get(route.index()).cloned().flatten();
        let Some(target) = target else {
            let refusal = CallError::new(Code::ServiceNotFound, "the route was refused");
            return self.refuse(id, &refusal);
        };
        let stats = Arc::clone(&target.backend.stats);
        stats.started();
        let caller = LinkCaller { conn: self.conn.clone(), id, started: Instant::now(), stats };
        let _ = one_way;
        let token = ReplyTo::Link(caller);
        match target.backend.upstream.conn() {
            Ok(conn) => {
                let meta: Vec<_> = meta.iter().collect();
                let sent = send(&conn, &target.template, &payload, &meta, deadline, token);
                if let Err((token, error)) = sent {
                    token.complete(Err(error));
                }
            }
            Err(_) if target.backend.upstream.standing() == Standing::Connecting => {
                let meta = meta.clone();
                tokio::task::spawn_local(async move {
                    send_when_connected(&target, &payload, &meta, deadline, token).await;
                });
            }
            Err(error) => token.complete(Err(error)),
        }
    }

    fn refuse(&self, id: CallId, error: &CallError) {
        self.conn.with(|link| link.respond(id, crate::call::error_reply(error)));
    }
}

async fn send_when_connected(
    target: &Target,
    payload: &[u8],
    meta: &Meta,
    deadline: Instant,
    token: ReplyTo,
) {
    match target.backend.upstream.connected(deadline).await {
        Ok(conn) => {
            let meta: Vec<_> = meta.iter().collect();
            let sent = send(&conn, &target.template, payload, &meta, deadline, token);
            if let Err((token, error)) = sent {
                token.complete(Err(error));
            }
        }
        Err(error) => token.complete(Err(error)),
    }
}
