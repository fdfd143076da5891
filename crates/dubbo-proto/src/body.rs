//! What requests and replies share: texts that stay in the body, and attachments.

use std::borrow::Cow;

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
