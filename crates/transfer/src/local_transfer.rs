//! What a transfer does, on one thread and without a network: read, process, write. It is the
//! limit that measured transfers are compared with, and nothing else uses it.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::line_step::{LineProcessor, line_max_len, process_line};
use crate::lines::LineEnds;
use crate::{Reader, Source, TransferError};

/// Processes `source`, whose lines end as `ends` says, into `output`, which is replaced. An
/// output of before that is long enough is written over and then cut, so that its pages need not
/// be found again. Returns the number of lines.
///
/// # Errors
/// [`TransferError::OutputIsSource`], or what reading and writing can end with.
pub fn local(
    source: &Path,
    output: &Path,
    ends: LineEnds,
    step: &dyn LineProcessor,
) -> Result<u64, TransferError> {
    let mut reader = Reader::new(Source::open_with(source, ends)?);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let file = options.open(output).map_err(TransferError::io("create", output))?;
    let found = file.metadata().map_err(TransferError::io("look at", output))?;
    if reader.source().is(&found)? {
        return Err(TransferError::OutputIsSource { path: output.to_owned() });
    }
    let mut out = Vec::new();
    let (mut number, mut offset) = (0, 0);
    loop {
        let mut len = 0;
        let next = reader.for_each(number, |number, line| {
            let max_len = line_max_len(step, line.bytes().len());
            if out.len() < len + max_len {
                out.resize((len + max_len).next_power_of_two(), 0);
            }
            len += process_line(step, number, line, &mut out[len..]);
            Ok(())
        })?;
        if next == number {
            file.set_len(offset).map_err(TransferError::io("shorten", output))?;
            return Ok(number);
        }
        file.write_all_at(&out[..len], offset).map_err(TransferError::io("write to", output))?;
        offset += len as u64;
        number = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Lines;
    use crate::line_step::{Contest, Unchanged};
    use crate::verify::verify;

    #[test]
    fn its_output_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let [source, output] = ["source", "output"].map(|name| folder.path().join(name));
        for ends in [LineEnds::Crlf, LineEnds::Lf, LineEnds::Any] {
            let lines = Lines::with_ends(3_000_000, 1, ends);
            let count = lines.write_to(&source, true, &mut |_| {}).unwrap();
            for step in [&Unchanged as &dyn LineProcessor, &Contest, &Unchanged] {
                assert_eq!(local(&source, &output, ends, step).unwrap(), count);
                let verified = verify(&source, &output, ends, step, &mut |_| {}).unwrap();
                assert_eq!(verified.lines, count);
            }
        }
    }
    #[test]
    fn the_source_is_never_its_own_output() {
        let folder = tempfile::tempdir().unwrap();
        let [source, link, hard_link] =
            ["source", "link", "hard_link"].map(|name| folder.path().join(name));
        std::fs::write(&source, "abc\r\nd\r\n").unwrap();
        std::os::unix::fs::symlink(&source, &link).unwrap();
        std::fs::hard_link(&source, &hard_link).unwrap();
        for output in [&source, &folder.path().join("./source"), &link, &hard_link] {
            let error = local(&source, output, LineEnds::Crlf, &Contest).unwrap_err();
            assert!(matches!(error, TransferError::OutputIsSource { .. }), "{error}");
            assert_eq!(std::fs::read(&source).unwrap(), b"abc\r\nd\r\n");
        }
    }
}
