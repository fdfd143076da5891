//! How many lines each place in the code may log, and what was left out.
//!
//! A place is a callsite of `tracing`, so their number is that of the program's log statements.
//! The quota refills with time. A flood therefore still shows a line now and then, and every ten
//! seconds one line with the count of those that were left out.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::lines::Cut;

/// Whose lines say what was left out; they have no quota.
pub(super) const TARGET: &str = "dubmesh::logging";

/// What a place may log.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Lines at once: an estate of that many endpoints may go down, and each is named.
    burst: u32,
    /// Further lines in each second.
    per_second: u32,
}

/// Lines that an operator reads: 60 a minute go on, some 15 KB.
const OPERATOR: Rate = Rate { burst: 100, per_second: 1 };
/// Lines that a developer asked for: every connection of a quiet agent, and no full disk.
const DEVELOPER: Rate = Rate { burst: 1_000, per_second: 100 };

/// A flood is told of this often.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// What is quoted of a line that was left out, in bytes.
const MAX_QUOTE_LEN: usize = 120;

/// What one place has logged.
#[derive(Debug)]
struct Quota {
    rate: Rate,
    /// Lines that may be written now.
    n_left: u32,
    /// Up to when `n_left` was refilled.
    refilled: Instant,
    left_out: Option<LeftOut>,
}

/// What was left out since the last report.
#[derive(Debug)]
struct LeftOut {
    n_lines: u64,
    since: Instant,
    target: &'static str,
    /// The message of the first one.
    like: String,
}

impl Quota {
    fn new(level: Level, now: Instant) -> Self {
        let rate = if level <= Level::INFO { OPERATOR } else { DEVELOPER };
        Self { rate, n_left: rate.burst, refilled: now, left_out: None }
    }

    /// Whether one more line may be written.
    fn take(&mut self, now: Instant) -> bool {
        let n_seconds = now.saturating_duration_since(self.refilled).as_secs();
        if n_seconds != 0 {
            self.refilled += Duration::from_secs(n_seconds);
            let n_more = u32::try_from(n_seconds).unwrap_or(u32::MAX);
            let n_more = n_more.saturating_mul(self.rate.per_second);
            self.n_left = self.n_left.saturating_add(n_more).min(self.rate.burst);
        }
        let may_write = self.n_left != 0;
        self.n_left -= u32::from(may_write);
        may_write
    }
}

/// The quotas of all places.
#[derive(Debug, Default)]
pub(super) struct Floods(Mutex<HashMap<Identifier, Quota>>);

impl Floods {
    fn may_write(&self, event: &Event<'_>, now: Instant) -> bool {
        let metadata = event.metadata();
        let mut quotas = self.lock();
        let quota =
            quotas.entry(metadata.callsite()).or_insert_with(|| Quota::new(*metadata.level(), now));
        let may_write = quota.take(now);
        if !may_write {
            let left_out = quota.left_out.get_or_insert_with(|| LeftOut::new(event, metadata, now));
            left_out.n_lines += 1;
        }
        may_write
    }

    /// Logs what was left out for long enough.
    pub(super) fn report_due(&self) {
        if let Some(before) = Instant::now().checked_sub(REPORT_INTERVAL) {
            self.report(|left_out| left_out.since <= before);
        }
    }

    /// Logs whatever was left out.
    pub(super) fn report_all(&self) {
        self.report(|_| true);
    }

    fn report(&self, is_due: impl Fn(&LeftOut) -> bool) {
        let due = |quota: &mut Quota| quota.left_out.take_if(|left_out| is_due(left_out));
        let due: Vec<LeftOut> = self.lock().values_mut().filter_map(due).collect();
        for LeftOut { n_lines, target, like, .. } in due {
            warn!(
                target: TARGET,
                lines = n_lines,
                like,
                of = target,
                "left out lines that came too often"
            );
        }
    }

    /// A thread that panicked meanwhile left at worst one line uncounted.
    fn lock(&self) -> MutexGuard<'_, HashMap<Identifier, Quota>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeftOut {
    fn new(event: &Event<'_>, metadata: &'static Metadata<'static>, now: Instant) -> Self {
        let mut quote = Quote(String::new());
        event.record(&mut quote);
        Self { n_lines: 0, since: now, target: metadata.target(), like: quote.0 }
    }
}

/// The message of an event.
struct Quote(String);

impl Visit for Quote {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // A text takes all that is written to it.
            let _ = write!(Cut::new(&mut self.0, MAX_QUOTE_LEN), "{value:?}");
        }
    }
}

/// Lets no event through that is over its quota.
#[derive(Debug)]
pub(super) struct FloodLimit(pub(super) Arc<Floods>);

impl<S: Subscriber> Layer<S> for FloodLimit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        event.metadata().target() == TARGET || self.0.may_write(event, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tracing::info;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn a_quota_ends_and_refills() {
        let start = Instant::now();
        let mut quota = Quota::new(Level::INFO, start);
        let taken = |quota: &mut Quota, now| (0..1_000).filter(|_| quota.take(now)).count();
        assert_eq!(taken(&mut quota, start), 100);
        assert_eq!(taken(&mut quota, start + Duration::from_millis(999)), 0);
        assert_eq!(taken(&mut quota, start + Duration::from_millis(1_000)), 1);
        assert_eq!(taken(&mut quota, start + Duration::from_millis(1_999)), 0);
        assert_eq!(taken(&mut quota, start + Duration::from_millis(3_500)), 2);
        assert_eq!(taken(&mut quota, start + Duration::from_secs(1_000_000)), 100);
        // A clock that another thread read before.
        assert_eq!(taken(&mut quota, start), 0);
        assert_eq!(taken(&mut Quota::new(Level::DEBUG, start), start), 1_000);
    }

    /// Counts lines, and the sum of what the reports say.
    #[derive(Default)]
    struct Seen {
        n_lines: AtomicU64,
        n_left_out: AtomicU64,
    }

    struct LineCounter(Arc<Seen>);

    impl<S: Subscriber> Layer<S> for LineCounter {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            if event.metadata().target() == TARGET {
                event.record(&mut Count(&self.0));
            } else {
                self.0.n_lines.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    struct Count<'a>(&'a Seen);

    impl Visit for Count<'_> {
        fn record_u64(&mut self, field: &Field, value: u64) {
            assert_eq!(field.name(), "lines");
            self.0.n_left_out.fetch_add(value, Ordering::Relaxed);
        }

        fn record_str(&mut self, field: &Field, value: &str) {
            let expected = if field.name() == "like" { "again 7" } else { module_path!() };
            assert_eq!(value, expected, "{}", field.name());
        }

        fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
    }

    #[test]
    fn every_line_is_written_or_counted() {
        let (floods, seen) = (Arc::new(Floods::default()), Arc::new(Seen::default()));
        let subscriber = tracing_subscriber::registry()
            .with(FloodLimit(Arc::clone(&floods)))
            .with(LineCounter(Arc::clone(&seen)));
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..100_000 {
                info!("again {}", 7);
            }
            // Another place has a quota of its own.
            info!("once");
            floods.report_due();
            assert_eq!(seen.n_left_out.load(Ordering::Relaxed), 0, "not due yet");
            floods.report_all();
            floods.report_all();
        });
        let (n_lines, n_left_out) =
            (seen.n_lines.load(Ordering::Relaxed), seen.n_left_out.load(Ordering::Relaxed));
        assert_eq!(n_lines + n_left_out, 100_001);
        // A line a second is let through while the loop runs.
        assert!((101..200).contains(&n_lines), "{n_lines}");
    }
}
