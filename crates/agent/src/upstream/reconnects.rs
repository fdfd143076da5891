//! How often a worker tries to reach endpoints that are down.
//!
//! A registry may list thousands that nobody can reach: half of an estate behind a partition, or
//! what a store has kept of providers that are gone. Each of them waits on its own for its next
//! attempt, and longer where so many do that all attempts together would take a worker's time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// What all endpoints together may cost that have been down for a while: at most this many
/// attempts a second, 4% of a core.
const MAX_PER_SECOND: u32 = 500;

/// Counts the endpoints of a worker that are down. A clone is another handle to the same.
#[derive(Clone, Default)]
pub struct Reconnects {
    n_down: Rc<Cell<u32>>,
}

/// An endpoint that is down, until this is dropped.
pub(super) struct Down(Reconnects);

impl Reconnects {
    /// One more endpoint is down.
    pub(super) fn down(&self) -> Down {
        self.n_down.set(self.n_down.get().saturating_add(1));
        Down(self.clone())
    }

    /// The longest wait of one of them before its next attempt, where it is `usual` for few.
    pub(super) fn longest_wait(&self, usual: Duration) -> Duration {
        usual.max(Duration::from_secs(1) / MAX_PER_SECOND * self.n_down.get())
    }
}

impl Drop for Down {
    fn drop(&mut self) {
        let n_down = &self.0.n_down;
        n_down.set(n_down.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_wait_longer_only_where_thousands_are_down() {
        let (reconnects, usual) = (Reconnects::default(), Duration::from_secs(2));
        let mut down: Vec<Down> = (0..1000).map(|_| reconnects.down()).collect();
        assert_eq!(reconnects.longest_wait(usual), usual);
        down.extend((0..4000).map(|_| reconnects.down()));
        assert_eq!(reconnects.longest_wait(usual), Duration::from_secs(10));
        down.truncate(1);
        assert_eq!(reconnects.longest_wait(usual), usual);
    }
}
