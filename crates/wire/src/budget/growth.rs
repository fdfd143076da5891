//! Memory that grows away from a worker's thread: what another thread makes of a message.
//!
//! It draws from the budget while it grows, by the shares of the connection that it is for. What
//! grows of one connection at the same time counts for its peer and its listener, and for all;
//! for the connection itself it counts once the worker holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::shares::{OverBudget, Shares};
use super::{Account, BudgetTotals, Group};

/// Bytes that another thread takes as it needs them, until this is dropped.
#[derive(Debug)]
pub struct Growth {
    totals: Arc<BudgetTotals>,
    listener: Arc<Group>,
    peer: Arc<Group>,
    is_shared: bool,
    /// What the connection held when this began.
    connection: usize,
    len: AtomicUsize,
}

impl Account {
    /// Something of this connection that begins to grow in another thread.
    #[must_use]
    pub fn growth(&self) -> Growth {
        Growth {
            totals: Arc::clone(&self.lease.shared),
            listener: Arc::clone(&self.listener),
            peer: Arc::clone(&self.peer),
            is_shared: self.is_shared,
            connection: self.cost(),
            len: AtomicUsize::new(0),
        }
    }
}

impl Growth {
    /// Bytes that it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most that it could ever get, where nobody else held anything.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.totals.largest_share()
    }

    /// Makes it `len` bytes, if it has less.
    ///
    /// # Errors
    /// [`OverBudget`]; it is as it was, and that is counted.
    pub fn grow_to(&self, len: usize) -> Result<(), OverBudget> {
        let own = self.len();
        let Some(wanted) = len.checked_sub(own).filter(|wanted| *wanted != 0) else {
            return Ok(());
        };
        let free = self.totals.limit.saturating_sub(self.totals.leased.load(Relaxed));
        let shares = Shares {
            // Each message of a shared connection counts by itself; this one has begun.
            connection: if self.is_shared { own } else { self.connection + own },
            peer: self.peer.held(),
            listener: self.listener.held(),
            is_shared: self.is_shared,
        };
        shares.check(wanted, free, self.totals.limit).inspect_err(|_| {
            self.totals.refused.fetch_add(1, Relaxed);
        })?;
        self.count(wanted);
        Ok(())
    }

    /// Counts `len` bytes more that are there already, whether there is room or not.
    pub fn count(&self, len: usize) {
        self.len.fetch_add(len, Relaxed);
        self.totals.leased.fetch_add(len, Relaxed);
        self.totals.grown.fetch_add(len, Relaxed);
        self.listener.held.fetch_add(len, Relaxed);
        self.peer.held.fetch_add(len, Relaxed);
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        let len = self.len();
        self.totals.leased.fetch_sub(len, Relaxed);
        self.totals.grown.fetch_sub(len, Relaxed);
        self.listener.held.fetch_sub(len, Relaxed);
        self.peer.held.fetch_sub(len, Relaxed);
    }
}
