//! How calls name the version and group of their endpoint, where callers leave them open.
//!
//! Dubbo's consumers call each provider with the version and group of that provider: it knows no
//! `*`, and no list of groups.

use std::rc::Rc;

use bytes::Bytes;
use dubbo_proto::{Request, ServiceKey};

use super::{Attempt, MemberState};
use crate::call::Whole;
use crate::error::{CallError, Code};
use crate::facts::WholeFacts;
use crate::route::{Route, RouteVariant};

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
    /// [`Code::BadRequest`] if it cannot be changed.
    #[inline]
    pub(super) fn whole_for(&self, whole: Whole<'_>) -> Result<Option<Bytes>, CallError> {
        self.variant.as_ref().map_or(Ok(None), |listed| named_anew(whole, listed))
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
    /// [`Code::BadRequest`] if it cannot be changed.
    #[inline]
    pub fn whole_for(&self, whole: Whole<'_>) -> Result<Option<Bytes>, CallError> {
        self.member.0.whole_for(whole)
    }
}

#[cold]
fn named_anew(whole: Whole<'_>, key: &ServiceKey) -> Result<Option<Bytes>, CallError> {
    let facts = WholeFacts::new(whole);
    let Some(request) = facts.request() else { return Ok(None) };
    match request.service_key() {
        Ok(named) if named.version == key.version && named.group == key.group => Ok(None),
        _ => request_for(request, key).map(Some),
    }
}

/// The body of a request as it goes to another version or group of its service.
///
/// # Errors
/// [`Code::BadRequest`] if it cannot be changed.
#[cold]
pub fn request_for(request: &Request, key: &ServiceKey) -> Result<Bytes, CallError> {
    let names = [("version", &*key.version), ("group", &*key.group)];
    request.changed(&key.version, &names).map_err(|error| {
        CallError::new(Code::BadRequest, format!("the call cannot go to {key}: {error}"))
    })
}
