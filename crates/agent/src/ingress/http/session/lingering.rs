//! How a connection of HTTP/1 ends whose last request was answered before all of it had come.
//!
//! What still comes of it is thrown away, until the caller has ended the connection or some time
//! has passed. So the caller finds the answer, and not a connection that was reset.
//!
//! Who sends more than the request is not read any further, and is not let go any sooner: a caller
//! who reads no answers would only come back at once, and send as much again.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Poll, ready};

use hyper::body::{Body, Incoming};
use tokio::io::AsyncWrite;
use wire::Connection;

use super::{HttpSession, LAST_READ, Phase};

/// What may come of a request whose length nobody has told.
const UNTOLD_LEN: u64 = 16 << 20;

impl HttpSession {
    /// The body of a request is to come.
    pub(super) fn expects(&self, body: &Incoming) {
        self.unread_len.set(body.size_hint().exact().unwrap_or(UNTOLD_LEN));
    }

    /// More of a request may come whose head was refused.
    pub(super) fn expects_rest(&self) {
        self.unread_len.set(UNTOLD_LEN);
    }

    /// Whether more may come of the request that is being answered. If all of it came along with
    /// its head, hyper takes it.
    pub(in crate::ingress::http) fn expects_more(&self) -> bool {
        let came_len = || LAST_READ.with_borrow(|last| last.body_of(self).map_or(0, <[u8]>::len));
        match self.unread_len.get() {
            0 => false,
            len => (came_len() as u64) < len,
        }
    }

    /// All of the request has come, or its caller is too slow to be waited for.
    pub(in crate::ingress::http) fn expects_no_more(&self) {
        self.unread_len.set(0);
    }

    /// Ends a connection on which all answers were written.
    pub(super) async fn linger(&self, stream: &mut Connection) {
        let mut left = match self.unread_len.take() {
            0 => return,
            len => Some(len),
        };
        self.enter(Phase::Leaving);
        let mut is_shut = false;
        poll_fn(|cx| {
            self.set_task(cx);
            if self.expired.get() || self.draining.get() {
                return Poll::Ready(());
            }
            if !is_shut {
                if ready!(Pin::new(&mut *stream).poll_shutdown(cx)).is_err() {
                    return Poll::Ready(());
                }
                is_shut = true;
            }
            if left.is_none() {
                return Poll::Pending;
            }
            match ready!(stream.poll_discard(cx)) {
                Ok(len @ 1..) => {
                    left = left.and_then(|left| left.checked_sub(len as u64));
                    // Others have their turn.
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Ok(_) | Err(_) => Poll::Ready(()),
            }
        })
        .await;
    }
}
