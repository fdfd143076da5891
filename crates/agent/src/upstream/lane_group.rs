//! Connections to one endpoint that share its calls: as many as were configured, or as many as
//! [`ConnectionCount`] finds that they need.
//!
//! Invariants:
//! - The first connection always stays; it stands for the endpoint.
//! - A connection that goes gets no new calls, and ends when its last one is answered.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use flow::connection_count::{Activity, Advice, ConnectionCount};
use tracing::info;
use wire::Conn;

use super::dubbo::{DubboClient, DubboPeer};
use super::{Standing, Upstream};
use crate::config::ConnectionLimit;
use crate::error::CallError;

/// Makes one connection.
pub(super) type Start = Rc<dyn Fn() -> Upstream<DubboPeer>>;

/// The connections.
pub(super) struct LaneGroup {
    first: Lane,
    further: RefCell<Vec<Lane>>,
    has_further: Cell<bool>,
    /// `None` if their number was configured.
    count: Option<RefCell<ConnectionCount>>,
    start: Start,
}

/// One of them.
struct Lane {
    upstream: Rc<Upstream<DubboPeer>>,
    seen: Cell<Seen>,
}

/// What a connection had done at the last look.
#[derive(Clone, Copy, Default)]
struct Seen {
    waited: Duration,
    bytes: u64,
}

impl Lane {
    fn start(start: &Start) -> Self {
        Self { upstream: Rc::new(start()), seen: Cell::default() }
    }

    fn in_flight(&self) -> usize {
        self.upstream.conn().map_or(0, |conn| conn.look(|machine| machine.0.in_flight()))
    }

    /// What it has done since the last look.
    fn activity(&self, now: Instant) -> Activity {
        let Ok(conn) = self.upstream.conn() else { return Activity::default() };
        let bytes = self.upstream.n_bytes();
        let (waited, in_flight) = conn.look(|it| (it.waited(now), it.0.in_flight()));
        let seen = Seen { waited, bytes };
        let before = self.seen.replace(seen);
        // A connection that was made again counts from zero.
        let bytes = seen.bytes.checked_sub(before.bytes).unwrap_or(seen.bytes);
        Activity { busy: seen.waited.saturating_sub(before.waited), bytes, in_flight }
    }
}

impl LaneGroup {
    /// Begins to connect. Must be called on a worker's runtime.
    pub(super) fn start(limit: ConnectionLimit, start: Start, now: Instant) -> Self {
        let (n_further, count) = match limit {
            ConnectionLimit::Fixed(n) => (n.get() - 1, None),
            ConnectionLimit::Auto { max } => {
                (0, Some(RefCell::new(ConnectionCount::new(max.get(), now))))
            }
        };
        let further: Vec<Lane> = (0..n_further).map(|_| Lane::start(&start)).collect();
        Self {
            first: Lane::start(&start),
            has_further: Cell::new(!further.is_empty()),
            further: further.into(),
            count,
            start,
        }
    }

    /// The connection that stands for the endpoint.
    pub(super) fn first(&self) -> &Rc<Upstream<DubboPeer>> {
        &self.first.upstream
    }

    /// The connection for a call: the one with the fewest in flight, of those that take calls.
    ///
    /// # Errors
    /// As [`Upstream::conn`].
    #[inline]
    pub(super) fn conn(&self) -> Result<Conn<DubboClient>, CallError> {
        match self.has_further.get() {
            false => self.first.upstream.conn(),
            true => self.least_loaded(),
        }
    }

    fn least_loaded(&self) -> Result<Conn<DubboClient>, CallError> {
        let further = self.further.borrow();
        let ready = std::iter::once(&self.first)
            .chain(&*further)
            .filter(|lane| lane.upstream.standing() == Standing::Ready);
        match ready.min_by_key(|lane| lane.in_flight()) {
            Some(lane) => lane.upstream.conn(),
            None => self.first.upstream.conn(),
        }
    }

    /// The upstreams that there are now.
    pub(super) fn all(&self) -> Vec<Rc<Upstream<DubboPeer>>> {
        let further = self.further.borrow();
        std::iter::once(&self.first)
            .chain(&*further)
            .map(|lane| Rc::clone(&lane.upstream))
            .collect()
    }

    /// Whether a call is in flight.
    pub(super) fn has_calls(&self) -> bool {
        self.first.in_flight() != 0 || self.further.borrow().iter().any(|it| it.in_flight() != 0)
    }

    /// Looks whether there should be one more, or one less. Call this every 100 ms or so.
    pub(super) fn tend(&self, now: Instant) {
        let Some(count) = &self.count else { return };
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
                // Dropped, they answer what is in flight and end in order.
                let gone = further.split_off(n_left);
                drop(further);
                drop(gone);
            }
        }
        self.has_further.set(!self.further.borrow().is_empty());
    }

    /// Ends the connections, after what waits to be written. Comes back when they have ended.
    pub(super) async fn close(&self) {
        for upstream in self.all() {
            upstream.close().await;
        }
    }
}
