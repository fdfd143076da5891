//! Hooks for metrics and traces.
//!
//! An [`Observer`] is told when calls begin and end, on either side. Without one a call costs
//! nothing more than to see that there is none.

use std::fmt;
use std::time::Duration;

use tracing::Span;

use crate::panics::contain;
use crate::trace::TraceContext;

/// Gets the events of calls. Every method is empty by default. One that panics changes nothing for
/// the call; the panic hook reports it.
///
/// Counting the calls of a client by outcome:
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
/// use link::ClientConfig;
/// use link::observe::{CallInfo, Observer, Outcome};
///
/// #[derive(Default)]
/// struct Counts(Mutex<BTreeMap<String, u64>>);
///
/// impl Observer for Counts {
///     fn ended(&self, call: &CallInfo<'_>, outcome: Outcome, _took: Duration) {
///         let key = format!("{} {}", call.method, outcome.name());
///         *self.0.lock().unwrap().entry(key).or_default() += 1;
///     }
/// }
///
/// let counts = Arc::new(Counts::default());
/// let config = ClientConfig { observer: Some(counts.clone()), ..ClientConfig::default() };
/// ```
pub trait Observer: Send + Sync + 'static {
    /// A client is about to make a call. The trace context that is returned travels with it,
    /// unless the call has one of its own.
    fn outgoing(&self, call: &CallInfo<'_>) -> Option<TraceContext> {
        let _ = call;
        None
    }

    /// A server is about to begin a call that came with this trace context. The handler runs
    /// within the span that is returned.
    fn incoming(&self, call: &CallInfo<'_>, trace: Option<&TraceContext>) -> Span {
        let _ = (call, trace);
        Span::none()
    }

    /// A call has ended, after so long.
    fn ended(&self, call: &CallInfo<'_>, outcome: Outcome, took: Duration) {
        let _ = (call, outcome, took);
    }
}

/// [`Observer::outgoing`]; nothing comes of it if that panics.
pub(crate) fn outgoing(observer: &dyn Observer, call: &CallInfo<'_>) -> Option<TraceContext> {
    contain(|| observer.outgoing(call)).unwrap_or_default()
}

/// [`Observer::incoming`]; no span if that panics.
pub(crate) fn incoming(
    observer: &dyn Observer,
    call: &CallInfo<'_>,
    trace: Option<&TraceContext>,
) -> Span {
    contain(|| observer.incoming(call, trace)).unwrap_or_else(|_| Span::none())
}

/// [`Observer::ended`], also while a panic unwinds.
pub(crate) fn ended(
    observer: &dyn Observer,
    call: &CallInfo<'_>,
    outcome: Outcome,
    took: Duration,
) {
    // The call has ended as it has, whatever comes of this.
    let _ = contain(|| observer.ended(call, outcome, took));
}

/// Which call.
#[derive(Clone, Copy)]
pub struct CallInfo<'a> {
    /// On which side.
    pub side: Side,
    /// The service's name.
    pub service: &'a str,
    /// The method's name.
    pub method: &'a str,
    /// Client: the server's address as it was given. Server: the client's address.
    pub peer: &'a dyn fmt::Display,
}

impl fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl fmt::Debug for CallInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { side, service, method, peer } = self;
        write!(f, "{side:?} {service}/{method} ({peer})")
    }
}

/// Which side of a call observes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// The one that calls.
    Client,
    /// The one that is called.
    Server,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// With a reply.
    Ok,
    /// With the service's own error.
    ServiceError,
    /// Otherwise; with a name that does not change, such as "timeout".
    Failed(&'static str),
    /// The caller gave it up, or its connection broke.
    Abandoned,
}

impl Outcome {
    /// A name that does not change, fit for a label of a metric.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ServiceError => "service_error",
            Self::Failed(name) => name,
            Self::Abandoned => "abandoned",
        }
    }
}

/// Makes a `tracing` span of each call that a server works on, named "call", with its names, its
/// client and its trace as fields; and has each call of a client begin a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spans;

impl Observer for Spans {
    fn outgoing(&self, _: &CallInfo<'_>) -> Option<TraceContext> {
        Some(TraceContext::root(true))
    }

    fn incoming(&self, call: &CallInfo<'_>, trace: Option<&TraceContext>) -> Span {
        let trace_id = trace.map(|trace| format!("{:032x}", trace.trace_id()));
        let parent_id = trace.map(|trace| format!("{:016x}", trace.span_id()));
        tracing::info_span!(
            "call",
            service = call.service,
            method = call.method,
            client = %call.peer,
            trace_id,
            parent_id
        )
    }

    fn ended(&self, call: &CallInfo<'_>, outcome: Outcome, took: Duration) {
        tracing::debug!(
            side = ?call.side,
            service = call.service,
            method = call.method,
            peer = %call.peer,
            outcome = outcome.name(),
            took_us = took.as_micros(),
            "call ended"
        );
    }
}
