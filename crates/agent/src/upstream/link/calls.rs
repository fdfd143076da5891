//! How calls are sent on a link.

use std::time::Instant;

use bytes::Bytes;
use dubbo_proto::Serialization;
use link_proto::{CallId, RouteId};
use tokio::sync::oneshot;
use wire::Conn;

use super::request::{not_taken_whole, request_out};
use super::routes::RouteState;
use super::{LinkClient, LinkPeer};
use crate::args::ArgumentList;
use crate::call::{Outcome, Payload, ReplyTo, RoutedCall};
use crate::error::CallError;
use crate::memory::check_link_room;
use crate::offload::LONG_LEN;
use crate::route::RouteVariant;
use crate::stages::{Stage, enter};
use crate::upstream::{
    Credit, Lanes, LinkCall, MessageLen, ReadyLane, SentCall, encoded_offloaded, note_outcome,
    queued, sent,
};

/// The lengths of a call's messages, and what it is to a choice among links.
fn link_call<'a>(
    call: &RoutedCall<'a>,
    variant: &'a RouteVariant,
    credit: Option<&'a Credit>,
) -> LinkCall<'a> {
    let len = match call.payload {
        Payload::Json(args) => {
            MessageLen { request: args.len_in_bytes(), reply: call.method.reply_len.get() }
        }
        // A route of whole requests is that of many methods.
        Payload::Whole(whole) => MessageLen { request: whole.body.len(), reply: 0 },
    };
    LinkCall { service: &variant.service, credit, len }
}

/// A call on its way to a link, by a route that the peer has accepted.
struct LinkRequest<'a> {
    peer: &'a LinkPeer,
    conn: &'a Conn<LinkClient>,
    call: &'a RoutedCall<'a>,
    route: RouteId,
    /// How it is written: as was agreed for the route, or as a whole request is already.
    serialization: Serialization,
}

impl LinkRequest<'_> {
    /// Encodes arguments, which are short, and queues the call.
    #[inline]
    fn send_short(
        &self,
        args: &ArgumentList<'_>,
        now: Instant,
        token: ReplyTo,
    ) -> Result<CallId, CallError> {
        self.peer.scratch.with(|bytes| {
            args.encode(self.call.method, self.serialization, bytes)?;
            self.send(bytes.len(), bytes.as_slice().into(), now, token)
        })
    }

    /// Queues the call with a payload of so many bytes.
    fn send(
        &self,
        len: usize,
        payload: link_proto::Payload<'_>,
        now: Instant,
        token: ReplyTo,
    ) -> Result<CallId, CallError> {
        check_link_room(self.conn, len).map_err(|error| error.at(&self.peer.address))?;
        let request = request_out(self.route, self.serialization, self.call, payload);
        self.peer.send(self.conn, now, request, token)
    }
}

/// Sends a call, with the credit that it has, if that can be done at once, as
/// [`AnyUpstream::begin`](crate::upstream::AnyUpstream::begin) says.
///
/// # Errors
/// Why it was not sent.
pub fn begin(
    lanes: &Lanes<LinkPeer>,
    call: &RoutedCall<'_>,
    variant: &RouteVariant,
    credit: Option<&Credit>,
) -> Result<Option<SentCall>, CallError> {
    let Payload::Json(args) = call.payload else { return Ok(None) };
    let (link_call, now) = (link_call(call, variant, credit), call.times.now);
    if call.one_way || LONG_LEN <= link_call.len.request {
        return Ok(None);
    }
    let upstream = lanes.pick_link(&link_call, now);
    let Some(conn) = upstream.ready_conn() else { return Ok(None) };
    let peer = upstream.peer();
    let (route, RouteState::Accepted(serialization)) = peer.route(&conn, call.method, variant)?
    else {
        return Ok(None);
    };
    let (task, outcome) = oneshot::channel();
    enter(call.clock, Stage::Encode);
    let request = LinkRequest { peer, conn: &conn, call, route, serialization };
    let id = request.send_short(args, now, ReplyTo::Task(task))?;
    queued(&conn, call.clock);
    Ok(Some(SentCall::by_link(outcome, conn, id)))
}

/// Makes a call, with the credit that it has, and waits for its outcome.
pub async fn call(
    lanes: &Lanes<LinkPeer>,
    call: &RoutedCall<'_>,
    variant: &RouteVariant,
    credit: Option<&Credit>,
) -> Outcome {
    let (deadline, link_call) = (call.times.deadline, link_call(call, variant, credit));
    let ReadyLane { upstream, conn, mut now } =
        lanes.link_soon(&link_call, deadline, call.times.now).await?;
    let peer = upstream.peer();
    let (route, agreed) = match peer.route(&conn, call.method, variant)? {
        (id, RouteState::Accepted(serialization)) => (id, serialization),
        _ => {
            let settled = peer.settled_route(&conn, call.method, variant, deadline).await;
            now = Instant::now();
            let error = |error| match call.payload {
                Payload::Json(_) => error,
                Payload::Whole(_) => not_taken_whole(error),
            };
            settled.map_err(|it| error(it).at(&peer.address))?
        }
    };
    let serialization = match call.payload {
        Payload::Json(_) => agreed,
        Payload::Whole(whole) => whole.serialization,
    };
    let (task, outcome) = oneshot::channel();
    let token = ReplyTo::Task(task);
    enter(call.clock, Stage::Encode);
    let request = LinkRequest { peer, conn: &conn, call, route, serialization };
    let id = match call.payload {
        Payload::Json(args) if link_call.len.request < LONG_LEN => {
            request.send_short(args, now, token)?
        }
        Payload::Json(args) => {
            let bytes = encoded_offloaded(args, call, serialization, &conn, &peer.threads).await?;
            // Meanwhile the worker may have forgotten the route, and given its number away.
            peer.check_still(call.method, variant, (route, serialization))?;
            request.send(bytes.len(), Bytes::from(bytes).into(), Instant::now(), token)?
        }
        Payload::Whole(whole) => {
            request.send(whole.body.len(), whole.body.clone().into(), now, token)?
        }
    };
    queued(&conn, call.clock);
    if call.one_way {
        return sent(&peer.address);
    }
    let outcome = SentCall::by_link(outcome, conn, id).await;
    note_outcome(call, &outcome);
    outcome
}
