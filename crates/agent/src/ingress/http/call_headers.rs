//! The headers by which a caller says more of its call.

use std::num::IntErrorKind;
use std::time::Duration;

use dubbo_proto::attachment::TYPED;
use flow::queue::Priority;
use http::HeaderValue;
use http::request::Parts;

use super::head::PREFIX;
use crate::attachments;
use crate::config::closest;
use crate::error::{CallError, Code, clip};
use crate::priority;
use crate::route::Generic;

/// The value of a header as text, if there is one.
pub(super) fn header<'a>(head: &'a Parts, name: &str) -> Result<Option<&'a str>, CallError> {
    head.headers.get(name).map(|value| text(name, value)).transpose()
}

fn text<'a>(name: &str, value: &'a HeaderValue) -> Result<&'a str, CallError> {
    std::str::from_utf8(value.as_bytes())
        .map_err(|_| CallError::new(Code::BadRequest, format!("header {name} is not UTF-8")))
}

/// Headers that both ways of calling know.
pub(super) struct CallHeaders<'a> {
    pub(super) version: &'a str,
    pub(super) group: &'a str,
    pub(super) types: Option<&'a str>,
    pub(super) generic: Option<Generic>,
    pub(super) timeout: Option<Duration>,
    pub(super) attachments: Vec<(&'a str, &'a str)>,
    /// A JSON object of further attachments.
    pub(super) more: Option<&'a str>,
}

pub(super) const VERSION: &str = "x-dubbo-service-version";
pub(super) const GROUP: &str = "x-dubbo-service-group";
const TYPES: &str = "x-dubbo-parameter-types";
pub(super) const GENERIC: &str = "x-dubbo-generic";
pub(super) const TIMEOUT: &str = "x-dubbo-timeout-ms";
pub(super) const JSON: &str = "x-dubbo-json";
const PRIORITY: &str = "x-dubbo-priority";
pub(super) const ATTACHMENT: &str = "x-dubbo-attachment-";

/// What a caller may send, beside [`ATTACHMENT`] and a name.
const KNOWN: [&str; 8] =
    [VERSION, GROUP, TYPES, GENERIC, TIMEOUT, PRIORITY, JSON, attachments::HEADER];
/// What agents tell HTTP apps and their callers. A program that passes on what it got may send
/// them; they say nothing of its own call.
const TOLD: [&str; 4] = [
    "x-dubbo-remote-application",
    "x-dubbo-exception",
    "x-dubbo-json-ignored",
    "x-dubbo-attachments-left-out",
];
/// A longer name is no typing error of one of ours, in bytes.
const MAX_MISTYPED_LEN: usize = 64;

/// The trace context and baggage of the caller. They go on as attachments of these names, by which
/// Java programs and HTTP apps find them.
pub(super) const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];

impl<'a> CallHeaders<'a> {
    /// A request that has none of them is read at once.
    pub(super) fn read(head: &'a Parts, has_ours: bool) -> Result<Self, CallError> {
        let mut headers = Self {
            version: "",
            group: "",
            types: None,
            generic: None,
            timeout: None,
            attachments: Vec::new(),
            more: None,
        };
        if !has_ours {
            return Ok(headers);
        }
        // Looking up each name that we know would hash it, and most requests have few headers.
        let mut previous = "";
        for (name, value) in &head.headers {
            let name = name.as_str();
            // Values of one name follow each other. The first one counts.
            if std::mem::replace(&mut previous, name) != name {
                headers.add(name, value)?;
            }
        }
        Ok(headers)
    }

    /// Takes a header over, if it is one of ours.
    fn add(&mut self, name: &'a str, value: &'a HeaderValue) -> Result<(), CallError> {
        let is_trace = TRACE.contains(&name);
        if !is_trace && !name.starts_with(PREFIX) {
            return Ok(());
        }
        let value = || text(name, value);
        match name {
            VERSION => self.version = value()?,
            GROUP => self.group = value()?,
            TYPES => self.types = Some(value()?),
            GENERIC => self.generic = Some(parse_generic(value()?)?),
            TIMEOUT => self.timeout = Some(parse_timeout(value()?)?),
            PRIORITY => self.attachments.push((priority::ATTACHMENT, parse_priority(value()?)?)),
            attachments::HEADER => self.more = Some(value()?),
            // It is read with the parameter that says the same.
            JSON => {}
            _ => {
                let trace = Some(name).filter(|_| is_trace);
                let Some(key) = name.strip_prefix(ATTACHMENT).or(trace) else {
                    return if TOLD.contains(&name) { Ok(()) } else { Err(unknown(name)) };
                };
                attachments::check_name(key).map_err(|error| {
                    CallError::new(Code::BadRequest, format!("header {ATTACHMENT}*: {error}"))
                })?;
                self.attachments.push((key, value()?));
            }
        }
        Ok(())
    }

    /// The attachments of the JSON object.
    pub(super) fn more_attachments(&self) -> Result<Vec<(String, String)>, CallError> {
        let Some(text) = self.more else { return Ok(Vec::new()) };
        attachments::read(text.as_bytes()).map_err(|error| {
            CallError::new(Code::BadRequest, format!("header {}: {error}", attachments::HEADER))
        })
    }

    /// All attachments. One that is in both forms is taken from the JSON object.
    pub(super) fn all_attachments(
        &mut self,
        more: &'a [(String, String)],
    ) -> Vec<(&'a str, &'a str)> {
        let mut all = std::mem::take(&mut self.attachments);
        all.retain(|(name, _)| {
            more.iter().all(|(other, _)| other.trim_start_matches(TYPED) != *name)
        });
        all.extend(more.iter().map(|(name, value)| (&**name, &**value)));
        all
    }
}

/// Refuses a name that is none of ours: without what it was meant to say, another service might
/// answer.
#[cold]
fn unknown(name: &str) -> CallError {
    let nearest = nearest(name).map_or(String::new(), |known| format!("did you mean {known}? "));
    let message = format!(
        "header {} is not known; {nearest}known are {} and {ATTACHMENT}NAME",
        clip(name),
        KNOWN.join(", ")
    );
    CallError::new(Code::BadRequest, message)
}

/// The header that was probably meant: by its letters, or by a part of its name.
fn nearest(name: &str) -> Option<&'static str> {
    let rest = name.strip_prefix(PREFIX).filter(|rest| !rest.is_empty())?;
    if MAX_MISTYPED_LEN < name.len() {
        return None;
    }
    let has_part = |known: &&&str| known.starts_with(name) || known.ends_with(rest);
    closest(name, &KNOWN).or_else(|| KNOWN.iter().find(has_part).copied())
}

fn parse_generic(text: &str) -> Result<Generic, CallError> {
    Generic::from_name(text.trim()).ok_or_else(|| {
        let message = format!("{GENERIC} is {:?}; it must be true or gson", clip(text));
        CallError::new(Code::BadRequest, message)
    })
}

fn parse_priority(text: &str) -> Result<&str, CallError> {
    match text.trim() {
        name if Priority::of_name(name).is_some() => Ok(name),
        name => {
            let name = clip(name);
            let message = format!("{PRIORITY} is {name:?}; it must be high, normal or low");
            Err(CallError::new(Code::BadRequest, message))
        }
    }
}

pub(super) fn parse_timeout(text: &str) -> Result<Duration, CallError> {
    // A longer time than any is cut off by `max_timeout_ms`.
    let ms = match text.trim().parse::<u32>() {
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Ok(u32::MAX),
        parsed => parsed,
    };
    match ms {
        Ok(ms) if ms != 0 => Ok(Duration::from_millis(ms.into())),
        _ => {
            let text = clip(text);
            let message = format!("{TIMEOUT} is {text:?}; it must be a whole number of at least 1");
            Err(CallError::new(Code::BadRequest, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(headers: &[(&str, &[u8])]) -> Parts {
        let add = |request: http::request::Builder, (name, value): &(&str, &[u8])| {
            request.header(*name, *value)
        };
        headers.iter().fold(Request::builder(), add).body(()).unwrap().into_parts().0
    }

    fn refusal(headers: &[(&str, &[u8])]) -> String {
        let head = head(headers);
        let error = match CallHeaders::read(&head, true) {
            Ok(headers) => headers.more_attachments().unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.code, Code::BadRequest);
        error.message.into()
    }

    #[test]
    fn each_header_says_its_part_and_the_first_of_a_name_counts() {
        let head = head(&[
            ("x-dubbo-service-version", b"2.0"),
            ("x-dubbo-service-version", b"3.0"),
            ("x-dubbo-service-group", b"blue"),
            ("x-dubbo-parameter-types", b"int"),
            ("x-dubbo-generic", b" gson "),
            ("x-dubbo-timeout-ms", b"250"),
            ("x-dubbo-priority", b"low"),
            ("x-dubbo-attachment-tenant", b"acme"),
            ("traceparent", b"00-1"),
            ("x-dubbo-json", b"dates=millis"),
            ("x-dubbo-remote-application", b"shop"),
            ("accept", b"*/*"),
        ]);
        let read = CallHeaders::read(&head, true).unwrap();
        assert_eq!((read.version, read.group, read.types), ("2.0", "blue", Some("int")));
        assert_eq!(read.generic, Some(Generic::Gson));
        assert_eq!(read.timeout, Some(Duration::from_millis(250)));
        let expected = [(priority::ATTACHMENT, "low"), ("tenant", "acme"), ("traceparent", "00-1")];
        assert_eq!(read.attachments, expected);
        // Who was said to have none of ours is not read.
        assert_eq!(CallHeaders::read(&head, false).unwrap().version, "");
    }

    #[test]
    fn the_json_object_counts_before_a_header_of_the_same_name() {
        let head = head(&[
            ("x-dubbo-attachment-a", b"1"),
            ("x-dubbo-attachment-b", b"2"),
            ("x-dubbo-attachments", br#"{"a":"x","b":7}"#),
        ]);
        let mut read = CallHeaders::read(&head, true).unwrap();
        let more = read.more_attachments().unwrap();
        let typed = format!("{TYPED}b");
        assert_eq!(read.all_attachments(&more), [("a", "x"), (&*typed, "7")]);
    }

    /// Otherwise another service than the one that was meant might answer.
    #[test]
    fn names_that_are_none_of_ours_are_refused() {
        for (name, nearest) in [
            ("x-dubbo-group", "; did you mean x-dubbo-service-group? known are "),
            ("x-dubbo-service-goup", "; did you mean x-dubbo-service-group? known are "),
            ("x-dubbo-timeout", "; did you mean x-dubbo-timeout-ms? known are "),
            ("x-dubbo-version", "; did you mean x-dubbo-service-version? known are "),
            ("x-dubbo-parameter-type", "; did you mean x-dubbo-parameter-types? known are "),
            ("x-dubbo-attachment", "; did you mean x-dubbo-attachments? known are "),
            ("x-dubbo-colour", "; known are "),
            ("x-dubbo-", "; known are "),
        ] {
            let refusal = refusal(&[("accept", b"*/*"), (name, b"1")]);
            let expected = format!("header {name} is not known{nearest}");
            assert!(refusal.starts_with(&expected), "{refusal}");
            assert!(refusal.contains(" and x-dubbo-attachment-NAME"), "{refusal}");
        }
        let long = format!("x-dubbo-{}", "a".repeat(60_000));
        assert!(refusal(&[(&long, b"1")]).len() < 1000);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_its_name() {
        for (header, value, said) in [
            ("x-dubbo-timeout-ms", &b"0"[..], "x-dubbo-timeout-ms is \"0\"; it must be a whole"),
            ("x-dubbo-timeout-ms", b"1s", "x-dubbo-timeout-ms is \"1s\""),
            ("x-dubbo-generic", b"bean", "it must be true or gson"),
            ("x-dubbo-priority", b"urgent", "it must be high, normal or low"),
            ("x-dubbo-service-group", b"\xff", "header x-dubbo-service-group is not UTF-8"),
            ("x-dubbo-attachment-path", b"x", "header x-dubbo-attachment-*: "),
            ("x-dubbo-attachments", b"[1]", "header x-dubbo-attachments: not a JSON object"),
        ] {
            let refusal = refusal(&[(header, value)]);
            assert!(refusal.contains(said), "{header}: {refusal}");
        }
    }
}
