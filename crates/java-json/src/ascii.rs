//! Text that is ASCII, or mostly: looked at by words, with no branch for each byte.
//!
//! Most texts are short. The words of one overlap, so that no bytes are left over. Longer texts
//! are left to the standard library, which has wide instructions.

mod chunk;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Whether all bytes are ASCII and mean just themselves in a JSON string.
#[inline]
pub fn is_plain(bytes: &[u8]) -> bool {
    match fold_short(bytes, |word| special_bits(word) | word & HIGHS) {
        Some(found) => found == 0,
        None => bytes.iter().all(|&byte| !is_special(byte) && byte < 0x80),
    }
}

/// Whether the first `len` bytes are ASCII and mean just themselves in a JSON string. All bytes
/// are looked at, whatever their number is: a branch by the length costs more, for lengths vary
/// from text to text.
#[inline]
pub fn is_plain_front(chunk: &[u8; 32], len: usize) -> bool {
    chunk::specials::<true>(chunk) & chunk::first(len) == 0
}

/// Whether the first `len` bytes are the same.
#[inline]
pub fn is_same_front(a: &[u8; 32], b: &[u8; 32], len: usize) -> bool {
    chunk::differences(a, b) & chunk::first(len) == 0
}

/// How many bytes at the front are ASCII and mean just themselves in a JSON string.
#[inline]
pub fn plain_len(chunk: &[u8; 32]) -> usize {
    chunk::specials::<true>(chunk).trailing_zeros() as usize
}

/// The first byte of the chunk that [`is_special`]; with `OR_HIGH`, or is not ASCII.
#[inline]
pub fn special_in_chunk<const OR_HIGH: bool>(chunk: &[u8; 32]) -> Option<usize> {
    let found = chunk::specials::<OR_HIGH>(chunk);
    (found != 0).then(|| found.trailing_zeros() as usize)
}

/// What `look` gives for the words of a text of 4 to 32 bytes, put together. A loop would be
/// made for longer texts than these by the compiler.
#[inline]
fn fold_short(bytes: &[u8], look: impl Fn(u64) -> u64) -> Option<u64> {
    let word = |at: usize| {
        let chunk = bytes.get(at..)?.first_chunk::<8>()?;
        Some(look(u64::from_le_bytes(*chunk)))
    };
    let len = bytes.len();
    match len {
        4..8 => {
            let (first, last) = (bytes.first_chunk::<4>()?, bytes.last_chunk::<4>()?);
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            Some(look(u64::from(first) | u64::from(last) << 32))
        }
        8..=16 => Some(word(0)? | word(len - 8)?),
        17..=32 => Some(word(0)? | word(8)? | word(len - 16)? | word(len - 8)?),
        _ => None,
    }
}

/// Whether a byte has to be looked at in a JSON string: a quote, a backslash, a control character.
#[inline]
pub fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// The highest bit of the first byte of the word that [`is_special`], and perhaps of some above
/// it.
#[inline]
fn special_bits(word: u64) -> u64 {
    let equals = |byte: u8| {
        let diff = word ^ (ONES * u64::from(byte));
        diff.wrapping_sub(ONES) & !diff
    };
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    // A borrow can mark bytes wrongly only above the first that is marked rightly.
    (equals(b'"') | equals(b'\\') | below_space) & HIGHS
}

/// The first byte of the eight that [`is_special`]; with `OR_HIGH`, or is not ASCII.
#[inline]
pub fn special_in<const OR_HIGH: bool>(chunk: [u8; 8]) -> Option<usize> {
    let word = u64::from_le_bytes(chunk);
    let found = special_bits(word) | if OR_HIGH { word & HIGHS } else { 0 };
    (found != 0).then(|| (found.trailing_zeros() / 8) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_bytes_say() {
        for len in 0..70 {
            for at in 0..len {
                for byte in [0, 0x1f, 0x20, b'"', b'!', b'#', b'\\', b'[', 0x7f, 0x80, 0xff] {
                    let mut bytes = vec![b'a'; len];
                    bytes[at] = byte;
                    let is_wanted = !is_special(byte) && byte < 0x80;
                    assert_eq!(is_plain(&bytes), is_wanted, "{byte} at {at} of {len}");
                    bytes.resize(len.max(32), b'"');
                    if let Some(chunk) = bytes.first_chunk().filter(|_| len <= 32) {
                        assert_eq!(
                            is_plain_front(chunk, len),
                            is_wanted,
                            "{byte} at {at} of {len}"
                        );
                    }
                }
            }
        }
        assert!(is_plain(b""));
    }
}
