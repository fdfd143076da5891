//! The file that a transfer writes. It has a partial name until it is whole and checked; a journal
//! beside it says how much of it is safely on the disk.
//!
//! Invariants:
//! - The output's own name never stands for anything but a whole, checked output.
//! - The journal is written only after the bytes that it vouches for have been synchronized.
//! - Two processes never write one partial output: it is locked.
//! - Only with `force` is a file cut off that has bytes and no journal: it may be somebody else's.
//!   Where there are journals, there is one before the first byte.
//! - What seems to be the server's file, and what a symbolic link points to, is never written to.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::checkpoint::{Checkpoint, Subject};
use crate::checksum::{Digest, Totals};
use crate::{SourceIdentity, TransferError};

/// What to do about files that are there already, and how safe the output has to be.
#[derive(Clone, Debug)]
pub struct OutputOptions {
    /// The output's name.
    pub path: PathBuf,
    /// Replace an output, or a partial one, of that name.
    pub force: bool,
    /// Go on from a partial output. Without one, the transfer begins at the first line.
    pub resume: bool,
    /// Synchronize the whole output with the disk before it gets its name.
    pub sync: bool,
    /// How often progress is synchronized and recorded in the journal; `None` for never.
    pub checkpoint: Option<Duration>,
}

impl OutputOptions {
    /// The defaults for an output at `path`: no file is replaced, all is synchronized, progress is
    /// recorded every two seconds.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, force: false, resume: false, sync: true, checkpoint: Some(CHECKPOINT) }
    }
}

impl OutputOptions {
    /// Whether the output may be begun, as far as can be told without touching anything: so that
    /// nobody is called in vain.
    ///
    /// # Errors
    /// [`TransferError::NotAFile`], [`TransferError::OutputExists`],
    /// [`TransferError::NothingToResume`], [`TransferError::PartialExists`], or that there is no
    /// such folder.
    pub fn check(&self) -> Result<(), TransferError> {
        if self.path.is_dir() {
            return Err(TransferError::NotAFile { path: self.path.clone() });
        }
        let partial = self.path.with_added_extension("partial");
        let found = look_at(&partial)?;
        if !self.force && exists(&self.path)? {
            let path = self.path.clone();
            return Err(match self.resume && found.is_none() {
                true => TransferError::NothingToResume { path },
                false => TransferError::OutputExists { path },
            });
        }
        match found {
            Some(found) if !found.is_file() => Err(TransferError::NotAFile { path: partial }),
            Some(_) if !self.force && !self.resume => {
                Err(TransferError::PartialExists { path: partial })
            }
            _ => Ok(()),
        }
    }
}

/// What a killed client loses at most. Shorter, and a slow disk would do nothing else.
const CHECKPOINT: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub(crate) struct Output {
    options: OutputOptions,
    partial: PathBuf,
    journal: PathBuf,
    subject: Subject,
    file: Arc<File>,
    len: u64,
    digest: Digest,
    checkpoints: Option<Checkpoints>,
    last_checkpoint: Instant,
}

/// The thread that synchronizes, so that a slow disk does not hold up the lines.
#[derive(Debug)]
struct Checkpoints {
    /// Room for none: a state is offered only when the thread has nothing to do.
    states: SyncSender<Checkpoint>,
    thread: JoinHandle<Result<(), TransferError>>,
}

impl Output {
    /// Opens the partial output, and says what of it is there already.
    pub(crate) fn open(
        options: OutputOptions,
        subject: Subject,
    ) -> Result<(Self, Totals), TransferError> {
        let partial = options.path.with_added_extension("partial");
        let journal = partial.with_added_extension("journal");
        options.check()?;
        for path in [&options.path, &partial] {
            check_is_not_served(path, subject.source)?;
        }
        let found = exists(&partial)?;
        let file = wire::file::without_links()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&partial)
            .map_err(TransferError::io("create", &partial))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(TransferError::OutputBusy { path: partial });
            }
            Err(TryLockError::Error(error)) => {
                return Err(TransferError::io("lock", &partial)(error));
            }
        }
        let found_len = file.metadata().map_err(TransferError::io("look at", &partial))?.len();
        let state = match found && options.resume {
            true => found_state(&journal, found_len)?,
            false => None,
        };
        let (len, digest, totals) = match state {
            Some(state) => {
                check_subject(&partial, &state.subject, &subject)?;
                (state.len, read_back(&file, &partial, &state)?, state.totals)
            }
            None => Default::default(),
        };
        if len < found_len {
            file.set_len(len).map_err(TransferError::io("shorten", &partial))?;
        }
        if len == 0 {
            remove(&journal)?; // of an earlier transfer
        }
        let output = Self {
            options,
            partial,
            journal,
            subject,
            file: Arc::new(file),
            len,
            digest,
            checkpoints: None,
            last_checkpoint: Instant::now(),
        };
        if len == 0 && output.options.checkpoint.is_some() {
            output.state(totals).store(&output.journal)?; // now the partial output is ours
        }
        Ok((output, totals))
    }

    /// The name while it is not whole.
    pub(crate) fn partial(&self) -> &Path {
        &self.partial
    }

    /// How many bytes have been written.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Their checksum.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// Writes what follows. `totals` are of all lines so far, these included.
    pub(crate) fn write(&mut self, bytes: &[u8], totals: Totals) -> Result<(), TransferError> {
        self.file
            .write_all_at(bytes, self.len)
            .map_err(TransferError::io("write to", &self.partial))?;
        self.len += bytes.len() as u64;
        self.digest.update(bytes);
        match self.options.checkpoint {
            Some(every) if every <= self.last_checkpoint.elapsed() => self.offer_checkpoint(totals),
            _ => Ok(()),
        }
    }

    fn state(&self, totals: Totals) -> Checkpoint {
        let (subject, digest) = (self.subject.clone(), self.digest.value());
        Checkpoint { subject, totals, len: self.len, digest }
    }

    /// Has the current state recorded, unless the thread is still busy with an earlier one.
    fn offer_checkpoint(&mut self, totals: Totals) -> Result<(), TransferError> {
        let state = self.state(totals);
        let checkpoints = match &self.checkpoints {
            Some(checkpoints) => checkpoints,
            None => self.checkpoints.insert(self.start_checkpoints()?),
        };
        match checkpoints.states.try_send(state) {
            Ok(()) => self.last_checkpoint = Instant::now(),
            Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => self.stop_checkpoints()?,
        }
        Ok(())
    }

    fn start_checkpoints(&self) -> Result<Checkpoints, TransferError> {
        let (states, received) = sync_channel::<Checkpoint>(1);
        let (file, partial) = (Arc::clone(&self.file), self.partial.clone());
        let journal = self.journal.clone();
        let thread = std::thread::Builder::new()
            .name("transfer-sync".to_owned())
            .spawn(move || {
                for state in received {
                    file.sync_data().map_err(TransferError::io("synchronize", &partial))?;
                    state.store(&journal)?;
                }
                Ok(())
            })
            .map_err(TransferError::io("start a thread for", &self.partial))?;
        Ok(Checkpoints { states, thread })
    }

    /// Waits for the thread to end, and returns what ended it.
    fn stop_checkpoints(&mut self) -> Result<(), TransferError> {
        let Some(Checkpoints { states, thread }) = self.checkpoints.take() else { return Ok(()) };
        drop(states);
        thread.join().unwrap_or(Err(TransferError::WriterStopped))
    }

    /// Leaves the output partial, with its state on the disk.
    pub(crate) fn leave(mut self, totals: Totals) -> Result<(), TransferError> {
        self.stop_checkpoints()?;
        if self.len == 0 {
            remove(&self.partial)?; // there is nothing to resume
            return remove(&self.journal);
        }
        // The beginning of what could not be written is of no use, and on a full disk the journal
        // has its place.
        self.file.set_len(self.len).map_err(TransferError::io("shorten", &self.partial))?;
        self.file.sync_data().map_err(TransferError::io("synchronize", &self.partial))?;
        self.state(totals).store(&self.journal)
    }

    /// Gives the output its name. Returns how long it took to synchronize it.
    pub(crate) fn complete(mut self) -> Result<Duration, TransferError> {
        self.stop_checkpoints()?;
        let start = Instant::now();
        if self.options.sync {
            self.file.sync_all().map_err(TransferError::io("synchronize", &self.partial))?;
        }
        let path = &self.options.path;
        // Somebody else's output may have come meanwhile; this narrows the gap, it does not close
        // it.
        if !self.options.force && exists(path)? {
            return Err(TransferError::OutputExists { path: path.clone() });
        }
        std::fs::rename(&self.partial, path).map_err(TransferError::io("rename to", path))?;
        remove(&self.journal)?;
        if self.options.sync {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            let sync = File::open(folder).and_then(|folder| folder.sync_all());
            sync.map_err(TransferError::io("synchronize", folder))?;
        }
        Ok(start.elapsed())
    }
}

/// What is there, links not followed; `None` for nothing.
fn look_at(path: &Path) -> Result<Option<Metadata>, TransferError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(TransferError::io("look at", path)(error)),
    }
}

/// A server on this machine may serve the very file that is about to be replaced. Nobody can ask
/// whether it does, but two files hardly have the same length and time of change. An empty one is
/// no loss.
fn check_is_not_served(path: &Path, source: SourceIdentity) -> Result<(), TransferError> {
    let found = look_at(path)?.filter(|found| found.is_file() && 0 < found.len());
    match found.is_some_and(|found| SourceIdentity::of(&found, source.ends) == source) {
        true => Err(TransferError::OutputIsServed { path: path.to_owned() }),
        false => Ok(()),
    }
}

/// What the journal of a partial output of `len` bytes vouches for; `None` if that is nothing.
fn found_state(journal: &Path, len: u64) -> Result<Option<Checkpoint>, TransferError> {
    match Checkpoint::load(journal)? {
        Some(state) => Ok(Some(state).filter(|state| 0 < state.len)),
        None if len == 0 => Ok(None),
        None => Err(TransferError::BadJournal { path: journal.to_owned(), rule: "it is missing" }),
    }
}

#[cfg(test)]
impl Output {
    /// The same onto another file, such as a device that is full.
    pub(crate) fn onto(self, file: File) -> Self {
        Self { file: Arc::new(file), ..self }
    }
}

fn exists(path: &Path) -> Result<bool, TransferError> {
    path.try_exists().map_err(TransferError::io("look at", path))
}

fn remove(path: &Path) -> Result<(), TransferError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(TransferError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

fn check_subject(partial: &Path, old: &Subject, new: &Subject) -> Result<(), TransferError> {
    let differs = |what, old: String, new: String| TransferError::OtherTransfer {
        path: partial.to_owned(),
        what,
        old,
        new,
    };
    if old.step != new.step {
        return Err(differs("the processing step", old.step.clone(), new.step.clone()));
    }
    if old.source != new.source {
        let text = |it: SourceIdentity| {
            format!(
                "of {} bytes, changed {}.{:09} s after 1970, served with --lines {}",
                it.len,
                it.modified_ns / NS,
                it.modified_ns % NS,
                it.ends
            )
        };
        return Err(differs("a source", text(old.source), text(new.source)));
    }
    Ok(())
}

const NS: i128 = 1_000_000_000;

/// Reads what the journal vouches for. Returns the digest, to go on with.
fn read_back(file: &File, path: &Path, state: &Checkpoint) -> Result<Digest, TransferError> {
    let mut digest = Digest::default();
    let mut left = file.take(state.len);
    let mut buffer = vec![0; 256 * 1024];
    let mut len = 0;
    loop {
        let n = left.read(&mut buffer).map_err(TransferError::io("read", path))?;
        if n == 0 {
            break;
        }
        digest.update(&buffer[..n]);
        len += n as u64;
    }
    if len != state.len || digest.value() != state.digest {
        return Err(TransferError::PartialDamaged {
            path: path.to_owned(),
            len: state.len,
            expected: state.digest,
            found: digest.value(),
        });
    }
    Ok(digest)
}
