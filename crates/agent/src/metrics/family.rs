//! All calls of one kind, by their labels.
//!
//! Invariants:
//! - The sum under a set of labels never goes backwards while the set is there: the counts of a
//!   writer that is gone stay.
//! - No more sets of labels exist than the family's limit; what comes beyond counts as [`OTHER`].
//! - Counts never move to another set. Prometheus would take them for calls that were just made; a
//!   set that vanishes is nothing to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::calls::{CallStats, CallTotals};

/// A scrape of this many histograms is about 15 MB; more is a mistake in somebody's labels.
pub(super) const MAX_LABEL_SETS: usize = 4096;

/// One in so many of a family's sets is what a look for room should give.
const LOOK_SHARE: usize = 16;

/// The value of all labels of what is over the limit.
pub(super) const OTHER: &str = "other";

/// Values of the labels, as many as the family has names for.
type LabelValues = Vec<String>;

#[derive(Debug, Default)]
struct LabelSet {
    /// Writers; the family's own reference is the last one when the worker dropped its.
    writers: Vec<Arc<CallStats>>,
    /// The sum of the writers that are gone.
    retired: CallTotals,
    /// How many writers it had after the last look for those that are gone.
    n_after_sweep: usize,
}

impl LabelSet {
    /// Adds a writer. Thousands may share one set: those that are gone are looked for each time
    /// that their number may have doubled.
    fn add(&mut self, stats: &Arc<CallStats>) {
        if 2 * self.n_after_sweep <= self.writers.len() {
            self.sweep();
        }
        self.writers.push(Arc::clone(stats));
    }

    /// Moves the counts of writers that are gone into the sum.
    fn sweep(&mut self) {
        let Self { writers, retired, .. } = self;
        writers.retain_mut(|stats| match Arc::get_mut(stats) {
            Some(stats) => {
                retired.retire(stats);
                false
            }
            None => true,
        });
        self.n_after_sweep = writers.len();
    }
}

/// All sets of labels.
#[derive(Debug, Default)]
struct Sets {
    by_labels: BTreeMap<LabelValues, LabelSet>,
    /// So many writers get no set of their own before sets without a writer are looked for.
    n_until_look: usize,
}

/// All calls of one kind, by their labels.
#[derive(Debug)]
pub(super) struct Family {
    n_codes: usize,
    n_labels: usize,
    max_sets: usize,
    sets: Mutex<Sets>,
}

impl Family {
    pub(super) fn new(n_codes: usize, n_labels: usize) -> Self {
        Self::limited(n_codes, n_labels, MAX_LABEL_SETS)
    }

    /// With at most so many sets of labels.
    pub(super) fn limited(n_codes: usize, n_labels: usize, max_sets: usize) -> Self {
        Self { n_codes, n_labels, max_sets, sets: Mutex::default() }
    }

    /// A new writer under these labels.
    pub(super) fn writer(&self, labels: &[&str]) -> Arc<CallStats> {
        debug_assert_eq!(labels.len(), self.n_labels);
        let stats = Arc::new(CallStats::new(self.n_codes));
        let mut labels: LabelValues = labels.iter().map(|value| (*value).to_owned()).collect();
        let mut sets = self.lock();
        if self.is_full(&sets) && !sets.by_labels.contains_key(&labels) {
            self.make_room(&mut sets);
            if self.is_full(&sets) {
                labels = self.other();
            }
        }
        sets.by_labels.entry(labels).or_default().add(&stats);
        stats
    }

    fn is_full(&self, sets: &Sets) -> bool {
        self.max_sets <= sets.by_labels.len()
    }

    /// The sum under each set of labels, in their order.
    pub(super) fn totals(&self) -> Vec<(LabelValues, CallTotals)> {
        self.totals_of(|_| true)
    }

    /// The same of those sets of labels that are wanted.
    pub(super) fn totals_of(
        &self,
        is_wanted: impl Fn(&[String]) -> bool,
    ) -> Vec<(LabelValues, CallTotals)> {
        let sum = |set: &mut LabelSet| {
            set.sweep();
            let mut totals = set.retired.clone();
            for stats in &set.writers {
                totals.add(stats);
            }
            totals
        };
        let sets = &mut self.lock().by_labels;
        let wanted = sets.iter_mut().filter(|(labels, _)| is_wanted(labels));
        wanted.map(|(labels, set)| (labels.clone(), sum(set))).collect()
    }

    /// Forgets all sets of labels without a writer: endpoints that left. A look at all sets takes
    /// long where there are thousands; if it was of little use, the next one waits.
    fn make_room(&self, sets: &mut Sets) {
        if 0 < sets.n_until_look {
            sets.n_until_look -= 1;
            return;
        }
        let other = self.other();
        sets.by_labels.retain(|labels, set| {
            set.sweep();
            !set.writers.is_empty() || *labels == other
        });
        let n_free = self.max_sets.saturating_sub(sets.by_labels.len());
        let step = self.max_sets / LOOK_SHARE;
        sets.n_until_look = step.saturating_sub(n_free);
    }

    fn other(&self) -> LabelValues {
        vec![OTHER.to_owned(); self.n_labels]
    }

    /// A thread that panicked while it held the lock left at worst a writer unregistered.
    fn lock(&self) -> MutexGuard<'_, Sets> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn n_finished(family: &Family) -> u64 {
        family.totals().iter().flat_map(|(_, totals)| totals.codes.clone()).sum()
    }

    #[test]
    fn counts_of_dropped_writers_stay() {
        let family = Family::new(2, 1);
        for round in 1..=3 {
            let writer = family.writer(&["a"]);
            writer.started();
            writer.finished(Duration::from_millis(1), None);
            assert_eq!(n_finished(&family), round);
            drop(writer);
            assert_eq!(n_finished(&family), round);
        }
        assert_eq!(family.lock().by_labels[&vec!["a".to_owned()]].writers.len(), 0);
    }

    /// What Prometheus reads of a family: how many calls ended under each set of labels, and how
    /// long they took together, in microseconds.
    fn scrape(family: &Family) -> BTreeMap<LabelValues, [u64; 2]> {
        let read = |totals: CallTotals| {
            let [ok, _] = &totals.latency;
            [totals.n_ok(), ok.sum_us]
        };
        family.totals().into_iter().map(|(labels, totals)| (labels, read(totals))).collect()
    }

    /// `sum by (service) (increase())` between two scrapes. A series that is less than before has
    /// begun again, and one that is there no more does not count.
    fn increases(
        before: &BTreeMap<LabelValues, [u64; 2]>,
        after: &BTreeMap<LabelValues, [u64; 2]>,
    ) -> BTreeMap<String, [u64; 2]> {
        let mut sums = BTreeMap::<String, [u64; 2]>::new();
        for (labels, now) in after {
            let then = before.get(labels).copied().unwrap_or_default();
            let sum = sums.entry(labels[0].clone()).or_default();
            for ((sum, now), then) in sum.iter_mut().zip(now).zip(then) {
                *sum += now.checked_sub(then).unwrap_or(*now);
            }
        }
        sums
    }

    /// Endpoints that left make room for others, and nobody sees calls that were not made.
    #[test]
    fn forgotten_endpoints_are_no_new_calls() {
        const N_ENDPOINTS: usize = 100;
        let family = Family::limited(0, 2, 160);
        let mut before = scrape(&family);
        for list in 0..20 {
            let endpoint = |n: usize| family.writer(&["a.B", &format!("{list}:{n}")]);
            let endpoints: Vec<_> = (0..N_ENDPOINTS).map(endpoint).collect();
            for endpoint in &endpoints {
                endpoint.started();
                endpoint.finished(Duration::from_micros(7), None);
            }
            let after = scrape(&family);
            assert!(after.len() <= 161, "the limit, and the set for all others");
            let sums = increases(&before, &after);
            let sum = |index: usize| sums.values().map(|sum| sum[index]).sum::<u64>();
            assert_eq!([sum(0), sum(1)], [100, 700], "list {list}: {sums:?}");
            assert!(sums["a.B"][0] <= 100);
            before = after;
        }
        assert!(before.len() < 20 * N_ENDPOINTS, "room was made again and again");
    }

    #[test]
    fn a_family_may_have_a_smaller_limit() {
        let family = Family::limited(0, 2, 3);
        let _writers: Vec<_> = ["a", "b", "c", "d", "e"].map(|it| family.writer(&["s", it])).into();
        let labels: Vec<LabelValues> =
            family.totals().into_iter().map(|(labels, _)| labels).collect();
        assert_eq!(labels, [[OTHER, OTHER], ["s", "a"], ["s", "b"], ["s", "c"]]);
    }

    /// A list of thousands must not cost a look at all sets for each endpoint: a worker that adds
    /// them holds up the calls of others.
    #[test]
    fn a_full_family_looks_for_room_seldom() {
        let family = Family::limited(0, 1, 160);
        let writer = |n: usize| family.writer(&[&n.to_string()]);
        let lasting: Vec<_> = (0..200).map(writer).collect();
        let n_until_look = || family.lock().n_until_look;
        // Nothing could be freed at the last look.
        assert!(0 < n_until_look() && n_until_look() <= 10, "{}", n_until_look());
        let n_others = || family.lock().by_labels[&family.other()].writers.len();
        for n in 200..2000 {
            drop(writer(n));
            assert!(n_others() <= 2 * lasting.len(), "those that are gone pile up");
        }
        // Beside as many as the limit has, there is the set for all others.
        assert_eq!(family.totals().len(), 161);
        drop(lasting);
        // Room is found within some writers, and then it is there for as many as before.
        let new: Vec<_> = (2000..2100).map(writer).collect();
        assert!(80 < family.totals().iter().filter(|(labels, _)| labels[0].len() == 4).count());
        drop(new);
    }

    #[test]
    fn too_many_label_sets_share_one() {
        let family = Family::new(0, 2);
        let writers: Vec<_> =
            (0..MAX_LABEL_SETS + 10).map(|n| family.writer(&["service", &n.to_string()])).collect();
        assert!(family.lock().by_labels.len() <= MAX_LABEL_SETS + 1);
        let other = family.totals().into_iter().find(|(labels, _)| labels[0] == OTHER);
        assert_eq!(other.unwrap().0, [OTHER, OTHER]);
        assert_eq!(family.lock().by_labels[&family.other()].writers.len(), 10);
        drop(writers);
    }
}
