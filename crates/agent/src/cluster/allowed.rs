//! Which endpoints a call may go to, by routing rules and by the circuit breakers of its method.

use std::rc::Rc;

use flow::rules::Removal;

use super::circuits::MethodCircuits;
use super::{Member, MemberState};

/// The endpoints that a call may go to.
pub struct Allowed {
    /// What rules leave, in the order of their addresses in memory; `None` means all.
    kept: Option<Rc<[Member]>>,
    /// What of the rules has removed others.
    removed_by: Vec<Removal>,
    /// If they leave none: what has removed them.
    reason: Option<String>,
    /// The breakers of its method, which also say who may be called.
    circuits: Option<Rc<MethodCircuits>>,
}

impl Allowed {
    /// These, by rules; `reason` is asked for if there are none.
    pub(super) fn new(
        mut kept: Vec<Member>,
        removed_by: Vec<Removal>,
        reason: impl FnOnce() -> Option<String>,
    ) -> Self {
        kept.sort_by_key(address);
        let reason = if kept.is_empty() { reason() } else { None };
        Self { kept: Some(kept.into()), removed_by, reason, circuits: None }
    }

    /// Those that `rules` leave, and that these breakers let calls pass to.
    pub(super) fn with_circuits(rules: Option<&Self>, circuits: Rc<MethodCircuits>) -> Self {
        let kept = rules.and_then(|rules| rules.kept.clone());
        let reason = rules.and_then(|rules| rules.reason.clone());
        let removed_by = rules.map(|rules| rules.removed_by.clone()).unwrap_or_default();
        Self { kept, removed_by, reason, circuits: Some(circuits) }
    }

    /// Whether a call may go there by the rules.
    pub fn has(&self, member: &Member) -> bool {
        let is_kept =
            |kept: &Rc<[Member]>| kept.binary_search_by_key(&address(member), address).is_ok();
        self.kept.as_ref().is_none_or(is_kept)
    }

    /// What of the rules has removed other endpoints.
    pub(super) fn removed_by(&self) -> &[Removal] {
        &self.removed_by
    }

    /// Whether it is one endpoint, whatever the breakers of a method say.
    pub(super) fn is_only(&self, member: &Member) -> bool {
        let is_it =
            |kept: &Rc<[Member]>| matches!(&**kept, [only] if Rc::ptr_eq(&only.0, &member.0));
        self.circuits.is_none() && self.kept.as_ref().is_some_and(is_it)
    }

    /// If there is no endpoint: what has removed them.
    pub fn nobody(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The breakers of the call's method.
    #[inline]
    pub(super) fn circuits(&self) -> Option<&Rc<MethodCircuits>> {
        self.circuits.as_ref()
    }
}

fn address(member: &Member) -> *const MemberState {
    Rc::as_ptr(&member.0)
}
