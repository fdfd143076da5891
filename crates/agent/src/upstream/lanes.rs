//! Two connections to one Dubbo endpoint: one for long messages, one for all others.
//!
//! A Dubbo reply cannot be cut into pieces, so a short one waits until a long one before it has
//! come whole. Calls that are long themselves, or whose replies have been long of late, therefore
//! get a connection of their own. It is opened when it is first needed, and closed when it has
//! been idle for a while.
//!
//! Links need none of this: they interleave the pieces of their messages.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use balance::Evidence;
use wire::Conn;

use super::dubbo::{DubboClient, DubboPeer};
use super::{Peer, Standing, Upstream};
use crate::error::CallError;

/// A connection for long messages that nobody has used for so long is closed.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The connections to one Dubbo endpoint. It stands as the one for short messages does.
pub struct Lanes {
    short: Rc<Upstream<DubboPeer>>,
    long: RefCell<Option<Long>>,
    /// Messages of so many bytes are long.
    long_len: usize,
    start: Box<dyn Fn() -> Upstream<DubboPeer>>,
}

/// The connection for long messages.
struct Long {
    upstream: Rc<Upstream<DubboPeer>>,
    used_at: Instant,
}

/// How long the messages of a call are, as far as that is known.
#[derive(Clone, Copy, Debug)]
pub struct MessageLen {
    /// Of its request, in bytes.
    pub request: usize,
    /// Of its reply: what [`ExpectedLen`](crate::expected_len::ExpectedLen) says.
    pub reply: usize,
}

impl Lanes {
    /// Begins to connect. `start` makes each connection; messages of `long_len` bytes are long.
    /// Must be called on a worker's runtime.
    pub(super) fn start(
        long_len: usize,
        start: impl Fn() -> Upstream<DubboPeer> + 'static,
    ) -> Self {
        Self { short: Rc::new(start()), long: RefCell::default(), long_len, start: Box::new(start) }
    }

    /// What differs between endpoints.
    pub fn peer(&self) -> &DubboPeer {
        self.short.peer()
    }

    /// Where it is, as `host:port`.
    pub fn address(&self) -> &Rc<str> {
        self.short.address()
    }

    /// Its state.
    pub fn standing(&self) -> Standing {
        self.short.standing()
    }

    /// Whether the peer answers, as [`Upstream::evidence`] says.
    pub fn evidence(&self, now: Instant) -> Evidence {
        self.short.evidence(now)
    }

    /// Why it takes no calls, if it does not.
    pub fn trouble(&self) -> Option<CallError> {
        self.short.conn().err()
    }

    /// Waits until [`Lanes::standing`] may have changed.
    pub async fn changed(&self) {
        self.short.changed().await;
    }

    /// The endpoint is known to be there: if an attempt is due later, it is made now.
    pub fn connect_soon(&self) {
        self.short.connect_soon();
    }

    /// The connection for a call; `None` while it is opened for the first time.
    ///
    /// # Errors
    /// As [`Upstream::conn`].
    #[inline]
    pub fn conn(
        &self,
        len: MessageLen,
        now: Instant,
    ) -> Result<Option<Conn<DubboClient>>, CallError> {
        if self.is_long(len)
            && let Some(found) = self.long_conn(now)
        {
            return Ok(found);
        }
        match self.short.conn() {
            Err(_) if self.short.standing() == Standing::Connecting => Ok(None),
            conn => conn.map(Some),
        }
    }

    /// The same, waiting for the first attempt to succeed or fail; with the time at which it was
    /// had.
    ///
    /// # Errors
    /// As [`Upstream::connected`].
    pub async fn conn_soon(
        &self,
        len: MessageLen,
        deadline: Instant,
        now: Instant,
    ) -> Result<(Conn<DubboClient>, Instant), CallError> {
        if let Some(conn) = self.conn(len, now)? {
            return Ok((conn, now));
        }
        let found = self.short.conn_soon(deadline, now).await?;
        if !self.is_long(len) {
            return Ok(found);
        }
        // It is there: now the other one can be asked for.
        let long = match self.long_conn(found.1) {
            Some(Some(conn)) => return Ok((conn, found.1)),
            Some(None) => self.long.borrow().as_ref().map(|long| Rc::clone(&long.upstream)),
            None => None,
        };
        match long {
            Some(long) => long.conn_soon(deadline, now).await.or(Ok(found)),
            None => Ok(found),
        }
    }

    /// Replies that came too late so far, on the connections of now. `None` while there is none.
    pub fn late_replies(&self) -> Option<u64> {
        let of = |conn: Conn<DubboClient>| conn.look(|machine| machine.0.stats().stale_replies);
        let short = self.short.conn().ok().map(of)?;
        let long = self.long.borrow().as_ref().and_then(|long| long.upstream.conn().ok()).map(of);
        Some(short + long.unwrap_or_default())
    }

    #[inline]
    fn is_long(&self, len: MessageLen) -> bool {
        self.long_len <= len.request.max(len.reply)
    }

    /// The connection for long messages, `Some(None)` while it is opened for the first time.
    /// `None` if there is none to be had: then they go with the others.
    #[cold]
    fn long_conn(&self, now: Instant) -> Option<Option<Conn<DubboClient>>> {
        if self.short.standing() != Standing::Ready {
            return None;
        }
        let mut long = self.long.borrow_mut();
        let long =
            long.get_or_insert_with(|| Long { upstream: Rc::new((self.start)()), used_at: now });
        long.used_at = now;
        match long.upstream.conn() {
            Ok(conn) => Some(Some(conn)),
            Err(_) if long.upstream.standing() == Standing::Connecting => Some(None),
            Err(_) => None,
        }
    }

    /// Closes the connection for long messages if it has been idle for long enough.
    pub(super) fn close_idle(&self, now: Instant) {
        let is_idle = |long: &Long| {
            let conn = long.upstream.conn().ok();
            let n_calls = conn.map_or(0, |conn| conn.look(DubboPeer::activity).in_flight);
            n_calls == 0 && IDLE_TIME <= now.saturating_duration_since(long.used_at)
        };
        let mut long = self.long.borrow_mut();
        // Dropped, it ends in order.
        drop(long.take_if(|long| is_idle(long)));
    }

    /// Ends the connections, after what waits to be written. Comes back when they have ended.
    pub async fn close(&self) {
        let long = self.long.take();
        self.short.close().await;
        if let Some(long) = long {
            long.upstream.close().await;
        }
    }
}
