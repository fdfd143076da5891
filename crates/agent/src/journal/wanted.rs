//! Which calls the access log wants.

use std::time::Duration;

use super::Record;
use crate::config::LoggedCalls;

/// Whether `calls` include this one. `n_seen` counts those that only a sample is taken of.
pub(super) fn wants(calls: LoggedCalls, record: &Record, n_seen: &mut u32) -> bool {
    let is_slow = |limit: Duration| record.code.is_some() || limit <= record.latency;
    match calls {
        LoggedCalls::Failed => record.code.is_some(),
        LoggedCalls::Slow(limit) => is_slow(limit),
        LoggedCalls::Sampled(limit, one_of) => is_slow(limit) || is_next(n_seen, one_of),
        LoggedCalls::All => true,
    }
}

/// Whether the next of a sequence is in a sample of one in so many, beginning with the first.
pub(super) fn is_next(n_seen: &mut u32, one_of: u32) -> bool {
    let is_in = *n_seen == 0;
    *n_seen = (*n_seen + 1) % one_of.max(1);
    is_in
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::journal::line::tests::record;

    #[test]
    fn each_choice_includes_those_before_it() {
        let limit = Duration::from_millis(10);
        let choices = [
            LoggedCalls::Failed,
            LoggedCalls::Slow(limit),
            LoggedCalls::Sampled(limit, 3),
            LoggedCalls::All,
        ];
        let wanted = |record: &Record| choices.map(|it| wants(it, record, &mut 1));
        let fast = record();
        assert_eq!(wanted(&fast), [false, false, false, true]);
        let slow = Record { latency: limit, ..record() };
        assert_eq!(wanted(&slow), [false, true, true, true]);
        let failed = Record { code: Some(Code::Timeout), ..record() };
        assert_eq!(wanted(&failed), [true; 4]);
    }

    #[test]
    fn a_sample_is_one_in_so_many() {
        let mut n_seen = 0;
        let sample: Vec<bool> = (0..7).map(|_| is_next(&mut n_seen, 3)).collect();
        assert_eq!(sample, [true, false, false, true, false, false, true]);
        assert!((0..3).all(|_| is_next(&mut 0, 1)));
    }
}
