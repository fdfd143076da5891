//! What a caller gets back: the value of a reply, or an error that says what to do.

use bytes::Bytes;
use hessian::Limits;
use hessian::json::JsonReader;
use hessian::transcode::JsonOptions;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::Full;

use super::{ATTACHMENT, Style};
use crate::call::Reply;
use crate::error::CallError;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain;charset=utf-8");
/// Names the caller's options of the JSON mapping that changed nothing, since nothing tells the types of the
/// reply's values.
const IGNORED: HeaderName = HeaderName::from_static("x-dubbo-json-ignored");
/// When to come back after a refusal, in seconds: the least that the header can say.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("1");

/// The answer to a call that came back.
///
/// # Errors
/// The exception that the method threw, or what is wrong with the reply.
pub(super) fn value(
    style: Style,
    options: &JsonOptions,
    reply: &Reply,
) -> Result<Response<Full<Bytes>>, CallError> {
    let json = crate::reply::json_of_with(reply, options)?;
    let (content_type, body) = match style {
        Style::Json => (JSON, json),
        Style::Text => (TEXT, unquote(json)),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    let ignored = crate::reply::ignored_options(reply, options).join("; ");
    let ignored = HeaderValue::from_str(&ignored).ok().filter(|ignored| !ignored.is_empty());
    if let Some(value) = ignored {
        response.headers_mut().insert(IGNORED, value);
    }
    for (name, value) in crate::reply::attachments_of(reply) {
        // Names and values that no header can have are left out.
        let name = HeaderName::from_bytes(format!("{ATTACHMENT}{name}").as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

/// The answer to a call that failed.
pub(super) fn error(error: &CallError) -> Response<Full<Bytes>> {
    let row = error.code.row();
    let body = serde_json::json!({
        "code": row.name,
        "message": error.summary(),
        "endpoint": error.endpoint,
        "retryable": error.is_retryable(),
    });
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() =
        StatusCode::from_u16(row.http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_S);
    }
    response
}

/// JSON text without the quotes of a string, for callers that want the bare value.
fn unquote(json: Vec<u8>) -> Vec<u8> {
    if json.first() != Some(&b'"') {
        return json;
    }
    match JsonReader::new(&json, Limits::default()).read_string() {
        Ok(text) => text.into_owned().into_bytes(),
        Err(_) => json,
    }
}
