//! Calls that are offered again to the endpoint that has rejected them: a provider without an
//! agent, of whose threads one is late to be back in its pool. They keep their places there.

use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use flow::{NextAction, Repeats};

use super::attempt::Leave;
use super::offering::Offering;
use super::stuck::Moved;
use super::{Attempt, Cluster};
use crate::call::Outcome;
use crate::error::CallError;

impl Cluster {
    /// Makes an attempt on `now`, and makes it again where the endpoint's pool has rejected it and
    /// no other endpoint can take it.
    pub(super) async fn make(
        self: &Rc<Self>,
        attempt: &mut Attempt,
        offering: &Offering<'_>,
        mut now: Instant,
        make: &mut impl AsyncFnMut(&Attempt, Instant) -> Outcome,
    ) -> Result<Outcome, Moved> {
        let (mut repeats, attempts) = (Repeats::default(), &offering.attempts);
        loop {
            let outcome = {
                // Pinned here, it is in the future of the call once, however it is waited for.
                let made = pin!(make(attempt, now));
                match self.has_movable() {
                    false => Ok(made.await),
                    true => self.unless_stuck(attempt, attempts, offering.facts, made).await,
                }
            };
            let Ok(Err(error)) = &outcome else { return outcome };
            if !attempt.may_be_repeated(error) || self.has_another(attempt, offering, error) {
                return outcome;
            }
            let deadline = attempts.limits().deadline;
            if !Box::pin(attempt.is_offered_again(deadline, error, &mut repeats)).await {
                return outcome;
            }
            now = Instant::now();
        }
    }

    /// Whether a call that an endpoint has rejected may go to another one.
    #[cold]
    fn has_another(&self, attempt: &Attempt, offering: &Offering<'_>, error: &CallError) -> bool {
        let mut after = offering.attempts.clone();
        after.failed(attempt.member.clone(), self.retry_of(error, offering.facts));
        matches!(self.next(&after, Instant::now(), &offering.choice), NextAction::Offer(_))
    }
}

impl Attempt {
    /// Whether the endpoint may reject the call because a thread of its is late.
    #[inline]
    pub fn may_be_rejected(&self) -> bool {
        matches!(&self.leave, Some(Leave::Pass(pass)) if pass.may_be_rejected())
    }

    /// Whether the call may be offered again to the endpoint, which has failed it with `error`.
    #[inline]
    pub fn may_be_repeated(&self, error: &CallError) -> bool {
        matches!(&self.leave, Some(Leave::Pass(pass)) if pass.may_be_repeated(error))
    }

    /// Waits until the call is to be offered again, and returns whether it is.
    pub(super) async fn is_offered_again(
        &mut self,
        deadline: Instant,
        error: &CallError,
        repeats: &mut Repeats,
    ) -> bool {
        match &mut self.leave {
            Some(Leave::Pass(pass)) => pass.is_offered_again(deadline, error, repeats).await,
            Some(Leave::Credit(_)) | None => false,
        }
    }

    /// Offers the call, which the endpoint has rejected with `error`, to it again until it takes
    /// it, or it is not worth it any more.
    pub async fn repeat(
        mut self,
        deadline: Instant,
        mut error: CallError,
        mut make: impl AsyncFnMut(&Self, Instant) -> Outcome,
    ) -> Outcome {
        let mut repeats = Repeats::default();
        while self.is_offered_again(deadline, &error, &mut repeats).await {
            match make(&self, Instant::now()).await {
                Ok(mut reply) => {
                    let at = reply.came.map_or_else(Instant::now, |came| came.at);
                    self.replied(at, &mut reply);
                    return Ok(reply);
                }
                Err(other) => error = other,
            }
        }
        self.failed(Instant::now(), &error);
        Err(error)
    }
}
