//! A call that an endpoint was sent, until its outcome is there.
//!
//! Most calls are sent the moment their endpoint is chosen. All that is kept for one of them is
//! this, and not the states of the futures that others wait in.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use dubbo_proto::{RequestId, Serialization};
use link_proto::CallId;
use tokio::sync::oneshot;
use wire::Conn;

use super::dubbo::DubboClient;
use super::link::LinkClient;
use crate::call::{Outcome, forgotten};

/// A call that was sent. Dropped before its outcome is there, it is given up at its peer.
pub struct SentCall {
    outcome: oneshot::Receiver<Outcome>,
    /// Until it has ended.
    at: Option<SentBy>,
    used: Option<Serialization>,
}

/// The connection by which it was sent, and its number there.
enum SentBy {
    Link(Conn<LinkClient>, CallId),
    Dubbo(Conn<DubboClient>, RequestId),
}

impl SentCall {
    pub(super) fn by_link(
        outcome: oneshot::Receiver<Outcome>,
        conn: Conn<LinkClient>,
        id: CallId,
    ) -> Self {
        Self { outcome, at: Some(SentBy::Link(conn, id)), used: None }
    }

    pub(super) fn by_dubbo(
        outcome: oneshot::Receiver<Outcome>,
        conn: Conn<DubboClient>,
        id: RequestId,
        used: Serialization,
    ) -> Self {
        Self { outcome, at: Some(SentBy::Dubbo(conn, id)), used: Some(used) }
    }

    /// How its arguments were written, if the provider was not asked before which way it takes.
    #[inline]
    pub fn used(&self) -> Option<Serialization> {
        self.used
    }
}

impl Future for SentCall {
    type Output = Outcome;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        self.at = None;
        Poll::Ready(outcome.unwrap_or_else(|_| forgotten()))
    }
}

impl Drop for SentCall {
    #[inline]
    fn drop(&mut self) {
        match self.at.take() {
            None => {}
            Some(SentBy::Link(conn, id)) => drop(conn.with(|link| link.cancel(id))),
            // Its place in the table of pending calls is free again.
            Some(SentBy::Dubbo(conn, id)) => drop(conn.with(|machine| machine.0.cancel(id))),
        }
    }
}
