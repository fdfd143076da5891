//! How many connections a listener has, and had.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The connections of one listener, for its own limit and for metrics. Shared by all threads.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    open: AtomicU64,
    accepted: AtomicU64,
    refused_full: AtomicU64,
    refused_no_files: AtomicU64,
}

impl ConnectionCounts {
    /// How many are open.
    #[must_use]
    pub fn n_open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    /// How many were accepted since the start.
    #[must_use]
    pub fn n_accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// How many were closed at once, because the listener had as many as it may have.
    #[must_use]
    pub fn n_refused_full(&self) -> u64 {
        self.refused_full.load(Relaxed)
    }

    /// How many were closed at once, because the rest of the process's file descriptors is kept.
    #[must_use]
    pub fn n_refused_no_files(&self) -> u64 {
        self.refused_no_files.load(Relaxed)
    }

    /// One more is open, until the result is dropped.
    pub(crate) fn open(self: &Arc<Self>) -> OpenConnection {
        self.accepted.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        OpenConnection(Arc::clone(self))
    }

    pub(crate) fn note_full(&self) {
        self.refused_full.fetch_add(1, Relaxed);
    }

    pub(crate) fn note_no_files(&self) {
        self.refused_no_files.fetch_add(1, Relaxed);
    }
}

/// One open connection of a listener.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<ConnectionCounts>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}
