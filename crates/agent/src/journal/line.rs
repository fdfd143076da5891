//! How a call is written in a line: as JSON, or for people.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use wire::Peer;

use super::Record;
use crate::stages::{Spent, Stage};
use crate::terminal::{escaped, plain};

/// What a line tells of a call. As JSON, what is not known is left out.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct JournalLine {
    /// When it came, such as `2026-02-28T13:05:59.123Z`.
    pub time: String,
    /// What it came by: `http`, `dubbo` or `link`.
    pub protocol: String,
    /// Who has made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The service key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path that was asked for over HTTP, if it is not known what that calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `ok`, or the name of the error.
    pub code: String,
    /// How long it took, in milliseconds.
    pub ms: f64,
    /// Where it was answered, or has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Bytes of the request's body.
    pub request_bytes: usize,
    /// Bytes of the provider's reply.
    pub reply_bytes: usize,
    /// The caller's `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// What was said of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The arguments as a JSON array, which is cut off where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// How long it was in each stage, in milliseconds, if its time was stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "stage_map")]
    pub stages: Vec<(String, f64)>,
}

impl JournalLine {
    /// What is told of a call; of its arguments only if that is wanted.
    pub fn new(record: &Record, with_arguments: bool) -> Self {
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Self {
            time: time(record),
            protocol: record.protocol.to_owned(),
            peer: record.peer.map(|peer| match peer {
                Peer::Tcp(address) => address.to_string(),
                Peer::Unix => "unix".to_owned(),
            }),
            service: text(&record.service),
            method: text(&record.method),
            path: text(&record.path),
            code: record.code.map_or("ok", |code| code.row().name).to_owned(),
            // Whole microseconds.
            ms: ms(record.latency),
            endpoint: text(&record.endpoint),
            request_bytes: record.request_len,
            reply_bytes: record.reply_len,
            trace: text(&record.trace),
            message: text(&record.message),
            arguments: text(&record.arguments).filter(|_| with_arguments),
            stages: record.stages.as_deref().map(stages).unwrap_or_default(),
        }
    }

    /// Adds it as JSON, without an end of the line. Callers choose names: a terminal that shows
    /// the line obeys none of them.
    pub fn write_json(&self, lines: &mut Vec<u8>) {
        // Texts and numbers are JSON.
        let json = serde_json::to_string(self).unwrap_or_default();
        lines.extend_from_slice(escaped(&json).as_bytes());
    }

    /// The same for people: what is always there first, each in its place, then the rest by name.
    pub fn to_text(&self) -> String {
        let or_dash = |text: &Option<String>| word(text.as_deref().unwrap_or("-"));
        let mut out = format!(
            "{} {:<5} {} {} {} {:.3}ms",
            word(&self.time),
            word(&self.protocol),
            or_dash(&self.peer),
            match &self.path {
                Some(path) => word(path),
                None => format!("{}/{}", or_dash(&self.service), or_dash(&self.method)),
            },
            word(&self.code),
            self.ms,
        );
        // A `String` takes all that is written.
        if let Some(endpoint) = &self.endpoint {
            let _ = write!(out, " at {}", word(endpoint));
        }
        let _ = write!(out, " {}B>{}B", self.request_bytes, self.reply_bytes);
        for (name, value) in [("trace", &self.trace), ("message", &self.message)] {
            if let Some(value) = value {
                let _ = write!(out, " {name}={value:?}");
            }
        }
        for (nth, (stage, ms)) in self.stages.iter().enumerate() {
            let before = if nth == 0 { " stages=" } else { "," };
            let _ = write!(out, "{before}{}:{ms:.3}", word(stage));
        }
        if let Some(arguments) = &self.arguments {
            let _ = write!(out, " {}", plain(arguments));
        }
        out
    }
}

/// In whole microseconds.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Those that took a microsecond at least, in their order.
fn stages(spent: &Spent) -> Vec<(String, f64)> {
    let all =
        Stage::ALL.iter().zip(spent).map(|(stage, time)| (stage.name().to_owned(), ms(*time)));
    all.filter(|(_, ms)| *ms != 0.0).collect()
}

/// Stages are an object in JSON, in their order.
mod stage_map {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use crate::stages::Stage;

    pub(super) fn serialize<S: Serializer>(
        stages: &[(String, f64)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(stages.iter().map(|(name, ms)| (name, ms)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, f64)>, D::Error> {
        let mut stages: Vec<_> =
            BTreeMap::<String, f64>::deserialize(deserializer)?.into_iter().collect();
        let place = |name: &str| Stage::ALL.iter().position(|stage| stage.name() == name);
        stages.sort_by_key(|(name, _)| place(name));
        Ok(stages)
    }
}

/// The same as one word: a blank of theirs begins no column. It is written as in a URL.
fn word(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c.is_whitespace() {
            true => {
                let mut bytes = [0; 4];
                out.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")));
            }
            false => out.push(c),
        }
    }
    out
}

fn time(record: &Record) -> String {
    let since = record.began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut out = Vec::new();
    java_json::time::write_ms(&mut out, i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::error::Code;

    pub(in crate::journal) fn record() -> Record {
        Record {
            began: UNIX_EPOCH + Duration::from_millis(1_772_283_959_120),
            latency: Duration::from_micros(1_234),
            protocol: "http",
            peer: None,
            service: Some("gray/com.acme.Echo:1.0".into()),
            method: Some("echo".into()),
            path: None,
            code: None,
            message: None,
            endpoint: Some("10.0.0.7:20880".into()),
            request_len: 12,
            reply_len: 34,
            trace: None,
            arguments: None,
            stages: None,
        }
    }

    #[test]
    fn a_line_for_people() {
        assert_eq!(
            JournalLine::new(&record(), false).to_text(),
            "2026-02-28T13:05:59.120Z http  - gray/com.acme.Echo:1.0/echo ok 1.234ms at \
             10.0.0.7:20880 12B>34B"
        );
        let failed = Record {
            service: None,
            method: Some("a\nb\u{1b}[2J".into()),
            code: Some(Code::Timeout),
            message: Some("too \"late\"\n\u{202e}".into()),
            endpoint: None,
            arguments: Some("[1]".into()),
            ..record()
        };
        assert_eq!(
            JournalLine::new(&failed, true).to_text(),
            "2026-02-28T13:05:59.120Z http  - -/a\u{fffd}b\u{fffd}[2J timeout 1.234ms 12B>34B \
             message=\"too \\\"late\\\"\\n\\u{202e}\" [1]"
        );
        let unread = Record { path: Some("/favicon.ico".into()), service: None, ..record() };
        let unread = Record { method: None, endpoint: None, ..unread };
        assert_eq!(
            JournalLine::new(&unread, false).to_text(),
            "2026-02-28T13:05:59.120Z http  - /favicon.ico ok 1.234ms 12B>34B"
        );
    }

    /// Whoever reads the log by its columns must not be told what has not happened.
    #[test]
    fn callers_cannot_write_columns() {
        let forged = "/com.acme.Fast/hash ok 0.100ms at 10.0.0.7:20880 9B>6B";
        let path = Record { path: Some(forged.into()), ..record() };
        let names = Record {
            service: Some("a.B ok".into()),
            method: Some("c\u{3000}ok\u{a0}d".into()),
            endpoint: None,
            ..record()
        };
        for (record, shown) in [
            (path, "/com.acme.Fast/hash%20ok%200.100ms%20at%2010.0.0.7:20880%209B>6B"),
            (names, "a.B%20ok/c%E3%80%80ok%C2%A0d"),
        ] {
            let text = JournalLine::new(&record, false).to_text();
            let columns: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(columns[3..5], [shown, "ok"], "{text}");
        }
    }

    #[test]
    fn json_leaves_out_what_is_not_known_and_arguments_that_are_not_wanted() {
        let record = Record { arguments: Some("[\"secret\"]".into()), ..record() };
        let json = serde_json::to_string(&JournalLine::new(&record, false)).unwrap();
        assert_eq!(
            json,
            r#"{"time":"2026-02-28T13:05:59.120Z","protocol":"http","service":"gray/com.acme.Echo:1.0","method":"echo","code":"ok","ms":1.234,"endpoint":"10.0.0.7:20880","request_bytes":12,"reply_bytes":34}"#
        );
        let with = JournalLine::new(&record, true);
        let json = serde_json::to_string(&with).unwrap();
        assert_eq!(serde_json::from_str::<JournalLine>(&json).unwrap(), with);
        assert!(json.contains("secret"));
        let (mut bytes, forged) = (Vec::new(), "a\u{9b}2J\u{202e}b\u{7f}");
        JournalLine { method: Some(forged.to_owned()), ..with }.write_json(&mut bytes);
        let json = String::from_utf8(bytes).unwrap();
        assert!(json.contains(r#""method":"a\u009b2J\u202eb\u007f""#), "{json}");
        let read: JournalLine = serde_json::from_str(&json).unwrap();
        assert_eq!(read.method.as_deref(), Some(forged));
    }

    #[test]
    fn a_service_is_known_by_its_key_and_by_its_interface() {
        let record = record();
        for (wanted, is_of) in [
            ("gray/com.acme.Echo:1.0", true),
            ("com.acme.Echo", true),
            ("com.acme", false),
            ("com.acme.*", true),
            ("com.acme.Echo:1.0", false),
        ] {
            assert_eq!(record.is_of_service(wanted), is_of, "{wanted}");
        }
    }
}
