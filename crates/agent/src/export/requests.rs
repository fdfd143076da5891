//! The requests of a link: from the route that they name to the app, and back.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use dubbo_proto::{ProtoError, RequestTemplate, SendError, Serialization};
use flow::queue::{CallerId, Priority};
use link_proto::{CallId, Meta, RouteDef, RouteId, Status};
use wire::Conn;

use super::journal_entry::note;
use super::{LinkSession, PeerTarget, RequestForm, RouteBackend};
use crate::backend::{self, AppMethod, DubboApp, HttpApp};
use crate::call::{
    Call, Encoded, LinkCaller, Outcome, ReplyTo, Times, UNTOLD, WholeBody, error_reply,
};
use crate::codec;
use crate::error::{CallError, Code};
use crate::facts::WholeFacts;
use crate::gate::{Admission, Admitted, Borrower, WaitingAtGate};
use crate::journal::JournalEntry;
use crate::priority;
use crate::route::WHOLE;
use crate::stages::{self, Stage, StageClock};
use crate::upstream::dubbo::{self, DubboClient, refused};
use crate::upstream::{MessageLen, ReadyLane};

/// A short payload that waits is copied rather than that it keeps the whole buffer alive that it
/// was read into.
pub(super) const MAX_COPIED_LEN: usize = 64 << 10;

/// A request of the peer: what a [`Call`] borrows, and what it takes to answer it.
pub(super) struct PeerRequest {
    pub(super) id: CallId,
    pub(super) codec: u8,
    pub(super) times: Times,
    pub(super) meta: Meta,
    pub(super) payload: Bytes,
    pub(super) one_way: bool,
    /// What is to be told of it, if anybody wants to know: whoever ends it takes it.
    pub(super) entry: Cell<Option<Box<JournalEntry>>>,
    /// What stops the time of its stages, if anything does.
    pub(super) clock: Option<Rc<StageClock>>,
    /// The caller would like to know how long the app took.
    pub(super) timed: bool,
}

/// A call that was let in and is not sent yet.
struct Unsent(Option<Admitted>);

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(admitted) = self.0.take() {
            admitted.unused(Instant::now());
        }
    }
}

impl PeerRequest {
    /// The request as a call of what `method` says.
    fn call<'a, M, P>(
        &'a self,
        method: M,
        payload: P,
        attachments: &'a [(&'a str, &'a str)],
    ) -> Call<'a, M, P> {
        let (times, one_way, clock) = (self.times, self.one_way, self.clock.as_ref());
        Call { method, payload, attachments, times, one_way, clock, headers: None, not_at: None }
    }

    /// How much it matters while it waits.
    #[cold]
    fn priority(&self, def: &RouteDef) -> Priority {
        let body = &self.payload;
        let whole = WholeBody { serialization: codec::serialization(self.codec), body };
        if def.method == WHOLE {
            return priority::of(&WholeFacts::new(whole), Priority::default());
        }
        let told = self.meta.iter().find(|(name, _)| *name == priority::ATTACHMENT);
        told.and_then(|(_, value)| Priority::of_name(value)).unwrap_or_default()
    }

    /// The same for one that is a whole Dubbo request.
    fn whole(&self, serialization: Serialization) -> Call<'_, (), WholeBody<'_>> {
        self.call((), WholeBody { serialization, body: &self.payload }, &[])
    }
}

impl LinkSession {
    pub(super) fn request(&self, route: RouteId, call: PeerRequest) {
        let target = match self.routes.borrow().get(route.index()).map(|route| &route.target) {
            Some(PeerTarget::Known(target)) => Rc::clone(target),
            Some(PeerTarget::Withdrawn(_)) => {
                let text = "the service is no longer exported";
                return self.refuse(&call, Status::NOT_FOUND_SERVICE, text);
            }
            // It was sent before its caller heard of the refusal.
            Some(PeerTarget::Refused { status, text }) => {
                return self.refuse(&call, *status, text);
            }
            None => {
                debug_assert!(false, "a request of a route that is not defined fails the link");
                return self.refuse(&call, Status::NOT_FOUND_SERVICE, "no such route");
            }
        };
        if call.codec != codec::UNSET && !target.takes(call.codec) {
            return self.refuse(&call, Status::UNSUPPORTED_CODEC, &target.wrong_codec(call.codec));
        }
        if let Some(mut entry) = call.entry.take() {
            note(&mut entry, &target.def, &call);
            call.entry.set(Some(entry));
        }
        let Times { now, deadline } = call.times;
        let class = || call.priority(&target.def);
        match target.backend.gate.admit(now, CallerId::known(self.number()), deadline, class) {
            Admission::In(admitted) => match target.backend.gate.sent_at(now) {
                None => self.begin(&target, call, admitted),
                Some(at) => self.begin_at(at, target, call, admitted),
            },
            Admission::Waits(waiting) => {
                self.borrow(&target, now);
                self.wait(target, call, waiting);
            }
            Admission::Shed(error) => {
                self.borrow(&target, now);
                self.shed(&target, &call, &error);
            }
        }
    }

    /// The app has no room: the next calls are to wait at the peer.
    #[cold]
    fn borrow(&self, target: &RouteBackend, now: Instant) {
        if let Some(pool) = &target.pool {
            let borrower: Rc<dyn Borrower> = Rc::clone(pool) as _;
            pool.gate.lend(now, self.number(), &borrower);
        }
    }

    /// A number that no other session of the worker has.
    pub(super) fn number(&self) -> u64 {
        Rc::as_ptr(&self.taking).addr() as u64
    }

    #[inline]
    fn begin(&self, target: &Rc<RouteBackend>, call: PeerRequest, admitted: Admitted) {
        match &target.way {
            RequestForm::Dubbo(app, template) => {
                self.request_dubbo(app, template.as_ref(), target, call, admitted);
            }
            RequestForm::Http(app, def) => {
                self.request_http(app, def.as_deref(), target, &call, admitted);
            }
        }
    }

    /// Has a task wait until a thread of the app is free for certain.
    #[cold]
    fn begin_at(
        &self,
        at: Instant,
        target: Rc<RouteBackend>,
        call: PeerRequest,
        admitted: Admitted,
    ) {
        let mut unsent = Unsent(Some(admitted));
        self.hold(target, call, async move {
            tokio::time::sleep_until(at.into()).await;
            let forgotten = || CallError::new(Code::Internal, "a call that was let in is gone");
            unsent.0.take().ok_or_else(forgotten)
        });
    }

    /// Has a task wait until the app has room for the call.
    #[cold]
    fn wait(&self, target: Rc<RouteBackend>, call: PeerRequest, waiting: WaitingAtGate) {
        self.hold(target, call, waiting.admitted());
    }

    /// Holds a call, within the budget, until it may begin.
    fn hold(
        &self,
        target: Rc<RouteBackend>,
        mut call: PeerRequest,
        admitted: impl Future<Output = Result<Admitted, CallError>> + 'static,
    ) {
        let account = self.conn.look(|link| Rc::clone(link.account()));
        let held = match account.take(call.payload.len()) {
            Ok(held) => held,
            Err(refused) => return self.shed(&target, &call, &refused.into()),
        };
        if call.payload.len() <= MAX_COPIED_LEN {
            call.payload = Bytes::copy_from_slice(&call.payload);
        }
        let (session, id, one_way) = (self.clone(), call.id, call.one_way);
        let task = tokio::task::spawn_local(async move {
            let admitted = admitted.await;
            session.running.borrow_mut().remove(&id);
            drop(held);
            match admitted {
                Ok(admitted) => {
                    call.times.now = Instant::now();
                    session.begin(&target, call, admitted);
                }
                Err(error) => session.shed(&target, &call, &error),
            }
        });
        if !one_way {
            self.running.borrow_mut().insert(id, task.abort_handle());
        }
    }

    /// Ends a call that the app has not seen.
    #[cold]
    fn shed(&self, target: &RouteBackend, call: &PeerRequest, error: &CallError) {
        if let Some(entry) = call.entry.take() {
            entry.failed(error, None);
        }
        let stats = &target.backend.stats;
        stats.started();
        stats.finished(call.times.now.elapsed(), Some(error.code as u8));
        if !call.one_way {
            self.conn.with(|link| link.respond(call.id, error_reply(error)));
        }
    }

    fn request_dubbo(
        &self,
        app: &DubboApp,
        template: Option<&Rc<RequestTemplate>>,
        target: &Rc<RouteBackend>,
        mut call: PeerRequest,
        admitted: Admitted,
    ) {
        let len = MessageLen { request: call.payload.len(), reply: target.route.reply_len.get() };
        match app.upstream.conn(len, call.times.now) {
            Ok(Some(conn)) => self.pass_on(template, target, &conn, &call, admitted),
            Ok(None) => {
                let (session, target) = (self.clone(), Rc::clone(target));
                let template = template.cloned();
                let lanes = Rc::clone(&app.upstream);
                tokio::task::spawn_local(async move {
                    let Times { now, deadline } = call.times;
                    match lanes.conn_soon(len, deadline, now, |_| true).await {
                        Ok(ReadyLane { conn, now, .. }) => {
                            call.times.now = now;
                            session.pass_on(template.as_ref(), &target, &conn, &call, admitted);
                        }
                        Err(error) => {
                            session.caller(&target, &call, admitted).complete(Err(error));
                        }
                    }
                });
            }
            Err(error) => self.caller(target, &call, admitted).complete(Err(error)),
        }
    }

    fn request_http(
        &self,
        app: &Rc<HttpApp>,
        def: Option<&RouteDef>,
        target: &RouteBackend,
        call: &PeerRequest,
        admitted: Admitted,
    ) {
        let serialization = match call.codec {
            codec::UNSET => target.preferred(),
            codec => codec::serialization(codec),
        };
        let serialization = serialization.of_body(&call.payload);
        let (id, one_way, caller) = (call.id, call.one_way, self.caller(target, call, admitted));
        stages::enter(call.clock.as_ref(), Stage::Network);
        let running = Rc::clone(&self.running);
        let done = move |outcome: Outcome| {
            running.borrow_mut().remove(&id);
            match one_way {
                true => caller.finish(outcome.as_ref().err()),
                false => caller.complete(outcome),
            }
        };
        let handle = match def {
            Some(def) => {
                let constant = def.attachments.iter();
                let constant = constant.map(|(name, value)| (name.as_str(), value.as_str()));
                let all = constant.chain(&call.meta).filter(|one| *one != UNTOLD);
                let attachments: Vec<(&str, &str)> = all.collect();
                let (name, descriptor) = (&*def.method, &*def.descriptor);
                let method = AppMethod { name, descriptor, takes_attachments: true };
                let payload = Encoded { serialization, bytes: &call.payload };
                app.call(&call.call(method, payload, &attachments), done)
            }
            None => backend::call_whole(app, &call.whole(serialization), done),
        };
        if let Some(handle) = handle.filter(|_| !one_way) {
            self.running.borrow_mut().insert(id, handle);
        }
    }

    fn pass_on(
        &self,
        template: Option<&Rc<RequestTemplate>>,
        target: &Rc<RouteBackend>,
        conn: &Conn<DubboClient>,
        call: &PeerRequest,
        admitted: Admitted,
    ) {
        let kept = self.keep(target, call, &admitted);
        let caller = LinkCaller { kept, ..self.caller(target, call, admitted) };
        self.send(template, conn, call, call.times, caller);
    }

    /// Sends a request to a Dubbo app.
    #[inline]
    pub(super) fn send(
        &self,
        template: Option<&Rc<RequestTemplate>>,
        conn: &Conn<DubboClient>,
        call: &PeerRequest,
        times: Times,
        caller: LinkCaller,
    ) {
        let (to, unanswered) = match call.one_way {
            true => (None, Some(caller)),
            false => (Some(ReplyTo::Link(caller)), None),
        };
        let sent = match template {
            Some(template) => {
                let attachments: Vec<(&str, &str)> = call.meta.iter().collect();
                let serialization = template.serialization();
                let payload = Encoded { serialization, bytes: &call.payload };
                let request = call.call(&**template, payload, &attachments);
                dubbo::send(conn, &Call { times, ..request }, to)
            }
            None => {
                let request = call.whole(codec::serialization(call.codec));
                dubbo::send_whole(conn, &Call { times, ..request }, to)
            }
        };
        let error = sent.err().map(|unsent| (unsent.0, not_passed_on(&unsent.1)));
        match (unanswered, error) {
            (Some(caller), error) => caller.sent_one_way(error.as_ref().map(|(_, error)| error)),
            (None, Some((Some(to), error))) => to.complete(Err(error)),
            (None, _) => {}
        }
    }

    /// Who waits for the answer to a call that from now on counts as one of the backend's.
    fn caller(&self, target: &RouteBackend, call: &PeerRequest, admitted: Admitted) -> LinkCaller {
        target.backend.stats.started();
        let mut entry = call.entry.take();
        if let Some(entry) = entry.as_mut().filter(|_| call.timed) {
            entry.passed_on(call.times.now);
        }
        LinkCaller {
            conn: self.conn.clone(),
            id: call.id,
            route: Rc::clone(&target.route),
            admitted,
            kept: None,
            entry,
        }
    }

    fn refuse(&self, call: &PeerRequest, status: Status, text: &str) {
        if let Some(entry) = call.entry.take() {
            entry.failed(&CallError::new(Code::from_link(status), text), None);
        }
        self.conn.with(|link| link.respond(call.id, link_proto::Reply::error(status, text)));
    }
}

/// Why the app's connection did not take a request, which is limited by the listener of links.
fn not_passed_on(error: &SendError) -> CallError {
    let SendError::Encode(ProtoError::PayloadTooLong { len, max }) = error else {
        return refused(error);
    };
    let message = format!(
        "a request of {len} bytes, with its names and attachments, is over the limit of {max} of \
         the provider's agent (max_body_bytes of its [link])"
    );
    CallError::new(Code::BodyTooLarge, message)
}
