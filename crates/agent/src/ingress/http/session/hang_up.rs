//! Whether a caller of HTTP/1 has hung up while its call is under way: then the call is given up.
//!
//! A caller that has closed its socket, and one that has only ended its own direction and waits
//! for the answer, look the same: nothing more comes. So such a caller is sent an interim answer,
//! once, which every client of HTTP/1.1 steps over. The one that has gone resets the connection
//! then; the other gets its answer.
//!
//! Invariants:
//! - The interim answer is written where nothing is: behind the answer to the request before, and
//!   before any byte of the answer that it is about.
//! - Once an answer has begun, it is its bytes that tell: the socket refuses them.

use std::cell::Cell;
use std::io;
use std::task::{Context, Poll};

use wire::Connection;

/// What is sent to a caller of whom nothing more comes. Of all interim answers this is the one
/// that clients know best.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Watches one connection.
#[derive(Default)]
pub(super) struct HangUpWatch {
    /// The socket alone says that nothing more comes.
    is_possible: Cell<bool>,
    state: Cell<WatchState>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum WatchState {
    /// No call is under way, or its answer has begun.
    #[default]
    Off,
    /// The caller may go. `knows_interim` if it speaks a version that has interim answers.
    Watches { knows_interim: bool },
    /// Nothing more comes from the caller. If it has gone, the connection fails.
    Doubts,
}

impl HangUpWatch {
    pub(super) fn set_possible(&self, is_possible: bool) {
        self.is_possible.set(is_possible);
    }

    /// A request was read whole, and nothing of its answer was written.
    pub(super) fn begin(&self, knows_interim: bool) {
        if self.is_possible.get() {
            self.state.set(WatchState::Watches { knows_interim });
        }
    }

    /// The answer begins, or the call has ended.
    #[inline]
    pub(super) fn end(&self) {
        self.state.set(WatchState::Off);
    }

    /// Whether the connection is to be looked at now and then: nothing wakes its task when it
    /// fails whose end has come.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.state.get() == WatchState::Doubts
    }

    /// Looks, when all is written that was to be.
    ///
    /// # Errors
    /// The caller has hung up.
    #[inline]
    pub(super) fn look(&self, cx: &mut Context<'_>, connection: &mut Connection) -> io::Result<()> {
        let is_gone = match self.state.get() {
            WatchState::Off => false,
            WatchState::Watches { knows_interim } => match connection.poll_hung_up(cx) {
                Poll::Pending => false,
                // It asks for more before it has its answer.
                Poll::Ready(false) => {
                    self.end();
                    false
                }
                Poll::Ready(true) => {
                    self.state.set(WatchState::Doubts);
                    connection.has_failed() || knows_interim && !takes_interim(connection)
                }
            },
            WatchState::Doubts => connection.has_failed(),
        };
        if is_gone { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// Sends the interim answer. What does not fit whole is not sent.
#[cold]
fn takes_interim(connection: &mut Connection) -> bool {
    match connection.try_write(INTERIM) {
        Ok(len) => len == INTERIM.len(),
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}
