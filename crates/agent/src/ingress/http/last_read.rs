//! What was read last of a request's head on this thread.
//!
//! hyper reads a head and calls us before anything else happens on the thread, so one buffer does
//! for all connections. Reading goes by way of it, which costs a copy: of a few hundred bytes for
//! most requests.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor};

use super::HttpSession;

/// A head of ordinary length and a small body; of a longer read the rest comes with the next one.
/// A byte less than the room that hyper begins with, so that it never sees a reason for more: it
/// keeps the buffer as long as the connection lasts.
const LEN: usize = 8 * 1024 - 1;

thread_local! {
    /// That of this thread's connections.
    pub(super) static LAST_READ: RefCell<LastRead> = const { RefCell::new(LastRead::new()) };
}

/// Bytes, and which connection they are from.
pub(super) struct LastRead {
    buffer: Vec<u8>,
    len: usize,
    /// The address of its session, which is compared and not followed.
    owner: usize,
}

impl LastRead {
    const fn new() -> Self {
        Self { buffer: Vec::new(), len: 0, owner: 0 }
    }

    /// Reads at most so many bytes from a connection into `to`, and keeps what was read.
    pub(super) fn poll_read(
        &mut self,
        session: &HttpSession,
        stream: Pin<&mut impl Read>,
        cx: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
        most: usize,
    ) -> Poll<io::Result<()>> {
        self.buffer.resize(LEN, 0);
        let room = to.remaining().min(LEN).min(most);
        let mut from = ReadBuf::new(self.buffer.get_mut(..room).unwrap_or_default());
        ready!(stream.poll_read(cx, from.unfilled()))?;
        to.put_slice(from.filled());
        self.len = from.filled().len();
        self.owner = address(session);
        Poll::Ready(Ok(()))
    }

    /// Keeps what was read in another way.
    pub(super) fn keep(&mut self, session: &HttpSession, bytes: &[u8]) {
        self.buffer.resize(LEN, 0);
        self.len = bytes.len().min(LEN);
        self.buffer[..self.len].copy_from_slice(&bytes[..self.len]);
        // Of what is longer, the end is not known.
        self.owner = if bytes.len() <= LEN { address(session) } else { 0 };
    }

    /// What was read last is not a head.
    pub(super) fn forget(&mut self) {
        self.owner = 0;
    }

    /// The bytes that were read last.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// The same, if they are of this session.
    pub(super) fn bytes_of(&self, session: &HttpSession) -> Option<&[u8]> {
        (self.owner == address(session)).then(|| self.bytes())
    }

    /// What was read behind the head of the session's request, if the head ended in the last read.
    /// Handed out once: a second request in the same read begins elsewhere.
    pub(super) fn take_body_of(&mut self, session: &HttpSession) -> Option<&[u8]> {
        let is_its = self.owner == address(session);
        self.owner = 0;
        body_in(is_its.then(|| self.bytes())?)
    }

    /// The same, as often as it is asked for, until something else is read.
    pub(super) fn body_of(&self, session: &HttpSession) -> Option<&[u8]> {
        body_in(self.bytes_of(session)?)
    }
}

/// What comes behind a head.
fn body_in(bytes: &[u8]) -> Option<&[u8]> {
    let end = memchr::memmem::find(bytes, b"\r\n\r\n")?;
    bytes.get(end + 4..)
}

fn address(session: &HttpSession) -> usize {
    std::ptr::from_ref(session).addr()
}
