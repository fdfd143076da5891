//! An app's answer as the body of a Dubbo reply, in the serialization of the caller.

use std::borrow::Cow;

use bytes::{Buf, BytesMut};
use dubbo_proto::attachment::TYPED;
use dubbo_proto::frame::HEADER_LEN;
use dubbo_proto::{
    ObjectWriter, ProtoError, ReplyKind, ReplyTo, Serialization, Status as DubboStatus, ValueCodec,
    ValueError, encode_reply,
};
use hessian::json::{self, JsonKind, JsonMember, JsonReader};
use hessian::transcode::{Schema, TranscodeError, json_to_hessian_with};
use hessian::{Encoder, JavaType, Limits};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};

use super::bean;
use super::generic::{self, Mode};
use super::pool::WholeResponse;
use crate::attachments;
use crate::call::{Outcome, ProviderReply};
use crate::config::http_app::method::{Classes, DEFAULT_EXCEPTION, ErrorRule, StatusTable};
use crate::content::{Charset, MediaType, is_identity, latin1, without_mark};
use crate::error::{CallError, Code};
use crate::route::unsupported;

/// Headers with this beginning are attachments; the same as callers by HTTP use.
pub const ATTACHMENT: &str = "x-dubbo-attachment-";
/// Names the class of the exception that an answer with an error status is.
pub const EXCEPTION: &str = "x-dubbo-exception";

/// An exception's message goes no further than this; a stack trace of ordinary depth fits.
pub(super) const MAX_MESSAGE_LEN: usize = 16 * 1024;
/// The longest chain of causes that an exception gets.
const MAX_CAUSES: usize = 8;
/// How much of an answer that is not JSON is shown.
const MAX_SHOWN_LEN: usize = 200;
/// Members of an error's JSON that hold its message, the first one counts: ours, and those of
/// common frameworks.
const MESSAGES: [&str; 4] = ["message", "error", "detail", "title"];
/// Members of an error's JSON that describe an exception, but are not fields of its class, and
/// fields of Java's own that are not taken from there.
const NO_FIELDS: [&str; 8] = [
    "message",
    "class",
    "cause",
    "stackTrace",
    "suppressed",
    "status",
    "detailMessage",
    "suppressedExceptions",
];

/// How the reply to one call is to be written.
#[derive(Debug)]
pub struct ReplyForm<'a> {
    /// The serialization of the request.
    pub serialization: Serialization,
    /// Whether the caller understands attachments.
    pub takes_attachments: bool,
    /// How a generic call wants its result.
    pub mode: Mode,
    /// What the method returns, where that is known.
    pub returns: Option<&'a JavaType>,
    /// What errors become.
    pub errors: &'a StatusTable,
    /// The types of fields.
    pub classes: &'a Classes,
    /// The longest body of a reply.
    pub max_len: usize,
}

/// What the method did.
struct Done {
    kind: ReplyKind,
    value: Vec<u8>,
}

impl ReplyForm<'_> {
    /// The reply that an answer is.
    ///
    /// # Errors
    /// [`Code::BadReply`] if it cannot be read or does not fit, and whatever status the table of
    /// errors gives it.
    pub fn reply(&self, answer: &WholeResponse) -> Result<ProviderReply, CallError> {
        let done = match answer.status.is_success() {
            true => self.value(answer)?,
            false => self.failure(answer)?,
        };
        let more = more_attachments(&answer.headers)?;
        self.encode(&done, &attachments(&answer.headers, &more))
    }

    /// The reply that holds `value`, which is in the caller's serialization already.
    pub fn of_value(&self, value: Vec<u8>) -> Outcome {
        self.encode(&Done { kind: ReplyKind::Value, value }, &[])
    }

    fn encode(
        &self,
        done: &Done,
        attachments: &[(&str, &str)],
    ) -> Result<ProviderReply, CallError> {
        let to = ReplyTo {
            id: 0,
            serialization: self.serialization,
            takes_attachments: self.takes_attachments,
        };
        let mut out = BytesMut::new();
        encode_reply(to, done.kind, &done.value, attachments, self.max_len, &mut out).map_err(
            |error| match error {
                ProtoError::PayloadTooLong { .. } => {
                    // Dubbo's words for the same.
                    CallError::from_provider(
                        DubboStatus::SerializationError,
                        &format!("Data length too large: {error}"),
                    )
                }
                error => bad_reply(error.to_string()),
            },
        )?;
        out.advance(HEADER_LEN);
        let (serialization, body) = (self.serialization, out.freeze());
        Ok(ProviderReply::new(serialization, body, "".into()))
    }

    fn value(&self, answer: &WholeResponse) -> Result<Done, CallError> {
        let null = Done { kind: ReplyKind::Null, value: Vec::new() };
        if self.returns == Some(&JavaType::Void) {
            return Ok(null);
        }
        let text = self.json_of(answer)?;
        let mut reader = JsonReader::new(&text, Limits::of_whole());
        if reader.is_at_end() || reader.peek().is_ok_and(|kind| kind == JsonKind::Null) {
            return self.null("the app answered null");
        }
        let value = match self.mode {
            Mode::Gson => self.gson(&text)?,
            Mode::Plain | Mode::Raw | Mode::Map | Mode::Bean(_) => self.typed(&text)?,
        };
        Ok(Done { kind: ReplyKind::Value, value })
    }

    /// Null, where the method may return it. Java would make 0 or false of it where it may not.
    fn null(&self, answered: &str) -> Result<Done, CallError> {
        let is_primitive = |ty: &&JavaType| **ty != JavaType::Void && ty.is_primitive();
        match self.returns.filter(is_primitive).filter(|_| self.mode != Mode::Gson) {
            Some(ty) => Err(bad_reply(format!("{answered}; expected {}", ty.java_name()))),
            None => Ok(Done { kind: ReplyKind::Null, value: Vec::new() }),
        }
    }

    /// The answer's body as JSON: text is taken for a string where a string is returned.
    fn json_of<'b>(&self, answer: &'b WholeResponse) -> Result<Cow<'b, [u8]>, CallError> {
        if let Some(encoding) = encoding(answer) {
            return Err(bad_reply(format!(
                "the app's answer is encoded ({encoding}), although the \
                request accepts only identity"
            )));
        }
        let wants_text = match self.returns {
            Some(JavaType::Class(class)) => class.name() == "java.lang.String",
            _ => false,
        };
        let is_text = media_type(answer).is_some_and(|media_type| media_type.is_text());
        if is_text && wants_text {
            let text = text(answer);
            return text.map(|text| quoted(&text)).map_err(|error| {
                bad_reply(format!("the app's answer cannot be read as text: it {error}"))
            });
        }
        Ok(Cow::Borrowed(without_mark(&answer.body)))
    }

    fn typed(&self, text: &[u8]) -> Result<Vec<u8>, CallError> {
        let values = self.values()?;
        let mut value = Vec::with_capacity(text.len());
        let class = match self.mode {
            Mode::Map if self.serialization.has_classes() => None,
            Mode::Bean(class) => Some(class),
            Mode::Plain | Mode::Map | Mode::Raw | Mode::Gson => {
                values
                    .write_value(text, self.returns, self.classes, &mut value)
                    .map_err(|error| self.misfit(text, &error))?;
                return Ok(value);
            }
        };
        let checked = self.in_hessian(text).map_err(|error| self.misfit(text, &error))?;
        let Some(mut objects) = values.objects(&mut value) else {
            let name = self.serialization.name();
            return Err(self.misfit(text, &format!("{name} cannot carry objects with classes")));
        };
        match class {
            Some(class) => bean::describe(text, self.returns, self.classes, class, &mut *objects)
                .map_err(|error| self.misfit(text, &error))?,
            None => generic::generalize(&checked, self.classes, &mut *objects)
                .map_err(|error| bad_reply(format!("the app's answer: {error}")))?,
        }
        drop(objects);
        Ok(value)
    }

    fn values(&self) -> Result<&'static dyn ValueCodec, CallError> {
        self.serialization.values().ok_or_else(|| unsupported(self.serialization))
    }

    /// The answer as a Hessian value of the type that is returned.
    fn in_hessian(&self, text: &[u8]) -> Result<Vec<u8>, TranscodeError> {
        let mut value = Vec::with_capacity(text.len());
        let mut reader = JsonReader::new(text, Limits::of_whole());
        let mut encoder = Encoder::new(&mut value);
        json_to_hessian_with(&mut reader, self.returns, &mut encoder, self.classes)?;
        reader.finish()?;
        Ok(value)
    }

    /// The result as JSON text in a string.
    fn gson(&self, text: &[u8]) -> Result<Vec<u8>, CallError> {
        let mut reader = JsonReader::new(text, Limits::of_whole());
        let text = reader.skip_value().map_err(|error| self.misfit(text, &error))?;
        reader.finish().map_err(|error| self.misfit(text, &error))?;
        let text = std::str::from_utf8(text).map_err(|error| self.misfit(text, &error))?;
        let mut value = Vec::with_capacity(text.len() + 8);
        self.values()?.write_string(text, &mut value);
        Ok(value)
    }

    /// An answer that does not fit, with what it looks like.
    fn misfit(&self, text: &[u8], error: &dyn std::fmt::Display) -> CallError {
        let shown = String::from_utf8_lossy(text.get(..MAX_SHOWN_LEN).unwrap_or(text));
        let ty = self.returns.map_or_else(|| "JSON".to_owned(), ToString::to_string);
        bad_reply(format!("the app's answer is not {ty}: {error}; it begins with {shown:?}"))
    }

    /// What an answer with an error status becomes.
    fn failure(&self, answer: &WholeResponse) -> Result<Done, CallError> {
        let named = answer.headers.get(EXCEPTION).and_then(|name| name.to_str().ok());
        let named = named.filter(|name| dubbo_proto::validate_interface(name).is_ok());
        let class = match (named, self.errors.rule(answer.status)) {
            (Some(class), _) => class,
            (None, Some(ErrorRule::Null)) => {
                let status = answer.status.as_u16();
                return self.null(&format!("the app answered {status}, which means null here"));
            }
            (None, Some(ErrorRule::Status(status))) => {
                return Err(CallError::from_provider(*status, &message(answer)));
            }
            (None, Some(ErrorRule::Exception(class))) => class,
            (None, None) => DEFAULT_EXCEPTION,
        };
        let message = message(answer);
        let is_generic = matches!(self.mode, Mode::Map | Mode::Gson | Mode::Bean(_));
        let object = match is_generic {
            // The caller of a generic call has no class but this one, under the name by which
            // providers of all versions write it, and by which consumers that are not Java know
            // it.
            true => AppException {
                class: "com.alibaba.dubbo.rpc.service.GenericException".into(),
                message: message.as_str().into(),
                cause: None,
                fields: vec![
                    ("exceptionClass".into(), quoted(class)),
                    ("exceptionMessage".into(), quoted(&message)),
                ],
            },
            false => AppException {
                fields: self.fields(class, without_mark(&answer.body)),
                cause: self.cause(without_mark(&answer.body), MAX_CAUSES),
                class: class.into(),
                message: message.as_str().into(),
            },
        };
        let mut value = Vec::with_capacity(message.len() + 64);
        let Some(mut objects) = self.values()?.objects(&mut value) else {
            // Its consumers make no exceptions of classes, and would fail for that instead.
            let text = format!("{class}: {message}");
            return Err(CallError::from_provider(DubboStatus::ServiceError, &text));
        };
        object
            .write(&mut *objects, self.classes)
            .map_err(|error| bad_reply(format!("the app's error: {error}")))?;
        drop(objects);
        Ok(Done { kind: ReplyKind::Exception, value })
    }

    /// What caused an error, if its JSON names the class of that: at most `n_left` in a row.
    fn cause<'b>(&self, error: &'b [u8], n_left: usize) -> Option<Box<AppException<'b>>> {
        let of = |text, wanted| members(text).into_iter().find(|(name, _)| name == wanted);
        let (_, cause) = of(error, "cause").filter(|_| 0 < n_left)?;
        let text = |name| {
            let (_, text) = of(cause, name)?;
            JsonReader::new(text, Limits::of_whole()).read_string().ok()
        };
        let class = text("class").filter(|class| dubbo_proto::validate_interface(class).is_ok())?;
        let fields = self.fields(&class, cause);
        let message = text("message").unwrap_or_default();
        let cause = self.cause(cause, n_left - 1);
        Some(Box::new(AppException { class, message, cause, fields }))
    }

    /// Those members of an error's JSON that may be fields of its class.
    fn fields<'b>(&self, class: &str, error: &'b [u8]) -> Vec<(Cow<'b, str>, Cow<'b, [u8]>)> {
        if class.starts_with("java.") {
            return Vec::new();
        }
        let fits = |name: &str, text: &[u8]| {
            let ty = self.classes.field_type(class, name);
            let mut reader = JsonReader::new(text, Limits::of_whole());
            let mut unused = Vec::new();
            let mut encoder = Encoder::new(&mut unused);
            json_to_hessian_with(&mut reader, ty, &mut encoder, self.classes).is_ok()
        };
        members(error)
            .into_iter()
            .filter(|(name, text)| !NO_FIELDS.contains(&&**name) && fits(name, text))
            .map(|(name, text)| (name, Cow::Borrowed(text)))
            .collect()
    }
}

/// An exception.
struct AppException<'a> {
    class: Cow<'a, str>,
    message: Cow<'a, str>,
    cause: Option<Box<AppException<'a>>>,
    /// JSON texts that were found to fit.
    fields: Vec<(Cow<'a, str>, Cow<'a, [u8]>)>,
}

impl AppException<'_> {
    fn write(&self, out: &mut dyn ObjectWriter, classes: &Classes) -> Result<(), ValueError> {
        let names: Vec<&str> = std::iter::once("detailMessage")
            .chain(self.cause.as_ref().map(|_| "cause"))
            .chain(self.fields.iter().map(|(name, _)| &**name))
            .collect();
        out.begin_object(&self.class, &names);
        out.field("detailMessage");
        out.string(&self.message);
        if let Some(cause) = &self.cause {
            out.field("cause");
            cause.write(out, classes)?;
        }
        for (name, text) in &self.fields {
            out.field(name);
            out.json(text, classes.field_type(&self.class, name), classes)?;
        }
        out.end_object();
        Ok(())
    }
}

fn quoted(text: &str) -> Cow<'static, [u8]> {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    json::write_string(&mut quoted, text);
    Cow::Owned(quoted)
}

/// How the body of an answer is encoded, if it is.
fn encoding(answer: &WholeResponse) -> Option<&str> {
    let encoding = answer.headers.get(CONTENT_ENCODING).filter(|name| !is_identity(name))?;
    Some(encoding.to_str().unwrap_or("in an unknown way"))
}

fn media_type(answer: &WholeResponse) -> Option<MediaType<'_>> {
    MediaType::of(answer.headers.get(CONTENT_TYPE)?)
}

/// Why a body is not shown.
#[derive(Debug, thiserror::Error)]
enum UnreadableText<'a> {
    #[error("is no UTF-8 text")]
    Utf8,
    #[error("has charset {0:?}; send utf-8")]
    Charset(&'a str),
}

/// The body as text. JSON is in UTF-8, whatever charset it is said to have.
fn text(answer: &WholeResponse) -> Result<Cow<'_, str>, UnreadableText<'_>> {
    let charset = media_type(answer).filter(MediaType::is_text).and_then(|it| it.charset());
    match charset.unwrap_or(Charset::Utf8) {
        Charset::Utf8 => std::str::from_utf8(without_mark(&answer.body))
            .map(Cow::Borrowed)
            .map_err(|_| UnreadableText::Utf8),
        Charset::Latin1 => Ok(latin1(&answer.body)),
        Charset::Other(name) => Err(UnreadableText::Charset(name)),
    }
}

/// What an error says: a member of its JSON, its text, or the status in words. Bytes that are no
/// text are not shown.
fn message(answer: &WholeResponse) -> String {
    let (in_words, n_bytes) = (words(answer.status), answer.body.len());
    if let Some(encoding) = encoding(answer).filter(|_| n_bytes != 0) {
        return format!(
            "{in_words}; its body is encoded ({encoding}, {n_bytes} bytes), although the request \
             accepts only identity"
        );
    }
    let body = match text(answer) {
        Ok(body) => body,
        Err(error) => return format!("{in_words}; its body ({n_bytes} bytes) {error}"),
    };
    let members = members(body.as_bytes());
    let texts: Vec<Cow<'_, str>> = MESSAGES
        .iter()
        .filter_map(|name| members.iter().find(|(known, _)| known == name))
        .filter_map(|(_, text)| JsonReader::new(text, Limits::of_whole()).read_string().ok())
        .collect();
    let member = texts.iter().find(|text| !text.trim().is_empty()).or(texts.first());
    let string = || {
        let is_string = body.starts_with('"');
        is_string.then(|| JsonReader::new(body.as_bytes(), Limits::of_whole()).read_string())?.ok()
    };
    let text = member.cloned().or_else(string).unwrap_or_else(|| body.as_ref().into());
    let text = text.trim();
    if text.is_empty() {
        return in_words;
    }
    let end = text.floor_char_boundary(MAX_MESSAGE_LEN);
    text.get(..end).unwrap_or_default().to_owned()
}

fn words(status: StatusCode) -> String {
    format!("the app answered with HTTP status {status}")
}

/// The members of a JSON object, or nothing if it is none.
fn members(text: &[u8]) -> Vec<JsonMember<'_>> {
    json::members(text).unwrap_or_default()
}

/// The attachments in the header that holds a JSON object of them.
fn more_attachments(headers: &HeaderMap) -> Result<Vec<(String, String)>, CallError> {
    let Some(value) = headers.get(attachments::HEADER) else { return Ok(Vec::new()) };
    attachments::read(value.as_bytes())
        .map_err(|error| bad_reply(format!("header {}: {error}", attachments::HEADER)))
}

/// The attachments in the headers of an answer. What is in `more` counts more than a header of the
/// same name.
fn attachments<'a>(
    headers: &'a HeaderMap,
    more: &'a [(String, String)],
) -> Vec<(&'a str, &'a str)> {
    let is_in_more = |name: &str| {
        more.iter().any(|(known, _)| known.trim_start_matches(TYPED).eq_ignore_ascii_case(name))
    };
    let single = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(ATTACHMENT)?;
        let value = std::str::from_utf8(value.as_bytes()).ok()?;
        // A consumer's fastjson takes this one for its own.
        let is_name = !name.is_empty() && name != "$ref";
        (is_name && !is_in_more(name)).then_some((name, value))
    });
    single.chain(more.iter().map(|(name, value)| (&**name, &**value))).collect()
}

fn bad_reply(message: impl Into<Box<str>>) -> CallError {
    CallError::new(Code::BadReply, message)
}

#[cfg(test)]
mod tests;
