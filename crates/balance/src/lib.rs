//! Which endpoint a call goes to.
//!
//! One [`Balancer`] serves one cluster (the endpoints of one service) on one worker thread. It
//! holds what the choice needs: weights, calls in flight, measured latencies. There is no lock, no
//! clock and no socket in this crate: the caller passes the time, the random numbers, and which
//! endpoints are usable just now.
//!
//! A call passes through it in three steps:
//!
//! 1. [`Balancer::pick`] chooses an endpoint and returns its [`Slot`];
//! 2. [`Balancer::begin`] counts the call as in flight and returns a [`Ticket`];
//! 3. [`Balancer::finish`] (or [`Balancer::abandon`]) takes the ticket back, once.
//!
//! Begin to read at [`Balancer`]; [`Policy`] says how each choice is made, [`OutlierPolicy`] which
//! endpoints take no calls for a while because their calls failed. [`Holder`] decides which
//! endpoints stay in use although the registry no longer lists them. [`Ring`] is Dubbo's ring of
//! consistent hashing.

mod balancer;
mod endpoint;
mod hold;
mod latency;
mod outlier;
mod policy;
mod ring;
mod score;
mod warm_up;

pub use balancer::{Balancer, Changed};
pub use endpoint::{EndpointSpec, EndpointStats, Slot, Ticket};
pub use hold::{Evidence, HoldPolicy, Holder};
pub use outlier::{EjectReason, Ejection, OutlierPolicy, Verdict};
pub use policy::{Policy, UnknownPolicy};
pub use ring::{Affinity, DEFAULT_NODES, Ring};
pub use warm_up::WarmUp;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
fn test_start() -> std::time::Instant {
    std::time::Instant::now()
}
