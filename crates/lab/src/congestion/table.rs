//! Rows for people.

use std::time::Duration;

use super::{CongestionOutcome, Setting};

/// What stands above the rows. With large calls, each row says how many there were of them.
#[must_use]
pub fn heading(has_large: bool) -> String {
    let small = format!(
        "{:<11} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "connections", "buffers", "calls/s", "mean ms", "p50 ms", "p99 ms", "errors"
    );
    if !has_large {
        return small;
    }
    format!("{small} {:>8} {:>9}", "large/s", "mean ms")
}

/// A row.
#[must_use]
pub fn line(setting: &Setting, outcome: &CongestionOutcome) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let small = format!(
        "{:<11} {:>8} {:>9.0} {:>9.1} {:>9.1} {:>9.1} {:>7}",
        setting.connections(),
        setting.buffers(),
        outcome.calls_per_s(),
        ms(outcome.mean),
        ms(outcome.p50),
        ms(outcome.p99),
        outcome.errors + outcome.large.map_or(0, |large| large.errors)
    );
    let Some(large) = outcome.large else { return small };
    let per_s = large.calls as f64 / outcome.seconds;
    format!("{small} {per_s:>8.1} {:>9.1}", ms(large.mean))
}
