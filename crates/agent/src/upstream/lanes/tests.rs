//! Connections of their own for long messages, and what all connections know together.

use std::num::NonZeroUsize;

use bytes::BytesMut;
use dubbo_proto::{ReplyKind, ServerConfig, ServerConnection, ServerEvent};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::{Budget, Group};

use super::*;
use crate::config::{ClusterPolicy, ConnectionLimit};
use crate::memory::{EndpointMemory, Memory};
use crate::offload::Threads;
use crate::upstream::Setup;
use crate::upstream::link::LinkPeer;
use crate::upstream::testing::{PATIENCE, ScriptedPeer, TestServer, on_local_runtime, until};

const SHORT: MessageLen = MessageLen { request: 1, reply: 0 };
const LONG_REQUEST: MessageLen = MessageLen { request: 16 * 1024, reply: 0 };
const LONG_REPLY: MessageLen = MessageLen { request: 1, reply: 16 * 1024 };

/// One connection for messages of each length.
fn setup() -> Setup {
    let connections = ConnectionLimit::Fixed(NonZeroUsize::MIN);
    Setup::new(&ClusterPolicy { connections, ..ClusterPolicy::default() })
}

/// Connections to one place, of which the one for short messages is ready.
struct LanesFixture {
    lanes: Lanes<ScriptedPeer>,
    place: TestServer,
    now: Instant,
}

impl LanesFixture {
    async fn start(unready: &[usize]) -> Self {
        let mut place = TestServer::new().await;
        place.script.unready.replace(unready.to_vec());
        let now = Instant::now();
        let lanes = Lanes::start(SharedSetup::new(setup()), Arc::default(), place.start(), now);
        place.accept(1).await;
        if !unready.contains(&0) {
            until("the first", || lanes.standing() == Standing::Ready).await;
        }
        Self { lanes, place, now }
    }

    fn pick(&self, len: MessageLen) -> Rc<Upstream<ScriptedPeer>> {
        self.lanes.pick(len, self.now, |_| true)
    }

    fn is_short(&self, upstream: &Rc<Upstream<ScriptedPeer>>) -> bool {
        Rc::ptr_eq(upstream, self.lanes.short.first())
    }

    /// The connection for long messages, ready.
    async fn long(&mut self) -> Rc<Upstream<ScriptedPeer>> {
        let long = self.pick(LONG_REQUEST);
        self.place.accept(2).await;
        until("the other", || long.standing() == Standing::Ready).await;
        long
    }

    /// Whether the connection for long messages is closed.
    async fn is_closed(&mut self) -> bool {
        // More turns than it takes.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        matches!(self.place.accepted[1].try_read(&mut [0]), Ok(0))
    }
}

#[test]
fn long_messages_have_a_connection_of_their_own() {
    on_local_runtime(async {
        for len in [LONG_REQUEST, LONG_REPLY] {
            let mut fixture = LanesFixture::start(&[]).await;
            assert!(fixture.is_short(&fixture.pick(SHORT)));
            assert!(fixture.lanes.long.borrow().is_none(), "nobody has needed it");
            assert!(matches!(fixture.lanes.conn(len, fixture.now), Ok(None)), "it is opened");
            let long = fixture.long().await;
            assert!(!fixture.is_short(&long));
            assert!(Rc::ptr_eq(&long, &fixture.pick(len)), "once");
            assert!(matches!(fixture.lanes.conn(len, fixture.now), Ok(Some(_))));
            assert!(fixture.is_short(&fixture.pick(SHORT)));
        }
    });
}

#[test]
fn a_long_message_waits_for_its_connection_and_goes_with_the_others_without_one() {
    on_local_runtime(async {
        let mut fixture = LanesFixture::start(&[1]).await;
        let deadline = fixture.now + PATIENCE;
        let found = async {
            let found = fixture.lanes.conn_soon(LONG_REQUEST, deadline, fixture.now, |_| true);
            found.await.unwrap().upstream
        };
        let opened = async {
            let (mut accepted, _) = fixture.place.listener.accept().await.unwrap();
            fixture.place.script.unready.take();
            accepted.write_all(&[0]).await.unwrap();
            accepted
        };
        let (found, _accepted) = tokio::join!(found, opened);
        assert!(!fixture.is_short(&found));
        // That one is lost: nobody waits for its successor.
        found.close().await;
        let found = fixture.lanes.conn_soon(LONG_REQUEST, deadline, fixture.now, |_| true);
        assert!(fixture.is_short(&found.await.unwrap().upstream));
        fixture.place.accepted.clear();
    });
}

/// Whoever is not there at all is not asked for a second connection.
#[test]
fn nothing_is_opened_for_long_messages_before_the_endpoint_is_there() {
    on_local_runtime(async {
        let fixture = LanesFixture::start(&[0]).await;
        let picked = fixture.pick(LONG_REQUEST);
        assert!(fixture.is_short(&picked) && picked.standing() == Standing::Connecting);
        fixture.lanes.short.first().close().await;
        assert!(fixture.is_short(&fixture.pick(LONG_REQUEST)));
        assert!(fixture.lanes.conn(LONG_REQUEST, fixture.now).is_err());
        assert!(fixture.lanes.long.borrow().is_none());
    });
}

#[test]
fn a_connection_for_long_messages_goes_when_nobody_has_used_it_for_a_while() {
    on_local_runtime(async {
        let mut fixture = LanesFixture::start(&[]).await;
        drop(fixture.long().await);
        let end = fixture.now + IDLE_TIME;
        fixture.lanes.tend(end - Duration::from_nanos(1));
        assert!(!fixture.is_closed().await);
        fixture.place.script.in_flight.set(1);
        fixture.lanes.tend(end);
        assert!(!fixture.is_closed().await, "a call is in flight");
        fixture.place.script.in_flight.set(0);
        fixture.lanes.tend(end);
        assert!(fixture.is_closed().await);
        assert_eq!(fixture.lanes.unwell(end).n, 1);
        assert_eq!(fixture.lanes.standing(), Standing::Ready);
    });
}

fn memory() -> Rc<EndpointMemory> {
    Rc::new(Memory::new(Budget::new(usize::MAX), Group::new()).endpoint())
}

/// An agent says on each link by which a service was called whether its app is there.
#[test]
fn what_an_agent_says_counts_on_whichever_link_it_says_it() {
    on_local_runtime(async {
        let place = TestServer::new().await;
        let connections = ConnectionLimit::Fixed(NonZeroUsize::new(2).unwrap());
        let setup = SharedSetup::new(Setup { connections, ..setup() });
        let (memory, shared) = (memory(), Rc::clone(&setup));
        let peer = move || {
            let (setup, memory) = (Rc::clone(&shared), Rc::clone(&memory));
            LinkPeer::new("h:1", "test", setup, memory, Threads::one_per_core())
        };
        let (start, now) = (place.start_of(peer), Instant::now());
        let lanes = Lanes::start(setup, Arc::default(), start, now);
        let long = LaneGroup::start(connections, Arc::default(), Rc::clone(&lanes.start), now);
        lanes.long.replace(Some(Long { lanes: Rc::new(long), used_at: now }));
        let mut all = lanes.short.all();
        all.extend(lanes.long.borrow().as_ref().unwrap().lanes.all());
        assert_eq!(all.len(), 4);
        for upstream in &all {
            assert!(!lanes.is_away("a.B"));
            upstream.peer().set_away("a.B", true);
            assert!(lanes.is_away("a.B") && !lanes.is_away("a.C"));
            assert_eq!(lanes.standing_for("a.B"), Standing::Down);
            upstream.peer().set_away("a.B", false);
        }
    });
}

/// A provider that answers when nobody waits any more.
struct LateProvider {
    stream: tokio::net::TcpStream,
    machine: ServerConnection,
}

impl LateProvider {
    fn new(stream: tokio::net::TcpStream) -> Self {
        let config = ServerConfig { pass_through: true, ..ServerConfig::default() };
        Self { stream, machine: ServerConnection::new(config, Instant::now()) }
    }

    /// Answers the next request.
    async fn answer(&mut self) {
        let mut input = BytesMut::new();
        loop {
            self.stream.read_buf(&mut input).await.unwrap();
            self.machine.handle_bytes(Instant::now(), &mut input).unwrap();
            if let Some(ServerEvent::Body { to, .. }) = self.machine.poll_event() {
                self.machine.reply(Instant::now(), to, ReplyKind::Null, b"", &[]).unwrap();
                let output = self.machine.transmit().split();
                return self.stream.write_all(&output).await.unwrap();
            }
        }
    }
}

/// Sends a call by this connection, and gives it up.
fn call_in_vain(upstream: &Upstream<DubboPeer>) {
    let conn = upstream.conn().unwrap();
    conn.with(|machine| {
        let (now, (task, _)) = (Instant::now(), tokio::sync::oneshot::channel());
        let serialization = dubbo_proto::Serialization::Hessian2;
        let task = crate::call::ReplyTo::Task(task);
        let id = machine.0.send_body(now, serialization, b"x", now + PATIENCE, task);
        machine.0.cancel(id.map_err(|(_, error)| error).unwrap()).unwrap();
    });
}

#[test]
fn calls_that_nobody_waits_for_end_by_a_late_reply_or_with_their_connection() {
    on_local_runtime(async {
        let mut place = TestServer::new().await;
        let connections = ConnectionLimit::Fixed(NonZeroUsize::new(2).unwrap());
        let setup = SharedSetup::new(Setup { connections, ..setup() });
        let (memory, late_ends_of_ended, shared) = (memory(), Rc::default(), Rc::clone(&setup));
        let peer = move || {
            let (memory, late_ends_of_ended) = (Rc::clone(&memory), Rc::clone(&late_ends_of_ended));
            let setup = Rc::clone(&shared);
            DubboPeer::new("h:1", setup, memory, Threads::one_per_core(), late_ends_of_ended)
        };
        let lanes = Lanes::start(setup, Arc::default(), place.start_of(peer), Instant::now());
        assert_eq!(lanes.late_ends(), 0, "none is up");
        place.accept(2).await;
        let all = lanes.short.all();
        until("both", || all.iter().all(|it| it.standing() == Standing::Ready)).await;
        all.iter().for_each(|it| call_in_vain(it));
        assert_eq!(lanes.late_ends(), 0);
        for stream in std::mem::take(&mut place.accepted) {
            let mut provider = LateProvider::new(stream);
            provider.answer().await;
            place.accepted.push(provider.stream);
        }
        until("late replies", || lanes.late_ends() == 2).await;
        all[0].close().await;
        assert_eq!(lanes.late_ends(), 2, "all of the first one had been answered");
        call_in_vain(&all[1]);
        call_in_vain(&all[1]);
        assert_eq!(lanes.late_ends(), 2);
        all[1].close().await;
        assert_eq!(lanes.late_ends(), 4, "the other one leaves two without an answer");
    });
}
