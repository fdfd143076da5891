//! Java's `BigInteger`: sign and 32-bit words, most significant first, to decimal text and back.
//!
//! Both ways take time by the square of the length, so that the length is bounded.

/// 8192 bits. A message of 8 MiB full of such numbers takes well under a second.
pub const MAX_WORDS: usize = 256;
/// 2^8192 has 2467 digits.
pub const MAX_DIGITS: usize = 2467;

/// Digits are read in groups of nine.
const BASE_DIGITS: usize = 9;

/// Digits are written in groups of 19: the largest power of ten in 64 bits, of which the first one
/// is set.
const GROUP: u64 = 10_000_000_000_000_000_000;
const GROUP_DIGITS: usize = 19;
/// The lower 64 bits of (2^128 - 1) / `GROUP`; the bits above are 1.
#[expect(clippy::cast_possible_truncation, reason = "only these are wanted")]
const RECIPROCAL: u64 = (u128::MAX / GROUP as u128) as u64;

/// Appends the decimal text of `words`, most significant first.
pub fn write_decimal(out: &mut Vec<u8>, is_negative: bool, words: &[u32]) {
    let pair = |pair: &[u32]| pair.iter().fold(0, |sum, &word| sum << 32 | u64::from(word));
    let mut words: Vec<u64> = words.rchunks(2).rev().map(pair).collect();
    let mut groups = Vec::new();
    while let Some(first) = words.iter().position(|&word| word != 0) {
        words.drain(..first);
        let mut rest = 0;
        for word in &mut words {
            (*word, rest) = divide(rest, *word);
        }
        groups.push(rest);
    }
    let Some(top) = groups.pop() else {
        return out.push(b'0');
    };
    if is_negative {
        out.push(b'-');
    }
    out.extend_from_slice(itoa::Buffer::new().format(top).as_bytes());
    for group in groups.into_iter().rev() {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(group).as_bytes();
        out.extend(std::iter::repeat_n(b'0', GROUP_DIGITS - digits.len()));
        out.extend_from_slice(digits);
    }
}

/// `high`, which is below `GROUP`, and `low` as one number, divided by `GROUP`: the quotient, and
/// the rest. By multiplication, since a division of 128 bits takes several times as long. Source:
/// N. Möller and T. Granlund, "Improved division by invariant integers", algorithm 4.
fn divide(high: u64, low: u64) -> (u64, u64) {
    let number = u128::from(high) << 64 | u128::from(low);
    let product = u128::from(RECIPROCAL) * u128::from(high) + number;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    let (upper, lower) = ((product >> 64) as u64, product as u64);
    let mut quotient = upper.wrapping_add(1);
    let mut rest = low.wrapping_sub(quotient.wrapping_mul(GROUP));
    if lower < rest {
        quotient = quotient.wrapping_sub(1);
        rest = rest.wrapping_add(GROUP);
    }
    if GROUP <= rest {
        quotient = quotient.wrapping_add(1);
        rest -= GROUP;
    }
    (quotient, rest)
}

/// The words of a decimal text without sign, most significant first, without leading zeros.
pub fn parse_decimal(digits: &[u8]) -> Option<Vec<u32>> {
    if digits.is_empty() || MAX_DIGITS < digits.len() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Least significant first while it grows.
    let mut words: Vec<u32> = Vec::new();
    let head_len = digits.len() % BASE_DIGITS;
    let (head, tail) = digits.split_at(head_len);
    for group in std::iter::once(head).chain(tail.chunks(BASE_DIGITS)) {
        let (mut carry, mut scale) = (0u64, 1u64);
        for &digit in group {
            carry = carry * 10 + u64::from(digit - b'0');
            scale *= 10;
        }
        for word in &mut words {
            let [.., b3, b2, b1, b0] = (u64::from(*word) * scale + carry).to_be_bytes();
            carry = (u64::from(*word) * scale + carry) >> 32;
            *word = u32::from_be_bytes([b3, b2, b1, b0]);
        }
        if let Some(word) = u32::try_from(carry).ok().filter(|&word| word != 0) {
            words.push(word);
        }
    }
    words.reverse();
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_there_and_back() {
        for (text, words) in [
            ("0", vec![]),
            ("1", vec![1]),
            ("4294967295", vec![u32::MAX]),
            ("4294967296", vec![1, 0]),
            ("18446744073709551616", vec![1, 0, 0]),
            ("340282366920938463463374607431768211455", vec![u32::MAX; 4]),
            ("1000000000000000000000000000000", vec![0xc, 0x9f2c_9cd0, 0x4674_edea, 0x4000_0000]),
        ] {
            assert_eq!(parse_decimal(text.as_bytes()).unwrap(), words, "{text}");
            let mut out = Vec::new();
            write_decimal(&mut out, false, &words);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn divides_as_the_processor_does() {
        let edges = [0, 1, 2, 9, GROUP / 2, GROUP - 2, GROUP - 1, GROUP, u64::MAX - 1, u64::MAX];
        let mixed = (1..200_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let numbers: Vec<u64> = edges.into_iter().chain(mixed).collect();
        for high in numbers.iter().map(|&number| number % GROUP) {
            for &low in &numbers {
                let number = u128::from(high) << 64 | u128::from(low);
                let (quotient, rest) = divide(high, low);
                let expected = (number / u128::from(GROUP), number % u128::from(GROUP));
                assert_eq!((quotient.into(), rest.into()), expected, "{high} {low}");
            }
        }
    }

    #[test]
    fn bounds_the_length() {
        assert!(parse_decimal(&vec![b'9'; MAX_DIGITS]).is_some());
        assert!(parse_decimal(&vec![b'9'; MAX_DIGITS + 1]).is_none());
        assert!(parse_decimal(b"").is_none());
        assert!(parse_decimal(b"12x").is_none());
        let mut out = Vec::new();
        write_decimal(&mut out, true, &[u32::MAX; MAX_WORDS]);
        assert_eq!(out.len(), MAX_DIGITS + 1);
    }
}
