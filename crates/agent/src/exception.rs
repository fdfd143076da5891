//! A thrown exception as a caller without Java's classes reads it: class, message, cause and
//! fields.
//!
//! Goes by what the object looks like in JSON, which is nearly the same in all serializations.
//! Knows nothing of HTTP.
//!
//! Invariant: what is told of an exception is bounded, however long the exception is.

use std::borrow::Cow;

use hessian::Limits;
use hessian::json::{self, JsonReader};

use crate::error::{CallError, Code};

/// Longest description of an exception in bytes; fields that do not fit are left out.
const MAX_LEN: usize = 256 * 1024;
/// Longest message in bytes. Some services put a whole document there; more is for a result.
const MAX_MESSAGE_LEN: usize = 64 * 1024;
/// Longest chain of causes. What is below no longer tells a caller anything.
const MAX_CAUSES: usize = 8;
/// How a frame of a Java stack trace begins.
const STACK_FRAME: &str = "\n\tat ";
/// The exception of a generic call ends so, whatever the version's package. It names the one that
/// was thrown.
const GENERIC: &str = ".rpc.service.GenericException";
/// Names of a class in an object. fastjson writes the first one.
const CLASSES: [&str; 2] = ["@type", "class"];
/// Names of a message. The first one that is there counts; the others are fields.
const MESSAGES: [&str; 3] = ["detailMessage", "message", "localizedMessage"];
/// What every exception has and nobody asks for. fastjson writes the message twice.
const USUAL: [&str; 5] =
    ["cause", "stackTrace", "suppressed", "suppressedExceptions", "localizedMessage"];

/// The failure of a call whose method threw, given the exception as JSON.
pub fn thrown(json: &[u8]) -> CallError {
    let thrown = JavaException::read(json);
    let class = thrown.class.as_deref().unwrap_or("an exception");
    let message = thrown.message.as_deref().unwrap_or_default();
    let code = match class {
        // Dubbo has no status for a method that is not there: it throws, in several ways.
        "java.lang.NoSuchMethodException" | "org.apache.dubbo.rpc.service.GenericException"
            if message.contains("NoSuchMethodException") || message.is_empty() =>
        {
            Code::MethodNotFound
        }
        _ if message.contains("java.lang.NoSuchMethodException") => Code::MethodNotFound,
        "java.lang.ClassCastException" | "java.lang.NullPointerException"
            if thrown.is_thrown_before() =>
        {
            Code::BadArguments
        }
        _ => Code::Exception,
    };
    let text = match message.is_empty() {
        true => class.to_owned(),
        false => format!("{class}: {}", clip(message)),
    };
    CallError { exception: Some(thrown.describe().into()), ..CallError::new(code, text) }
}

/// An exception, or one that caused another.
#[derive(Default)]
struct JavaException<'a> {
    class: Option<Cow<'a, str>>,
    message: Option<Cow<'a, str>>,
    cause: Option<&'a [u8]>,
    stack_trace: Option<&'a [u8]>,
    /// The message of a generic call's own exception: that of the original and its trace.
    wrapper_text: Option<Cow<'a, str>>,
    /// What its class has declared: names, and JSON texts.
    fields: Vec<(Cow<'a, str>, &'a [u8])>,
}

impl<'a> JavaException<'a> {
    fn read(text: &'a [u8]) -> Self {
        let mut fields = json::members(text).unwrap_or_default();
        let mut take = |name: &str| -> Option<&'a [u8]> {
            let at = fields.iter().position(|(known, _)| known == name)?;
            Some(fields.remove(at).1)
        };
        let class = CLASSES.iter().find_map(|name| text_of(take(name)?));
        let message = MESSAGES.iter().find_map(|name| text_of(take(name)?));
        let [cause, stack_trace, ..] = USUAL.map(&mut take);
        let is_generic = class.as_deref().is_none_or(|class| class.ends_with(GENERIC));
        let original = is_generic.then(|| take("exceptionClass").and_then(text_of)).flatten();
        if let Some(original) = original {
            let own = take("exceptionMessage").and_then(text_of);
            return Self {
                class: Some(original),
                message: own.map(without_trace),
                stack_trace,
                wrapper_text: message,
                ..Self::default()
            };
        }
        let message = message.map(without_trace);
        Self { class, message, cause, stack_trace, wrapper_text: None, fields }
    }

    /// Whether it was thrown by the code that Dubbo generates to call a method, which takes the
    /// arguments for what the parameters are, and not by the method: that was not begun. The
    /// code's own name says little, but nothing else is called from where it is.
    fn is_thrown_before(&self) -> bool {
        const CALLERS: [&str; 2] = [
            "org.apache.dubbo.rpc.proxy.javassist.JavassistProxyFactory$",
            "com.alibaba.dubbo.rpc.proxy.javassist.JavassistProxyFactory$",
        ];
        let is_generated = |thrown_at: Option<&str>, called_from: Option<&str>| {
            thrown_at.is_some_and(|frame| frame.contains(".invokeMethod("))
                && called_from.is_some_and(|frame| CALLERS.iter().any(|one| frame.starts_with(one)))
        };
        if let Some(text) = &self.wrapper_text {
            let mut frames = text.split(STACK_FRAME).skip(1);
            return is_generated(frames.next(), frames.next());
        }
        let [first, second] = self.stack_trace.map(first_two).unwrap_or_default();
        is_generated(first.as_deref(), second.as_deref())
    }

    /// `{"class", "message", "cause", "fields"}`, with `"truncated": true` if something was left
    /// out.
    fn describe(&self) -> String {
        let mut out = Vec::with_capacity(128);
        let is_whole = self.write(&mut out, MAX_CAUSES);
        if !is_whole {
            out.pop();
            out.extend_from_slice(b",\"truncated\":true}");
        }
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the object, and says whether it is whole.
    fn write(&self, out: &mut Vec<u8>, n_causes: usize) -> bool {
        let mut is_whole = true;
        let mut text = |out: &mut Vec<u8>, value: Option<&str>| match value {
            Some(value) => {
                // What is escaped may become six times as long.
                let (shown, left) = (clip(value), MAX_LEN.saturating_sub(out.len()) / 6);
                let shown = shown.get(..shown.floor_char_boundary(left)).unwrap_or_default();
                is_whole &= shown.len() == value.len();
                json::write_string(out, shown);
            }
            None => out.extend_from_slice(b"null"),
        };
        out.extend_from_slice(b"{\"class\":");
        text(out, self.class.as_deref());
        out.extend_from_slice(b",\"message\":");
        text(out, self.message.as_deref());
        out.extend_from_slice(b",\"cause\":");
        let cause = self.cause.map(JavaException::read).filter(|cause| cause.class.is_some());
        match cause {
            Some(cause) if n_causes != 0 => is_whole &= cause.write(out, n_causes - 1),
            cause => {
                is_whole &= cause.is_none();
                out.extend_from_slice(b"null");
            }
        }
        out.extend_from_slice(b",\"fields\":{");
        let mut is_first = true;
        for (name, text) in &self.fields {
            let escaped_len = 6 * name.len();
            if MAX_LEN < out.len() + escaped_len + text.len() {
                is_whole = false;
                continue;
            }
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            json::write_string(out, name);
            out.push(b':');
            out.extend_from_slice(text);
        }
        out.extend_from_slice(b"}}");
        is_whole
    }
}

/// A JSON text that is a string.
fn text_of(text: &[u8]) -> Option<Cow<'_, str>> {
    JsonReader::new(text, Limits::of_whole()).read_string().ok()
}

/// The first two frames of a stack trace in which frames are texts.
fn first_two(trace: &[u8]) -> [Option<Cow<'_, str>>; 2] {
    let mut frames = [None, None];
    let mut reader = JsonReader::new(trace, Limits::of_whole());
    let Ok(mut array) = reader.begin_array() else { return frames };
    for frame in &mut frames {
        if !reader.next_element(&mut array).unwrap_or(false) {
            break;
        }
        *frame = reader.skip_value().ok().and_then(text_of);
    }
    frames
}

/// A message without the stack trace that Dubbo's filters write behind it. In front of the trace
/// they write class and message twice.
fn without_trace(message: Cow<'_, str>) -> Cow<'_, str> {
    let Some((before, _)) = message.split_once(STACK_FRAME) else { return message };
    let before = before.trim_end();
    let half = before.len() / 2;
    let is_twice =
        before.as_bytes().get(half) == Some(&b'\n') && before.get(..half) == before.get(half + 1..);
    let end = if is_twice { half } else { before.len() };
    Cow::Owned(before.get(..end).unwrap_or_default().to_owned())
}

fn clip(message: &str) -> &str {
    message.get(..message.floor_char_boundary(MAX_MESSAGE_LEN)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
