//! Standard output.

use std::io::{self, ErrorKind, Write};

use agent::terminal::escaped;

use crate::Exit;

/// Prints what `command` has found, and gives `exit`, or says why that cannot be printed. Much of
/// it was chosen by others: a terminal obeys nothing of that.
pub(crate) fn print(command: &str, text: &str, exit: Exit) -> Exit {
    match write(escaped(text).as_bytes()) {
        Ok(_) => exit,
        Err(message) => {
            // Nobody need be there to read it.
            let _ = writeln!(io::stderr(), "dubmesh {command}: {message}");
            Exit::Failure
        }
    }
}

/// Who reads standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputReader {
    /// There may be one.
    There,
    /// It has closed the pipe, as `head` does that has read enough.
    Gone,
}

/// Writes bytes to standard output at once.
///
/// # Errors
/// They cannot be written, but for a pipe that its reader has closed.
pub(crate) fn write(bytes: &[u8]) -> Result<OutputReader, String> {
    write_to(&mut io::stdout().lock(), bytes)
}

fn write_to(out: &mut impl Write, bytes: &[u8]) -> Result<OutputReader, String> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(OutputReader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(OutputReader::Gone),
        Err(error) => Err(format!("cannot write to standard output: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufWriter;

    use super::*;

    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_a_closed_pipe_is_none() {
        let written = |kind| write_to(&mut BufWriter::new(Failing(kind)), b"x");
        let full = written(ErrorKind::StorageFull).unwrap_err();
        assert!(full.starts_with("cannot write to standard output: "), "{full}");
        assert_eq!(written(ErrorKind::BrokenPipe), Ok(OutputReader::Gone));
    }
}
