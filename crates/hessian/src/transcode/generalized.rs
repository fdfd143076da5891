//! Results of generic calls. Java's generic filter tells of every value that it does not know by
//! its getters, as of any bean, together with its class: up to Dubbo 3.0 all of java.time, and in
//! all versions `Instant`, `Duration`, `UUID`, `Locale` and others. Here they become what they are
//! in other replies.
//!
//! JSON in, JSON out: so it is the same in all serializations. Invariant: what is no such value
//! stays as it is, byte for byte but for white space.

use std::borrow::Cow;
use std::ops::Range;

use super::time;
use crate::{JavaType, Limits};
use java_json::builtin::Builtin;
use java_json::json::{self, JsonError, JsonKind, JsonReader};
use java_json::options::{DateStyle, JsonOptions};
use java_json::time::TimeFields;

/// The JSON text of a generic call's result with the beans of the JDK's values folded; nothing if
/// there are none, or if the text is nothing that can be read within the limits.
#[must_use]
pub fn fold_generalized(json: &[u8], opts: &JsonOptions) -> Option<Vec<u8>> {
    memchr::memmem::find(json, b"\"java.")?;
    fold(json, opts, MAX_KEY_LEVELS)
}

/// Keys that are JSON whose keys are JSON are folded no further than this: each level can be as
/// deep as a message.
const MAX_KEY_LEVELS: u32 = 4;

fn fold(json: &[u8], opts: &JsonOptions, n_levels: u32) -> Option<Vec<u8>> {
    let reader = JsonReader::new(json, Limits::of_whole());
    let mut fold = Fold { reader, opts, n_levels, n_folded: 0 };
    let mut out = Vec::with_capacity(json.len());
    fold.value(&mut out).ok()?;
    fold.reader.finish().ok()?;
    (0 < fold.n_folded).then_some(out)
}

struct Fold<'a, 'o> {
    reader: JsonReader<'a>,
    opts: &'o JsonOptions,
    /// How many more levels of keys are looked into.
    n_levels: u32,
    n_folded: usize,
}

/// A member of an object that has been written: its name, and where its value stands in the
/// output.
struct WrittenMember<'a> {
    name: Cow<'a, str>,
    value: Range<usize>,
}

impl Fold<'_, '_> {
    fn value(&mut self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        match self.reader.peek()? {
            JsonKind::Array => {
                let mut array = self.reader.begin_array()?;
                out.push(b'[');
                let start = out.len();
                while self.reader.next_element(&mut array)? {
                    if start < out.len() {
                        out.push(b',');
                    }
                    self.value(out)?;
                }
                out.push(b']');
            }
            JsonKind::Object => self.object(out)?,
            _ => out.extend_from_slice(self.reader.skip_value()?),
        }
        Ok(())
    }

    fn object(&mut self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        let mut object = self.reader.begin_object()?;
        let start = out.len();
        out.push(b'{');
        let mut members = Vec::new();
        while let Some(name) = self.reader.next_key(&mut object)? {
            if !members.is_empty() {
                out.push(b',');
            }
            self.key(&name, out);
            out.push(b':');
            let value = out.len();
            self.value(out)?;
            members.push(WrittenMember { name, value: value..out.len() });
        }
        out.push(b'}');
        let bean = Bean { members: &members, text: out };
        if let Some(folded) = bean.class().and_then(|class| bean.fold(&class, self.opts)) {
            out.truncate(start);
            out.extend_from_slice(&folded);
            self.n_folded += 1;
        }
        Ok(())
    }

    /// A name. A key that is no text in Java has become the text of its JSON.
    fn key(&mut self, name: &str, out: &mut Vec<u8>) {
        let is_bean =
            name.starts_with('{') && memchr::memmem::find(name.as_bytes(), b"\"java.").is_some();
        let folded = match self.n_levels.checked_sub(1).filter(|_| is_bean) {
            Some(n_levels) => fold(name.as_bytes(), self.opts, n_levels),
            None => None,
        };
        match folded {
            Some(folded) => {
                self.n_folded += 1;
                let text = String::from_utf8_lossy(&folded);
                json::write_string(out, text.trim_matches('"'));
            }
            None => json::write_string(out, name),
        }
    }
}

/// An object that was written, which may be one of the JDK's values.
struct Bean<'a> {
    members: &'a [WrittenMember<'a>],
    text: &'a [u8],
}

impl<'a> Bean<'a> {
    fn get(&self, name: &str) -> Option<&'a [u8]> {
        let member = self.members.iter().find(|member| member.name == name)?;
        self.text.get(member.value.clone())
    }

    fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        JsonReader::new(self.get(name)?, Limits::of_whole()).read_string().ok()
    }

    /// A whole number, which is text where the caller wants numbers to be.
    fn number(&self, name: &str) -> Option<i64> {
        std::str::from_utf8(self.get(name)?).ok()?.trim_matches('"').parse().ok()
    }

    fn class(&self) -> Option<Cow<'a, str>> {
        self.string("class").filter(|class| class.starts_with("java."))
    }

    fn fold(&self, class: &str, opts: &JsonOptions) -> Option<Vec<u8>> {
        let text = match class {
            "java.util.UUID" => {
                let halves = ["mostSignificantBits", "leastSignificantBits"];
                let [most, least] = halves.map(|name| self.number(name).map(i64::cast_unsigned));
                java_json::texts::uuid(most?, least?)
            }
            "java.util.Locale" => self.locale()?,
            "java.util.Currency" => self.string("currencyCode")?.into_owned(),
            "java.net.URI" => self.uri()?,
            "java.lang.StackTraceElement" => self.stack_trace_element()?,
            "java.util.concurrent.atomic.AtomicBoolean" => {
                return ["plain", "acquire", "opaque"]
                    .iter()
                    .find_map(|name| self.get(name))
                    .map(<[u8]>::to_vec);
            }
            "java.util.GregorianCalendar" => return self.calendar(opts),
            "java.time.Year" => return self.get("value").map(<[u8]>::to_vec),
            "java.time.ZoneRegion" => self.string("id")?.into_owned(),
            _ => self.temporal(class)?,
        };
        let mut out = Vec::new();
        json::write_string(&mut out, &text);
        Some(out)
    }

    fn temporal(&self, class: &str) -> Option<String> {
        let JavaType::Class(class) = JavaType::parse(class).ok()? else { return None };
        let builtin = class.builtin()?;
        // By getter: the part that it tells of, in the names of hessian-lite.
        let getters: &[(&str, &str)] = match builtin {
            Builtin::Instant => &[("epochSecond", "seconds"), ("nano", "nanos")],
            Builtin::Duration => &[("seconds", "seconds"), ("nano", "nanos")],
            Builtin::Period => &[("years", "years"), ("months", "months"), ("days", "days")],
            Builtin::ZoneOffset => &[("totalSeconds", "seconds")],
            _ => &[
                ("year", "year"),
                ("monthValue", "month"),
                ("dayOfMonth", "day"),
                ("hour", "hour"),
                ("minute", "minute"),
                ("second", "second"),
                ("nano", "nano"),
            ],
        };
        let mut parts = TimeFields::default();
        for (getter, part) in getters {
            if let (Some(value), Some(slot)) = (self.number(getter), parts.number(part)) {
                *slot = Some(value);
            }
        }
        // The offset itself is a text by now, and so is the zone.
        if let Some(offset) = self.string("offset") {
            *parts.number("seconds")? = time::parse_offset(offset.as_bytes()).map(i64::from);
        }
        parts.zone = self.string("zone");
        let mut text = Vec::new();
        parts.write(builtin, &mut text)?;
        String::from_utf8(text).ok()
    }

    fn calendar(&self, opts: &JsonOptions) -> Option<Vec<u8>> {
        let ms = self.number("timeInMillis")?;
        let mut out = Vec::new();
        match opts.dates {
            DateStyle::Millis => json::write_i64(&mut out, ms),
            DateStyle::Iso => {
                out.push(b'"');
                time::write_ms(&mut out, ms);
                out.push(b'"');
            }
        }
        Some(out)
    }

    /// `sr_RS_#Latn`, as Java's `toString` has it.
    fn locale(&self) -> Option<String> {
        let part = |name| self.string(name).unwrap_or_default();
        let (language, country) = (self.string("language")?, part("country"));
        let (variant, script) = (part("variant"), part("script"));
        let mut text = language.into_owned();
        // An empty country keeps its place before what follows.
        if !country.is_empty() || !variant.is_empty() || !script.is_empty() {
            text = format!("{text}_{country}");
        }
        if !variant.is_empty() {
            text = format!("{text}_{variant}");
        }
        if !script.is_empty() {
            text = format!("{text}_#{script}");
        }
        Some(text)
    }

    fn uri(&self) -> Option<String> {
        let mut text = String::new();
        if let Some(scheme) = self.string("scheme") {
            text = format!("{scheme}:");
        }
        text.push_str(&self.string("rawSchemeSpecificPart")?);
        if let Some(fragment) = self.string("rawFragment") {
            text = format!("{text}#{fragment}");
        }
        Some(text)
    }

    fn stack_trace_element(&self) -> Option<String> {
        let (class, method) = (self.string("className")?, self.string("methodName")?);
        let line = self.number("lineNumber").unwrap_or(-1);
        let file = self.string("fileName");
        Some(java_json::texts::stack_trace_element(&class, &method, file.as_deref(), line))
    }
}

#[cfg(test)]
mod tests;
