//! What requests and replies share: texts that stay in the body, and attachments.

use std::borrow::Cow;

use hessian::{Decoder, Kind};

use crate::ProtoError;
use crate::json::Framing;

/// Bounds on what one body may ask of us. The body's own length is bounded by its connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BodyLimits {
    /// Attachments of one message. Dubbo's own are about ten.
    pub max_attachments: usize,
    /// Depth, lengths and counts inside arguments, results and attachments.
    pub hessian: hessian::Limits,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { max_attachments: 1024, hessian: hessian::Limits::default() }
    }
}

/// A text of a body: where it stands, or a copy where it does not stand there as it is.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    Span { start: usize, end: usize },
    Owned(Box<str>),
}

impl Text {
    pub(crate) const EMPTY: Self = Self::Span { start: 0, end: 0 };

    /// `text` was read from a body and ended `end` bytes into it.
    pub(crate) fn ending_at(end: usize, text: Cow<'_, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Span { start: end.saturating_sub(text.len()), end },
            Cow::Owned(text) => Self::Owned(text.into()),
        }
    }

    /// Spans were checked when they were made, so the body has to be the same.
    pub(crate) fn get<'a>(&'a self, body: &'a [u8]) -> &'a str {
        match self {
            Self::Span { start, end } => body
                .get(*start..*end)
                .and_then(|bytes| std::str::from_utf8(bytes).ok())
                .unwrap_or_default(),
            Self::Owned(text) => text,
        }
    }
}

/// A field of a hessian2 body: a string, or null, which counts as empty.
pub(crate) fn read_field<'a>(
    decoder: &mut Decoder<'a>,
    field: &'static str,
) -> Result<Cow<'a, str>, ProtoError> {
    let text = decoder.read_opt_string().map_err(|source| ProtoError::Hessian { field, source })?;
    Ok(text.unwrap_or_default())
}

/// The attachments of a hessian2 body, those of them whose name and value are strings.
pub(crate) fn read_attachments(
    decoder: &mut Decoder<'_>,
    max: usize,
) -> Result<Vec<(Text, Text)>, ProtoError> {
    let wrap = |source| ProtoError::Hessian { field: "attachments", source };
    let mut found = Vec::new();
    // Dubbo always writes a map, but a body may end before it or hold a null instead.
    if decoder.is_at_end() || decoder.read_null().map_err(wrap)? {
        return Ok(found);
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
    Ok(found)
}

fn read_if_string(decoder: &mut Decoder<'_>) -> Result<Option<Text>, hessian::HessianError> {
    if decoder.peek()? != Kind::String {
        decoder.skip_value()?;
        return Ok(None);
    }
    let text = decoder.read_string()?;
    Ok(Some(Text::ending_at(decoder.position(), text)))
}

/// The attachments of a fastjson or fastjson2 body, which stand in the text at `offset`.
pub(crate) fn read_text_attachments(
    framing: Framing,
    line: Option<(usize, &[u8])>,
    max: usize,
) -> Result<Vec<(Text, Text)>, ProtoError> {
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
    let own = |(name, value)| (Text::Owned(name), Text::Owned(value));
    Ok(members.kept.into_iter().map(own).collect())
}
