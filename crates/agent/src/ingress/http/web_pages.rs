//! Which web pages may call.
//!
//! A browser sends what any page tells it to, to any address that it reaches: this machine's, too.
//! It says so by `Origin` and `Sec-Fetch-Site`, which pages cannot change and other programs do
//! not send. A request with one of them is refused unless it is from a page of this listener's own
//! origin, or of one that is configured (CORS).
//!
//! A page's own server can give its name to this machine's address later (DNS rebinding), and is
//! then of our origin as far as the browser knows. So names count only if they are known;
//! addresses always do.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, VARY,
};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use wire::address::split_authority;

use super::HttpAnswer;
use super::call_headers::TRACE;
use super::head::{HeadFacts, PREFIX};
use crate::config::Cors;
use crate::error::{CallError, Code, clip};

/// Asked for by a page of a public network that calls into a private one.
const REQUEST_PRIVATE: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");
/// What a page may read of an answer beside its body.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "retry-after, x-dubbo-attachments, x-dubbo-attachments-left-out, x-dubbo-json-ignored",
);
const POST: HeaderValue = HeaderValue::from_static("POST");
const TRUE: HeaderValue = HeaderValue::from_static("true");

/// The origin of the page that sends a request, if its answers are to be shared with it; nothing
/// if no page sends it, or one of our own origin.
///
/// # Errors
/// [`Code::CrossSite`] for all other pages.
pub(super) fn judge<'a>(
    facts: &HeadFacts<'a>,
    cors: Option<&Cors>,
    hosts: &[String],
) -> Result<Option<&'a HeaderValue>, CallError> {
    if facts.origin.is_none() && facts.fetch_site.is_none() {
        return Ok(None);
    }
    if let Some(origin) = facts.origin
        && cors.is_some_and(|cors| cors.allows(origin.as_bytes()))
    {
        return Ok(Some(origin));
    }
    let is_own = match facts.fetch_site {
        Some(site) => *site == "same-origin" || *site == "none",
        // Browsers leave it out where the way to the agent is not one that they trust.
        None => facts.origin.is_some_and(|origin| is_origin_of(origin.as_bytes(), facts.host)),
    };
    if !is_own {
        let page =
            facts.origin.map_or("another site".into(), |it| String::from_utf8_lossy(it.as_bytes()));
        let message = format!(
            "a web page of {} may not call this agent; add it to origins of [ingress.cors]",
            clip(&page)
        );
        return Err(CallError::new(Code::CrossSite, message));
    }
    if !is_known_host(facts.host, hosts) {
        let message = format!(
            "a web page called this agent by the unknown name {:?}; add it to hosts of this \
             [[ingress]]",
            clip(facts.host)
        );
        return Err(CallError::new(Code::CrossSite, message));
    }
    Ok(None)
}

/// Whether `host` (with or without a port) is an address, a name of this machine for itself, or in
/// `hosts`. Nobody else can make such a name stand for this machine.
pub(crate) fn is_known_host(host: &str, hosts: &[String]) -> bool {
    let (name, _) = split_authority(host);
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    if address.is_some() || name.parse::<Ipv4Addr>().is_ok() {
        return address.is_none_or(|address| address.parse::<IpAddr>().is_ok());
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_local = |name: &str| {
        let end = name.len().checked_sub("localhost".len());
        end.and_then(|end| name.split_at_checked(end)).is_some_and(|(before, end)| {
            end.eq_ignore_ascii_case("localhost") && (before.is_empty() || before.ends_with('.'))
        })
    };
    is_local(name) || hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether an origin is that of pages from `host`. Something before the agent may have spoken TLS.
fn is_origin_of(origin: &[u8], host: &str) -> bool {
    let place = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    !host.is_empty() && place.is_some_and(|place| place.eq_ignore_ascii_case(host.as_bytes()))
}

/// Whether a browser asks what a page may send, before it sends it.
pub(super) fn is_preflight(head: &Parts, facts: &HeadFacts<'_>) -> bool {
    head.method == Method::OPTIONS
        && facts.origin.is_some()
        && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to that question, for a page that may call.
pub(super) fn preflight(head: &Parts, cors: &Cors) -> HttpAnswer {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, POST);
    headers.insert(ACCESS_CONTROL_MAX_AGE, cors.max_age.as_secs().into());
    let mut wanted: Vec<&str> = Vec::new();
    for value in head.headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS) {
        let names = value.to_str().unwrap_or_default().split(',').map(str::trim);
        wanted.extend(names.filter(|name| is_allowed(name, cors)));
    }
    if let Ok(value) = HeaderValue::try_from(wanted.join(", "))
        && !wanted.is_empty()
    {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, value);
    }
    if head.headers.get(REQUEST_PRIVATE).is_some_and(|value| *value == "true") {
        headers.insert(ALLOW_PRIVATE, TRUE);
    }
    response
}

fn is_allowed(name: &str, cors: &Cors) -> bool {
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    let is_ours = name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    is_ours
        || ["content-type", "accept"].into_iter().chain(TRACE).any(is)
        || cors.headers.iter().any(|known| is(known))
}

/// Shares an answer with the page that has asked. Answers differ by origin, and caches have to
/// know.
pub(super) fn share(headers: &mut HeaderMap, cors: &Cors, origin: Option<&HeaderValue>) {
    headers.insert(VARY, HeaderValue::from_static("origin"));
    let Some(origin) = origin else { return };
    let is_for_all = cors.is_for_all && !cors.credentials;
    let origin = if is_for_all { HeaderValue::from_static("*") } else { origin.clone() };
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    if cors.credentials {
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_else_can_give_are_known() {
        let hosts = ["mesh.example".to_owned()];
        for known in [
            "127.0.0.1:20000",
            "10.0.0.7",
            "[::1]:80",
            "localhost",
            "LOCALHOST:1",
            "a.localhost:2",
            "localhost.",
            "mesh.example",
            "Mesh.Example.:80",
        ] {
            assert!(is_known_host(known, &hosts), "{known}");
        }
        for unknown in [
            "evil.example",
            "",
            "notlocalhost",
            "localhost.evil.example",
            "[x]",
            "1.2.3",
            "a.mesh.example",
        ] {
            assert!(!is_known_host(unknown, &hosts), "{unknown}");
        }
    }
}
