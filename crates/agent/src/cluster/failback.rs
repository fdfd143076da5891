//! Calls that failed, were answered null, and are made again later.
//!
//! Invariants:
//! - At most [`MAX_ITEMS`] calls of a service wait on a worker, with at most [`MAX_LEN`] bytes, of
//!   the agent's memory.
//! - Each of them is made again, or counted as lost.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::Serialization;
use tracing::warn;
use wire::Hold;

use super::Cluster;
use crate::args::OwnedArguments;
use crate::call::{Call, Payload, RoutedCall, Times, WholeBody};
use crate::config::FailbackPolicy;
use crate::invocation::THIS_AGENT;
use crate::metrics::MethodEvent;
use crate::route::Route;

/// Calls of a service that wait on one worker.
const MAX_ITEMS: usize = 1024;
/// Bytes of their arguments.
const MAX_LEN: usize = 8 << 20;
/// The operator is told of lost calls at most so often.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// The calls of a service that are made again later.
#[derive(Default)]
pub(super) struct Failback {
    waiting: RefCell<VecDeque<Later>>,
    len: Cell<usize>,
    is_served: Cell<bool>,
    told: Cell<Option<Instant>>,
}

/// A call that is made again later.
struct Later {
    route: Rc<Route>,
    payload: OwnedPayload,
    attachments: Vec<(String, String)>,
    /// How long one try may take.
    timeout: Duration,
    policy: FailbackPolicy,
    /// When it is tried next, and when it is lost.
    due: Instant,
    deadline: Instant,
    len: usize,
    _hold: Hold,
}

enum OwnedPayload {
    Json(OwnedArguments),
    Whole(Serialization, Bytes),
}

impl Cluster {
    /// Has a call made again later, if there is room for it.
    pub(super) fn make_later(
        self: &Rc<Self>,
        call: &RoutedCall<'_>,
        policy: FailbackPolicy,
        now: Instant,
    ) {
        let queue = &self.failback;
        let (payload, own_len) = match &call.payload {
            Payload::Json(args) => (OwnedPayload::Json(args.owned()), args.len_in_bytes()),
            Payload::Whole(whole) => {
                let body = Bytes::copy_from_slice(whole.body);
                (OwnedPayload::Whole(whole.serialization, body), whole.body.len())
            }
        };
        let attached = call.attachments.iter().map(|(name, value)| name.len() + value.len());
        let len = own_len + attached.sum::<usize>();
        let has_room = queue.waiting.borrow().len() < MAX_ITEMS
            && queue.len.get().saturating_add(len) <= MAX_LEN;
        let hold = has_room.then(|| self.pool.account().take(len).ok()).flatten();
        let Some(hold) = hold else { return self.count_lost(now, "too many calls wait") };
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        queue.len.set(queue.len.get() + len);
        queue.waiting.borrow_mut().push_back(Later {
            route: Rc::clone(call.method),
            payload,
            attachments: call.attachments.iter().map(own).collect(),
            timeout: call.times.deadline.saturating_duration_since(call.times.now),
            policy,
            due: now + policy.delay,
            deadline: now + policy.time,
            len,
            _hold: hold,
        });
        self.count_event(MethodEvent::FailbackQueued);
        if !queue.is_served.replace(true) {
            drop(tokio::task::spawn_local(Rc::clone(self).serve_failback()));
        }
    }

    /// Makes the calls again, one after the other, until none waits.
    async fn serve_failback(self: Rc<Self>) {
        loop {
            let first = self.failback.take_first();
            let Some(mut later) = first else { break };
            tokio::time::sleep_until(later.due.into()).await;
            let now = Instant::now();
            let outcome = {
                let attachments: Vec<(&str, &str)> =
                    later.attachments.iter().map(|(name, value)| (&**name, &**value)).collect();
                let times = Times { now, deadline: now + later.timeout };
                let list;
                let payload = match &later.payload {
                    OwnedPayload::Json(args) => {
                        list = args.list();
                        Payload::Json(&list)
                    }
                    OwnedPayload::Whole(serialization, body) => {
                        Payload::Whole(WholeBody { serialization: *serialization, body })
                    }
                };
                let method = &later.route;
                let attachments = &attachments;
                let (one_way, clock, headers) = (false, None, None);
                let call = Call {
                    method,
                    payload,
                    attachments,
                    times,
                    one_way,
                    clock,
                    headers,
                    not_at: None,
                };
                self.call(&call, THIS_AGENT).await
            };
            let now = Instant::now();
            let next = now + later.policy.delay;
            match outcome {
                Ok(_) => self.count_event(MethodEvent::FailbackDone),
                Err(_) if next < later.deadline => {
                    later.due = next;
                    self.failback.len.set(self.failback.len.get() + later.len);
                    self.failback.waiting.borrow_mut().push_back(later);
                }
                Err(error) => self.count_lost(now, &error.to_string()),
            }
        }
        self.failback.is_served.set(false);
    }

    #[cold]
    fn count_lost(&self, now: Instant, why: &str) {
        self.count_event(MethodEvent::FailbackLost);
        let told = &self.failback.told;
        if told.get().is_none_or(|at| TOLD_EVERY <= now.saturating_duration_since(at)) {
            told.set(Some(now));
            warn!(service = %self.service, why, "a call that waited to be repeated is lost");
        }
    }
}

impl Failback {
    /// The one that is due first.
    fn take_first(&self) -> Option<Later> {
        let mut waiting = self.waiting.borrow_mut();
        let first = waiting.iter().enumerate().min_by_key(|(_, later)| later.due)?.0;
        let later = waiting.remove(first)?;
        self.len.set(self.len.get() - later.len);
        Some(later)
    }
}

impl Drop for Failback {
    fn drop(&mut self) {
        let n_lost = self.waiting.borrow().len();
        if n_lost != 0 {
            warn!(n_lost, "calls that waited to be repeated are lost: this agent is shutting down");
        }
    }
}
