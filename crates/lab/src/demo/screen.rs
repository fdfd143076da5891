//! What the demo shows, as text. Nothing here prints or measures.

use std::fmt::Write as _;
use std::time::Duration;

use super::tally::Tally;

/// Width of the bars that show the providers' shares, where there is room.
const BAR_WIDTH: usize = 30;
/// A bar that is shorter tells nothing, and is left out.
const MIN_BAR_WIDTH: usize = 5;
/// What ends a line that does not fit.
const CUT: &str = "...";

/// What one provider did in some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProviderWork {
    pub(super) name: &'static str,
    pub(super) threads: usize,
    pub(super) n_answered: u64,
    pub(super) n_rejected: u64,
}

impl ProviderWork {
    /// What was done after `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            n_answered: self.n_answered.saturating_sub(before.n_answered),
            n_rejected: self.n_rejected.saturating_sub(before.n_rejected),
            ..*self
        }
    }
}

/// What happened in some time.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) tally: &'a Tally,
    pub(super) works: &'a [ProviderWork],
    pub(super) took: Duration,
}

impl Report<'_> {
    /// One line: for logs and files.
    pub(super) fn line(&self, since_start: Duration) -> String {
        let shares: Vec<String> = self
            .works
            .iter()
            .map(|work| format!("{} {:.0}%", work.name, self.share(*work) * 100.0))
            .collect();
        format!("{:>4.0} s: {}; {}", since_start.as_secs_f64(), self.figures(), shares.join(", "))
    }

    /// Several lines, redrawn in place: none is longer than `width` columns, for one that wraps
    /// takes two rows.
    pub(super) fn block(&self, since_start: Duration, width: usize) -> Vec<String> {
        let mut lines = vec![format!("{:>4.0} s   {}", since_start.as_secs_f64(), self.figures())];
        lines.extend(self.providers(width));
        lines.into_iter().map(|line| cut(line, width)).collect()
    }

    /// The end: all calls, and who answered them.
    pub(super) fn summary(&self, width: usize) -> String {
        let Tally { n_good, errors, .. } = self.tally;
        let mut text = format!(
            "\nAfter {:.1} s: {n_good} calls answered, {} errors.\n",
            self.took.as_secs_f64(),
            self.tally.n_errors()
        );
        let _ = writeln!(text, "{}", self.figures());
        for (code, n) in errors {
            let _ = writeln!(text, "  error {code}: {n}");
        }
        for line in self.providers(width) {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    fn figures(&self) -> String {
        let rate = self.tally.n_good as f64 / self.took.as_secs_f64().max(0.001);
        let (p50, p99) = (self.tally.percentile_ms(0.5), self.tally.percentile_ms(0.99));
        let mut text = format!("{rate:.0} calls/s, p50 {p50:.1} ms, p99 {p99:.1} ms, ");
        let n_errors = self.tally.n_errors();
        let _ = write!(text, "{n_errors} errors");
        if 0 < n_errors {
            let codes: Vec<String> =
                self.tally.errors.iter().map(|(code, n)| format!("{code} {n}")).collect();
            let _ = write!(text, " ({})", codes.join(", "));
        }
        text
    }

    fn providers(&self, width: usize) -> impl Iterator<Item = String> {
        self.works.iter().map(move |work| {
            let share = self.share(*work);
            let rate = work.n_answered as f64 / self.took.as_secs_f64().max(0.001);
            let front = format!("  {:<7}{:>4} threads ", work.name, work.threads);
            let back = format!(
                " {:>5.1}%  {rate:>6.0} calls/s  {} rejected",
                share * 100.0,
                work.n_rejected
            );
            let room = width.saturating_sub(front.len() + 1 + back.len()).min(BAR_WIDTH);
            if room < MIN_BAR_WIDTH {
                return front + &back;
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1")]
            let n_full = ((share * room as f64).round() as usize).min(room);
            let bar = "#".repeat(n_full) + &".".repeat(room - n_full);
            format!("{front} {bar}{back}")
        })
    }

    fn share(&self, work: ProviderWork) -> f64 {
        let n_all: u64 = self.works.iter().map(|work| work.n_answered).sum();
        work.n_answered as f64 / n_all.max(1) as f64
    }
}

/// The front of a line that is too long. All that is shown is ASCII but codes, which peers choose.
fn cut(mut line: String, width: usize) -> String {
    if width < line.chars().count() {
        let n_kept = width.saturating_sub(CUT.len());
        line = line.chars().take(n_kept).chain(CUT.chars().take(width)).collect();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_rates_shares_and_errors() {
        let mut tally = Tally::default();
        for _ in 0..90 {
            tally.record(Duration::from_millis(50), Ok(()));
        }
        tally.record(Duration::ZERO, Err("timeout".to_owned()));
        let work = |name, n_answered| ProviderWork { name, threads: 50, n_answered, n_rejected: 1 };
        let works = [work("small", 30), work("large", 60)];
        let report = Report { tally: &tally, works: &works, took: Duration::from_secs(2) };
        let line = report.line(Duration::from_secs(7));
        assert!(line.starts_with("   7 s: 45 calls/s, p50 "), "{line}");
        assert!(line.ends_with("1 errors (timeout 1); small 33%, large 67%"), "{line}");
        let block = report.block(Duration::from_secs(7), usize::MAX);
        assert_eq!(block.len(), 3);
        assert!(block[2].contains(&"#".repeat(20)) && block[2].contains("30 calls/s"), "{block:?}");
        let summary = report.summary(usize::MAX);
        assert!(summary.contains("90 calls answered, 1 errors"), "{summary}");
        assert!(summary.contains("error timeout: 1"), "{summary}");
        for width in 0..120 {
            let block = report.block(Duration::from_secs(7), width);
            assert!(block.iter().all(|line| line.chars().count() <= width), "{width}: {block:?}");
        }
        let narrow = report.block(Duration::from_secs(7), 80);
        assert!(narrow[2].contains("##") && narrow[2].ends_with("1 rejected"), "{narrow:?}");
        let nothing = Report { tally: &Tally::default(), works: &[], took: Duration::ZERO };
        assert!(nothing.line(Duration::ZERO).contains("0 calls/s"));
    }
}
