//! Rows for people.

use std::time::Duration;

use super::{Outcome, Setting};

/// What stands above the rows.
#[must_use]
pub fn heading() -> String {
    format!(
        "{:<11} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "connections", "buffers", "calls/s", "mean ms", "p50 ms", "p99 ms", "errors"
    )
}

/// A row.
#[must_use]
pub fn line(setting: &Setting, outcome: &Outcome) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    format!(
        "{:<11} {:>8} {:>9.0} {:>9.1} {:>9.1} {:>9.1} {:>7}",
        setting.connections(),
        setting.buffers(),
        outcome.calls_per_s(),
        ms(outcome.mean),
        ms(outcome.p50),
        ms(outcome.p99),
        outcome.errors
    )
}
