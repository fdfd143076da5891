//! Calls that an app's thread pool rejects, because a thread is late to be back in it.
//!
//! Such a call keeps its place, and is offered to the app again a moment later.
//! [`flow::Repeats`] decides how often.

use std::time::Instant;

use flow::Repeats;
use flow::gate::Left;
use tokio::time::sleep_until;

use super::Admitted;
use crate::error::{CallError, Code};

/// A call that the app does not work on, until it is offered it again. Dropped before, it was
/// given up.
struct Resting<'a>(Option<&'a mut Admitted>);

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        if let Some(admitted) = self.0.take() {
            admitted.leave(Instant::now(), Left::Unknown);
        }
    }
}

impl Admitted {
    /// Whether the app may reject the call because a thread is late: it has as many calls as it
    /// has threads, or had a moment ago.
    #[inline]
    pub fn may_be_rejected(&self) -> bool {
        self.gate.has_known_threads() && self.gate.gate.borrow().may_be_rejected()
    }

    /// Whether the call may be offered to the app again that has failed with `error`.
    #[inline]
    pub fn may_be_repeated(&self, error: &CallError) -> bool {
        error.code == Code::ThreadPoolExhausted && self.gate.has_known_threads()
    }

    /// Waits until the app is to be offered the call again that has failed with `error`. Returns
    /// whether it is.
    pub async fn is_offered_again(
        &mut self,
        deadline: Instant,
        error: &CallError,
        repeats: &mut Repeats,
    ) -> bool {
        if !self.may_be_repeated(error) {
            return false;
        }
        let now = Instant::now();
        let at = self.gate.gate.borrow_mut().repeat_at(now, deadline, repeats);
        let Some(at) = at else { return false };
        if now < at {
            let mut resting = Resting(Some(self));
            sleep_until(at.into()).await;
            resting.0 = None;
        }
        true
    }
}
