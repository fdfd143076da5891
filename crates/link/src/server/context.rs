//! What a handler may know about its call.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use link_proto::Meta;

use crate::trace::TraceContext;

/// One call, as its handler sees it.
///
/// A method of a service has it as its first parameter, `&Context`, if it wants it.
#[derive(Debug)]
pub struct Context {
    pub(crate) peer: Arc<Peer>,
    pub(crate) meta: Meta,
    pub(crate) deadline: Option<Instant>,
    pub(crate) reply_meta: Mutex<Vec<(String, String)>>,
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) name: String,
    #[cfg(feature = "tls")]
    pub(crate) identity: Option<Arc<crate::tls::Identity>>,
}

impl Context {
    /// Who calls.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Metadata that the caller added.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// When the caller gives up, if it said so.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How long the caller still waits, if it said so.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// The trace that the caller said this call belongs to.
    pub fn trace(&self) -> Option<TraceContext> {
        TraceContext::from_meta(&self.meta)
    }

    /// Adds an entry of metadata to the reply, or to the service's error.
    pub fn add_reply_meta(&self, key: impl Into<String>, value: impl Into<String>) {
        let mut meta = self.reply_meta.lock().unwrap_or_else(PoisonError::into_inner);
        meta.push((key.into(), value.into()));
    }

    pub(crate) fn take_reply_meta(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.reply_meta.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Peer {
    /// A client of which no more is known yet.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            name: String::new(),
            #[cfg(feature = "tls")]
            identity: None,
        }
    }

    /// The client's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who the client says it is: for logs, not for trust.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who the client is, if it showed a certificate and the server has verified it.
    #[cfg(feature = "tls")]
    pub fn identity(&self) -> Option<&crate::tls::Identity> {
        self.identity.as_deref()
    }
}
