//! A request of a consumer, as it came.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use dubbo_proto::ReplyTo;

use crate::call::{Call, Times, WholeBody};
use crate::facts::WholeFacts;
use crate::journal::JournalEntry;
use crate::stages::StageClock;

/// A request that came: what a [`Call`] borrows, and where the answer goes.
pub(super) struct DubboRequest {
    pub(super) to: ReplyTo,
    pub(super) two_way: bool,
    pub(super) body: Bytes,
    pub(super) now: Instant,
    /// What is to be told of the call, if anybody wants to know: whoever ends it takes it.
    pub(super) entry: Cell<Option<Box<JournalEntry>>>,
    /// What stops the time of its stages, if anything does.
    pub(super) clock: Option<Rc<StageClock>>,
    /// Whether it may insist on a tag, if that is known of a request that looks like it.
    pub(super) may_force_tag: Cell<Option<bool>>,
}

impl DubboRequest {
    /// What routing rules can see of it.
    #[inline]
    pub(super) fn facts(&self) -> WholeFacts<'_> {
        let whole = WholeBody { serialization: self.to.serialization, body: &self.body };
        WholeFacts::new(whole).with_force_tag(self.may_force_tag.get())
    }

    /// The same request with another body. This one still tells of the call.
    pub(super) fn with_body(&self, body: Bytes) -> Self {
        let (entry, clock) = (Cell::default(), self.clock.clone());
        let Self { to, two_way, now, ref may_force_tag, .. } = *self;
        Self { to, two_way, body, now, entry, clock, may_force_tag: may_force_tag.clone() }
    }

    /// The request as a call of what `method` says.
    #[inline]
    pub(super) fn call<M>(&self, method: M, deadline: Instant) -> Call<'_, M, WholeBody<'_>> {
        let payload = WholeBody { serialization: self.to.serialization, body: &self.body };
        let times = Times { now: self.now, deadline };
        let (one_way, clock) = (!self.two_way, self.clock.as_ref());
        let (attachments, headers, not_at) = (&[], None, None);
        Call { method, payload, attachments, times, one_way, clock, headers, not_at }
    }
}
