//! Event frames: heartbeats, and what a provider says about its connection.

use bytes::BytesMut;

use crate::frame::{Frame, Header};
use crate::{Serialization, Status};

/// What an event frame means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EventFrame {
    /// "Are you there?" Also what we take everything for that we do not know: the bodies that
    /// versions of Dubbo and its proxies put into heartbeats differ (null, one byte, none at all).
    Heartbeat,
    /// "R": send no new calls here.
    ReadOnly,
    /// "W": send calls again.
    Writeable,
}

impl EventFrame {
    pub(crate) fn from_body(body: &[u8]) -> Self {
        match Serialization::event_letter(body) {
            Some(b'R') => Self::ReadOnly,
            Some(b'W') => Self::Writeable,
            _ => Self::Heartbeat,
        }
    }
}

/// Asks the peer whether it is there.
pub(crate) fn write_heartbeat(serialization: Serialization, id: u64, out: &mut BytesMut) {
    let (serialization, _) = serialization.or_default();
    let body = serialization.null_body().unwrap_or_default();
    let header = Header {
        is_request: true,
        two_way: true,
        is_event: true,
        serialization,
        status: 0,
        id,
        body_len: body.len(),
    };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(body);
}

/// Answers the peer's heartbeat in the serialization that it chose.
pub(crate) fn write_heartbeat_answer(asked: &Frame, out: &mut BytesMut) {
    let serialization = asked.header.serialization.of_body(&asked.body);
    // In a serialization that is not known here, an empty body is the null that needs no codec.
    let body = serialization.null_body().unwrap_or_default();
    let header = Header {
        is_request: false,
        two_way: false,
        is_event: true,
        serialization,
        status: Status::Ok.to_u8(),
        id: asked.header.id,
        body_len: body.len(),
    };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(body);
}

/// Tells the consumers that no new call is welcome here.
pub(crate) fn write_readonly(serialization: Serialization, id: u64, out: &mut BytesMut) {
    let (serialization, _) = serialization.or_default();
    let body = serialization.readonly_body().unwrap_or_default();
    let header = Header {
        is_request: true,
        two_way: false,
        is_event: true,
        serialization,
        status: 0,
        id,
        body_len: body.len(),
    };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_events_apart() {
        for body in [&b""[..], b"N", b"\x00", b"null\n", &[0, 0, 0, 1, 0xaf], &[7; 100]] {
            assert_eq!(EventFrame::from_body(body), EventFrame::Heartbeat);
        }
        let sized = b"\0\0\0\x03\"R\"";
        for body in [&b"\x01R"[..], b"\"R\"\n", b"\"R\"", &[0, 0, 0, 2, 0x4a, b'R'], sized] {
            assert_eq!(EventFrame::from_body(body), EventFrame::ReadOnly);
        }
        assert_eq!(EventFrame::from_body(b"\x01W"), EventFrame::Writeable);
    }
}
