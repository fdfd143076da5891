//! Why bytes were refused, or a value has no form in the other format.

use java_json::json::JsonError;
use java_json::scalars::Misfit;

/// A rule of JSONB that a message broke.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// The message ends too early.
    #[error("the message ends inside a value")]
    End,
    /// No value begins with this byte.
    #[error("expected a value, found byte {found:#04x}")]
    Tag {
        /// The byte.
        found: u8,
    },
    /// Something else stands where this has to be.
    #[error("expected {expected}")]
    Expected {
        /// What has to.
        expected: &'static str,
    },
    /// A length below zero, or beyond the message.
    #[error("length {len} is more than the bytes that follow")]
    Length {
        /// The length.
        len: i64,
    },
    /// A string or binary over the limit.
    #[error("length {len} is over the limit of {max}")]
    TooLong {
        /// The length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// Nested too deep.
    #[error("nesting is deeper than {max} levels")]
    Depth {
        /// The limit.
        max: u32,
    },
    /// Too many elements.
    #[error("there are more than {max} elements")]
    Items {
        /// The limit.
        max: usize,
    },
    /// A number of a name that was not given out, or not in its order.
    #[error("unknown symbol {number}")]
    Symbol {
        /// The number.
        number: i32,
    },
    /// A text that is not in the encoding that it says.
    #[error("the text is not {encoding}")]
    Encoding {
        /// Which.
        encoding: &'static str,
    },
    /// GB18030, for which there are no tables here.
    #[error("text in GB18030 is not supported")]
    Gb18030,
    /// A month of 13, an hour of 24, and the like.
    #[error("invalid date or time")]
    Time,
    /// A number of more digits than the limit.
    #[error("the number has more than {max} bits")]
    BigNumber {
        /// The limit.
        max: usize,
    },
    /// A reference to a place where nothing is.
    #[error("the reference names no value")]
    Reference,
    /// Something after the value.
    #[error("unexpected bytes after the value")]
    Trailing,
}

/// A message, a text or a value that could not be transcoded. Offsets count in the source; for
/// JSON [`java_json::json::path_at`] turns one into a path.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonbError {
    /// The message is no JSONB, or over a limit.
    #[error("JSONB at byte {offset}: {rule}")]
    Broken {
        /// Bytes before the place.
        offset: usize,
        /// What was broken.
        rule: Rule,
    },
    /// The text is no JSON, or over a limit.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The JSON value is of a kind that the Java type cannot take.
    #[error("JSON at byte {offset}: {found} cannot become {expected}")]
    Kind {
        /// Where the value begins.
        offset: usize,
        /// What the value is.
        found: &'static str,
        /// The Java type.
        expected: Box<str>,
    },
    /// A number or string that the Java type does not have.
    #[error("JSON at byte {offset}: {found} is not {expected}")]
    Value {
        /// Where the value begins.
        offset: usize,
        /// The value as JSON, shortened.
        found: Box<str>,
        /// What it should be.
        expected: Box<str>,
    },
    /// A value that contains itself; JSON cannot tell it.
    #[error(
        "the reference at byte {offset} names a value that it is in, which JSON cannot express; \
         the option refs=path writes the path of that value"
    )]
    Cycle {
        /// Where the reference stands.
        offset: usize,
    },
    /// The JSON text grows over the limit.
    #[error("the JSON text is longer than {max} bytes, at byte {offset} of the message")]
    OutputLen {
        /// How far the message was read.
        offset: usize,
        /// The limit.
        max: usize,
    },
}

impl From<Misfit> for JsonbError {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Json(error) => Self::Json(error),
            Misfit::Kind { offset, found, expected } => Self::Kind { offset, found, expected },
            Misfit::Value { offset, found, expected } => Self::Value { offset, found, expected },
        }
    }
}

impl JsonbError {
    /// Where in the source the fault lies, in bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        match self {
            Self::Json(error) => error.offset,
            Self::Broken { offset, .. }
            | Self::Kind { offset, .. }
            | Self::Value { offset, .. }
            | Self::Cycle { offset }
            | Self::OutputLen { offset, .. } => *offset,
        }
    }
}
