//! Where a line ends. Bytes in, offsets out; no file in this module.
//!
//! A line ends with `\r\n`, and with nothing else: a lone `\n` or `\r` is a byte of its line. The last
//! line may lack its end; nothing after the last `\r\n` is no line.

/// What a line ends with.
pub const LINE_END: &[u8] = b"\r\n";

/// Appends to `ends` the offset behind the end of each line that ends within `bytes`.
///
/// # Panics
/// If `bytes` is longer than `u32::MAX`; blocks are far shorter.
pub(crate) fn find_ends(bytes: &[u8], ends: &mut Vec<u32>) {
    assert!(u32::try_from(bytes.len()).is_ok(), "a block is shorter than 4 GiB");
    ends.extend(memchr::memchr_iter(b'\n', bytes).filter_map(|at| {
        let before = at.checked_sub(1)?;
        #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
        (bytes[before] == b'\r').then_some(at as u32 + 1)
    }));
}

/// Cuts a line into its content and its end, which is empty for a last line without one.
#[must_use]
pub fn split_end(line: &[u8]) -> (&[u8], &[u8]) {
    line.split_at(line.strip_suffix(LINE_END).unwrap_or(line).len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends(bytes: &[u8]) -> Vec<u32> {
        let mut ends = Vec::new();
        find_ends(bytes, &mut ends);
        ends
    }

    #[test]
    fn only_both_bytes_end_a_line() {
        assert_eq!(ends(b""), []);
        assert_eq!(ends(b"\n"), []);
        assert_eq!(ends(b"\r"), []);
        assert_eq!(ends(b"a\nb\r\rc\n\r\n"), [9]);
        assert_eq!(ends(b"\r\n\r\n"), [2, 4]);
        assert_eq!(ends(b"ab\r\ncd"), [4]);
    }

    #[test]
    fn an_end_may_be_missing() {
        assert_eq!(split_end(b"ab\r\n"), (&b"ab"[..], &b"\r\n"[..]));
        assert_eq!(split_end(b"ab\r"), (&b"ab\r"[..], &b""[..]));
        assert_eq!(split_end(b"\r\n"), (&b""[..], &b"\r\n"[..]));
        assert_eq!(split_end(b""), (&b""[..], &b""[..]));
    }

    proptest! {
        #[test]
        fn the_same_as_a_loop_over_bytes(bytes in "[ab\r\n]{0,200}") {
            let bytes = bytes.as_bytes();
            let slow = (1..).zip(1..=bytes.len()).filter(|&(_, end)| bytes[..end].ends_with(LINE_END));
            prop_assert_eq!(ends(bytes), slow.map(|(end, _)| end).collect::<Vec<_>>());
        }
    }
}
