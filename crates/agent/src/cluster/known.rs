//! The endpoints that a cluster knows, to be found again in a new list.

use std::collections::HashMap;
use std::iter::Peekable;
use std::slice;

use balance::EndpointSpec;
use registry::{Endpoint, EndpointKey, Protocol};

use super::Member;

/// Finds the endpoints of a list among those that are known. Both are in the order of their keys,
/// so a list of thousands is compared in one walk.
pub(super) struct KnownMembers<'a> {
    listed: Peekable<slice::Iter<'a, EndpointSpec<Member>>>,
    /// Those that were not listed last: a few.
    others: HashMap<EndpointKey, Vec<&'a Member>>,
}

impl<'a> KnownMembers<'a> {
    /// Of those that were listed last, and those that are known beside them.
    pub(super) fn new(
        listed: &'a [EndpointSpec<Member>],
        beside: impl Iterator<Item = &'a Member>,
    ) -> Self {
        let mut others = HashMap::<EndpointKey, Vec<&Member>>::new();
        for member in beside {
            others.entry(member.0.endpoint.key()).or_default().push(member);
        }
        Self { listed: listed.iter().peekable(), others }
    }

    /// The endpoint that goes the same way as the next one of the list.
    pub(super) fn find(&mut self, endpoint: &Endpoint) -> Option<Member> {
        let wanted = place(endpoint);
        while let Some(spec) = self.listed.next_if(|spec| place(&spec.key.0.endpoint) <= wanted) {
            if spec.key.0.is_same_way(endpoint) {
                return Some(spec.key.clone());
            }
        }
        if self.others.is_empty() {
            return None;
        }
        let others = self.others.get(&endpoint.key()).into_iter().flatten();
        others.copied().find(|member| member.0.is_same_way(endpoint)).cloned()
    }
}

/// What is compared of an endpoint: the parts of [`Endpoint::key`].
type Place<'a> = (Protocol, &'a str, u16);

fn place(endpoint: &Endpoint) -> Place<'_> {
    (endpoint.protocol, &endpoint.host, endpoint.port)
}
