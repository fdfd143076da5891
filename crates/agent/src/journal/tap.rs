//! Those who look on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;

use super::wanted::is_next;
use super::{Journal, Record};

/// So many may look on at a time.
pub const MAX_TAPS: usize = 4;
/// Calls that wait for one who looks on; what comes beyond is lost and counted.
const MAX_WAITING: usize = 256;

/// Which calls one wants to see.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TapFilter {
    /// Those of a service, by its key or its interface; of any without it.
    pub service: Option<String>,
    /// Those of a method.
    pub method: Option<String>,
    /// Those that have failed.
    pub only_failed: bool,
    /// Those that took at least so long.
    pub slower_than: Duration,
    /// One in so many of them; 0 and 1 mean all.
    pub one_of: u32,
    /// Arguments, too.
    pub arguments: bool,
}

impl TapFilter {
    fn wants(&self, record: &Record) -> bool {
        let is_method = |wanted: &String| {
            record.method.as_deref().is_some_and(|method| match wanted.strip_suffix('*') {
                Some(beginning) => method.starts_with(beginning),
                None => method == wanted,
            })
        };
        (!self.only_failed || record.code.is_some())
            && self.slower_than <= record.latency
            && self.service.as_ref().is_none_or(|wanted| record.is_of_service(wanted))
            && self.method.as_ref().is_none_or(is_method)
    }
}

/// As many look on as may.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{MAX_TAPS} taps are open, which is the limit; close one of them first")]
pub struct TooManyTaps;

/// All who look on.
#[derive(Debug, Default)]
pub(super) struct Taps {
    all: Vec<TapWatcher>,
    next_id: u64,
}

/// One who looks on, as the journal knows it.
#[derive(Debug)]
struct TapWatcher {
    id: u64,
    filter: TapFilter,
    n_seen: u32,
    queue: mpsc::Sender<Arc<Record>>,
    n_lost: Arc<AtomicU64>,
}

/// What one who looks on has: a number, what is shown, and how much was lost.
#[derive(Debug)]
pub(super) struct TapReceiver {
    id: u64,
    records: mpsc::Receiver<Arc<Record>>,
    n_lost: Arc<AtomicU64>,
}

impl Taps {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn want_arguments(&self) -> bool {
        self.all.iter().any(|watcher| watcher.filter.arguments)
    }

    pub(super) fn add(&mut self, filter: TapFilter) -> Result<TapReceiver, TooManyTaps> {
        if MAX_TAPS <= self.all.len() {
            return Err(TooManyTaps);
        }
        let (queue, records) = mpsc::channel(MAX_WAITING);
        let (id, n_lost) = (self.next_id, Arc::<AtomicU64>::default());
        self.next_id += 1;
        self.all.push(TapWatcher { id, filter, n_seen: 0, queue, n_lost: Arc::clone(&n_lost) });
        Ok(TapReceiver { id, records, n_lost })
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.all.retain(|watcher| watcher.id != id);
    }

    pub(super) fn show(&mut self, record: &Arc<Record>) {
        for watcher in &mut self.all {
            if watcher.filter.wants(record)
                && is_next(&mut watcher.n_seen, watcher.filter.one_of)
                && watcher.queue.try_send(Arc::clone(record)).is_err()
            {
                watcher.n_lost.fetch_add(1, Relaxed);
            }
        }
    }
}

/// One who looks on, until it is dropped.
#[derive(Debug)]
pub struct Tap {
    journal: Journal,
    seat: TapReceiver,
}

impl Tap {
    pub(super) fn new(journal: Journal, seat: TapReceiver) -> Self {
        Self { journal, seat }
    }

    /// Calls that have ended: up to `max` of those that wait, appended to `records`.
    pub fn poll_records(
        &mut self,
        cx: &mut Context<'_>,
        records: &mut Vec<Arc<Record>>,
        max: usize,
    ) -> Poll<usize> {
        self.seat.records.poll_recv_many(cx, records, max)
    }

    /// How many calls were lost since this was last asked.
    pub fn take_lost(&self) -> u64 {
        self.seat.n_lost.swap(0, Relaxed)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.journal.untap(self.seat.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::journal::CallSource;
    use crate::journal::line::tests::record;
    use crate::stages::{CallSide, Stage};

    #[test]
    fn a_filter_wants_what_fits_all_of_it() {
        let wants = |filter: &TapFilter| filter.wants(&record());
        assert!(wants(&TapFilter::default()));
        let of = |service: &str, method: &str| TapFilter {
            service: Some(service.to_owned()),
            method: Some(method.to_owned()),
            ..TapFilter::default()
        };
        assert!(wants(&of("com.acme.Echo", "echo")));
        assert!(wants(&of("com.acme.Echo", "ec*")) && wants(&of("com.acme.Echo", "*")));
        assert!(!wants(&of("com.acme.Echo", "other")) && !wants(&of("com.acme.Echo", "ex*")));
        assert!(!wants(&of("com.acme.Other", "echo")));
        let slow = TapFilter { slower_than: Duration::from_millis(2), ..TapFilter::default() };
        assert!(!wants(&slow));
        let failed = TapFilter { only_failed: true, ..TapFilter::default() };
        assert!(!wants(&failed));
        assert!(failed.wants(&Record { code: Some(Code::Timeout), ..record() }));
    }

    #[test]
    fn one_who_does_not_look_loses_what_is_too_much_and_hears_how_much() {
        let journal = Journal::default();
        let tap = journal.tap(TapFilter::default()).unwrap();
        for _ in 0..MAX_WAITING + 7 {
            journal.report(record());
        }
        assert_eq!((tap.take_lost(), tap.take_lost()), (7, 0));
    }

    #[test]
    fn nothing_is_noted_once_nobody_looks() {
        let journal = Journal::default();
        let source = CallSource { protocol: "http", side: CallSide::Ingress, first: Stage::Read };
        let begin = || journal.begin(source, None, std::time::Instant::now()).is_some();
        assert!(!begin());
        let taps: Vec<Tap> =
            (0..MAX_TAPS).map(|_| journal.tap(TapFilter::default()).unwrap()).collect();
        assert!(begin());
        assert_eq!(journal.tap(TapFilter::default()).err(), Some(TooManyTaps));
        drop(taps);
        assert!(!begin());
        assert!(journal.tap(TapFilter::default()).is_ok());
    }
}
