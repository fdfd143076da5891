//! What is refused and left out of a registry, counted for its metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What all lists of a registry count together.
#[derive(Debug, Default)]
pub(crate) struct ListCounts {
    /// How often an entry was refused that was not there before, or was something else.
    refused: AtomicU64,
    /// Entries that are left out now, because their lists are too long.
    left_out: AtomicU64,
}

impl ListCounts {
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Something else was refused, such as a document.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Relaxed)
    }

    /// A list leaves out so many entries now.
    pub(crate) fn change_left_out(&self, before: usize, now: usize) {
        self.left_out.fetch_add(now as u64, Relaxed);
        self.left_out.fetch_sub(before as u64, Relaxed);
    }
}
