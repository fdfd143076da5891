//! Connections to endpoints: one per endpoint and worker, of the endpoint's own protocol.
//!
//! [`lifecycle`] keeps a connection alive, [`dubbo`] and [`link`] speak the protocols, [`Pool`]
//! lets several clusters share what goes to the same address.

pub mod dubbo;
pub mod lifecycle;
pub mod link;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use balance::Evidence;
use bytes::Bytes;
use dubbo_proto::Serialization;
pub use flow::Standing;
use registry::Protocol;
use wire::address::join;

use self::dubbo::DubboPeer;
pub use self::lifecycle::{Peer, Signs, Upstream};
use self::link::LinkPeer;
use crate::call::{Outcome, Reply};
use crate::config::ClusterPolicy;
use crate::connections::Connections;
use crate::error::{CallError, Code};
use crate::memory::Memory;
use crate::route::Route;

/// What writes the arguments of a call in the serialization that the provider speaks.
pub trait Arguments {
    /// Appends the arguments to `out`.
    ///
    /// # Errors
    /// [`Code::BadArguments`](crate::error::Code) and what does not fit.
    fn encode(
        &self,
        route: &Route,
        serialization: Serialization,
        out: &mut Vec<u8>,
    ) -> Result<(), CallError>;
}

/// One call on its way to an endpoint.
pub struct Request<'a, A> {
    /// What is called.
    pub route: &'a Rc<Route>,
    /// Its arguments, not yet encoded.
    pub args: &'a A,
    /// Attachments of this call alone.
    pub attachments: &'a [(&'a str, &'a str)],
    /// The path of the provider's URL, where it is another than the interface.
    pub path: Option<&'a str>,
    /// When it came, or when another endpoint refused it. One look at the clock serves all that
    /// happens to a call in the same turn.
    pub now: Instant,
    /// When the caller gives up.
    pub deadline: Instant,
    /// Whether nobody waits for a reply: then null is the outcome as soon as the call stands in the connection.
    pub one_way: bool,
}

/// The reply that a one-way call has: the type of a null result, as Dubbo numbers them, in Hessian.
const NULL_REPLY: &[u8] = b"\x92";

/// The outcome of a one-way call that was sent.
fn sent(address: &Rc<str>) -> Outcome {
    let (serialization, body) = (Serialization::Hessian2, Bytes::from_static(NULL_REPLY));
    Ok(Reply { serialization, body, endpoint: Rc::clone(address), route: None })
}

/// An upstream of either protocol.
#[derive(Clone)]
pub enum AnyUpstream {
    /// A provider's agent.
    Link(Rc<Upstream<LinkPeer>>),
    /// A Dubbo provider.
    Dubbo(Rc<Upstream<DubboPeer>>),
}

impl AnyUpstream {
    /// How it stands toward the calls of a service, given by its key as text.
    pub fn standing(&self, service: &str) -> Standing {
        match self {
            Self::Link(upstream) if upstream.peer().is_away(service) => Standing::Down,
            Self::Link(upstream) => upstream.standing(),
            Self::Dubbo(upstream) => upstream.standing(),
        }
    }

    /// What its connection shows of an endpoint that the registry no longer lists for a service.
    pub fn evidence(&self, service: &str, now: Instant) -> Evidence {
        match self {
            Self::Link(upstream) if upstream.peer().is_away(service) => Evidence::Gone,
            Self::Link(upstream) => upstream.evidence(now),
            Self::Dubbo(upstream) => upstream.evidence(now),
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
            Self::Link(upstream) if upstream.peer().is_away(service) => {
                let message = "its agent is there, but the app behind it cannot be reached";
                Some(CallError::new(Code::Unreachable, message))
            }
            Self::Link(upstream) => upstream.conn().err(),
            Self::Dubbo(upstream) => upstream.conn().err(),
        }
    }

    /// Makes a call; `serialization` is for an endpoint that cannot tell its own.
    pub async fn call<A: Arguments>(
        &self,
        request: &Request<'_, A>,
        serialization: Serialization,
    ) -> Outcome {
        match self {
            Self::Link(upstream) => link::call(upstream, request).await,
            Self::Dubbo(upstream) => dubbo::call(upstream, request, serialization).await,
        }
    }

    /// Passes a whole request on. What comes back for a one-way call has no body.
    pub async fn pass_on(&self, whole: &Whole<'_>, now: Instant) -> Outcome {
        match self {
            Self::Link(upstream) => link::pass_on(upstream, whole, now).await,
            Self::Dubbo(upstream) => dubbo::pass_on(upstream, whole, now).await,
        }
    }
}

/// The upstreams of one worker, by address.
pub struct Pool {
    agent_name: Rc<str>,
    memory: Rc<Memory>,
    connections: Connections,
    links: RefCell<HashMap<String, Weak<Upstream<LinkPeer>>>>,
    dubbos: RefCell<HashMap<String, Weak<Upstream<DubboPeer>>>>,
}

/// How an upstream is set up; the first cluster that uses an address decides.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Most calls in flight.
    pub max_in_flight: u32,
    /// Longest body of a reply.
    pub max_reply_len: usize,
}

impl Setup {
    /// As a service's policy says.
    pub fn new(policy: &ClusterPolicy) -> Self {
        Self {
            connect_timeout: policy.connect_timeout,
            max_in_flight: policy.max_in_flight,
            max_reply_len: policy.max_reply_len,
        }
    }
}

/// A call whose whole Dubbo request stands ready, as a consumer wrote it.
#[derive(Clone, Copy)]
pub struct Whole<'a> {
    /// How links know the service.
    pub route: &'a Route,
    /// How the body is written.
    pub serialization: Serialization,
    /// The request's body.
    pub body: &'a Bytes,
    /// Whether nobody waits for a reply.
    pub one_way: bool,
    /// When the caller gives up.
    pub deadline: Instant,
}

impl Pool {
    /// An empty pool of the agent called `agent_name`, whose connections draw from `memory` and are in
    /// the table `connections`.
    pub fn new(agent_name: &str, memory: Rc<Memory>, connections: Connections) -> Self {
        Self {
            agent_name: agent_name.into(),
            memory,
            connections,
            links: RefCell::default(),
            dubbos: RefCell::default(),
        }
    }

    /// The upstream at an address, connecting if there is none yet.
    pub fn upstream(&self, protocol: Protocol, host: &str, port: u16, setup: Setup) -> AnyUpstream {
        match protocol {
            Protocol::Link => {
                AnyUpstream::Link(self.shared(&self.links, host, port, setup, || {
                    let memory = Rc::clone(&self.memory);
                    LinkPeer::new(&join(host, port), &self.agent_name, setup, memory)
                }))
            }
            Protocol::Dubbo => AnyUpstream::Dubbo(self.dubbo(host, port, setup)),
        }
    }

    /// Ends all connections, after what waits to be written. Comes back when they have ended.
    pub async fn close(&self) {
        let links: Vec<_> = self.links.borrow().values().filter_map(Weak::upgrade).collect();
        let dubbos: Vec<_> = self.dubbos.borrow().values().filter_map(Weak::upgrade).collect();
        for upstream in links {
            upstream.close().await;
        }
        for upstream in dubbos {
            upstream.close().await;
        }
    }

    /// The Dubbo upstream at an address, connecting if there is none yet.
    pub fn dubbo(&self, host: &str, port: u16, setup: Setup) -> Rc<Upstream<DubboPeer>> {
        self.shared(&self.dubbos, host, port, setup, || {
            DubboPeer::new(&join(host, port), setup, Rc::clone(&self.memory))
        })
    }

    fn shared<P: Peer>(
        &self,
        known: &RefCell<HashMap<String, Weak<Upstream<P>>>>,
        host: &str,
        port: u16,
        setup: Setup,
        peer: impl FnOnce() -> P,
    ) -> Rc<Upstream<P>> {
        let mut known = known.borrow_mut();
        let address = join(host, port);
        if let Some(upstream) = known.get(&address).and_then(Weak::upgrade) {
            return upstream;
        }
        known.retain(|_, upstream| upstream.strong_count() != 0);
        let connections = self.connections.clone();
        let upstream = Upstream::start(peer(), host, port, setup.connect_timeout, connections);
        let upstream = Rc::new(upstream);
        known.insert(address, Rc::downgrade(&upstream));
        upstream
    }
}
