//! Jute's binary form: big-endian numbers, and texts, buffers and lists with their length.
//!
//! Source: `BinaryInputArchive` and `BinaryOutputArchive` in apache/zookeeper.

use bytes::{BufMut, BytesMut};

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum JuteError {
    /// The record goes on after its frame.
    #[error("a record is cut off: {needed_len} bytes needed, {left_len} left")]
    CutOff {
        /// What its next field needs.
        needed_len: usize,
        /// What is left of the frame.
        left_len: usize,
    },
    /// A length or a count below zero.
    #[error("a length of {found} in a record")]
    BadLength {
        /// What was found.
        found: i32,
    },
}

/// Reads the fields of a record off the front of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordReader<'a> {
    left: &'a [u8],
}

impl<'a> RecordReader<'a> {
    pub(crate) fn new(frame: &'a [u8]) -> Self {
        Self { left: frame }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], JuteError> {
        let Some((taken, left)) = self.left.split_at_checked(len) else {
            return Err(JuteError::CutOff { needed_len: len, left_len: self.left.len() });
        };
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], JuteError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, JuteError> {
        Ok(self.array::<1>()? != [0])
    }

    pub(crate) fn int(&mut self) -> Result<i32, JuteError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<i64, JuteError> {
        self.array().map(i64::from_be_bytes)
    }

    /// A length or a count; -1 stands for null, which is taken for nothing.
    fn len(&mut self) -> Result<usize, JuteError> {
        match self.int()? {
            -1 => Ok(0),
            found => usize::try_from(found).map_err(|_| JuteError::BadLength { found }),
        }
    }

    pub(crate) fn buffer(&mut self) -> Result<&'a [u8], JuteError> {
        let len = self.len()?;
        self.take(len)
    }

    /// A text. Bytes that are not UTF-8 become U+FFFD: one strange name must not hide the others.
    pub(crate) fn text(&mut self) -> Result<String, JuteError> {
        self.buffer().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    pub(crate) fn texts(&mut self) -> Result<Vec<String>, JuteError> {
        /// A text has its length at least.
        const MIN_TEXT_LEN: usize = 4;
        let n_texts = self.len()?;
        let needed_len = n_texts.saturating_mul(MIN_TEXT_LEN);
        if self.left.len() < needed_len {
            return Err(JuteError::CutOff { needed_len, left_len: self.left.len() });
        }
        (0..n_texts).map(|_| self.text()).collect()
    }
}

pub(crate) fn put_text(out: &mut BytesMut, text: &str) {
    put_buffer(out, text.as_bytes());
}

/// Callers keep what they send far below 2 GiB.
pub(crate) fn put_buffer(out: &mut BytesMut, bytes: &[u8]) {
    out.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    out.put_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let mut out = BytesMut::new();
        put_text(&mut out, "é");
        put_buffer(&mut out, &[0, 255]);
        out.put_i32(-1);
        let mut reader = RecordReader::new(&out);
        assert_eq!(reader.text().unwrap(), "é");
        assert_eq!(reader.buffer().unwrap(), [0, 255]);
        assert_eq!(reader.buffer().unwrap(), [0; 0], "null is nothing");
        assert!(reader.is_empty());
    }

    #[test]
    fn counts_are_checked_before_anything_is_kept() {
        let many = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        let cut_off = JuteError::CutOff { needed_len: 0x7fff_ffff * 4, left_len: 4 };
        assert_eq!(RecordReader::new(&many).texts(), Err(cut_off));
        let cut_off = JuteError::CutOff { needed_len: 0x7fff_ffff, left_len: 4 };
        assert_eq!(RecordReader::new(&many).buffer(), Err(cut_off));
        let negative = (-2_i32).to_be_bytes();
        assert_eq!(RecordReader::new(&negative).text(), Err(JuteError::BadLength { found: -2 }));
    }

    #[test]
    fn a_strange_name_does_not_hide_the_others() {
        let bytes = [0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0, 0, 0, 1, b'a'];
        assert_eq!(RecordReader::new(&bytes).texts().unwrap(), ["\u{fffd}", "a"]);
    }
}
