//! What a provider's reply says, as JSON.

use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use dubbo_proto::{Outcome, ReadOptions, Reply as DubboReply, ReplyKind, Serialization, Status};
use hessian::json::JsonReader;
use hessian::transcode::{EnumStyle, JsonOptions, RefStyle, Schema, fold_generalized};
use hessian::{JavaType, Limits};
use registry::Definition;
use wire::Account;

use crate::attachments::Replied;
use crate::call::ProviderReply;
use crate::error::{CallError, Code};
use crate::exception;
use crate::grown_text::{GrownText, IN_PLACE_LEN, in_place, is_too_long};
use crate::memory::no_room_for_reply;
use crate::offload::{LONG_LEN, Threads};
use crate::route::Route;

/// Reads a reply at once, in the form that `options` ask for; nothing if it is long, or becomes
/// long as JSON.
///
/// # Errors
/// Those of `read`.
pub fn read_in_place<R>(
    reply: &ProviderReply,
    options: &JsonOptions,
    read: impl FnOnce(&ReplyReader<'_>) -> Result<R, CallError>,
) -> Result<Option<R>, CallError> {
    if LONG_LEN <= reply.body.len() {
        return Ok(None);
    }
    match read(&ReplyReader::new(reply, &in_place(options))) {
        Err(error) if is_too_long(&error) => Ok(None),
        read => read.map(Some),
    }
}

/// Has one of `threads` read a reply, so that other calls get on meanwhile. `account` counts what
/// that takes.
///
/// # Errors
/// [`Code::Timeout`] if no thread is free before the call's deadline, [`Code::ReplyTooLarge`] if
/// the JSON is longer than it may become, and those of `read`.
pub async fn read_offloaded<R: Send + 'static>(
    reply: &ProviderReply,
    options: &JsonOptions,
    account: &Rc<Account>,
    threads: &Threads,
    read: impl Fn(&ReplyReader<'_>) -> Result<R, CallError> + Send + 'static,
) -> Result<R, CallError> {
    let len = reply.body.len();
    let text = GrownText::new(account, len);
    // JSON is about as long as the body.
    text.reserve(len).map_err(|refused| no_room_for_reply(len, &refused))?;
    let own = OwnReply::new(reply);
    let options = options.clone();
    let write = move |text: &GrownText| read(&own.reader(&text.options(&options)));
    let written = text.write(threads, reply.deadline, account.count(len), write).await;
    written.map_err(|error| error.at(&reply.endpoint))
}

/// What is needed to read a reply.
#[derive(Clone, Copy)]
pub struct ReplyReader<'a> {
    serialization: Serialization,
    body: &'a [u8],
    endpoint: &'a str,
    options: &'a JsonOptions,
    known: DefinedResult<'a>,
    form: ValueForm,
}

/// The same of its own, for other threads.
struct OwnReply {
    serialization: Serialization,
    body: Bytes,
    endpoint: Box<str>,
    result: Option<JavaType>,
    definition: Option<Arc<Definition>>,
    form: ValueForm,
}

/// What stands for the value.
#[derive(Clone, Copy, Default)]
enum ValueForm {
    #[default]
    Itself,
    /// A map of a generic call, which may stand for an object.
    Map,
    /// A string with JSON text.
    Text,
}

impl ValueForm {
    fn of(route: &Route) -> Self {
        match () {
            () if route.answers_json_text() => Self::Text,
            () if route.answers_maps() => Self::Map,
            () => Self::Itself,
        }
    }
}

impl OwnReply {
    fn new(reply: &ProviderReply) -> Self {
        let plan = reply.route.as_ref().map(|route| &route.plan);
        Self {
            serialization: reply.serialization,
            body: reply.body.clone(),
            endpoint: (&*reply.endpoint).into(),
            result: plan.and_then(|plan| plan.result.clone()),
            definition: plan.and_then(|plan| plan.schema.clone()),
            form: reply.route.as_deref().map_or_else(ValueForm::default, ValueForm::of),
        }
    }

    fn reader<'a>(&'a self, options: &'a JsonOptions) -> ReplyReader<'a> {
        ReplyReader {
            serialization: self.serialization,
            body: &self.body,
            endpoint: &self.endpoint,
            options,
            known: DefinedResult::new(self.result.as_ref(), self.definition.as_deref()),
            form: self.form,
        }
    }
}

impl<'a> ReplyReader<'a> {
    /// Reads a reply, in the form that the caller chose.
    pub fn new(reply: &'a ProviderReply, options: &'a JsonOptions) -> Self {
        Self {
            serialization: reply.serialization,
            body: &reply.body,
            endpoint: &reply.endpoint,
            options,
            known: known_type(reply),
            form: reply.route.as_deref().map_or_else(ValueForm::default, ValueForm::of),
        }
    }

    /// The value as JSON text. A reply in fastjson is JSON already: it is written again where the
    /// caller wants it otherwise, by the method's type if that is known.
    ///
    /// # Errors
    /// [`Code::Exception`] if the method threw, [`Code::BadReply`] if the reply cannot be read.
    pub fn json(&self) -> Result<Vec<u8>, CallError> {
        self.read().map_err(|error| error.at(self.endpoint))
    }

    fn read(&self) -> Result<Vec<u8>, CallError> {
        let decoded = DubboReply::decode(self.serialization, Status::Ok, self.body);
        let outcome = match decoded.map_err(unreadable)? {
            DubboReply::Done(outcome) => outcome,
            DubboReply::Failed { text, .. } => return Err(unreadable(text)),
        };
        // JSON is about as long as the body. Text of megabytes is not moved while it grows.
        let mut json = Vec::with_capacity(self.body.len().max(64));
        match outcome.kind() {
            ReplyKind::Null => json.extend_from_slice(b"null"),
            // Its maps with an entry `class` are objects.
            ReplyKind::Value if self.options.key_classes && matches!(self.form, ValueForm::Map) => {
                let options = JsonOptions { maps_are_objects: true, ..self.options.clone() };
                write_value(&outcome, self.known, &options, &mut json)?;
            }
            ReplyKind::Value => write_value(&outcome, self.known, self.options, &mut json)?,
            ReplyKind::Exception => {
                // Its class and those of its causes have to be known. References are of no use in
                // its parts, but one that contains itself is told by them.
                let mut write = |refs| {
                    json.clear();
                    let named = JsonOptions { class_name: true, refs, ..self.options.clone() };
                    write_value(&outcome, DefinedResult::default(), &named, &mut json)
                };
                match write(RefStyle::Repeat) {
                    // There is a better place for a long one.
                    Err(error) if is_too_long(&error) && self.options.room.is_none() => {
                        return Err(error);
                    }
                    written => written.or_else(|_| write(RefStyle::Path))?,
                }
            }
        }
        match self.form {
            ValueForm::Itself => {}
            ValueForm::Text => json = unwrapped(json),
            ValueForm::Map => {
                if let Some(folded) = fold_generalized(&json, self.options) {
                    json = folded;
                }
            }
        }
        match outcome.kind() {
            ReplyKind::Exception => Err(exception::thrown(&json)),
            ReplyKind::Value | ReplyKind::Null => Ok(json),
        }
    }

    /// The attachments, but for those that Dubbo itself adds. What cannot be read is left out: the
    /// value counts. Classes are not told: the map's own would look like an attachment.
    pub fn attachments(&self) -> Replied {
        if self.body.ends_with(PLAIN_TAIL) {
            return Replied::default();
        }
        let decoded = DubboReply::decode(self.serialization, Status::Ok, self.body);
        let Ok(DubboReply::Done(outcome)) = decoded else { return Replied::default() };
        if !outcome.has_attachments() {
            return Replied::default();
        }
        let options = JsonOptions {
            class_name: false,
            key_classes: false,
            number_classes: false,
            // A header takes far less.
            max_out_len: IN_PLACE_LEN,
            room: None,
            ..self.options.clone()
        };
        Replied::of(&outcome, &options)
    }

    /// The caller's options that say nothing about this reply: the provider has written text that
    /// does not say what they are about, and no definition does.
    pub fn ignored_options(&self) -> Vec<&'static str> {
        let Self { serialization, options, known, .. } = self;
        if serialization.has_types() || known.ty.is_some() && known.schema.is_some() {
            return Vec::new();
        }
        [
            ("longs", options.longs_as_text),
            ("enums", options.enums != EnumStyle::default()),
            ("class", options.class_name && !serialization.names_classes()),
        ]
        .into_iter()
        .filter_map(|(name, is_chosen)| is_chosen.then_some(name))
        .collect()
    }
}

/// The value of a short reply as JSON text, at once.
///
/// # Errors
/// As [`ReplyReader::json`]; [`Code::ReplyTooLarge`] also where the text is too long for that.
pub fn json_of(reply: &ProviderReply) -> Result<Vec<u8>, CallError> {
    ReplyReader::new(reply, &in_place(&JsonOptions::default())).json()
}

/// A reply that is broken, rather than one that cannot be told in the form that was asked for.
fn unreadable(error: impl Display) -> CallError {
    let message = format!("the reply cannot be read: {error}");
    CallError { is_broken_reply: true, ..CallError::new(Code::BadReply, message) }
}

/// A value that contains itself can be read, but not be told without references; one to which many
/// others refer may be too long without.
fn untold(error: impl Display) -> CallError {
    let how = "header x-dubbo-json: refs=path, or dubmesh call --json refs=path";
    CallError::new(Code::BadReply, format!("the reply cannot be written as JSON: {error} ({how})"))
}

/// Appends the value or the exception of a reply.
fn write_value(
    outcome: &Outcome<'_>,
    known: DefinedResult<'_>,
    options: &JsonOptions,
    out: &mut Vec<u8>,
) -> Result<(), CallError> {
    let options = ReadOptions { json: options, schema: known.schema };
    outcome.write_json(known.ty, options, out).map_err(|error| match () {
        () if error.is_cycle() => untold(error),
        () if error.is_too_long() => CallError { code: Code::ReplyTooLarge, ..untold(error) },
        () => unreadable(error),
    })
}

/// What a definition tells of a result.
#[derive(Clone, Copy, Default)]
struct DefinedResult<'a> {
    ty: Option<&'a JavaType>,
    schema: Option<&'a dyn Schema>,
}

impl<'a> DefinedResult<'a> {
    fn new(ty: Option<&'a JavaType>, definition: Option<&'a Definition>) -> Self {
        Self { ty, schema: definition.map(|definition| &definition.service as &dyn Schema) }
    }
}

fn known_type(reply: &ProviderReply) -> DefinedResult<'_> {
    let Some(plan) = reply.route.as_ref().map(|route| &route.plan) else {
        return DefinedResult::default();
    };
    DefinedResult::new(plan.result.as_ref(), plan.schema.as_deref())
}

/// What every provider attaches to every reply: its version of Dubbo's protocol. Replies that end
/// so have no attachments of their own, and this is how nearly all end.
const PLAIN_TAIL: &[u8] = b"H\x05dubbo\x052.0.2Z";

/// The JSON text that stands inside of a JSON string. A provider that does not know `generic=gson`
/// sends the value itself, which stays as it is.
fn unwrapped(json: Vec<u8>) -> Vec<u8> {
    let mut reader = JsonReader::new(&json, Limits::of_whole());
    let Ok(text) = reader.read_string() else { return json };
    let mut inner = JsonReader::new(text.as_bytes(), Limits::of_whole());
    let is_json = inner.skip_value().is_ok() && inner.finish().is_ok();
    if is_json { text.into_owned().into_bytes() } else { json }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Orders;

    impl Schema for Orders {
        fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
            static LONG: JavaType = JavaType::Long;
            (class == "com.acme.Order" && field == "id").then_some(&LONG)
        }
    }

    fn reply(serialization: Serialization, body: &[u8]) -> ProviderReply {
        let body = bytes::Bytes::copy_from_slice(body);
        ProviderReply::new(serialization, body, "here".into())
    }

    fn text(reply: &ProviderReply, options: &str) -> (String, Vec<&'static str>) {
        let options = JsonOptions::parse(options).unwrap();
        let reader = ReplyReader::new(reply, &options);
        (String::from_utf8(reader.json().unwrap()).unwrap(), reader.ignored_options())
    }

    /// With `class=yes` it can be sent again: a map with an entry `class` is an object.
    #[test]
    fn an_object_of_a_generic_call_is_no_map_with_its_types() {
        let body = b"\x91H\x05class\x03a.B\x01x\x91Z";
        let map = reply(Serialization::Hessian2, body);
        let options = JsonOptions::parse("class=yes").unwrap();
        let json = |form| {
            let reader = ReplyReader { form, ..ReplyReader::new(&map, &options) };
            String::from_utf8(reader.json().unwrap()).unwrap()
        };
        assert_eq!(json(ValueForm::Map), r#"{"class":"a.B","x":1}"#);
        let told = r#"{"class":"java.util.HashMap<java.lang.String, java.lang.Object>","value":{"class":"a.B","x":1}}"#;
        assert_eq!(json(ValueForm::Itself), told);
    }

    #[test]
    fn a_value_that_contains_itself_is_told_by_paths() {
        // A list without type whose one element is the list.
        let cycle = reply(Serialization::Hessian2, b"\x91\x79\x51\x90");
        let error = json_of(&cycle).unwrap_err();
        assert!(error.message.contains("dubmesh call --json refs=path"), "{error}");
        // It is whole all the same, and another provider's would be the same.
        assert!(!error.is_broken_reply, "{error}");
        assert_eq!(text(&cycle, "refs=path").0, r#"[{"$ref":"$"}]"#);
    }

    #[test]
    fn a_reply_that_is_broken_says_so() {
        for body in [&b""[..], b"\x91", b"\x91C", b"\x07"] {
            let error = json_of(&reply(Serialization::Hessian2, body)).unwrap_err();
            assert_eq!((error.code, error.is_broken_reply), (Code::BadReply, true), "{error}");
        }
        // Whatever an exception says, its reply was read.
        let body = b"\x90C\x03a.E\x91\x0ddetailMessage\x60\x1bthe reply cannot be read: x";
        let error = json_of(&reply(Serialization::Hessian2, body)).unwrap_err();
        assert_eq!((error.code, error.is_broken_reply), (Code::Exception, false), "{error}");
    }

    #[test]
    fn an_exception_that_contains_itself_is_told_all_the_same() {
        let body = b"\x90C\x03a.E\x92\x0ddetailMessage\x04self\x60\x01x\x51\x90";
        let error = json_of(&reply(Serialization::Hessian2, body)).unwrap_err();
        assert_eq!((error.code, &*error.message), (Code::Exception, "a.E: x"));
        let told = r#"{"class":"a.E","message":"x","cause":null,"fields":{"self":{"$ref":"$"}}}"#;
        assert_eq!(error.exception.as_deref(), Some(told));
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
    fn attachments_have_no_class() {
        let sized = |texts: &[&str]| -> Vec<u8> {
            let len = |text: &str| u32::try_from(text.len()).unwrap().to_be_bytes();
            texts.iter().flat_map(|text| [&len(text)[..], text.as_bytes()].concat()).collect()
        };
        let map = r#"{"@type":"java.util.HashMap","dubbo":"2.0.2"}"#;
        let with_text = r#"{"@type":"java.util.HashMap","dubbo":"2.0.2","shade":"red"}"#;
        let members = |body: &[u8], serialization| {
            let options = JsonOptions::parse("class=yes").unwrap();
            ReplyReader::new(&reply(serialization, body), &options).attachments().members
        };
        let fastjson = Serialization::FastjsonSized;
        assert_eq!(members(&sized(&["5", "null", map]), fastjson), []);
        let shade = [("shade".to_owned(), b"\"red\"".as_slice().into())];
        assert_eq!(members(&sized(&["4", "7", with_text]), fastjson), shade);
        // An attachment of this name is no reason to wrap all of them.
        let named = members(b"\x95H\x05class\x03a.BZ", Serialization::Hessian2);
        assert_eq!(named, [("class".to_owned(), b"\"a.B\"".as_slice().into())]);
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
