//! A file of lines that is moved aside when it is full. It may also be a pipe or a device.
//!
//! Invariants:
//! - To open it never waits: a pipe that nobody reads is refused.
//! - A line is in it whole or not at all, unless a pipe or a device takes a part of one. Then the
//!   next one begins on a line of its own.
//! - Only a regular file is moved aside, and only for lines that are in it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// The access log cannot be written to its file.
#[derive(Debug, thiserror::Error)]
pub enum LogFileError {
    /// It cannot be opened.
    #[error(
        "the access log {path} cannot be opened: {source}; create its folder, or let this user \
         write there (access_log.path)"
    )]
    Open {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It is a pipe without a reader.
    #[error(
        "the access log {path} is a pipe that nobody reads; start its reader first \
         (access_log.path)"
    )]
    NoReader {
        /// The pipe.
        path: String,
    },
    /// It is written elsewhere already, and that was changed once more.
    #[error(
        "the last lines of an earlier access log still wait for {place}; have somebody read it, or \
         restart the agent (access_log.path)"
    )]
    Stuck {
        /// The file that takes nothing.
        place: String,
    },
}

/// Not all lines could be written.
#[derive(Debug)]
pub(super) struct Unwritten {
    /// How many were.
    pub(super) n_written: u64,
    /// Why the next one was not.
    pub(super) source: io::Error,
}

/// A file of lines.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    /// It is moved aside before it is longer than this.
    max_len: u64,
    /// How many that were moved aside are kept.
    keep: usize,
    opened: Opened,
    /// It ends in the midst of a line.
    is_torn: bool,
}

/// What lines are appended to.
#[derive(Debug)]
struct Opened {
    file: File,
    is_regular: bool,
}

impl LogFile {
    /// Appends to the file, which is made if it is not there.
    pub(super) fn open(path: &Path, max_len: u64, keep: usize) -> Result<Self, LogFileError> {
        let opened = append(path).map_err(|source| {
            let path = path.display().to_string();
            match source.raw_os_error() {
                Some(error) if error == Errno::ENXIO as i32 => LogFileError::NoReader { path },
                _ => LogFileError::Open { path, source },
            }
        })?;
        Ok(Self { path: path.to_owned(), max_len, keep, opened, is_torn: false })
    }

    /// Appends whole lines, as many to each file as it has room for.
    pub(super) fn write(&mut self, mut lines: &[u8]) -> Result<(), Unwritten> {
        let mut n_written = 0;
        while !lines.is_empty() {
            let (fitting, rest) = self.room_for(lines).map_err(|source| {
                // Nothing of these was written.
                Unwritten { n_written, source }
            })?;
            self.append(fitting).map_err(|unwritten| Unwritten {
                n_written: n_written + unwritten.n_written,
                ..unwritten
            })?;
            n_written += n_lines(fitting);
            lines = rest;
        }
        Ok(())
    }

    /// The first lines, which the file has room for now, and the others. One that is full is moved
    /// aside first. A file takes at least one line, however long that is.
    fn room_for<'a>(&mut self, lines: &'a [u8]) -> io::Result<(&'a [u8], &'a [u8])> {
        if !self.opened.is_regular {
            return Ok((lines, &[]));
        }
        // Others may have emptied the file.
        let len = self.opened.len()?;
        if let Some(end) = end_of_lines(lines, self.max_len.saturating_sub(len)) {
            return Ok(lines.split_at(end));
        }
        if len != 0 {
            self.move_aside()?;
        }
        let first = lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |at| at + 1);
        Ok(lines.split_at(end_of_lines(lines, self.max_len).unwrap_or(first)))
    }

    fn append(&mut self, lines: &[u8]) -> Result<(), Unwritten> {
        let unwritten = |source| Unwritten { n_written: 0, source };
        if self.is_torn {
            self.opened.file.write_all(b"\n").map_err(unwritten)?;
            self.is_torn = false;
        }
        let (done, error) = write_some(&mut self.opened.file, lines);
        let taken = lines.get(..done).unwrap_or(lines);
        let whole = taken.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < done {
            self.is_torn = self.opened.take_back((done - whole) as u64).is_err();
        }
        match error {
            None => Ok(()),
            Some(source) => Err(Unwritten { n_written: n_lines(taken), source }),
        }
    }

    /// `log` becomes `log.1`, that becomes `log.2`, and so on. The last one goes.
    fn move_aside(&mut self) -> io::Result<()> {
        if self.keep == 0 {
            return self.opened.file.set_len(0);
        }
        for n in (1..self.keep).rev() {
            rename(&self.numbered(n), &self.numbered(n + 1))?;
        }
        rename(&self.path, &self.numbered(1))?;
        self.opened = append(&self.path)?;
        Ok(())
    }

    fn numbered(&self, n: usize) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{n}"));
        name.into()
    }
}

impl Opened {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Removes the last bytes, which are a part of a line.
    fn take_back(&self, n_bytes: u64) -> io::Result<()> {
        if !self.is_regular {
            return Err(io::ErrorKind::NotSeekable.into());
        }
        self.file.set_len(self.len()?.saturating_sub(n_bytes))
    }
}

fn n_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Where the last of those lines ends that have room in so many bytes. `None` if not even the
/// first one has.
fn end_of_lines(lines: &[u8], room: u64) -> Option<usize> {
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if lines.len() <= room {
        return Some(lines.len());
    }
    Some(lines[..room].iter().rposition(|byte| *byte == b'\n')? + 1)
}

/// Writes as much as is taken: how many bytes that was, and why it was not all.
fn write_some(out: &mut impl Write, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match out.write(rest) {
            Ok(0) => return (done, Some(io::ErrorKind::WriteZero.into())),
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}

fn append(path: &Path) -> io::Result<Opened> {
    // Without this flag a pipe is only open once somebody reads it.
    let flags = OFlag::O_NONBLOCK.bits();
    let file = OpenOptions::new().create(true).append(true).custom_flags(flags).open(path)?;
    // A reader who is slow is waited for.
    fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
    let is_regular = file.metadata()?.is_file();
    Ok(Opened { file, is_regular })
}

/// Moves a file that may not be there.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(folder: &Path) -> Vec<(String, String)> {
        let mut all: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        all.sort();
        all
    }

    fn named(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_full_file_is_moved_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = LogFile::open(&path, 8, 2).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n"] {
            file.write(line.as_bytes()).unwrap();
        }
        let expected = [("log", "five\n"), ("log.1", "four\n"), ("log.2", "three\n")];
        assert_eq!(texts(folder.path()), named(&expected));
        // What is there is counted, and never cut in a line.
        let mut file = LogFile::open(&path, 8, 2).unwrap();
        file.write(b"seventeen letters\n").unwrap();
        let expected = [("log", "seventeen letters\n"), ("log.1", "five\n"), ("log.2", "four\n")];
        assert_eq!(texts(folder.path()), named(&expected));
    }

    /// Many lines come at a time.
    #[test]
    fn lines_that_come_together_are_spread_over_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = LogFile::open(&path, 8, 3).unwrap();
        file.write(b"one\n").unwrap();
        file.write(b"two\nthree\nseventeen letters\n4\n5\n6\n").unwrap();
        let expected = [
            ("log", "4\n5\n6\n"),
            ("log.1", "seventeen letters\n"),
            ("log.2", "three\n"),
            ("log.3", "one\ntwo\n"),
        ];
        assert_eq!(texts(folder.path()), named(&expected));
        // At the limit, and one byte above.
        file.write(b"7\n").unwrap();
        file.write(b"\n").unwrap();
        let now = texts(folder.path());
        assert_eq!(now[..2], named(&[("log", "\n"), ("log.1", "4\n5\n6\n7\n")]));
        // What keeps nothing is emptied again and again.
        let path = folder.path().join("other");
        let mut file = LogFile::open(&path, 4, 0).unwrap();
        file.write(b"one\ntwo\nsix\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "six\n");
    }

    /// As `copytruncate` of logrotate does.
    #[test]
    fn a_file_that_others_empty_is_not_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = LogFile::open(&path, 8, 2).unwrap();
        file.write(b"one\n").unwrap();
        file.write(b"two\n").unwrap();
        File::create(&path).unwrap();
        file.write(b"three\n").unwrap();
        assert_eq!(texts(folder.path()), named(&[("log", "three\n")]));
    }

    #[test]
    fn one_that_keeps_nothing_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = LogFile::open(&folder.path().join("log"), 4, 0).unwrap();
        file.write(b"one\n").unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(texts(folder.path()), named(&[("log", "two\n")]));
    }

    #[test]
    fn a_line_is_whole_or_not_there_if_the_disk_is_full() {
        /// A disk with room for so many bytes.
        struct Disk(usize);
        impl Write for Disk {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let n = bytes.len().min(self.0);
                self.0 -= n;
                if n == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(n) }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (done, error) = write_some(&mut Disk(6), b"one\ntwo\n");
        assert_eq!((done, error.unwrap().kind()), (6, io::ErrorKind::StorageFull));
        assert!(matches!(write_some(&mut Disk(8), b"one\ntwo\n"), (8, None)));

        let folder = tempfile::tempdir().unwrap();
        let mut file = LogFile::open(&folder.path().join("log"), 100, 1).unwrap();
        file.write(b"one\ntw").unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(texts(folder.path()), named(&[("log", "one\ntwo\n")]));
    }

    /// Or a full disk would have old lines make room for lines that are lost.
    #[test]
    fn what_could_not_be_written_moves_no_file_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = LogFile::open(&path, 8, 2).unwrap();
        file.write(b"one\n").unwrap();
        // It takes nothing more.
        file.opened.file = File::open(&path).unwrap();
        for _ in 0..9 {
            assert_eq!(file.write(b"two\n").unwrap_err().n_written, 0);
        }
        assert_eq!(texts(folder.path()), named(&[("log", "one\n")]));
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_refused_and_one_that_is_read_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = LogFile::open(&path, 8, 2).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "is a pipe that nobody reads; start its reader first \
                                 (access_log.path)"
            ),
            "{error}"
        );
        let flags = OFlag::O_NONBLOCK.bits();
        let mut reader = OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap();
        let mut pipe = LogFile::open(&path, 8, 2).unwrap();
        pipe.write(b"one\ntw").unwrap();
        pipe.write(b"three\n").unwrap();
        let mut text = [0; 32];
        let len = io::Read::read(&mut reader, &mut text).unwrap();
        assert_eq!(str::from_utf8(&text[..len]).unwrap(), "one\ntw\nthree\n");
        assert!(!folder.path().join("pipe.1").exists());
    }

    #[test]
    fn a_file_that_cannot_be_opened_says_what_to_do() {
        let error = LogFile::open(Path::new("/nowhere/at/all"), 1, 1).unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all") && error.contains("access_log.path"), "{error}");
    }
}
