//! What a balancer is told about an endpoint, and what it tells about one.

use std::time::Duration;

use crate::outlier::Ejection;
use crate::warm_up::WarmUp;

/// One endpoint as the registry describes it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EndpointSpec<K> {
    /// What makes the endpoint the same one in the next update; its statistics stay with it.
    pub key: K,
    /// Share of the traffic relative to the others; 0 means no traffic at all.
    pub weight: u32,
    /// Set while the endpoint has not been up long enough for its full weight.
    pub warm_up: Option<WarmUp>,
}

/// Names one endpoint of one balancer for as long as the endpoint stays.
///
/// A slot of an endpoint that has gone is recognised as such, even when its place is taken by
/// another.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Slot {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Slot {
    /// A small number, unique among the endpoints of the moment: fit to index a table beside the
    /// balancer.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// One call in flight. Give it back to [`Balancer::finish`](crate::Balancer::finish) or
/// [`Balancer::abandon`](crate::Balancer::abandon), or the call counts as in flight for ever.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a ticket that is not given back counts as a call in flight for ever"]
pub struct Ticket {
    pub(crate) slot: Slot,
    /// The endpoint was ejected when the call began: a trial, or nobody else was left.
    pub(crate) began_out: bool,
}

impl Ticket {
    /// The endpoint that the call went to.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.slot
    }
}

/// A reading of one endpoint's statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointStats<'a, K> {
    /// The endpoint.
    pub key: &'a K,
    /// Its place.
    pub slot: Slot,
    /// Weight in effect, with the warm-up applied; 0 for an endpoint that takes no calls.
    pub weight: u32,
    /// Calls begun and not yet finished.
    pub in_flight: u32,
    /// Mean latency of answers; `None` before the first.
    pub latency: Option<Duration>,
    /// How many times a call in flight here counts, in 16ths: more than 16 for an endpoint that is
    /// slower than usual, or fails.
    pub factor: u32,
    /// Calls begun so far.
    pub picks: u64,
    /// The endpoint is no longer listed and waits for its last calls to finish.
    pub leaving: bool,
    /// The endpoint is ejected and gets no calls but trials.
    pub ejection: Option<Ejection>,
}
