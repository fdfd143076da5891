//! A call as a link takes it, and why one is not taken.

use dubbo_proto::Serialization;
use link_proto::{RequestOut, RouteId, SendError};

use crate::call::Call;
use crate::codec;
use crate::error::{CallError, Code};

/// A call as the link takes it.
pub(super) fn request_out<'a, M, P>(
    route: RouteId,
    serialization: Serialization,
    call: &Call<'a, M, P>,
    payload: link_proto::Payload<'a>,
) -> RequestOut<'a> {
    RequestOut {
        deadline: Some(call.times.deadline),
        meta: call.attachments,
        codec: codec::of(serialization),
        one_way: call.one_way,
        timed: call.clock.is_some() && !call.one_way,
        payload,
        ..RequestOut::new(route)
    }
}

/// An agent of a version that does not know whole requests finds fault with the route's method.
pub(super) fn not_taken_whole(error: CallError) -> CallError {
    if error.code != Code::ProviderRejected {
        return error;
    }
    let message = "the provider's agent is too old to take calls of Dubbo consumers; upgrade it";
    CallError::new(Code::Refused, message)
}

pub(super) fn refused(error: &SendError) -> CallError {
    let code = match error {
        SendError::NoCredit | SendError::BufferFull => Code::Overloaded,
        SendError::NotReady | SendError::Closing => Code::Unreachable,
        SendError::TooLarge { .. } | SendError::TooManyEntries { .. } => Code::BodyTooLarge,
        SendError::RoutesFull { .. } => Code::Refused,
        _ => Code::Internal,
    };
    let message = match error {
        SendError::TooLarge { .. } => format!(
            "{error}; the provider's agent limits arguments (max_body_bytes of its [link]), and \
             the link attachments: send less, or raise that key"
        ),
        _ => error.to_string(),
    };
    CallError::new(code, message)
}
