//! Cuts the stream of a watch into lines. Pure.
//!
//! Invariant: it keeps less than [`MAX_LINE_LEN`] bytes. A longer line is left out whole.

/// The longest line. An object takes at most 1.5 MiB in etcd, and JSON is longer than that form.
pub(super) const MAX_LINE_LEN: usize = 8 << 20;

/// The part of a line that has come so far.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    /// The line was too long, and its end has not come yet.
    is_skipping: bool,
}

impl Lines {
    /// Takes the next piece of the stream; gives each line that ends in it, `None` for one that
    /// was too long.
    pub(super) fn handle_piece(&mut self, mut piece: &[u8], mut line: impl FnMut(Option<&[u8]>)) {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = (&piece[..end], &piece[end + 1..]);
            if self.is_skipping || MAX_LINE_LEN < self.partial.len() + head.len() {
                line(None);
            } else if self.partial.is_empty() {
                line(Some(head));
            } else {
                self.partial.extend_from_slice(head);
                line(Some(&self.partial));
            }
            *self = Self::default();
            piece = rest;
        }
        if MAX_LINE_LEN < self.partial.len() + piece.len() {
            *self = Self { partial: Vec::new(), is_skipping: true };
        }
        if !self.is_skipping {
            self.partial.extend_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_do_not_matter_and_long_lines_are_left_out() {
        let mut text = b"one\n\ntwo\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', MAX_LINE_LEN + 1));
        text.extend(b"\nlast\npartial");
        for cut in [1 << 20, 4097, 7] {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for piece in text.chunks(cut) {
                lines.handle_piece(piece, |line| {
                    seen.push(line.map(|line| String::from_utf8_lossy(line).into_owned()));
                });
            }
            let expected = [Some("one"), Some(""), Some("two"), None, Some("last")];
            assert_eq!(seen.iter().map(Option::as_deref).collect::<Vec<_>>(), expected, "{cut}");
            assert_eq!(lines.partial, b"partial");
        }
    }
}
