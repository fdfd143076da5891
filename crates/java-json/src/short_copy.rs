//! Short pieces of bytes, appended without a call of `memcpy`.
//!
//! Most of what is copied while one format becomes the other is a few bytes long: names, short
//! texts, numbers. A copy of a length that the compiler knows is a few instructions, so that a
//! whole chunk is copied, and what is too much is taken off again. How long the piece is makes no
//! branch.

/// Appends the first `len` bytes of `chunk`, which has as many.
#[inline]
pub fn push_front<const N: usize>(out: &mut Vec<u8>, chunk: &[u8; N], len: usize) {
    debug_assert!(len <= N);
    let end = out.len() + len;
    out.extend_from_slice(chunk);
    out.truncate(end);
}

/// Appends bytes that are few as a rule, with nothing known of what is behind them: two pieces
/// that overlap.
#[inline]
pub fn push_short(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        4..=8 => push_ends::<4>(out, bytes),
        9..=16 => push_ends::<8>(out, bytes),
        17..=32 => push_ends::<16>(out, bytes),
        _ => out.extend_from_slice(bytes),
    }
}

/// Appends from `N` to `2 * N` bytes.
#[inline]
fn push_ends<const N: usize>(out: &mut Vec<u8>, bytes: &[u8]) {
    let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) else {
        return;
    };
    push_front(out, first, bytes.len() - N);
    out.extend_from_slice(last);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_are_appended() {
        let bytes: Vec<u8> = (0..100).collect();
        for len in 0..=40 {
            let (mut front, mut short) = (vec![7], vec![7]);
            if len <= 32 {
                push_front(&mut front, bytes.first_chunk::<32>().unwrap(), len);
                assert_eq!(front.split_first().unwrap().1, &bytes[..len]);
            }
            push_short(&mut short, &bytes[..len]);
            assert_eq!(short.split_first().unwrap().1, &bytes[..len]);
        }
    }
}
