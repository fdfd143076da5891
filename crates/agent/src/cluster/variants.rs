//! How calls name the version and group of their endpoint, where callers leave them open, and what
//! requests of Dubbo's consumers have to have attached there.
//!
//! Dubbo's consumers call each provider with the version, group, path and token of that provider:
//! it knows no `*`, and no list of groups. One that has an agent's URL cannot know the others.

use std::fmt::Display;
use std::rc::Rc;

use bytes::Bytes;
use dubbo_proto::{ProtoError, Request, ServiceKey};

use super::member::PATH;
use super::{Attempt, MemberState};
use crate::call::WholeBody;
use crate::error::{CallError, Code};
use crate::facts::WholeFacts;
use crate::route::{Route, RouteVariant};
use crate::upstream::dubbo::too_long;

impl MemberState {
    /// How a route is called at the endpoint, if that is not as its callers name it.
    #[inline]
    pub(super) fn variant(&self, route: &Route) -> Option<Rc<RouteVariant>> {
        self.variant.as_ref().map(|listed| route.variant(listed))
    }

    /// A whole request as it goes to the endpoint, if that is not as its consumer wrote it. One
    /// that cannot be read stays as it is.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if it cannot be changed, [`Code::BodyTooLarge`] if it is longer than
    /// the endpoint takes.
    #[inline]
    pub(super) fn whole_for(&self, whole: WholeBody<'_>) -> Result<Option<Bytes>, CallError> {
        let is_as_written = self.variant.is_none() && self.whole_attachments.is_empty();
        if is_as_written && whole.body.len() <= self.payload_limit {
            return Ok(None);
        }
        self.checked(whole, is_as_written)
    }

    #[cold]
    fn checked(
        &self,
        whole: WholeBody<'_>,
        is_as_written: bool,
    ) -> Result<Option<Bytes>, CallError> {
        let changed = if is_as_written { None } else { self.changed(whole)? };
        let (len, max) = (changed.as_ref().unwrap_or(whole.body).len(), self.payload_limit);
        if max < len {
            return Err(too_long(len, max).at(self.upstream.address()));
        }
        Ok(changed)
    }

    fn changed(&self, whole: WholeBody<'_>) -> Result<Option<Bytes>, CallError> {
        let facts = WholeFacts::new(whole);
        let Some(request) = facts.request() else { return Ok(None) };
        // A token of the consumer's own counts more than the registered one. The path that it has
        // is that of the agent.
        let is_wanted = |(name, value): &(&str, &str)| match request.attachment(name) {
            None => true,
            Some(had) => *name == PATH && had != *value,
        };
        let attached = self.whole_attachments.iter().map(|(name, value)| (*name, value.as_str()));
        let mut more: Vec<_> = attached.filter(is_wanted).collect();
        let mut version = request.version();
        let is_named = |listed: &ServiceKey| {
            let named = request.service_key();
            named.is_ok_and(|it| it.version == listed.version && it.group == listed.group)
        };
        if let Some(listed) = self.variant.as_ref().filter(|listed| !is_named(listed)) {
            version = &listed.version;
            more.extend([("version", &*listed.version), ("group", &*listed.group)]);
        }
        if more.is_empty() {
            return Ok(None);
        }
        request
            .changed(version, &more)
            .map(Some)
            .map_err(|error| unchanged(&self.service_name, &error))
    }
}

impl Attempt {
    /// How a route is called at its endpoint, if that is not as its callers name it.
    #[inline]
    pub fn variant(&self, route: &Route) -> Option<Rc<RouteVariant>> {
        self.member.0.variant(route)
    }

    /// A whole request as it goes to its endpoint, if that is not as its consumer wrote it.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if it cannot be changed, [`Code::BodyTooLarge`] if it is longer than
    /// the endpoint takes.
    #[inline]
    pub fn whole_for(&self, whole: WholeBody<'_>) -> Result<Option<Bytes>, CallError> {
        self.member.0.whole_for(whole)
    }

    /// The longest body of a request that its endpoint takes, if that is a provider.
    pub fn payload_limit(&self) -> usize {
        self.member.0.payload_limit
    }
}

/// The body of a request as it goes to another version or group of its service.
///
/// # Errors
/// [`Code::BadRequest`] if it cannot be changed.
#[cold]
pub fn request_for(request: &Request, key: &ServiceKey) -> Result<Bytes, CallError> {
    let names = [("version", &*key.version), ("group", &*key.group)];
    request.changed(&key.version, &names).map_err(|error| unchanged(key, &error))
}

fn unchanged(service: impl Display, error: &ProtoError) -> CallError {
    CallError::new(Code::BadRequest, format!("the call cannot go to {service}: {error}"))
}
