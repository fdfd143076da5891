//! How an endpoint stands toward calls, and the choice by it.

use std::hash::Hash;
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
    /// Works on as many calls as it can take.
    Full,
    /// Takes no calls now.
    Down,
}

/// Chooses an endpoint that is not among those in `tried`: one that takes calls, or else one that
/// may do so soon.
pub(crate) fn pick_untried<K: Eq>(
    tried: &[K],
    standing: impl Fn(&K) -> Standing,
    mut choose: impl FnMut(&dyn Fn(&K) -> bool) -> Option<Slot>,
) -> Option<Slot> {
    [Standing::Ready, Standing::Connecting].into_iter().find_map(|wanted| {
        choose(&|endpoint| standing(endpoint) == wanted && !tried.contains(endpoint))
    })
}

/// Whether a call has to wait, for which `chosen` was found: an endpoint that would take calls
/// only has no room. One that is ejected is not asked while others are only full.
pub fn has_to_queue<K: Eq + Hash + Clone, R: Rng>(
    balancer: &mut Balancer<K>,
    now: Instant,
    rng: impl FnOnce() -> R,
    chosen: Option<Slot>,
    standing: impl Fn(&K) -> Standing,
) -> bool {
    if chosen.is_some_and(|slot| !balancer.is_last_choice(slot, now)) {
        return false;
    }
    let full = balancer.pick(now, &mut rng(), |endpoint| standing(endpoint) == Standing::Full);
    full.is_some_and(|full| chosen.is_none() || !balancer.is_last_choice(full, now))
}
