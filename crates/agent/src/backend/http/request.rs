//! A call as an HTTP request: path, headers and body.

use std::time::Duration;

use bytes::Bytes;
use dubbo_proto::attachment::TYPED;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::Full;

use super::arguments::JsonArguments;
use super::reply::ATTACHMENT;
use crate::attachments;
use crate::backend::AppCall;
use crate::config::http_app::method::{BodyShape, MappedMethod};
use crate::error::{CallError, Code};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
const VERSION: HeaderName = HeaderName::from_static("x-dubbo-service-version");
const GROUP: HeaderName = HeaderName::from_static("x-dubbo-service-group");
const TYPES: HeaderName = HeaderName::from_static("x-dubbo-parameter-types");
const TIMEOUT: HeaderName = HeaderName::from_static("x-dubbo-timeout-ms");
const CALLER: HeaderName = HeaderName::from_static("x-dubbo-remote-application");

/// Attachments that are headers of their own: W3C trace context and baggage.
pub const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];
/// Attachments that are Dubbo's own affair, or told by other headers.
const PROTOCOL: [&str; 8] =
    ["path", "interface", "version", "group", "timeout", "generic", "dubbo", "remote.application"];

/// What all requests to one app have in common.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// Headers of every request.
    headers: HeaderMap,
}

impl Fixed {
    /// For the app on `host`, which offers a service of that version and group.
    pub fn new(host: &str, version: &str, group: &str) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (VERSION, version), (GROUP, group)] {
            if let Some(value) = HeaderValue::from_str(value).ok().filter(|it| !it.is_empty()) {
                headers.insert(name, value);
            }
        }
        headers.insert(ACCEPT, JSON);
        // Without a word about it, any encoding would be welcome.
        headers.insert(ACCEPT_ENCODING, IDENTITY);
        Self { headers }
    }

    /// The request of a call with the time that is left for it. `types` are empty if they are
    /// unknown.
    ///
    /// # Errors
    /// [`Code::BadArguments`] if the arguments do not fit the path or the body.
    pub fn request(
        &self,
        method: &MappedMethod,
        types: &str,
        arguments: &JsonArguments,
        call: &AppCall<'_>,
        left: Duration,
    ) -> Result<Request<Full<Bytes>>, CallError> {
        let path = method.path.render(|index| arguments.at(index)).map_err(|error| {
            CallError::new(Code::BadArguments, format!("{}: {error}", method.signature()))
        })?;
        let body = body(method, arguments)?;
        let mut headers = self.headers.clone();
        // An empty list is that of a method without parameters.
        let are_known = !types.is_empty() || arguments.is_empty();
        if are_known && let Ok(types) = HeaderValue::from_str(types) {
            headers.insert(TYPES, types);
        }
        // Rounded up: 0 would be no time at all.
        let left_ms = u64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        headers.insert(TIMEOUT, left_ms.into());
        attachments(call, &mut headers);
        for (name, value) in &method.headers {
            headers.insert(name, value.clone());
        }
        if let Some(body) = &body {
            headers.insert(CONTENT_TYPE, JSON);
            headers.insert(CONTENT_LENGTH, body.len().into());
        }
        let mut request = Request::new(Full::new(Bytes::from(body.unwrap_or_default())));
        *request.method_mut() = method.http.clone();
        *request.uri_mut() = path.parse().map_err(|error| {
            CallError::new(Code::BadArguments, format!("{path:?} is not a path: {error}"))
        })?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// The body, of the arguments that have no place in the path.
fn body(method: &MappedMethod, arguments: &JsonArguments) -> Result<Option<Vec<u8>>, CallError> {
    let is_left = |index: usize| !method.path.uses(index);
    let mut out = Vec::new();
    match method.body {
        BodyShape::None => return Ok(None),
        BodyShape::Array => arguments.write_array(is_left, &mut out),
        BodyShape::Object => arguments.write_object(&method.names, is_left, &mut out),
        BodyShape::Single => {
            let mut left = (0..arguments.len()).filter(|index| is_left(*index));
            let (Some(index), None) = (left.next(), left.next()) else {
                let message = format!("{} sends one argument as its body", method.signature());
                return Err(CallError::new(Code::BadArguments, message));
            };
            out.extend_from_slice(arguments.at(index).unwrap_or_default());
        }
    }
    Ok(Some(out))
}

/// Attachments as headers. One whose name or value cannot be in a header of its own is in
/// the header of all, in which case counts and numbers are numbers.
fn attachments(call: &AppCall<'_>, headers: &mut HeaderMap) {
    for (name, value) in call.attachments {
        let name = name.trim_start_matches(TYPED);
        let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) else { continue };
        if name == "remote.application" {
            headers.insert(CALLER, value);
        } else if PROTOCOL.contains(&name) {
        } else if TRACE.contains(&name) {
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                headers.insert(name, value);
            }
        } else if let Ok(name) = HeaderName::from_bytes(format!("{ATTACHMENT}{name}").as_bytes()) {
            headers.insert(name, value);
        }
    }
    let is_own = |name: &str| !PROTOCOL.contains(&name) && !TRACE.contains(&name);
    if let Some(object) = attachments::header_for_app(call.attachments, is_own)
        && let Ok(value) = HeaderValue::try_from(object)
    {
        headers.insert(attachments::HEADER, value);
    }
}
