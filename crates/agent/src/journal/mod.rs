//! What is told of each call that has ended: in the access log, and to those who tap.
//!
//! Workers ask [`Journal::begin`] for a [`JournalEntry`] as a call comes, which is nothing while
//! nobody wants to know, and end it as the call ends. `record` is what is told of a call, `line`
//! how it is written; `wanted` says which calls the access log wants; `access_log` queues and
//! writes its lines, on a thread of its own, into `file`; `tap` is those who look on.
//!
//! Invariants:
//! - While nobody wants to know of calls, a call costs one look at an atomic number.
//! - No worker waits for a disk, or for one who looks on: what cannot be queued is lost and
//!   counted.

mod access_log;
mod entry;
mod file;
mod line;
mod record;
mod tap;
mod wanted;

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::access_log::{AccessLog, OpenedLog, StuckWriter};
use self::tap::Taps;
use crate::config::AccessLogConfig;
use crate::stages::{CallSide, Stage, StageClock, StageTable};
use wire::Peer;

use self::entry::Wants;
pub use self::entry::{JournalEntry, RecordedAnswer, RequestNames};
pub use self::file::LogFileError;
pub use self::line::JournalLine;
pub use self::record::Record;
pub use self::tap::{MAX_TAPS, Tap, TapFilter, TooManyTaps};

/// How long a log may take for its last lines once calls are written elsewhere.
const HANDOVER_TIME: Duration = Duration::from_secs(1);

/// Nobody wants to know of calls.
const NOTHING: u8 = 0;
/// Nobody does, but the stages of some have their time stopped.
const SAMPLED: u8 = 1;
/// Somebody wants to know of some.
const FACTS: u8 = 2;
/// Somebody looks on, and wants to see the stages of each.
const TAPPED: u8 = 3;
/// Somebody wants to see arguments, too.
const ARGUMENTS: u8 = 4;

thread_local! {
    /// So many calls of this thread come before the next one that has its time stopped, as one in
    /// so many has.
    static NEXT: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// What is told of calls, and to whom. A clone is another handle to the same.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<JournalState>);

#[derive(Debug, Default)]
struct JournalState {
    /// One of the constants above.
    level: AtomicU8,
    /// One call in so many has its time stopped; none if 0.
    stage_sample: AtomicU32,
    stages: StageTable,
    readers: Mutex<Readers>,
    n_lines: Arc<LineCounts>,
}

/// Who wants to know of calls.
#[derive(Debug, Default)]
struct Readers {
    log: Option<AccessLog>,
    /// The last log whose thread did not end in time.
    stuck: Option<StuckWriter>,
    taps: Taps,
}

/// Lines of the access log so far.
#[derive(Debug, Default)]
pub struct LineCounts {
    written: AtomicU64,
    lost: AtomicU64,
}

impl LineCounts {
    /// Those that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Those that were lost, because the disk was slower than calls came, or refused them.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// What all calls of a listener have in common.
#[derive(Clone, Copy, Debug)]
pub struct CallSource {
    /// What its callers speak.
    pub protocol: &'static str,
    /// Whether the calls go to others, or to the app.
    pub side: CallSide,
    /// What a call is doing when it is noted.
    pub first: Stage,
}

impl Journal {
    /// What is to be told of a call that came at `started`, if anybody wants to know.
    #[inline]
    pub fn begin(
        &self,
        source: CallSource,
        peer: Option<Peer>,
        started: Instant,
    ) -> Option<Box<JournalEntry>> {
        match self.0.level.load(Relaxed) {
            NOTHING => None,
            SAMPLED if !self.is_next() => None,
            level => Some(self.begin_entry(source, peer, started, level)),
        }
    }

    #[cold]
    fn begin_entry(
        &self,
        source: CallSource,
        peer: Option<Peer>,
        started: Instant,
        level: u8,
    ) -> Box<JournalEntry> {
        let is_timed = level == SAMPLED || TAPPED <= level || self.is_next();
        let CallSource { protocol, side, first } = source;
        let table = || self.0.stages.clone();
        let clock = is_timed.then(|| StageClock::new(side, first, started, table()));
        let wants = Wants { is_told: level != SAMPLED, arguments: level == ARGUMENTS };
        Box::new(JournalEntry::new(self.clone(), protocol, peer, started, wants, clock))
    }

    /// For a call that nobody here wants to know of, but whose caller wants to know its time.
    #[cold]
    pub fn begin_untold(&self, source: CallSource, started: Instant) -> Box<JournalEntry> {
        Box::new(JournalEntry::new(
            self.clone(),
            source.protocol,
            None,
            started,
            Wants::default(),
            None,
        ))
    }

    /// Whether it is the turn of a call to have its time stopped.
    #[inline]
    fn is_next(&self) -> bool {
        let (n_between, of) = NEXT.get();
        let one_of = self.0.stage_sample.load(Relaxed);
        if n_between != 0 && of == one_of {
            NEXT.set((n_between - 1, of));
            return false;
        }
        choose_next(one_of)
    }

    /// One call in so many has the time of its stages stopped from now on; none if 0.
    pub fn sample_stages(&self, one_of: u32) {
        let readers = self.readers();
        self.0.stage_sample.store(one_of, Relaxed);
        self.note_level(&readers);
    }

    /// How long calls were in which stage.
    pub fn stages(&self) -> &StageTable {
        &self.0.stages
    }

    /// Writes the access log as `config` says from now on. A file is opened anew, so that one that
    /// was moved away is left alone.
    ///
    /// # Errors
    /// The file cannot be opened, or two threads would be left that wait for a disk or a reader;
    /// then all stays as it was.
    pub fn log_to(&self, config: &AccessLogConfig) -> Result<(), LogFileError> {
        let opened = OpenedLog::open(config)?;
        let mut readers = self.readers();
        let opened = match (opened, &mut readers.log) {
            (None, None) => return Ok(()),
            (Some(opened), Some(log)) if log.is_at(&opened) => {
                log.go_on(opened);
                return Ok(());
            }
            (opened, _) => opened,
        };
        if let Some(stuck) = readers.stuck.as_ref().filter(|it| it.is_stuck())
            && readers.log.is_some()
        {
            return Err(LogFileError::Stuck { place: stuck.place() });
        }
        let start = |opened| AccessLog::start(opened, Arc::clone(&self.0.n_lines));
        let log = opened.and_then(start);
        let old = std::mem::replace(&mut readers.log, log);
        self.note_level(&readers);
        drop(readers);
        if let Some(stuck) = old.and_then(|old| old.close(HANDOVER_TIME)) {
            self.readers().stuck = Some(stuck);
        }
        Ok(())
    }

    /// Writes what is queued for the access log, for at most `patience`, and ends it.
    pub fn close(&self, patience: Duration) {
        let mut readers = self.readers();
        let log = readers.log.take();
        self.note_level(&readers);
        drop(readers);
        if let Some(log) = log {
            log.close(patience);
        }
    }

    /// Shows calls from now on.
    ///
    /// # Errors
    /// As many look on as may.
    pub fn tap(&self, filter: TapFilter) -> Result<Tap, TooManyTaps> {
        let mut readers = self.readers();
        let seat = readers.taps.add(filter)?;
        self.note_level(&readers);
        drop(readers);
        Ok(Tap::new(self.clone(), seat))
    }

    fn untap(&self, id: u64) {
        let mut readers = self.readers();
        readers.taps.remove(id);
        self.note_level(&readers);
    }

    /// Lines of the access log.
    pub fn line_counts(&self) -> &LineCounts {
        &self.0.n_lines
    }

    fn note_level(&self, readers: &Readers) {
        let level = match readers {
            Readers { taps, .. } if taps.want_arguments() => ARGUMENTS,
            Readers { taps, .. } if !taps.is_empty() => TAPPED,
            Readers { log: Some(_), .. } => FACTS,
            _ if self.0.stage_sample.load(Relaxed) != 0 => SAMPLED,
            _ => NOTHING,
        };
        self.0.level.store(level, Relaxed);
    }

    /// A call has ended.
    fn report(&self, record: Record) {
        let record = Arc::new(record);
        let mut readers = self.readers();
        let Readers { log, taps, .. } = &mut *readers;
        taps.show(&record);
        if let Some(log) = log {
            log.tell(record);
        }
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.0.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// This call's time is stopped. Chooses the next one at random, for calls may come in a rhythm.
#[cold]
fn choose_next(one_of: u32) -> bool {
    if one_of != 0 {
        NEXT.set((rand::random_range(0..one_of.saturating_mul(2) - 1), one_of));
    }
    one_of != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: CallSource =
        CallSource { protocol: "dubbo", side: CallSide::Ingress, first: Stage::Wait };

    /// How many of 10000 calls have a clock.
    fn n_timed(journal: &Journal) -> usize {
        let begin = || journal.begin(SOURCE, None, Instant::now());
        (0..10_000).filter(|_| begin().is_some_and(|it| it.clock().is_some())).count()
    }

    #[test]
    fn one_call_in_so_many_has_its_time_stopped() {
        let journal = Journal::default();
        assert_eq!(n_timed(&journal), 0);
        journal.sample_stages(u32::MAX);
        assert_eq!(n_timed(&journal), 1, "the first");
        journal.sample_stages(1);
        assert_eq!(n_timed(&journal), 10_000, "at once, whatever was chosen before");
        journal.sample_stages(100);
        let n_timed_of_100 = n_timed(&journal);
        assert!((40..=250).contains(&n_timed_of_100), "{n_timed_of_100}");
        let tap = journal.tap(TapFilter::default()).unwrap();
        assert_eq!(n_timed(&journal), 10_000, "whoever looks on sees the stages of each");
        drop(tap);
        journal.sample_stages(0);
        assert_eq!(n_timed(&journal), 0);
        assert!(journal.begin(SOURCE, None, Instant::now()).is_none());
    }

    /// Only its time counts: nothing else of it is kept.
    #[test]
    fn a_call_that_nobody_is_told_of_is_timed_all_the_same() {
        let journal = Journal::default();
        journal.sample_stages(1);
        for is_answered in [true, false] {
            let mut entry = journal.begin(SOURCE, None, Instant::now()).unwrap();
            assert!(!entry.is_told());
            entry.named(RequestNames { service: "a.B", ..RequestNames::default() });
            entry.clock().unwrap().enter(Stage::Network, Instant::now());
            match is_answered {
                true => entry.answered(RecordedAnswer::default()),
                // Its caller has gone.
                false => drop(entry),
            }
        }
        let [timed] = &journal.stages().all()[..] else { panic!() };
        assert_eq!((timed.place, &*timed.service), (CallSide::Ingress, "a.B"));
        assert_eq!(timed.totals.n_calls, 2);
        let tap = journal.tap(TapFilter::default()).unwrap();
        assert!(journal.begin(SOURCE, None, Instant::now()).unwrap().is_told());
        drop(tap);
    }
}
