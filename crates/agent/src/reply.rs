//! What a provider's reply says, as JSON.

use std::borrow::Cow;

use dubbo_proto::{BodyLimits, Reply as DubboReply, ReplyKind, Serialization, Status, fastjson};
use hessian::json::JsonReader;
use hessian::transcode::{JsonOptions, hessian_to_json, hessian_to_json_with};
use hessian::{Decoder, Limits};
use jsonb::jsonb_to_json_as;

use crate::call::Reply;
use crate::error::{CallError, Code};
use crate::route::Plan;

/// The value of a reply as JSON text.
///
/// # Errors
/// [`Code::Exception`] if the method threw, [`Code::BadReply`] if the reply cannot be read.
pub fn json_of(reply: &Reply) -> Result<Vec<u8>, CallError> {
    json_of_with(reply, &JsonOptions::default())
}

/// Like [`json_of`], in the form that the caller chose. A reply in fastjson is JSON already, and
/// stays as it is.
///
/// # Errors
/// [`Code::Exception`] if the method threw, [`Code::BadReply`] if the reply cannot be read.
pub fn json_of_with(reply: &Reply, options: &JsonOptions) -> Result<Vec<u8>, CallError> {
    let broken = |error: &dyn std::fmt::Display| {
        CallError::new(Code::BadReply, format!("the reply cannot be read: {error}"))
            .at(&reply.endpoint)
    };
    let decoded = DubboReply::decode(reply.serialization, Status::Ok, &reply.body);
    let outcome = match decoded.map_err(|error| broken(&error))? {
        DubboReply::Done(outcome) => outcome,
        DubboReply::Failed { text, .. } => return Err(broken(&text)),
    };
    let mut json = Vec::with_capacity(64);
    match (outcome.kind(), outcome.serialization()) {
        (ReplyKind::Null, _) => json.extend_from_slice(b"null"),
        (
            ReplyKind::Value | ReplyKind::Exception,
            Serialization::Fastjson | Serialization::FastjsonSized,
        ) => {
            let text = outcome.value(&BodyLimits::default()).map_err(|error| broken(&error))?;
            let mut plain = Vec::new();
            let text = if outcome.serialization() == Serialization::FastjsonSized {
                let class_names = outcome.kind() == ReplyKind::Exception;
                fastjson::to_json(text, class_names, &mut plain).map_err(|error| broken(&error))?;
                &plain
            } else {
                text
            };
            let mut reader = JsonReader::new(text, Limits::default());
            let text = reader.skip_value().map_err(|error| broken(&error))?;
            reader.finish().map_err(|error| broken(&error))?;
            json.extend_from_slice(text);
        }
        (ReplyKind::Value | ReplyKind::Exception, Serialization::Fastjson2) => {
            let value = outcome.value(&BodyLimits::default()).map_err(|error| broken(&error))?;
            let mut decoder = jsonb::Decoder::new(value, Limits::default());
            let is_exception = outcome.kind() == ReplyKind::Exception;
            let plain = JsonOptions { class_name: true, ..JsonOptions::default() };
            let options = if is_exception { &plain } else { options };
            let ty = reply.route.as_ref().and_then(|route| route.plan.result.as_ref());
            jsonb_to_json_as(&mut decoder, ty.filter(|_| !is_exception), &mut json, options)
                .and_then(|()| decoder.finish())
                .map_err(|error| broken(&error))?;
        }
        (ReplyKind::Value | ReplyKind::Exception, _) => {
            let mut decoder = Decoder::new(outcome.value_and_rest(), Limits::default());
            let is_exception = outcome.kind() == ReplyKind::Exception;
            let plain = JsonOptions { class_name: true, ..JsonOptions::default() };
            let options = if is_exception { &plain } else { options };
            match reply.route.as_ref().filter(|_| !is_exception).map(|route| &route.plan) {
                Some(Plan { result: Some(ty), schema: Some(schema), .. }) => {
                    let schema = &schema.service;
                    hessian_to_json_with(&mut decoder, Some(ty), &mut json, options, schema)
                }
                _ => hessian_to_json(&mut decoder, &mut json, options),
            }
            .map_err(|error| broken(&error))?;
        }
    }
    if reply.route.as_ref().is_some_and(|route| route.answers_json_text()) {
        json = unwrapped(json);
    }
    match outcome.kind() {
        ReplyKind::Exception => Err(exception(&json).at(&reply.endpoint)),
        ReplyKind::Value | ReplyKind::Null => Ok(json),
    }
}

/// What every provider attaches to every reply: its version of Dubbo's protocol. Replies that end so have no
/// attachments of their own, and this is how nearly all end.
const PLAIN_TAIL: &[u8] = b"H\x05dubbo\x052.0.2Z";
/// That attachment.
const PROTOCOL_VERSION: &str = "dubbo";

/// The attachments of a reply that are texts, but for those that Dubbo itself adds. None if they cannot be read:
/// the value counts.
pub fn attachments_of(reply: &Reply) -> Vec<(String, String)> {
    if reply.body.ends_with(PLAIN_TAIL) {
        return Vec::new();
    }
    let decoded = DubboReply::decode(reply.serialization, Status::Ok, &reply.body);
    let Ok(DubboReply::Done(outcome)) = decoded else { return Vec::new() };
    let mut attachments = outcome.attachments(&BodyLimits::default()).unwrap_or_default();
    attachments.retain(|(name, _)| name != PROTOCOL_VERSION);
    attachments
}

/// The JSON text that stands inside of a JSON string. A provider that does not know `generic=gson` sends the
/// value itself, which stays as it is.
fn unwrapped(json: Vec<u8>) -> Vec<u8> {
    let mut reader = JsonReader::new(&json, Limits::default());
    let Ok(text) = reader.read_string() else { return json };
    let mut inner = JsonReader::new(text.as_bytes(), Limits::default());
    let is_json = inner.skip_value().is_ok() && inner.finish().is_ok();
    if is_json { text.into_owned().into_bytes() } else { json }
}

/// What a thrown exception says, given its object as JSON.
fn exception(json: &[u8]) -> CallError {
    let object: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    let text = |names: &[&str]| {
        names.iter().find_map(|name| object.get(name)?.as_str()).map(Cow::Borrowed)
    };
    // The generic filter wraps an exception in one of its own, which names the original.
    let class = text(&["exceptionClass", "class", "@type"]).unwrap_or("an exception".into());
    let message = text(&["exceptionMessage", "detailMessage", "message", "localizedMessage"])
        .unwrap_or_default();
    let code = match class.as_ref() {
        // Dubbo has no status for a method that is not there: it throws, in several ways.
        "java.lang.NoSuchMethodException" | "org.apache.dubbo.rpc.service.GenericException"
            if message.contains("NoSuchMethodException") || message.is_empty() =>
        {
            Code::MethodNotFound
        }
        _ if message.contains("java.lang.NoSuchMethodException") => Code::MethodNotFound,
        _ => Code::Exception,
    };
    match message.is_empty() {
        true => CallError::new(code, class.as_ref()),
        false => CallError::new(code, format!("{class}: {message}")),
    }
}
