//! What a caller gets back: the value of a reply, or an error that says what to do.

use std::rc::Rc;

use bytes::Bytes;
use hessian::Limits;
use hessian::json::{self, JsonReader};
use hessian::transcode::JsonOptions;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode, Version};
use wire::Account;

use super::call_headers::ATTACHMENT;
use super::{AnswerStyle, HttpAnswer};
use crate::attachments::{HEADER, MAX_LEN, Replied};
use crate::call::ProviderReply;
use crate::error::{CallError, Code, FaultOrigin};
use crate::offload::Threads;
use crate::reply::{ReplyReader, read_in_place, read_offloaded};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const POST: HeaderValue = HeaderValue::from_static("POST");
const CLOSE: HeaderValue = HeaderValue::from_static("close");
/// Longest message about a mistake of the caller's, in bytes. Much of it may be what the caller
/// has sent.
const MAX_COMPLAINT_LEN: usize = 4096;
const TEXT: HeaderValue = HeaderValue::from_static("text/plain;charset=utf-8");
/// Names the caller's options of the JSON mapping that changed nothing, since nothing tells the
/// types of the reply's values.
const IGNORED: HeaderName = HeaderName::from_static("x-dubbo-json-ignored");
/// How many attachments of a reply stand in no header, for there is no room, or they cannot be
/// told in JSON.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-dubbo-attachments-left-out");

/// What a reply says.
struct Contents {
    body: Vec<u8>,
    ignored: String,
    attachments: Replied,
}

impl Contents {
    fn read(style: AnswerStyle, reader: &ReplyReader<'_>) -> Result<Self, CallError> {
        let json = reader.json()?;
        let body = match style {
            AnswerStyle::Json => json,
            AnswerStyle::Text => unquote(json),
        };
        let ignored = reader.ignored_options().join("; ");
        Ok(Self { body, ignored, attachments: reader.attachments() })
    }
}

/// The answer to a call that came back. One of `threads` makes a long one, and `account` counts
/// what that takes.
///
/// # Errors
/// The exception that the method threw, or what is wrong with the reply.
pub(super) async fn value(
    style: AnswerStyle,
    options: &JsonOptions,
    reply: &ProviderReply,
    account: &Rc<Account>,
    threads: &Threads,
) -> Result<HttpAnswer, CallError> {
    let read = move |reader: &ReplyReader<'_>| Contents::read(style, reader);
    let contents = match read_in_place(reply, options, read)? {
        Some(contents) => contents,
        // Long ones are rare: their future need not be a part of every call's.
        None => Box::pin(read_offloaded(reply, options, account, threads, read)).await?,
    };
    let mut response = Response::new(Bytes::from(contents.body));
    let content_type = match style {
        AnswerStyle::Json => JSON,
        AnswerStyle::Text => TEXT,
    };
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    let ignored = HeaderValue::from_str(&contents.ignored).ok().filter(|it| !it.is_empty());
    if let Some(value) = ignored {
        response.headers_mut().insert(IGNORED, value);
    }
    if contents.attachments != Replied::default() {
        attach(&contents.attachments, response.headers_mut());
    }
    Ok(response)
}

/// Adds the attachments of a reply: all of them in one header, and the texts in headers of their
/// own.
fn attach(attachments: &Replied, headers: &mut HeaderMap) {
    let (object, n_left_out) = attachments.header();
    if let Ok(value) = HeaderValue::from_str(&object) {
        headers.insert(HeaderName::from_static(HEADER), value);
    }
    if n_left_out != 0 {
        headers.insert(LEFT_OUT, n_left_out.into());
    }
    let mut room = MAX_LEN;
    for (name, value) in &attachments.members {
        let Ok(value) = JsonReader::new(value, Limits::of_whole()).read_string() else { continue };
        let Some(left) = room.checked_sub(name.len() + value.len()) else { continue };
        // Names and values that no header can have are left out.
        let name = HeaderName::from_bytes(format!("{ATTACHMENT}{name}").as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            room = left;
            headers.append(name, value);
        }
    }
}

/// The answer to a call that failed.
pub(super) fn error(error: &CallError, version: Version) -> HttpAnswer {
    let row = error.code.row();
    let mut response = Response::new(Bytes::from(body_of(error)));
    *response.status_mut() =
        StatusCode::from_u16(row.http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    if matches!(response.status(), StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
    {
        // In whole seconds, and 1 is the least that the header can say.
        let seconds = error.retry_after.map_or(1, |after| after.as_millis().div_ceil(1000).max(1));
        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if error.code == Code::MethodNotAllowed {
        response.headers_mut().insert(ALLOW, POST);
    }
    if error.code == Code::NotImplemented {
        // Where the body ends is not known for sure.
        close(&mut response, version);
    }
    response
}

/// Says that no further request is answered on the connection. (HTTP/2 has no such header.)
pub(super) fn close(answer: &mut HttpAnswer, version: Version) {
    if version < Version::HTTP_2 {
        answer.headers_mut().insert(CONNECTION, CLOSE);
    }
}

/// An error as JSON.
fn body_of(error: &CallError) -> Vec<u8> {
    let mut body = Vec::with_capacity(128);
    let member = |body: &mut Vec<u8>, name: &str| {
        json::write_string(body, name);
        body.push(b':');
    };
    body.push(b'{');
    member(&mut body, "code");
    json::write_string(&mut body, error.code.row().name);
    body.push(b',');
    member(&mut body, "message");
    let summary = error.summary();
    let max = match error.code.row().fault {
        FaultOrigin::Downstream => MAX_COMPLAINT_LEN,
        FaultOrigin::Local | FaultOrigin::Upstream => summary.len(),
    };
    json::write_string(
        &mut body,
        summary.get(..summary.floor_char_boundary(max)).unwrap_or_default(),
    );
    if let Some(exception) = &error.exception {
        body.push(b',');
        member(&mut body, "exception");
        body.extend_from_slice(exception.as_bytes());
    }
    body.push(b',');
    member(&mut body, "endpoint");
    match &error.endpoint {
        Some(endpoint) => json::write_string(&mut body, endpoint),
        None => body.extend_from_slice(b"null"),
    }
    body.push(b',');
    member(&mut body, "retryable");
    let is_retryable: &[u8] = if error.retry().is_worth_repeating() { b"true" } else { b"false" };
    body.extend_from_slice(is_retryable);
    body.push(b'}');
    body
}

/// JSON text without the quotes of a string, for callers that want the bare value.
fn unquote(json: Vec<u8>) -> Vec<u8> {
    if json.first() != Some(&b'"') {
        return json;
    }
    match JsonReader::new(&json, Limits::of_whole()).read_string() {
        Ok(text) => text.into_owned().into_bytes(),
        Err(_) => json,
    }
}
