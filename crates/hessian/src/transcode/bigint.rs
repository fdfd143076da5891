//! Java's `BigInteger`: sign and 32-bit words, most significant first, to decimal text and back.
//!
//! Both ways take time by the square of the length, so that the length is bounded.

/// 8192 bits. A message of 8 MiB full of such numbers takes well under a second.
pub const MAX_WORDS: usize = 256;
/// 2^8192 has 2467 digits.
pub const MAX_DIGITS: usize = 2467;

const BASE: u64 = 1_000_000_000;
const BASE_DIGITS: usize = 9;

/// Appends the decimal text of `words`, most significant first.
pub fn write_decimal(out: &mut Vec<u8>, is_negative: bool, words: &[u32]) {
    let mut words = words.to_vec();
    let mut groups = Vec::new();
    while let Some(first) = words.iter().position(|&word| word != 0) {
        words.drain(..first);
        let mut rest = 0;
        for word in &mut words {
            let part = (rest << 32) | u64::from(*word);
            // The remainder is below BASE, so that the quotient fits.
            *word = u32::try_from(part / BASE).unwrap_or(u32::MAX);
            rest = part % BASE;
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
        out.extend(std::iter::repeat_n(b'0', BASE_DIGITS - digits.len()));
        out.extend_from_slice(digits);
    }
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
