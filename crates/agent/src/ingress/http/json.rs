//! Calls written as JSON: `POST /{interface}/{method}` with an array of arguments, or one value.

use std::borrow::Cow;

use bytes::Bytes;
use percent_encoding::percent_decode_str;

use super::call_headers::CallHeaders;
use crate::args::ArgumentList;
use crate::error::{CallError, Code, clip};
use crate::invocation::{CallOrigin, Invocation};
use crate::route::RouteName;

/// Interface and method as the path names them.
pub(super) struct MethodPath<'a> {
    interface: Cow<'a, str>,
    method: Cow<'a, str>,
}

impl<'a> MethodPath<'a> {
    /// Reads `/{interface}/{method}`.
    pub(super) fn parse(path: &'a str) -> Result<Self, CallError> {
        let parts = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let Some((interface, method)) =
            parts.filter(|(interface, method)| !interface.is_empty() && !method.is_empty())
        else {
            let path = clip(path);
            let message = format!("{path:?} names no method; POST to /INTERFACE/METHOD");
            return Err(CallError::new(Code::NoRoute, message));
        };
        Ok(Self { interface: decode(interface)?, method: decode(method)? })
    }

    /// What is called, by the path alone: the interface and the method.
    pub(super) fn names(&self) -> (&str, &str) {
        (&self.interface, &self.method)
    }

    /// The call that path, headers and body describe.
    pub(super) fn invocation(
        &'a self,
        mut headers: CallHeaders<'a>,
        more: &'a [(String, String)],
        body: &'a Bytes,
    ) -> Result<Invocation<'a>, CallError> {
        let attachments = headers.all_attachments(more);
        let args = ArgumentList::of_body(body)?;
        let name = RouteName {
            interface: &self.interface,
            version: headers.version,
            group: headers.group,
            method: &self.method,
            types: headers.types,
            generic: headers.generic,
        };
        let (timeout, timeout_key) = (headers.timeout, super::call_headers::TIMEOUT);
        Ok(Invocation {
            name,
            args,
            timeout,
            timeout_key,
            attachments,
            origin: CallOrigin::default(),
            clock: None,
            is_copy: false,
            not_at: None,
        })
    }
}

fn decode(part: &str) -> Result<Cow<'_, str>, CallError> {
    // Names in Java need no encoding.
    if memchr::memchr(b'%', part.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(part));
    }
    percent_decode_str(part)
        .decode_utf8()
        .map_err(|_| CallError::new(Code::NoRoute, "the path is not UTF-8"))
}
