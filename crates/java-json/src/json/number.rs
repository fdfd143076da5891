//! Numbers of JSON: their text, and the values of those that fit simple types.

use ascii::{AsAsciiStr as _, AsciiStr};

use super::{JsonError, JsonReader, JsonRule};

/// Ten to the powers that a double holds exactly, as far as they are needed here.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

const INT_POWERS: [i64; 9] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// A number that was read at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Short {
    /// A whole number of up to 18 digits.
    Int(i64),
    /// A number with a point and up to 15 digits, which a double holds as it is written.
    Double(f64),
}

impl<'a> JsonReader<'a> {
    /// A number, as it is written.
    ///
    /// # Errors
    /// [`JsonError`] if no number comes next, or one that is too long.
    pub fn read_number(&mut self) -> Result<&'a str, JsonError> {
        // Only digits, signs, points and the letter e.
        let text = self.take_number()?.as_ascii_str();
        Ok(text.map(AsciiStr::as_str).unwrap_or_default())
    }

    /// The bytes of a number.
    pub(super) fn take_number(&mut self) -> Result<&'a [u8], JsonError> {
        self.skip_space();
        let rest = self.rest();
        let len = number_len(rest).ok_or_else(|| self.broken(JsonRule::Number))?;
        self.check_len(len)?;
        self.pos += len;
        Ok(rest.get(..len).unwrap_or_default())
    }

    /// A whole number of up to 18 digits; nothing for any other, and the reader stays.
    #[inline]
    pub fn read_short_int(&mut self) -> Option<i64> {
        match short_number(self.rest())? {
            (Short::Int(value), len) => {
                self.pos += len;
                Some(value)
            }
            _ => None,
        }
    }

    /// A number that needs no more than a few steps; nothing for any other, and the reader stays.
    #[inline]
    pub fn read_short_number(&mut self) -> Option<Short> {
        let (value, len) = short_number(self.rest())?;
        self.pos += len;
        Some(value)
    }
}

/// The digits at the front, as a number that follows after the digits of `value`, and how many
/// they are. It is a wrong one if they are more than 18. Eight digits go at once.
#[inline]
fn digits(bytes: &[u8], mut value: i64) -> (i64, usize) {
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk) ^ 0x3030_3030_3030_3030;
        // A carry can mark bytes wrongly only above the first that is no digit.
        let others = (word | word.wrapping_add(0x7676_7676_7676_7676)) & 0x8080_8080_8080_8080;
        let n_digits = (others.trailing_zeros() / 8) as usize;
        let Some(&power) = INT_POWERS.get(n_digits).filter(|_| 0 < n_digits) else {
            return (value, at);
        };
        // Zeros in front, in the bytes that come first.
        let number = eight_digits(word << (64 - 8 * n_digits));
        value = value.wrapping_mul(power).wrapping_add(i64::from(number));
        at += n_digits;
        if n_digits < 8 || 18 < at {
            return (value, at);
        }
    }
    for byte in bytes.get(at..).unwrap_or_default() {
        let digit = byte.wrapping_sub(b'0');
        if 9 < digit || 18 < at {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
        at += 1;
    }
    (value, at)
}

/// The number of eight digits, each the value of a byte, the first in the lowest one: neighbours
/// are put together three times.
#[inline]
fn eight_digits(word: u64) -> u32 {
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    // The upper half.
    (low.wrapping_add(high) >> 32) as u32
}

/// The number at the front of `bytes`, and its length.
#[inline]
pub fn short_number(bytes: &[u8]) -> Option<(Short, usize)> {
    let (is_negative, unsigned) = match bytes.split_first() {
        Some((b'-', unsigned)) => (true, unsigned),
        _ => (false, bytes),
    };
    let (value, n_whole) = digits(unsigned, 0);
    // No leading zeros.
    if !(1..=18).contains(&n_whole) || 1 < n_whole && unsigned.first() == Some(&b'0') {
        return None;
    }
    let n_signs = usize::from(is_negative);
    match unsigned.get(n_whole) {
        Some(b'.') => {}
        Some(b'e' | b'E') => return None,
        // Minus zero is a double.
        _ if value == 0 && is_negative => return None,
        _ => {
            let value = if is_negative { -value } else { value };
            return Some((Short::Int(value), n_signs + n_whole));
        }
    }
    let (value, n_fraction) = digits(unsigned.get(n_whole + 1..)?, value);
    let len = n_whole + 1 + n_fraction;
    let is_long = 15 < n_whole + n_fraction || matches!(unsigned.get(len), Some(b'e' | b'E'));
    if n_fraction == 0 || is_long || value == 0 {
        return None;
    }
    // Both are exact, so that the quotient is what the text is rounded to.
    #[expect(clippy::cast_precision_loss, reason = "at most 15 digits")]
    let double = value as f64 / POWERS.get(n_fraction)?;
    Some((Short::Double(if is_negative { -double } else { double }), n_signs + len))
}

/// The length of the number at the front of `bytes`.
fn number_len(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| -> usize {
        bytes.get(from..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    match digits(at) {
        0 => return None,
        // No leading zeros.
        1 => at += 1,
        _ if bytes.get(at) == Some(&b'0') => return None,
        n => at += n,
    }
    if bytes.get(at) == Some(&b'.') {
        let n = digits(at + 1);
        if n == 0 {
            return None;
        }
        at += 1 + n;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        let n = digits(at);
        if n == 0 {
            return None;
        }
        at += n;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_are_what_the_library_reads() {
        let read = |text: &str| {
            let found = short_number(text.as_bytes());
            let longer = short_number((text.to_owned() + ",\"123456789\"").as_bytes());
            assert_eq!(found, longer, "{text}");
            found
        };
        let ints = [
            "0",
            "7",
            "-7",
            "123456789012345678",
            "-999999999999999999",
            "10",
            "12345678",
            "123456789",
            "1234567890123456",
        ];
        for text in ints {
            let expected = (Short::Int(text.parse().unwrap()), text.len());
            assert_eq!(read(text), Some(expected), "{text}");
        }
        let mut doubles: Vec<_> = ["0.5", "19.99", "-1.234567", "0.00000000000001", "0.1"].into();
        doubles.extend(["99999999999999.9", "9.99999999999999", "1.10", "123456.789012345"]);
        for text in doubles {
            let expected = (Short::Double(text.parse().unwrap()), text.len());
            assert_eq!(read(text), Some(expected), "{text}");
        }
        let others = ["-0", "-0.0", "0.0", "00", "01", "1.", ".5", "-", "", "x", "1e5", "1.5e5"];
        for text in others.into_iter().chain(["1234567890123456789", "0.1234567890123456"]) {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
