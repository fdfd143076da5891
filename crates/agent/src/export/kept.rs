//! Requests that the app may reject because a thread of its is late: they are kept until they are
//! answered, to be offered to the app again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use flow::Repeats;
use wire::Hold;

use super::requests::{MAX_COPIED_LEN, PeerRequest};
use super::{LinkSession, RequestForm, RouteBackend};
use crate::call::{KeptRequest, LinkCaller, Times};
use crate::error::CallError;
use crate::gate::Admitted;
use crate::upstream::{MessageLen, ReadyLane};

/// A request that was sent to a Dubbo app.
struct SentRequest {
    session: LinkSession,
    target: Rc<RouteBackend>,
    call: PeerRequest,
    repeats: Cell<Repeats>,
    _held: Hold,
}

impl LinkSession {
    /// Keeps a request, within the budget, if its app may reject it.
    #[inline]
    pub(super) fn keep(
        &self,
        target: &Rc<RouteBackend>,
        call: &PeerRequest,
        admitted: &Admitted,
    ) -> Option<Rc<dyn KeptRequest>> {
        match !call.one_way && admitted.may_be_rejected() {
            true => self.keep_request(target, call),
            false => None,
        }
    }

    #[cold]
    fn keep_request(
        &self,
        target: &Rc<RouteBackend>,
        call: &PeerRequest,
    ) -> Option<Rc<dyn KeptRequest>> {
        let account = self.conn.look(|link| Rc::clone(link.account()));
        let held = account.take(call.payload.len()).ok()?;
        let payload = match call.payload.len() <= MAX_COPIED_LEN {
            true => Bytes::copy_from_slice(&call.payload),
            false => call.payload.clone(),
        };
        let PeerRequest { id, codec, times, ref meta, one_way, ref clock, timed, .. } = *call;
        let (meta, clock, entry) = (meta.clone(), clock.clone(), Cell::default());
        let call = PeerRequest { id, codec, times, meta, payload, one_way, entry, clock, timed };
        let (session, target) = (self.clone(), Rc::clone(target));
        Some(Rc::new(SentRequest { session, target, call, repeats: Cell::default(), _held: held }))
    }
}

impl KeptRequest for SentRequest {
    fn rejected(self: Rc<Self>, mut caller: LinkCaller, error: CallError) {
        tokio::task::spawn_local(async move {
            let (deadline, mut repeats) = (self.call.times.deadline, self.repeats.get());
            let again = caller.admitted.is_offered_again(deadline, &error, &mut repeats).await;
            self.repeats.set(repeats);
            // Its caller may have given it up meanwhile, or the link have ended.
            match again && self.session.conn.look(|link| link.is_open(caller.id)) {
                true => self.send_again(caller).await,
                false => caller.complete(Err(error)),
            }
        });
    }
}

impl SentRequest {
    async fn send_again(self: Rc<Self>, mut caller: LinkCaller) {
        let RequestForm::Dubbo(app, template) = &self.target.way else { return };
        let len =
            MessageLen { request: self.call.payload.len(), reply: caller.route.reply_len.get() };
        let deadline = self.call.times.deadline;
        match app.upstream.conn_soon(len, deadline, Instant::now(), |_| true).await {
            Ok(ReadyLane { conn, now, .. }) => {
                caller.kept = Some(Rc::<Self>::clone(&self));
                let times = Times { now, deadline };
                self.session.send(template.as_ref(), &conn, &self.call, times, caller);
            }
            Err(error) => caller.complete(Err(error)),
        }
    }
}
