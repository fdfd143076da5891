//! Which serializations an endpoint takes, as far as its answers tell.
//!
//! A registration can be wrong, and a static endpoint has none. A Dubbo provider that does not
//! permit a request's serialization answers BAD_REQUEST, for it decodes nothing further; 3.3 does
//! not say why, but writes that answer in the serialization that it prefers itself.
//!
//! Invariants:
//! - A call is made again only after such an answer, which proves that nothing was begun, and only
//!   once.
//! - A serialization that was refused is not used again, unless all are refused.
//! - One that an endpoint has answered in is never doubted, so that a call that it cannot read for
//!   another reason (no such method, a wrong argument) is sent once.

use std::cell::Cell;

use dubbo_proto::{Serialization, Status};

use crate::call::Outcome;

/// In the words of Dubbo 2.7 and of other implementations, which tell the reason.
const REFUSALS: [&str; 3] = [
    "Unexpected serialization id:",
    "Unexpected serialization type:",
    "Unrecognized serialize type from consumer",
];

/// What the answers of one endpoint have told.
#[derive(Debug, Default)]
pub(crate) struct RefusedSerializations {
    permitted: Cell<Set>,
    refused: Cell<Set>,
}

impl RefusedSerializations {
    /// The serialization for the next call: the first of `registered` that we write, or else
    /// `otherwise`, and not one that was refused.
    pub(crate) fn choose(
        &self,
        registered: &[Serialization],
        otherwise: Serialization,
    ) -> Serialization {
        let written = || registered.iter().copied().filter(|known| known.is_supported());
        let first = || written().next().or(registered.first().copied()).unwrap_or(otherwise);
        let (permitted, refused) = (self.permitted.get(), self.refused.get());
        if refused == Set::default() {
            return first();
        }
        let answered = Serialization::WRITTEN.into_iter().filter(|known| permitted.has(*known));
        let mut known = written().chain([otherwise]).chain(answered);
        known.find(|known| !refused.has(*known)).unwrap_or_else(first)
    }

    /// Takes in what a call in `used` came to. If that says that the endpoint does not take this
    /// serialization, the answer is the one in which the call may be made again.
    pub(crate) fn take_in(&self, used: Serialization, outcome: &Outcome) -> Option<Serialization> {
        let error = match outcome {
            Ok(_) => return self.permit(used),
            Err(error) => error,
        };
        // Only a provider that is called straight has one.
        let its_own = error.provider_serialization?;
        if error.provider_status? != Status::BadRequest {
            return self.permit(used);
        }
        if self.permitted.get().has(used) {
            return None;
        }
        let reason = error.message.split("\n\tat ").next().unwrap_or_default();
        let is_told = REFUSALS.iter().any(|words| reason.contains(words));
        let others =
            [its_own].into_iter().chain(Serialization::WRITTEN.into_iter().filter(|_| is_told));
        let refused = self.refused.get();
        let mut others = others.filter(|other| {
            other.is_supported() && other.id() != used.id() && !refused.has(*other)
        });
        others.next()
    }

    /// Takes in what the same call came to in another serialization. Whether `used` was refused:
    /// then it is not used again.
    pub(crate) fn take_in_again(
        &self,
        used: Serialization,
        other: Serialization,
        outcome: &Outcome,
    ) -> bool {
        let is_read = match outcome {
            Ok(_) => true,
            Err(error) => error.provider_status.is_some_and(|status| status != Status::BadRequest),
        };
        if is_read {
            self.permit(other);
            self.refused.set(self.refused.get().with(used));
        }
        is_read
    }

    fn permit(&self, used: Serialization) -> Option<Serialization> {
        self.permitted.set(self.permitted.get().with(used));
        self.refused.set(self.refused.get().without(used));
        None
    }
}

/// Some of [`Serialization::WRITTEN`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Set(u8);

const _: () = assert!(Serialization::WRITTEN.len() <= 8, "a set has a bit for each");

impl Set {
    const fn bit(serialization: Serialization) -> u8 {
        match serialization.index() {
            Some(index) => 1 << index,
            None => 0,
        }
    }

    const fn has(self, serialization: Serialization) -> bool {
        self.0 & Self::bit(serialization) != 0
    }

    const fn with(self, serialization: Serialization) -> Self {
        Self(self.0 | Self::bit(serialization))
    }

    const fn without(self, serialization: Serialization) -> Self {
        Self(self.0 & !Self::bit(serialization))
    }
}

#[cfg(test)]
mod tests {
    use Serialization::{Fastjson2, FastjsonSized, Hessian2};

    use super::*;
    use crate::error::{CallError, Code};

    /// What Dubbo 3.3 says, whatever it cannot read.
    const UNREADABLE: &str = "Fail to decode request due to: RpcInvocation [methodName=a]";

    fn answer(status: Status, answered_in: Serialization, text: &str) -> Outcome {
        let mut error = CallError::from_provider(status, text);
        error.provider_serialization = Some(answered_in);
        Err(error)
    }

    fn refusal(answered_in: Serialization) -> Outcome {
        answer(Status::BadRequest, answered_in, UNREADABLE)
    }

    #[test]
    fn a_refused_serialization_is_not_used_again() {
        let refusals = RefusedSerializations::default();
        assert_eq!(refusals.choose(&[], Hessian2), Hessian2);
        assert_eq!(refusals.take_in(Hessian2, &refusal(Fastjson2)), Some(Fastjson2));
        let read = answer(Status::ServiceError, Fastjson2, "");
        assert!(refusals.take_in_again(Hessian2, Fastjson2, &read));
        assert_eq!(refusals.choose(&[], Hessian2), Fastjson2);
        assert_eq!(refusals.choose(&[Hessian2, FastjsonSized], Hessian2), FastjsonSized);
        // What it has answered in is not doubted.
        assert_eq!(refusals.take_in(Fastjson2, &refusal(Hessian2)), None);
    }

    #[test]
    fn calls_that_cannot_be_read_for_another_reason_are_sent_once() {
        let refusals = RefusedSerializations::default();
        // Neither way was read: that says nothing of the serialization.
        assert_eq!(refusals.take_in(Hessian2, &refusal(Fastjson2)), Some(Fastjson2));
        assert!(!refusals.take_in_again(Hessian2, Fastjson2, &refusal(Fastjson2)));
        assert_eq!(refusals.choose(&[], Hessian2), Hessian2);
        // Once an answer has come, the endpoint is known to take it.
        let read = answer(Status::ServerTimeout, Hessian2, "");
        assert_eq!(refusals.take_in(Hessian2, &read), None);
        assert_eq!(refusals.take_in(Hessian2, &refusal(Fastjson2)), None);
        // And it is its own, if it refuses in it.
        assert_eq!(RefusedSerializations::default().take_in(Hessian2, &refusal(Hessian2)), None);
    }

    #[test]
    fn only_answers_that_prove_that_nothing_was_begun_lead_to_another_try() {
        let refusals = RefusedSerializations::default();
        for code in [Code::ConnectionBroken, Code::Timeout, Code::Unreachable] {
            assert_eq!(refusals.take_in(Hessian2, &Err(CallError::new(code, ""))), None);
        }
        let told = "java.io.IOException: Unexpected serialization id:2 received\n\tat a.B";
        let told = answer(Status::BadRequest, Hessian2, told);
        assert_eq!(refusals.take_in(Hessian2, &told), Some(Fastjson2));
        let java = refusal(Serialization::Other(3));
        assert_eq!(refusals.take_in(Hessian2, &java), None, "we do not write that");
        // An agent in between chooses for itself.
        let by_link = Err(CallError::from_provider(Status::BadRequest, REFUSALS[0]));
        assert_eq!(refusals.take_in(Hessian2, &by_link), None);
    }

    #[test]
    fn what_all_was_refused_is_tried_anew() {
        let refusals = RefusedSerializations::default();
        refusals.refused.set(Set::default().with(Hessian2).with(Fastjson2));
        refusals.permitted.set(Set::default().with(Fastjson2));
        assert_eq!(refusals.choose(&[], Hessian2), Hessian2);
        assert_eq!(refusals.choose(&[Fastjson2], Hessian2), Fastjson2);
    }
}
