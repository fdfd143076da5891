//! How long the chunks of a body say that they are.
//!
//! hyper hands on the data of a chunk as it comes, and never tells the length that was announced:
//! a peer that announces more than the limit would be waited for. So what is read of a chunked
//! body is looked at here, too. Nothing is kept of it, and what is broken is left to hyper.

/// Digits of a length that is not broken: 64 bits.
const MAX_DIGITS: u32 = 16;

/// Walks along a chunked body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    at: At,
    /// Sum of the lengths so far.
    total: u64,
    max: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum At {
    /// Digits of a length.
    Length { value: u64, n_digits: u32 },
    /// The rest of the line behind them.
    Line { value: u64 },
    /// So many bytes, and the line break behind them.
    Data { left: u64 },
    /// Nothing more that says anything.
    End,
}

impl Chunks {
    /// At the begin of a body that may have so many bytes.
    pub(super) fn new(max: usize) -> Self {
        let at = At::Length { value: 0, n_digits: 0 };
        Self { at, total: 0, max: u64::try_from(max).unwrap_or(u64::MAX) }
    }

    /// Looks at what comes next of the body; whether it is longer than it may be, by its own
    /// account.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> bool {
        while let [byte, rest @ ..] = bytes {
            match self.at {
                At::Length { value, n_digits } => {
                    match (char::from(*byte).to_digit(16), n_digits) {
                        (Some(digit), ..MAX_DIGITS) => {
                            let value = value << 4 | u64::from(digit);
                            self.at = At::Length { value, n_digits: n_digits + 1 };
                        }
                        (None, 1..) => {
                            self.at = At::Line { value };
                            // This byte may be the end of the line.
                            continue;
                        }
                        _ => self.at = At::End,
                    }
                    bytes = rest;
                }
                At::Line { value } => {
                    let Some(end) = memchr::memchr(b'\n', bytes) else { return false };
                    bytes = bytes.get(end + 1..).unwrap_or_default();
                    self.total = self.total.saturating_add(value);
                    if self.max < self.total {
                        self.at = At::End;
                        return true;
                    }
                    self.at = match value {
                        0 => At::End,
                        // The total is within the limit, so that this is far from 64 bits.
                        _ => At::Data { left: value + 2 },
                    };
                }
                At::Data { left } => {
                    let len = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    bytes = bytes.get(len..).unwrap_or_default();
                    self.at = match left - len as u64 {
                        0 => At::Length { value: 0, n_digits: 0 },
                        left => At::Data { left },
                    };
                }
                At::End => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// How many bytes it takes to see that a body is too long.
    fn seen_after(body: &[u8], max: usize) -> Option<usize> {
        let mut chunks = Chunks::new(max);
        (1..=body.len()).find(|end| chunks.read(&body[end - 1..*end]))
    }

    #[test]
    fn lengths_are_added_up() {
        assert_eq!(seen_after(b"ffffffffffffffff\r\n", 10), Some(18));
        assert_eq!(seen_after(b"B;x=\"5\"\r\n", 10), Some(9));
        assert_eq!(seen_after(b"a\r\n0123456789\r\n0\r\n\r\n", 10), None);
        assert_eq!(seen_after(b"a\r\n0123456789\r\n1\r\n", 10), Some(18));
        assert_eq!(seen_after(b"5\r\nff\r\nf\r\n5\r\nabcde\r\n0\r\nffff: x\r\n\r\n", 10), None);
        // What is broken is not for us to refuse.
        for broken in
            [&b"x\r\nffff\r\n"[..], b"\r\nffff\r\n", b"00000000000000000ffff\r\n", b" 5\r\n"]
        {
            assert_eq!(seen_after(broken, 1), None, "{broken:?}");
        }
    }

    proptest! {
        /// Where the network cuts the bytes changes nothing.
        #[test]
        fn cuts_do_not_matter(
            lens in vec(0..40_usize, 0..6), max in 0..100_usize, cut_len in 1..16_usize,
        ) {
            let mut body = Vec::new();
            for len in &lens {
                body.extend_from_slice(format!("{len:x}\r\n{}\r\n", "\n".repeat(*len)).as_bytes());
            }
            // A chunk without data ends the body.
            let total: usize = lens.iter().take_while(|len| **len != 0).sum();
            let mut chunks = Chunks::new(max);
            let is_seen = body.chunks(cut_len).any(|piece| chunks.read(piece));
            prop_assert_eq!(is_seen, max < total);
        }
    }
}
