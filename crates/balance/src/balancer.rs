//! The balancer: endpoints of one cluster, their statistics, and the choice among them.
//!
//! Invariants:
//! - `live` lists exactly the endpoints that are listed and have a weight above 0, and
//!   `cumulative` holds the running sum of their weights.
//! - `index` has the key of each endpoint that has a place.
//! - An endpoint that is no longer listed keeps its place while it has calls in flight, and no
//!   longer.
//! - A ticket changes the count of the endpoint that it was made for, or of none.
//! - `n_out` counts the places whose endpoint is ejected, and `n_counted` those among them that
//!   count toward the share that may be.
//! - If any listed endpoint with a weight above 0 is available, a pick finds one: being ejected
//!   only makes an endpoint the last choice.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use rand::Rng;

use crate::endpoint::{EndpointSpec, EndpointStats, Slot, Ticket};
use crate::outlier::{Ejection, EjectionChange, EndedCall, OutlierPolicy, Verdict};
use crate::policy::Policy;
use crate::ring::Affinity;
use crate::score::Usual;
use ejecting::Absence;
use entry::{EndpointEntry, ReusableEntry};

mod choice;
mod ejecting;
mod entry;
mod list;

/// How often the weights of endpoints that are warming up are computed again.
const WARM_UP_STEP: Duration = Duration::from_millis(10);

/// What has become of an endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Changed<K> {
    /// The endpoint.
    pub key: K,
    /// Why it is ejected, and until when; `None` if it takes calls again.
    pub ejection: Option<Ejection>,
}

/// Chooses endpoints for the calls of one service on one worker thread.
#[derive(Clone, Debug)]
pub struct Balancer<K> {
    policy: Policy,
    places: Vec<ReusableEntry<K>>,
    free: Vec<u32>,
    /// The places of all endpoints, by their keys.
    index: HashMap<K, u32>,
    /// Places in the order of the last update, without those that are leaving.
    listed: Vec<u32>,
    live: Vec<u32>,
    cumulative: Vec<u64>,
    is_even: bool, // all of `live` have the same weight
    /// Where rotations begin, drawn at the first pick: workers that start together must not all
    /// begin with the same endpoint.
    phase: Option<usize>,
    /// When the weights of warming endpoints were computed last; `None` if none is warming.
    warmed_at: Option<Instant>,
    /// The latest time that a caller told us.
    now: Option<Instant>,
    epoch: u64,
    candidates: Vec<u32>,
    /// Endpoints that are ejected: while there is none, nothing about ejections is looked at.
    n_out: usize,
    n_counted: usize,
    outlier: OutlierPolicy,
    usual: Usual,
    /// When endpoints were looked at last.
    looked_at: Option<Instant>,
    /// When they are looked at next; `None` before the first time.
    look_due: Option<Instant>,
    /// Where in `live` the next look begins.
    look_from: usize,
    changes: VecDeque<Changed<K>>,
}

impl<K: Eq + Hash + Clone> Balancer<K> {
    /// A balancer without endpoints.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            places: Vec::new(),
            free: Vec::new(),
            index: HashMap::new(),
            listed: Vec::new(),
            live: Vec::new(),
            cumulative: Vec::new(),
            is_even: true,
            phase: None,
            warmed_at: None,
            now: None,
            epoch: 0,
            candidates: Vec::new(),
            n_out: 0,
            n_counted: 0,
            outlier: OutlierPolicy::default(),
            usual: Usual::default(),
            looked_at: None,
            look_due: None,
            look_from: 0,
            changes: VecDeque::new(),
        }
    }

    /// The policy in use.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Chooses by `policy` from now on; statistics stay.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Replaces the list of endpoints.
    ///
    /// An endpoint whose key stays keeps its statistics and its slot. One that is gone gets no
    /// new calls and is forgotten with its last call in flight; if it comes back before, it goes
    /// on as if it had stayed. Of two specs with the same key the first one counts.
    pub fn update(&mut self, now: Instant, specs: impl IntoIterator<Item = EndpointSpec<K>>) {
        self.tell_time(now);
        self.epoch += 1;
        let before = std::mem::take(&mut self.listed);
        let mut hint = 0;
        let mut changed = false;
        let specs = specs.into_iter();
        if before.is_empty() {
            // The first list may be a long one, and a grown table has room for nearly twice it.
            self.places.reserve_exact(specs.size_hint().0.saturating_sub(self.places.len()));
        }
        for spec in specs {
            match self.find(&before, &spec.key, &mut hint) {
                Some(index) => changed |= self.refresh(index, &spec),
                None => {
                    self.insert(spec);
                    changed = true;
                }
            }
        }
        changed |= self.listed.len() != before.len();
        for index in before {
            self.drop_if_unlisted(index);
        }
        if changed {
            self.restart_rotation();
        }
        self.compute_weights(now);
    }

    /// Chooses an endpoint for one call, or `None` if no listed endpoint with a weight above 0 is
    /// `available`. Use `available` to hide endpoints that are down, draining, or tried already.
    ///
    /// An endpoint that is ejected is chosen only if its trial is due, or if all that are
    /// available are ejected: then nothing is lost by asking, and the first that is back is found
    /// at once.
    ///
    /// `Random`, `PowerOfTwo` and `Adaptive` look at a few endpoints however many there are,
    /// unless most are unavailable; the others look at all.
    pub fn pick<R: Rng + ?Sized>(
        &mut self,
        now: Instant,
        rng: &mut R,
        available: impl Fn(&K) -> bool,
    ) -> Option<Slot> {
        self.tell_time(now);
        if self.warmed_at.is_some_and(|at| WARM_UP_STEP <= now.saturating_duration_since(at)) {
            self.compute_weights(now);
        }
        if self.look_due.is_none_or(|due| due <= now) {
            self.look(now, rng);
        }
        let mut index = None;
        if self.n_out != 0 {
            let allowed =
                |entry: &EndpointEntry<K>| entry.outlier.allows(now) && available(&entry.key);
            index = self.choose(now, rng, allowed);
        }
        let index = index.or_else(|| self.choose(now, rng, |entry| available(&entry.key)))?;
        Some(self.slot_at(index))
    }

    /// Chooses the endpoint for a call whose key has this point on the ring: the first that is
    /// `available` and has a weight above 0. Ejected ones are chosen as by [`pick`](Self::pick).
    pub fn pick_at<R: Rng + ?Sized>(
        &mut self,
        now: Instant,
        rng: &mut R,
        affinity: &Affinity,
        point: u32,
        available: impl Fn(&K) -> bool,
    ) -> Option<Slot> {
        self.tell_time(now);
        if self.look_due.is_none_or(|due| due <= now) {
            self.look(now, rng);
        }
        let first = |allows: &dyn Fn(&EndpointEntry<K>) -> bool| {
            affinity.order(point).find(|slot| {
                self.entry(*slot)
                    .is_some_and(|entry| !entry.leaving && entry.full_weight != 0 && allows(entry))
            })
        };
        let out = self.n_out != 0;
        let allowed = out.then(|| first(&|it| it.outlier.allows(now) && available(&it.key)));
        allowed.flatten().or_else(|| first(&|entry| available(&entry.key)))
    }

    /// Whether a pick chose an ejected endpoint, because no other one is available.
    #[inline]
    #[must_use]
    pub fn is_last_choice(&self, slot: Slot, now: Instant) -> bool {
        self.n_out != 0 && self.entry(slot).is_some_and(|entry| !entry.outlier.allows(now))
    }

    fn choose<R: Rng + ?Sized>(
        &mut self,
        now: Instant,
        rng: &mut R,
        usable: impl Fn(&EndpointEntry<K>) -> bool,
    ) -> Option<u32> {
        if let [only] = *self.live {
            return self.at(only).is_some_and(usable).then_some(only);
        }
        match self.policy {
            Policy::Random => self.draw(rng, usable),
            Policy::RoundRobin => {
                self.gather(rng, usable);
                self.rotate()
            }
            Policy::LeastInFlight => {
                self.gather(rng, usable);
                self.keep_least_loaded(|entry| entry.queue(now));
                self.rotate()
            }
            Policy::PowerOfTwo => self.better_of_two(now, rng, usable),
            Policy::Adaptive | Policy::ConsistentHash => self.adapt(now, rng, usable),
            Policy::LeastActive => {
                self.gather(rng, usable);
                self.keep_least(|entry| entry.calls(now));
                self.draw_candidate(rng)
            }
            Policy::ShortestResponse => {
                self.gather(rng, usable);
                self.keep_least(|entry| {
                    entry.score.mean_of_period() * entry.calls(now).saturating_add(1)
                });
                self.draw_candidate(rng)
            }
        }
    }

    /// Counts a call toward `slot` as in flight. A slot whose endpoint has gone counts nothing.
    pub fn begin(&mut self, slot: Slot) -> Ticket {
        let (now, policy) = (self.now, &self.outlier);
        let mut began_out = false;
        if let Some(entry) = entry_at(&mut self.places, slot) {
            if entry.in_flight == 0 {
                entry.progress_at = now;
            }
            entry.in_flight = entry.in_flight.saturating_add(1);
            entry.picks += 1;
            if let Some(now) = now {
                began_out = entry.outlier.begun(policy, now);
            }
        }
        Ticket { slot, began_out }
    }

    /// Ends a call after `latency`, and learns from how it ended. `rng` is asked for only if the
    /// endpoint is ejected: the length of that is jittered.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is given back once")]
    pub fn finish<R: Rng>(
        &mut self,
        ticket: Ticket,
        now: Instant,
        latency: Duration,
        verdict: Verdict,
        rng: impl FnOnce() -> R,
    ) {
        self.tell_time(now);
        let Ticket { slot, began_out } = ticket;
        let (policy, choice) = (&self.outlier, self.policy);
        if verdict == Verdict::Answered {
            self.usual.answered(latency);
        }
        let usual = self.usual;
        if verdict == Verdict::TimedOut && latency < usual.latency() * 2 {
            return self.release(slot);
        }
        let Some(entry) = entry_at(&mut self.places, slot) else { return };
        match verdict {
            Verdict::Answered => entry.score.answered(now, latency, usual),
            Verdict::Threw => entry.score.failed(now, latency, usual, policy.exceptions),
            Verdict::Failed | Verdict::TimedOut | Verdict::Full | Verdict::Refused => {
                entry.score.failed(now, latency, usual, true);
            }
        }
        match choice {
            Policy::PowerOfTwo => entry.ewma.take_in(now, latency, usual.latency(), verdict),
            Policy::ShortestResponse if verdict == Verdict::Answered => {
                entry.score.count_period(now, latency);
            }
            _ => {}
        }
        if verdict != Verdict::TimedOut {
            entry.progress_at = Some(now);
        }
        if verdict != Verdict::Answered || entry.outlier.is_touched(policy) {
            let before = Absence::of(&entry.outlier);
            let may_eject = self.n_counted < policy.max_ejected(self.live.len());
            let change =
                entry.outlier.ended(policy, now, EndedCall { verdict, began_out }, may_eject, rng);
            if change != EjectionChange::None {
                self.note(slot.index, before, change);
            }
        }
        self.release(slot);
    }

    /// Ends a call that says nothing about the endpoint: it was never sent, or its caller went
    /// away.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is given back once")]
    pub fn abandon(&mut self, ticket: Ticket) {
        self.release(ticket.slot);
    }

    /// The endpoint in `slot`, unless it has gone.
    #[must_use]
    pub fn key(&self, slot: Slot) -> Option<&K> {
        self.entry(slot).map(|entry| &entry.key)
    }

    /// The slot of a listed endpoint.
    #[must_use]
    pub fn slot(&self, key: &K) -> Option<Slot> {
        let index = *self.index.get(key)?;
        self.at(index).filter(|entry| !entry.leaving).map(|_| self.slot_at(index))
    }

    /// How long answers usually take, over all endpoints; zero before the first.
    #[must_use]
    pub fn usual_latency(&self) -> Duration {
        self.usual.latency()
    }

    /// The statistics of one endpoint, unless it has gone.
    #[cfg(test)]
    fn stats_of(&self, slot: Slot) -> Option<EndpointStats<'_, K>> {
        self.entry(slot).map(|entry| entry.stats(slot))
    }

    /// The statistics of all endpoints, those that are leaving included.
    pub fn stats(&self) -> impl Iterator<Item = EndpointStats<'_, K>> {
        self.places.iter().zip(0..).filter_map(|(place, index)| {
            let entry = place.entry.as_ref()?;
            Some(entry.stats(Slot { index, generation: place.generation }))
        })
    }

    /// The statistics of the endpoints that are listed, in the order of the last update, without
    /// the first `n_skipped`.
    pub fn stats_from(&self, n_skipped: usize) -> impl Iterator<Item = EndpointStats<'_, K>> {
        let listed = self.listed.get(n_skipped..).unwrap_or_default();
        listed.iter().filter_map(|&index| {
            let place = self.places.get(index as usize)?;
            let slot = Slot { index, generation: place.generation };
            Some(place.entry.as_ref()?.stats(slot))
        })
    }

    /// Number of endpoints listed, whatever their weight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.listed.len()
    }

    /// Whether no endpoint is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    #[inline]
    fn tell_time(&mut self, now: Instant) {
        if self.now.is_none_or(|before| before < now) {
            self.now = Some(now);
        }
    }

    fn at(&self, index: u32) -> Option<&EndpointEntry<K>> {
        self.places.get(index as usize)?.entry.as_ref()
    }

    fn at_mut(&mut self, index: u32) -> Option<&mut EndpointEntry<K>> {
        self.places.get_mut(index as usize)?.entry.as_mut()
    }

    fn entry(&self, slot: Slot) -> Option<&EndpointEntry<K>> {
        let place = self.places.get(slot.index())?;
        place.entry.as_ref().filter(|_| place.generation == slot.generation)
    }

    fn entry_mut(&mut self, slot: Slot) -> Option<&mut EndpointEntry<K>> {
        entry_at(&mut self.places, slot)
    }

    fn slot_at(&self, index: u32) -> Slot {
        let generation = self.places.get(index as usize).map_or(0, |place| place.generation);
        Slot { index, generation }
    }
}

#[inline]
fn entry_at<K>(places: &mut [ReusableEntry<K>], slot: Slot) -> Option<&mut EndpointEntry<K>> {
    let place = places.get_mut(slot.index())?;
    place.entry.as_mut().filter(|_| place.generation == slot.generation)
}

#[cfg(test)]
mod tests;
