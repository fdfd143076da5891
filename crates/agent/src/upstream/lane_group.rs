//! Connections to one endpoint that share its calls: as many as were configured, or as many as
//! [`ConnectionCount`] finds that they need.
//!
//! Invariants:
//! - The first connection always stays; it stands for the endpoint.
//! - A connection that gives no sign of life gets no calls while another one takes them.
//! - A connection that goes gets no new calls, and ends when its last one is answered.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use flow::connection_count::{Activity, Advice, ConnectionCount};
use tracing::info;

use super::{Peer, Standing, Upstream};
use crate::config::ConnectionLimit;

/// One of several connections is asked for a sign of life if none came for so long.
const QUIET: Duration = Duration::from_millis(50);

/// Makes one connection.
pub(super) type Start<P> = Rc<dyn Fn() -> Upstream<P>>;

/// The connections.
pub(super) struct LaneGroup<P: Peer> {
    first: Lane<P>,
    further: RefCell<Vec<Lane<P>>>,
    has_further: Cell<bool>,
    /// They get no new calls, and go when their last one is answered.
    leaving: RefCell<Vec<Lane<P>>>,
    /// `None` if their number was configured.
    count: Option<RefCell<ConnectionCount>>,
    start: Start<P>,
}

/// One of them.
struct Lane<P: Peer> {
    upstream: Rc<Upstream<P>>,
    seen: Cell<Seen>,
    /// Its peer was asked for a sign of life in vain.
    pauses: Cell<bool>,
}

/// What a connection had done at the last look.
#[derive(Clone, Copy, Default)]
struct Seen {
    waited: Duration,
    bytes: u64,
}

impl<P: Peer> Lane<P> {
    fn start(start: &Start<P>) -> Self {
        Self { upstream: Rc::new(start()), seen: Cell::default(), pauses: Cell::default() }
    }

    /// As [`Upstream::pauses_since`] says. It is remembered.
    fn pauses_since(&self, now: Instant, quiet: Duration) -> Option<Instant> {
        let since = self.upstream.pauses_since(now, quiet);
        self.pauses.set(since.is_some());
        since
    }

    fn in_flight(&self) -> usize {
        self.upstream.in_flight()
    }

    /// What it has done since the last look.
    fn activity(&self, now: Instant) -> Activity {
        let Some(conn) = self.upstream.ready_conn() else { return Activity::default() };
        let bytes = self.upstream.n_bytes();
        let (waited, in_flight) = conn.look(|it| (P::waited(it, now), P::in_flight(it)));
        let seen = Seen { waited, bytes };
        let before = self.seen.replace(seen);
        // A connection that was made again counts from zero.
        let bytes = seen.bytes.checked_sub(before.bytes).unwrap_or(seen.bytes);
        Activity { busy: seen.waited.saturating_sub(before.waited), bytes, in_flight }
    }
}

impl<P: Peer> LaneGroup<P> {
    /// Begins to connect. Must be called on a worker's runtime.
    pub(super) fn start(limit: ConnectionLimit, start: Start<P>, now: Instant) -> Self {
        let (n_further, count) = match limit {
            ConnectionLimit::Fixed(n) => (n.get() - 1, None),
            ConnectionLimit::Auto { max } => {
                (0, Some(RefCell::new(ConnectionCount::new(max.get(), now))))
            }
        };
        let further: Vec<_> = (0..n_further).map(|_| Lane::start(&start)).collect();
        Self {
            first: Lane::start(&start),
            has_further: Cell::new(!further.is_empty()),
            further: further.into(),
            leaving: RefCell::default(),
            count,
            start,
        }
    }

    /// The connection that stands for the endpoint.
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
    /// that are `wanted`, and that do not pause if there are others. The first one if there is
    /// none.
    pub(super) fn pick(&self, wanted: impl Fn(&P) -> bool) -> Rc<Upstream<P>> {
        Rc::clone(self.find(wanted).as_ref().unwrap_or(&self.first.upstream))
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

    /// Since when none of the connections gives a sign of life, as [`Upstream::pauses_since`]
    /// says: a network may lose one of them, and carry the others.
    pub(super) fn pauses_since(&self, now: Instant, quiet: Duration) -> Option<Instant> {
        let first = self.first.pauses_since(now, quiet);
        if !self.has_further() {
            return first;
        }
        // All of them are asked, whatever the first one has said.
        let further = self.further.borrow();
        let ready = further.iter().filter(|it| it.upstream.standing() == Standing::Ready);
        let further = ready.map(|lane| lane.pauses_since(now, quiet));
        further.fold(first, |all, this| Some(all?.max(this?)))
    }

    /// Looks whether a connection gives no sign of life, and whether there should be one more, or
    /// one less. Call this every 100 ms or so.
    pub(super) fn tend(&self, now: Instant) {
        if self.has_further() && self.has_calls() {
            self.pauses_since(now, QUIET);
        }
        let Some(count) = &self.count else { return };
        // Dropped, it ends in order.
        self.leaving.borrow_mut().retain(|lane| lane.in_flight() != 0);
        let mut sum = self.first.activity(now);
        for lane in &*self.further.borrow() {
            let activity = lane.activity(now);
            sum.busy += activity.busy;
            sum.bytes = sum.bytes.saturating_add(activity.bytes);
            sum.in_flight += activity.in_flight;
        }
        let (advice, n) = {
            let mut count = count.borrow_mut();
            (count.look(now, sum), count.n())
        };
        let endpoint = self.first.upstream.address();
        match advice {
            Advice::Stay => return,
            Advice::Open(n_more) => {
                info!(%endpoint, connections = n, "messages wait for each other: opening {n_more}");
                let more = (0..n_more).map(|_| Lane::start(&self.start));
                self.further.borrow_mut().extend(more);
            }
            Advice::Close(n_less) => {
                info!(%endpoint, connections = n, "not needed: closing {n_less}");
                let mut further = self.further.borrow_mut();
                let n_left = further.len().saturating_sub(n_less);
                let gone = further.split_off(n_left);
                drop(further);
                gone.iter().for_each(|lane| lane.upstream.peer().retire(now));
                self.leaving.borrow_mut().extend(gone);
            }
        }
        self.has_further.set(!self.further.borrow().is_empty());
    }

    /// Ends the connections, after what waits to be written. Comes back when they have ended.
    pub(super) async fn close(&self) {
        let leaving = self.leaving.take();
        for upstream in self.all().iter().chain(leaving.iter().map(|lane| &lane.upstream)) {
            upstream.close().await;
        }
    }
}

#[cfg(test)]
mod tests;
