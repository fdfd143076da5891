//! What has to be known to open a listener.
//!
//! Each kind is one module of [`crate::ingress`], and one line where the control thread lists them
//! (`control/listeners.rs`).

use std::net::SocketAddr;
use std::sync::Arc;

use wire::{ListenAddress, ListenOptions, Secured};

use crate::metrics::{CallStats, Hub};
use crate::worker::ListenerProtocol;

/// One listener of the configuration, not yet open.
pub struct PlannedListener {
    /// What is spoken, as the configuration has it.
    pub protocol: &'static str,
    /// Address to listen on.
    pub listen: ListenAddress,
    /// The key that says so, for messages.
    pub listen_key: &'static str,
    /// How the kernel carries its connections.
    pub socket: ListenOptions,
    /// Connections held at once.
    pub max_connections: usize,
    /// The key that says so, for messages.
    pub max_connections_key: &'static str,
    /// The TLS that its clients speak, if they do.
    pub tls: Option<Secured>,
    /// Where the address by TCP is noted that it is bound to.
    pub note: fn(&mut Addresses, SocketAddr),
    /// Makes what serves its connections.
    pub open: OpenListener,
}

/// Makes what serves the connections of a listener, once it is bound.
pub type OpenListener = Box<dyn FnOnce(&ListenerSetup<'_>) -> Arc<dyn ListenerProtocol> + Send>;

/// What a listener finds when it is opened.
pub struct ListenerSetup<'a> {
    /// What the agent calls itself.
    pub agent_name: &'a str,
    /// Where the listener is bound.
    pub address: ListenAddress,
    /// How many workers serve its connections.
    pub n_workers: usize,
    /// Where calls are counted.
    pub hub: &'a Hub,
}

impl ListenerSetup<'_> {
    /// What counts the calls of this listener, by number of the worker.
    pub fn stats(&self) -> Vec<Arc<CallStats>> {
        let name = self.address.to_string();
        (0..self.n_workers).map(|_| self.hub.ingress(&name)).collect()
    }
}

/// Where an agent listens by TCP. A port 0 of the configuration is the real one here. Unix sockets
/// are where the configuration says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Addresses {
    /// HTTP listeners, in the order of the configuration.
    pub http: Vec<SocketAddr>,
    /// Dubbo listeners for calls to services of a registry, in the order of the configuration.
    pub dubbo: Vec<SocketAddr>,
    /// The listener for other agents.
    pub link: Option<SocketAddr>,
    /// The listener for Dubbo's own consumers of what is exported.
    pub dubbo_exports: Option<SocketAddr>,
    /// Metrics and health.
    pub admin: Option<SocketAddr>,
}
