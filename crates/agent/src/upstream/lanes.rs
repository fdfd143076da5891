//! The connections to one endpoint: some for long messages, some for all others.
//!
//! A Dubbo reply cannot be cut into pieces, so a short one waits until a long one before it has
//! come whole. On a link a short one overtakes a long one, but not what the kernel has of it, and
//! that may be much. Calls that are long themselves, or whose replies have been long of late,
//! therefore get connections of their own. They are opened when they are first needed, and closed
//! when they have been idle for a while. How many of either there are is the matter of
//! [`LaneGroup`].

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balance::Evidence;
use flow::pause::PauseLook;
use wire::Conn;

use super::dubbo::DubboPeer;
use super::lane_group::{LaneGroup, Start, Unwell};
use super::{PeerProtocol, SharedSetup, Standing, Upstream};
use crate::error::CallError;
use crate::traffic::EndpointTraffic;

/// Connections for long messages that nobody has used for so long are closed.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The connections to one endpoint. It stands as the best one for short messages does: those for
/// long ones are closed when they idle, and while they are down their calls go with the others.
pub struct Lanes<P: PeerProtocol> {
    pub(super) short: LaneGroup<P>,
    long: RefCell<Option<Long<P>>>,
    setup: Rc<SharedSetup>,
    traffic: Arc<EndpointTraffic>,
    start: Start<P>,
}

/// The connections for long messages.
struct Long<P: PeerProtocol> {
    lanes: Rc<LaneGroup<P>>,
    used_at: Instant,
}

/// How long the messages of a call are, as far as that is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageLen {
    /// Of its request, in bytes.
    pub request: usize,
    /// Of its reply: what [`ExpectedLen`](crate::expected_len::ExpectedLen) says.
    pub reply: usize,
}

/// A connection that takes a call, and the time at which it was had.
pub struct ReadyLane<P: PeerProtocol> {
    /// Whose it is.
    pub upstream: Rc<Upstream<P>>,
    /// The connection.
    pub conn: Conn<P::Machine>,
    /// The time.
    pub now: Instant,
}

impl<P: PeerProtocol> Lanes<P> {
    /// Begins to connect, as `setup` says. `start` makes each connection, and `traffic` is what
    /// all workers have there. Must be called on a worker's runtime.
    pub(super) fn start(
        setup: Rc<SharedSetup>,
        traffic: Arc<EndpointTraffic>,
        start: impl Fn() -> Upstream<P> + 'static,
        now: Instant,
    ) -> Self {
        let (limit, start): (_, Start<P>) = (setup.now().connections, Rc::new(start));
        let short = LaneGroup::start(limit, Arc::clone(&traffic.short), Rc::clone(&start), now);
        Self { short, long: RefCell::default(), setup, traffic, start }
    }

    /// How they are set up.
    pub fn setup(&self) -> &Rc<SharedSetup> {
        &self.setup
    }

    /// Where it is, as `host:port`.
    pub fn address(&self) -> &Rc<str> {
        self.short.first().address()
    }

    /// Its state.
    pub fn standing(&self) -> Standing {
        self.short.standing()
    }

    /// Whether the peer answers, as [`Upstream::evidence`] says.
    pub fn evidence(&self, now: Instant) -> Evidence {
        self.short.evidence(now)
    }

    /// How many connections have something wrong, also of those for long messages.
    pub fn unwell(&self, now: Instant) -> Unwell {
        let mut unwell = self.short.unwell(now);
        if let Some(long) = &*self.long.borrow() {
            let long = long.lanes.unwell(now);
            unwell.n_down += long.n_down;
            unwell.n_silent += long.n_silent;
            unwell.n += long.n;
        }
        unwell
    }

    /// Looks whether it pauses on all connections, as [`Upstream::look_for_pause`] says.
    pub fn look_for_pause(&self, now: Instant, quiet: Duration) -> PauseLook {
        self.short.look_for_pause(now, quiet)
    }

    /// Why it takes no calls, if it does not.
    pub fn trouble(&self) -> Option<CallError> {
        self.short.trouble()
    }

    /// Waits until [`Lanes::standing`] may have changed.
    pub async fn changed(&self) {
        self.short.changed().await;
    }

    /// The endpoint is known to be there: if an attempt is due later, it is made now.
    pub fn connect_soon(&self) {
        self.short.connect_soon();
    }

    /// The connection for a call; `None` while it is opened for the first time.
    ///
    /// # Errors
    /// As [`Upstream::conn`].
    #[inline]
    pub fn conn(
        &self,
        len: MessageLen,
        now: Instant,
    ) -> Result<Option<Conn<P::Machine>>, CallError> {
        let picked;
        let lane = match self.is_long(len) || self.short.has_further() {
            false => self.short.first(),
            true => {
                picked = self.pick(len, now, |_| true);
                &picked
            }
        };
        match lane.conn() {
            Err(_) if lane.standing() == Standing::Connecting => Ok(None),
            conn => conn.map(Some),
        }
    }

    /// The same, waiting for the first attempt to succeed or fail, and only one that is `wanted`
    /// if there is any.
    ///
    /// # Errors
    /// As [`Upstream::connected`].
    pub async fn conn_soon(
        &self,
        len: MessageLen,
        deadline: Instant,
        now: Instant,
        wanted: impl Fn(&P) -> bool,
    ) -> Result<ReadyLane<P>, CallError> {
        let picked = self.pick(len, now, &wanted);
        if picked.standing() != Standing::Connecting {
            return ReadyLane::of(picked, deadline, now).await;
        }
        let first = ReadyLane::of(picked, deadline, now).await;
        if !self.is_long(len) {
            return first;
        }
        // Either the endpoint is there, and a connection for long messages can be asked for; or
        // that one has failed, and the others are left.
        let now = first.as_ref().map_or(now, |found| found.now);
        ReadyLane::of(self.pick(len, now, wanted), deadline, now).await.or(first)
    }

    /// The connection for a call, also if it is still opened: one that is `wanted`, if there is
    /// any.
    #[inline]
    pub fn pick(
        &self,
        len: MessageLen,
        now: Instant,
        wanted: impl Fn(&P) -> bool,
    ) -> Rc<Upstream<P>> {
        let long = if self.is_long(len) { self.long_lane(now, &wanted) } else { None };
        long.unwrap_or_else(|| match self.short.has_further() {
            true => self.short.pick(wanted),
            false => Rc::clone(self.short.first()),
        })
    }

    #[inline]
    fn is_long(&self, len: MessageLen) -> bool {
        self.setup.now().long_len <= len.request.max(len.reply)
    }

    /// A connection for long messages. `None` if there is none to be had: then they go with the
    /// others.
    #[cold]
    fn long_lane(&self, now: Instant, wanted: impl Fn(&P) -> bool) -> Option<Rc<Upstream<P>>> {
        if self.short.standing() != Standing::Ready {
            return None;
        }
        let mut long = self.long.borrow_mut();
        let long = long.get_or_insert_with(|| {
            let (limit, traffic) = (self.setup.now().connections, Arc::clone(&self.traffic.long));
            let lanes = LaneGroup::start(limit, traffic, Rc::clone(&self.start), now);
            Long { lanes: Rc::new(lanes), used_at: now }
        });
        long.used_at = now;
        long.lanes.find(wanted).or_else(|| long.lanes.connecting())
    }

    /// The first that is found among what `look` makes of the connections, also of those for long
    /// messages.
    pub(super) fn find_map<R>(
        &self,
        mut look: impl FnMut(&Rc<Upstream<P>>) -> Option<R>,
    ) -> Option<R> {
        self.short.find_map(&mut look).or_else(|| self.long.borrow().as_ref()?.lanes.find_map(look))
    }

    /// Opens and closes connections as the calls of late need them.
    pub(super) fn tend(&self, now: Instant) {
        let limit = self.setup.now().connections;
        self.short.tend(now, limit);
        let is_idle = |long: &Long<P>| {
            IDLE_TIME <= now.saturating_duration_since(long.used_at) && !long.lanes.has_calls()
        };
        if let Some(long) = &*self.long.borrow() {
            long.lanes.tend(now, limit);
        }
        let mut long = self.long.borrow_mut();
        // Dropped, it ends in order.
        drop(long.take_if(|long| is_idle(long)));
    }

    /// Ends the connections, after what waits to be written. Comes back when they have ended, with
    /// the failure of one that broke before.
    pub async fn close(&self) -> Option<CallError> {
        let long = self.long.take();
        let cut_off = self.short.close().await;
        match long {
            Some(long) => cut_off.or(long.lanes.close().await),
            None => cut_off,
        }
    }
}

impl Lanes<DubboPeer> {
    /// Most calls in flight, on each of them.
    pub fn max_in_flight(&self) -> usize {
        self.short.first().peer().max_in_flight()
    }

    /// How many calls that nobody waited for any more have ended so far: their replies came late,
    /// or the connection ended that they would have come on.
    pub fn late_ends(&self) -> u64 {
        let mut all = self.short.all_with_leaving();
        if let Some(long) = &*self.long.borrow() {
            all.append(&mut long.lanes.all_with_leaving());
        }
        let up = all.iter().filter_map(|it| it.look(|machine| machine.0.stats().stale_replies));
        up.fold(self.short.first().peer().late_ends_of_ended(), u64::wrapping_add)
    }
}

impl<P: PeerProtocol> ReadyLane<P> {
    async fn of(
        upstream: Rc<Upstream<P>>,
        deadline: Instant,
        now: Instant,
    ) -> Result<Self, CallError> {
        let (conn, now) = upstream.conn_soon(deadline, now).await?;
        Ok(Self { upstream, conn, now })
    }
}

#[cfg(test)]
mod tests;
