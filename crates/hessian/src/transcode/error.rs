//! Why a value could not be turned into the other format.

use crate::HessianError;
use java_json::json::JsonError;
use java_json::scalars::Misfit;

/// A value that could not be transcoded. Offsets count in the source text or message; for JSON
/// [`json::path_at`](java_json::json::path_at) turns one into a path.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TranscodeError {
    /// The message is no Hessian, or over a limit.
    #[error(transparent)]
    Hessian(#[from] HessianError),
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
    /// A list, map or object that contains itself; JSON cannot tell it.
    #[error(
        "the value at byte {offset} contains itself (reference {index}), which JSON cannot \
         express; the option refs=path writes the path of the value around it"
    )]
    Cycle {
        /// Where the reference stands.
        offset: usize,
        /// The number of the value that it names.
        index: usize,
    },
    /// An object of a class that we know by name lacks a field, or has a wrong one.
    #[error("the object at byte {offset} is not {expected}")]
    Shape {
        /// Where the object begins.
        offset: usize,
        /// What its class says that it is.
        expected: &'static str,
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

impl From<Misfit> for TranscodeError {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Json(error) => Self::Json(error),
            Misfit::Kind { offset, found, expected } => Self::Kind { offset, found, expected },
            Misfit::Value { offset, found, expected } => Self::Value { offset, found, expected },
        }
    }
}

impl TranscodeError {
    /// The same fault of a value that stands at another place.
    pub(crate) fn at(mut self, place: usize) -> Self {
        match &mut self {
            Self::Hessian(_) => {}
            Self::Json(error) => error.offset = place,
            Self::Kind { offset, .. }
            | Self::Value { offset, .. }
            | Self::Cycle { offset, .. }
            | Self::Shape { offset, .. }
            | Self::OutputLen { offset, .. } => *offset = place,
        }
        self
    }

    /// Where in the source the fault lies, in bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        match self {
            Self::Hessian(error) => error.offset(),
            Self::Json(error) => error.offset,
            Self::Kind { offset, .. }
            | Self::Value { offset, .. }
            | Self::Cycle { offset, .. }
            | Self::Shape { offset, .. }
            | Self::OutputLen { offset, .. } => *offset,
        }
    }
}
