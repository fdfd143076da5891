//! Bodies that are a row of texts: the two framings of serialization 6, one JSON text a line
//! (Dubbo 2.6 and 2.7) or each text behind its length in four bytes (the extension for Dubbo 3);
//! and serialization 23, JSONB behind such lengths. Source: `FastJsonObjectOutput` and
//! `FastJsonObjectInput` of apache/dubbo 2.7, and of apache/dubbo-spi-extensions since 3.2;
//! `FastJson2ObjectOutput` and `FastJson2ObjectInput`.

mod for_fastjson;
mod members;
mod rows;
pub(super) mod values;

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr_iter};

use self::members::{Members, read_jsonb_string, read_map, read_string};
pub(crate) use self::rows::Texts;
use super::codec::{BodyCodec, MAX_FRONT_LEN, ReplyParts, SIZE_LEN, TextPair};
use crate::ProtoError;
use crate::attachment::AttachmentValue;
use crate::body::{AttachmentMap, BodyLimits, BodyText, FIELDS, RequestParts, check_field};

/// Appends `value` as a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, value: &str) {
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "text into memory cannot fail");
}

/// How the texts of a body are told apart, and what they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Framing {
    /// JSON; a line break ends each text.
    Lines,
    /// JSON; its length in four bytes comes before each text.
    Sized,
    /// JSONB; its length in four bytes comes before each value.
    Jsonb,
}

const JSONB_OBJECT: u8 = 0xa6;
const JSONB_OBJECT_END: u8 = 0xa5;

impl Framing {
    /// What opens a map of attachments. The extension's reader makes what the text says it is,
    /// and Java writes this.
    pub(crate) const fn open_map(self) -> &'static [u8] {
        match self {
            Self::Lines => b"{",
            Self::Sized => b"{\"@type\":\"java.util.HashMap\"",
            Self::Jsonb => &[JSONB_OBJECT],
        }
    }

    /// What ends a map of attachments, and its text.
    pub(crate) const fn close_map(self) -> &'static [u8] {
        match self {
            Self::Lines => b"}\n",
            Self::Sized => b"}",
            Self::Jsonb => &[JSONB_OBJECT_END],
        }
    }

    /// Whether the length of each text comes before it.
    pub(crate) const fn is_sized(self) -> bool {
        !matches!(self, Self::Lines)
    }

    /// Whether a map that was opened has a member already, so that another needs a comma.
    pub(crate) const fn is_opened_with_member(self) -> bool {
        matches!(self, Self::Sized)
    }

    /// Appends a string, without what frames it.
    pub(crate) fn write_string(self, out: &mut Vec<u8>, value: &str) {
        match self {
            Self::Lines | Self::Sized => write_string(out, value),
            Self::Jsonb => jsonb::Encoder::new(out).string(value),
        }
    }

    /// Appends one entry of a map of attachments; in JSON after a comma unless it is the first.
    pub(crate) fn write_entry(self, out: &mut Vec<u8>, is_first: bool, name: &str, value: &str) {
        let (name, value) = AttachmentValue::of(name, value);
        match self {
            Self::Lines | Self::Sized => {
                if !is_first {
                    out.push(b',');
                }
                write_string(out, name);
                out.push(b':');
            }
            Self::Jsonb => jsonb::Encoder::new(out).string(name),
        }
        write_attachment(self, out, value);
    }

    /// A text that is a string or null, which counts as empty; and, if it is borrowed, how many
    /// bytes come after it in the text.
    #[inline]
    pub(crate) fn read_string(self, text: &[u8]) -> Option<(Cow<'_, str>, usize)> {
        match self {
            Self::Lines | Self::Sized => read_string(text).map(|text| (text, 1)),
            Self::Jsonb => read_jsonb_string(text).map(|text| (text, 0)),
        }
    }

    /// A text that is an object or null. Of the members those that are strings are counted, and
    /// the first `max` of them kept.
    pub(crate) fn read_map(self, text: &[u8], max: usize) -> Option<Members> {
        match self {
            Self::Lines | Self::Sized => read_map(text, max),
            Self::Jsonb => {
                let mut members = Members { kept: Vec::new(), count: 0 };
                let mut room = text.len();
                let mut decoder = jsonb::Decoder::new(text, hessian::Limits::of_whole());
                let read = decoder.read_text_map(|name, value| {
                    // Names by their numbers take more room than they have in the map. A map has
                    // each once.
                    let left = room.checked_sub(name.n_bytes() + value.n_bytes());
                    if let Some(left) = left.filter(|_| members.count < max) {
                        room = left;
                        members.kept.push((name.to_str().into(), value.to_str().into()));
                    }
                    members.count += 1;
                });
                read.ok().filter(|()| members.kept.len() == members.count.min(max))?;
                Some(members)
            }
        }
    }

    /// Appends one text, which `write` appends.
    pub(crate) fn write(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        match self {
            Self::Lines => {
                write(out);
                out.push(b'\n');
            }
            Self::Sized | Self::Jsonb => {
                out.extend_from_slice(&[0; SIZE_LEN]);
                write(out);
                let size = size(out.len() - start - SIZE_LEN);
                if let Some(place) = out.get_mut(start..start + SIZE_LEN) {
                    place.copy_from_slice(&size);
                }
            }
        }
    }

    /// Appends a map of attachments.
    pub(crate) fn write_map(self, out: &mut Vec<u8>, entries: &[(&str, &str)]) {
        let start = out.len();
        self.write(out, |out| {
            out.extend_from_slice(self.open_map());
            for (at, (name, value)) in entries.iter().enumerate() {
                self.write_entry(out, at == 0 && !self.is_opened_with_member(), name, value);
            }
            // The line break of lines comes with the framing.
            out.extend_from_slice(self.close_map().strip_suffix(b"\n").unwrap_or(self.close_map()));
        });
        debug_assert!(out.get(start..).is_some_and(|map| map.ends_with(self.close_map())));
    }

    /// Whether `texts` are `n` texts of this framing, as arguments stand in a request: the last
    /// line is not ended.
    ///
    /// JSON allows a line break (and a carriage return, which Java takes for one, too) only
    /// between its tokens, so whoever writes compact JSON never fails here. But one argument that
    /// spans two lines would shift all that follows it.
    pub(crate) fn holds(self, texts: &[u8], n: usize) -> bool {
        match self {
            Self::Lines if texts.is_empty() => n == 0,
            Self::Lines => {
                memchr_iter(b'\n', texts).count() + 1 == n && memchr(b'\r', texts).is_none()
            }
            Self::Sized | Self::Jsonb => {
                let mut texts = Texts::new(self, texts, 0);
                let mut next = || matches!(texts.next("text"), Ok(Some((_, [_, ..]))));
                (0..n).all(|_| next()) && texts.is_at_end()
            }
        }
    }

    /// The texts that `texts` are in this framing; one if that cannot be.
    pub(crate) fn split(self, texts: &[u8]) -> Vec<&[u8]> {
        let (mut found, mut rest) = (Vec::new(), Texts::new(self, texts, 0));
        loop {
            match rest.next("text") {
                Ok(Some((_, text))) => found.push(text),
                Ok(None) => return found,
                Err(_) => return vec![texts],
            }
        }
    }

    /// Whether `text` is one text, without what frames it.
    pub(crate) fn holds_one(self, text: &[u8]) -> bool {
        match self {
            Self::Lines => self.holds(text, 1),
            Self::Sized | Self::Jsonb => !text.is_empty(),
        }
    }
}

/// Before a Java byte in JSONB.
const JSONB_BYTE: u8 = 0xbd;

impl BodyCodec for Framing {
    fn write_text(&self, out: &mut Vec<u8>, text: &str) {
        self.write(out, |out| self.write_string(out, text));
    }

    fn args_end(&self, n_args: usize) -> &'static [u8] {
        match self {
            // This line break ends the last argument.
            Self::Lines if n_args != 0 => b"\n",
            Self::Lines | Self::Sized | Self::Jsonb => b"",
        }
    }

    fn write_map(&self, out: &mut Vec<u8>, entries: &[(&str, &str)]) -> usize {
        let start = out.len();
        Self::write_map(*self, out, entries);
        out.len() - start - self.close_map().len()
    }

    fn write_entries(&self, out: &mut Vec<u8>, has_some: bool, entries: &[(&str, &str)]) {
        for (at, (name, value)) in entries.iter().enumerate() {
            self.write_entry(out, at == 0 && !has_some, name, value);
        }
    }

    fn begins_with_entry(&self) -> bool {
        self.is_opened_with_member()
    }

    fn is_sized(&self) -> bool {
        Self::is_sized(*self)
    }

    fn check_args(&self, args: &[u8], n_args: usize) -> Result<(), &'static str> {
        match self {
            _ if self.holds(args, n_args) => Ok(()),
            Self::Lines => Err("one JSON text a line, as many as the method has parameters"),
            Self::Sized | Self::Jsonb => {
                Err("values behind their lengths, as many as the method has parameters")
            }
        }
    }

    fn only_arg<'a>(&self, args: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Lines => args,
            Self::Sized | Self::Jsonb => args.get(SIZE_LEN..).unwrap_or_default(),
        }
    }

    fn read_request(
        &self,
        request: &mut RequestParts,
        limits: &BodyLimits,
    ) -> Result<(), ProtoError> {
        let RequestParts { body, fields, args, n_args, attachments, .. } = request;
        let mut texts = Texts::new(*self, body, 0);
        for (text_of, field) in fields.iter_mut().zip(FIELDS) {
            let (offset, line) = texts.next(field.name)?.unwrap_or((body.len(), b""));
            let Some((text, n_after)) = self.read_string(line) else {
                let (field, rule) = (field.name, "a string or null");
                return Err(ProtoError::Json { field, offset, rule });
            };
            *n_args = check_field(&text, field)?;
            *text_of = BodyText::ending_at((offset + line.len()).saturating_sub(n_after), text);
        }
        *args = texts.position()..texts.position();
        for _ in 0..*n_args {
            let Some((offset, text)) = texts.next("argument")? else {
                let (offset, rule) = (texts.position(), "a text for each parameter");
                return Err(ProtoError::Json { field: "argument", offset, rule });
            };
            args.end = offset + text.len();
        }
        let map = texts.next("attachments")?;
        *attachments = read_text_attachments(*self, map, limits.max_attachments)?;
        Ok(())
    }

    /// Written with its class, as the extension for Dubbo 3 does, the number has a letter behind
    /// it: `4B`, a byte.
    fn put_reply_front(
        &self,
        number: u8,
        value_len: Option<usize>,
        front: &mut [u8; MAX_FRONT_LEN],
    ) -> usize {
        let digit = b'0' + number;
        let typed = match self {
            Self::Lines => {
                front[..2].copy_from_slice(&[digit, b'\n']);
                return 2;
            }
            Self::Sized => [digit, b'B'],
            Self::Jsonb => [JSONB_BYTE, number],
        };
        front[..6].copy_from_slice(&[0, 0, 0, 2, typed[0], typed[1]]);
        let Some(len) = value_len else { return 6 };
        front[6..].copy_from_slice(&size(len));
        MAX_FRONT_LEN
    }

    fn holds_value(&self, value: &[u8]) -> bool {
        self.holds_one(value)
    }

    fn value_end(&self) -> &'static [u8] {
        match self {
            Self::Lines => b"\n",
            Self::Sized | Self::Jsonb => b"",
        }
    }

    fn read_text<'a>(&self, body: &'a [u8]) -> Option<Cow<'a, str>> {
        match Texts::new(*self, body, 0).next("error text") {
            Ok(Some((_, text))) => self.read_string(text).map(|(text, _)| text),
            Ok(None) => Some(Cow::Borrowed("")),
            Err(_) => None,
        }
    }

    fn read_reply_number(&self, body: &[u8]) -> Result<(i64, usize), ProtoError> {
        let mut texts = Texts::new(*self, body, 0);
        let text = texts.next("reply type")?.map_or(&b""[..], |(_, text)| text);
        let number = match self {
            Self::Jsonb => jsonb::Decoder::new(text, hessian::Limits::of_whole()).read_whole().ok(),
            Self::Lines | Self::Sized => {
                let digits = text.strip_suffix(b"B").unwrap_or(text);
                std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok())
            }
        };
        match number {
            Some(number) => Ok((number, texts.position())),
            None => Err(ProtoError::Json { field: "reply type", offset: 0, rule: "a number" }),
        }
    }

    fn framed_value(&self, body: &[u8], start: usize) -> Result<Option<Range<usize>>, ProtoError> {
        match self {
            Self::Lines => Ok(None),
            // The length before the value is not a part of it.
            Self::Sized | Self::Jsonb => value_at(*self, body, start).map(Some),
        }
    }

    fn find_value(
        &self,
        body: &[u8],
        start: usize,
        _has_attachments: bool,
        _limits: &BodyLimits,
    ) -> Result<Range<usize>, ProtoError> {
        value_at(*self, body, start)
    }

    fn find_attachments<'a>(
        &self,
        reply: &ReplyParts<'a>,
        _limits: &BodyLimits,
    ) -> Result<Option<AttachmentMap<'a>>, ProtoError> {
        // What was sized has its value's end since it was decoded.
        let known_end = reply.value_end.filter(|_| Self::is_sized(*self));
        let mut texts = Texts::new(*self, reply.body, known_end.unwrap_or(reply.value_start));
        for _ in 0..if known_end.is_none() { reply.n_values } else { 0 } {
            texts.next("value")?;
        }
        let map = texts.next("attachments")?.filter(|(_, text)| !text.is_empty());
        Ok(map.map(|(offset, text)| AttachmentMap::Text { offset, text }))
    }

    fn read_attachments<'a>(
        &self,
        map: AttachmentMap<'a>,
        reply: &ReplyParts<'a>,
        max: usize,
    ) -> Result<(Vec<TextPair>, &'a [u8]), ProtoError> {
        match map {
            AttachmentMap::Text { offset, text } => {
                Ok((read_text_attachments(*self, Some((offset, text)), max)?, reply.body))
            }
            AttachmentMap::Hessian(_) => Ok((Vec::new(), &[])),
        }
    }

    fn event_letter(&self, body: &[u8]) -> Option<u8> {
        match (self, body) {
            (Self::Lines, [b'"', letter, b'"', ..])
            | (Self::Sized, [0, 0, 0, 3, b'"', letter, b'"'])
            | (Self::Jsonb, [0, 0, 0, 2, 0x4a, letter]) => Some(*letter),
            _ => None,
        }
    }
}

/// Appends a value in a serialization that is a row of texts.
fn write_attachment(framing: Framing, out: &mut Vec<u8>, value: AttachmentValue<'_>) {
    if framing == Framing::Jsonb {
        let mut encoder = jsonb::Encoder::new(out);
        return match value {
            AttachmentValue::Text(text) => encoder.string(text),
            AttachmentValue::Bool(flag) => encoder.bool(flag),
            AttachmentValue::Int(number) => encoder.int(number),
            AttachmentValue::Long(number) => encoder.long(number),
            AttachmentValue::Double(number) => encoder.double(number),
        };
    }
    match value {
        AttachmentValue::Text(text) => write_string(out, text),
        AttachmentValue::Bool(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
        AttachmentValue::Int(number) => hessian::json::write_i64(out, number.into()),
        AttachmentValue::Long(number) => hessian::json::write_i64(out, number),
        AttachmentValue::Double(number) => hessian::json::write_f64(out, number),
    }
}

/// Where the value that is at `start` is.
fn value_at(framing: Framing, body: &[u8], start: usize) -> Result<Range<usize>, ProtoError> {
    match Texts::new(framing, body, start).next("value")? {
        Some((start, text)) => Ok(start..start + text.len()),
        None => Err(ProtoError::Json { field: "value", offset: start, rule: "a text" }),
    }
}

/// The attachments of a fastjson or fastjson2 body, which stand in the text at `offset`.
#[inline]
fn read_text_attachments(
    framing: Framing,
    line: Option<(usize, &[u8])>,
    max: usize,
) -> Result<Vec<(BodyText, BodyText)>, ProtoError> {
    let Some((offset, line)) = line.filter(|(_, line)| !line.is_empty()) else {
        return Ok(Vec::new());
    };
    let Some(members) = framing.read_map(line, max) else {
        let rule = match framing {
            Framing::Lines | Framing::Sized => "an object or null",
            Framing::Jsonb => "a map with each name once, or null",
        };
        return Err(ProtoError::Json { field: "attachments", offset, rule });
    };
    let count = members.count;
    if count > max {
        return Err(ProtoError::TooMany { what: "attachments", count, max });
    }
    let own = |(name, value)| (BodyText::Owned(name), BodyText::Owned(value));
    Ok(members.kept.into_iter().map(own).collect())
}

/// A length as it comes before a text. Payload limits keep texts far below 4 GiB.
pub(crate) fn size(len: usize) -> [u8; SIZE_LEN] {
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests;
