//! The transfers of one server: who may still ask, and who is forgotten.
//!
//! A thread that answers keeps the transfers it answered last to itself, each with a reader of its
//! own, so that a line costs no lock, no look into the table and no shared count.
//!
//! Invariants:
//! - There are never more open transfers, nor more callers in all of them, than was said. One that
//!   was closed holds no place.
//! - A transfer that was closed or forgotten answers no request any more.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;

use crate::checksum::Totals;
use crate::handout::{HandOut, LineRequest};
use crate::messages::{Message, NextRequest, Refusal};
use crate::{Reader, Source, TransferError};

/// How many transfers a thread keeps to itself; each has a reader, which holds two blocks of 256
/// KiB.
const HELD: usize = 16;

/// How many closed transfers are remembered for clients that did not get the answer; those ask
/// again within seconds. A client whose transfer is forgotten opens another one.
const MAX_CLOSED: usize = 4096;

/// How many a server takes, and how long it remembers those that nobody uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServeLimits {
    pub(crate) transfers: usize,
    pub(crate) callers: usize,
    /// In ticks.
    pub(crate) idle: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sessions {
    source: Arc<Source>,
    limits: ServeLimits,
    /// A clock that is cheap to read; see [`Sessions::tick`].
    now: AtomicU64,
    /// Makes numbers that cannot be guessed, so that no client ends another one's transfer.
    random: RandomState,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<u64, Arc<TransferSession>>,
    /// The oldest is in front.
    closed: VecDeque<ClosedSession>,
    n_opened: u64,
    n_callers: usize,
}

/// Kept for a while for those who did not get the answer.
#[derive(Debug)]
struct ClosedSession {
    number: u64,
    totals: Totals,
    at: u64,
}

/// One transfer.
#[derive(Debug)]
pub(crate) struct TransferSession {
    number: u64,
    hand_out: HandOut,
    last_used: AtomicU64,
    is_over: AtomicBool,
}

/// A session in the hands of one thread.
struct Held {
    session: Arc<TransferSession>,
    reader: Reader,
}

thread_local! {
    /// The one used last is in front.
    static HELD_HERE: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

impl Sessions {
    pub(crate) fn new(source: Arc<Source>, limits: ServeLimits) -> Arc<Self> {
        let (now, random) = (AtomicU64::new(0), RandomState::new());
        Arc::new(Self { source, limits, now, random, table: Mutex::default() })
    }

    pub(crate) fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// How many transfers are open.
    #[cfg(test)]
    pub(crate) fn n_open(&self) -> usize {
        self.table().open.len()
    }

    /// Begins a transfer and returns its number. `begin` may block.
    pub(crate) fn open(
        &self,
        n_callers: u32,
        begin: impl FnOnce() -> Result<HandOut, TransferError>,
    ) -> Result<u64, TransferError> {
        let n_callers = usize::try_from(n_callers).unwrap_or(usize::MAX);
        self.check_room(&self.table(), n_callers)?;
        let hand_out = begin()?;
        let mut table = self.table();
        self.check_room(&table, n_callers)?;
        table.n_opened += 1;
        table.n_callers += n_callers;
        let number = self.random.hash_one(table.n_opened).max(1);
        let last_used = AtomicU64::new(self.now());
        let session =
            TransferSession { number, hand_out, last_used, is_over: AtomicBool::new(false) };
        table.open.insert(number, Arc::new(session));
        Ok(number)
    }

    fn check_room(&self, table: &Table, n_callers: usize) -> Result<(), TransferError> {
        let ServeLimits { transfers, callers, .. } = self.limits;
        if transfers <= table.open.len() {
            return Err(TransferError::TooManyTransfers { what: "transfers", max: transfers });
        }
        if callers < table.n_callers.saturating_add(n_callers) {
            return Err(TransferError::TooManyTransfers { what: "callers", max: callers });
        }
        Ok(())
    }

    /// Ends a transfer; the same again gives the same answer, for a while.
    pub(crate) fn close(&self, number: u64) -> Result<Totals, TransferError> {
        let mut table = self.table();
        let Some(session) = table.end(number) else {
            let closed = table.closed.iter().find(|closed| closed.number == number);
            let unknown = TransferError::UnknownSession { session: number };
            return closed.map(|closed| closed.totals).ok_or(unknown);
        };
        let totals = session.hand_out.totals();
        if table.closed.len() == MAX_CLOSED {
            table.closed.pop_front();
        }
        table.closed.push_back(ClosedSession { number, totals, at: self.now() });
        drop(table);
        let_go();
        Ok(totals)
    }

    /// How far a transfer is; it counts as used.
    pub(crate) fn look(&self, number: u64) -> u64 {
        let Ok(session) = self.find(number) else { return 0 };
        session.last_used.store(self.now(), Ordering::Relaxed);
        session.hand_out.offset()
    }

    /// Time goes on: forgets what nobody has used for too long.
    pub(crate) fn tick(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        let mut table = self.table();
        let is_late = |last: u64| self.limits.idle < now.saturating_sub(last);
        let late: Vec<u64> = table
            .open
            .iter()
            .filter(|(_, session)| is_late(session.last_used.load(Ordering::Relaxed)))
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            table.end(number);
            tracing::info!(
                transfer = format!("{number:016x}"),
                "forgotten: nobody asked for a line for too long"
            );
        }
        while table.closed.pop_front_if(|closed| is_late(closed.at)).is_some() {}
        drop(table);
        let_go();
    }

    /// Answers a request for a line, straight into its reply.
    #[inline]
    pub(crate) fn answer(&self, wanted: &[u8], reply: &mut BytesMut) {
        let answered = NextRequest::decode(wanted).and_then(|next| {
            HELD_HERE.with_borrow_mut(|held| {
                let is_in_front = held.first().is_some_and(|held| held.is(next.session));
                if !is_in_front && !self.bring_to_front(held, next.session) {
                    return Err(TransferError::UnknownSession { session: next.session });
                }
                let Some(held) = held.first_mut() else { return Ok(()) };
                held.session.last_used.store(self.now(), Ordering::Relaxed);
                held.answer(next.ask, reply)
            })
        });
        if let Err(error) = answered {
            let mut refusal = Vec::new();
            Refusal::from(&error).encode(&mut refusal);
            reply.extend_from_slice(&refusal);
        }
    }

    /// Whether the session is in front now.
    #[cold]
    fn bring_to_front(&self, held: &mut Vec<Held>, number: u64) -> bool {
        if let Some(at) = held.iter().position(|held| held.is(number)) {
            held[..=at].rotate_right(1);
            return true;
        }
        let Ok(session) = self.find(number) else { return false };
        held.truncate(HELD - 1);
        let reader = Reader::new(Arc::clone(session.hand_out.source()));
        held.insert(0, Held { session, reader });
        true
    }

    fn find(&self, number: u64) -> Result<Arc<TransferSession>, TransferError> {
        let session = self.table().open.get(&number).map(Arc::clone);
        session.ok_or(TransferError::UnknownSession { session: number })
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        for session in self.table().open.values() {
            session.is_over.store(true, Ordering::Relaxed);
        }
        let_go();
    }
}

impl Table {
    /// Takes an open transfer out.
    fn end(&mut self, number: u64) -> Option<Arc<TransferSession>> {
        let session = self.open.remove(&number)?;
        session.is_over.store(true, Ordering::Relaxed);
        self.n_callers = self.n_callers.saturating_sub(session.hand_out.n_callers());
        Some(session)
    }
}

impl Held {
    #[inline]
    fn is(&self, number: u64) -> bool {
        self.session.number == number && !self.session.is_over.load(Ordering::Relaxed)
    }
}

/// Drops what this thread holds of transfers that are over.
fn let_go() {
    // A thread that is ending has let go of all of them.
    let _ = HELD_HERE.try_with(|held| {
        let is_open = |held: &Held| !held.session.is_over.load(Ordering::Relaxed);
        held.borrow_mut().retain(is_open);
    });
}

impl Held {
    #[inline]
    fn answer(&mut self, ask: LineRequest, out: &mut BytesMut) -> Result<(), TransferError> {
        self.session.hand_out.answer(ask, &mut self.reader)?.encode(out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line_step::Unchanged;

    fn sessions(folder: &tempfile::TempDir, transfers: usize) -> Arc<Sessions> {
        let path = folder.path().join("source");
        std::fs::write(&path, "a\r\nb\r\n").unwrap();
        let limits = ServeLimits { transfers, callers: 10, idle: 5 };
        Sessions::new(Source::open(&path).unwrap(), limits)
    }

    fn open(sessions: &Sessions) -> Result<u64, TransferError> {
        let begin = || HandOut::new(Arc::clone(sessions.source()), &Unchanged, 0, 1);
        sessions.open(1, begin)
    }

    #[test]
    fn a_closed_transfer_holds_no_place_and_is_remembered_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = sessions(&folder, 1);
        let first = open(&sessions).unwrap();
        let error = open(&sessions).unwrap_err();
        assert!(matches!(error, TransferError::TooManyTransfers { max: 1, .. }), "{error}");
        let totals = sessions.close(first).unwrap();
        let second = open(&sessions).unwrap();
        assert_eq!(sessions.close(first).unwrap(), totals);
        (0..5).for_each(|_| sessions.tick());
        assert_eq!(sessions.close(first).unwrap(), totals);
        assert_eq!(sessions.n_open(), 1);
        sessions.tick();
        for number in [first, second] {
            let error = sessions.close(number).unwrap_err();
            assert!(matches!(error, TransferError::UnknownSession { .. }), "{error}");
        }
    }

    #[test]
    fn of_closed_transfers_the_oldest_are_forgotten_first() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = sessions(&folder, 1);
        let numbers: Vec<u64> = (0..=MAX_CLOSED)
            .map(|_| {
                let number = open(&sessions).unwrap();
                sessions.close(number).unwrap();
                number
            })
            .collect();
        assert!(sessions.close(numbers[0]).is_err());
        assert!(numbers[1..].iter().all(|number| sessions.close(*number).is_ok()));
        assert_eq!(sessions.table().closed.len(), MAX_CLOSED);
    }
}
