//! A request's headers that say nothing of the call: whether it is sound HTTP, and where it comes
//! from.
//!
//! All of them are found in one pass. What hyper lets through and RFC 9110 and RFC 9112 forbid is
//! refused here: hosts that are missing, doubled or none, and transfer codings that only end in
//! `chunked`.

use http::request::Parts;
use http::{HeaderValue, Version};
pub(crate) use wire::address::is_authority as is_host;

use super::call_headers::TRACE;
use crate::content::{Charset, MediaType};
use crate::error::{CallError, Code, clip};

/// What every header of ours begins with.
pub(super) const PREFIX: &str = "x-dubbo-";

/// What the headers say beside the call.
#[derive(Clone, Copy, Default)]
pub(super) struct HeadFacts<'a> {
    /// Whether there are headers of ours, or of a trace.
    pub has_ours: bool,
    pub content_encoding: Option<&'a HeaderValue>,
    pub content_type: Option<&'a HeaderValue>,
    /// Whether the body comes in chunks.
    pub is_chunked: bool,
    /// Whether `Connection` has an option other than `keep-alive`.
    pub has_options: bool,
    /// The page that sends the request, as a browser tells it.
    pub origin: Option<&'a HeaderValue>,
    /// How that page and this agent are related, as a browser tells it.
    pub fetch_site: Option<&'a HeaderValue>,
    /// The name by which the client has reached this agent, with its port; empty if it does not
    /// tell.
    pub host: &'a str,
}

impl<'a> HeadFacts<'a> {
    /// What the body is, as its sender says.
    pub(super) fn media_type(&self) -> Option<MediaType<'a>> {
        self.content_type.and_then(MediaType::of)
    }

    /// The charset of the body, if its sender names one. Most do not, and that is seen at once.
    pub(super) fn charset(&self) -> Option<Charset<'a>> {
        let content_type = self.content_type?;
        memchr::memchr(b';', content_type.as_bytes())?;
        MediaType::of(content_type)?.charset()
    }

    /// Looks at all headers of a request.
    ///
    /// # Errors
    /// [`Code::BadRequest`] or [`Code::NotImplemented`] where a rule of HTTP is broken.
    pub(super) fn read(head: &'a Parts) -> Result<Self, CallError> {
        let mut facts = Self::default();
        let (mut n_hosts, mut host, mut coding) = (0, None, Coding::default());
        for (name, value) in &head.headers {
            match name.as_str() {
                "host" => {
                    n_hosts += 1;
                    host = Some(value);
                }
                "transfer-encoding" => coding.read(value)?,
                "connection" => {
                    facts.has_options |= !value.as_bytes().eq_ignore_ascii_case(b"keep-alive");
                }
                "content-encoding" => facts.content_encoding = Some(value),
                "content-type" => facts.content_type = Some(value),
                "origin" => facts.origin = Some(value),
                "sec-fetch-site" => facts.fetch_site = Some(value),
                name if name.starts_with(PREFIX) || TRACE.contains(&name) => facts.has_ours = true,
                _ => {}
            }
        }
        facts.is_chunked = coding.is_chunked;
        if 1 < n_hosts {
            return Err(bad(format!(
                "the request has {n_hosts} Host headers; it must have exactly one"
            )));
        }
        if n_hosts == 0 && head.version == Version::HTTP_11 {
            return Err(bad("the Host header is missing; HTTP/1.1 requires one"));
        }
        if let Some(value) = host {
            facts.host = value.to_str().ok().filter(|text| is_host(text)).ok_or_else(|| {
                let shown = String::from_utf8_lossy(value.as_bytes());
                bad(format!("Host {:?} is neither HOST nor HOST:PORT", clip(&shown)))
            })?;
        }
        // An absolute URL, or HTTP/2's own way to tell the host.
        if let Some(authority) = head.uri.authority() {
            let authority = authority.as_str();
            let is_other = host.is_some() && !facts.host.eq_ignore_ascii_case(authority);
            if is_other && head.version == Version::HTTP_2 {
                let (host, other) = (clip(facts.host), clip(authority));
                return Err(bad(format!("Host is {host:?}, but :authority is {other:?}")));
            }
            facts.host = authority;
        }
        Ok(facts)
    }
}

/// The codings of a body, of which `chunked` alone is known here.
#[derive(Default)]
struct Coding {
    is_chunked: bool,
}

impl Coding {
    fn read(&mut self, value: &HeaderValue) -> Result<(), CallError> {
        for name in value.as_bytes().split(|byte| *byte == b',') {
            let name = name.trim_ascii();
            if name.is_empty() {
                continue;
            }
            if !name.eq_ignore_ascii_case(b"chunked") {
                let name = String::from_utf8_lossy(name);
                let message = format!(
                    "transfer-encoding {:?} is not supported; send the body plain or chunked",
                    clip(&name)
                );
                return Err(CallError::new(Code::NotImplemented, message));
            }
            if std::mem::replace(&mut self.is_chunked, true) {
                return Err(bad("transfer-encoding has chunked twice"));
            }
        }
        Ok(())
    }
}

fn bad(message: impl Into<Box<str>>) -> CallError {
    CallError::new(Code::BadRequest, message)
}
