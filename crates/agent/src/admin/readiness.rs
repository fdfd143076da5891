//! Whether an agent can take calls.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether the agent can take calls, and if not, why. A clone is another handle to the same.
///
/// It is ready when nothing stands against it. Each part of the agent that has to come up first
/// says so by [`block`](Self::block), and later [`clear`](Self::clear)s it.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<Obstacles>>);

#[derive(Debug, Default)]
struct Obstacles {
    is_draining: bool,
    /// By the part that is not ready.
    reasons: BTreeMap<String, String>,
}

impl Readiness {
    /// Ready, as nothing is known against it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Not ready while `part` is not; a former reason of the same part is replaced.
    pub fn block(&self, part: &str, reason: impl Into<String>) {
        self.state().reasons.insert(part.to_owned(), reason.into());
    }

    /// Nothing of `part` stands against it any more.
    pub fn clear(&self, part: &str) {
        self.state().reasons.remove(part);
    }

    /// Not ready from now on, until the end of the process.
    pub fn drain(&self) {
        self.state().is_draining = true;
    }

    /// Whether nothing stands against it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let state = self.state();
        !state.is_draining && state.reasons.is_empty()
    }

    /// What stands against it, one line each, `PART: REASON`; empty when ready.
    #[must_use]
    pub fn reasons(&self) -> String {
        let state = self.state();
        let mut text = String::new();
        if state.is_draining {
            text.push_str("agent: draining\n");
        }
        for (part, reason) in &state.reasons {
            // Writing to a `String` never fails.
            let _ = writeln!(text, "{part}: {reason}");
        }
        text
    }

    /// No code that can panic runs under the lock.
    fn state(&self) -> MutexGuard<'_, Obstacles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
