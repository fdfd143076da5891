//! How many calls one caller may have under way at an endpoint that others need.

use crate::error::{CallError, Code};

/// A connection that has so many times as many calls under way as may still be begun waits for
/// others.
const SHARE_TIMES: usize = 16;

/// Whether a caller's connection that has `own` calls under way may begin one more, where
/// `in_flight` of `max` are under way already.
///
/// Nobody has a fixed share. While half of what may be under way is free, everybody may begin
/// more; a single connection gets sixteen of seventeen, and however many there are, some are left
/// for who has few.
///
/// # Errors
/// [`Code::Overloaded`].
#[inline]
pub fn check_share(own: usize, in_flight: usize, max: usize) -> Result<(), CallError> {
    let left = max.saturating_sub(in_flight);
    if in_flight <= max / 2 || own < left.saturating_mul(SHARE_TIMES) {
        return Ok(());
    }
    Err(more_than_its_share(own, in_flight, max))
}

#[cold]
fn more_than_its_share(own: usize, in_flight: usize, max: usize) -> CallError {
    let message = format!(
        "{own} calls of this connection are in flight, and {in_flight} of at most {max} at the \
         endpoint (max_in_flight); the rest is kept for other connections"
    );
    CallError::new(Code::Overloaded, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many calls each of some connections gets under way that begin as many as they may.
    fn shares(n_connections: usize, max: usize) -> (usize, usize) {
        let mut own = vec![0; n_connections];
        loop {
            let before: usize = own.iter().sum();
            for nth in 0..n_connections {
                let in_flight: usize = own.iter().sum();
                if in_flight < max && check_share(own[nth], in_flight, max).is_ok() {
                    own[nth] += 1;
                }
            }
            let in_flight: usize = own.iter().sum();
            if in_flight == before {
                return (own.iter().copied().max().unwrap_or(0), max - in_flight);
            }
        }
    }

    #[test]
    fn greedy_connections_leave_some_calls_for_others() {
        assert_eq!(shares(1, 4096), (3856, 240));
        assert_eq!(shares(8, 4096), (509, 31));
        assert!(1 < shares(100, 4096).1);
        // So few that there is nothing to share.
        assert_eq!(shares(1, 1), (1, 0));
        assert_eq!(shares(1, 16), (16, 0));
        assert!(check_share(0, 4095, 4096).is_ok());
    }
}
