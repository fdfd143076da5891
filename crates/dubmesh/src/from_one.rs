//! A number as an argument that cannot be 0.

use std::num::{IntErrorKind, NonZeroU64};

/// Reads a whole number from 1 on.
pub(crate) fn from_one<T: TryFrom<NonZeroU64>>(text: &str) -> Result<T, &'static str> {
    const TOO_LARGE: &str = "this number is too large";
    match text.parse::<NonZeroU64>() {
        Ok(number) => T::try_from(number).map_err(|_| TOO_LARGE),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(TOO_LARGE),
        Err(_) => Err("write a whole number, at least 1"),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn numbers_begin_with_one() {
        assert_eq!(from_one("1"), Ok(NonZeroU32::MIN));
        assert_eq!(from_one("4294967295"), Ok(NonZeroU32::MAX));
        for wrong in ["0", "-1", "", "1.5", "x"] {
            let said = from_one::<NonZeroU32>(wrong).unwrap_err();
            assert_eq!(said, "write a whole number, at least 1", "{wrong}");
        }
        for long in ["4294967296", "99999999999999999999"] {
            assert_eq!(from_one::<NonZeroU32>(long), Err("this number is too large"));
        }
    }
}
