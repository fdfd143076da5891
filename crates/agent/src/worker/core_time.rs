//! What the operating system gave a thread of a core.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// What a thread has had of a core since it began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct CoreTime(Duration);

impl CoreTime {
    /// That of the calling thread, by one system call. `getrusage(2)` would only say what it was
    /// at the last tick of the kernel, which may be milliseconds ago.
    pub(super) fn of_thread() -> Self {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
        Self(time.map_or(Duration::ZERO, Duration::from))
    }

    /// What it has used of the core since an earlier look.
    pub(super) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// How often the calling thread had to leave its core to another, by one system call.
pub(super) fn n_interruptions() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn who_sleeps_has_nothing_of_the_core() {
        let (before, start) = (CoreTime::of_thread(), Instant::now());
        std::thread::sleep(Duration::from_millis(50));
        let slept = CoreTime::of_thread();
        assert!(slept.since(before) < start.elapsed() / 2, "{before:?} {slept:?}");
        let five = Duration::from_millis(5);
        while CoreTime::of_thread().since(slept) < five {
            std::hint::spin_loop();
        }
        assert!(five <= CoreTime::of_thread().since(slept));
    }
}
