//! Whether the machine's clock can be right at all.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::StartError;

/// From 1970 to the end of the year 9999.
const DATES_OF_HTTP: Duration = Duration::from_secs(253_402_300_800);

/// hyper writes a date into each answer, and panics where HTTP has none for the time.
///
/// # Errors
/// It has none for `now`.
pub(super) fn check_clock(now: SystemTime) -> Result<(), StartError> {
    match now.duration_since(UNIX_EPOCH) {
        Ok(since) if since < DATES_OF_HTTP => Ok(()),
        _ => Err(StartError::Clock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_date_is_refused() {
        let second = Duration::from_secs(1);
        let last = UNIX_EPOCH + DATES_OF_HTTP - second;
        for good in [UNIX_EPOCH, SystemTime::now(), last] {
            assert!(check_clock(good).is_ok(), "{good:?}");
        }
        for bad in [UNIX_EPOCH - second, last + second] {
            assert!(matches!(check_clock(bad), Err(StartError::Clock)), "{bad:?}");
        }
    }
}
