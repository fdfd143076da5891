//! The access log: a queue, and a thread that writes what is in it.
//!
//! Invariants:
//! - Each call that is queued counts once, as written or as lost.
//! - A log that goes on where it was keeps its thread, also if that waits for a disk or a reader.

use std::io::{self, Write as _};
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::file::{LogFile, LogFileError, Unwritten};
use super::wanted::wants;
use super::{JournalLine, LineCounts, Record};
use crate::config::{AccessLogConfig, LineFormat, LoggedCalls};

/// Calls that wait to be written. One takes less than 2 KiB.
const MAX_WAITING: usize = 16 * 1024;
/// How long the thread waits for more after a first call, so that it is not woken for each.
const GATHER_TIME: Duration = Duration::from_millis(20);
/// A disk that refuses lines is complained of once in so long.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

/// Where lines go, and how they look: opened, and not yet used.
pub(super) struct OpenedLog {
    calls: LoggedCalls,
    /// `None` is standard output.
    path: Option<PathBuf>,
    target: Target,
}

/// Where the thread writes.
#[derive(Debug)]
struct Target {
    out: LogOutput,
    format: LineFormat,
}

impl OpenedLog {
    /// `None` if nothing is to be logged.
    pub(super) fn open(config: &AccessLogConfig) -> Result<Option<Self>, LogFileError> {
        let Some(calls) = config.calls else { return Ok(None) };
        let out = match &config.path {
            Some(path) => LogOutput::File(LogFile::open(path, config.max_len, config.keep)?),
            None => LogOutput::Standard,
        };
        let target = Target { out, format: config.format };
        Ok(Some(Self { calls, path: config.path.clone(), target }))
    }
}

/// An access log that is being written. When it is dropped the thread writes what waits, and ends.
#[derive(Debug)]
pub(super) struct AccessLog {
    calls: LoggedCalls,
    n_seen: u32,
    path: Option<PathBuf>,
    queue: Arc<LineQueue>,
}

/// What the workers and the thread share.
#[derive(Debug, Default)]
struct LineQueue {
    state: Mutex<AccessLogState>,
    changed: Condvar,
    counts: Arc<LineCounts>,
}

#[derive(Debug, Default)]
struct AccessLogState {
    waiting: Vec<Arc<Record>>,
    /// How many calls the thread has taken, and not written yet.
    n_taken: usize,
    /// Where the thread is to write from now on.
    new_target: Option<Target>,
    is_closed: bool,
    /// The thread has written all.
    has_ended: bool,
    /// Nobody waits for the thread any more: what it has taken counts as lost.
    is_given_up: bool,
}

/// A thread that was given up, since it waits for a disk or a reader.
#[derive(Debug)]
pub(super) struct StuckWriter {
    queue: Arc<LineQueue>,
    path: Option<PathBuf>,
}

impl StuckWriter {
    /// Whether it still waits.
    pub(super) fn is_stuck(&self) -> bool {
        !self.queue.lock().has_ended
    }

    /// Where it writes, in words.
    pub(super) fn place(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => "standard output".to_owned(),
        }
    }
}

impl AccessLog {
    /// Starts the thread; `None` if there is none to be had.
    pub(super) fn start(opened: OpenedLog, counts: Arc<LineCounts>) -> Option<Self> {
        let OpenedLog { calls, path, target } = opened;
        let queue = Arc::new(LineQueue { counts, ..LineQueue::default() });
        let shared = Arc::clone(&queue);
        let thread = thread::Builder::new().name("access-log".to_owned());
        match thread.spawn(move || write_all(&shared, target)) {
            Ok(_) => Some(Self { calls, n_seen: 0, path, queue }),
            Err(error) => {
                warn!(%error, "cannot start the thread of the access log; none is written");
                None
            }
        }
    }

    /// Whether it is written to the same place as this one.
    pub(super) fn is_at(&self, opened: &OpenedLog) -> bool {
        self.path == opened.path
    }

    /// Goes on with a file that was opened anew, or in another format.
    pub(super) fn go_on(&mut self, opened: OpenedLog) {
        self.calls = opened.calls;
        self.queue.lock().new_target = Some(opened.target);
        self.queue.changed.notify_all();
    }

    /// Queues a call, if it is wanted.
    pub(super) fn tell(&mut self, record: Arc<Record>) {
        if !wants(self.calls, &record, &mut self.n_seen) {
            return;
        }
        let mut state = self.queue.lock();
        if MAX_WAITING <= state.waiting.len() {
            self.queue.counts.lost.fetch_add(1, Relaxed);
            return;
        }
        state.waiting.push(record);
        if state.waiting.len() == 1 {
            self.queue.changed.notify_all();
        }
    }

    /// Waits until all is written, but not longer than `patience`. What is not written by then
    /// counts as lost, and its thread is left over.
    pub(super) fn close(mut self, patience: Duration) -> Option<StuckWriter> {
        let (queue, path) = (Arc::clone(&self.queue), self.path.take());
        drop(self);
        let waiting = queue.changed.wait_timeout_while(queue.lock(), patience, |it| !it.has_ended);
        let (mut state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        if state.has_ended {
            return None;
        }
        let lost = mem::take(&mut state.waiting).len() + state.n_taken;
        state.is_given_up = true;
        drop(state);
        queue.counts.lost.fetch_add(lost as u64, Relaxed);
        warn!(lost, "the last lines of the access log were not written in time, and are lost");
        Some(StuckWriter { queue, path })
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.changed.notify_all();
    }
}

impl LineQueue {
    fn lock(&self) -> MutexGuard<'_, AccessLogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits, as soon as there is anything, and a little later; `None` once it is closed and
    /// empty. There may be no call in it, but a new target.
    fn next(&self) -> Option<Batch> {
        let is_idle = |state: &mut AccessLogState| {
            state.waiting.is_empty() && state.new_target.is_none() && !state.is_closed
        };
        let state = self.changed.wait_while(self.lock(), is_idle);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let gathered = self.changed.wait_timeout_while(state, GATHER_TIME, |it| !it.is_closed);
        let (mut state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        let records = mem::take(&mut state.waiting);
        state.has_ended = records.is_empty() && state.is_closed;
        if state.has_ended {
            self.changed.notify_all();
            return None;
        }
        state.n_taken = records.len();
        Some(Batch { records, new_target: state.new_target.take() })
    }

    /// The thread is done with the calls that it took: so many are written, and so many lost.
    /// Gives how many lines were lost before.
    fn count(&self, n_written: u64, n_lost: u64) -> u64 {
        let mut state = self.lock();
        state.n_taken = 0;
        let (n_written, n_lost) = if state.is_given_up { (0, 0) } else { (n_written, n_lost) };
        self.counts.written.fetch_add(n_written, Relaxed);
        self.counts.lost.fetch_add(n_lost, Relaxed)
    }
}

/// What the thread writes next.
struct Batch {
    records: Vec<Arc<Record>>,
    /// Where, if that has changed.
    new_target: Option<Target>,
}

/// Where lines go.
#[derive(Debug)]
enum LogOutput {
    Standard,
    File(LogFile),
}

impl LogOutput {
    fn write(&mut self, lines: &[u8]) -> Result<(), Unwritten> {
        match self {
            Self::Standard => {
                let mut out = io::stdout().lock();
                let done = out.write_all(lines).and_then(|()| out.flush());
                done.map_err(|source| Unwritten { n_written: 0, source })
            }
            Self::File(file) => file.write(lines),
        }
    }
}

fn write_all(queue: &LineQueue, mut target: Target) {
    let (mut lines, mut complaint) = (Vec::new(), Complaint::default());
    while let Some(Batch { records, new_target }) = queue.next() {
        target = new_target.unwrap_or(target);
        if records.is_empty() {
            continue;
        }
        lines.clear();
        for record in &records {
            write_line(&mut lines, record, target.format);
        }
        let n_lines = records.len() as u64;
        match target.out.write(&lines) {
            Ok(()) => {
                queue.count(n_lines, 0);
                if let Some(lost) = complaint.end(queue.counts.lost()) {
                    info!(lost, "the access log is written again");
                }
            }
            Err(Unwritten { n_written, source: error }) => {
                let lost_before = queue.count(n_written, n_lines.saturating_sub(n_written));
                if complaint.begin(Instant::now(), lost_before) {
                    warn!(%error, "the access log cannot be written; its lines are lost");
                }
            }
        }
    }
}

/// What was said of a disk that refuses lines.
#[derive(Default)]
struct Complaint {
    said_at: Option<Instant>,
    /// Lines that were lost before, while it is not said that lines are written again.
    lost_before: Option<u64>,
}

impl Complaint {
    /// Whether it is to be said now that lines are lost.
    fn begin(&mut self, now: Instant, lost_before: u64) -> bool {
        let is_due = |at: Instant| COMPLAINT_INTERVAL <= now.saturating_duration_since(at);
        let is_new = self.said_at.is_none_or(is_due);
        if is_new {
            self.said_at = Some(now);
            self.lost_before.get_or_insert(lost_before);
        }
        is_new
    }

    /// How many lines were lost, if that was said and they are written again.
    fn end(&mut self, lost: u64) -> Option<u64> {
        Some(lost.saturating_sub(self.lost_before.take()?))
    }
}

fn write_line(lines: &mut Vec<u8>, record: &Record, format: LineFormat) {
    let line = JournalLine::new(record, false);
    match format {
        LineFormat::Text => lines.extend_from_slice(line.to_text().as_bytes()),
        LineFormat::Json => line.write_json(lines),
    }
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::error::Code;
    use crate::journal::Journal;
    use crate::journal::line::tests::record;

    fn config(path: &std::path::Path, calls: LoggedCalls) -> AccessLogConfig {
        AccessLogConfig { calls: Some(calls), path: Some(path.to_owned()), ..Default::default() }
    }

    fn start(config: &AccessLogConfig, counts: &Arc<LineCounts>) -> AccessLog {
        let opened = OpenedLog::open(config).unwrap().unwrap();
        AccessLog::start(opened, Arc::clone(counts)).unwrap()
    }

    #[test]
    fn what_is_wanted_is_written_before_the_log_closes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let counts = Arc::<LineCounts>::default();
        let config = config(&path, LoggedCalls::Failed);
        let mut log = start(&config, &counts);
        log.tell(Arc::new(record()));
        log.tell(Arc::new(Record { code: Some(Code::Timeout), ..record() }));
        log.close(Duration::from_secs(60));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(" timeout "), "{text}");
        assert_eq!((counts.written(), counts.lost()), (1, 0));
    }

    /// A disk that takes nothing costs lines, and no memory.
    #[test]
    fn what_a_stuck_disk_does_not_take_is_counted() {
        let counts = Arc::<LineCounts>::default();
        let queue = Arc::new(LineQueue { counts: Arc::clone(&counts), ..LineQueue::default() });
        // Nobody takes anything out.
        let shared = Arc::clone(&queue);
        let mut log = AccessLog { calls: LoggedCalls::All, n_seen: 0, path: None, queue: shared };
        let record = Arc::new(record());
        for _ in 0..MAX_WAITING + 5 {
            log.tell(Arc::clone(&record));
        }
        assert_eq!((queue.lock().waiting.len(), counts.lost()), (MAX_WAITING, 5));
        let left_over = log.close(Duration::from_millis(1)).expect("nobody has written");
        assert!(left_over.is_stuck() && queue.lock().waiting.is_empty());
        assert_eq!(counts.lost(), MAX_WAITING as u64 + 5);
    }

    #[test]
    fn it_is_said_once_that_lines_are_written_again_and_how_many_were_lost() {
        let (mut complaint, now) = (Complaint::default(), Instant::now());
        assert_eq!(complaint.end(5), None, "nothing was wrong");
        assert!(complaint.begin(now, 5));
        assert!(!complaint.begin(now + Duration::from_secs(1), 9));
        assert_eq!((complaint.end(17), complaint.end(17)), (Some(12), None));
        // What comes and goes is not told each time.
        assert!(!complaint.begin(now + Duration::from_secs(2), 17));
        assert_eq!(complaint.end(18), None);
        assert!(complaint.begin(now + COMPLAINT_INTERVAL, 18));
        assert!(complaint.begin(now + 2 * COMPLAINT_INTERVAL, 30));
        assert_eq!(complaint.end(40), Some(22));
    }

    #[test]
    fn a_full_disk_is_counted_and_the_log_goes_on() {
        let full = std::path::Path::new("/dev/full");
        if !full.exists() {
            return;
        }
        let counts = Arc::<LineCounts>::default();
        let config = config(full, LoggedCalls::All);
        let mut log = start(&config, &counts);
        log.tell(Arc::new(record()));
        log.close(Duration::from_secs(60));
        assert_eq!((counts.written(), counts.lost()), (0, 1));
    }

    /// Whatever a reload asks for, at most one thread is left over.
    #[test]
    fn a_stuck_log_keeps_its_thread_and_its_lines_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, second, third] = ["pipe", "2", "3"].map(|name| folder.path().join(name));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reader = wire::file::open(&pipe).unwrap();
        let journal = Journal::default();
        let log_to = |path: &std::path::Path| journal.log_to(&config(path, LoggedCalls::All));
        let queue = || Arc::clone(&journal.readers().log.as_ref().unwrap().queue);
        let counted = || journal.line_counts().written() + journal.line_counts().lost();
        log_to(&pipe).unwrap();
        let first = queue();
        // No pipe holds so many.
        for _ in 0..16_000 {
            journal.report(record());
        }
        for _ in 0..3 {
            log_to(&pipe).unwrap();
            assert!(Arc::ptr_eq(&first, &queue()), "another thread");
        }
        log_to(&second).unwrap();
        assert_eq!(counted(), 16_000);
        journal.report(record());
        let refusal = log_to(&third).unwrap_err().to_string();
        let said = format!("an earlier access log still wait for {}; have", pipe.display());
        assert!(refusal.contains(&said), "{refusal}");
        log_to(&second).unwrap();
        drop(reader);
        while log_to(&third).is_err() {
            thread::yield_now();
        }
        journal.report(record());
        journal.close(Duration::from_secs(60));
        assert_eq!(counted(), 16_002);
        for path in [second, third] {
            assert_eq!(fs::read_to_string(path).unwrap().lines().count(), 1);
        }
    }

    #[test]
    fn a_log_goes_on_in_a_file_that_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let [path, moved] = ["log", "moved"].map(|name| folder.path().join(name));
        let journal = Journal::default();
        let mut config = config(&path, LoggedCalls::All);
        journal.log_to(&config).unwrap();
        journal.report(record());
        while journal.line_counts().written() == 0 {
            thread::yield_now();
        }
        fs::rename(&path, &moved).unwrap();
        config.format = LineFormat::Json;
        journal.log_to(&config).unwrap();
        journal.report(record());
        journal.close(Duration::from_secs(60));
        let text = |path| fs::read_to_string(path).unwrap();
        let (old, new) = (text(&moved), text(&path));
        assert_eq!((old.lines().count(), new.lines().count()), (1, 1));
        assert!(!old.starts_with('{') && new.starts_with('{'), "{old}{new}");
    }
}
