//! Bodies in hessian2: values one after another, counted by one encoder.

mod routing;
mod values;

use std::borrow::Cow;
use std::ops::Range;

use hessian::{Decoder, Encoder, ValueKind};

use super::codec::{
    ArgumentSurroundings, BodyCodec, MAX_FRONT_LEN, ReplyParts, RoutingParts, TextPair,
};
use crate::ProtoError;
use crate::attachment::AttachmentValue;
use crate::body::{AttachmentMap, BodyLimits, BodyText, FIELDS, RequestParts, check_field};

/// Hessian's form of the int 0; those from -16 to 47 are one byte.
pub(super) const INT_ZERO: u8 = 0x90;

#[derive(Debug)]
pub(super) struct Hessian2;

impl BodyCodec for Hessian2 {
    fn write_text(&self, out: &mut Vec<u8>, text: &str) {
        hessian::write_string(out, text);
    }

    fn args_end(&self, _n_args: usize) -> &'static [u8] {
        b""
    }

    fn write_map(&self, out: &mut Vec<u8>, entries: &[(&str, &str)]) -> usize {
        let start = out.len();
        Encoder::new(out).map_begin(None);
        self.write_entries(out, false, entries);
        let open_len = out.len() - start;
        Encoder::new(out).map_end();
        open_len
    }

    fn write_entries(&self, out: &mut Vec<u8>, _has_some: bool, entries: &[(&str, &str)]) {
        for (name, value) in entries {
            write_attachment(out, name, value);
        }
    }

    fn check_args(&self, _args: &[u8], _n_args: usize) -> Result<(), &'static str> {
        Ok(())
    }

    fn only_arg<'a>(&self, args: &'a [u8]) -> &'a [u8] {
        args
    }

    fn read_request(
        &self,
        request: &mut RequestParts,
        limits: &BodyLimits,
    ) -> Result<(), ProtoError> {
        let RequestParts { body, fields, args, n_args, attachments, may_have_others } = request;
        let mut decoder = Decoder::new(body, limits.hessian);
        for (text_of, field) in fields.iter_mut().zip(FIELDS) {
            let text = read_field(&mut decoder, field.name)?;
            *n_args = check_field(&text, field)?;
            *text_of = BodyText::ending_at(decoder.position(), text);
        }
        let start = decoder.position();
        for _ in 0..*n_args {
            decoder
                .skip_value()
                .map_err(|source| ProtoError::Hessian { field: "argument", source })?;
        }
        *args = start..decoder.position();
        let n;
        (*attachments, n) = read_attachments(&mut decoder, limits.max_attachments)?;
        *may_have_others = attachments.len() < n;
        Ok(())
    }

    fn read_routing<'a>(
        &self,
        body: &'a [u8],
        limits: &BodyLimits,
    ) -> Result<Option<RoutingParts<'a>>, ProtoError> {
        routing::read(body, limits).map(Some)
    }

    #[inline]
    fn is_like(&self, likeness: &ArgumentSurroundings, body: &[u8], limits: &BodyLimits) -> bool {
        routing::is_like(likeness, body, limits)
    }

    fn put_reply_front(
        &self,
        number: u8,
        _value_len: Option<usize>,
        front: &mut [u8; MAX_FRONT_LEN],
    ) -> usize {
        front[0] = INT_ZERO + number;
        1
    }

    fn holds_value(&self, _value: &[u8]) -> bool {
        true
    }

    fn value_end(&self) -> &'static [u8] {
        b""
    }

    fn read_text<'a>(&self, body: &'a [u8]) -> Option<Cow<'a, str>> {
        let limits = BodyLimits::default().hessian;
        Decoder::new(body, limits).read_opt_string().ok().map(Option::unwrap_or_default)
    }

    fn read_reply_number(&self, body: &[u8]) -> Result<(i64, usize), ProtoError> {
        let mut decoder = Decoder::new(body, BodyLimits::default().hessian);
        let wrap = |source| ProtoError::Hessian { field: "reply type", source };
        Ok((i64::from(decoder.read_int().map_err(wrap)?), decoder.position()))
    }

    fn framed_value(
        &self,
        _body: &[u8],
        _start: usize,
    ) -> Result<Option<Range<usize>>, ProtoError> {
        Ok(None)
    }

    fn find_value(
        &self,
        body: &[u8],
        start: usize,
        has_attachments: bool,
        limits: &BodyLimits,
    ) -> Result<Range<usize>, ProtoError> {
        if !has_attachments {
            return Ok(start..body.len());
        }
        let mut decoder = Decoder::new(body.get(start..).unwrap_or_default(), limits.hessian);
        skip_value(&mut decoder)?;
        Ok(start..start + decoder.position())
    }

    fn find_attachments<'a>(
        &self,
        reply: &ReplyParts<'a>,
        limits: &BodyLimits,
    ) -> Result<Option<AttachmentMap<'a>>, ProtoError> {
        // Classes that the value defined may be used behind it, so the way leads through it.
        let mut decoder = Decoder::new(reply.value_and_rest(), limits.hessian);
        for _ in 0..reply.n_values {
            skip_value(&mut decoder)?;
        }
        Ok((!decoder.is_at_end()).then_some(AttachmentMap::Hessian(decoder)))
    }

    fn read_attachments<'a>(
        &self,
        map: AttachmentMap<'a>,
        reply: &ReplyParts<'a>,
        max: usize,
    ) -> Result<(Vec<TextPair>, &'a [u8]), ProtoError> {
        match map {
            AttachmentMap::Hessian(mut decoder) => {
                Ok((read_attachments(&mut decoder, max)?.0, reply.value_and_rest()))
            }
            AttachmentMap::Text { .. } => Ok((Vec::new(), &[])),
        }
    }

    fn event_letter(&self, body: &[u8]) -> Option<u8> {
        match body {
            // A string of one letter.
            [0x01, letter] => Some(*letter),
            _ => None,
        }
    }
}

/// Appends name and value to a hessian2 map.
fn write_attachment(out: &mut Vec<u8>, name: &str, value: &str) {
    let (name, value) = AttachmentValue::of(name, value);
    hessian::write_string(out, name);
    match value {
        AttachmentValue::Text(text) => hessian::write_string(out, text),
        AttachmentValue::Bool(flag) => hessian::Encoder::new(out).bool(flag),
        AttachmentValue::Int(number) => hessian::write_int(out, number),
        AttachmentValue::Long(number) => hessian::write_long(out, number),
        AttachmentValue::Double(number) => hessian::write_double(out, number),
    }
}

fn skip_value(decoder: &mut Decoder<'_>) -> Result<(), ProtoError> {
    decoder.skip_value().map_err(|source| ProtoError::Hessian { field: "value", source })
}

/// A field of a hessian2 body: a string, or null, which counts as empty.
#[inline]
pub(super) fn read_field<'a>(
    decoder: &mut Decoder<'a>,
    field: &'static str,
) -> Result<Cow<'a, str>, ProtoError> {
    let text = decoder.read_opt_string().map_err(|source| ProtoError::Hessian { field, source })?;
    Ok(text.unwrap_or_default())
}

/// The attachments of a hessian2 body, those of them whose name and value are strings; and how
/// many there are of all kinds.
#[inline]
pub(super) fn read_attachments(
    decoder: &mut Decoder<'_>,
    max: usize,
) -> Result<(Vec<(BodyText, BodyText)>, usize), ProtoError> {
    let wrap = |source| ProtoError::Hessian { field: "attachments", source };
    let mut found = Vec::new();
    // Dubbo always writes a map, but a body may end before it or hold a null instead.
    if decoder.is_at_end() || decoder.read_null().map_err(wrap)? {
        return Ok((found, 0));
    }
    let mut map = decoder.read_map_begin().map_err(wrap)?;
    let mut count = 0;
    while map.next(decoder).map_err(wrap)? {
        count += 1;
        if count > max {
            return Err(ProtoError::TooMany { what: "attachments", count, max });
        }
        let name = read_if_string(decoder).map_err(wrap)?;
        let value = read_if_string(decoder).map_err(wrap)?;
        if let (Some(name), Some(value)) = (name, value) {
            if found.is_empty() {
                // Five to ten is what Dubbo sends.
                found.reserve(8);
            }
            found.push((name, value));
        }
    }
    Ok((found, count))
}

fn read_if_string(decoder: &mut Decoder<'_>) -> Result<Option<BodyText>, hessian::HessianError> {
    if decoder.peek()? != ValueKind::String {
        decoder.skip_value()?;
        return Ok(None);
    }
    let text = decoder.read_string()?;
    Ok(Some(BodyText::ending_at(decoder.position(), text)))
}
