//! A client and a server connected by nothing but two buffers: every call comes to exactly one
//! end, however the network cuts the bytes and in whatever order the replies come.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use dubbo_proto::{
    ClientConfig, ClientConnection, ClientEvent, Reply, ReplyKind, ReplyTo, RequestHead,
    RequestTemplate, Serialization, ServerConfig, ServerConnection, ServerEvent, Status,
};
use proptest::collection::vec;
use proptest::prelude::*;

#[expect(clippy::disallowed_methods, reason = "an Instant cannot be made in any other way")]
fn start() -> Instant {
    Instant::now()
}

/// Moves up to `len` bytes on their way, as a slow network would.
fn carry(from: &mut BytesMut, to: &mut BytesMut, len: usize) {
    let piece = from.split_to(len.min(from.len()));
    to.extend_from_slice(&piece);
}

struct Ends {
    now: Instant,
    client: ClientConnection<u32>,
    server: ServerConnection,
    to_server: BytesMut,
    to_client: BytesMut,
    asked: Vec<(ReplyTo, Vec<u8>)>,
    ended: BTreeMap<u32, String>,
}

impl Ends {
    fn new() -> Self {
        let now = start();
        let config = ClientConfig { max_in_flight: 8, ..ClientConfig::default() };
        Self {
            now,
            client: ClientConnection::new(config, now),
            server: ServerConnection::new(ServerConfig::default(), now),
            to_server: BytesMut::new(),
            to_client: BytesMut::new(),
            asked: Vec::new(),
            ended: BTreeMap::new(),
        }
    }

    fn carry(&mut self, len: usize) {
        carry(self.client.transmit(), &mut self.to_server, len);
        carry(self.server.transmit(), &mut self.to_client, len);
        self.server.handle_bytes(self.now, &mut self.to_server).unwrap();
        self.client.handle_bytes(self.now, &mut self.to_client).unwrap();
        while let Some(event) = self.server.poll_event() {
            let ServerEvent::Request { to, two_way, request } = event else { panic!("{event:?}") };
            assert_eq!((request.path(), request.method()), ("com.acme.Echo", "echo"));
            assert_eq!(request.attachment("group"), Some("eu"));
            if two_way {
                self.asked.push((to, request.args().to_vec()));
            }
        }
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            let (token, end) = match event {
                ClientEvent::Reply { token, status, serialization, body } => {
                    let end = match Reply::decode(serialization, status, &body).unwrap() {
                        Reply::Done(outcome) => {
                            let value = outcome.value(&Default::default()).unwrap();
                            let value = String::from_utf8_lossy(value).into_owned();
                            format!("{:?} {value}", outcome.kind())
                        }
                        Reply::Failed { status, text } => format!("{status}: {text}"),
                    };
                    (token, end)
                }
                ClientEvent::Expired { token } => (token, "expired".to_owned()),
                other => panic!("{other:?}"),
            };
            assert!(self.ended.insert(token, end).is_none(), "call {token} ended twice");
        }
    }
}

#[derive(Clone, Debug)]
enum PairEvent {
    Call { deadline_ms: u64, one_way: bool },
    Carry(usize),
    Answer { at: usize, well: bool },
    Pass(u64),
}

fn any_step() -> impl Strategy<Value = PairEvent> {
    prop_oneof![
        3 => (1..2000u64, prop::bool::weighted(0.1))
            .prop_map(|(deadline_ms, one_way)| PairEvent::Call { deadline_ms, one_way }),
        4 => (1..300usize).prop_map(PairEvent::Carry),
        3 => any::<(usize, bool)>().prop_map(|(at, well)| PairEvent::Answer { at, well }),
        1 => (0..700u64).prop_map(PairEvent::Pass),
    ]
}

/// Arguments that tell the calls apart: the token as text.
fn args(serialization: Serialization, token: u32) -> Vec<u8> {
    let text = token.to_string();
    if serialization == Serialization::Fastjson {
        return format!("\"{text}\"").into_bytes();
    }
    let mut args = Vec::new();
    hessian::write_string(&mut args, &text);
    args
}

fn run(serialization: Serialization, steps: &[PairEvent]) {
    let head = RequestHead {
        path: "com.acme.Echo",
        version: "1.0",
        method: "echo",
        descriptor: "Ljava/lang/String;",
    };
    let template = RequestTemplate::new(serialization, &head, &[("group", "eu")]).unwrap();
    let (mut ends, mut n_sent) = (Ends::new(), 0);
    for (token, step) in (0..).zip(steps) {
        match *step {
            PairEvent::Call { one_way: true, .. } => {
                let args = args(serialization, token);
                ends.client.send_one_way(ends.now, &template, &args, &[]).unwrap();
            }
            PairEvent::Call { deadline_ms, .. } => {
                let deadline = ends.now + Duration::from_millis(deadline_ms);
                let args = args(serialization, token);
                let sent = ends.client.send(ends.now, &template, &args, &[], deadline, token);
                n_sent += u32::from(sent.is_ok());
            }
            PairEvent::Carry(len) => ends.carry(len),
            PairEvent::Answer { at, well } if !ends.asked.is_empty() => {
                let (to, args) = ends.asked.swap_remove(at % ends.asked.len());
                let attachments = [("dubbo", "2.0.2")];
                let value = ReplyKind::Value;
                if well {
                    ends.server.reply(ends.now, to, value, &args, &attachments).unwrap();
                } else {
                    ends.server.reply_error(ends.now, to, Status::ServiceError, "no").unwrap();
                }
            }
            PairEvent::Answer { .. } => {}
            PairEvent::Pass(ms) => {
                ends.now += Duration::from_millis(ms);
                ends.client.handle_timeout(ends.now);
                ends.server.handle_timeout(ends.now);
                ends.take_events();
            }
        }
    }
    let in_flight = ends.client.in_flight();
    assert_eq!(ends.client.drain_pending().count(), in_flight);
    assert_eq!(ends.ended.len() + in_flight, n_sent as usize);
    for (token, end) in &ends.ended {
        let args = args(serialization, *token);
        let echoed = format!("Value {}", String::from_utf8_lossy(&args));
        let good = [echoed.as_str(), "70 SERVICE_ERROR: no", "expired"];
        assert!(good.contains(&end.as_str()), "call {token}: {end}");
    }
}

proptest! {
    #[test]
    fn every_call_ends_once(steps in vec(any_step(), 1..150), is_json in any::<bool>()) {
        let serialization =
            if is_json { Serialization::Fastjson } else { Serialization::Hessian2 };
        run(serialization, &steps);
    }
}

#[test]
fn heartbeats_keep_an_idle_pair_alive_and_readonly_ends_it_in_order() {
    let mut ends = Ends::new();
    for _ in 0..20 {
        ends.now += Duration::from_secs(60);
        ends.client.handle_timeout(ends.now);
        ends.server.handle_timeout(ends.now);
        for _ in 0..3 {
            ends.carry(usize::MAX);
        }
    }
    assert!(!ends.client.is_finished() && !ends.server.is_finished());
    assert!(ends.client.stats().heartbeats_sent >= 19);
    assert_eq!(ends.client.stats().heartbeats_sent, ends.server.stats().heartbeats_answered);
    assert_eq!(ends.server.stats().heartbeats_sent, ends.client.stats().heartbeats_answered);

    ends.server.send_readonly(ends.now);
    ends.server.send_readonly(ends.now);
    let len = ends.server.transmit().len();
    carry(ends.server.transmit(), &mut ends.to_client, len);
    ends.client.handle_bytes(ends.now, &mut ends.to_client).unwrap();
    assert_eq!(ends.client.poll_event(), Some(ClientEvent::ReadOnly));
    assert_eq!(ends.client.poll_event(), None);
    assert!(!ends.client.is_accepting() && !ends.to_client.has_remaining());
}
