//! Progress on a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two lines of progress.
const EVERY: Duration = Duration::from_millis(500);

/// One line on standard error that is drawn over and over, if that is a terminal; nothing
/// otherwise.
pub(super) struct ProgressLine {
    is_shown: bool,
    start: Instant,
    last: Option<Instant>,
    is_drawn: bool,
}

impl ProgressLine {
    pub(super) fn new(is_quiet: bool) -> Self {
        let is_shown = !is_quiet && io::stderr().is_terminal();
        Self { is_shown, start: Instant::now(), last: None, is_drawn: false }
    }

    /// Shows how much of `whole` is `done`, unless it did just now.
    pub(super) fn update(&mut self, done: u64, whole: u64, what: &str) {
        let now = Instant::now();
        if !self.is_shown || self.last.is_some_and(|last| now - last < EVERY) {
            return;
        }
        self.last = Some(now);
        self.draw(&text(done, whole, self.start.elapsed(), what));
    }

    /// Shows a text at once; where there is no terminal, as a line of its own.
    pub(super) fn warn(&mut self, text: &str) {
        if self.is_shown {
            self.draw(text);
        }
    }

    fn draw(&mut self, text: &str) {
        let mut stderr = io::stderr();
        // Nobody needs the picture if it cannot be drawn.
        let _ = write!(stderr, "\r{text}\x1b[K").and_then(|()| stderr.flush());
        self.is_drawn = true;
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if self.is_drawn {
            let _ = write!(io::stderr(), "\r\x1b[K");
            self.is_drawn = false;
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `  37.5%  402 MB of 1.07 GB, 431 MB/s, 2 s left`, and what else there is.
fn text(done: u64, whole: u64, took: Duration, what: &str) -> String {
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    let share = if whole == 0 { 100.0 } else { done as f64 / whole as f64 * 100.0 };
    let left = whole.saturating_sub(done) as f64 / rate.max(1.0);
    let (done, whole, rate) = (bytes(done as f64), bytes(whole as f64), bytes(rate));
    format!("{share:5.1}%  {done} of {whole}, {rate}/s, {} left{what}", seconds(left))
}

/// A number of bytes, to three digits.
pub(super) fn bytes(n: f64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.into_iter().find(|(_, unit)| *unit <= n) {
        Some((name, unit)) => format!("{:.*} {name}", usize::from(n / unit < 100.0), n / unit),
        None => format!("{n:.0} B"),
    }
}

fn seconds(left: f64) -> String {
    match left {
        left if left < 100.0 => format!("{left:.0} s"),
        left if left < 6000.0 => format!("{:.0} min", left / 60.0),
        left => format!("{:.1} h", left / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_as_people_read_it() {
        let line = text(250_000_000, 1_000_000_000, Duration::from_secs(2), "");
        assert_eq!(line, " 25.0%  250 MB of 1.0 GB, 125 MB/s, 6 s left");
        assert_eq!(text(0, 0, Duration::ZERO, ""), "100.0%  0 B of 0 B, 0 B/s, 0 s left");
        assert_eq!(
            text(1, 1 << 30, Duration::from_secs(1), "").split(", ").last(),
            Some("298261.6 h left")
        );
    }
}
