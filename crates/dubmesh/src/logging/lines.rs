//! What a log line looks like. Much of it comes from peers, so no value is long, and none can end
//! the line and begin another one.

use std::fmt::{self, Write};
use std::time::SystemTime;

use agent::terminal::is_unsafe;
use serde::Serializer as _;
use serde::ser::SerializeMap;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime as Clock};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// What is written of one value, in bytes.
const MAX_VALUE_LEN: usize = 512;
/// Messages are ours, with at most a value or two in them.
const MAX_MESSAGE_LEN: usize = 2 * MAX_VALUE_LEN;
/// What begins the names of the fields by which records of the crate `log` tell their origin.
const LOG_PREFIX: &str = "log.";
const LOG_TARGET: &str = "log.target";
const MESSAGE: &str = "message";

fn max_len(field: &Field) -> usize {
    if field.name() == MESSAGE { MAX_MESSAGE_LEN } else { MAX_VALUE_LEN }
}

/// Writes the front of a text, and escapes what a terminal would obey.
pub(super) struct Cut<W> {
    inner: W,
    n_left: usize,
    is_cut: bool,
}

impl<W: Write> Cut<W> {
    pub(super) fn new(inner: W, max_len: usize) -> Self {
        Self { inner, n_left: max_len, is_cut: false }
    }
}

impl<W: Write> Write for Cut<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // What comes after the cut is not even looked at: it may be megabytes.
        if self.is_cut {
            return Ok(());
        }
        let end = if text.len() <= self.n_left {
            text.len()
        } else {
            self.is_cut = true;
            text.floor_char_boundary(self.n_left)
        };
        self.n_left -= end;
        let mut rest = &text[..end];
        while let Some(at) = rest.find(is_unsafe) {
            let (plain, control) = rest.split_at(at);
            self.inner.write_str(plain)?;
            let mut chars = control.chars();
            if let Some(control) = chars.next() {
                write!(self.inner, "{}", control.escape_default())?;
            }
            rest = chars.as_str();
        }
        self.inner.write_str(rest)?;
        if self.is_cut { self.inner.write_str("...") } else { Ok(()) }
    }
}

/// One field of a line of text.
pub(super) fn text_field(
    writer: &mut Writer<'_>,
    field: &Field,
    value: &dyn fmt::Debug,
) -> fmt::Result {
    let name = field.name().trim_start_matches("r#");
    match name {
        MESSAGE => {}
        name if name.starts_with(LOG_PREFIX) => return Ok(()),
        name if writer.has_ansi_escapes() => {
            write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?;
        }
        name => write!(writer, "{name}=")?,
    }
    write!(Cut::new(writer, max_len(field)), "{value:?}")
}

/// One JSON object a line. It is flat, so that a field is found without knowing how we log.
#[derive(Debug)]
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let line = json_line(event).map_err(|_| fmt::Error)?;
        writeln!(writer, "{}", std::str::from_utf8(&line).map_err(|_| fmt::Error)?)
    }
}

fn json_line(event: &Event<'_>) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(256);
    let mut serializer = serde_json::Serializer::new(&mut line);
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("timestamp", &timestamp())?;
    map.serialize_entry("level", event.metadata().level().as_str())?;
    let mut fields = JsonFields { map, target: None, result: Ok(()) };
    event.record(&mut fields);
    let JsonFields { mut map, target, result } = fields;
    result?;
    map.serialize_entry("target", target.as_deref().unwrap_or(event.metadata().target()))?;
    map.end()?;
    Ok(line)
}

fn timestamp() -> String {
    let mut text = String::new();
    if Clock.format_time(&mut Writer::new(&mut text)).is_err() {
        // Only a clock that comes before the year 0 has no text.
        text = format!("{:?}", SystemTime::now());
    }
    text
}

struct JsonFields<M: SerializeMap> {
    map: M,
    /// The origin of a record of the crate `log`.
    target: Option<String>,
    result: Result<(), M::Error>,
}

impl<M: SerializeMap> JsonFields<M> {
    fn entry<T: serde::Serialize + ?Sized>(&mut self, field: &Field, value: &T) {
        if self.result.is_ok() && !field.name().starts_with(LOG_PREFIX) {
            let name = field.name().trim_start_matches("r#");
            self.result = self.map.serialize_entry(name, value);
        }
    }
}

impl<M: SerializeMap> Visit for JsonFields<M> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.entry(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.entry(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.entry(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.entry(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == LOG_TARGET {
            self.target = Some(value.to_owned());
        }
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // A text takes all that is written to it.
        let _ = write!(Cut::new(&mut text, max_len(field)), "{value:?}");
        self.entry(field, &text);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::field::MakeExt;
    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::{Layer, SubscriberExt};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(is_json: bool, log: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let (writer, layer) = (buffer.clone(), fmt::layer().with_ansi(false));
        let layer = layer.with_writer(move || writer.clone());
        let layer = if is_json {
            layer.event_format(JsonLines).boxed()
        } else {
            layer.fmt_fields(fmt::format::debug_fn(text_field).delimited(" ")).boxed()
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn lines_of_text() {
        let line = logged(false, || {
            tracing::warn!(service = "a.B", n = 3_u64, error = %"no\nroute", "route refused");
        });
        let end = " WARN dubmesh::logging::lines::tests: route refused service=\"a.B\" n=3 error=no\\nroute\n";
        assert!(line.ends_with(end), "{line}");
    }

    #[test]
    fn lines_of_json() {
        let line = logged(true, || {
            let name = "a\u{1b}[31m\"B";
            tracing::info!(name, n = 3, f = 0.5, yes = true, at = ?Some(1), "route {}", "refused");
        });
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let timestamp = value["timestamp"].as_str().unwrap();
        assert!(timestamp.ends_with('Z') && timestamp.contains('T'), "{line}");
        let expected = serde_json::json!({
            "timestamp": timestamp, "level": "INFO", "message": "route refused", "at": "Some(1)",
            "name": "a\\u{1b}[31m\"B", "n": 3, "f": 0.5, "yes": true, "target": module_path!(),
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn long_values_are_cut() {
        for is_json in [false, true] {
            let line = logged(is_json, || {
                let long = "é".repeat(1 << 20);
                tracing::info!(long, error = %long, debug = ?long, "refused: {long}");
            });
            assert!(line.len() < 4_096 && line.ends_with('\n'), "{}", line.len());
            assert_eq!(line.matches("é...").count(), 4, "{line}");
            assert_eq!(line.lines().count(), 1);
        }
    }
}
