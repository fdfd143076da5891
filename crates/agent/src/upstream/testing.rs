//! Connections on real sockets, of a protocol whose load and clock are a test's own.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::net::{TcpListener, TcpStream};
use wire::{Conn, Destination, Machine, SocketOptions};

use super::{PeerProtocol, Reconnects, Signs, Upstream};
use crate::connections::{self, Connections};
use crate::error::CallError;

/// No test waits longer for anything.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What the connections do, as the test says.
#[derive(Default)]
pub(super) struct Script {
    /// How long each has been in the midst of a message.
    pub(super) waited: Cell<Duration>,
    pub(super) in_flight: Cell<usize>,
    pub(super) n_retired: Cell<usize>,
    /// The connections that leave a question open, by the order in which they were begun.
    pub(super) silent: RefCell<Vec<usize>>,
    /// Those that take no calls yet. Whatever their peers send has them look again.
    pub(super) unready: RefCell<Vec<usize>>,
    /// How often a peer was asked for a sign of life.
    pub(super) n_asked: Cell<usize>,
    n_begun: Cell<usize>,
}

pub(super) struct ScriptedPeer {
    script: Rc<Script>,
    index: usize,
}

pub(super) struct Scripted {
    script: Rc<Script>,
    index: usize,
    output: BytesMut,
    has_heard: bool,
    is_closed: bool,
}

impl Machine for Scripted {
    type Event = ();
    type Error = Infallible;

    fn handle_bytes(&mut self, _: Instant, input: &mut BytesMut) -> Result<(), Infallible> {
        self.has_heard |= !input.is_empty();
        input.clear();
        Ok(())
    }
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn poll_event(&mut self) -> Option<()> {
        std::mem::take(&mut self.has_heard).then_some(())
    }
    fn transmit(&mut self) -> &mut BytesMut {
        &mut self.output
    }
    fn is_finished(&self) -> bool {
        self.is_closed
    }
}

impl PeerProtocol for ScriptedPeer {
    const PROTOCOL: &'static str = "scripted";
    type Machine = Scripted;

    fn connect_timeout(&self) -> Duration {
        PATIENCE
    }
    fn machine(&self, _: Instant) -> Scripted {
        let (script, index, output) = (Rc::clone(&self.script), self.index, BytesMut::new());
        Scripted { script, index, output, has_heard: false, is_closed: false }
    }
    fn is_ready(machine: &Scripted) -> bool {
        !machine.is_closed && !machine.script.unready.borrow().contains(&machine.index)
    }
    fn ask(machine: &mut Scripted, _: Instant) {
        machine.script.n_asked.set(machine.script.n_asked.get() + 1);
    }
    fn activity(_: &Scripted) -> connections::SessionActivity {
        connections::SessionActivity { doing: "idle", in_flight: 0, held_bytes: 0, peer_name: None }
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
        Signs { heard_at: now, unanswered_since: is_silent.then_some(now), asked_at: None }
    }
    fn on_event(&self, (): ()) -> bool {
        false
    }
    fn has_said_goodbye(&self, _: &Scripted) -> bool {
        false
    }
    fn failure(_: &Scripted) -> Option<String> {
        None
    }
    fn on_end(&self, _: &Conn<Scripted>, _: &CallError) {}
    fn retire(&self, _: Instant) {
        self.script.n_retired.set(self.script.n_retired.get() + 1);
    }
    fn close(machine: &mut Scripted, _: Instant) {
        machine.is_closed = true;
    }
}

/// Where connections end, and what starts them there.
pub(super) struct TestServer {
    pub(super) script: Rc<Script>,
    pub(super) listener: TcpListener,
    pub(super) accepted: Vec<TcpStream>,
}

impl TestServer {
    pub(super) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { script: Rc::default(), listener, accepted: Vec::new() }
    }

    /// What starts a connection to it.
    pub(super) fn start(&self) -> impl Fn() -> Upstream<ScriptedPeer> + use<> {
        let script = Rc::clone(&self.script);
        self.start_of(move || {
            let index = script.n_begun.replace(script.n_begun.get() + 1);
            ScriptedPeer { script: Rc::clone(&script), index }
        })
    }

    /// The same of another protocol.
    pub(super) fn start_of<P: PeerProtocol, F: Fn() -> P + 'static>(
        &self,
        peer: F,
    ) -> impl Fn() -> Upstream<P> + use<P, F> {
        let port = self.listener.local_addr().unwrap().port();
        let connections = Connections::default();
        move || {
            let destination = Destination::Tcp {
                host: "127.0.0.1".to_owned(),
                port,
                options: SocketOptions::default(),
                tls: None,
            };
            let connections = connections.clone();
            Upstream::start(
                peer(),
                destination,
                connections,
                Reconnects::default(),
                &Arc::default(),
            )
        }
    }

    /// Takes so many connections in all.
    pub(super) async fn accept(&mut self, n: usize) {
        let accepted = async {
            while self.accepted.len() < n {
                self.accepted.push(self.listener.accept().await.unwrap().0);
            }
        };
        tokio::time::timeout(PATIENCE, accepted).await.expect("connections");
    }
}

/// Waits until it is so.
pub(super) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

pub(super) fn on_local_runtime(test: impl Future<Output = ()> + 'static) {
    tokio::runtime::LocalRuntime::new().unwrap().block_on(test);
}
