//! How long a registry is waited for that is connected and says nothing.
//!
//! It is waited for once: who asks it for something else meanwhile does not wait again, until it
//! has said something.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The patience that all who ask a registry for things of one kind have together.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: Duration,
    /// Somebody has waited in vain, and nothing was heard since.
    is_spent: AtomicBool,
}

impl Patience {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, is_spent: AtomicBool::new(false) }
    }

    /// How long to wait now.
    pub(crate) fn left(&self) -> Duration {
        if self.is_spent.load(Relaxed) { Duration::ZERO } else { self.limit }
    }

    /// Somebody has waited in vain.
    pub(crate) fn handle_silence(&self) {
        self.is_spent.store(true, Relaxed);
    }

    /// The registry has said something, or has another connection to come.
    pub(crate) fn handle_word(&self) {
        self.is_spent.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_registry_is_waited_for_once_until_it_says_something() {
        let limit = Duration::from_secs(1);
        let patience = Patience::new(limit);
        assert_eq!(patience.left(), limit);
        patience.handle_silence();
        assert_eq!(patience.left(), Duration::ZERO);
        patience.handle_word();
        assert_eq!(patience.left(), limit);
    }
}
