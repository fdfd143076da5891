//! The headers by which a caller says more of its call.

use std::time::Duration;

use dubbo_proto::attachment::TYPED;
use flow::queue::Priority;
use http::HeaderValue;
use http::request::Parts;

use super::head::PREFIX;
use crate::attachments;
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
const PRIORITY: &str = "x-dubbo-priority";
pub(super) const ATTACHMENT: &str = "x-dubbo-attachment-";

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
            _ => {
                let trace = Some(name).filter(|_| is_trace);
                let Some(key) = name.strip_prefix(ATTACHMENT).or(trace) else { return Ok(()) };
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
    match text.trim().parse::<u32>() {
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
            ("x-dubbo-unknown", b"?"),
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
