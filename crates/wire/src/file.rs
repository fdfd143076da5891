//! Files that are read while a process serves: whole, within a limit, and never for longer than
//! somebody can wait. And how to open a file to write it that must not be another one.
//!
//! Invariants:
//! - To open one never waits: [`read`] refuses a pipe or a device.
//! - [`FileWork`] keeps at most one thread, however long a file system hangs, and however often
//!   somebody asks. Nobody waits for that thread when the process ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::fcntl::OFlag;
use tokio::sync::{Semaphore, oneshot};

/// Longer than any password, key or token that is one line.
const MAX_SECRET_LEN: u64 = 64 * 1024;
/// Some editors and frameworks begin a text in UTF-8 with it.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Opens a file to read it. What it is, is for the caller to see; a pipe is open at once, too.
///
/// # Errors
/// It cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    // Without this flag a pipe is only open once somebody writes into it.
    OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

/// Options that open no symbolic link: what it points to may be somebody else's file.
#[must_use]
pub fn without_links() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlag::O_NOFOLLOW.bits());
    options
}

/// Reads a whole file of at most `max_len` bytes. It blocks for as long as the file system takes.
///
/// # Errors
/// It cannot be read, is no regular file, or is too long.
pub fn read(path: &Path, max_len: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    // Of what was opened: another file may be there by now.
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let check = |len: u64| match len <= max_len {
        true => Ok(()),
        false => {
            let text = format!("{len} bytes are over the limit of {max_len}");
            Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
        }
    };
    check(found.len())?;
    // It may grow meanwhile.
    let mut bytes = Vec::new();
    file.take(max_len.saturating_add(1)).read_to_end(&mut bytes)?;
    check(bytes.len() as u64)?;
    Ok(bytes)
}

/// The same of text.
///
/// # Errors
/// As of [`read`], or it is not UTF-8.
pub fn read_text(path: &Path, max_len: u64) -> io::Result<String> {
    String::from_utf8(read(path, max_len)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// A text without the byte order mark that it may begin with: the mark says nothing.
pub fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(text)
}

/// Reads a secret: a file of one line. White space at its end does not count, and a byte order
/// mark neither. The text is empty if the file is.
///
/// # Errors
/// As of [`read_text`] with a limit of 64 KiB, or there is more than one line, or a NUL.
pub fn read_secret(path: &Path) -> io::Result<String> {
    let text = read_text(path, MAX_SECRET_LEN)?;
    let secret = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text).trim_end();
    let wrong = match secret {
        _ if secret.contains('\0') => "it has a NUL, which no secret has",
        _ if secret.contains('\n') => "it has more than one line; a secret is one line",
        _ => return Ok(secret.to_owned()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidData, wrong))
}

/// Work on files, away from the event loop. Clones share one thread: while it works, nothing else
/// begins.
#[derive(Clone, Debug)]
pub struct FileWork(Arc<Semaphore>);

impl Default for FileWork {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl FileWork {
    /// Does the work on a thread of its own, and waits for it. What has begun goes on when the
    /// time is over, and its result is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if it has not ended within `timeout`; or there is no thread.
    pub async fn run<R: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<R> {
        let turn = Arc::clone(&self.0);
        let ended = async {
            let permit = turn.acquire_owned().await.map_err(io::Error::other)?;
            let (done, ended) = oneshot::channel();
            // None of the runtime's: those are waited for when it ends.
            thread::Builder::new().name("files".to_owned()).spawn(move || {
                let result = work();
                drop(permit);
                // Who has asked may have gone.
                drop(done.send(result));
            })?;
            ended.await.map_err(io::Error::other)
        };
        tokio::time::timeout(timeout, ended).await.unwrap_or_else(|_| {
            let text = format!("the file system did not answer within {timeout:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    use nix::sys::stat::Mode;

    use super::*;

    #[test]
    fn what_is_no_file_or_too_long_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let said = || read_text(&path, 4).unwrap_err().to_string();
        fs::write(&path, "four").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "four");
        fs::write(&path, "fives").unwrap();
        assert_eq!(said(), "5 bytes are over the limit of 4");
        fs::write(&path, b"\xff").unwrap();
        assert!(said().contains("utf-8"), "{}", said());
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        assert_eq!(said(), "it is not a regular file");
        let error = read(Path::new("/dev/zero"), 4).unwrap_err().to_string();
        assert_eq!(error, "it is not a regular file");
    }

    #[test]
    fn a_secret_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read_secret(&path).map_err(|error| error.to_string())
        };
        for good in ["a b", "a b\n", "a b \r\n\n", "\u{feff}a b\n"] {
            assert_eq!(read(good.as_bytes()).as_deref(), Ok("a b"), "{good:?}");
        }
        assert_eq!(read("\u{feff}\n".as_bytes()).as_deref(), Ok(""));
        let lines = Err("it has more than one line; a secret is one line".to_owned());
        assert_eq!(read(b"a\nb\n"), lines);
        assert_eq!(read(b"\na"), lines);
        assert_eq!(read(b"a\0\n"), Err("it has a NUL, which no secret has".to_owned()));
        let long = vec![b'a'; usize::try_from(MAX_SECRET_LEN).unwrap() + 1];
        assert!(read(&long).unwrap_err().contains("over the limit of 65536"));
    }

    #[tokio::test]
    async fn work_that_hangs_is_not_waited_for_and_keeps_one_thread() {
        let (work, hanging) = (FileWork::default(), Duration::from_millis(1));
        let (go_on, wait) = channel::<()>();
        let late = work.run(hanging, move || wait.recv()).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert!(late.to_string().contains("did not answer within 1ms"), "{late}");
        // Another one does not begin, also not when nobody waits for it any more.
        let (began, begins) = channel();
        assert!(work.clone().run(hanging, move || began.send(())).await.is_err());
        drop(go_on);
        assert_eq!(work.run(Duration::MAX, || 7).await.unwrap(), 7);
        assert!(begins.try_recv().is_err(), "it began although nobody waited");
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let work = FileWork::default();
        assert!(work.run(Duration::MAX, || panic!("a defect")).await.is_err());
        assert_eq!(work.run(Duration::MAX, || 7).await.unwrap(), 7, "the thread is free again");
    }
}
