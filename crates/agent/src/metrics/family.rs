//! All calls of one kind, by their labels.
//!
//! Invariants:
//! - The sum under a set of labels never goes backwards: the counts of a writer that is gone stay.
//! - No more sets of labels exist than the family's limit; what comes beyond counts as [`OTHER`].

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::calls::{CallStats, CallTotals};

/// A scrape of this many histograms is about 15 MB; more is a mistake in somebody's labels.
pub(super) const MAX_LABEL_SETS: usize = 4096;

/// The value of all labels of what is over the limit, or was pushed out.
pub(super) const OTHER: &str = "other";

/// Values of the labels, as many as the family has names for.
type Labels = Vec<String>;

#[derive(Debug, Default)]
struct LabelSet {
    /// Writers; the family's own reference is the last one when the worker dropped its.
    writers: Vec<Arc<CallStats>>,
    /// The sum of the writers that are gone.
    retired: CallTotals,
}

impl LabelSet {
    /// Moves the counts of writers that are gone into the sum.
    fn sweep(&mut self) {
        let Self { writers, retired } = self;
        writers.retain_mut(|stats| match Arc::get_mut(stats) {
            Some(stats) => {
                retired.retire(stats);
                false
            }
            None => true,
        });
    }
}

/// All calls of one kind, by their labels.
#[derive(Debug)]
pub(super) struct Family {
    n_codes: usize,
    n_labels: usize,
    max_sets: usize,
    sets: Mutex<BTreeMap<Labels, LabelSet>>,
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
        let mut labels: Labels = labels.iter().map(|value| (*value).to_owned()).collect();
        let mut sets = self.lock();
        if sets.len() >= self.max_sets && !sets.contains_key(&labels) {
            self.push_out(&mut sets);
            if sets.len() >= self.max_sets {
                labels = self.other();
            }
        }
        let set = sets.entry(labels).or_default();
        set.sweep();
        set.writers.push(Arc::clone(&stats));
        stats
    }

    /// The sum under each set of labels, in their order.
    pub(super) fn totals(&self) -> Vec<(Labels, CallTotals)> {
        let sum = |set: &mut LabelSet| {
            set.sweep();
            let mut totals = set.retired.clone();
            for stats in &set.writers {
                totals.add(stats);
            }
            totals
        };
        self.lock().iter_mut().map(|(labels, set)| (labels.clone(), sum(set))).collect()
    }

    /// Folds all sets of labels without a writer into [`OTHER`]: endpoints that left.
    fn push_out(&self, sets: &mut BTreeMap<Labels, LabelSet>) {
        let other = self.other();
        let mut folded = CallTotals::default();
        for (labels, mut set) in mem::take(sets) {
            set.sweep();
            if set.writers.is_empty() && labels != other {
                folded.merge(&set.retired);
            } else {
                sets.insert(labels, set);
            }
        }
        // One room fewer than the limit, so that this set always finds one.
        sets.entry(other).or_default().retired.merge(&folded);
    }

    fn other(&self) -> Labels {
        vec![OTHER.to_owned(); self.n_labels]
    }

    /// A thread that panicked while it held the lock left at worst a writer unregistered.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Labels, LabelSet>> {
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
        assert_eq!(family.lock()[&vec!["a".to_owned()]].writers.len(), 0);
    }

    #[test]
    fn endpoints_that_left_make_room_and_keep_their_counts() {
        let family = Family::new(0, 1);
        for n in 0..MAX_LABEL_SETS + 10 {
            let writer = family.writer(&[&n.to_string()]);
            writer.started();
            writer.finished(Duration::ZERO, None);
        }
        let n = u64::try_from(MAX_LABEL_SETS + 10).unwrap();
        assert_eq!(n_finished(&family), n);
        assert!(family.lock().len() <= MAX_LABEL_SETS);
    }

    #[test]
    fn a_family_may_have_a_smaller_limit() {
        let family = Family::limited(0, 2, 3);
        let _writers: Vec<_> = ["a", "b", "c", "d", "e"].map(|it| family.writer(&["s", it])).into();
        let labels: Vec<Labels> = family.totals().into_iter().map(|(labels, _)| labels).collect();
        assert_eq!(labels, [[OTHER, OTHER], ["s", "a"], ["s", "b"], ["s", "c"]]);
    }

    #[test]
    fn too_many_label_sets_share_one() {
        let family = Family::new(0, 2);
        let writers: Vec<_> =
            (0..MAX_LABEL_SETS + 10).map(|n| family.writer(&["service", &n.to_string()])).collect();
        assert!(family.lock().len() <= MAX_LABEL_SETS + 1);
        let other = family.totals().into_iter().find(|(labels, _)| labels[0] == OTHER);
        assert_eq!(other.unwrap().0, [OTHER, OTHER]);
        assert_eq!(family.lock()[&family.other()].writers.len(), 10);
        drop(writers);
    }
}
