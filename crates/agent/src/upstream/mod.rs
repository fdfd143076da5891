//! Connections to endpoints: of the endpoint's own protocol, and of each worker as many as its
//! calls need.
//!
//! [`lifecycle`] keeps a connection alive, [`dubbo`] and [`link`] speak the protocols, `lanes`
//! keeps long messages apart, `lane_group` shares calls among several connections, `links` says
//! what credits mean to that, `sent_call` is a call that waits for its outcome, [`UpstreamPool`]
//! lets several clusters share what goes to the same address.

mod credits;
pub mod dubbo;
mod lane_group;
mod lanes;
pub mod lifecycle;
pub mod link;
mod links;
mod long_arguments;
mod peer_protocol;
mod reconnects;
mod rounds;
mod sending;
mod sent_call;
mod setup;
mod share;
mod signs;
#[cfg(test)]
mod testing;
mod unreached;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use balance::Evidence;
use bytes::Bytes;
use dubbo_proto::{ReplyKind, Serialization};
pub use flow::Standing;
use flow::pause::PauseLook;
use registry::Protocol;
use wire::address::{join, unix_path};
use wire::{Account, Conn, Destination, SocketOptions};

pub use self::credits::{Credit, LinkPurse};
use self::dubbo::DubboPeer;
pub use self::lane_group::Unwell;
pub use self::lanes::{Lanes, MessageLen, ReadyLane};
pub use self::lifecycle::Upstream;
use self::link::LinkPeer;
pub use self::links::LinkCall;
use self::long_arguments::encoded_offloaded;
pub use self::peer_protocol::PeerProtocol;
pub use self::reconnects::Reconnects;
use self::rounds::Rounds;
pub use self::sent_call::SentCall;
pub use self::setup::{Setup, SetupShare, SharedSetup};
pub use self::share::check_share;
pub use self::signs::Signs;
use crate::call::{Outcome, Payload, ProviderReply, RoutedCall, note_end};
use crate::config::{AppCapacity, TlsClient};
use crate::connections::Connections;
use crate::error::{CallError, Code};
use crate::gate::{AppGate, OwnGates};
use crate::memory::{EndpointMemory, Memory, Metered};
use crate::offload::Threads;
use crate::own_ingresses::OwnIngresses;
use crate::route::RouteVariant;
use crate::stages::{Stage, StageClock};
use crate::swept::Swept;
use crate::traffic::Traffic;

/// How an endpoint wants calls written.
#[derive(Clone, Copy)]
pub struct CallForm<'a> {
    /// With the version and group of this.
    pub variant: &'a RouteVariant,
    /// If they are in no serialization yet, in this one. Over a link the provider's agent says it.
    pub serialization: Serialization,
    /// For this path of a Dubbo provider's URL, where that is not the interface. Its agent knows
    /// that by itself.
    pub path: Option<&'a str>,
    /// The longest body of a request that a Dubbo provider there takes. Of an agent the link knows
    /// that.
    pub payload_limit: usize,
}

/// The outcome of a one-way call that was sent.
fn sent(address: &Rc<str>) -> Outcome {
    let (serialization, body) = ReplyKind::null_body();
    let body = Bytes::from_static(body);
    let reply = ProviderReply::new(serialization, body, Rc::clone(address));
    Ok(ProviderReply { is_unheard: true, ..reply })
}

/// A call has ended at an endpoint.
#[inline]
pub fn note_outcome(call: &RoutedCall<'_>, outcome: &Outcome) {
    note_end(call.clock, outcome);
    if let (Payload::Json(_), Ok(reply)) = (&call.payload, outcome) {
        call.method.reply_len.note(reply.body.len());
    }
}

/// The clock of a call whose request was queued on `conn` runs for its writing from now on.
#[inline]
fn queued<M>(conn: &Conn<Metered<M>>, clock: Option<&Rc<StageClock>>) {
    if let Some(clock) = clock {
        clock.enter(Stage::Write, Instant::now());
        conn.with(|machine| machine.watch(Rc::clone(clock)));
    }
}

/// An upstream of either protocol.
#[derive(Clone)]
pub enum AnyUpstream {
    /// A provider's agent.
    Link(Rc<Lanes<LinkPeer>>),
    /// A Dubbo provider.
    Dubbo(Rc<Lanes<DubboPeer>>),
}

/// Why an agent takes no calls of a service, as far as its notice tells.
const NOT_OFFERED: &str = "its agent answers, but does not offer the service now: the app behind \
                           it cannot be reached, or the service was withdrawn";

impl AnyUpstream {
    /// Its state toward the calls of a service, given by its key as text.
    pub fn standing(&self, service: &str) -> Standing {
        match self {
            Self::Link(lanes) => lanes.standing_for(service),
            Self::Dubbo(upstream) => upstream.standing(),
        }
    }

    /// What calls of a service need credits from; empty while they need none.
    #[inline]
    pub fn purses(&self, service: &str) -> impl Iterator<Item = Rc<LinkPurse>> + use<> {
        match self {
            Self::Link(lanes) => Some(lanes.purses(service)),
            Self::Dubbo(_) => None,
        }
        .into_iter()
        .flatten()
    }

    /// Takes a credit for a call of a service, if it needs one and there is one.
    #[inline]
    pub fn credit(&self, service: &str, now: Instant) -> Option<Credit> {
        match self {
            Self::Link(lanes) => lanes.credit(service, now),
            Self::Dubbo(_) => None,
        }
    }

    /// What its connection shows of an endpoint that the registry no longer lists for a service.
    pub fn evidence(&self, service: &str, now: Instant) -> Evidence {
        match self {
            Self::Link(lanes) if lanes.is_away(service) => Evidence::Gone,
            Self::Link(upstream) => upstream.evidence(now),
            Self::Dubbo(upstream) => upstream.evidence(now),
        }
    }

    /// How many of its connections have something wrong.
    pub fn unwell(&self, now: Instant) -> Unwell {
        match self {
            Self::Link(lanes) => lanes.unwell(now),
            Self::Dubbo(lanes) => lanes.unwell(now),
        }
    }

    /// Looks whether it pauses; or the app of a service behind it, as its agent says.
    pub fn look_for_pause(&self, service: &str, now: Instant, quiet: Duration) -> PauseLook {
        match self {
            Self::Link(lanes) => {
                let look = lanes.look_for_pause(now, quiet);
                let app = || lanes.app_pauses_since(service);
                PauseLook { since: look.since.or_else(app), ..look }
            }
            Self::Dubbo(lanes) => lanes.look_for_pause(now, quiet),
        }
    }

    /// Where it is.
    pub fn address(&self) -> &Rc<str> {
        match self {
            Self::Link(upstream) => upstream.address(),
            Self::Dubbo(upstream) => upstream.address(),
        }
    }

    /// Why it takes no calls of a service, if it does not.
    pub fn trouble(&self, service: &str) -> Option<CallError> {
        match self {
            Self::Link(lanes) if lanes.is_away(service) => {
                Some(CallError::new(Code::Unreachable, NOT_OFFERED))
            }
            Self::Link(lanes) => lanes.trouble(),
            Self::Dubbo(lanes) => lanes.trouble(),
        }
    }

    /// Sends a call, with the credit that it has, if that can be done at once. `None` if it has to
    /// wait for something, or if nobody waits for its outcome: then it is one for
    /// [`AnyUpstream::call`].
    ///
    /// # Errors
    /// Why it was not sent.
    #[inline]
    pub fn begin(
        &self,
        call: &RoutedCall<'_>,
        form: CallForm<'_>,
        credit: Option<&Credit>,
    ) -> Result<Option<SentCall>, CallError> {
        match self {
            Self::Link(lanes) => link::begin(lanes, call, form.variant, credit),
            Self::Dubbo(lanes) => dubbo::begin(lanes, call, form),
        }
    }

    /// Makes a call, with the credit that it has, and waits for its outcome.
    pub async fn call(
        &self,
        call: &RoutedCall<'_>,
        form: CallForm<'_>,
        credit: Option<&Credit>,
    ) -> Outcome {
        match self {
            Self::Link(lanes) => link::call(lanes, call, form.variant, credit).await,
            Self::Dubbo(upstream) => dubbo::call(upstream, call, form).await,
        }
    }
}

/// Where an endpoint is, and whether it is connected to by TLS.
#[derive(Clone, Copy, Debug)]
pub struct EndpointAddress<'a> {
    /// Its name or address, or `unix:` and the path of its socket.
    pub host: &'a str,
    /// Its port. A Unix socket has none.
    pub port: u16,
    /// How TLS is spoken there, if it is.
    pub tls: Option<&'a TlsClient>,
}

impl EndpointAddress<'_> {
    fn destination(&self, options: SocketOptions) -> Destination {
        if let Some(path) = unix_path(self.host) {
            return Destination::Unix(path.into());
        }
        let tls = self.tls.map(|tls| tls.client.clone());
        Destination::Tcp { host: self.host.to_owned(), port: self.port, options, tls }
    }

    /// What endpoints have in common that share a connection.
    fn key(&self) -> String {
        match self.tls {
            None => self.to_string(),
            Some(tls) => format!("{self} by TLS with {:?}", tls.files),
        }
    }
}

/// `host:port`, or `unix:` and a path.
impl fmt::Display for EndpointAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join(self.host, self.port))
    }
}

/// The upstreams of one worker, by address.
pub struct UpstreamPool {
    agent_name: Rc<str>,
    memory: Rc<Memory>,
    threads: Threads,
    connections: Connections,
    reconnects: Reconnects,
    links: RefCell<SharedLanes<LinkPeer>>,
    dubbos: RefCell<SharedLanes<DubboPeer>>,
    gates: OwnGates,
    traffic: Traffic,
    /// Where calls come back that the agent sends there.
    pub(crate) own_ingresses: Arc<OwnIngresses>,
    n_in_line: Rc<Cell<usize>>,
}

/// Counts one call that waits in line.
pub struct InLine(Rc<Cell<usize>>);

impl Drop for InLine {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What a pool is made of.
pub struct PoolSetup<'a> {
    /// What the agent calls itself.
    pub agent_name: &'a str,
    /// What its connections draw from.
    pub memory: Rc<Memory>,
    /// What encodes long requests.
    pub threads: Threads,
    /// The table that its connections are in.
    pub connections: Connections,
    /// Those before the endpoints that it calls.
    pub gates: OwnGates,
    /// That of all workers.
    pub traffic: Traffic,
    /// Those of all workers.
    pub own_ingresses: Arc<OwnIngresses>,
}

impl UpstreamPool {
    /// An empty pool.
    pub fn new(setup: PoolSetup<'_>) -> Self {
        let PoolSetup { agent_name, memory, threads, connections, gates, traffic, own_ingresses } =
            setup;
        Self {
            agent_name: agent_name.into(),
            memory,
            threads,
            connections,
            reconnects: Reconnects::default(),
            links: RefCell::default(),
            dubbos: RefCell::default(),
            gates,
            traffic,
            own_ingresses,
            n_in_line: Rc::default(),
        }
    }

    /// How many calls of this worker wait in line for an endpoint.
    pub fn n_in_line(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.n_in_line)
    }

    /// One more does, until what is returned is dropped.
    pub fn stand_in_line(&self) -> InLine {
        self.n_in_line.set(self.n_in_line.get() + 1);
        InLine(self.n_in_line())
    }

    /// The upstream at an address, connecting if there is none yet. What `setup` says counts there
    /// together with what others want who use it, as long as the share is kept.
    pub fn upstream(
        &self,
        protocol: Protocol,
        at: EndpointAddress<'_>,
        setup: Setup,
    ) -> (AnyUpstream, SetupShare) {
        match protocol {
            Protocol::Link => {
                let lanes = shared(&self.links, at, || {
                    let (name, threads) = (Rc::clone(&self.agent_name), self.threads.clone());
                    self.lanes(at, setup, move |address, setup, memory| {
                        LinkPeer::new(address, &name, setup, memory, threads.clone())
                    })
                });
                let share = lanes.setup().join(setup);
                (AnyUpstream::Link(lanes), share)
            }
            Protocol::Dubbo => {
                let (lanes, share) = self.dubbo(at, setup);
                (AnyUpstream::Dubbo(lanes), share)
            }
        }
    }

    /// The gate before a Dubbo endpoint that is called without an agent there, as
    /// [`OwnGates::before`] says.
    pub fn gate(
        &self,
        lanes: &Rc<Lanes<DubboPeer>>,
        capacity: AppCapacity,
        threads: Option<u32>,
    ) -> Rc<AppGate> {
        self.gates.before(lanes.address(), capacity, threads, || {
            let lanes = Rc::clone(lanes);
            Box::new(move || Some(lanes.late_ends()))
        })
    }

    /// The threads for long work.
    pub fn threads(&self) -> Threads {
        self.threads.clone()
    }

    /// The account of a connection to an endpoint that is not an upstream.
    pub fn account(&self) -> Rc<Account> {
        self.memory.endpoint().account()
    }

    /// The table of the worker's connections.
    pub fn connections(&self) -> Connections {
        self.connections.clone()
    }

    /// Ends all connections, after what waits to be written. Comes back when they have ended, with
    /// the failure of one that broke before.
    pub async fn close(&self) -> Option<CallError> {
        let links = self.links.borrow_mut().rounds.next(usize::MAX);
        let dubbos = self.dubbos.borrow_mut().rounds.next(usize::MAX);
        let mut cut_off = None;
        for upstream in links {
            cut_off = cut_off.or(upstream.close().await);
        }
        for upstream in dubbos {
            cut_off = cut_off.or(upstream.close().await);
        }
        cut_off
    }

    /// The same of Dubbo.
    pub fn dubbo(
        &self,
        at: EndpointAddress<'_>,
        setup: Setup,
    ) -> (Rc<Lanes<DubboPeer>>, SetupShare) {
        let lanes = shared(&self.dubbos, at, || {
            let (threads, late_ends_of_ended) = (self.threads.clone(), Rc::default());
            self.lanes(at, setup, move |address, setup, memory| {
                let late_ends_of_ended = Rc::clone(&late_ends_of_ended);
                DubboPeer::new(address, setup, memory, threads.clone(), late_ends_of_ended)
            })
        });
        let share = lanes.setup().join(setup);
        (lanes, share)
    }

    /// Connections to an address; `peer` makes the protocol's side of each.
    fn lanes<P: PeerProtocol>(
        &self,
        at: EndpointAddress<'_>,
        setup: Setup,
        peer: impl Fn(&str, Rc<SharedSetup>, Rc<EndpointMemory>) -> P + 'static,
    ) -> Lanes<P> {
        let (address, destination) = (at.to_string(), at.destination(setup.socket));
        let (memory, connections) = (Rc::new(self.memory.endpoint()), self.connections.clone());
        let reconnects = self.reconnects.clone();
        let traffic = self.traffic.of(at.key(), address.clone());
        let counted = Arc::clone(&traffic);
        let setup = SharedSetup::new(setup);
        let lanes_setup = Rc::clone(&setup);
        let start = move || {
            let peer = peer(&address, Rc::clone(&setup), Rc::clone(&memory));
            let (connections, reconnects) = (connections.clone(), reconnects.clone());
            Upstream::start(peer, destination.clone(), connections, reconnects, &counted)
        };
        Lanes::start(lanes_setup, traffic, start, Instant::now())
    }

    /// Opens and closes connections to endpoints as their calls need them. Call this every 100 ms
    /// or so.
    pub fn tend(&self, now: Instant) {
        let links = self.links.borrow_mut().rounds.next(MAX_TENDED);
        let dubbos = self.dubbos.borrow_mut().rounds.next(MAX_TENDED);
        links.iter().for_each(|lanes| lanes.tend(now));
        dubbos.iter().for_each(|lanes| lanes.tend(now));
    }
}

/// Endpoints that are tended at a time; where there are more they take turns.
const MAX_TENDED: usize = 1024;

/// The connections to endpoints that several clusters share.
struct SharedLanes<P: PeerProtocol> {
    /// By what endpoints have in common that share a connection.
    by_address: Swept<Weak<Lanes<P>>>,
    rounds: Rounds<Lanes<P>>,
}

impl<P: PeerProtocol> Default for SharedLanes<P> {
    fn default() -> Self {
        Self { by_address: Swept::default(), rounds: Rounds::default() }
    }
}

/// What is known at an address, or is made now.
fn shared<P: PeerProtocol>(
    known: &RefCell<SharedLanes<P>>,
    at: EndpointAddress<'_>,
    make: impl FnOnce() -> Lanes<P>,
) -> Rc<Lanes<P>> {
    let mut known = known.borrow_mut();
    let address = at.key();
    if let Some(upstream) = known.by_address.get(&address).and_then(Weak::upgrade) {
        return upstream;
    }
    let upstream = Rc::new(make());
    known.rounds.add(&upstream);
    known.by_address.insert(address, Rc::downgrade(&upstream), |it| it.strong_count() != 0);
    upstream
}
