//! Drives a connection's state machine on a socket.
//!
//! The machine is pure; [`drive`] owns the socket, the clock and the task. All that a turn of the
//! event loop makes ready is decoded in one batch, and all that is to be sent leaves in one write
//! at the end of the turn: nothing is flushed per call, and nothing waits for company.
//!
//! Invariants:
//! - The machine is never borrowed while an event is handled, so that a handler may use any
//!   connection, this one included.
//! - Whoever changes a machine through [`Conn::with`] has its driver woken; nobody else flushes.

mod conn;
mod drive;
mod waits;

use std::time::Instant;

use bytes::BytesMut;

pub use conn::{Conn, SharedMachine, SyncConn};
pub use drive::{drive, drive_slices, linger, slice_len};
pub use waits::{Wait, Waits};

/// An event of a machine, and when the bytes were read that it came from.
#[derive(Clone, Copy, Debug)]
pub struct TimedEvent<E> {
    /// When the driver read the bytes.
    pub read_at: Instant,
    /// What happened.
    pub event: E,
}

/// A connection without I/O: bytes, instants and calls in; bytes and events out.
pub trait Machine {
    /// What the machine reports to its owner.
    type Event;
    /// Why the peer's bytes were refused.
    type Error: std::error::Error;

    /// Consumes the whole frames at the front of `input`, and leaves the rest.
    ///
    /// # Errors
    /// The peer broke the protocol; the connection is of no more use.
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), Self::Error>;
    /// Whether [`Machine::handle_bytes`] left whole frames in its input. It is called again once
    /// the events were handled, with no more input than that.
    fn has_backlog(&self) -> bool {
        false
    }
    /// For how many bytes room is to be kept in `input`, which holds the beginning of a long
    /// message: as many as that has in all, unless a peer must not claim so much. `None` if that
    /// is not known.
    fn room_for(&self, input: &BytesMut) -> Option<usize> {
        let _ = input;
        None
    }
    /// Does what was due at [`Machine::poll_timeout`].
    fn handle_timeout(&mut self, now: Instant);
    /// When [`Machine::handle_timeout`] wants to be called next.
    fn poll_timeout(&self) -> Option<Instant>;
    /// The next event, oldest first.
    fn poll_event(&mut self) -> Option<Self::Event>;
    /// Whether [`Machine::poll_event`] has something although no input came: taking bytes to be
    /// written may have made room.
    fn has_events(&self) -> bool {
        false
    }
    /// Bytes that wait to be written; the driver takes them off the front.
    fn transmit(&mut self) -> &mut BytesMut;
    /// Whether the connection is to be closed once [`Machine::transmit`] is empty.
    fn is_finished(&self) -> bool;
    /// Whether the connection has failed: what the socket does not take at once is not worth
    /// waiting for.
    fn is_broken(&self) -> bool {
        false
    }
    /// All bytes that waited were written.
    fn handle_written(&mut self, now: Instant) {
        let _ = now;
    }
    /// Where the driver notes how long it waits for the peer in the midst of a message. `None` if
    /// nobody wants to know.
    #[inline]
    fn waits(&mut self) -> Option<&mut Waits> {
        None
    }
    /// Whether a message has begun to come and is not whole although its bytes so far were
    /// consumed.
    #[inline]
    fn is_amid_message(&self) -> bool {
        false
    }
    /// Whether more input is welcome; `false` holds the peer back by TCP.
    fn wants_input(&self) -> bool {
        true
    }
}

/// How a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Ending<E: std::error::Error> {
    /// The machine said that it was done.
    #[error("closed")]
    Finished,
    /// The peer closed its side.
    #[error("the peer closed the connection")]
    PeerClosed,
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The peer broke the protocol.
    #[error("protocol error: {0}")]
    Protocol(E),
}

#[cfg(test)]
mod tests;
