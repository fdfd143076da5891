//! Which endpoints stay in use although their registry no longer lists them.
//!
//! A registry that loses its writers (a partition between them, a stall longer than the leases)
//! removes endpoints that are alive. A [`Holder`] keeps those that vanish while their connection
//! is alive and answers. It gives them calls only while so many have vanished that it is more
//! likely the registry that is wrong: more than a share of all that are alive, listed or not.
//!
//! Held endpoints are used like listed ones, not only as a last resort: an estate sized for ten
//! endpoints does not run on the four that are still listed, and each held one has just answered.
//!
//! Invariants:
//! - An endpoint whose connection is down, or which said goodbye, is never used; it is forgotten.
//! - No endpoint is used longer than the configured time after it vanished.
//! - An endpoint that is listed again is not kept beside its listing.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::endpoint::EndpointSpec;

/// Leases that end for one reason do not end in one moment. Endpoints that vanish within this time
/// count as having vanished at once; they keep their connection until then, without calls.
const AT_ONCE: Duration = Duration::from_secs(30);

/// When vanished endpoints stay in use, and for how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HoldPolicy {
    /// The longest time; zero turns holding off.
    pub time: Duration,
    /// Endpoints are held if more than so many percent of those alive have vanished, 0 to 99.
    pub percent: u8,
}

/// What the connection to an endpoint shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Evidence {
    /// The peer answers.
    Answers,
    /// The connection stands, but a question is unanswered.
    Silent,
    /// The connection is down, or the peer said that it takes no calls.
    Gone,
}

/// The endpoints of one cluster that vanished from the registry.
#[derive(Debug)]
pub struct Holder<K> {
    policy: HoldPolicy,
    kept: Vec<VanishedEndpoint<K>>,
    /// When the kept ones began to be used; `None` while they are not.
    holding_since: Option<Instant>,
    /// One that was used has gone since the last decision.
    has_lost: bool,
}

#[derive(Debug)]
struct VanishedEndpoint<K> {
    spec: EndpointSpec<K>,
    vanished_at: Instant,
    /// When it vanished or was used last, whichever is later.
    counted_at: Instant,
    /// What the last decision was by, and what it was.
    evidence: Evidence,
    is_used: bool,
}

impl<K: Eq + Hash + Clone> Holder<K> {
    /// Keeps nothing yet.
    #[must_use]
    pub fn new(policy: HoldPolicy) -> Self {
        Self { policy, kept: Vec::new(), holding_since: None, has_lost: false }
    }

    /// Decides by `policy` from now on.
    pub fn set_policy(&mut self, policy: HoldPolicy) {
        self.policy = policy;
    }

    /// Nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Endpoints have left the registry's list at `now`. To be followed by
    /// [`decide`](Self::decide).
    pub fn vanished(&mut self, now: Instant, specs: impl IntoIterator<Item = EndpointSpec<K>>) {
        if self.policy.time.is_zero() {
            return;
        }
        // A list of thousands may go at once.
        let mut known: HashSet<K> = self.kept().cloned().collect();
        for spec in specs {
            if known.insert(spec.key.clone()) {
                self.kept.push(VanishedEndpoint {
                    spec,
                    vanished_at: now,
                    counted_at: now,
                    evidence: Evidence::Answers,
                    is_used: false,
                });
            }
        }
    }

    /// Forgets the endpoints that `is_listed` again, or whose place another one has taken.
    pub fn listed(&mut self, is_listed: impl Fn(&K) -> bool) {
        self.retain(|kept| !is_listed(&kept.spec.key));
    }

    fn retain(&mut self, stays: impl Fn(&VanishedEndpoint<K>) -> bool) {
        let has_lost = &mut self.has_lost;
        self.kept.retain(|kept| {
            let stays = stays(kept);
            *has_lost |= kept.is_used && !stays;
            stays
        });
    }

    /// Decides at `now` which of the kept endpoints are used, beside `n_alive` that are listed and
    /// take calls. True if [`held`](Self::held) shows others than after the last decision.
    ///
    /// To be called whenever the list changes, and every fraction of a second while anything is
    /// kept.
    pub fn decide(
        &mut self,
        now: Instant,
        n_alive: usize,
        evidence: impl Fn(&K) -> Evidence,
    ) -> bool {
        let time = self.policy.time;
        for kept in &mut self.kept {
            kept.evidence = evidence(&kept.spec.key);
        }
        self.retain(|kept| {
            let age = now.saturating_duration_since(kept.vanished_at);
            kept.evidence != Evidence::Gone && age < time
        });
        let n_vanished = self.kept.iter().filter(|kept| kept.answers()).count();
        let limit = (n_alive + n_vanished).saturating_mul(usize::from(self.policy.percent));
        let is_holding = limit < n_vanished.saturating_mul(100);
        let mut has_changed = false;
        for kept in &mut self.kept {
            let is_used = is_holding && kept.answers();
            has_changed |= is_used != kept.is_used;
            kept.is_used = is_used;
            if is_holding {
                kept.counted_at = now;
            }
        }
        if is_holding {
            self.holding_since.get_or_insert(now);
        } else {
            self.holding_since = None;
            self.retain(|kept| now.saturating_duration_since(kept.counted_at) < AT_ONCE);
        }
        std::mem::take(&mut self.has_lost) || has_changed
    }

    /// The endpoints to use although they are not listed.
    pub fn held(&self) -> impl Iterator<Item = &EndpointSpec<K>> {
        self.kept.iter().filter(|kept| kept.is_used).map(|kept| &kept.spec)
    }

    /// When the endpoints that are held began to be used; `None` if none is.
    #[must_use]
    pub fn holding_since(&self) -> Option<Instant> {
        self.holding_since
    }

    /// All that are kept, used or not: their connections are to be asked whether they answer.
    pub fn kept(&self) -> impl Iterator<Item = &K> {
        self.kept.iter().map(|kept| &kept.spec.key)
    }
}

impl<K> VanishedEndpoint<K> {
    fn answers(&self) -> bool {
        self.evidence == Evidence::Answers
    }
}

#[cfg(test)]
mod tests;
