//! A table of what others own, without what they have dropped.
//!
//! Invariant: at most half of it, and one, is gone. To look for what is gone takes as long as the
//! table is; so that is done each time that the table may have doubled, and not for each new
//! value.

use std::collections::HashMap;

/// Values by name, most of which somebody still has.
#[derive(Debug)]
pub struct Swept<V> {
    by_name: HashMap<String, V>,
    n_after_sweep: usize,
}

impl<V> Default for Swept<V> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), n_after_sweep: 0 }
    }
}

impl<V> Swept<V> {
    /// What is known by that name, gone or not.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.by_name.get(name)
    }

    /// All values, some of which may be gone.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.by_name.values()
    }

    /// Adds a value, or puts it in the place of the one of that name.
    pub fn insert(&mut self, name: String, value: V, is_there: impl Fn(&V) -> bool) {
        if 2 * self.n_after_sweep <= self.by_name.len() {
            self.by_name.retain(|_, value| is_there(value));
            self.n_after_sweep = self.by_name.len();
        }
        self.by_name.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn values_that_are_gone_go_without_a_look_at_all_for_each_new_one() {
        let (mut table, n_looks) = (Swept::default(), Cell::new(0));
        let mut insert = |n: u32, is_there: bool| {
            table.insert(n.to_string(), is_there, |is_there: &bool| {
                n_looks.set(n_looks.get() + 1);
                *is_there
            });
            table.values().count()
        };
        assert_eq!((0..1000).map(|n| insert(n, true)).max(), Some(1000));
        assert!(n_looks.get() < 2000, "{}", n_looks.get());
        let most = (1000..9000).map(|n| insert(n, false)).max();
        assert!(most.is_some_and(|most| most <= 2001), "{most:?}");
        assert!(n_looks.get() < 20_000, "{}", n_looks.get());
    }
}
