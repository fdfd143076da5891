//! How a consumer's requests are sent on: at once to an endpoint that is connected, or by a task,
//! if they have to wait (`waiting`).

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flow::queue::{CallerId, Priority};

use super::flights::{Again, CallCounter, CallLocation, Flight};
use super::received::DubboRequest;
use super::services::ExportedApp;
use super::session::DubboSession;
use super::waiting::{CountedRequest, WaitingRequest, compact};
use crate::backend::{self, App, HttpApp};
use crate::call::{Consumer, DubboToken, Outcome, ReplyTo, Times, counted_as};
use crate::cluster::{Attempt, Doubt, MethodRule, request_for};
use crate::error::{CallError, Code};
use crate::expected_len::ExpectedLen;
use crate::gate::{Admission, Admitted};
use crate::invocation::CallOrigin;
use crate::invoke::mirror;
use crate::journal::RecordedAnswer;
use crate::memory::check_room;
use crate::metrics::CallStats;
use crate::priority;
use crate::route::RouteVariant;
use crate::routes::ClusterRoute;
use crate::stages::{Stage, enter};
use crate::upstream::dubbo::{DubboPeer, refused};
use crate::upstream::link::LinkPeer;
use crate::upstream::{
    AnyUpstream, Lanes, LinkCall, MessageLen, Standing, Upstream, check_share, dubbo,
};

/// Stands for the number of a call that is not answered.
const NO_NUMBER: u32 = u32::MAX;

/// A request with the number that its answer finds it by, and until when it counts.
#[derive(Clone, Copy)]
struct NumberedRequest<'a> {
    received: &'a DubboRequest,
    deadline: Instant,
    /// [`NO_NUMBER`] if it is not answered.
    number: u32,
}

impl DubboSession {
    /// Sends a request to an endpoint that is connected, or has a task wait for one.
    #[inline]
    pub(super) fn send_to_route(
        self: &Rc<Self>,
        received: &DubboRequest,
        route: Rc<ClusterRoute>,
        timeout: Option<Duration>,
        reply_len: Rc<ExpectedLen>,
    ) {
        let (detoured, route) = match route.cluster.is_diverted() {
            true => match self.divert(received, route) {
                Ok(diverted) => diverted,
                Err(error) => return self.refuse(received, &error),
            },
            false => (None, route),
        };
        let received = detoured.as_ref().unwrap_or(received);
        route.count_call();
        let deadline = received.now + route.cluster.longest(timeout);
        if let Some(rule) = route.cluster.method_rule(&received.facts()) {
            if let Err(error) = self.check_method(received, &route, &rule) {
                return self.refuse(received, &error);
            }
            if rule.mirror().is_some() {
                self.mirror(received, &route, &rule);
            }
            if rule.is_involved() {
                return self.wait(received, WaitingRequest::Ruled(route, rule), deadline);
            }
        }
        let Some(attempt) = route.cluster.begin(received.now, &received.facts()) else {
            return self.wait_for_endpoint(received, route, deadline);
        };
        let number = self.reserve(received);
        let request = NumberedRequest { received, deadline, number };
        match self.send_attempt(&attempt, request, &route, &reply_len) {
            Ok(Some(_)) if number == NO_NUMBER => {
                attempt.sent_one_way();
                self.sent_one_way(received);
            }
            Ok(Some(sent)) => {
                let again = match attempt.may_be_rejected() {
                    true => self.keep_again(&route, &received.body, deadline),
                    false => self.keep(&route, &received.body, deadline),
                };
                let counted = CallCounter::Attempt(attempt);
                let (to, started, reply_len) = (received.to, received.now, Some(reply_len));
                let entry = received.entry.take();
                let flight =
                    Flight { to, started, deadline, counted, sent, again, reply_len, entry };
                self.flights.borrow_mut().put(number, Box::new(flight));
            }
            Ok(None) => {
                self.flights.borrow_mut().release(number);
                attempt.unused(received.now);
                self.wait_for_endpoint(received, route, deadline);
            }
            Err(error) => {
                self.flights.borrow_mut().release(number);
                self.not_sent(received, route, attempt, deadline, &error);
            }
        }
    }

    /// Sends a request to the endpoint that was chosen for it, if it is connected.
    #[inline]
    fn send_attempt(
        self: &Rc<Self>,
        attempt: &Attempt,
        request: NumberedRequest<'_>,
        route: &Rc<ClusterRoute>,
        reply_len: &ExpectedLen,
    ) -> Result<Option<CallLocation>, CallError> {
        let NumberedRequest { received, deadline, number } = request;
        attempt.check_limit()?;
        let body = attempt.whole_for(received.call((), deadline).payload)?;
        let named = body.map(|body| received.with_body(body));
        let received = named.as_ref().unwrap_or(received);
        let request = NumberedRequest { received, ..request };
        match attempt.upstream() {
            AnyUpstream::Dubbo(lanes) => {
                let may_send = |_: usize| attempt.check_share(self.n_others(number));
                self.send_dubbo(lanes, request, reply_len, may_send)
            }
            AnyUpstream::Link(lanes) => {
                let reply = reply_len.get();
                let len = MessageLen { request: received.body.len(), reply };
                let variant = attempt.variant(&route.route);
                let variant = variant.as_deref().unwrap_or(&route.own);
                let service = &*variant.service;
                let call = LinkCall { service, credit: attempt.credit(), len };
                let upstream = lanes.pick_link(&call, received.now);
                self.send_link(&upstream, request, route, variant)
            }
        }
    }

    /// The request as it goes to another version or group, if it does, and its route then.
    #[cold]
    fn divert(
        &self,
        received: &DubboRequest,
        route: Rc<ClusterRoute>,
    ) -> Result<(Option<DubboRequest>, Rc<ClusterRoute>), CallError> {
        let Some(registry) = self.services.registry() else { return Ok((None, route)) };
        let outbound = &self.services.worker().outbound;
        let facts = received.facts();
        let Some(key) = route.cluster.detour(&facts) else { return Ok((None, route)) };
        let route = outbound.whole_route(registry, &key)?;
        let request = facts.request().ok_or_else(|| {
            let message = format!("the call cannot go to {key}: its request cannot be read");
            CallError::new(Code::BadRequest, message)
        })?;
        let body = request_for(request, &key)?;
        let detoured = received.with_body(body);
        detoured.entry.set(received.entry.take());
        Ok((Some(detoured), route))
    }

    /// Copies a request whose method says so.
    #[cold]
    fn mirror(&self, received: &DubboRequest, route: &ClusterRoute, rule: &Rc<MethodRule>) {
        let worker = self.services.worker();
        if let Some(registry) = self.services.registry() {
            let call = received.call((), received.now);
            mirror::of_whole(&worker.outbound, registry, &call, rule, &route.cluster);
        }
    }

    /// Whether a call may be sent, by what holds for its method.
    #[cold]
    fn check_method(
        self: &Rc<Self>,
        received: &DubboRequest,
        route: &ClusterRoute,
        rule: &MethodRule,
    ) -> Result<(), CallError> {
        let origin =
            CallOrigin { caller: self.caller(), address: Some(self.peer.ip()), headers: None };
        route.cluster.check_rate(rule, received.now, &received.facts(), origin)
    }

    /// Sends a request to the app behind an export.
    #[inline]
    pub(super) fn send_to_export(
        self: &Rc<Self>,
        received: &DubboRequest,
        export: ExportedApp,
        timeout: Option<Duration>,
        reply_len: Rc<ExpectedLen>,
    ) {
        let ExportedApp { backend, max_timeout } = &export;
        let deadline =
            received.now + timeout.map_or(*max_timeout, |wanted| wanted.min(*max_timeout));
        let class = || priority::of(&received.facts(), Priority::default());
        match backend.gate.admit(received.now, self.caller(), deadline, class) {
            Admission::In(admitted) => {
                self.send_to_app(received, export, deadline, reply_len, admitted);
            }
            Admission::Waits(waiting) => {
                self.wait(received, WaitingRequest::AtGate(export, waiting), deadline);
            }
            Admission::Shed(error) => self.not_admitted(received, &backend.stats, &error),
        }
    }

    /// Ends a call that nobody wants an answer to, and that is on its way.
    fn sent_one_way(&self, received: &DubboRequest) {
        if let Some(entry) = received.entry.take() {
            entry.answered(RecordedAnswer::default());
        }
        self.stats.sent_one_way();
    }

    /// The consumer, by a number that no other session of the worker has.
    pub(super) fn caller(self: &Rc<Self>) -> CallerId {
        CallerId { number: Rc::as_ptr(self).addr() as u64, is_known: self.is_known.get() }
    }

    /// Sends a request that was let in.
    #[inline]
    fn send_to_app(
        self: &Rc<Self>,
        received: &DubboRequest,
        export: ExportedApp,
        deadline: Instant,
        reply_len: Rc<ExpectedLen>,
        admitted: Admitted,
    ) {
        let backend = &export.backend;
        let app = match &backend.app {
            App::Dubbo(app) => app,
            App::Http(app) => {
                return self.send_to_http_app(received, &backend.stats, app, deadline, admitted);
            }
        };
        // A task keeps the request, to offer it again.
        let is_kept = received.two_way && admitted.may_be_rejected();
        if is_kept && self.may_keep(received.body.len()) {
            return self.wait(received, WaitingRequest::ForApp(export, admitted), deadline);
        }
        let number = self.reserve(received);
        let may_send = |in_flight| {
            let share = check_share(self.n_others(number), in_flight, app.upstream.max_in_flight());
            share.map_err(|error| error.at(app.upstream.address()))
        };
        let request = NumberedRequest { received, deadline, number };
        match self.send_dubbo(&app.upstream, request, &reply_len, may_send) {
            Ok(None) => {
                self.flights.borrow_mut().release(number);
                self.wait(received, WaitingRequest::ForApp(export, admitted), deadline);
            }
            Ok(_) if number == NO_NUMBER => {
                admitted.sent_one_way(received.now);
                backend.stats.started();
                backend.stats.sent_one_way();
                self.sent_one_way(received);
            }
            Ok(Some(sent)) => {
                backend.stats.started();
                let counted = CallCounter::Export(Arc::clone(&backend.stats), admitted);
                let (to, started, reply_len) = (received.to, received.now, Some(reply_len));
                let (entry, again) = (received.entry.take(), None);
                let flight =
                    Flight { to, started, deadline, counted, sent, again, reply_len, entry };
                self.flights.borrow_mut().put(number, Box::new(flight));
            }
            Err(error) => {
                self.flights.borrow_mut().release(number);
                admitted.failed(received.now, &error);
                self.not_admitted(received, &backend.stats, &error);
            }
        }
    }

    /// Ends a call that the app has not seen.
    #[cold]
    fn not_admitted(&self, received: &DubboRequest, stats: &CallStats, error: &CallError) {
        stats.started();
        stats.finished(received.now.elapsed(), Some(error.code as u8));
        self.refuse(received, error);
    }

    fn send_to_http_app(
        self: &Rc<Self>,
        received: &DubboRequest,
        stats: &Arc<CallStats>,
        app: &Rc<HttpApp>,
        deadline: Instant,
        admitted: Admitted,
    ) {
        let DubboRequest { to, two_way, ref body, now, ref entry, .. } = *received;
        let Some(kept) = CountedRequest::new(self, body.len(), false) else {
            let message = "too many requests of this connection wait for the app";
            let error = CallError::new(Code::Overloaded, message);
            admitted.failed(now, &error);
            return self.not_admitted(received, stats, &error);
        };
        stats.started();
        enter(received.clock.as_ref(), Stage::Network);
        let number = self.reserve(received);
        let mut of_one_way = Some(admitted);
        if let Some(admitted) = of_one_way.take_if(|_| two_way) {
            let counted = CallCounter::Export(Arc::clone(stats), admitted);
            let (sent, started, entry) = (CallLocation::Nowhere, now, received.entry.take());
            let (again, reply_len) = (None, None);
            let flight = Flight { to, started, deadline, counted, sent, again, reply_len, entry };
            self.flights.borrow_mut().put(number, Box::new(flight));
        }
        let (session, stats, entry) = (Rc::clone(self), Arc::clone(stats), entry.take());
        let done = move |outcome: Outcome| {
            drop(kept);
            let Some(admitted) = of_one_way else { return session.complete(number, outcome) };
            let (error, ended) = (outcome.as_ref().err(), Instant::now());
            admitted.ended(ended, error);
            stats.finished(ended - now, counted_as(&outcome).map(|code| code as u8));
            session.end_one_way(now, entry, error);
        };
        let task = backend::call_whole(app, &received.call((), deadline), done);
        if let (true, Some(task)) = (two_way, task) {
            self.flights.borrow_mut().moved(number, CallLocation::Task(task));
        }
    }

    /// A number for the call, if it is to be answered.
    #[inline]
    pub(super) fn reserve(&self, received: &DubboRequest) -> u32 {
        if received.two_way { self.flights.borrow_mut().reserve() } else { NO_NUMBER }
    }

    /// The connection's calls that are under way, but for the one of that number.
    #[inline]
    fn n_others(&self, number: u32) -> usize {
        self.flights.borrow().len() - usize::from(number != NO_NUMBER)
    }

    #[inline]
    fn token(self: &Rc<Self>, number: u32) -> ReplyTo {
        let consumer: Rc<dyn Consumer> = Rc::<Self>::clone(self);
        ReplyTo::Dubbo(DubboToken { consumer, number })
    }

    /// Nothing is sent while the connection that it goes by is opened. `may_send` is told how many
    /// calls that has in flight.
    #[inline]
    fn send_dubbo(
        self: &Rc<Self>,
        lanes: &Lanes<DubboPeer>,
        request: NumberedRequest<'_>,
        reply_len: &ExpectedLen,
        may_send: impl FnOnce(usize) -> Result<(), CallError>,
    ) -> Result<Option<CallLocation>, CallError> {
        let NumberedRequest { received, deadline, number } = request;
        let len = MessageLen { request: received.body.len(), reply: reply_len.get() };
        let Some(conn) = lanes.conn(len, received.now)? else { return Ok(None) };
        check_room(&conn, received.body.len())?;
        may_send(conn.look(|app| app.0.in_flight()))?;
        let to = (number != NO_NUMBER).then(|| self.token(number));
        match dubbo::send_whole(&conn, &received.call((), deadline), to) {
            Ok(id) => Ok(Some(CallLocation::Dubbo(conn, id))),
            Err(unsent) => Err(refused(&unsent.1).at(lanes.address())),
        }
    }

    /// Nothing is sent while the link is opened, or the peer has not said whether it takes such
    /// calls.
    fn send_link(
        self: &Rc<Self>,
        upstream: &Upstream<LinkPeer>,
        request: NumberedRequest<'_>,
        route: &Rc<ClusterRoute>,
        variant: &RouteVariant,
    ) -> Result<Option<CallLocation>, CallError> {
        let NumberedRequest { received, deadline, number } = request;
        let conn = match upstream.conn() {
            Err(_) if upstream.standing() == Standing::Connecting => return Ok(None),
            conn => conn?,
        };
        if !upstream.peer().knows(&conn, &route.route, variant) {
            return Ok(None);
        }
        let (in_flight, max) = conn.look(|link| (link.in_flight(), link.window()));
        check_share(self.n_others(number), in_flight, max)
            .map_err(|error| error.at(upstream.address()))?;
        let call = received.call(&route.route, deadline);
        let id = upstream.peer().send_whole(&conn, &call, variant, self.token(number))?;
        Ok(Some(CallLocation::Link(conn, id)))
    }

    /// What it takes to offer a call again, if there is anybody else to offer it to.
    #[inline]
    fn keep(
        &self,
        route: &Rc<ClusterRoute>,
        body: &Bytes,
        deadline: Instant,
    ) -> Option<Box<Again>> {
        if route.cluster.has_choice() { self.keep_again(route, body, deadline) } else { None }
    }

    /// What it takes to offer a call again, if there is room for it.
    #[inline]
    fn keep_again(
        &self,
        route: &Rc<ClusterRoute>,
        body: &Bytes,
        deadline: Instant,
    ) -> Option<Box<Again>> {
        if !self.keep_bytes(body.len()) {
            return None;
        }
        Some(Box::new(Again { route: Rc::clone(route), body: compact(body), deadline }))
    }

    /// An endpoint did not take a request: nobody has begun it.
    #[cold]
    fn not_sent(
        self: &Rc<Self>,
        received: &DubboRequest,
        route: Rc<ClusterRoute>,
        attempt: Attempt,
        deadline: Instant,
        error: &CallError,
    ) {
        let times = Times { now: received.now, deadline };
        let after = route.cluster.after_first(&attempt, times, error, &received.facts());
        let left = attempt.left(received.now, error);
        attempt.failed(received.now, error);
        match after {
            Ok(attempts) => {
                let waiting = WaitingRequest::ForEndpoint(route, attempts, Doubt::of(error));
                self.wait(received, waiting, deadline);
            }
            Err(_) => self.refuse(received, left.as_ref().unwrap_or(error)),
        }
    }

    /// Has a task wait for a first endpoint.
    #[cold]
    fn wait_for_endpoint(
        self: &Rc<Self>,
        received: &DubboRequest,
        route: Rc<ClusterRoute>,
        deadline: Instant,
    ) {
        let attempts = route.cluster.attempts(deadline);
        let waiting = WaitingRequest::ForEndpoint(route, attempts, Doubt::default());
        self.wait(received, waiting, deadline);
    }
}

#[cfg(test)]
mod tests;
