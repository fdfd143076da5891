//! How an endpoint stands toward calls, and the choice by it.

use std::time::Instant;

use balance::{Balancer, Slot};
use rand::Rng;

/// How an endpoint stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// Takes calls.
    Ready,
    /// Nothing is known yet.
    Connecting,
    /// Takes no calls now.
    Down,
}

/// Chooses an endpoint that takes the call at once, if there is one: for callers that cannot wait.
pub fn pick_ready<K: Eq + Clone, R: Rng + ?Sized>(
    balancer: &mut Balancer<K>,
    now: Instant,
    rng: &mut R,
    standing: impl Fn(&K) -> Standing,
) -> Option<Slot> {
    balancer.pick(now, rng, |endpoint| standing(endpoint) == Standing::Ready)
}

/// Chooses an endpoint that is not among those in `tried`: one that takes calls, or else one that may
/// do so soon.
pub(crate) fn pick_untried<K: Eq>(
    tried: &[K],
    standing: impl Fn(&K) -> Standing,
    mut choose: impl FnMut(&dyn Fn(&K) -> bool) -> Option<Slot>,
) -> Option<Slot> {
    [Standing::Ready, Standing::Connecting].into_iter().find_map(|wanted| {
        choose(&|endpoint| standing(endpoint) == wanted && !tried.contains(endpoint))
    })
}
