//! How calls are sent on a connection to a Dubbo provider.

use std::time::Instant;

use dubbo_proto::{
    CallDeadline, DEFAULT_PAYLOAD_LIMIT, ProtoError, RequestId, RequestTemplate, SendError,
};
use tokio::sync::oneshot;
use wire::Conn;

use super::{DubboClient, DubboPeer};
use crate::args::ArgumentList;
use crate::call::{
    Call, Encoded, Outcome, Payload, ReplyTo, RoutedCall, Times, UNTOLD, WholeBody, note_end,
};
use crate::error::{CallError, Code};
use crate::memory::check_room;
use crate::offload::LONG_LEN;
use crate::stages::{Stage, enter};
use crate::upstream::{
    CallForm, Lanes, MessageLen, ReadyLane, SentCall, encoded_offloaded, note_outcome, queued, sent,
};

/// A call with its arguments in JSON, on its way to a connection.
struct JsonRequest<'a> {
    peer: &'a DubboPeer,
    conn: &'a Conn<DubboClient>,
    call: &'a RoutedCall<'a>,
    form: CallForm<'a>,
}

impl JsonRequest<'_> {
    /// Encodes the arguments, which are short, and queues the call.
    #[inline]
    fn send_short(
        &self,
        args: &ArgumentList<'_>,
        now: Instant,
        to: Option<ReplyTo>,
    ) -> Result<RequestId, CallError> {
        self.peer.scratch.with(|bytes| {
            args.encode(self.call.method, self.form.serialization, bytes)?;
            self.send(bytes, now, to)
        })
    }

    /// Queues the call, its arguments encoded.
    fn send(
        &self,
        bytes: &[u8],
        now: Instant,
        to: Option<ReplyTo>,
    ) -> Result<RequestId, CallError> {
        let CallForm { variant, serialization, path, payload_limit } = self.form;
        let limited = |template: RequestTemplate| template.with_payload_limit(payload_limit);
        let own = match path {
            Some(path) => Some(limited(variant.template_for_path(serialization, path)?)),
            None if payload_limit == DEFAULT_PAYLOAD_LIMIT => None,
            None => Some(limited(variant.template(serialization)?.clone())),
        };
        let template = match &own {
            Some(own) => own,
            None => variant.template(serialization)?,
        };
        check_room(self.conn, bytes.len())?;
        let mut call = self.call.with(template, Encoded { serialization, bytes });
        call.times.now = now;
        send(self.conn, &call, to).map_err(|unsent| refused(&unsent.1).at(&self.peer.address))
    }
}

/// How long the messages of a call are. Arguments are about as long in any form.
fn message_len(call: &RoutedCall<'_>, args: &ArgumentList<'_>) -> MessageLen {
    MessageLen { request: args.len_in_bytes(), reply: call.method.reply_len.get() }
}

/// Sends a call, if that can be done at once, as
/// [`AnyUpstream::begin`](crate::upstream::AnyUpstream::begin) says.
///
/// # Errors
/// Why it was not sent.
pub fn begin(
    lanes: &Lanes<DubboPeer>,
    call: &RoutedCall<'_>,
    form: CallForm<'_>,
) -> Result<Option<SentCall>, CallError> {
    let Payload::Json(args) = call.payload else { return Ok(None) };
    let (len, now) = (message_len(call, args), call.times.now);
    if call.one_way || LONG_LEN <= len.request {
        return Ok(None);
    }
    let upstream = lanes.pick(len, now, |_| true);
    let Some(conn) = upstream.ready_conn() else { return Ok(None) };
    let (task, outcome) = oneshot::channel();
    enter(call.clock, Stage::Encode);
    let request = JsonRequest { peer: upstream.peer(), conn: &conn, call, form };
    let id = request.send_short(args, now, Some(ReplyTo::Task(task)))?;
    Ok(Some(SentCall::by_dubbo(outcome, conn, id, form.serialization)))
}

/// Makes a call and waits for its outcome.
pub async fn call(lanes: &Lanes<DubboPeer>, call: &RoutedCall<'_>, form: CallForm<'_>) -> Outcome {
    let args = match call.payload {
        Payload::Json(args) => args,
        Payload::Whole(whole) => return pass_on(lanes, &call.with((), whole)).await,
    };
    let len = message_len(call, args);
    let ReadyLane { upstream, conn, now } =
        lanes.conn_soon(len, call.times.deadline, call.times.now, |_| true).await?;
    let peer = upstream.peer();
    let (to, outcome) = caller(call.one_way);
    enter(call.clock, Stage::Encode);
    let (request, serialization) =
        (JsonRequest { peer, conn: &conn, call, form }, form.serialization);
    let id = match len.request < LONG_LEN {
        true => request.send_short(args, now, to)?,
        false => {
            let bytes = encoded_offloaded(args, call, serialization, &conn, &peer.threads).await?;
            request.send(&bytes, Instant::now(), to)?
        }
    };
    let Some(outcome) = outcome else { return sent(lanes.address()) };
    let outcome = SentCall::by_dubbo(outcome, conn, id, serialization).await;
    note_outcome(call, &outcome);
    outcome
}

/// Passes a whole request on and waits for its outcome.
pub async fn pass_on(lanes: &Lanes<DubboPeer>, call: &Call<'_, (), WholeBody<'_>>) -> Outcome {
    let request = call.payload.body.len();
    let len = MessageLen { request, reply: 0 };
    let ReadyLane { conn, now, .. } =
        lanes.conn_soon(len, call.times.deadline, call.times.now, |_| true).await?;
    check_room(&conn, request)?;
    let (to, outcome) = caller(call.one_way);
    let times = Times { now, ..call.times };
    let queued = send_whole(&conn, &Call { times, ..*call }, to);
    let id = queued.map_err(|unsent| refused(&unsent.1).at(lanes.address()))?;
    let Some(outcome) = outcome else { return sent(lanes.address()) };
    let outcome = SentCall::by_dubbo(outcome, conn, id, call.payload.serialization).await;
    note_end(call.clock, &outcome);
    outcome
}

/// A task that waits for the outcome of a call, unless nobody does.
fn caller(one_way: bool) -> (Option<ReplyTo>, Option<oneshot::Receiver<Outcome>>) {
    if one_way {
        return (None, None);
    }
    let (task, outcome) = oneshot::channel();
    (Some(ReplyTo::Task(task)), Some(outcome))
}

/// Why a call was not sent, and who waits for its outcome.
pub type NotSent = Box<(Option<ReplyTo>, SendError)>;

/// Queues a call on a connection. `to` is who waits for its outcome; nobody waits for a one-way
/// call.
///
/// # Errors
/// Why it was not queued.
#[inline]
pub fn send(
    conn: &Conn<DubboClient>,
    call: &Call<'_, &RequestTemplate, Encoded<'_>>,
    to: Option<ReplyTo>,
) -> Result<RequestId, NotSent> {
    debug_assert_eq!(call.one_way, to.is_none());
    let Call { method, payload: Encoded { bytes, .. }, attachments, times, .. } = *call;
    let Times { now, deadline } = times;
    let is_told = !attachments.contains(&UNTOLD);
    let deadline = CallDeadline { at: deadline, is_told };
    let others: Vec<(&str, &str)>;
    let attachments = match is_told {
        true => attachments,
        // It is for this agent.
        false => {
            others = attachments.iter().copied().filter(|one| *one != UNTOLD).collect();
            &others
        }
    };
    let sent = conn.with(|machine| match to {
        Some(to) => machine
            .0
            .send(now, method, bytes, attachments, deadline, to)
            .map_err(|(to, error)| Box::new((Some(to), error))),
        None => {
            let sent = machine.0.send_one_way(now, method, bytes, attachments);
            sent.map_err(|error| Box::new((None, error)))
        }
    })?;
    queued(conn, call.clock);
    Ok(sent)
}

/// The same for a whole request.
///
/// # Errors
/// As [`send`].
#[inline]
pub fn send_whole(
    conn: &Conn<DubboClient>,
    call: &Call<'_, (), WholeBody<'_>>,
    to: Option<ReplyTo>,
) -> Result<RequestId, NotSent> {
    debug_assert_eq!(call.one_way, to.is_none());
    let (WholeBody { serialization, body }, Times { now, deadline }) = (call.payload, call.times);
    let sent = conn.with(|machine| match to {
        Some(to) => machine
            .0
            .send_body(now, serialization, body, deadline, to)
            .map_err(|(to, error)| Box::new((Some(to), error))),
        None => {
            let sent = machine.0.send_body_one_way(now, serialization, body);
            sent.map_err(|error| Box::new((None, error)))
        }
    })?;
    queued(conn, call.clock);
    Ok(sent)
}

/// The failure of a call that could not be sent: nothing has been begun.
pub fn refused(error: &SendError) -> CallError {
    let code = match error {
        SendError::TooManyInFlight { .. } | SendError::BufferFull { .. } => Code::Overloaded,
        SendError::NotAccepting => Code::Unreachable,
        SendError::Encode(ProtoError::PayloadTooLong { len, max }) => return too_long(*len, *max),
        SendError::Encode(_) => Code::BadRequest,
    };
    CallError::new(code, error.to_string())
}

/// The failure of a request that is longer than its provider takes.
#[cold]
pub fn too_long(len: usize, max: usize) -> CallError {
    let message = format!(
        "a request of {len} bytes is over the provider's limit of {max} (parameter payload of the \
         endpoint, {DEFAULT_PAYLOAD_LIMIT} without it); send less, or raise payload there"
    );
    CallError::new(Code::BodyTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever reads the code knows whether another endpoint may be tried.
    #[test]
    fn each_refusal_to_send_has_its_code() {
        for (error, code) in [
            (SendError::TooManyInFlight { max: 1 }, Code::Overloaded),
            (SendError::BufferFull { buffered: 2, max: 1 }, Code::Overloaded),
            (SendError::NotAccepting, Code::Unreachable),
            (SendError::Encode(ProtoError::UnsupportedSerialization { id: 9 }), Code::BadRequest),
        ] {
            let failure = refused(&error);
            assert_eq!((failure.code, &*failure.message), (code, &*error.to_string()));
        }
        let failure = refused(&SendError::Encode(ProtoError::PayloadTooLong { len: 2, max: 1 }));
        assert_eq!(failure.code, Code::BodyTooLarge);
    }
}
