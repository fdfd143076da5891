//! Why a JSON text was refused.

/// A rule of RFC 8259, or a limit, that a text broke at `offset`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("JSON at byte {offset}: {rule}")]
pub struct JsonError {
    /// Bytes before the place.
    pub offset: usize,
    /// What was broken.
    pub rule: JsonRule,
}

/// The rules that a JSON text can break.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonRule {
    /// The text ends too early.
    #[error("the text ends inside a value")]
    End,
    /// No value where one has to be.
    #[error("expected a value")]
    Value,
    /// Something after the value.
    #[error("unexpected text after the value")]
    Trailing,
    /// Elements that are not parted by a comma.
    #[error("expected a comma or the end")]
    Comma,
    /// A member's name without its colon.
    #[error("expected a colon")]
    Colon,
    /// A member without a name.
    #[error("expected a name in quotes")]
    Key,
    /// Not a string.
    #[error("expected a string")]
    String,
    /// Not an array.
    #[error("expected an array")]
    Array,
    /// Not an object.
    #[error("expected an object")]
    Object,
    /// Not a number as JSON writes it.
    #[error("invalid number")]
    Number,
    /// A backslash before something that JSON has no escape for.
    #[error("unknown escape")]
    Escape,
    /// Half of a surrogate pair.
    #[error("a surrogate escape lacks its other half")]
    Surrogate,
    /// A control character inside a string.
    #[error("control characters in strings must be escaped")]
    Control,
    /// Not UTF-8.
    #[error("the text is not UTF-8")]
    Utf8,
    /// Nested too deep.
    #[error("nesting is deeper than {max} levels")]
    Depth {
        /// The limit.
        max: u32,
    },
    /// A string or number that is too long.
    #[error("a string or number is longer than {max} bytes")]
    Len {
        /// The limit.
        max: usize,
    },
    /// Too many elements.
    #[error("there are more than {max} elements")]
    Items {
        /// The limit.
        max: usize,
    },
}
