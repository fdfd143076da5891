//! Why Hessian bytes were refused. Every variant names the broken rule and the byte offset.

/// A rule of Hessian 2.0, or one of our [`Limits`](crate::Limits), that a peer's bytes broke.
///
/// `offset` counts from the first byte that the [`Decoder`](crate::Decoder) was given.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HessianError {
    /// The bytes end inside a value.
    #[error("the value at byte {offset} needs {needed} more bytes than there are")]
    Truncated {
        /// Where the bytes were wanted.
        offset: usize,
        /// How many bytes are missing, as far as it can be told.
        needed: usize,
    },
    /// The tag is not one that may stand here.
    #[error("expected {expected} at byte {offset}, found tag {tag:#04x}")]
    Tag {
        /// Where the tag stands.
        offset: usize,
        /// The tag.
        tag: u8,
        /// What may stand there.
        expected: &'static str,
    },
    /// Containers are nested deeper than the limit.
    #[error("nesting at byte {offset} is deeper than {max} levels")]
    TooDeep {
        /// Where the container begins.
        offset: usize,
        /// The limit.
        max: u32,
    },
    /// One string or binary is longer than the limit.
    #[error("text or binary at byte {offset} is longer than the limit of {max}")]
    TooLong {
        /// Where it begins.
        offset: usize,
        /// The limit, in UTF-16 units for text and in bytes for binary.
        max: usize,
    },
    /// The message holds more elements than the limit.
    #[error("more than {max} elements at byte {offset}")]
    TooManyItems {
        /// Where the limit was passed.
        offset: usize,
        /// The limit.
        max: usize,
    },
    /// A list, class definition or chunk announces a length that cannot be.
    #[error("length {len} at byte {offset} is negative or longer than the bytes that follow")]
    Length {
        /// Where the length stands.
        offset: usize,
        /// The length.
        len: i64,
    },
    /// Text is neither UTF-8 nor Java's form of it.
    #[error("text at byte {offset} is not UTF-8")]
    Utf8 {
        /// Where the text begins.
        offset: usize,
    },
    /// An object names a class definition that was not sent.
    #[error("class definition {index} at byte {offset} is unknown, {known} are known")]
    ClassIndex {
        /// Where the object begins.
        offset: usize,
        /// The number that it names.
        index: i64,
        /// How many definitions were sent before.
        known: usize,
    },
    /// A list or map names a type that was not sent.
    #[error("type number {index} at byte {offset} is unknown, {known} are known")]
    TypeIndex {
        /// Where the type stands.
        offset: usize,
        /// The number that it names.
        index: i64,
        /// How many types were sent before.
        known: usize,
    },
    /// A reference names a list, map or object that was not sent.
    #[error("reference {index} at byte {offset} is unknown, {known} are known")]
    RefIndex {
        /// Where the reference stands.
        offset: usize,
        /// The number that it names.
        index: i64,
        /// How many lists, maps and objects began before.
        known: usize,
    },
    /// An integer does not fit the type that was asked for.
    #[error("number at byte {offset} does not fit {expected}")]
    Range {
        /// Where the number stands.
        offset: usize,
        /// The type that was asked for.
        expected: &'static str,
    },
}

impl HessianError {
    /// Where in the message the fault lies, in bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        match *self {
            Self::Truncated { offset, .. }
            | Self::Tag { offset, .. }
            | Self::TooDeep { offset, .. }
            | Self::TooLong { offset, .. }
            | Self::TooManyItems { offset, .. }
            | Self::Length { offset, .. }
            | Self::Utf8 { offset }
            | Self::ClassIndex { offset, .. }
            | Self::TypeIndex { offset, .. }
            | Self::RefIndex { offset, .. }
            | Self::Range { offset, .. } => offset,
        }
    }
}
