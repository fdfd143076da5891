//! The state machine of one link, for both sides. What only one side does is in `client` and
//! `server`, frames come in through `frames`, items of streams are in `streams`; here are the
//! rest of the interface, keepalive and the end.
//!
//! Invariants:
//! - Payloads are not copied out of the input, but for short items of streams.
//! - Every token comes back exactly once: by an event, by `cancel`, by `drain_pending`, or, for a
//!   one-way call, it is dropped when the call was taken.
//! - After a failure nothing is accepted or sent, but for a last GOAWAY.

mod calls;
mod client;
mod core;
mod credits;
mod frames;
mod in_place;
mod owed;
mod server;
mod streams;

use self::client::ClientSide;
use self::core::Core;
pub use self::in_place::InPlace;
use self::in_place::Nobody;
use self::server::ServerSide;
use self::streams::Fill;
use crate::route::Ack;
use crate::{
    CallId, CompressionTotals, Config, DefinedRoute, Event, GoAwayReason, LinkError, PeerHello,
    Reply, RequestOut, RouteDef, RouteId, SendError, Status,
};
use bytes::BytesMut;
use std::time::Instant;

/// One side of a link. `T` is what a client wants back with each call's outcome; a server never
/// makes one.
///
/// A driver gives it bytes and instants and takes bytes and events, as the crate's page shows.
#[derive(Debug)]
pub struct Connection<T> {
    core: Core<T>,
    side: ConnectionSide<T>,
}

#[derive(Debug)]
enum ConnectionSide<T> {
    Client(ClientSide<T>),
    Server(ServerSide),
}

impl<T> Connection<T> {
    /// The side that connected and will send calls. Its HELLO is ready to be transmitted.
    pub fn client(config: Config, now: Instant) -> Self {
        let core = Core::new(config, now, false);
        Self { side: ConnectionSide::Client(ClientSide::new()), core }
    }

    /// The side that accepted and will answer calls. Its HELLO is ready to be transmitted.
    pub fn server(config: Config, now: Instant) -> Self {
        let core = Core::new(config, now, true);
        Self { side: ConnectionSide::Server(ServerSide::new(core.config.window)), core }
    }

    /// Takes all whole frames off the front of `input`. What is left is the beginning of a frame,
    /// at most 128 KiB and 16 bytes long when whole; or more, if
    /// [`has_backlog`](Self::has_backlog) says so. Once the link is finished, bytes are dropped.
    ///
    /// # Errors
    /// The peer broke the protocol, or ended the link with a fatal GOAWAY. The link is over and
    /// [`Event::Dead`] says so too; `input` was emptied. A GOAWAY for the peer may be left to be
    /// transmitted.
    pub fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), LinkError> {
        self.handle_bytes_with(now, input, &mut Nobody)
    }

    /// As [`handle_bytes`](Self::handle_bytes); calls of the plain kind are handled by `in_place`,
    /// the others come as events.
    ///
    /// # Errors
    /// As [`handle_bytes`](Self::handle_bytes).
    pub fn handle_bytes_with(
        &mut self,
        now: Instant,
        input: &mut BytesMut,
        in_place: &mut impl InPlace<T>,
    ) -> Result<(), LinkError> {
        self.core.has_backlog = false;
        if let Some(error) = self.core.failed {
            input.clear();
            return Err(error);
        }
        if self.is_finished() {
            input.clear();
            return Ok(());
        }
        if !input.is_empty() {
            self.core.heard(now);
        }
        if let Err(error) = self.handle_frames(now, input, in_place) {
            input.clear();
            self.fail(error);
            return Err(error);
        }
        self.settle();
        self.check_invariants();
        Ok(())
    }

    /// Does what is due at `now`: deadlines of calls, keepalive, the handshake's time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.core.failed.is_some() || self.is_finished() {
            return;
        }
        match &mut self.side {
            ConnectionSide::Client(client) => client.expire(&mut self.core, now),
            ConnectionSide::Server(server) => server.expire(&mut self.core, now),
        }
        if self.core.alarm <= now {
            self.handle_alarm(now);
        }
        self.settle();
        self.check_invariants();
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next, at the latest. It may
    /// turn out that nothing was due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.core.failed.is_some() || self.is_finished() {
            return None;
        }
        let earliest = match &self.side {
            ConnectionSide::Client(client) => client.earliest(),
            ConnectionSide::Server(server) => server.earliest_due(),
        };
        Some(earliest.map_or(self.core.alarm, |earliest| earliest.min(self.core.alarm)))
    }

    /// The next event, until there is none. To be drained after each `handle_*`.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event<T>> {
        self.core.events.pop_front()
    }

    /// Whether there is an event for [`poll_event`](Self::poll_event).
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.core.events.is_empty()
    }

    /// Whether whole frames were left in the input, since those before them unpacked to a lot, or
    /// led to many events. The driver takes the events, and then calls
    /// [`handle_bytes`](Self::handle_bytes) again, with or without more input.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.core.has_backlog
    }

    /// What compression has done; `None` if it is not in use.
    pub fn compression(&self) -> Option<CompressionTotals> {
        self.core.has_lz4.then_some(self.core.meter.done)
    }

    /// The bytes to be written. The driver removes from the front what it wrote, and appends
    /// nothing. Long messages and items are moved in part by part whenever this is called, which
    /// may cause an [`Event::Writable`]: a driver of streams looks for events after this, too.
    #[inline]
    pub fn transmit(&mut self) -> &mut BytesMut {
        self.core.add_owed(&self.side);
        self.settle();
        let Core { outbox, streams, events, meter, .. } = &mut self.core;
        outbox.fill(&mut Fill { side: &mut self.side, streams, events }, meter)
    }

    /// Whether the link is over for good and nothing is left to be written: close the socket.
    pub fn is_finished(&self) -> bool {
        let over = self.core.failed.is_some()
            || match &self.side {
                ConnectionSide::Client(client) => client.is_done(),
                ConnectionSide::Server(server) => server.is_done(),
            };
        over && self.core.outbox.is_empty()
    }

    /// Why the link failed, if it did.
    pub fn failure(&self) -> Option<LinkError> {
        self.core.failed
    }

    /// Client: whether a new call may be sent if there is credit and room in the buffer. Server:
    /// whether new calls are taken.
    pub fn is_accepting(&self) -> bool {
        self.core.failed.is_none()
            && self.core.peer.is_some()
            && match &self.side {
                ConnectionSide::Client(client) => !client.is_closing(),
                ConnectionSide::Server(server) => !server.is_closing(),
            }
    }

    /// Calls that have not ended, including those of which parts are on their way.
    #[inline]
    pub fn in_flight(&self) -> usize {
        match &self.side {
            ConnectionSide::Client(client) => client.in_flight(),
            ConnectionSide::Server(server) => server.in_flight(),
        }
    }

    /// Client: how many calls may be in flight, 0 before the link is ready. Server: the window
    /// that it granted last.
    #[inline]
    pub fn window(&self) -> usize {
        match &self.side {
            ConnectionSide::Client(client) => client.window(),
            ConnectionSide::Server(server) => server.window(),
        }
    }

    /// Bytes that wait to be written.
    #[inline]
    pub fn buffered_bytes(&self) -> usize {
        self.core.outbox.buffered_bytes()
    }

    /// Those of them that short messages overtake: the parts of long messages that have not had
    /// their turn yet.
    #[inline]
    pub fn overtakable_bytes(&self) -> usize {
        self.core.outbox.queued_bytes()
    }

    /// Bytes that unfinished messages from the peer have announced.
    pub fn reassembly_bytes(&self) -> usize {
        self.core.budget.used()
    }

    /// Bytes of memory that unfinished messages from the peer take.
    pub fn assembly_held(&self) -> usize {
        self.core.budget.held()
    }

    /// Gives up the message in parts that takes most memory. `text` tells its caller why: with
    /// [`Status::OVERLOADED`] that of a request, with [`Status::TOO_LARGE`] that of an answer.
    /// `false` if there is none.
    pub fn shed_parts(&mut self, text: &str) -> bool {
        match &mut self.side {
            ConnectionSide::Client(client) => client.shed_parts(&mut self.core, text),
            ConnectionSide::Server(server) => server.shed_parts(&mut self.core, text),
        }
    }

    /// Whether the driver is to stop reading until more was written: the client asks faster than
    /// it takes answers, or sends PINGs and takes none. Never true on a client, since two sides
    /// that both stop would never go on.
    #[inline]
    pub fn is_congested(&self) -> bool {
        let max_len = self.core.config.max_buffered_bytes;
        matches!(self.side, ConnectionSide::Server(_))
            && (max_len <= self.core.outbox.buffered_bytes() || self.core.owed.is_flooded())
    }

    /// Sends a PING, unless the handshake is not through or a PING is unanswered: for a side that
    /// wants to know sooner than by the keepalive whether its peer answers.
    pub fn ask(&mut self, now: Instant) {
        let core = &mut self.core;
        if core.failed.is_none() && core.peer.is_some() && !core.ping_sent {
            core.ping(now);
        }
    }

    /// When something came from the peer last.
    pub fn heard_at(&self) -> Instant {
        self.core.last_heard
    }

    /// When the PING was sent to which nothing has come since, if there is one. There is one at a
    /// time: every peer answers it.
    pub fn unanswered_since(&self) -> Option<Instant> {
        self.core.ping_sent.then_some(self.core.pinged_at)
    }

    /// What the peer said in its HELLO, once it came.
    pub fn peer(&self) -> Option<&PeerHello> {
        self.core.peer.as_ref()
    }

    /// Begins an orderly end. Server: new calls are refused from now on, and the link is finished
    /// when the client has seen its calls in flight end. Client: no calls are sent from now on,
    /// and the link is finished when those in flight have ended.
    pub fn go_away(&mut self, reason: GoAwayReason) {
        debug_assert!(!reason.is_fatal(), "fatal reasons are this crate's own");
        if self.core.failed.is_some() {
            return;
        }
        match &mut self.side {
            ConnectionSide::Client(client) => client.close(reason),
            ConnectionSide::Server(server) => server.close(&mut self.core, reason),
        }
        self.settle();
    }

    /// Client: says once what some calls have in common.
    ///
    /// # Errors
    /// The link is not ready or closing, is full of routes, or a field is over its limit.
    pub fn define(&mut self, def: &RouteDef) -> Result<RouteId, SendError> {
        match &mut self.side {
            ConnectionSide::Client(client) => client.define(&mut self.core, def),
            ConnectionSide::Server(_) => Err(SendError::Closing),
        }
    }

    /// Client: gives the number of a route that is no longer needed to another.
    ///
    /// Calls of the old route that are in flight are not touched. What the server still says
    /// about the old route is dropped: the next [`Event::RouteAccepted`] or
    /// [`Event::RouteRefused`] is about the new one.
    ///
    /// # Errors
    /// The link is closing, the route was never defined, or a field is over its limit.
    pub fn redefine(&mut self, route: RouteId, def: &RouteDef) -> Result<(), SendError> {
        match &mut self.side {
            ConnectionSide::Client(client) => client.redefine(&mut self.core, route, def),
            ConnectionSide::Server(_) => Err(SendError::Closing),
        }
    }

    /// Client: whether a call could be sent now.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub fn can_send(&self) -> Result<(), SendError> {
        match &self.side {
            ConnectionSide::Client(client) => client.can_send(&self.core),
            ConnectionSide::Server(_) => Err(SendError::Closing),
        }
    }

    /// Client: sends a call, and keeps `token` until it has ended. The token of a one-way call is
    /// dropped. A deadline that has passed counts as one that is about to. The id that comes back
    /// names the call in [`cancel`](Self::cancel) and in everything about its streams.
    ///
    /// # Errors
    /// The call cannot be sent here and now; nothing was sent, and the token comes back.
    #[inline]
    pub fn send_request(
        &mut self,
        now: Instant,
        request: RequestOut<'_>,
        token: T,
    ) -> Result<CallId, (T, SendError)> {
        match &mut self.side {
            ConnectionSide::Client(client) => {
                client.send_request(&mut self.core, now, request, token)
            }
            ConnectionSide::Server(_) => Err((token, SendError::Closing)),
        }
    }

    /// Client: gives a call up and tells the server. `None` if the call has ended.
    pub fn cancel(&mut self, id: CallId) -> Option<T> {
        let ConnectionSide::Client(client) = &mut self.side else {
            return None;
        };
        let token = client.cancel(&mut self.core, id);
        self.settle();
        token
    }

    /// Client: takes the tokens of all calls that have not ended, because the connection broke or
    /// the link is dead. The link is over after this.
    pub fn drain_pending(&mut self) -> impl Iterator<Item = T> + use<T> {
        if self.core.failed.is_none() {
            self.core.failed = Some(LinkError::Closed);
            self.core.outbox.clear();
        }
        self.core.end_all_streams();
        self.core.outbox.clear_long();
        match &mut self.side {
            ConnectionSide::Client(client) => client.drain(&mut self.core),
            ConnectionSide::Server(server) => {
                server.abandon(&mut self.core);
                client::no_tokens()
            }
        }
    }

    /// Server: whether the client still waits for the answer to this call. Never of a one-way
    /// call.
    pub fn is_open(&self, id: CallId) -> bool {
        match &self.side {
            ConnectionSide::Client(_) => false,
            ConnectionSide::Server(server) => server.is_open(id),
        }
    }

    /// Server: answers a route's definition: it is offered, and its app wants arguments in this
    /// codec (0: as the caller likes). May be said again later, also after a refusal.
    pub fn accept_route(&mut self, route: DefinedRoute, codec: u8) {
        if let ConnectionSide::Server(server) = &mut self.side {
            let ack = Ack { codec, status: Status::OK, pool: self.core.no_pool(), text: "" };
            server.answer_route(&mut self.core, route, ack);
        }
    }

    /// Server: answers a route's definition: it is not offered. Calls on it are answered with
    /// this status and text until it is accepted. The text is cut at 1024 bytes.
    pub fn refuse_route(&mut self, route: DefinedRoute, status: Status, text: &str) {
        debug_assert!(status != Status::OK, "a refusal has an error");
        if let ConnectionSide::Server(server) = &mut self.side {
            let ack = Ack { codec: 0, status, pool: None, text };
            server.answer_route(&mut self.core, route, ack);
        }
    }

    /// Server: answers a call. Ignored if the call was cancelled, answered or one-way; returns
    /// whether it was none of these, so that something is sent. An answer
    /// over the client's message limit becomes [`Status::TOO_LARGE`]. It is the end of the call's
    /// streams: what is left of an unfinished item is dropped, so one that wants all of its items
    /// to arrive answers when [`items_unsent`](Self::items_unsent) is false.
    #[inline]
    pub fn respond(&mut self, id: CallId, reply: Reply<'_>) -> bool {
        match &mut self.side {
            ConnectionSide::Server(server) => server.respond(&mut self.core, id, reply),
            ConnectionSide::Client(_) => false,
        }
    }

    /// Server: lets the client have up to `window` calls in flight, at most 65536. 0 stops it.
    /// Calls that are in flight go on, so there may be more for a while.
    pub fn set_window(&mut self, window: u32) {
        if let ConnectionSide::Server(server) = &mut self.side {
            server.set_window(&mut self.core, window);
        }
    }

    fn handle_alarm(&mut self, now: Instant) {
        let core = &mut self.core;
        if core.peer.is_none() {
            self.fail(LinkError::HandshakeTimeout);
        } else if now < core.last_heard + core.config.keepalive {
            core.alarm = core.last_heard + core.config.keepalive;
        } else if !core.ping_sent {
            core.ping(now);
        } else if self.is_congested() && self.core.outbox.take_progress() {
            // The driver does not read now, so silence says nothing; but the peer takes bytes.
            self.core.alarm = now + self.core.config.ping_timeout;
        } else {
            self.fail(LinkError::PeerSilent);
        }
    }

    /// Lets a closing client say its GOAWAY once nothing is in flight.
    #[inline]
    fn settle(&mut self) {
        if let ConnectionSide::Client(client) = &mut self.side {
            client.settle(&mut self.core);
        }
    }

    /// Ends the link, with a GOAWAY if the peer might read it.
    fn fail(&mut self, error: LinkError) {
        let core = &mut self.core;
        core.end_all_streams();
        core.outbox.clear_long();
        let reason = match error {
            LinkError::PeerFailed { .. } | LinkError::PeerSilent | LinkError::Closed => None,
            LinkError::HandshakeTimeout => Some(GoAwayReason::SILENT),
            LinkError::NoCommonVersion { .. } => Some(GoAwayReason::NO_COMMON_VERSION),
            _ => Some(GoAwayReason::PROTOCOL_ERROR),
        };
        match reason {
            Some(reason) => core.go_away(reason, &error.to_string()),
            None => core.outbox.clear(),
        }
        core.failed = Some(error);
        core.events.push_back(Event::Dead(error));
        if let ConnectionSide::Server(server) = &mut self.side {
            server.abandon(&mut self.core);
        }
    }

    /// Panics in a debug build if the state contradicts itself.
    #[inline]
    pub fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            self.core.outbox.check_invariants();
            match &self.side {
                ConnectionSide::Client(client) => client.check_invariants(&self.core),
                ConnectionSide::Server(server) => server.check_invariants(&self.core),
            }
        }
    }
}

#[cfg(test)]
mod tests;
