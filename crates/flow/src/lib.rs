//! Decisions about a call: whether it may be tried again, where, how often and until when.
//!
//! There is no lock, clock, task or socket in this crate. The caller passes the time, the random
//! numbers and how endpoints stand, and does what it is told.
//!
//! - [`Attempts`] decides where a call goes next: to which endpoint, to none yet, or to none at all.
//! - [`Rewrites`] decides whether a call that could not be read may be sent in another form.
//! - [`Retry`] is what both go by: what the last failure says about another try.
//! - [`rules`] says which endpoints a call may go to at all.
//! - [`AttemptEnd`] is what the balancer learns from an attempt that is over.
//!
//! Invariants, which `tests/simulation.rs` checks:
//! - A call that may have begun is never sent again.
//! - No attempt begins after the call's deadline.
//! - No call is offered to the same endpoint twice, and to no more endpoints than its limit says.
//! - Whatever an attempt comes to, its ticket is given back once.

mod attempt_end;
mod attempts;
mod retry;
mod rewrites;
pub mod rules;
mod standing;

pub use attempt_end::AttemptEnd;
pub use attempts::{AttemptLimits, Attempts, GiveUp, Next, has_choice};
pub use retry::Retry;
pub use rewrites::Rewrites;
pub use standing::{Standing, pick_ready};

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
fn test_start() -> std::time::Instant {
    std::time::Instant::now()
}
