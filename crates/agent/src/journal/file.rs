//! A file of lines that is moved aside when it is full.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The access log cannot be written to its file.
#[derive(Debug, thiserror::Error)]
#[error(
    "the access log {path} cannot be opened: {source}; create its folder, or let this user write \
     there (access_log.path)"
)]
pub struct LogFileError {
    path: String,
    source: io::Error,
}

/// A file of lines.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    /// It is moved aside before it is longer than this.
    max_len: u64,
    /// How many that were moved aside are kept.
    keep: usize,
    file: File,
    len: u64,
}

impl LogFile {
    /// Appends to the file, which is made if it is not there.
    pub(super) fn open(path: &Path, max_len: u64, keep: usize) -> Result<Self, LogFileError> {
        let refuse = |source| LogFileError { path: path.display().to_string(), source };
        let (file, len) = append(path).map_err(refuse)?;
        Ok(Self { path: path.to_owned(), max_len, keep, file, len })
    }

    /// Appends whole lines.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let len = lines.len() as u64;
        if self.len != 0 && self.max_len < self.len.saturating_add(len) {
            self.move_aside()?;
        }
        self.len = self.len.saturating_add(len);
        self.file.write_all(lines)
    }

    /// `log` becomes `log.1`, that becomes `log.2`, and so on. The last one goes.
    fn move_aside(&mut self) -> io::Result<()> {
        if self.keep == 0 {
            self.file.set_len(0)?;
            self.len = 0;
            return Ok(());
        }
        for n in (1..self.keep).rev() {
            rename(&self.numbered(n), &self.numbered(n + 1))?;
        }
        rename(&self.path, &self.numbered(1))?;
        (self.file, self.len) = append(&self.path)?;
        Ok(())
    }

    fn numbered(&self, n: usize) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{n}"));
        name.into()
    }
}

fn append(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let len = file.metadata()?.len();
    Ok((file, len))
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

    #[test]
    fn one_that_keeps_nothing_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = LogFile::open(&folder.path().join("log"), 4, 0).unwrap();
        file.write(b"one\n").unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(texts(folder.path()), named(&[("log", "two\n")]));
    }

    #[test]
    fn a_file_that_cannot_be_opened_says_what_to_do() {
        let error = LogFile::open(Path::new("/nowhere/at/all"), 1, 1).unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all") && error.contains("access_log.path"), "{error}");
    }
}
