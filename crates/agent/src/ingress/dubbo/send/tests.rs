use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Waker};

use bytes::BytesMut;
use dubbo_proto::{
    ClientConfig, ClientConnection, ClientEvent, RequestHead, RequestTemplate, Serialization,
    ServerEvent, ServiceKey, Status, error_text,
};
use registry::{Endpoint, Protocol, Snapshot};
use wire::{Group, Machine};

use super::super::machine::{MAX_IN_FLIGHT, MAX_WAITING_ONE_WAY};
use super::super::waiting::{MAX_COPIED_LEN, pass_on};
use super::super::{DubboListener, Offers};
use super::*;
use crate::config::DubboLimits;
use crate::connections::Session;
use crate::metrics::CallTotals;
use crate::route::{ParameterTypes, Plan, RouteName, WHOLE};
use crate::routes::NewRoute;
use crate::testing::{NOWHERE, account, offer, on_worker, until, worker_setup};
use crate::worker::Worker;

const SERVICE: &str = "com.acme.Echo";
const LONG: Duration = Duration::from_secs(3600);

/// A connection in memory: a Dubbo consumer, and the session that serves it.
struct ConsumerFixture {
    client: ClientConnection<u32>,
    session: Rc<DubboSession>,
    worker: Rc<Worker>,
}

impl ConsumerFixture {
    /// A consumer of a worker that exports one service of a Dubbo app, and knows an empty
    /// registry.
    fn new(offers: Offers) -> Self {
        let setup = worker_setup(vec![offer(SERVICE, 1)]);
        let hub = setup.hub.clone();
        let worker = Worker::new(setup);
        let limits = DubboLimits {
            max_connections: 1,
            max_body_len: 1 << 20,
            body_timeout: LONG,
            write_timeout: LONG,
            heartbeat: LONG,
        };
        let (stats, memory) = (vec![hub.ingress("dubbo")], Group::new());
        let listener = Arc::new(DubboListener { offers, limits, stats, memory });
        let session = DubboSession::new(&worker, listener, account(), wire::Peer::Unix);
        let client = ClientConnection::new(ClientConfig::default(), Instant::now());
        Self { client, session, worker }
    }

    fn of_exports() -> Self {
        Self::new(Offers::Exports)
    }

    fn template(service: &str) -> RequestTemplate {
        let head = RequestHead { path: service, version: "", method: "echo", descriptor: "" };
        let attachments = [("path", service), ("interface", service)];
        RequestTemplate::new(Serialization::Hessian2, &head, &attachments).unwrap()
    }

    /// Sends a request and has the session read it; the answer, if there is one at once.
    fn ask(&mut self, service: &str) -> Option<(Status, String)> {
        let template = Self::template(service);
        let now = Instant::now();
        self.client.send(now, &template, b"", &[], now + LONG, 7).unwrap();
        self.carry()
    }

    fn ask_one_way(&mut self, service: &str) {
        self.client.send_one_way(Instant::now(), &Self::template(service), b"", &[]).unwrap();
        self.carry();
    }

    /// Carries bytes there and back; the answer to a request, if it has come.
    fn carry(&mut self) -> Option<(Status, String)> {
        let now = Instant::now();
        let mut out = self.client.transmit().split();
        self.session.conn.with(|app| app.handle_bytes(now, &mut out)).unwrap();
        while let Some(event) = self.session.conn.with(|app| Machine::poll_event(&mut *app)) {
            self.session.on_event(event);
        }
        let mut back: BytesMut = self.session.conn.with(|app| Machine::transmit(&mut *app).split());
        self.client.handle_bytes(now, &mut back).unwrap();
        std::iter::from_fn(|| self.client.poll_event()).find_map(|event| match event {
            ClientEvent::Reply { status, serialization, body, .. } => {
                Some((status, error_text(serialization, &body).into_owned()))
            }
            _ => None,
        })
    }

    /// What is kept of requests: bytes, and how many are one-way.
    fn kept(&self) -> (usize, usize) {
        (self.session.kept_len.get(), self.session.conn.look(|app| app.n_waiting_one_way()))
    }

    /// Whether more is read of it.
    fn is_read(&self) -> bool {
        self.session.conn.look(Machine::wants_input)
    }

    fn n_in_flight(&self) -> usize {
        self.session.conn.look(|app| app.in_flight())
    }
}

#[test]
fn a_service_that_nobody_offers_is_refused_at_once() {
    on_worker(async || {
        let mut consumer = ConsumerFixture::of_exports();
        let (status, text) = consumer.ask("com.acme.Other").expect("nothing is waited for");
        assert_eq!(status, Status::ServiceNotFound);
        assert!(text.contains("this agent does not offer"), "{text}");
        assert_eq!((consumer.kept(), consumer.n_in_flight()), ((0, 0), 0));
    });
}

/// A request may come before it is known whether the app is there. It waits for that.
#[test]
fn a_request_waits_for_the_first_connection_to_the_app() {
    on_worker(async || {
        let mut consumer = ConsumerFixture::of_exports();
        assert_eq!(consumer.ask(SERVICE), None);
        assert_eq!(consumer.n_in_flight(), 1);
        let (kept_len, n_one_way) = consumer.kept();
        assert!(0 < kept_len && n_one_way == 0);
        let (status, text) = until(|| consumer.carry()).await;
        assert_eq!(status, Status::ServerError);
        assert!(text.contains("unreachable"), "{text}");
        assert_eq!((consumer.kept(), consumer.n_in_flight()), ((0, 0), 0));
        // Now that it is known, nothing waits.
        assert!(consumer.ask(SERVICE).is_some());
        assert_eq!(consumer.kept(), (0, 0));
    });
}

#[test]
fn a_one_way_request_waits_too_and_is_not_answered() {
    on_worker(async || {
        let mut consumer = ConsumerFixture::of_exports();
        consumer.ask_one_way(SERVICE);
        let (kept_len, n_one_way) = consumer.kept();
        assert!(0 < kept_len && n_one_way == 1);
        until(|| (consumer.kept() == (0, 0)).then_some(())).await;
        assert_eq!(consumer.carry(), None);
    });
}

#[test]
fn what_waits_is_bounded() {
    on_worker(async || {
        let mut consumer = ConsumerFixture::of_exports();
        assert!(consumer.session.keep_bytes(super::super::session::MAX_KEPT_LEN));
        let (status, text) = consumer.ask(SERVICE).expect("it is refused at once");
        assert_eq!(status, Status::ServerThreadpoolExhausted);
        assert!(text.contains("wait for an endpoint"), "{text}");
    });
}

/// At the limits of what waits, a consumer is read no further. It is read again when some have
/// ended.
#[test]
fn a_consumer_with_many_requests_in_flight_is_read_later() {
    on_worker(async || {
        let mut consumer = ConsumerFixture::of_exports();
        for n in 0..MAX_WAITING_ONE_WAY {
            assert!(consumer.is_read(), "{n}");
            consumer.ask_one_way(SERVICE);
        }
        assert!(!consumer.is_read());
        assert_eq!(consumer.kept().1, MAX_WAITING_ONE_WAY, "none was dropped");
        until(|| (consumer.kept() == (0, 0)).then_some(())).await;
        assert!(consumer.is_read());
    });
    on_worker(async || {
        let mut consumer = ConsumerFixture::of_exports();
        let now = Instant::now();
        consumer.client.send(now, &ConsumerFixture::template(SERVICE), b"", &[], now, 7).unwrap();
        let request = consumer.client.transmit().split();
        let conn = &consumer.session.conn;
        let mut last = None;
        for n in 0..MAX_IN_FLIGHT {
            assert!(consumer.is_read(), "{n}");
            conn.with(|app| app.handle_bytes(now, &mut request.clone())).unwrap();
            last = conn.with(|app| Machine::poll_event(&mut *app));
        }
        assert!(!consumer.is_read());
        let held = consumer.session.activity().held_bytes;
        assert!(MAX_IN_FLIGHT * 1024 <= held, "{held} bytes are counted for them");
        let Some(ServerEvent::Body { to, .. }) = last.map(|timed| timed.event) else { panic!() };
        conn.with(|app| app.reply_error(now, to, Status::ServerError, ""));
        assert!(consumer.is_read());
    });
}

/// A refusal takes no task, so that a flood of requests takes no memory until their turns.
#[test]
fn what_has_no_endpoint_is_refused_in_its_turn() {
    on_worker(async || {
        let mut consumer =
            ConsumerFixture::new(Offers::Registry { registry: 0, default_service: None });
        let refused = consumer.ask("com.acme.Nobody");
        let (status, text) = refused.expect("answered in the turn in which it was read");
        assert_eq!(status, Status::ServiceNotFound, "{text}");
        consumer.ask_one_way("com.acme.Nobody");
        assert_eq!((consumer.kept(), consumer.n_in_flight()), ((0, 0), 0));
    });
}

/// A consumer that goes away gives up what waits for it.
#[test]
fn a_flight_that_is_given_up_frees_what_it_kept() {
    on_worker(async || {
        let mut consumer = ConsumerFixture::of_exports();
        assert_eq!(consumer.ask(SERVICE), None);
        assert!(0 < consumer.kept().0);
        let flights = consumer.session.flights.borrow_mut().take_all();
        assert_eq!(flights.len(), 1);
        flights.into_iter().for_each(super::super::flights::Flight::cancel);
        until(|| (consumer.kept() == (0, 0)).then_some(())).await;
    });
}

/// Who waits for the first connection to an app counts, until its caller goes away.
#[test]
fn an_exports_call_that_is_given_up_is_counted_as_ended() {
    on_worker(async || {
        let consumer = ConsumerFixture::of_exports();
        let key = ServiceKey::new(SERVICE, "", "").unwrap();
        let (backend, max_timeout) = consumer.worker.backend(&key).unwrap();
        let (stats, received) = (Arc::clone(&backend.stats), received(true));
        let counted = || {
            let mut totals = CallTotals::default();
            totals.add(&stats);
            let failed: Vec<_> = totals.failed(&Code::NAMES).collect();
            (totals.in_flight(), failed)
        };
        let (session, deadline) = (&consumer.session, received.now + LONG);
        let admitted = backend.gate.enter(received.now).unwrap();
        let waiting = WaitingRequest::ForApp(ExportedApp { backend, max_timeout }, admitted);
        {
            let mut call = pin!(pass_on(waiting, &received, session.caller(), deadline));
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(counted(), (1, Vec::new()));
        }
        assert_eq!(counted(), (0, vec![("cancelled".to_owned(), 1)]));
    });
}

/// A route of whole requests to so many endpoints, where nothing listens.
fn route(worker: &Rc<Worker>, n_endpoints: u16) -> Rc<ClusterRoute> {
    let key = ServiceKey::new(SERVICE, "", "").unwrap();
    let cluster = worker.outbound.cluster(0, key).unwrap();
    let endpoint = |port| Endpoint::new(Protocol::Dubbo, NOWHERE.0, port);
    cluster.update(&Snapshot {
        status: registry::Freshness::Current,
        endpoints: (1..=n_endpoints).map(endpoint).collect(),
        unused: Arc::new([]),
    });
    let name = RouteName {
        interface: SERVICE,
        version: "",
        group: "",
        method: WHOLE,
        types: None,
        generic: None,
    };
    let (parameters, plan) = (ParameterTypes::Unknown, Plan::default());
    worker.outbound.routes.insert(0, &name, 0, NewRoute { cluster, parameters, plan }).unwrap()
}

fn received(two_way: bool) -> DubboRequest {
    let to = dubbo_proto::ReplyTo {
        id: 7,
        serialization: Serialization::Hessian2,
        takes_attachments: false,
    };
    DubboRequest {
        to,
        two_way,
        body: Bytes::from_static(b"body"),
        now: Instant::now(),
        entry: Cell::default(),
        clock: None,
        may_force_tag: Cell::default(),
    }
}

/// A body is kept for another endpoint only where there is one.
#[test]
fn a_request_is_kept_only_where_there_is_a_choice() {
    on_worker(async || {
        let consumer = ConsumerFixture::of_exports();
        let (session, deadline) = (&consumer.session, Instant::now() + LONG);
        let only = route(&consumer.worker, 1);
        assert!(session.keep(&only, &received(true).body, deadline).is_none());
        let several = route(&consumer.worker, 2);
        let again = session.keep(&several, &received(true).body, deadline).unwrap();
        assert_eq!((&*again.body, consumer.kept().0), (&b"body"[..], 4));
        session.keep_bytes(super::super::session::MAX_KEPT_LEN - 4);
        assert!(session.keep(&several, &received(true).body, deadline).is_none(), "no room");
    });
}

#[test]
fn a_received_request_lends_a_call() {
    let deadline = Instant::now() + LONG;
    for two_way in [true, false] {
        let received = received(two_way);
        let call = received.call((), deadline);
        assert!(std::ptr::eq(call.payload.body, &received.body), "nothing is copied");
        assert_eq!((call.one_way, call.times.deadline), (!two_way, deadline));
        assert!(call.attachments.is_empty(), "they are in the body");
    }
}

#[test]
fn short_bodies_do_not_keep_long_buffers() {
    let buffer = Bytes::from(vec![7; 1 << 20]);
    let short = buffer.slice(..MAX_COPIED_LEN);
    assert_ne!(compact(&short).as_ptr(), short.as_ptr());
    assert_eq!(compact(&short), short);
    let long = buffer.slice(..=MAX_COPIED_LEN);
    assert_eq!(compact(&long).as_ptr(), long.as_ptr());
}
