//! Values whose JSON is short, put into a place of a fixed length: no store has to be checked, and
//! no buffer has to grow, for each piece of them.

use super::append::not_finite;
use crate::ascii;

/// Room for any number, and for a text of 32 bytes with its quotes. Bytes after what is put may
/// change.
pub const LEAF_LEN: usize = 40;
/// Room for one number or short text.
pub type LeafRoom = [u8; LEAF_LEN];

/// Eight digits hold all below.
const EIGHT: u64 = 100_000_000;

/// Puts the first `len` bytes as a string, if they are ASCII without escapes.
#[inline]
pub fn put_text(place: &mut LeafRoom, text: &[u8; 32], len: usize) -> Option<usize> {
    if !ascii::is_plain_front(text, len) {
        return None;
    }
    let [first, inside @ ..] = place;
    *first = b'"';
    *inside.first_chunk_mut()? = *text;
    *inside.get_mut(len)? = b'"';
    Some(len + 2)
}

/// Puts a word of up to eight bytes.
#[inline]
pub fn put_word(place: &mut LeafRoom, word: [u8; 8], len: usize) -> usize {
    put_eight(place, 0, word);
    len
}

/// Puts an integer.
#[inline]
pub fn put_i64(place: &mut LeafRoom, value: i64) -> usize {
    place[0] = b'-';
    put_u64(place, usize::from(value < 0), value.unsigned_abs())
}

/// Puts the shortest number that reads back as this double, or the text of what is no number.
#[inline]
pub fn put_f64(place: &mut LeafRoom, value: f64) -> usize {
    match millionths(value.abs()) {
        Some(count) => put_millionths(place, value.is_sign_negative(), count),
        None => put_any_f64(place, value),
    }
}

/// How many millionths a number is, if it is a whole number of them, of up to 15 digits. No other
/// number of so few digits is the same double, so that they are its shortest.
#[inline]
fn millionths(value: f64) -> Option<u64> {
    const MAX: f64 = 1e15;
    let scaled = value * 1e6;
    // Not for NaN. Small numbers are written with an exponent.
    if !(1e3..MAX).contains(&scaled) && value != 0.0 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounded, and compared afterwards")]
    let count = (scaled + 0.5) as i64;
    #[expect(clippy::float_cmp, clippy::cast_precision_loss, reason = "exact, or of no use")]
    let is_same = count as f64 / 1e6 == value;
    is_same.then_some(count.unsigned_abs())
}

#[inline]
fn put_millionths(place: &mut LeafRoom, is_negative: bool, count: u64) -> usize {
    place[0] = b'-';
    let point = put_u64(place, usize::from(is_negative), count / 1_000_000);
    // Six digits after two zeros.
    let digits = eight_digits(count % 1_000_000) >> 16;
    let n_digits = (8 - digits.leading_zeros() as usize / 8).max(1);
    // The digits after the point, which is the first byte.
    let after = ascii_of(digits);
    put_eight(place, point + 1, after);
    if let Some(place) = place.get_mut(point) {
        *place = b'.';
    }
    point + 1 + n_digits
}

fn put_any_f64(place: &mut LeafRoom, value: f64) -> usize {
    let mut buffer = zmij::Buffer::new();
    let text = match value.is_finite() {
        true => buffer.format_finite(value).as_bytes(),
        false => not_finite(value),
    };
    put_bytes(place, 0, text)
}

/// Puts a number at `at`, and says where it ends.
#[inline]
fn put_u64(place: &mut LeafRoom, at: usize, value: u64) -> usize {
    match value {
        0..EIGHT => put_leading(place, at, value),
        EIGHT..10_000_000_000_000_000 => {
            let at = put_leading(place, at, value / EIGHT);
            put_eight(place, at, ascii_of(eight_digits(value % EIGHT)));
            at + 8
        }
        _ => put_bytes(place, at, itoa::Buffer::new().format(value).as_bytes()),
    }
}

/// Puts a number of up to eight digits without zeros in front.
#[inline]
fn put_leading(place: &mut LeafRoom, at: usize, value: u64) -> usize {
    let digits = eight_digits(value);
    // The last digit is written even if it is a zero.
    let n_zeros = (digits | 1 << 56).trailing_zeros() / 8;
    put_eight(place, at, ascii_of(digits >> (8 * n_zeros)));
    at + 8 - n_zeros as usize
}

#[inline]
fn put_eight(place: &mut LeafRoom, at: usize, bytes: [u8; 8]) {
    if let Some(place) = place.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = bytes;
    }
}

fn put_bytes(place: &mut LeafRoom, at: usize, bytes: &[u8]) -> usize {
    if let Some(place) = place.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
    at + bytes.len()
}

/// The eight digits of a number below [`EIGHT`], each the value of a byte, the first in the lowest
/// one. Halves, quarters and eighths are divided side by side; a product and a shift divide by 100
/// what is below 10,000, and by 10 what is below 100.
#[inline]
fn eight_digits(value: u64) -> u64 {
    let high = value / 10_000;
    let fours = high | (value - high * 10_000) << 32;
    let high = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = high | (fours - high * 100) << 16;
    let high = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    high | (twos - high * 10) << 8
}

#[inline]
fn ascii_of(digits: u64) -> [u8; 8] {
    (digits | 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl FnOnce(&mut LeafRoom) -> usize) -> String {
        let mut place = [0xff; LEAF_LEN];
        let len = put(&mut place);
        std::str::from_utf8(&place[..len]).unwrap().to_owned()
    }

    #[test]
    fn integers_are_what_the_library_writes() {
        let check = |value: i64| {
            assert_eq!(text(|place| put_i64(place, value)), value.to_string());
        };
        [0, i64::MIN, i64::MAX].into_iter().for_each(check);
        for power in 0..19 {
            let round = 10i64.pow(power);
            for value in [round - 1, round, round + 1, round / 7, 5 * (round / 9)] {
                check(value);
                check(-value);
            }
        }
        (0..EIGHT).step_by(9973).for_each(|value| check(value.cast_signed()));
    }

    #[test]
    fn doubles_are_the_shortest_of_the_library() {
        let check = |value: f64| {
            let expected = zmij::Buffer::new().format_finite(value).to_owned();
            assert_eq!(text(|place| put_f64(place, value)), expected);
            assert_eq!(text(|place| put_f64(place, -value)), format!("-{expected}"));
        };
        for value in [0.0, 1.0, 0.001, 0.000_999, 1e-5, 1e-6, 999_999_999.999_999, 1e9, 1e15, 1e16]
        {
            check(value);
            check(value + value * f64::EPSILON);
            check(value - value * f64::EPSILON);
        }
        // Thousandths as Hessian has them are no quotients.
        (0..200_000).for_each(|count| check(0.001 * f64::from(count)));
        let mut seed = 1u64;
        for _ in 0..200_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            for divisor in [1e2, 1e3, 1e6, 1e7] {
                let count = u32::try_from(seed >> 33).unwrap();
                check(f64::from(count) / divisor);
                check(f64::from(count) * 1000.0 / divisor);
            }
            let any = f64::from_bits(seed >> 1);
            if any.is_finite() {
                check(any);
            }
        }
    }
}
