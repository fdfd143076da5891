//! Why a Rust value could not be written, or read.

use std::fmt;

use crate::HessianError;

/// A rule of Hessian, of our mapping, or of the Rust type, that a value broke.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not Hessian, or not the kind of value that the type wants.
    #[error(transparent)]
    Hessian(#[from] HessianError),
    /// The type refused a value.
    #[error("the value at byte {offset} is refused: {message}")]
    Refused {
        /// Where the value stands.
        offset: usize,
        /// What the type said.
        message: Box<str>,
    },
    /// The value refused to be written, or the type to be read.
    #[error("{message}")]
    Custom {
        /// What it said.
        message: Box<str>,
    },
    /// Bytes follow after the value.
    #[error("{len} unexpected bytes after the value, at byte {offset}")]
    TrailingBytes {
        /// Where they begin.
        offset: usize,
        /// How many they are.
        len: usize,
    },
    /// A list or map has more elements than the type took.
    #[error("the list or map at byte {offset} has more elements than its type")]
    Longer {
        /// Where the element stands that is too much.
        offset: usize,
    },
    /// What should be a variant of an enum is a map or object without exactly one entry.
    #[error("the variant at byte {offset} is not a map of one entry")]
    Variant {
        /// Where the map or object begins.
        offset: usize,
    },
    /// A reference names a value that it stands in. No Rust value can be its own part.
    #[error("reference {index} at byte {offset} names a value around it")]
    Cycle {
        /// Where the reference stands.
        offset: usize,
        /// The number that it names.
        index: usize,
    },
    /// Values that references name were read again for more bytes than the limit.
    #[error("references before byte {offset} repeat more than {max} bytes")]
    Repeats {
        /// Where the last reference ends.
        offset: usize,
        /// The limit, which is [`Limits::max_len`](crate::Limits::max_len).
        max: usize,
    },
    /// An integer is beyond the 64 bits of Hessian's long.
    #[error("integer {value} does not fit a long")]
    IntegerRange {
        /// The integer.
        value: Box<str>,
    },
    /// A sequence said that it has another number of elements than it then had.
    #[error("a sequence of {announced} elements has {written}")]
    SequenceLen {
        /// The length it gave.
        announced: usize,
        /// How many elements were written.
        written: usize,
    },
}

impl Error {
    /// Where in the message the fault lies, in bytes; nothing if that cannot be told.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        match *self {
            Self::Hessian(error) => Some(error.offset()),
            Self::Refused { offset, .. }
            | Self::TrailingBytes { offset, .. }
            | Self::Longer { offset }
            | Self::Variant { offset }
            | Self::Cycle { offset, .. }
            | Self::Repeats { offset, .. } => Some(offset),
            Self::Custom { .. } | Self::IntegerRange { .. } | Self::SequenceLen { .. } => None,
        }
    }
}

/// An [`Error`] on its way out: one pointer, so that results stay in registers where nothing
/// fails.
#[derive(Debug)]
pub(super) struct Failure(Box<Error>);

impl Failure {
    /// The same with a place, if it has none: that of the value that was being read.
    #[cold]
    pub(super) fn at(mut self, offset: usize) -> Self {
        if let Error::Custom { message } = &mut *self.0 {
            *self.0 = Error::Refused { offset, message: std::mem::take(message) };
        }
        self
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        Self(Box::new(error))
    }
}

impl From<HessianError> for Failure {
    #[cold]
    fn from(error: HessianError) -> Self {
        Error::from(error).into()
    }
}

impl From<Failure> for Error {
    #[cold]
    fn from(failure: Failure) -> Self {
        *failure.0
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failure {}

impl ::serde::ser::Error for Failure {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        <Error as ::serde::ser::Error>::custom(message).into()
    }
}

impl ::serde::de::Error for Failure {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        <Error as ::serde::de::Error>::custom(message).into()
    }
}

impl ::serde::ser::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Custom { message: message.to_string().into() }
    }
}

impl ::serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Custom { message: message.to_string().into() }
    }
}
