//! Texts whose length is in their tag: copied by words, for they are too short for a copy of any
//! length to be worth its call.

use crate::tag;

/// What the longest such text takes, with its tag.
pub(super) const SHORT_TEXT_ROOM: usize = 1 + tag::STRING_DIRECT_MAX;

/// A text without its tag, in room for the longest.
type ShortRoom = [u8; tag::STRING_DIRECT_MAX];

/// Writes a text of at most [`tag::STRING_DIRECT_MAX`] bytes, if it is ASCII; if not, nothing is
/// written.
#[inline]
pub(super) fn write_short_text(out: &mut Vec<u8>, value: &[u8]) -> bool {
    let at = out.len();
    out.extend_from_slice(&[0; SHORT_TEXT_ROOM]);
    let Some([head, place @ ..]) = out.last_chunk_mut::<SHORT_TEXT_ROOM>() else {
        return false;
    };
    #[expect(clippy::cast_possible_truncation, reason = "at most 0x1f")]
    let len = value.len() as u8;
    *head = len;
    let is_ascii = copy_ascii(value, place);
    out.truncate(if is_ascii { at + 1 + value.len() } else { at });
    is_ascii
}

/// Copies a text to the front of `place`, whose other bytes may change, and says whether all of
/// its bytes are ASCII.
#[inline]
fn copy_ascii(text: &[u8], place: &mut ShortRoom) -> bool {
    let high_bits = match text.len() {
        0 => Some(0),
        1..4 => copy_bytes(text, place),
        4..8 => copy_ends(text, place)
            .map(|(a, b)| u64::from((u32::from_le_bytes(a) | u32::from_le_bytes(b)) & 0x8080_8080)),
        8..16 => copy_ends(text, place)
            .map(|(a, b)| (u64::from_le_bytes(a) | u64::from_le_bytes(b)) & 0x8080_8080_8080_8080),
        _ => copy_ends(text, place).map(|(a, b)| {
            let all = u128::from_le_bytes(a) | u128::from_le_bytes(b);
            #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
            let (low, high) = (all as u64, (all >> 64) as u64);
            (low | high) & 0x8080_8080_8080_8080
        }),
    };
    high_bits == Some(0)
}

/// Copies one to three bytes, the middle one twice if need be. Gives the highest bits of all.
#[inline]
fn copy_bytes(text: &[u8], place: &mut ShortRoom) -> Option<u64> {
    let middle = text.len() / 2;
    let (a, b, c) = (*text.first()?, *text.get(middle)?, *text.last()?);
    *place.first_mut()? = a;
    *place.get_mut(middle)? = b;
    *place.get_mut(text.len() - 1)? = c;
    Some(u64::from((a | b | c) & 0x80))
}

/// Copies a text of `N` to twice as many bytes by its first and last `N`, which overlap, and gives
/// both.
#[inline]
fn copy_ends<const N: usize>(text: &[u8], place: &mut ShortRoom) -> Option<([u8; N], [u8; N])> {
    let (first, last) = (*text.first_chunk()?, *text.last_chunk()?);
    *place.first_chunk_mut()? = first;
    *place.get_mut(text.len() - N..)?.first_chunk_mut()? = last;
    Some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_texts_of_each_length_and_sees_all_of_their_bytes() {
        for len in 0..=tag::STRING_DIRECT_MAX {
            let text: Vec<_> = (b'a'..).take(len).collect();
            let mut out = vec![7];
            assert!(write_short_text(&mut out, &text));
            assert_eq!((out[0], usize::from(out[1]), &out[2..]), (7, len, text.as_slice()));
            for at in 0..len {
                let mut text = text.clone();
                text[at] |= 0x80;
                let mut out = vec![7];
                assert!(!write_short_text(&mut out, &text), "{at} of {len}");
                assert_eq!(out, [7], "nothing is left of it");
            }
        }
    }
}
