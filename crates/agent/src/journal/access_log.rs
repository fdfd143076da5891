//! The access log: a queue, and a thread that writes what is in it.

use std::io::{self, Write as _};
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::file::{LogFile, LogFileError, Unwritten};
use super::wanted::wants;
use super::{CallLine, LineCounts, Record};
use crate::config::{AccessLogConfig, Calls, LineFormat};

/// Calls that wait to be written. One takes less than 2 KiB.
const MAX_WAITING: usize = 16 * 1024;
/// How long the thread waits for more after a first call, so that it is not woken for each.
const GATHER_TIME: Duration = Duration::from_millis(20);
/// A disk that refuses lines is complained of once in so long.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

/// An access log that is being written. When it is dropped the thread writes what waits, and ends.
#[derive(Debug)]
pub(super) struct AccessLog {
    calls: Calls,
    n_seen: u32,
    queue: Arc<Queue>,
}

/// What the workers and the thread share.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<AccessLogState>,
    changed: Condvar,
    counts: Arc<LineCounts>,
}

#[derive(Debug, Default)]
struct AccessLogState {
    waiting: Vec<Arc<Record>>,
    is_closed: bool,
    /// The thread has written all.
    has_ended: bool,
}

impl AccessLog {
    /// Opens the file and starts the thread; `None` if nothing is to be logged.
    pub(super) fn start(
        config: &AccessLogConfig,
        counts: Arc<LineCounts>,
    ) -> Result<Option<Self>, LogFileError> {
        let Some(calls) = config.calls else { return Ok(None) };
        let out = match &config.path {
            Some(path) => Out::File(LogFile::open(path, config.max_len, config.keep)?),
            None => Out::Standard,
        };
        let queue = Arc::new(Queue { counts, ..Queue::default() });
        let (shared, format) = (Arc::clone(&queue), config.format);
        let thread = thread::Builder::new().name("access-log".to_owned());
        match thread.spawn(move || write_all(&shared, out, format)) {
            Ok(_) => Ok(Some(Self { calls, n_seen: 0, queue })),
            Err(error) => {
                warn!(%error, "cannot start the thread of the access log; none is written");
                Ok(None)
            }
        }
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

    /// Waits until all is written, but not longer than `patience`.
    pub(super) fn close(self, patience: Duration) {
        let queue = Arc::clone(&self.queue);
        drop(self);
        let waiting = queue.changed.wait_timeout_while(queue.lock(), patience, |it| !it.has_ended);
        let (state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        if !state.has_ended {
            let lost = state.waiting.len();
            warn!(lost, "the last lines of the access log were not written in time, and are lost");
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, AccessLogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits, as soon as there is anything, and a little later; `None` once it is closed and
    /// empty.
    fn next(&self) -> Option<Vec<Arc<Record>>> {
        let is_idle = |state: &mut AccessLogState| state.waiting.is_empty() && !state.is_closed;
        let state = self.changed.wait_while(self.lock(), is_idle);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let gathered = self.changed.wait_timeout_while(state, GATHER_TIME, |it| !it.is_closed);
        let (mut state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        let waiting = mem::take(&mut state.waiting);
        state.has_ended = waiting.is_empty() && state.is_closed;
        if state.has_ended {
            self.changed.notify_all();
            return None;
        }
        Some(waiting)
    }
}

/// Where lines go.
enum Out {
    Standard,
    File(LogFile),
}

impl Out {
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

fn write_all(queue: &Queue, mut out: Out, format: LineFormat) {
    let (mut lines, mut complaint) = (Vec::new(), Complaint::default());
    while let Some(records) = queue.next() {
        lines.clear();
        for record in &records {
            write_line(&mut lines, record, format);
        }
        let n_lines = records.len() as u64;
        match out.write(&lines) {
            Ok(()) => {
                queue.counts.written.fetch_add(n_lines, Relaxed);
                if let Some(lost) = complaint.end(queue.counts.lost()) {
                    info!(lost, "the access log is written again");
                }
            }
            Err(Unwritten { n_written, source: error }) => {
                queue.counts.written.fetch_add(n_written, Relaxed);
                let n_lost = n_lines.saturating_sub(n_written);
                let lost_before = queue.counts.lost.fetch_add(n_lost, Relaxed);
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
    let line = CallLine::new(record, false);
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
    use crate::journal::line::tests::record;

    fn config(path: &std::path::Path, calls: Calls) -> AccessLogConfig {
        AccessLogConfig { calls: Some(calls), path: Some(path.to_owned()), ..Default::default() }
    }

    #[test]
    fn what_is_wanted_is_written_before_the_log_closes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let counts = Arc::<LineCounts>::default();
        let config = config(&path, Calls::Failed);
        let mut log = AccessLog::start(&config, Arc::clone(&counts)).unwrap().unwrap();
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
        let queue = Arc::new(Queue { counts: Arc::clone(&counts), ..Queue::default() });
        // Nobody takes anything out.
        let mut log = AccessLog { calls: Calls::All, n_seen: 0, queue: Arc::clone(&queue) };
        let record = Arc::new(record());
        for _ in 0..MAX_WAITING + 5 {
            log.tell(Arc::clone(&record));
        }
        assert_eq!((queue.lock().waiting.len(), counts.lost()), (MAX_WAITING, 5));
        log.close(Duration::from_millis(1));
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
        let config = config(full, Calls::All);
        let mut log = AccessLog::start(&config, Arc::clone(&counts)).unwrap().unwrap();
        log.tell(Arc::new(record()));
        log.close(Duration::from_secs(60));
        assert_eq!((counts.written(), counts.lost()), (0, 1));
    }
}
