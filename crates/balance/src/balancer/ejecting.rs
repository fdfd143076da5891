//! Which endpoints are ejected, and which come back: what [`Outlier`] says of each, and what
//! follows for all.

use std::hash::Hash;
use std::time::{Duration, Instant};

use rand::Rng;

use super::{Balancer, Changed};
use crate::outlier::{EjectionChange, Outlier, OutlierPolicy};

/// How often endpoints are looked at that have calls in flight and answer none.
const LOOK_STEP: Duration = Duration::from_millis(10);

/// As many endpoints are looked at in one step; where there are more they take turns.
const LOOK_MAX: usize = 64;

/// Changes that nobody has polled; what comes beyond is forgotten, the oldest first.
const MAX_CHANGES: usize = 64;

/// How an endpoint is out of use.
#[derive(Clone, Copy)]
pub(super) struct Absence {
    is_out: bool,
    /// Whether it counts towards those that may be out at a time.
    is_counted: bool,
}

impl Absence {
    pub(super) fn of(outlier: &Outlier) -> Self {
        Self { is_out: outlier.is_out(), is_counted: outlier.is_counted() }
    }
}

impl<K: Eq + Hash + Clone> Balancer<K> {
    /// Ejects endpoints by `policy` from now on. Those that are out for a reason that is none any
    /// more take calls again; the others stay out until their time.
    pub fn set_outlier(&mut self, policy: OutlierPolicy) {
        if std::mem::replace(&mut self.outlier, policy) == policy || self.n_out == 0 {
            return;
        }
        for index in (0..).take(self.places.len()) {
            let Some(entry) = self.at_mut(index) else { continue };
            let before = Absence::of(&entry.outlier);
            let change = entry.outlier.set_policy(&policy);
            if change != EjectionChange::None {
                self.note(index, before, change);
            }
        }
    }

    /// The next endpoint that was ejected or came back, in the order of events. Of many that
    /// nobody polls the newest 64 are kept.
    pub fn poll_change(&mut self) -> Option<Changed<K>> {
        self.changes.pop_front()
    }

    /// Takes note of what has become of an endpoint that was out as `before` says.
    #[cold]
    pub(super) fn note(&mut self, index: u32, before: Absence, change: EjectionChange) {
        let Some(entry) = self.at(index) else { return };
        let after = Absence::of(&entry.outlier);
        let changed =
            Changed { key: entry.key.clone(), ejection: entry.outlier.ejection().copied() };
        self.n_out = self.n_out + usize::from(after.is_out) - usize::from(before.is_out);
        self.n_counted =
            self.n_counted + usize::from(after.is_counted) - usize::from(before.is_counted);
        if self.changes.len() == MAX_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(changed);
        if let (EjectionChange::Back, Some(now)) = (change, self.now) {
            self.compute_weights(now);
        }
    }

    /// Ejects endpoints that have gone silent, and forgives slow ones that nobody asks.
    pub(super) fn look<R: Rng + ?Sized>(&mut self, now: Instant, rng: &mut R) {
        let step = self.looked_at.map_or(LOOK_STEP, |at| now.saturating_duration_since(at));
        (self.looked_at, self.look_due) = (Some(now), now.checked_add(LOOK_STEP));
        let (policy, usual) = (self.outlier, self.usual);
        let latency = usual.latency();
        let n_live = self.live.len();
        let n_turns = u32::try_from(n_live.div_ceil(LOOK_MAX)).unwrap_or(u32::MAX);
        let step = step.saturating_mul(n_turns);
        let first = if self.look_from < n_live { self.look_from } else { 0 };
        let end = n_live.min(first + LOOK_MAX);
        self.look_from = end;
        for position in first..end {
            let Some(&index) = self.live.get(position) else { return };
            let may_eject = self.n_counted < policy.max_ejected(self.live.len());
            let Some(entry) = self.at_mut(index) else { continue };
            entry.score.forgive(now, step, usual);
            let before = Absence::of(&entry.outlier);
            let (in_flight, silent) = (entry.in_flight, entry.silent(now));
            let takes = latency.max(entry.score.mean().unwrap_or_default());
            if may_eject && !before.is_out && Outlier::is_silent(&policy, in_flight, silent, takes)
            {
                entry.outlier.silenced(&policy, now, || &mut *rng);
                self.note(index, before, EjectionChange::Out);
            }
        }
    }

    /// Whether any endpoint is ejected.
    #[must_use]
    pub fn has_ejected(&self) -> bool {
        self.n_out != 0
    }

    /// Looks at endpoints that have calls in flight and answer none, as each pick does: to be
    /// called now and then, in case that nobody picks.
    pub fn look_at_silence<R: Rng + ?Sized>(&mut self, now: Instant, rng: &mut R) {
        self.tell_time(now);
        if self.look_due.is_none_or(|due| due <= now) {
            self.look(now, rng);
        }
    }
}
