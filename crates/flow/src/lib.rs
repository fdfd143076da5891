//! Decisions about a call: whether it may begin, whether it may be tried again, where, how often
//! and until when.
//!
//! There is no lock, clock, task or socket in this crate. The caller passes the time, the random
//! numbers and how endpoints stand, and does what it is told.
//!
//! - [`Attempts`] decides where a call goes next: to which endpoint, to none yet, or to none at
//!   all.
//! - [`Rewrites`] decides whether a call that could not be read may be sent in another form.
//! - [`Retry`] is what both go by: what the last failure says about another try.
//! - [`RetryBudget`] bounds how many further attempts there are for all calls together.
//! - [`rules`] says which endpoints a call may go to at all.
//! - [`gate`] lets calls into an app, makes them wait in a [`mod@line`] with its [`queue`], or
//!   sheds them.
//! - [`limit`] finds out how many calls an app can take, [`credit`] deals that out, and
//!   [`capacity`] is both for the workers of a process.
//! - [`connection_count`] says how many connections the calls to one endpoint need.
//! - [`lender`] lends what a worker's gate may let in to the links that call it, and [`purse`] is
//!   what a link holds of that.
//! - [`Repeats`] says when a call is offered again to an app whose thread pool has rejected it.
//! - [`pause`] says who has calls and gives no sign of life.
//! - [`breaker`] keeps the calls of a method from an endpoint while they fail there.
//! - [`rate_limit`] refuses calls of which more come a second than is allowed.
//! - [`fault`] draws the faults that are injected into calls, and [`latencies`] says when a call
//!   is slower than most.
//! - [`split`] says which calls are taken out of a service's traffic.
//! - [`AttemptEnd`] is what the balancer learns from an attempt that is over.
//!
//! Invariants, which `tests/simulation.rs` checks:
//! - A call that may have begun is never sent again, unless it is idempotent.
//! - No attempt begins after the call's deadline.
//! - No call is offered to the same endpoint twice, but for [`Repeats`], and to no more endpoints
//!   than its limit says.
//! - Whatever an attempt comes to, its ticket is given back once.
//!
//! And `tests/overload`:
//! - No app gets more calls than its capacity, while all its callers come through agents.
//! - A call that waits is served or shed by its deadline.
//! - Credits and passes come back, whoever is lost.

mod attempt_end;
mod attempts;
pub mod breaker;
pub mod capacity;
pub mod connection_count;
pub mod credit;
pub mod fault;
pub mod gate;
pub mod latencies;
pub mod lender;
pub mod limit;
pub mod line;
pub mod pause;
pub mod purse;
pub mod queue;
pub mod rate_limit;
mod repeats;
mod retry;
mod retry_budget;
mod rewrites;
pub mod rules;
pub mod split;
mod standing;
mod throughput;
mod windowed_min;

pub use attempt_end::AttemptEnd;
pub use attempts::{AttemptLimits, Attempts, GiveUp, NextAction, has_choice};
pub use repeats::Repeats;
pub use retry::Retry;
pub use retry_budget::RetryBudget;
pub use rewrites::Rewrites;
pub use standing::{Standing, has_to_queue};

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
fn test_start() -> std::time::Instant {
    std::time::Instant::now()
}
