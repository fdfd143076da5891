//! Endpoints that have sent a reply which broke off after its first bytes.
//!
//! The kind of a reply is at its front. That is all that is read of most replies before they count
//! as an answer: whoever makes JSON of a reply comes later, and a Dubbo consumer reads it himself.
//! Once a reply has turned out to be broken, the next ones of its endpoint are read whole before
//! they count.
//!
//! Invariants:
//! - A reply is read whole only while its endpoint is distrusted, and only if it is short.
//! - What is over a limit of ours never counts against an endpoint.

use std::cell::Cell;

use dubbo_proto::{Serialization, ServiceKey, is_broken_reply};

use super::{Cluster, Member};
use crate::call::ProviderReply;
use crate::config::{Split, SplitTarget};
use crate::error::Code;
use crate::grown_text::IN_PLACE_LEN;
use crate::offload::LONG_LEN;

/// So many whole replies after a broken one, an endpoint is trusted again.
const N_READ: u8 = 100;

/// Whether an endpoint is distrusted.
#[derive(Debug, Default)]
pub(super) struct Distrust {
    /// So many of its next replies are read whole.
    n_to_read: Cell<u8>,
}

impl Distrust {
    /// Whether its replies are read whole before they count.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.n_to_read.get() != 0
    }

    /// Reads a reply that counts as `failure` by its first bytes.
    #[cold]
    pub(super) fn look_at(
        &self,
        (serialization, body): (Serialization, &[u8]),
        failure: &mut Option<Code>,
    ) {
        if *failure == Some(Code::BadReply) || is_broken(serialization, body) {
            *failure = Some(Code::BadReply);
            self.n_to_read.set(N_READ);
        } else {
            self.n_to_read.set(self.n_to_read.get().saturating_sub(1));
        }
    }

    /// A reply could not be read that counted as an answer.
    fn note(&self, serialization: Serialization, body: &[u8]) {
        if is_broken(serialization, body) {
            self.n_to_read.set(N_READ);
        }
    }
}

impl Cluster {
    /// A reply could not be read. If it is broken, and counted as an answer, the next ones of its
    /// endpoint are read whole. Returns whether the endpoint is one of this cluster.
    #[cold]
    pub fn distrust(&self, reply: &ProviderReply) -> bool {
        let balancer = self.balancer.borrow();
        let mut members = balancer.stats().map(|stats| stats.key);
        let is_its = |it: &&Member| **it.0.upstream.address() == *reply.endpoint;
        let Some(member) = members.find(is_its) else { return false };
        if reply.failure != Some(Code::BadReply) {
            member.0.distrust.note(reply.serialization, &reply.body);
        }
        true
    }

    /// The other services that its calls may go to, by the splits of the configuration.
    pub fn detours(&self) -> Vec<ServiceKey> {
        let policy = self.policy.borrow();
        let to = |split: &Split| match &split.to {
            SplitTarget::Service(other) => Some(other.of(&self.service)),
            SplitTarget::Tag { .. } | SplitTarget::Endpoints(_) => None,
        };
        policy.routing.splits.iter().filter_map(to).collect()
    }
}

/// Whether a reply of status OK breaks the rules of its serialization. A long one is not read.
fn is_broken(serialization: Serialization, body: &[u8]) -> bool {
    body.len() < LONG_LEN && is_broken_reply(serialization, body, IN_PLACE_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROKEN: &[u8] = b"\x91\x1fabc";
    const WHOLE: &[u8] = b"\x91\x03abc";

    #[test]
    fn an_endpoint_is_distrusted_until_many_replies_in_a_row_were_whole() {
        let (distrust, hessian) = (Distrust::default(), Serialization::Hessian2);
        let look = |body| {
            let mut failure = None;
            distrust.look_at((hessian, body), &mut failure);
            failure
        };
        // What cannot be read for another reason is nothing to distrust anybody for.
        let long = [b"\x91\x1fabc", &[b'a'; LONG_LEN][..]].concat();
        for (serialization, body) in [(Serialization::Other(3), BROKEN), (hessian, &long)] {
            distrust.note(serialization, body);
            assert!(!distrust.is_on(), "{serialization}");
        }
        distrust.note(hessian, BROKEN);
        for _ in 1..N_READ {
            assert_eq!((look(WHOLE), distrust.is_on()), (None, true));
        }
        assert_eq!((look(BROKEN), distrust.is_on()), (Some(Code::BadReply), true));
        for n in 1..=N_READ {
            assert_eq!((look(WHOLE), distrust.is_on()), (None, n != N_READ));
        }
    }
}
