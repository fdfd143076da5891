//! Questions to each of the 32 bytes of a chunk at once. An answer has a bit for each byte, the
//! first in the lowest one.

use wide::i8x16;

/// The bits of the first `len` bytes.
#[inline]
pub(super) fn first(len: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "of 32 bytes, all bits")]
    let bits = ((1u64 << len.min(32)) - 1) as u32;
    bits
}

/// Which bytes do not mean just themselves in a JSON string; with `OR_HIGH`, or are not ASCII.
#[inline]
pub(super) fn specials<const OR_HIGH: bool>(chunk: &[u8; 32]) -> u32 {
    bits(halves(chunk).map(|lanes| {
        // As signed numbers, bytes that are not ASCII are less than all others.
        let (first, space) = if OR_HIGH { (lanes, b' ') } else { (lanes ^ all(0x80), b' ' ^ 0x80) };
        first.simd_lt(all(space)) | lanes.simd_eq(all(b'"')) | lanes.simd_eq(all(b'\\'))
    }))
}

/// Which bytes differ.
#[inline]
pub(super) fn differences(a: &[u8; 32], b: &[u8; 32]) -> u32 {
    let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
    !bits([a0.simd_eq(b0), a1.simd_eq(b1)])
}

#[inline]
fn all(byte: u8) -> i8x16 {
    i8x16::splat(byte.cast_signed())
}

#[inline]
fn halves(chunk: &[u8; 32]) -> [i8x16; 2] {
    let lanes = chunk.map(u8::cast_signed);
    [i8x16::from_slice_unaligned(&lanes), i8x16::from_slice_unaligned(&lanes[16..])]
}

/// The highest bits of the bytes.
#[inline]
fn bits([low, high]: [i8x16; 2]) -> u32 {
    low.to_bitmask() | high.to_bitmask() << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_its_own_bit() {
        for byte in 0..=0xff {
            let (is_special, is_high) = (super::super::is_special(byte), 0x7f < byte);
            for at in 0..32 {
                let (plain, mut chunk) = ([b'a'; 32], [b'a'; 32]);
                chunk[at] = byte;
                assert_eq!(specials::<true>(&chunk), u32::from(is_special || is_high) << at);
                assert_eq!(specials::<false>(&chunk), u32::from(is_special) << at);
                assert_eq!(differences(&chunk, &plain), u32::from(byte != b'a') << at);
            }
            assert_eq!(specials::<false>(&[byte; 32]), if is_special { u32::MAX } else { 0 });
        }
        assert_eq!((first(0), first(1), first(31), first(32)), (0, 1, u32::MAX >> 1, u32::MAX));
    }
}
