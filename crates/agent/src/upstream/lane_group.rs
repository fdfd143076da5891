//! Connections to one endpoint that share its calls: as many as were configured, or as many as
//! [`ConnectionCount`] finds that they need.
//!
//! Invariants:
//! - The first connection always stays.
//! - All connections stand for the endpoint: it is ready while one of them is.
//! - A connection that gives no sign of life gets no calls while another one takes them.
//! - A connection that goes gets no new calls, and ends when its last one is answered.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use balance::Evidence;
use flow::connection_count::{Advice, ConnectionCount, ConnectionUse};
use flow::pause::PauseLook;
use futures_util::future::select_all;
use tracing::info;

use super::sending::SendProgress;
use super::{PeerProtocol, Standing, Upstream};
use crate::config::ConnectionLimit;
use crate::error::CallError;

/// One of several connections is asked for a sign of life if none came for so long.
const QUIET: Duration = Duration::from_millis(50);

/// Makes one connection.
pub(super) type Start<P> = Rc<dyn Fn() -> Upstream<P>>;

/// The connections.
pub(super) struct LaneGroup<P: PeerProtocol> {
    first: Lane<P>,
    further: RefCell<Vec<Lane<P>>>,
    has_further: Cell<bool>,
    /// They get no new calls, and go when their last one is answered.
    leaving: RefCell<Vec<Lane<P>>>,
    limit: Cell<ConnectionLimit>,
    /// Bytes of all workers' groups like this one, and how many there were at the last look.
    traffic: Arc<AtomicU64>,
    traffic_seen: Cell<u64>,
    /// `None` if their number was configured.
    count: RefCell<Option<ConnectionCount>>,
    start: Start<P>,
}

/// One of them.
struct Lane<P: PeerProtocol> {
    upstream: Rc<Upstream<P>>,
    seen: Cell<LastLook>,
    /// Its peer was asked for a sign of life in vain.
    pauses: Cell<bool>,
}

/// How many connections to an endpoint have something wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unwell {
    /// That are down.
    pub n_down: usize,
    /// That leave a question open.
    pub n_silent: usize,
    /// How many there are.
    pub n: usize,
}

impl Unwell {
    /// In words; `None` if nothing is wrong.
    pub fn explain(self) -> Option<String> {
        match (self.n_down, self.n_silent) {
            (0, 0) => None,
            (down, 0) => Some(format!("{down} of {} connections down", self.n)),
            (0, silent) => Some(format!("{silent} of {} connections silent", self.n)),
            (down, silent) => {
                Some(format!("{down} of {} connections down, {silent} silent", self.n))
            }
        }
    }
}

/// A connection that carried less since the last look is not held up by what it sends.
const ASKED_LEN: u64 = 4096;

/// What a connection had done at the last look.
#[derive(Clone, Copy, Default)]
struct LastLook {
    waited: Duration,
    bytes: u64,
    /// What the kernel said, if it was asked, and when.
    sending: Option<(SendProgress, Instant)>,
}

impl<P: PeerProtocol> Lane<P> {
    fn start(start: &Start<P>) -> Self {
        Self { upstream: Rc::new(start()), seen: Cell::default(), pauses: Cell::default() }
    }

    /// As [`Upstream::look_for_pause`] says. It is remembered.
    fn look_for_pause(&self, now: Instant, quiet: Duration) -> PauseLook {
        let look = self.upstream.look_for_pause(now, quiet);
        self.pauses.set(look.since.is_some());
        look
    }

    fn in_flight(&self) -> usize {
        self.upstream.in_flight()
    }

    /// What it has done since the last look.
    fn activity(&self, now: Instant) -> ConnectionUse {
        let Some(conn) = self.upstream.ready_conn() else { return ConnectionUse::default() };
        let bytes = self.upstream.n_bytes();
        let (waited, in_flight) = conn.look(|it| (P::waited(it, now), P::in_flight(it)));
        let before = self.seen.get();
        // A connection that was made again counts from zero.
        let n_bytes = bytes.checked_sub(before.bytes).unwrap_or(bytes);
        let had_unsent = before.sending.is_some_and(|(sending, _)| sending.has_unsent());
        let sending = match ASKED_LEN <= n_bytes || had_unsent {
            true => self.upstream.tcp_info().as_ref().and_then(SendProgress::of),
            false => None,
        };
        let sending = sending.map(|sending| (sending, now));
        self.seen.set(LastLook { waited, bytes, sending });
        let busy = waited.saturating_sub(before.waited);
        let (Some((sending, _)), Some((was, then))) = (sending, before.sending) else {
            return ConnectionUse { busy, bytes: n_bytes, in_flight };
        };
        let sends = sending.busy_since(&was, now.saturating_duration_since(then));
        // Calls that nobody waits for wait for each other, too.
        let waits = if in_flight == 0 && !sends.is_zero() { 2 } else { in_flight };
        ConnectionUse { busy: busy.max(sends), bytes: n_bytes, in_flight: waits }
    }
}

/// How many connections there are at first beside the first one, and what finds out how many are
/// needed.
fn counted(limit: ConnectionLimit, now: Instant) -> (usize, Option<ConnectionCount>) {
    match limit {
        ConnectionLimit::Fixed(n) => (n.get() - 1, None),
        ConnectionLimit::Auto { max } => (0, Some(ConnectionCount::new(max.get(), now))),
    }
}

impl<P: PeerProtocol> LaneGroup<P> {
    /// Begins to connect. Must be called on a worker's runtime.
    /// `traffic` counts the bytes of all workers' groups like this one.
    pub(super) fn start(
        limit: ConnectionLimit,
        traffic: Arc<AtomicU64>,
        start: Start<P>,
        now: Instant,
    ) -> Self {
        let (n_further, count) = counted(limit, now);
        let first = Lane::start(&start);
        let further: Vec<_> = (0..n_further).map(|_| Lane::start(&start)).collect();
        Self {
            first,
            has_further: Cell::new(!further.is_empty()),
            further: further.into(),
            leaving: RefCell::default(),
            traffic_seen: Cell::new(traffic.load(Relaxed)),
            traffic,
            limit: Cell::new(limit),
            count: RefCell::new(count),
            start,
        }
    }

    /// The connection that always stays.
    #[inline]
    pub(super) fn first(&self) -> &Rc<Upstream<P>> {
        &self.first.upstream
    }

    /// Whether there are others.
    #[inline]
    pub(super) fn has_further(&self) -> bool {
        self.has_further.get()
    }

    /// The connection for a call: the one with the fewest in flight, of those that take calls and
    /// that are `wanted`, and that do not pause if there are others. If there is none, one that
    /// still connects, or else the first one.
    pub(super) fn pick(&self, wanted: impl Fn(&P) -> bool) -> Rc<Upstream<P>> {
        let picked = self.find(wanted).or_else(|| self.connecting());
        picked.unwrap_or_else(|| Rc::clone(&self.first.upstream))
    }

    /// One that connects for the first time.
    pub(super) fn connecting(&self) -> Option<Rc<Upstream<P>>> {
        self.find_map(|it| (it.standing() == Standing::Connecting).then(|| Rc::clone(it)))
    }

    /// The first that is found among what `look` makes of them.
    pub(super) fn find_map<R>(
        &self,
        mut look: impl FnMut(&Rc<Upstream<P>>) -> Option<R>,
    ) -> Option<R> {
        let further = self.further.borrow();
        let mut all = std::iter::once(&self.first).chain(&*further);
        all.find_map(|lane| look(&lane.upstream))
    }

    /// The best state of any connection: while one takes calls, so does the endpoint.
    #[inline]
    pub(super) fn standing(&self) -> Standing {
        let first = self.first.upstream.standing();
        match first == Standing::Ready || !self.has_further() {
            true => first,
            false => self.standing_of_further(first),
        }
    }

    #[cold]
    fn standing_of_further(&self, first: Standing) -> Standing {
        let mut best = first;
        for lane in &*self.further.borrow() {
            match lane.upstream.standing() {
                Standing::Ready => return Standing::Ready,
                Standing::Connecting => best = Standing::Connecting,
                _ => {}
            }
        }
        best
    }

    /// Why no connection takes calls; `None` while one does.
    pub(super) fn trouble(&self) -> Option<CallError> {
        if self.standing() == Standing::Ready {
            return None;
        }
        self.pick(|_| true).conn().err()
    }

    /// The best of what the connections show, as [`Upstream::evidence`] says. All are asked, so
    /// that the next look finds out.
    pub(super) fn evidence(&self, now: Instant) -> Evidence {
        let all = self.all();
        let shown: Vec<_> = all.iter().map(|it| it.evidence(now)).collect();
        let best = [Evidence::Answers, Evidence::Silent].into_iter().find(|it| shown.contains(it));
        best.unwrap_or(Evidence::Gone)
    }

    /// How many connections have something wrong, as far as that is known: nobody is asked.
    pub(super) fn unwell(&self, now: Instant) -> Unwell {
        let all = self.all();
        let mut unwell = Unwell { n_down: 0, n_silent: 0, n: all.len() };
        for upstream in &all {
            match (upstream.standing(), upstream.known_evidence(now)) {
                (Standing::Connecting, _) | (_, Evidence::Answers) => {}
                (_, Evidence::Silent) => unwell.n_silent += 1,
                (_, Evidence::Gone) => unwell.n_down += 1,
            }
        }
        unwell
    }

    /// Ends when [`LaneGroup::standing`] may have changed since it was made. It keeps no
    /// connection alive.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + use<P> {
        let all: Vec<_> = self.all().iter().map(|it| Box::pin(it.change())).collect();
        async move { drop(select_all(all).await) }
    }

    /// The endpoint is known to be there: attempts that are due later are made now.
    pub(super) fn connect_soon(&self) {
        self.all().iter().for_each(|it| it.connect_soon());
    }

    /// The same; `None` if there is none.
    pub(super) fn find(&self, wanted: impl Fn(&P) -> bool) -> Option<Rc<Upstream<P>>> {
        let further = self.further.borrow();
        let ready = std::iter::once(&self.first)
            .chain(&*further)
            .filter(|it| it.upstream.standing() == Standing::Ready && wanted(it.upstream.peer()));
        let found = ready.min_by_key(|lane| (lane.pauses.get(), lane.in_flight()))?;
        Some(Rc::clone(&found.upstream))
    }

    /// The upstreams that there are now, and those that are leaving.
    pub(super) fn all_with_leaving(&self) -> Vec<Rc<Upstream<P>>> {
        let mut all = self.all();
        all.extend(self.leaving.borrow().iter().map(|lane| Rc::clone(&lane.upstream)));
        all
    }

    /// The upstreams that there are now.
    pub(super) fn all(&self) -> Vec<Rc<Upstream<P>>> {
        let further = self.further.borrow();
        std::iter::once(&self.first)
            .chain(&*further)
            .map(|lane| Rc::clone(&lane.upstream))
            .collect()
    }

    /// Whether a call is in flight.
    pub(super) fn has_calls(&self) -> bool {
        let (further, leaving) = (self.further.borrow(), self.leaving.borrow());
        std::iter::once(&self.first).chain(&*further).chain(&*leaving).any(|it| it.in_flight() != 0)
    }

    /// Looks whether all of the connections that are up pause, as [`Upstream::look_for_pause`]
    /// says: a network may lose one of them, and carry the others.
    pub(super) fn look_for_pause(&self, now: Instant, quiet: Duration) -> PauseLook {
        if !self.has_further() {
            return self.first.look_for_pause(now, quiet);
        }
        let further = self.further.borrow();
        let lanes = std::iter::once(&self.first).chain(&*further);
        let ready = lanes.filter(|lane| lane.upstream.standing() == Standing::Ready);
        // All of them are asked, whatever the first one has said.
        let looks = ready.map(|lane| lane.look_for_pause(now, quiet));
        let all = looks.reduce(|one, other| PauseLook {
            since: one.since.zip(other.since).map(|(one, other)| one.max(other)),
            due: one.due.min(other.due),
        });
        all.unwrap_or_else(|| PauseLook::works(now))
    }

    /// Looks whether a connection gives no sign of life, and whether there should be one more, or
    /// one less, where there may be as many as `limit` says. Call this every 100 ms or so.
    pub(super) fn tend(&self, now: Instant, limit: ConnectionLimit) {
        if self.has_further() && self.has_calls() {
            self.look_for_pause(now, QUIET);
        }
        // Dropped, it ends in order.
        self.leaving.borrow_mut().retain(|lane| lane.in_flight() != 0);
        if self.limit.replace(limit) != limit {
            return self.begin_anew(now, limit);
        }
        let mut count = self.count.borrow_mut();
        let Some(count) = &mut *count else { return };
        let mut sum = self.first.activity(now);
        for lane in &*self.further.borrow() {
            let activity = lane.activity(now);
            sum.busy += activity.busy;
            sum.bytes = sum.bytes.saturating_add(activity.bytes);
            sum.in_flight += activity.in_flight;
        }
        let all = self.traffic.fetch_add(sum.bytes, Relaxed).wrapping_add(sum.bytes);
        sum.bytes = all.wrapping_sub(self.traffic_seen.replace(all));
        let (advice, n) = (count.look(now, sum), count.n());
        let endpoint = self.first.upstream.address();
        match advice {
            Advice::Stay => {}
            Advice::Open(n_more) => {
                info!(%endpoint, connections = n, "messages wait for each other: opening {n_more}");
                self.open(n_more);
            }
            Advice::Close(n_less) => {
                info!(%endpoint, connections = n, "not needed, or no help: closing {n_less}");
                self.close_further(n_less, now);
            }
        }
    }

    /// There may be another number of connections from now on. How many are needed is found out
    /// anew.
    fn begin_anew(&self, now: Instant, limit: ConnectionLimit) {
        let (n_further, count) = counted(limit, now);
        *self.count.borrow_mut() = count;
        let n_now = self.further.borrow().len();
        self.open(n_further.saturating_sub(n_now));
        self.close_further(n_now.saturating_sub(n_further), now);
    }

    fn open(&self, n_more: usize) {
        let more = (0..n_more).map(|_| Lane::start(&self.start));
        self.further.borrow_mut().extend(more);
        self.has_further.set(!self.further.borrow().is_empty());
    }

    fn close_further(&self, n_less: usize, now: Instant) {
        let mut further = self.further.borrow_mut();
        let n_left = further.len().saturating_sub(n_less);
        let gone = further.split_off(n_left);
        self.has_further.set(!further.is_empty());
        drop(further);
        gone.iter().for_each(|lane| lane.upstream.peer().retire(now));
        self.leaving.borrow_mut().extend(gone);
    }

    /// Ends the connections, after what waits to be written. Comes back when they have ended, with
    /// the failure of one that broke before.
    pub(super) async fn close(&self) -> Option<CallError> {
        let (leaving, mut cut_off) = (self.leaving.take(), None);
        for upstream in self.all().iter().chain(leaving.iter().map(|lane| &lane.upstream)) {
            cut_off = cut_off.or(upstream.close().await);
        }
        cut_off
    }
}

#[cfg(test)]
mod tests;
