//! Keeps one connection to one endpoint: connects, drives, reconnects, and says what state it is
//! in.
//!
//! Invariants:
//! - At most one connection at a time, and at most one attempt at one.
//! - Every call that was pending on a connection is completed when that connection ends.
//! - When the last handle is dropped the connection finishes what is in flight, then closes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balance::Evidence;
use flow::Standing;
use flow::pause::PauseLook;
use link::{Conn, Ending, Machine, drive, linger};
use tokio::sync::Notify;
use tracing::{debug, info, warn};
use wire::{Backoff, Connection, Destination, Meter, TcpInfo, jitter};

use super::reconnects::{AttemptPermit, Down, Reconnects};
use super::{PeerProtocol, unreached};
use crate::connections::{Connections, Direction, Session, SessionActivity};
use crate::error::{CallError, Code};
use crate::traffic::EndpointTraffic;

/// First wait before another attempt; every further one in a row doubles it.
const MIN_BACKOFF: Duration = Duration::from_millis(50);
/// Longest wait before another attempt: what an endpoint that is back waits for its first call,
/// unless thousands are down.
const MAX_BACKOFF: Duration = Duration::from_secs(2);

const DOWN: &str = "endpoint is down; connecting again";

/// Why there is no connection.
struct WentDown {
    reason: String,
    /// The peer has said goodbye, and no call was lost.
    was_announced: bool,
}

/// A question whether a peer pauses is open for so long, and for so many times the way there and
/// back, if the peer pauses.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_RTTS: u32 = 4;

/// One endpoint as this worker sees it. Dropping it closes the connection in order.
pub struct Upstream<P: PeerProtocol>(Rc<UpstreamParts<P>>);

struct UpstreamParts<P: PeerProtocol> {
    peer: P,
    address: Rc<str>,
    connections: Connections,
    reconnects: Reconnects,
    /// Of all connections to the same endpoint.
    traffic: Arc<EndpointTraffic>,
    /// While it is down.
    down: RefCell<Option<Down>>,
    state: RefCell<Connectivity<P::Machine>>,
    /// Of the connection that is up, or of the last one.
    meter: RefCell<Option<Arc<Meter>>>,
    /// A change of `state`, for those who wait for a first connection.
    changed: Arc<Notify>,
    /// The next attempt need not wait any longer.
    soon: Notify,
    /// An attempt is due, and others come first.
    awaits_turn: Cell<bool>,
    dropped: Cell<bool>,
    /// Nothing of it is left but what asks.
    ended: Cell<bool>,
    /// Why a connection ended before all was written, or known to be: the last one that did.
    cut_off: RefCell<Option<Box<str>>>,
}

enum Connectivity<M> {
    /// The first attempt is under way, or the handshake.
    Connecting(Option<Conn<M>>),
    Ready(Conn<M>),
    /// The last attempt failed, or the connection broke; another attempt follows.
    Down(Box<str>),
}

impl<P: PeerProtocol> Upstream<P> {
    /// Begins to connect to `destination`. Its connections are in the table `connections`, and
    /// count in `traffic`. Must be called on a worker's runtime.
    pub fn start(
        peer: P,
        destination: Destination,
        connections: Connections,
        reconnects: Reconnects,
        traffic: &Arc<EndpointTraffic>,
    ) -> Self {
        let inner = Rc::new(UpstreamParts {
            peer,
            address: destination.to_string().into(),
            connections,
            reconnects,
            traffic: Arc::clone(traffic),
            down: RefCell::default(),
            state: RefCell::new(Connectivity::Connecting(None)),
            meter: RefCell::default(),
            changed: Arc::default(),
            soon: Notify::new(),
            awaits_turn: Cell::new(false),
            dropped: Cell::new(false),
            ended: Cell::new(false),
            cut_off: RefCell::default(),
        });
        let keeper = Rc::clone(&inner);
        tokio::task::spawn_local(async move {
            keeper.run(&destination).await;
            keeper.ended.set(true);
            keeper.changed.notify_waiters();
        });
        Self(inner)
    }

    /// The protocol's side of this endpoint.
    pub fn peer(&self) -> &P {
        &self.0.peer
    }

    /// Where it is, as `host:port`.
    pub fn address(&self) -> &Rc<str> {
        &self.0.address
    }

    /// Its state.
    pub fn standing(&self) -> Standing {
        match &*self.0.state.borrow() {
            Connectivity::Connecting(_) => Standing::Connecting,
            Connectivity::Ready(conn) if conn.look(P::is_ready) => Standing::Ready,
            Connectivity::Ready(_) | Connectivity::Down(_) => Standing::Down,
        }
    }

    /// Whether the peer answers. It is asked, so that the next look finds out.
    pub fn evidence(&self, now: Instant) -> Evidence {
        let Some(conn) = self.ready_conn() else { return Evidence::Gone };
        let signs = conn.look(P::signs);
        if signs.need_a_question(now) {
            conn.with(|machine| P::ask(machine, now));
        }
        signs.evidence(now)
    }

    /// The same, as far as it is known: the peer is not asked.
    pub fn known_evidence(&self, now: Instant) -> Evidence {
        let signs = self.ready_conn().map(|conn| conn.look(P::signs));
        signs.map_or(Evidence::Gone, |signs| signs.evidence(now))
    }

    /// Looks whether the peer pauses: a question is open for longer than an answer takes. To be
    /// asked only while there are calls: if nothing has come for `quiet`, it puts the question.
    /// While that is open it is put again now and then, as it may have got lost.
    pub fn look_for_pause(&self, now: Instant, quiet: Duration) -> PauseLook {
        let Some(conn) = self.ready_conn() else { return PauseLook::works(now) };
        let signs = conn.look(P::signs);
        let Some(since) = signs.unanswered_since else {
            if !signs.hint_at_a_pause(now, quiet) {
                return PauseLook::heard(now, signs.heard_at);
            }
            conn.with(|machine| P::ask(machine, now));
            return PauseLook::works_until(now, now + PAUSE);
        };
        if signs.need_a_further_question(now, since) {
            conn.with(|machine| P::ask(machine, now));
        }
        if now < since + PAUSE {
            return PauseLook::works_until(now, since + PAUSE);
        }
        let meter = self.0.meter.borrow();
        let info = meter.as_ref().and_then(|meter| meter.tcp_info());
        let rtt_us = info.and_then(|info| info.rtt_us()).unwrap_or_default();
        match since + Duration::from_micros(rtt_us.into()) * PAUSE_RTTS {
            answered_at if now < answered_at => PauseLook::works_until(now, answered_at),
            _ => PauseLook::pauses(now, since),
        }
    }

    /// The connection, if it takes calls now.
    ///
    /// # Errors
    /// [`Code::Unreachable`] with the reason.
    pub fn conn(&self) -> Result<Conn<P::Machine>, CallError> {
        match &*self.0.state.borrow() {
            Connectivity::Ready(conn) if conn.look(P::is_ready) => Ok(conn.clone()),
            Connectivity::Ready(_) => Err(self.unreachable("it takes no new calls")),
            Connectivity::Connecting(_) => Err(self.unreachable("still connecting")),
            Connectivity::Down(reason) => Err(self.unreachable(reason)),
        }
    }

    /// The same, where nobody wants to know the reason: to tell it takes time, and there may be
    /// thousands of endpoints that are down.
    pub fn ready_conn(&self) -> Option<Conn<P::Machine>> {
        match &*self.0.state.borrow() {
            Connectivity::Ready(conn) if conn.look(P::is_ready) => Some(conn.clone()),
            _ => None,
        }
    }

    /// The connection, waiting for the first attempt to succeed or fail.
    ///
    /// # Errors
    /// [`Code::Unreachable`] with the reason, or [`Code::Timeout`] at `deadline`.
    pub async fn connected(&self, deadline: Instant) -> Result<Conn<P::Machine>, CallError> {
        let began = Instant::now();
        loop {
            let changed = self.0.changed.notified();
            if self.standing() != Standing::Connecting {
                return self.conn();
            }
            if self.0.awaits_turn.get() {
                self.connect_soon();
            }
            if tokio::time::timeout_at(deadline.into(), changed).await.is_err() {
                return Err(self.unreachable(&self.waited_in_vain(began.elapsed())));
            }
        }
    }

    fn waited_in_vain(&self, waited: Duration) -> String {
        let Self(parts) = self;
        match &*parts.state.borrow() {
            Connectivity::Connecting(Some(_)) => {
                unreached::no_handshake(&parts.address, P::PROTOCOL, waited)
            }
            _ => unreached::no_connection(&parts.address, waited),
        }
    }

    /// The connection, at once if it takes calls `now`, and the time at which it was had.
    ///
    /// # Errors
    /// As [`Upstream::connected`].
    pub async fn conn_soon(
        &self,
        deadline: Instant,
        now: Instant,
    ) -> Result<(Conn<P::Machine>, Instant), CallError> {
        match self.conn() {
            Ok(conn) => Ok((conn, now)),
            Err(_) => Ok((self.connected(deadline).await?, Instant::now())),
        }
    }

    /// Calls in flight on the connection that is up.
    pub fn in_flight(&self) -> usize {
        self.look(P::in_flight).unwrap_or_default()
    }

    /// Looks at the connection that is up, whether it takes calls or not; `None` while there is
    /// none.
    pub fn look<R>(&self, look: impl FnOnce(&P::Machine) -> R) -> Option<R> {
        match &*self.0.state.borrow() {
            Connectivity::Ready(conn) => Some(conn.look(look)),
            Connectivity::Connecting(_) | Connectivity::Down(_) => None,
        }
    }

    /// What the kernel knows of the connection that is up, or was last.
    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        self.0.meter.borrow().as_ref().and_then(|meter| meter.tcp_info())
    }

    /// Bytes that have come and gone on the connection that is up, or was last.
    pub fn n_bytes(&self) -> u64 {
        let meter = self.0.meter.borrow();
        meter.as_ref().map_or(0, |meter| meter.bytes_read().wrapping_add(meter.bytes_written()))
    }

    /// Ends when [`Upstream::standing`] may have changed since it was made. It does not keep the
    /// connection alive.
    pub fn change(&self) -> impl Future<Output = ()> + use<P> {
        Arc::clone(&self.0.changed).notified_owned()
    }

    /// The endpoint is known to be there: if an attempt is due later, it is made now.
    pub fn connect_soon(&self) {
        // One that is under way may fail just now: then the next one follows at once.
        self.0.soon.notify_one();
    }

    /// Ends the connection, after what waits to be written, for good. Comes back when it has
    /// ended: with a failure if one broke before all was written, or known to be.
    pub async fn close(&self) -> Option<CallError> {
        self.begin_close();
        loop {
            let changed = self.0.changed.notified();
            if self.0.ended.get() {
                let reason = self.0.cut_off.take()?;
                return Some(CallError::new(Code::ConnectionBroken, reason).at(&self.0.address));
            }
            changed.await;
        }
    }

    fn begin_close(&self) {
        self.0.dropped.set(true);
        if let Connectivity::Ready(conn) | Connectivity::Connecting(Some(conn)) =
            &*self.0.state.borrow()
        {
            conn.with(|machine| P::close(machine, Instant::now()));
        }
        self.0.changed.notify_waiters();
    }

    fn unreachable(&self, reason: &str) -> CallError {
        CallError::new(Code::Unreachable, reason).at(&self.0.address)
    }
}

/// One connection, as the worker's table has it.
struct Made<P: PeerProtocol>(Conn<P::Machine>);

impl<P: PeerProtocol> Session for Made<P> {
    /// The calls in flight of a worker that drains need it to the last.
    fn drain(&self) {}

    /// Its driver keeps its time.
    fn check_time(&self, _: Instant) {}

    fn activity(&self) -> SessionActivity {
        self.0.look(P::activity)
    }

    fn waited(&self, now: Instant) -> Option<Duration> {
        Some(self.0.look(|machine| P::waited(machine, now)))
    }
}

impl<P: PeerProtocol> Drop for Upstream<P> {
    fn drop(&mut self) {
        self.begin_close();
    }
}

impl<P: PeerProtocol> UpstreamParts<P> {
    async fn run(&self, destination: &Destination) {
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        let (mut is_known, mut down_since) = (false, None);
        loop {
            let turn = self.turn(is_known).await;
            if self.dropped.get() {
                break;
            }
            // What connects and what serves is large, and there is none of it while an endpoint
            // that is down waits: there may be thousands of them.
            let timeout = self.peer.connect_timeout();
            let connect = Box::pin(destination.connect(P::PROTOCOL, timeout));
            let connected = tokio::select! {
                connected = connect => connected,
                () = self.until_dropped() => break,
            };
            drop(turn);
            // Both may have happened at once, and nobody would end what is served now.
            if self.dropped.get() {
                break;
            }
            let down = match connected {
                Ok(stream) => {
                    let was_ready = Cell::new(false);
                    let down = Box::pin(self.serve(stream, &was_ready)).await;
                    if was_ready.get() {
                        backoff.reset();
                        (is_known, down_since) = (true, None);
                    }
                    down
                }
                Err(error) => {
                    let reason = unreached::cannot_connect(destination, timeout, &error);
                    WentDown { reason, was_announced: false }
                }
            };
            if self.dropped.get() {
                debug!(endpoint = %self.address, "closed");
                break;
            }
            self.go_down(&down);
            let mut wait = backoff.next_wait();
            let down_for = down_since.get_or_insert_with(Instant::now).elapsed();
            if MAX_BACKOFF / 2 <= wait.max(down_for) {
                wait = wait.max(jitter(self.reconnects.longest_wait(MAX_BACKOFF)));
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.soon.notified() => {}
                () = self.until_dropped() => {}
            }
        }
        *self.state.borrow_mut() = Connectivity::Down("closed".into());
    }

    /// Waits until the next attempt may begin.
    async fn turn(&self, is_known: bool) -> AttemptPermit<'_> {
        let turn = Box::pin(self.reconnects.turn(is_known));
        self.awaits_turn.set(true);
        let turn = tokio::select! {
            biased;
            () = self.soon.notified() => AttemptPermit::first(),
            turn = turn => turn,
            () = self.until_dropped() => AttemptPermit::first(),
        };
        self.awaits_turn.set(false);
        turn
    }

    async fn until_dropped(&self) {
        while !self.dropped.get() {
            self.changed.notified().await;
        }
    }

    /// Drives one connection to its end, and says why it ended.
    async fn serve(&self, mut stream: Connection, was_ready: &Cell<bool>) -> WentDown {
        let _open = self.traffic.open();
        let conn = Conn::new(self.peer.machine(Instant::now()));
        let listed = Rc::new(Made::<P>(conn.clone()));
        self.connections.add(stream.facts(), stream.meter(), Direction::Upstream, &listed);
        *self.meter.borrow_mut() = Some(stream.meter());
        self.note_progress(&conn, was_ready);
        let ending = drive(&mut stream, &conn, |event| {
            let has_changed = self.peer.on_event(event);
            if !was_ready.get() {
                self.note_progress(&conn, was_ready);
            } else if has_changed {
                self.changed.notify_waiters();
            }
        })
        .await;
        let failure = match &ending {
            Ending::Finished => conn.look(P::failure),
            _ => None,
        };
        let n_unwritten = conn.with(|machine| machine.transmit().len());
        let is_whole = n_unwritten == 0 && !matches!(ending, Ending::Io(_));
        let reason = failure.unwrap_or_else(|| ending.to_string());
        if !is_whole {
            *self.cut_off.borrow_mut() = Some(reason.as_str().into());
        }
        // No call was lost.
        let was_announced =
            conn.look(|machine| self.peer.has_said_goodbye(machine) && P::in_flight(machine) == 0);
        let error = CallError::new(Code::ConnectionBroken, &*reason).at(&self.address);
        self.peer.on_end(&conn, &error);
        if matches!(ending, Ending::Finished) {
            // Calls do not wait for it.
            tokio::task::spawn_local(linger(stream));
        }
        WentDown { reason, was_announced }
    }

    fn note_progress(&self, conn: &Conn<P::Machine>, was_ready: &Cell<bool>) {
        let is_ready = conn.look(P::is_ready);
        let state = match is_ready {
            true => Connectivity::Ready(conn.clone()),
            false => Connectivity::Connecting(Some(conn.clone())),
        };
        let before = self.state.replace(state);
        if is_ready {
            was_ready.set(true);
            self.down.take();
            match before {
                Connectivity::Down(_) => info!(endpoint = %self.address, "connected again"),
                _ => debug!(endpoint = %self.address, "connected"),
            }
        } else if let Connectivity::Down(reason) = before {
            // Not ready before the handshake is through: nobody should wait for it a second time.
            *self.state.borrow_mut() = Connectivity::Down(reason);
        }
        self.changed.notify_waiters();
    }

    fn go_down(&self, down: &WentDown) {
        let WentDown { reason, was_announced } = down;
        self.down.borrow_mut().get_or_insert_with(|| self.reconnects.down());
        let before = self.state.replace(Connectivity::Down(reason.as_str().into()));
        match (before, was_announced) {
            (Connectivity::Down(_), _) => {}
            (_, false) => warn!(endpoint = %self.address, reason, "{DOWN}"),
            // The goodbye was told of.
            (_, true) => debug!(endpoint = %self.address, reason, "{DOWN}"),
        }
        self.changed.notify_waiters();
    }
}
