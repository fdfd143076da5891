use bytes::BytesMut;
use dubbo_proto::ServiceKey;
use link_proto::{Payload, RequestOut, RouteId};
use wire::Machine;

use super::*;
use crate::config::AppCapacity;
use crate::error::Code;
use crate::gate::{AppGate, SharedGate};
use crate::metrics::Hub;
use crate::testing::{NOWHERE, account, on_worker, pool, until};
use crate::upstream::EndpointAddress;
use crate::upstream::Setup;

const SERVICE: &str = "com.acme.Echo";

/// A link in memory: another agent's end, and the session that serves it.
struct Link {
    peer: Connection<u32>,
    session: Rc<LinkSession>,
    backend: Rc<Backend>,
}

impl Link {
    /// A link to an agent that exports one service of a Dubbo app, which speaks fastjson2.
    fn new() -> Self {
        let setup = Setup::new(&crate::config::ClusterPolicy::default());
        let (host, port) = NOWHERE;
        let (upstream, share) = pool().dubbo(EndpointAddress { host, port, tls: None }, setup);
        let service = ServiceKey::new(SERVICE, "", "").unwrap();
        let app = DubboApp::start(&service, Serialization::Fastjson2, upstream, share);
        let app = App::Dubbo(app);
        let shared = Arc::new(SharedGate::new("app".to_owned(), AppCapacity::Known(200), 1));
        let gate = AppGate::new(&shared, 0);
        let backend = Rc::new(Backend::new(service, app, &Hub::new(&Code::NAMES), gate));
        let backends: Rc<Backends> = Rc::default();
        backends.offer(1, &backend);
        let config = link_proto::Config::default();
        let session = LinkSession::new(
            config.clone(),
            Duration::from_secs(60),
            backends,
            account(),
            Peer::Unix,
            Journal::default(),
        );
        let peer = Connection::client(config, Instant::now());
        let mut link = Self { peer, session, backend };
        link.events();
        link
    }

    /// Carries bytes to and fro until both ends are silent; what the peer has heard.
    fn events(&mut self) -> Vec<Event<u32>> {
        let now = Instant::now();
        let mut heard = Vec::new();
        loop {
            let mut out = self.peer.transmit().split();
            let mut back: BytesMut = self.session.conn.with(|link| {
                link.handle_bytes(now, &mut out).unwrap();
                BytesMut::new()
            });
            while let Some(event) = self.session.conn.with(|link| Machine::poll_event(&mut *link)) {
                self.session.on_event(event);
            }
            self.session.conn.with(|link| back = Machine::transmit(&mut *link).split());
            if back.is_empty() && self.peer.transmit().is_empty() {
                return heard;
            }
            self.peer.handle_bytes(now, &mut back).unwrap();
            heard.extend(std::iter::from_fn(|| self.peer.poll_event()));
        }
    }

    /// Defines a route; its number, and the answer: a codec, or why not.
    fn define(&mut self, service: &str, method: &str) -> (RouteId, Result<u8, Status>) {
        let def = RouteDef {
            service: service.to_owned(),
            method: method.to_owned(),
            descriptor: "I".to_owned(),
            attachments: vec![("path".to_owned(), service.to_owned())],
        };
        let def = if method == WHOLE {
            RouteDef { descriptor: String::new(), attachments: Vec::new(), ..def }
        } else {
            def
        };
        let id = self.peer.define(&def).unwrap();
        let answer = self.events().into_iter().find_map(|event| match event {
            Event::RouteAccepted { route, codec, .. } if route == id => Some(Ok(codec)),
            Event::RouteRefused { route, status, .. } if route == id => Some(Err(status)),
            _ => None,
        });
        (id, answer.expect("every route is answered"))
    }

    fn send(&mut self, route: RouteId, codec: u8, one_way: bool) {
        let payload = Payload::Slice(b"\0\0\0\0");
        let request = RequestOut { codec, payload, one_way, ..RequestOut::new(route) };
        self.peer.send_request(Instant::now(), request, 7).unwrap();
    }

    /// The answer to the only call, if it has come.
    fn answer(&mut self) -> Option<(Status, String)> {
        self.events().into_iter().find_map(|event| match event {
            Event::Response { status, payload, .. } => {
                Some((status, String::from_utf8_lossy(&payload).into_owned()))
            }
            _ => None,
        })
    }
}

#[test]
fn a_route_says_what_the_app_speaks() {
    on_worker(async || {
        let mut link = Link::new();
        let (_, answer) = link.define(SERVICE, "echo");
        assert_eq!(answer, Ok(codec::of(Serialization::Fastjson2)));
        // Whoever sends whole requests has chosen already.
        let (_, answer) = link.define(SERVICE, WHOLE);
        assert_eq!(answer, Ok(codec::UNSET));
    });
}

#[test]
fn routes_of_nothing_are_refused() {
    on_worker(async || {
        let mut link = Link::new();
        let (_, answer) = link.define("com.acme.Other", "echo");
        assert_eq!(answer, Err(Status::NOT_FOUND_SERVICE));
        let (_, answer) = link.define(SERVICE, "no method");
        assert_eq!(answer, Err(Status::BAD_REQUEST));
    });
}

#[test]
fn who_defines_on_and_on_is_read_no_further_for_a_while() {
    on_worker(async || {
        let mut link = Link::new();
        let is_read = |link: &Link| link.session.conn.with(|link| Machine::wants_input(&*link));
        for (service, n) in
            [(SERVICE, MAX_DEFINED), ("com.acme.Other", MAX_DEFINED.div_ceil(REFUSED_COUNTS))]
        {
            for nth in 0..n {
                assert!(is_read(&link), "{service} {nth}");
                let _ = link.define(service, "echo");
            }
            assert!(!is_read(&link));
            let _ = link.define(service, "echo");
            link.session.check_time(Instant::now());
            assert!(is_read(&link));
        }
    });
}

#[test]
fn a_call_in_another_serialization_is_refused() {
    on_worker(async || {
        let mut link = Link::new();
        let (route, _) = link.define(SERVICE, "echo");
        let hessian2 = codec::of(Serialization::Hessian2);
        // Modulo 32, this is fastjson2's.
        for (codec, named) in [(hessian2, "hessian2"), (55, "unknown(55)")] {
            link.send(route, codec, false);
            let (status, text) = link.answer().unwrap();
            assert_eq!(status, Status::UNSUPPORTED_CODEC);
            assert!(text.contains(named) && text.contains("takes fastjson2"), "{text}");
        }
    });
}

/// The header of a Dubbo request has room for five bits.
#[test]
fn a_whole_call_in_a_codec_that_no_dubbo_has_is_refused() {
    on_worker(async || {
        let mut link = Link::new();
        let (route, _) = link.define(SERVICE, WHOLE);
        for codec in [34, 99, 255] {
            link.send(route, codec, false);
            let (status, text) = link.answer().unwrap();
            assert_eq!(status, Status::UNSUPPORTED_CODEC);
            assert!(text.ends_with(&format!("number {codec}")), "{text}");
        }
    });
}

/// A caller need not wait for the answer to its definition.
#[test]
fn a_call_right_behind_its_definition_is_refused_as_that_is() {
    on_worker(async || {
        let long = "x".repeat(1000);
        for (service, method, expected) in [
            ("com.acme.Other", "echo", Status::NOT_FOUND_SERVICE),
            (&long, "echo", Status::NOT_FOUND_SERVICE),
            (SERVICE, "no method", Status::BAD_REQUEST),
        ] {
            let mut link = Link::new();
            let (service, method) = (service.to_owned(), method.to_owned());
            let def = RouteDef { service, method, ..RouteDef::default() };
            let route = link.peer.define(&def).unwrap();
            link.send(route, codec::UNSET, false);
            let heard = link.events();
            let [
                Event::RouteRefused { status: of_route, text, .. },
                Event::Response { status: of_call, payload, .. },
            ] = &heard[..]
            else {
                panic!("{heard:?}");
            };
            assert_eq!((*of_route, *of_call), (expected, expected));
            assert_eq!(payload, text.as_bytes());
            assert!(!text.is_empty() && text.len() <= MAX_REASON_LEN, "{text}");
        }
    });
}

#[test]
fn a_definition_without_attachments_is_good() {
    on_worker(async || {
        let mut link = Link::new();
        let (service, method) = (SERVICE.to_owned(), "echo".to_owned());
        link.peer.define(&RouteDef { service, method, ..RouteDef::default() }).unwrap();
        let heard = link.events();
        assert!(matches!(heard[..], [Event::RouteAccepted { .. }]), "{heard:?}");
    });
}

/// A call may come before it is known whether the app is there. It waits for that.
#[test]
fn a_call_waits_for_the_first_connection_to_the_app() {
    on_worker(async || {
        for method in ["echo", WHOLE] {
            let mut link = Link::new();
            let (route, _) = link.define(SERVICE, method);
            link.send(route, codec::of(Serialization::Fastjson2), false);
            assert_eq!(link.answer(), None, "nobody knows yet");
            let (status, _) = until(|| link.answer()).await;
            assert_eq!(status, Status::UPSTREAM_UNREACHABLE, "{method}");
        }
    });
}

#[test]
fn the_peer_hears_that_the_app_has_gone() {
    on_worker(async || {
        let mut link = Link::new();
        let (route, answer) = link.define(SERVICE, "echo");
        assert!(answer.is_ok());
        until(|| (link.backend.standing() == Standing::Down).then_some(())).await;
        let service = &link.backend.service;
        crate::connections::Session::app_changed(&*link.session, service);
        let heard = link.events();
        let is_refusal = |event: &Event<u32>| {
            matches!(event, Event::RouteRefused { route: refused, status, .. }
                if *refused == route && *status == Status::UPSTREAM_UNREACHABLE)
        };
        assert!(heard.iter().any(is_refusal), "{heard:?}");
    });
}
