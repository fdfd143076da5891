//! How many workers the load needs.
//!
//! A worker with little to do sleeps between two messages. Each time that it wakes, it takes a
//! core from others, and finds caches that they have used. One worker that has the work of two
//! sleeps half as often, and takes less time for each call. So the connections that can go to
//! another worker are served by as few as have time left.
//!
//! Invariants:
//! - A worker without time left gets help at the next look; one goes only after a calm time.
//! - Those who stay have time left for what the one who goes has done.
//! - A crowd has all workers: some limits are those of one worker, such as how many calls may wait.

use std::time::{Duration, Instant};

/// A worker that runs for more of the time than this has none left.
const FULL: f64 = 0.6;
/// The same of one that waits for a core as well: others keep the cores busy, and a second thread
/// would have a second share of them.
const CROWDED: f64 = 0.95;
/// Those who stay may have to run for so much of the time.
const CALM: f64 = 0.45;
/// With more connections than this for each worker, there is a crowd.
const CROWD_LEN: usize = 1_000;
/// So long it must be calm.
const CALM_TIME: Duration = Duration::from_secs(2);

/// What a worker's thread did since the last look, as parts of the time, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    /// It ran.
    pub running: f64,
    /// It waited for a core.
    pub waiting: f64,
}

/// How many of a process's workers serve the connections that can go from one to another. These
/// are the first ones.
#[derive(Debug)]
pub struct WorkerCount {
    n_workers: usize,
    n_used: usize,
    calm_since: Option<Instant>,
}

impl WorkerCount {
    /// All of them do at first.
    #[must_use]
    pub fn new(n_workers: usize) -> Self {
        Self { n_workers, n_used: n_workers, calm_since: None }
    }

    /// Takes in what the workers have done since the last look, in their order, and how many
    /// connections all of them have. Says how many are used from now on.
    pub fn look(&mut self, now: Instant, busy: &[Busy], n_connections: usize) -> usize {
        let is_full = |it: &Busy| FULL < it.running || CROWDED < it.running + it.waiting;
        let is_crowd = |n_used: usize| n_used.saturating_mul(CROWD_LEN) < n_connections;
        if is_crowd(self.n_used) || busy.iter().take(self.n_used).any(is_full) {
            self.n_used = self.n_workers.min(2 * self.n_used);
            self.calm_since = None;
            return self.n_used;
        }
        let running: f64 = busy.iter().map(|it| it.running).sum();
        #[expect(clippy::cast_precision_loss, reason = "a few workers")]
        let is_calm = 1 < self.n_used
            && running < CALM * (self.n_used - 1) as f64
            && !is_crowd(self.n_used - 1);
        if !is_calm {
            self.calm_since = None;
            return self.n_used;
        }
        let since = *self.calm_since.get_or_insert(now);
        if CALM_TIME <= now.saturating_duration_since(since) {
            self.n_used -= 1;
            self.calm_since = None;
        }
        self.n_used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_start;

    const EVERY: Duration = Duration::from_millis(200);

    /// How many are used after so many looks at workers that are all as busy.
    fn after(count: &mut WorkerCount, now: &mut Instant, n_looks: u32, running: f64) -> usize {
        let mut n_used = 0;
        for _ in 0..n_looks {
            *now += EVERY;
            let busy = Busy { running, waiting: 0.0 };
            n_used = count.look(*now, &vec![busy; count.n_workers], 16);
        }
        n_used
    }

    #[test]
    fn those_who_are_not_needed_go_one_by_one_and_come_back_at_once() {
        let (mut now, mut count) = (test_start(), WorkerCount::new(4));
        assert_eq!(after(&mut count, &mut now, 10, 0.1), 4, "not yet");
        assert_eq!(after(&mut count, &mut now, 1, 0.1), 3);
        assert_eq!(after(&mut count, &mut now, 11, 0.1), 2);
        assert_eq!(after(&mut count, &mut now, 11, 0.05), 1);
        assert_eq!(after(&mut count, &mut now, 100, 0.0), 1, "one stays");
        assert_eq!(after(&mut count, &mut now, 1, 0.61), 2);
        assert_eq!(after(&mut count, &mut now, 1, 0.61), 4);
        assert_eq!(after(&mut count, &mut now, 100, 0.9), 4);
    }

    /// Otherwise it would be called back at once.
    #[test]
    fn nobody_goes_whose_work_the_others_cannot_do() {
        for n_workers in 2..9 {
            for running in [0.3, 0.45, 0.55] {
                let (mut now, mut count) = (test_start(), WorkerCount::new(n_workers));
                #[expect(clippy::cast_precision_loss, reason = "a few workers")]
                let all = running * n_workers as f64;
                let mut before = n_workers;
                for _ in 0..200 {
                    now += EVERY;
                    #[expect(clippy::cast_precision_loss, reason = "a few workers")]
                    let each = Busy { running: all / before as f64, waiting: 0.0 };
                    let busy: Vec<_> = (0..n_workers)
                        .map(|n| if n < before { each } else { Busy::default() })
                        .collect();
                    let n_used = count.look(now, &busy, 16);
                    assert!(n_used <= before, "{n_workers} {running} {before}");
                    before = n_used;
                }
            }
        }
    }

    #[test]
    fn a_short_calm_time_changes_nothing() {
        let (mut now, mut count) = (test_start(), WorkerCount::new(2));
        for _ in 0..20 {
            assert_eq!(after(&mut count, &mut now, 9, 0.1), 2);
            assert_eq!(after(&mut count, &mut now, 1, 0.3), 2);
        }
    }

    #[test]
    fn who_waits_for_a_core_all_the_time_gets_help() {
        let (now, mut count) = (test_start(), WorkerCount::new(2));
        count.n_used = 1;
        let busy = |running, waiting| [Busy { running, waiting }, Busy::default()];
        assert_eq!(count.look(now, &busy(0.3, 0.6), 16), 1);
        assert_eq!(count.look(now, &busy(0.3, 0.69), 16), 2);
    }

    #[test]
    fn a_crowd_has_all_of_them() {
        let (start, busy) = (test_start(), [Busy::default(); 4]);
        let mut count = WorkerCount::new(4);
        let mut after = |n_looks: u32, n_connections| {
            (0..n_looks).map(|n| count.look(start + n * EVERY, &busy, n_connections)).last()
        };
        assert_eq!(after(100, 3_001), Some(4));
        assert_eq!(after(100, 1_500), Some(2));
        assert_eq!(after(1, 2_001), Some(4));
    }
}
