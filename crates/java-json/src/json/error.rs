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
    #[error("a value has to stand here")]
    Value,
    /// Something after the value.
    #[error("nothing may follow the value")]
    Trailing,
    /// Elements that are not parted by a comma.
    #[error("a comma or the end has to stand here")]
    Comma,
    /// A member's name without its colon.
    #[error("a colon has to stand here")]
    Colon,
    /// A member without a name.
    #[error("a name in quotes has to stand here")]
    Key,
    /// Not a string.
    #[error("a string has to stand here")]
    String,
    /// Not an array.
    #[error("an array has to stand here")]
    Array,
    /// Not an object.
    #[error("an object has to stand here")]
    Object,
    /// Not a number as JSON writes it.
    #[error("this is not a JSON number")]
    Number,
    /// A backslash before something that JSON has no escape for.
    #[error("unknown escape")]
    Escape,
    /// Half of a surrogate pair.
    #[error("a surrogate escape lacks its other half")]
    Surrogate,
    /// A control character inside a string.
    #[error("control characters in strings have to be escaped")]
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
