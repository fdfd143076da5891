//! Compares an output with what its source and processing step make it. Reads both as a stream, in
//! bounded memory, and names the first difference.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use crate::line_step::{LineProcessor, line_max_len, process_line};
use crate::lines::{Line, LineEnds};
use crate::{Difference, Reader, Source, TransferError};

/// How much of a difference is shown.
const EXCERPT_LEN: usize = 40;

/// What was compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verified {
    /// How many lines.
    pub lines: u64,
    /// The source's length in bytes.
    pub source_len: u64,
    /// The output's length in bytes.
    pub output_len: u64,
}

/// Whether `output` is `source`, each line (which `ends` tells apart) processed by `step`.
/// `progress` is told the bytes of output that have been compared.
///
/// # Errors
/// [`TransferError::Different`] with the first difference, or what reading can end with.
pub fn verify(
    source: &Path,
    output: &Path,
    ends: LineEnds,
    step: &dyn LineProcessor,
    progress: &mut dyn FnMut(u64),
) -> Result<Verified, TransferError> {
    let source = Source::open_with(source, ends)?;
    let mut file = File::open(output).map_err(TransferError::io("open", output))?;
    let mut reader = Reader::new(Arc::clone(&source));
    let mut expected = Expected::default();
    let mut found = Vec::new();
    let (mut line, mut offset) = (0, 0);
    loop {
        expected.clear();
        let next = reader.for_each(line, |number, line| {
            expected.push(step, number, line);
            Ok(())
        })?;
        // One byte more at the end of the source shows whether the output ends there, too.
        let want = if next == line { 1 } else { expected.bytes.len() };
        found.clear();
        file.by_ref()
            .take(want as u64)
            .read_to_end(&mut found)
            .map_err(TransferError::io("read", output))?;
        if let Some(difference) = expected.compare(&found, line, offset) {
            return Err(TransferError::Different { path: output.to_owned(), difference });
        }
        if next == line {
            let source_len = source.identity().len;
            return Ok(Verified { lines: line, source_len, output_len: offset });
        }
        line = next;
        offset += found.len() as u64;
        progress(offset);
    }
}

/// What a block of the source becomes.
#[derive(Default)]
struct Expected {
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Expected {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, step: &dyn LineProcessor, number: u64, line: Line<'_>) {
        let begin = self.bytes.len();
        self.bytes.resize(begin + line_max_len(step, line.bytes().len()), 0);
        let len = process_line(step, number, line, &mut self.bytes[begin..]);
        self.bytes.truncate(begin + len);
        self.ends.push(begin + len);
    }

    /// The first difference to `found`, which lies at `offset` of the output and begins with line
    /// `first`.
    fn compare(&self, found: &[u8], first: u64, offset: u64) -> Option<Difference> {
        if self.bytes == found {
            return None;
        }
        let same = self.bytes.iter().zip(found).take_while(|(a, b)| a == b).count();
        Some(Difference {
            line: first + self.ends.partition_point(|&end| end <= same) as u64,
            offset: offset + same as u64,
            expected: excerpt(&self.bytes[same..]),
            found: excerpt(&found[same..]),
        })
    }
}

fn excerpt(bytes: &[u8]) -> String {
    match bytes.len() {
        0 => "the end".to_owned(),
        len if len <= EXCERPT_LEN => format!("\"{}\"", bytes.escape_ascii()),
        _ => format!("\"{}\"...", bytes[..EXCERPT_LEN].escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line_step::{Contest, Unchanged};

    fn compare(
        source: &[u8],
        output: &[u8],
        step: &dyn LineProcessor,
    ) -> Result<Verified, TransferError> {
        compare_by(LineEnds::Crlf, source, output, step)
    }

    fn compare_by(
        ends: LineEnds,
        source: &[u8],
        output: &[u8],
        step: &dyn LineProcessor,
    ) -> Result<Verified, TransferError> {
        let folder = tempfile::tempdir().unwrap();
        let [source_path, output_path] = ["source", "output"].map(|name| folder.path().join(name));
        std::fs::write(&source_path, source).unwrap();
        std::fs::write(&output_path, output).unwrap();
        verify(&source_path, &output_path, ends, step, &mut |_| {})
    }

    fn difference(
        source: &[u8],
        output: &[u8],
        step: &dyn LineProcessor,
    ) -> (u64, u64, String, String) {
        match compare(source, output, step) {
            Err(TransferError::Different { difference, .. }) => {
                let Difference { line, offset, expected, found } = difference;
                (line, offset, expected, found)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_same() {
        for (source, output) in
            [(&b""[..], &b""[..]), (b"abc", b"0ca"), (b"\r\nabc\r\nx", b"0\r\n1ca\r\n2x")]
        {
            assert!(compare(source, output, &Contest).is_ok());
        }
        let verified = compare(b"a\r\nb\r\n", b"a\r\nb\r\n", &Unchanged).unwrap();
        assert_eq!(verified, Verified { lines: 2, source_len: 6, output_len: 6 });
    }

    #[test]
    fn lines_by_other_ends() {
        let source = b"abc\nab\r\nx";
        let lines = |ends, output: &[u8]| compare_by(ends, source, output, &Contest);
        assert_eq!(lines(LineEnds::Lf, b"0ca\n1\ra\n2x").unwrap().lines, 3);
        assert_eq!(lines(LineEnds::Any, b"0ca\n1ba\r\n2x").unwrap().lines, 3);
        // An end that became another one is a difference.
        match lines(LineEnds::Any, b"0ca\r\n1ba\r\n2x") {
            Err(TransferError::Different {
                difference: Difference { line, offset, .. }, ..
            }) => {
                assert_eq!((line, offset), (0, 3));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        let is = |line, offset, expected: &str, found: &str| {
            (line, offset, expected.to_owned(), found.to_owned())
        };
        let source = b"ab\r\ncd\r\n";
        let differs = |output| difference(source, output, &Unchanged);
        assert_eq!(differs(b"ab\r\ncX\r\n"), is(1, 5, r#""d\r\n""#, r#""X\r\n""#));
        assert_eq!(differs(b"Xb\r\ncd\r\n").0, 0);
        assert_eq!(differs(b"ab\r\n"), is(1, 4, r#""cd\r\n""#, "the end"));
        assert_eq!(differs(b"ab\r"), is(0, 3, r#""\ncd\r\n""#, "the end"));
        assert_eq!(differs(b"ab\r\ncd\r\nef"), is(2, 8, "the end", r#""e""#));
        assert_eq!(difference(b"", b"x", &Unchanged), is(0, 0, "the end", r#""x""#));
    }

    #[test]
    fn far_into_a_long_file() {
        let source = b"0123456789\r\n".repeat(100_000);
        let mut output = source.clone();
        output[1_000_000] = b'X';
        let (line, offset, ..) = difference(&source, &output, &Unchanged);
        assert_eq!((line, offset), (83_333, 1_000_000));
    }

    #[test]
    fn what_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("source");
        std::fs::write(&path, "x").unwrap();
        let error =
            verify(&path, folder.path(), LineEnds::Crlf, &Unchanged, &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
        let error =
            verify(folder.path(), &path, LineEnds::Crlf, &Unchanged, &mut |_| {}).unwrap_err();
        assert!(matches!(error, TransferError::NotAFile { .. }), "{error}");
    }
}
