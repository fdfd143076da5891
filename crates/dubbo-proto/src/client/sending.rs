//! How calls are written, if there is room for them.

use std::time::Instant;

use super::{CallDeadline, ClientConnection, SendError};
use crate::frame::{HEADER_LEN, Header};
use crate::pending_calls::RequestId;
use crate::template::CallHeader;
use crate::{ProtoError, RequestTemplate, Serialization};

/// Requests of up to so many bytes are short.
const SHORT_LEN: usize = 4 << 10;

impl<T> ClientConnection<T> {
    /// Writes a call. Its token comes back with the reply, or when `deadline` passes: an
    /// `Instant`, or one that the provider is not told.
    ///
    /// # Errors
    /// The token and a [`SendError`] when the call was not accepted.
    #[inline]
    pub fn send(
        &mut self,
        now: Instant,
        template: &RequestTemplate,
        args: &[u8],
        extra: &[(&str, &str)],
        deadline: impl Into<CallDeadline>,
        token: T,
    ) -> Result<RequestId, (T, SendError)> {
        let CallDeadline { at: deadline, is_told } = deadline.into();
        if let Err(error) = self.check_room(true, args.len()) {
            return Err((token, error));
        }
        let id = self.pending.next_id();
        let is_told = is_told && self.config.tells_time_left;
        let time_left = is_told.then(|| deadline.saturating_duration_since(now));
        let header = CallHeader { id, two_way: true, time_left };
        let written = template.encode_within(header, args, extra, &mut self.out);
        if let Err(error) = written {
            return Err((token, SendError::Encode(error)));
        }
        self.pending.insert(deadline, token);
        self.wrote(now, template.serialization());
        Ok(id)
    }

    /// Writes a call that the provider does not answer.
    ///
    /// # Errors
    /// [`SendError`] when it was not accepted.
    pub fn send_one_way(
        &mut self,
        now: Instant,
        template: &RequestTemplate,
        args: &[u8],
        extra: &[(&str, &str)],
    ) -> Result<RequestId, SendError> {
        self.check_room(false, args.len())?;
        let id = self.slotless_id();
        template.encode(id, false, args, extra, &mut self.out)?;
        self.wrote(now, template.serialization());
        Ok(id)
    }

    /// Writes a call whose body is ready, as another consumer wrote it. Only the id is ours.
    ///
    /// # Errors
    /// The token and a [`SendError`] when the call was not accepted.
    pub fn send_body(
        &mut self,
        now: Instant,
        serialization: Serialization,
        body: &[u8],
        deadline: Instant,
        token: T,
    ) -> Result<RequestId, (T, SendError)> {
        if let Err(error) = self.check_room(true, body.len()) {
            return Err((token, error));
        }
        let id = self.pending.next_id();
        if let Err(error) = self.write_body(now, serialization, body, id, true) {
            return Err((token, error));
        }
        self.pending.insert(deadline, token);
        Ok(id)
    }

    /// The same for a call that the provider does not answer.
    ///
    /// # Errors
    /// [`SendError`] when it was not accepted.
    pub fn send_body_one_way(
        &mut self,
        now: Instant,
        serialization: Serialization,
        body: &[u8],
    ) -> Result<RequestId, SendError> {
        self.check_room(false, body.len())?;
        let id = self.slotless_id();
        self.write_body(now, serialization, body, id, false)?;
        Ok(id)
    }

    #[inline]
    fn check_room(&self, two_way: bool, len: usize) -> Result<(), SendError> {
        if !self.is_accepting() {
            return Err(SendError::NotAccepting);
        }
        if two_way && self.pending.is_full() {
            return Err(SendError::TooManyInFlight { max: self.config.max_in_flight });
        }
        let (buffered, is_short) = (self.out.len(), len <= SHORT_LEN);
        let max = if is_short { self.max_short() } else { self.config.max_buffered_bytes };
        if buffered < max { Ok(()) } else { Err(SendError::BufferFull { buffered, max }) }
    }

    fn write_body(
        &mut self,
        now: Instant,
        serialization: Serialization,
        body: &[u8],
        id: RequestId,
        two_way: bool,
    ) -> Result<(), SendError> {
        let (len, max) = (body.len(), self.config.max_request_len);
        if len > max {
            return Err(ProtoError::PayloadTooLong { len, max }.into());
        }
        let header = Header {
            is_request: true,
            two_way,
            is_event: false,
            serialization,
            status: 0,
            id: id.get(),
            body_len: body.len(),
        };
        self.out.reserve(HEADER_LEN + body.len());
        self.out.extend_from_slice(&header.encode());
        self.out.extend_from_slice(body);
        self.wrote(now, serialization.of_body(body));
        Ok(())
    }
}
