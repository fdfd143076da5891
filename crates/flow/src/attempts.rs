//! Where a call goes next.
//!
//! Invariants:
//! - An endpoint is chosen only if it was not tried, and the last failure proves that nobody has
//!   begun the call.
//! - The first attempt needs no permission but the deadline's; every further one counts toward the
//!   limit.

use std::hash::Hash;
use std::time::Instant;

use balance::{Balancer, Slot};
use rand::Rng;

use crate::Retry;
use crate::standing::{Standing, pick_untried};

/// How often a call is offered, and until when.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AttemptLimits {
    /// Endpoints that the call may be offered to, the first included. 0 counts as 1.
    pub max_attempts: u32,
    /// When the caller gives up. An attempt may begin at this moment, but not later.
    pub deadline: Instant,
}

/// What one call has tried so far.
#[derive(Clone, Debug)]
pub struct Attempts<K> {
    limits: AttemptLimits,
    tried: Vec<K>,
    /// No failure so far forbids another attempt.
    is_open: bool,
    draw: u64,
}

/// What to do with a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextAction {
    /// Offer it to this endpoint.
    Offer(Slot),
    /// Wait until it is known who offers the service, but not beyond the deadline; then ask again.
    Wait,
    /// Wait in line: those that could take it have no room.
    Queue,
    /// Offer it no more.
    GiveUp(GiveUp),
}

/// Why a call is offered no more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GiveUp {
    /// The deadline came before it was known who offers the service.
    NothingKnown,
    /// No endpoint can take it; none was tried.
    NoEndpoint,
    /// The last failure is how the call ends: it forbids another attempt, or there is nobody left.
    LastFailure,
    /// There is an endpoint to offer it to, but no time.
    TooLate,
}

/// Whether a call that one endpoint refuses could be offered to another one.
#[must_use]
pub const fn has_choice(max_attempts: u32, n_endpoints: usize) -> bool {
    1 < n_endpoints && 1 < max_attempts
}

impl<K: Eq + Hash + Clone> Attempts<K> {
    /// A call that was not offered yet.
    #[must_use]
    pub const fn new(limits: AttemptLimits) -> Self {
        Self { limits, tried: Vec::new(), is_open: true, draw: 0 }
    }

    /// The same, with a random number that all of its attempts go by.
    #[must_use]
    pub fn with_draw(self, draw: u64) -> Self {
        Self { draw, ..self }
    }

    /// The random number that all attempts go by: what is drawn by it is the same for each.
    #[must_use]
    pub const fn draw(&self) -> u64 {
        self.draw
    }

    /// How often the call is offered, and until when.
    #[must_use]
    pub const fn limits(&self) -> AttemptLimits {
        self.limits
    }

    /// Whether the call has not been offered to anybody.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.tried.is_empty()
    }

    /// Takes in that the attempt at `endpoint` failed.
    pub fn failed(&mut self, endpoint: K, failure: Retry) {
        self.is_open &= failure.allows_another_endpoint();
        self.tried.push(endpoint);
    }

    /// Decides what to do with the call at `now`. `is_known` says whether the balancer knows
    /// already who offers the service, `standing` how an endpoint stands.
    pub fn next<R: Rng + ?Sized>(
        &self,
        now: Instant,
        is_known: bool,
        balancer: &mut Balancer<K>,
        rng: &mut R,
        standing: impl Fn(&K) -> Standing,
    ) -> NextAction {
        self.next_by(now, is_known, standing, |usable| balancer.pick(now, rng, usable))
    }

    /// The same, where `choose` chooses among the endpoints that it is told are usable.
    pub fn next_by(
        &self,
        now: Instant,
        is_known: bool,
        standing: impl Fn(&K) -> Standing,
        choose: impl FnMut(&dyn Fn(&K) -> bool) -> Option<Slot>,
    ) -> NextAction {
        let AttemptLimits { max_attempts, deadline } = self.limits;
        if !self.is_first() && (!self.is_open || max_attempts as usize <= self.tried.len()) {
            return NextAction::GiveUp(GiveUp::LastFailure);
        }
        if !is_known {
            return match now < deadline {
                true => NextAction::Wait,
                false => NextAction::GiveUp(GiveUp::NothingKnown),
            };
        }
        match pick_untried(&self.tried, standing, choose) {
            Some(_) if deadline < now => NextAction::GiveUp(GiveUp::TooLate),
            Some(slot) => NextAction::Offer(slot),
            None if self.is_first() => NextAction::GiveUp(GiveUp::NoEndpoint),
            None => NextAction::GiveUp(GiveUp::LastFailure),
        }
    }
}

#[cfg(test)]
mod tests;
