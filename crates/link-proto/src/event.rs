//! What a connection tells its driver.

use crate::{
    CallId, Credits, DefinedRoute, GoAwayReason, LinkError, Meta, PeerHello, PoolId, RouteDef,
    RouteId, Status,
};
use bytes::Bytes;
use std::time::Duration;

/// Something happened on a link. Events come in the order of the frames that caused them.
#[derive(Debug)]
pub enum Event<T> {
    /// The peer's HELLO came: a client may define routes and send requests from now on.
    Ready(PeerHello),
    /// Server: the client defined a route. To be answered by
    /// [`accept_route`](crate::Connection::accept_route) or
    /// [`refuse_route`](crate::Connection::refuse_route), at any time; requests may come before.
    Defined {
        /// Its number: one more than the highest before, or one whose old meaning is over; and
        /// which definition of it this is.
        route: DefinedRoute,
        /// What it stands for.
        def: Box<RouteDef>,
    },
    /// Client: the server offers this route. May come again, when the server changes its mind.
    RouteAccepted {
        /// Which.
        route: RouteId,
        /// Codec that the server's app wants for the arguments; 0 leaves it to the caller.
        codec: u8,
        /// Its calls need credits of this pool, once there were any.
        pool: Option<PoolId>,
    },
    /// Client: the server does not offer this route, for now.
    RouteRefused {
        /// Which.
        route: RouteId,
        /// Why, usually [`Status::NOT_FOUND_SERVICE`].
        status: Status,
        /// The same for people.
        text: String,
    },
    /// Server: a call came, whole.
    Request {
        /// To answer it by [`respond`](crate::Connection::respond).
        id: CallId,
        /// A route that was [`Defined`](Event::Defined) before.
        route: RouteId,
        /// Codec of the payload.
        codec: u8,
        /// Time that the caller has left, as of when it sent this.
        timeout: Option<Duration>,
        /// Metadata.
        meta: Meta,
        /// Arguments.
        payload: Bytes,
        /// No answer is wanted, and none will be sent.
        one_way: bool,
        /// [`Item`](Event::Item)s follow, until [`ItemsEnd`](Event::ItemsEnd).
        stream_in: bool,
        /// Items may be sent by [`send_item`](crate::Connection::send_item) before the answer.
        stream_out: bool,
        /// The caller would like to know how long the app took.
        timed: bool,
    },
    /// An item of a stream came, whole. To be told to
    /// [`item_taken`](crate::Connection::item_taken) when the app has taken it.
    Item {
        /// The stream's call, which has not ended yet.
        id: CallId,
        /// Codec of the payload.
        codec: u8,
        /// The item.
        payload: Bytes,
    },
    /// Server: the client sends no more items on this stream.
    ItemsEnd {
        /// The stream's call.
        id: CallId,
    },
    /// An item can be sent on this stream again, after
    /// [`can_send_item`](crate::Connection::can_send_item) was false. May come from
    /// [`transmit`](crate::Connection::transmit), too.
    Writable {
        /// The stream's call.
        id: CallId,
    },
    /// Client: a call ended with this answer.
    Response {
        /// What was given to [`send_request`](crate::Connection::send_request).
        token: T,
        /// Outcome; it says what the payload is.
        status: Status,
        /// Codec of the payload.
        codec: u8,
        /// Metadata.
        meta: Meta,
        /// Reply, or the text of an error.
        payload: Bytes,
    },
    /// Client: a call's deadline passed. The server was told with a CANCEL.
    Expired {
        /// What was given to [`send_request`](crate::Connection::send_request).
        token: T,
    },
    /// Server: the client gave this call up, or one of its items was refused as too large. An
    /// answer to it would be ignored.
    Cancelled {
        /// As in the [`Request`](Event::Request).
        id: CallId,
    },
    /// Client: so many calls may be in flight from now on.
    Window(u32),
    /// Client: so many calls of a pool may be in flight from now on.
    Credits {
        /// Which pool.
        pool: PoolId,
        /// How many.
        credits: Credits,
    },
    /// Client: the app of a pool gives no sign of life, or gives some again.
    Pause {
        /// Which pool.
        pool: PoolId,
        /// Whether it pauses.
        pauses: bool,
    },
    /// Server: calls wait at the client for credits of a pool.
    Demand {
        /// Which pool.
        pool: PoolId,
        /// How many wait.
        n_waiting: u32,
        /// How many CREDITs of the pool the client had read.
        n_seen: u32,
    },
    /// The peer begins (client) or takes (server) no more calls on this link; with a fatal reason
    /// a [`Dead`](Event::Dead) follows.
    GoAway {
        /// Why.
        reason: GoAwayReason,
        /// The same for people.
        text: String,
    },
    /// The link is over. A client's driver drains the pending calls now.
    Dead(LinkError),
}
