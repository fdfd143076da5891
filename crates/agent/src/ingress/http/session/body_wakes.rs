//! Wakes the task of a connection, but for one time that means nothing.
//!
//! hyper wakes the task of a connection of HTTP/1 whenever we take a piece of a request's body, to
//! read the next piece. It does so even after the last piece, and then the turn that follows finds
//! nothing to do. Most bodies are one piece that came with their head, so that this would cost
//! every call a turn: the polls of all that a call passes, and two reads of the clock.
//!
//! Invariant: only a wake that comes while a whole body is taken is dropped. All else is passed
//! on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

/// What hyper wakes in place of a connection's task.
pub(super) struct BodyWakes {
    task: Waker,
    /// A body is being taken: wakes are only noted.
    is_taking: AtomicBool,
    is_noted: AtomicBool,
}

impl BodyWakes {
    /// Of the task that is being polled.
    pub(super) fn of(cx: &Context<'_>) -> Arc<Self> {
        let (is_taking, is_noted) = Default::default();
        Arc::new(Self { task: cx.waker().clone(), is_taking, is_noted })
    }

    /// Whether it wakes the task that is being polled.
    pub(super) fn is_of(&self, cx: &Context<'_>) -> bool {
        self.task.will_wake(cx.waker())
    }

    /// Wakes the task.
    pub(super) fn wake_task(&self) {
        self.task.wake_by_ref();
    }

    /// Takes a body. If `take` has all of it, whoever was to read more need not be woken. If it
    /// refuses the rest, hyper still has to step over that.
    pub(super) fn while_taking<T, E>(
        &self,
        take: impl FnOnce() -> Poll<Result<T, E>>,
    ) -> Poll<Result<T, E>> {
        self.is_taking.store(true, Relaxed);
        let taken = take();
        self.is_taking.store(false, Relaxed);
        let is_whole = matches!(taken, Poll::Ready(Ok(_)));
        if self.is_noted.swap(false, Relaxed) && !is_whole {
            self.wake_task();
        }
        taken
    }
}

impl Wake for BodyWakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.is_taking.load(Relaxed) {
            true => self.is_noted.store(true, Relaxed),
            false => self.wake_task(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicU32);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn drops_a_wake_only_while_a_whole_body_is_taken() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let wakes = BodyWakes::of(&Context::from_waker(&waker));
        let for_hyper = Waker::from(Arc::clone(&wakes));
        let take = |taken: Poll<Result<(), ()>>, is_woken: bool| {
            let polled = wakes.while_taking(|| {
                if is_woken {
                    for_hyper.wake_by_ref();
                }
                taken
            });
            assert_eq!(polled, taken);
            task.0.load(Relaxed)
        };
        assert_eq!(take(Poll::Ready(Ok(())), true), 0, "nothing is left to be read");
        assert_eq!(take(Poll::Pending, false), 0);
        assert_eq!(take(Poll::Pending, true), 1, "more is to be read");
        assert_eq!(take(Poll::Ready(Err(())), true), 2, "the rest is to be stepped over");
        assert_eq!(take(Poll::Ready(Ok(())), false), 2);
        for_hyper.wake_by_ref();
        assert_eq!(task.0.load(Relaxed), 3);
    }
}
