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
use crate::error::Code;

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
            Some(SentBy::Dubbo(conn, id)) => match is_answered(&mut self.outcome) {
                // It is too late for whoever waited, as one that is read later would be.
                true => conn.with(|machine| machine.0.reply_was_late()),
                // Its place in the table of pending calls is free again.
                false => drop(conn.with(|machine| machine.0.cancel(id))),
            },
        }
    }
}

/// Whether the peer has answered a call, and nobody has looked at that yet.
fn is_answered(outcome: &mut oneshot::Receiver<Outcome>) -> bool {
    match outcome.try_recv() {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => error.provider_status.is_some() || error.code == Code::ReplyTooLarge,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::Waker;
    use std::time::{Duration, Instant};

    use bytes::Bytes;
    use dubbo_proto::{RequestHead, RequestTemplate, Serialization, Status};
    use wire::{Budget, Group};

    use super::super::dubbo::DubboPeer;
    use super::super::{PeerProtocol, Setup, SharedSetup};
    use super::*;
    use crate::call::{ProviderReply, ReplyTo};
    use crate::config::ClusterPolicy;
    use crate::error::CallError;
    use crate::memory::Memory;
    use crate::offload::Threads;

    const USED: Serialization = Serialization::Hessian2;

    /// A connection, and a call that was sent there.
    fn sent() -> (Conn<DubboClient>, SentCall) {
        let now = Instant::now();
        let setup = SharedSetup::new(Setup::new(&ClusterPolicy::default()));
        let memory = Rc::new(Memory::new(Budget::new(usize::MAX), Group::new()).endpoint());
        let threads = Threads::one_per_core();
        let peer = DubboPeer::new("h:1", setup, memory, threads, Rc::default());
        let conn = Conn::new(peer.machine(now));
        let head = RequestHead { path: "a.B", version: "", method: "m", descriptor: "" };
        let template = RequestTemplate::new(USED, &head, &[]).unwrap();
        let (task, outcome) = oneshot::channel();
        let deadline = now + Duration::from_secs(9);
        let id = conn.with(|machine| {
            machine.0.send(now, &template, b"", &[], deadline, ReplyTo::Task(task)).unwrap()
        });
        (conn.clone(), SentCall::by_dubbo(outcome, conn, id, USED))
    }

    fn in_flight(conn: &Conn<DubboClient>) -> usize {
        conn.look(|machine| machine.0.in_flight())
    }

    #[test]
    fn who_goes_away_before_the_outcome_gives_the_call_up() {
        let (conn, sent) = sent();
        assert_eq!((in_flight(&conn), sent.used()), (1, Some(USED)));
        drop(sent);
        assert_eq!(in_flight(&conn), 0);
    }

    /// Whoever counts what the endpoint still works on must not wait for a further answer.
    #[test]
    fn an_answer_that_nobody_looks_at_any_more_is_a_late_one() {
        let refused = || CallError::from_provider(Status::ServerThreadpoolExhausted, "full");
        let reply = || ProviderReply::new(USED, Bytes::new(), "h:1".into());
        for (outcome, n_late) in [
            (Ok(reply()), 1),
            (Err(refused()), 1),
            (Err(CallError::new(Code::ReplyTooLarge, "")), 1),
            (Err(CallError::new(Code::Timeout, "it may come yet")), 0),
            (Err(CallError::new(Code::ConnectionBroken, "it never will")), 0),
        ] {
            let (conn, sent) = sent();
            let token = conn.with(|machine| machine.0.drain_pending().next().unwrap());
            token.complete(outcome);
            drop(sent);
            assert_eq!(conn.look(|machine| machine.0.stats().stale_replies), n_late);
        }
    }

    #[test]
    fn a_connection_that_ends_ends_its_calls() {
        let mut cx = Context::from_waker(Waker::noop());
        let (conn, call) = sent();
        {
            let mut call = pin!(call);
            assert!(call.as_mut().poll(&mut cx).is_pending());
            let tokens: Vec<ReplyTo> = conn.with(|machine| machine.0.drain_pending().collect());
            for token in tokens {
                token.complete(Err(CallError::new(Code::ConnectionBroken, "gone")));
            }
            let outcome = call.as_mut().poll(&mut cx);
            let Poll::Ready(Err(error)) = outcome else { panic!("it does not end") };
            assert_eq!(error.code, Code::ConnectionBroken);
        }
        assert_eq!(in_flight(&conn), 0);
    }

    #[test]
    fn a_call_that_nobody_answers_any_more_fails_and_says_so() {
        let (conn, call) = sent();
        conn.with(|machine| machine.0.drain_pending().for_each(drop));
        let polled = pin!(call).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Err(error)) = polled else { panic!("it does not end") };
        assert_eq!(error.code, Code::Internal);
    }
}
