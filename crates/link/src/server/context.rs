//! What a handler may know about its call.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use link_proto::Meta;

use crate::trace::TraceContext;

/// One call, as its handler sees it.
///
/// A method of a service has it as its first parameter, `&Context`, if it wants it.
#[derive(Debug)]
pub struct Context {
    scope: Arc<Scope>,
    /// The call's number within its scope.
    id: u64,
    meta: Meta,
    deadline: Option<Instant>,
}

/// What calls that came together share.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) peer: Arc<Peer>,
    /// Some call has metadata for its reply. Most never have.
    has_reply_meta: AtomicBool,
    reply_meta: Mutex<Vec<(u64, (String, String))>>,
}

impl Scope {
    pub(crate) fn new(peer: Arc<Peer>) -> Self {
        let (has_reply_meta, reply_meta) = (AtomicBool::new(false), Mutex::default());
        Self { peer, has_reply_meta, reply_meta }
    }

    /// The metadata that the handler of this call has added.
    #[inline]
    pub(crate) fn take_reply_meta(&self, id: u64) -> Vec<(String, String)> {
        if !self.has_reply_meta.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut all = self.reply_meta.lock().unwrap_or_else(PoisonError::into_inner);
        all.extract_if(.., |(of, _)| *of == id).map(|(_, entry)| entry).collect()
    }
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
        &self.scope.peer
    }

    pub(crate) fn new(scope: &Arc<Scope>, id: u64, meta: Meta, deadline: Option<Instant>) -> Self {
        Self { scope: Arc::clone(scope), id, meta, deadline }
    }

    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.scope
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
        let mut all = self.scope.reply_meta.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((self.id, (key.into(), value.into())));
        self.scope.has_reply_meta.store(true, Ordering::Release);
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
