//! What a provider's reply says, as JSON.

use std::fmt::Display;

use dubbo_proto::{Outcome, ReadOptions, Reply as DubboReply, ReplyKind, Status};
use hessian::json::JsonReader;
use hessian::transcode::{EnumStyle, JsonOptions, RefStyle, Schema, fold_generalized};
use hessian::{JavaType, Limits};

use crate::attachments::Replied;
use crate::call::Reply;
use crate::error::{CallError, Code};
use crate::exception;

/// The value of a reply as JSON text.
///
/// # Errors
/// [`Code::Exception`] if the method threw, [`Code::BadReply`] if the reply cannot be read.
pub fn json_of(reply: &Reply) -> Result<Vec<u8>, CallError> {
    json_of_with(reply, &JsonOptions::default())
}

/// Like [`json_of`], in the form that the caller chose. A reply in fastjson is JSON already: it is
/// written again where the caller wants it otherwise, by the method's type if that is known.
///
/// # Errors
/// [`Code::Exception`] if the method threw, [`Code::BadReply`] if the reply cannot be read.
pub fn json_of_with(reply: &Reply, options: &JsonOptions) -> Result<Vec<u8>, CallError> {
    read(reply, options).map_err(|error| error.at(&reply.endpoint))
}

fn read(reply: &Reply, options: &JsonOptions) -> Result<Vec<u8>, CallError> {
    let decoded = DubboReply::decode(reply.serialization, Status::Ok, &reply.body);
    let outcome = match decoded.map_err(unreadable)? {
        DubboReply::Done(outcome) => outcome,
        DubboReply::Failed { text, .. } => return Err(unreadable(text)),
    };
    // JSON is about as long as the body. Text of megabytes is not moved while it grows: others
    // wait meanwhile.
    let mut json = Vec::with_capacity(reply.body.len().max(64));
    match outcome.kind() {
        ReplyKind::Null => json.extend_from_slice(b"null"),
        ReplyKind::Value => write_value(&outcome, known_type(reply), options, &mut json)?,
        ReplyKind::Exception => {
            // Its class and those of its causes have to be known, and references are of no use in
            // its parts.
            let refs = RefStyle::default();
            let named = JsonOptions { class_name: true, refs, ..options.clone() };
            write_value(&outcome, Known::default(), &named, &mut json)?;
        }
    }
    if reply.route.as_ref().is_some_and(|route| route.answers_json_text()) {
        json = unwrapped(json);
    } else if reply.route.as_ref().is_some_and(|route| route.parameters.is_generic())
        && let Some(folded) = fold_generalized(&json, options)
    {
        json = folded;
    }
    match outcome.kind() {
        ReplyKind::Exception => Err(exception::thrown(&json)),
        ReplyKind::Value | ReplyKind::Null => Ok(json),
    }
}

fn unreadable(error: impl Display) -> CallError {
    CallError::new(Code::BadReply, format!("the reply cannot be read: {error}"))
}

/// A value that contains itself can be read, but not be told without references.
fn untold(error: impl Display) -> CallError {
    let how = "header x-dubbo-json: refs=path, or dubmesh call --json refs=path";
    CallError::new(Code::BadReply, format!("the reply has no form in JSON: {error} ({how})"))
}

/// Appends the value or the exception of a reply.
fn write_value(
    outcome: &Outcome<'_>,
    known: Known<'_>,
    options: &JsonOptions,
    out: &mut Vec<u8>,
) -> Result<(), CallError> {
    let options = ReadOptions { json: options, schema: known.schema };
    outcome.write_json(known.ty, options, out).map_err(|error| match error.is_cycle() {
        true => untold(error),
        false => unreadable(error),
    })
}

/// What a definition tells of a result.
#[derive(Clone, Copy, Default)]
struct Known<'a> {
    ty: Option<&'a JavaType>,
    schema: Option<&'a dyn Schema>,
}

fn known_type(reply: &Reply) -> Known<'_> {
    let Some(plan) = reply.route.as_ref().map(|route| &route.plan) else { return Known::default() };
    let schema = plan.schema.as_ref().map(|schema| &schema.service as &dyn Schema);
    Known { ty: plan.result.as_ref(), schema }
}

/// The caller's options that say nothing about this reply: the provider has written text that does
/// not say what they are about, and no definition does.
pub fn ignored_options(reply: &Reply, options: &JsonOptions) -> Vec<&'static str> {
    let known = known_type(reply);
    if reply.serialization.has_types() || known.ty.is_some() && known.schema.is_some() {
        return Vec::new();
    }
    [
        ("longs", options.longs_as_text),
        ("enums", options.enums != EnumStyle::default()),
        ("class", options.class_name && !reply.serialization.names_classes()),
    ]
    .into_iter()
    .filter_map(|(name, is_chosen)| is_chosen.then_some(name))
    .collect()
}

/// What every provider attaches to every reply: its version of Dubbo's protocol. Replies that end
/// so have no attachments of their own, and this is how nearly all end.
const PLAIN_TAIL: &[u8] = b"H\x05dubbo\x052.0.2Z";

/// The attachments of a reply, but for those that Dubbo itself adds. What cannot be read is left
/// out: the value counts.
pub fn attachments_of(reply: &Reply, options: &JsonOptions) -> Replied {
    if reply.body.ends_with(PLAIN_TAIL) {
        return Replied::default();
    }
    let decoded = DubboReply::decode(reply.serialization, Status::Ok, &reply.body);
    let Ok(DubboReply::Done(outcome)) = decoded else { return Replied::default() };
    if !outcome.has_attachments() {
        return Replied::default();
    }
    Replied::of(&outcome, options)
}

/// The JSON text that stands inside of a JSON string. A provider that does not know `generic=gson`
/// sends the value itself, which stays as it is.
fn unwrapped(json: Vec<u8>) -> Vec<u8> {
    let mut reader = JsonReader::new(&json, Limits::default());
    let Ok(text) = reader.read_string() else { return json };
    let mut inner = JsonReader::new(text.as_bytes(), Limits::default());
    let is_json = inner.skip_value().is_ok() && inner.finish().is_ok();
    if is_json { text.into_owned().into_bytes() } else { json }
}

#[cfg(test)]
mod tests {
    use dubbo_proto::Serialization;

    use super::*;

    struct Orders;

    impl Schema for Orders {
        fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
            static LONG: JavaType = JavaType::Long;
            (class == "com.acme.Order" && field == "id").then_some(&LONG)
        }
    }

    fn reply(serialization: Serialization, body: &[u8]) -> Reply {
        let body = bytes::Bytes::copy_from_slice(body);
        Reply { serialization, body, endpoint: "here".into(), route: None, came: None }
    }

    fn text(reply: &Reply, options: &str) -> (String, Vec<&'static str>) {
        let options = JsonOptions::parse(options).unwrap();
        let json = json_of_with(reply, &options).unwrap();
        (String::from_utf8(json).unwrap(), ignored_options(reply, &options))
    }

    #[test]
    fn a_value_that_contains_itself_is_told_by_paths() {
        // A list without type whose one element is the list.
        let cycle = reply(Serialization::Hessian2, b"\x91\x79\x51\x90");
        let error = json_of_with(&cycle, &JsonOptions::default()).unwrap_err();
        assert!(error.message.contains("dubmesh call --json refs=path"), "{error}");
        assert_eq!(text(&cycle, "refs=path").0, r#"[{"$ref":"$"}]"#);
    }

    #[test]
    fn fastjson_comes_as_it_is_or_as_it_is_wanted() {
        let value = r#"{ "id":7,"big":9007199254740993, "at":0,"name":"RED"}"#;
        let lines = reply(Serialization::Fastjson, format!("1\n{value}\n").as_bytes());
        assert_eq!(text(&lines, ""), (value.to_owned(), vec![]));
        let big = r#"{"id":7,"big":"9007199254740993","at":0,"name":"RED"}"#;
        assert_eq!(text(&lines, "big-numbers=text"), (big.to_owned(), vec![]));
        assert_eq!(text(&lines, "longs=text; class=yes").1, ["longs", "class"]);
        assert_eq!(text(&lines, "longs=text").0, big);
        let sized = |value: &str| {
            let len = u32::try_from(value.len()).unwrap().to_be_bytes();
            let body = [&b"\0\0\0\x011"[..], &len, value.as_bytes()].concat();
            reply(Serialization::FastjsonSized, &body)
        };
        let order = sized(r#"{"@type":"com.acme.Order","id":7}"#);
        assert_eq!(text(&order, "").0, r#"{"id":7}"#);
        let (json, ignored) = text(&order, "class=yes");
        assert_eq!((&*json, ignored), (r#"{"class":"com.acme.Order","id":7}"#, vec![]));
    }

    #[test]
    fn types_tell_what_fastjson_does_not() {
        let ty = JavaType::parse("java.util.List<com.acme.Order>").unwrap();
        let write = |json: &str, options: &str| {
            let (mut out, options) = (Vec::new(), JsonOptions::parse(options).unwrap());
            let known = ReadOptions { json: &options, schema: Some(&Orders) };
            let values = Serialization::Fastjson.values().unwrap();
            values.read_value(json.as_bytes(), Some(&ty), known, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let options = "longs=text; class=yes";
        let expected = r#"[{"class":"com.acme.Order","id":"7","n":1}]"#;
        assert_eq!(write(r#"[{"id":7,"n":1}]"#, options), expected);
        // What does not fit the definition is still an answer.
        assert_eq!(write(r#"{"id":"x"}"#, options), r#"{"id":"x"}"#);
    }
}
