//! What the operating system gave a thread of a core.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// What a thread has had of a core since it began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct CoreTime {
    used: Duration,
    /// How often it had to leave the core to another.
    n_interruptions: i64,
}

impl CoreTime {
    /// That of the calling thread, by one system call: `getrusage(2)`, `RUSAGE_THREAD`.
    pub(super) fn of_thread() -> Self {
        getrusage(UsageWho::RUSAGE_THREAD).map_or_else(
            |_| Self::default(),
            |usage| Self {
                used: duration(usage.user_time()) + duration(usage.system_time()),
                n_interruptions: usage.involuntary_context_switches(),
            },
        )
    }

    /// What it has used of the core since an earlier look.
    pub(super) fn since(self, earlier: Self) -> Duration {
        self.used.saturating_sub(earlier.used)
    }

    /// Whether another thread or process has run in its place since an earlier look.
    pub(super) fn was_interrupted_since(self, earlier: Self) -> bool {
        self.n_interruptions != earlier.n_interruptions
    }
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec()).unwrap_or(0))
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
        let busy_until = slept.used + Duration::from_millis(5);
        while CoreTime::of_thread().used < busy_until {
            std::hint::spin_loop();
        }
        assert!(Duration::from_millis(5) <= CoreTime::of_thread().since(slept));
    }
}
