//! Looks at what there may be thousands of, at some of it each time.

use std::rc::{Rc, Weak};

/// What others own, in an order in which all of it is looked at by and by.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    all: Vec<Weak<T>>,
    next: usize,
    n_after_sweep: usize,
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self { all: Vec::new(), next: 0, n_after_sweep: 0 }
    }
}

impl<T> Rounds<T> {
    pub(super) fn add(&mut self, value: &Rc<T>) {
        if 2 * self.n_after_sweep <= self.all.len() {
            self.all.retain(|value| value.strong_count() != 0);
            self.n_after_sweep = self.all.len();
        }
        self.all.push(Rc::downgrade(value));
    }

    /// The next `max`, or all if there are no more, without what its owners have dropped.
    pub(super) fn next(&mut self, max: usize) -> Vec<Rc<T>> {
        let n = max.min(self.all.len());
        let mut next = Vec::with_capacity(n);
        for _ in 0..n {
            if self.all.len() <= self.next {
                self.next = 0;
            }
            match self.all.get(self.next).map(Weak::upgrade) {
                Some(Some(value)) => {
                    next.push(value);
                    self.next += 1;
                }
                Some(None) => drop(self.all.swap_remove(self.next)),
                None => break,
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_their_turn_and_nobody_twice() {
        let (mut rounds, values) = (Rounds::default(), (0..5).map(Rc::new).collect::<Vec<_>>());
        assert!(rounds.next(3).is_empty());
        values.iter().for_each(|value| rounds.add(value));
        let mut next = |max| rounds.next(max).iter().map(|value| **value).collect::<Vec<_>>();
        assert_eq!((next(3), next(3)), (vec![0, 1, 2], vec![3, 4, 0]));
        assert_eq!(next(100), [1, 2, 3, 4, 0]);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut rounds = Rounds::default();
        let stays = Rc::new(0);
        for n in 1..10_000 {
            rounds.add(&Rc::new(n));
            assert!(rounds.all.len() <= 2, "{}", rounds.all.len());
        }
        rounds.add(&stays);
        assert_eq!(rounds.next(8).len(), 1);
        assert_eq!(rounds.all.len(), 1);
        // Also if nothing is added any more.
        drop(stays);
        assert!(rounds.next(1).is_empty() && rounds.all.is_empty());
    }
}
