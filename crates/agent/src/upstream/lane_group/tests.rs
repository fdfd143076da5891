//! Connections on real sockets, of a protocol whose load and clock are the test's own.

use std::convert::Infallible;
use std::num::NonZeroUsize;

use bytes::BytesMut;
use flow::Standing;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::{Conn, Destination, Machine, SocketOptions};

use super::*;
use crate::connections::{self, Connections};
use crate::error::CallError;
use crate::upstream::{Reconnects, Signs};

const PATIENCE: Duration = Duration::from_secs(20);

/// What the connections do, as the test says.
#[derive(Default)]
struct Script {
    /// How long each has been in the midst of a message.
    waited: Cell<Duration>,
    in_flight: Cell<usize>,
    n_retired: Cell<usize>,
    /// The connections that leave a question open, by the order in which they were made.
    silent: RefCell<Vec<usize>>,
    n_made: Cell<usize>,
}

struct ScriptedPeer(Rc<Script>);

struct Scripted {
    script: Rc<Script>,
    index: usize,
    output: BytesMut,
    is_closed: bool,
}

impl Machine for Scripted {
    type Event = Infallible;
    type Error = Infallible;

    fn handle_bytes(&mut self, _: Instant, _: &mut BytesMut) -> Result<(), Infallible> {
        Ok(())
    }
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }
    fn transmit(&mut self) -> &mut BytesMut {
        &mut self.output
    }
    fn is_finished(&self) -> bool {
        self.is_closed
    }
}

impl Peer for ScriptedPeer {
    const PROTOCOL: &'static str = "scripted";
    type Machine = Scripted;

    fn machine(&self, _: Instant) -> Scripted {
        let index = self.0.n_made.replace(self.0.n_made.get() + 1);
        Scripted { script: Rc::clone(&self.0), index, output: BytesMut::new(), is_closed: false }
    }
    fn is_ready(machine: &Scripted) -> bool {
        !machine.is_closed
    }
    fn ask(_: &mut Scripted, _: Instant) {}
    fn activity(_: &Scripted) -> connections::Activity {
        connections::Activity { doing: "idle", in_flight: 0, held_bytes: 0, peer_name: None }
    }
    fn in_flight(machine: &Scripted) -> usize {
        machine.script.in_flight.get()
    }
    fn waited(machine: &Scripted, _: Instant) -> Duration {
        machine.script.waited.get()
    }
    fn signs(machine: &Scripted) -> Signs {
        let is_silent = machine.script.silent.borrow().contains(&machine.index);
        let now = Instant::now();
        Signs { heard_at: now, unanswered_since: is_silent.then_some(now) }
    }
    fn on_event(&self, event: Infallible) -> bool {
        match event {}
    }
    fn failure(_: &Scripted) -> Option<String> {
        None
    }
    fn on_end(&self, _: &Conn<Scripted>, _: &CallError) {}
    fn retire(&self, _: Instant) {
        self.0.n_retired.set(self.0.n_retired.get() + 1);
    }
    fn close(machine: &mut Scripted, _: Instant) {
        machine.is_closed = true;
    }
}

/// A group that decides itself, and where its connections end.
struct Estate {
    script: Rc<Script>,
    group: LaneGroup<ScriptedPeer>,
    listener: TcpListener,
    accepted: Vec<TcpStream>,
    now: Instant,
}

impl Estate {
    async fn start() -> Self {
        let max = NonZeroUsize::new(4).unwrap();
        Self::start_with(ConnectionLimit::Auto { max }, 1).await
    }

    /// Begins with `n` connections.
    async fn start_with(limit: ConnectionLimit, n: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (script, connections) = (Rc::<Script>::default(), Connections::default());
        let of_peers = Rc::clone(&script);
        let start: Start<ScriptedPeer> = Rc::new(move || {
            let destination = Destination::Tcp {
                host: "127.0.0.1".to_owned(),
                port,
                options: SocketOptions::default(),
                tls: None,
            };
            let peer = ScriptedPeer(Rc::clone(&of_peers));
            let connections = connections.clone();
            Upstream::start(peer, destination, PATIENCE, connections, Reconnects::default())
        });
        let now = Instant::now();
        let group = LaneGroup::start(limit, start, now);
        let mut estate = Self { script, group, listener, accepted: Vec::new(), now };
        estate.settle(n).await;
        estate
    }

    /// Two connections, as configured.
    async fn of_two() -> Self {
        let limit = ConnectionLimit::Fixed(NonZeroUsize::new(2).unwrap());
        Self::start_with(limit, 2).await
    }

    /// Ends one of the connections for good.
    async fn lose(&mut self, index: usize) {
        let lane = Rc::clone(&self.group.all()[index]);
        lane.close().await;
        assert_eq!(lane.standing(), Standing::Down);
    }

    /// Waits until there are so many connections, all of them ready.
    async fn settle(&mut self, n: usize) {
        let settled = async {
            while self.accepted.len() < n {
                self.accepted.push(self.listener.accept().await.unwrap().0);
            }
            while self.group.all().iter().any(|lane| lane.standing() != Standing::Ready) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.expect("connections");
        assert_eq!(self.group.all().len(), n);
    }

    /// Time goes by. Each connection is in the midst of messages for so many percent of it.
    fn pass(&mut self, time: Duration, percent: u32) {
        let step = Duration::from_millis(100);
        let end = self.now + time;
        while self.now < end {
            self.now += step;
            self.script.waited.set(self.script.waited.get() + step * percent / 100);
            self.group.tend(self.now);
        }
    }
}

fn on_local_runtime(test: impl Future<Output = ()> + 'static) {
    tokio::runtime::LocalRuntime::new().unwrap().block_on(test);
}

#[test]
fn further_connections_are_given_back_when_they_are_idle() {
    on_local_runtime(async {
        let mut estate = Estate::start().await;
        estate.script.in_flight.set(8);
        estate.pass(Duration::from_millis(400), 60);
        estate.settle(2).await;
        // Twice as many connections halve the load: that helped.
        estate.pass(Duration::from_secs(5), 30);
        estate.settle(2).await;
        estate.script.in_flight.set(0);
        estate.pass(Duration::from_secs(29), 0);
        assert_eq!(estate.group.all().len(), 2, "it may still be needed");
        estate.pass(Duration::from_secs(2), 0);
        estate.pass(Duration::from_millis(100), 0);
        assert_eq!((estate.group.all().len(), estate.script.n_retired.get()), (1, 1));
        let mut byte = [0];
        let ended = estate.accepted[1].read(&mut byte);
        let ended = tokio::time::timeout(PATIENCE, ended).await.expect("it is closed");
        assert_eq!(ended.unwrap(), 0);
        assert_eq!(estate.group.first().standing(), Standing::Ready);
    });
}

/// Closing it at once would break its calls.
#[test]
fn a_connection_that_is_one_too_many_answers_its_calls_first() {
    on_local_runtime(async {
        let mut estate = Estate::start().await;
        estate.script.in_flight.set(8);
        estate.accepted[0].write_all(&[0; 1000]).await.unwrap();
        while estate.group.first().n_bytes() < 1000 {
            tokio::task::yield_now().await;
        }
        estate.pass(Duration::from_millis(400), 60);
        estate.settle(2).await;
        // Two are as busy as one was, and no more goes through them: that did not help.
        estate.pass(Duration::from_secs(2), 60);
        assert_eq!(estate.group.all().len(), 1);
        assert!(estate.group.has_calls());
        // More turns than it takes to close a connection.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let mut byte = [0];
        let nothing = estate.accepted[1].try_read(&mut byte).unwrap_err();
        assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock, "its calls are in flight");
        estate.script.in_flight.set(0);
        estate.pass(Duration::from_millis(100), 0);
        let ended = tokio::time::timeout(PATIENCE, estate.accepted[1].read(&mut byte)).await;
        assert_eq!(ended.expect("it is closed").unwrap(), 0);
    });
}

#[test]
fn a_connection_that_is_not_held_up_stays_alone() {
    on_local_runtime(async {
        let mut estate = Estate::start().await;
        estate.script.in_flight.set(8);
        estate.pass(Duration::from_secs(60), 45);
        assert_eq!(estate.group.all().len(), 1);
    });
}

/// A network may lose any of them, and calls go by the others.
#[test]
fn an_endpoint_is_ready_while_any_connection_is() {
    on_local_runtime(async {
        for lost in [0, 1] {
            let mut estate = Estate::of_two().await;
            estate.lose(lost).await;
            assert_eq!(estate.group.standing(), Standing::Ready, "without {lost}");
            assert_eq!(estate.group.trouble(), None, "without {lost}");
            assert_eq!(estate.group.evidence(Instant::now()), Evidence::Answers);
            assert_eq!(estate.group.unwell(Instant::now()).n_down, 1);
            estate.lose(1 - lost).await;
            assert_eq!(estate.group.standing(), Standing::Down);
            assert!(estate.group.trouble().is_some());
            assert_eq!(estate.group.evidence(Instant::now()), Evidence::Gone);
        }
    });
}

#[test]
fn an_endpoint_answers_while_any_connection_does() {
    on_local_runtime(async {
        let estate = Estate::of_two().await;
        let later = || Instant::now() + Duration::from_secs(60);
        assert_eq!(estate.group.unwell(later()).explain(), None);
        for silent in [0, 1] {
            estate.script.silent.replace(vec![silent]);
            assert_eq!(estate.group.evidence(later()), Evidence::Answers, "without {silent}");
            let shown = estate.group.unwell(later()).explain();
            assert_eq!(shown.as_deref(), Some("1 of 2 connections silent"), "without {silent}");
        }
        estate.script.silent.replace(vec![0, 1]);
        assert_eq!(estate.group.evidence(later()), Evidence::Silent);
    });
}

/// Whoever waits for a change learns of it, whichever connection has changed.
#[test]
fn a_change_of_any_connection_is_told() {
    on_local_runtime(async {
        for lost in [0, 1] {
            let mut estate = Estate::of_two().await;
            let changed = estate.group.changed();
            estate.lose(lost).await;
            tokio::time::timeout(PATIENCE, changed).await.expect("it is told");
        }
    });
}
