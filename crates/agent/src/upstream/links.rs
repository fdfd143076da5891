//! Several links to one provider's agent: which of them a call takes.
//!
//! Credits belong to a link. A call goes by the link whose credit it has. While one link to an app
//! needs credits, so do all calls to that app: one without a credit would come past those that
//! wait for theirs.

use std::rc::Rc;
use std::time::Instant;

use dubbo_proto::Serialization;

use super::credits::{Credit, LinkPurse};
use super::lanes::{Lanes, MessageLen, ReadyLane};
use super::link::LinkPeer;
use super::{Standing, Upstream};
use crate::error::CallError;

/// What a call is to a choice among links.
#[derive(Clone, Copy)]
pub struct LinkCall<'a> {
    /// The key of its service, as text.
    pub service: &'a str,
    /// The credit that it has.
    pub credit: Option<&'a Credit>,
    /// How long its messages are.
    pub len: MessageLen,
}

impl LinkCall<'_> {
    /// Whether it may go by the link of that peer.
    fn may_take(&self, peer: &LinkPeer) -> bool {
        match self.credit {
            Some(credit) => peer.has_lent(credit),
            None => peer.purse(self.service).is_none(),
        }
    }

    /// A call with a credit goes where that is from, however long it is.
    fn len(&self) -> MessageLen {
        if self.credit.is_some() { MessageLen::default() } else { self.len }
    }
}

impl Lanes<LinkPeer> {
    /// The link for a call, also if it is still opened.
    #[inline]
    pub fn pick_link(&self, call: &LinkCall<'_>, now: Instant) -> Rc<Upstream<LinkPeer>> {
        self.pick(call.len(), now, |peer| call.may_take(peer))
    }

    /// The same, waiting for the first attempt to connect.
    ///
    /// # Errors
    /// As [`Upstream::connected`].
    pub async fn link_soon(
        &self,
        call: &LinkCall<'_>,
        deadline: Instant,
        now: Instant,
    ) -> Result<ReadyLane<LinkPeer>, CallError> {
        self.conn_soon(call.len(), deadline, now, |peer| call.may_take(peer)).await
    }

    /// What calls of a service need credits from; empty while they need none.
    #[inline]
    pub fn purses(&self, service: &str) -> impl Iterator<Item = Rc<LinkPurse>> + use<> {
        let (only, all) = match self.short.has_further() {
            false => (self.short.first().peer().purse(service), Vec::new()),
            true => (None, self.all_purses(service)),
        };
        only.into_iter().chain(all)
    }

    #[cold]
    fn all_purses(&self, service: &str) -> Vec<Rc<LinkPurse>> {
        let all = self.short.all();
        let ready = all.iter().filter(|it| it.standing() == Standing::Ready);
        ready.filter_map(|it| it.peer().purse(service)).collect()
    }

    /// Takes a credit for a call, if calls need one and there is one: of the link with the fewest
    /// calls in flight.
    #[inline]
    pub fn credit(&self, service: &str, now: Instant) -> Option<Credit> {
        let has_room = |peer: &LinkPeer| peer.purse(service).is_some_and(|purse| purse.has_room());
        match self.short.has_further() {
            false => self.short.first().peer().purse(service)?.take(now),
            true => self.short.find(has_room)?.peer().purse(service)?.take(now),
        }
    }

    /// Its state toward the calls of a service.
    pub fn standing_for(&self, service: &str) -> Standing {
        if self.is_away(service) {
            return Standing::Down;
        }
        let standing = self.standing();
        if standing != Standing::Ready {
            return standing;
        }
        let mut purses = self.purses(service).peekable();
        let needs_credit = purses.peek().is_some();
        match needs_credit && !purses.any(|purse| purse.has_room()) {
            true => Standing::Full,
            false => Standing::Ready,
        }
    }

    /// Since when the peer says that the app of a service gives no sign of life.
    pub(super) fn app_pauses_since(&self, service: &str) -> Option<Instant> {
        self.find_map(|it| it.peer().credits.pauses_since(service))
    }

    /// Whether the peer has said that it cannot reach the app of a service, on any link: it says
    /// so on those by which the service was called.
    #[inline]
    pub fn is_away(&self, service: &str) -> bool {
        self.find_map(|it| it.peer().is_away(service).then_some(())).is_some()
    }

    /// The serialization that was agreed for a route, by its index and generation, on whichever
    /// link it was called.
    pub fn agreed(&self, index: usize, generation: u64) -> Option<Serialization> {
        self.find_map(|it| it.peer().agreed(index, generation))
    }
}
