//! Standard output and standard error. All that a command prints goes through here: `println!` and
//! `eprintln!` panic where nothing can be written, and the lint in `main.rs` refuses them.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd as _;

use agent::terminal::escaped;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

use crate::Exit;

/// Prints what `command` has found, and gives `exit`, or says why that cannot be printed. Much of
/// it was chosen by others: a terminal obeys nothing of that.
pub(crate) fn print(command: &str, text: &str, exit: Exit) -> Exit {
    match write(escaped(text).as_bytes()) {
        Ok(_) => exit,
        Err(message) => {
            say(format_args!("dubmesh {command}: {message}"));
            Exit::Failure
        }
    }
}

/// Writes a line to standard error, in one piece. There may be in it what others have said: a
/// terminal obeys nothing of that. Whether anybody reads it changes nothing: the exit status tells
/// the same, and there is no other place to say that it cannot be written.
pub(crate) fn say(line: impl Display) {
    let line = format!("{line}\n");
    let _ = io::stderr().lock().write_all(escaped(&line).as_bytes());
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
    outcome(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Ends once the reader of standard output has closed the pipe; never where it is no pipe.
pub(crate) async fn reader_gone() {
    // Nothing is written there, so it need not be in the mode that never blocks.
    if let Ok(out) = io::stdout().as_fd().try_clone_to_owned()
        && let Ok(out) = Sender::from_file_unchecked(out.into())
        && out.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// What a write to standard output came to.
///
/// # Errors
/// It failed, but for a pipe that its reader has closed.
pub(crate) fn outcome(written: io::Result<()>) -> Result<OutputReader, String> {
    match written {
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
