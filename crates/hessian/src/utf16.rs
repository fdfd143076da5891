//! Lengths in UTF-16 units of text in UTF-8, which is how Hessian counts.
//!
//! Every byte that begins a character counts one unit, and one more if the character has four
//! bytes. That needs no decoding, so that wide instructions can do it; text that is no UTF-8 gets
//! some number, and its reader finds out later.

/// How many bytes are counted in one byte: at two units each they stay below 256.
const BLOCK: usize = 64;

/// How many UTF-16 units begin in `bytes`.
#[inline]
pub(crate) fn count(bytes: &[u8]) -> usize {
    let in_block = |block: &[u8]| -> u8 {
        block.iter().fold(0, |n, &b| n + u8::from(b & 0xc0 != 0x80) + u8::from(0xf0 <= b))
    };
    bytes.chunks(BLOCK).map(|block| usize::from(in_block(block))).sum()
}

/// How many bytes the first `n_units` units of `bytes` take. Nothing if the bytes end before, or
/// if only the first half of a four-byte character is wanted.
///
/// Each round looks at as many bytes as units are missing, which cannot be too many.
pub(crate) fn prefix_len(bytes: &[u8], n_units: usize) -> Option<usize> {
    let (mut at, mut left) = (0, n_units);
    while 0 < left {
        let piece = bytes.get(at..at + left)?;
        at += left;
        left = left.checked_sub(count(piece))?;
    }
    // The last character may go on.
    let front = bytes.get(..at)?;
    let Some(last) = front.iter().rposition(|&b| b & 0xc0 != 0x80) else {
        return Some(at);
    };
    let len = match front.get(last)? {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    };
    Some(at.max(last + len)).filter(|&end| end <= bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_library() {
        let text = "aé中😀".repeat(100);
        assert_eq!(count(text.as_bytes()), text.encode_utf16().count());
        let mut n_units = 0;
        for (at, c) in text.char_indices() {
            assert_eq!(prefix_len(text.as_bytes(), n_units), Some(at));
            if c.len_utf16() == 2 {
                assert_eq!(prefix_len(text.as_bytes(), n_units + 1), None, "half a character");
            }
            n_units += c.len_utf16();
        }
        assert_eq!(prefix_len(text.as_bytes(), n_units), Some(text.len()));
        assert_eq!(prefix_len(text.as_bytes(), n_units + 1), None);
    }

    #[test]
    fn takes_what_is_no_text() {
        assert_eq!(prefix_len(b"\x80\x80", 1), None);
        assert_eq!(prefix_len(b"a\xe4\xb8", 2), None);
        assert_eq!(prefix_len(b"\xff\xff\xff\xff", 2), None);
    }
}
