//! One client's connection: what it calls is begun in slices, away from the driver.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use link_proto::{
    CallId, Connection, DefinedRoute, Event, GoAwayReason, Payload, Reply, RouteDef, Status,
};
use tokio::task::AbortHandle;

use super::Shared;
use super::call_batch::{CallBatch, IncomingCall};
use super::context::{Peer, Scope};
use super::in_place::ServerLink;
use super::service::{AnswerHead, CallRefusal, ServedMethod};
use super::streams::ServerStreams;
use crate::client::as_strs;
use crate::link_stream::LinkStream;
use wire::{SharedMachine, SyncConn, drive_slices, slice_len};

/// Most calls that begin in one turn: so many answers may go over the limit of what waits.
const MAX_SLICE_LEN: usize = 256;

/// One client's connection, shared by its driver and the calls at work.
pub(crate) struct ServerSession {
    pub server: Arc<Shared>,
    conn: SyncConn<ServerLink>,
    /// Calls with a task of their own, to be aborted when their caller gives up.
    running: Mutex<HashMap<u64, AbortHandle>>,
    pub streams: ServerStreams,
}

/// An answer: to which call, its status, codec, payload and metadata.
type Ready<'a> = (CallId, Status, u8, Payload<'a>, Vec<(String, String)>);

/// What a client's numbers stand for: methods, or why there are none.
pub(crate) type Routes = Vec<Result<Arc<ServedMethod>, Arc<CallRefusal>>>;

impl ServerSession {
    pub(crate) fn new(server: Arc<Shared>) -> Arc<Self> {
        let machine = Connection::server(server.config.link(), Instant::now());
        let traffic = server.config.traffic.clone();
        Arc::new(Self {
            server,
            conn: SyncConn::new(ServerLink::new(machine, traffic)),
            running: Mutex::default(),
            streams: ServerStreams::default(),
        })
    }

    /// Takes no more calls; the connection ends when those that are here have ended.
    pub(crate) fn leave(&self) {
        self.with(|machine| machine.go_away(GoAwayReason::SHUTDOWN));
    }

    /// Runs the connection to its end.
    pub(crate) async fn serve(self: Arc<Self>, stream: LinkStream, peer: Peer) {
        let mut client = ConnectedClient {
            session: Arc::clone(&self),
            peer: Arc::new(peer),
            routes: Arc::default(),
        };
        let _end = SessionEnd(&self);
        let ending =
            drive_slices(stream, &self.conn, begin_len, |events| client.handle(events)).await;
        tracing::debug!(client = %client.peer.address, %ending, "connection ended");
    }

    /// Ends all calls: nobody waits for their answers any more.
    fn end(&self) {
        // Calls that are about to get a task of their own do not get it after this.
        self.conn.lock(|machine| machine.link.drain_pending().for_each(drop));
        self.streams.handle_end_of_link();
        let running = std::mem::take(&mut *self.lock_running());
        running.into_values().for_each(|task| task.abort());
    }

    /// Changes the link; what that leaves to be sent goes out when the driver gets its turn.
    #[inline]
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Connection<()>) -> R) -> R {
        self.conn.with(|machine| change(&mut machine.link))
    }

    /// Gives answers to the client, all at once: status, codec, payload and metadata.
    pub(crate) fn respond<'a>(&self, answers: impl Iterator<Item = Ready<'a>>) {
        self.with(|machine| {
            for (id, status, codec, payload, meta) in answers {
                let meta = as_strs(&meta);
                machine.respond(id, Reply { status, codec, meta: &meta, payload });
            }
        });
    }

    /// Gives one answer, if the caller wants one. What is not in it is in `out`.
    pub(crate) fn answer(
        &self,
        id: CallId,
        one_way: bool,
        answer: AnswerHead,
        scope: &Scope,
        out: Vec<u8>,
    ) {
        if !one_way {
            let AnswerHead { status, codec, payload } = answer;
            let meta = scope.take_reply_meta(id.to_wire());
            let payload = Payload::Bytes(payload.unwrap_or_else(|| out.into()));
            self.respond(std::iter::once((id, status, codec, payload, meta)));
        }
    }

    /// Answers one call with an error of the link's own.
    pub(crate) fn refuse(&self, id: CallId, refusal: &CallRefusal) {
        let CallRefusal { status, text } = refusal;
        self.streams.forget(id);
        self.with(|machine| machine.respond(id, Reply::error(*status, text)));
    }

    /// Runs a call in a task of its own, which is aborted when its caller gives up.
    pub(crate) fn spawn_running(
        &self,
        id: CallId,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        // Held until the task is known: so it cannot end before, nor can its caller's giving up be
        // missed.
        let mut running = self.lock_running();
        if self.is_open(id) {
            running.insert(id.to_wire(), tokio::spawn(task).abort_handle());
        }
    }

    /// Whether the caller still waits for an answer.
    pub(crate) fn is_open(&self, id: CallId) -> bool {
        self.conn.lock(|machine| machine.link.is_open(id))
    }

    pub(crate) fn unset_running(&self, id: CallId) {
        self.lock_running().remove(&id.to_wire());
    }

    fn abort(&self, id: CallId) {
        if let Some(task) = self.lock_running().remove(&id.to_wire()) {
            task.abort();
        }
    }

    fn lock_running(&self) -> std::sync::MutexGuard<'_, HashMap<u64, AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many calls begin in one turn: none while too much waits to be written, so that a client
/// that asks and does not read cannot make memory grow.
fn begin_len(ServerLink { link: machine, .. }: &ServerLink) -> usize {
    match machine.is_congested() {
        true => 0,
        false => slice_len(machine.in_flight()).min(MAX_SLICE_LEN),
    }
}

/// Ends a session's calls when its driver ends, however that comes.
struct SessionEnd<'a>(&'a ServerSession);

impl Drop for SessionEnd<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What the driver knows of the client.
struct ConnectedClient {
    session: Arc<ServerSession>,
    peer: Arc<Peer>,
    routes: Arc<Routes>,
}

impl ConnectedClient {
    fn handle(&mut self, events: &mut Vec<Event<()>>) {
        let mut jobs = Vec::with_capacity(events.len());
        for event in events.drain(..) {
            match event {
                Event::Request {
                    id,
                    route,
                    codec,
                    timeout,
                    meta,
                    payload,
                    one_way,
                    stream_in,
                    stream_out,
                    ..
                } => {
                    let streams = stream_in || stream_out;
                    if streams {
                        self.session.streams.open(id, stream_in);
                    }
                    let job =
                        IncomingCall { id, route, codec, timeout, meta, payload, one_way, streams };
                    jobs.push(job);
                }
                Event::Item { id, codec, payload } => {
                    self.session.streams.handle_item(id, codec, payload);
                }
                Event::ItemsEnd { id } => self.session.streams.handle_end(id),
                Event::Writable { id } => self.session.streams.handle_writable(id),
                Event::Defined { route, def } => self.define(route, &def),
                Event::Cancelled { id } => {
                    self.session.streams.handle_cancelled(id);
                    self.session.abort(id);
                }
                Event::Ready(hello) => Arc::make_mut(&mut self.peer).name = hello.name,
                _ => {}
            }
        }
        if !jobs.is_empty() {
            let scope = Arc::new(Scope::new(Arc::clone(&self.peer)));
            let (session, routes) = (Arc::clone(&self.session), Arc::clone(&self.routes));
            CallBatch { session, scope, routes, jobs }.begin();
        }
    }

    fn define(&mut self, defined: DefinedRoute, def: &RouteDef) {
        let route = defined.id;
        let service = self.session.server.services.get(&def.service);
        let entry = service.and_then(|service| service.methods.get(&def.method));
        let found = entry.cloned().ok_or_else(|| match service {
            Some(_) => {
                let text = format!("service '{}' has no method '{}'", def.service, def.method);
                Arc::new(CallRefusal { status: Status::NOT_FOUND_METHOD, text })
            }
            None => {
                let text = format!("there is no service '{}' here", def.service);
                Arc::new(CallRefusal { status: Status::NOT_FOUND_SERVICE, text })
            }
        });
        // Calls that are told to an observer take the ordinary way.
        let is_observed = self.session.server.config.observer.is_some();
        self.session.conn.with(|machine| {
            let method = found.as_ref().ok().filter(|_| !is_observed);
            machine.set_route(route, method);
            match &found {
                Ok(_) => machine.link.accept_route(defined, 0),
                Err(refusal) => machine.link.refuse_route(defined, refusal.status, &refusal.text),
            }
        });
        let routes = Arc::make_mut(&mut self.routes);
        if routes.len() <= route.index() {
            routes.resize(route.index() + 1, found.clone());
        }
        if let Some(place) = routes.get_mut(route.index()) {
            *place = found;
        }
    }
}
