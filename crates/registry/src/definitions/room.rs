//! Bounds what all documents of a registry take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All documents of a registry together. One has some ten KiB as a rule.
pub(super) const MAX_TOTAL_LEN: usize = 64 << 20;

/// A share of [`MAX_TOTAL_LEN`], given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    total_len: Arc<AtomicUsize>,
    len: usize,
}

impl Room {
    pub(crate) fn take(total_len: &Arc<AtomicUsize>, len: usize) -> Option<Self> {
        let add = |total: usize| total.checked_add(len).filter(|total| *total <= MAX_TOTAL_LEN);
        total_len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Self { total_len: Arc::clone(total_len), len })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.total_len.fetch_sub(self.len, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_definitions_together_are_bounded() {
        let total = Arc::new(AtomicUsize::new(0));
        let first = Room::take(&total, MAX_TOTAL_LEN - 10).unwrap();
        assert!(Room::take(&total, 11).is_none());
        let second = Room::take(&total, 10).unwrap();
        drop(first);
        assert!(Room::take(&total, 11).is_some());
        drop(second);
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }
}
