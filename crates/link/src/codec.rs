//! Serializations: how values become bytes, chosen by number.
//!
//! A [`Codec`] is one serialization of one type; to add another, implement that trait. A
//! [`CodecSet`] is a list of them, the preferred one first, such as `Serde` or `(Raw,)`. A
//! [`Codecs`] is the table of a set for one type: a call finds its codec there by index.
//!
//! Nothing here runs in the loop that reads and writes: values are encoded by the task that calls,
//! and decoded by the task that waits or that handles the call.

#[cfg(feature = "hessian")]
mod hessian2;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "postcard")]
mod postcard;
#[cfg(feature = "protobuf")]
mod protobuf;
mod raw;

use bytes::Bytes;

#[cfg(feature = "hessian")]
pub use hessian2::Hessian2;
#[cfg(feature = "json")]
pub use json::Json;
#[cfg(feature = "postcard")]
pub use postcard::Postcard;
#[cfg(feature = "protobuf")]
pub use protobuf::Protobuf;
pub use raw::Raw;

/// Codec numbers are below this.
///
/// 2 to 12, 16 and 21 to 23 are Dubbo's serialization ids, and mean the same here; 1, 13 and 14
/// are ours; 24 to 31 are free for programs.
pub const MAX_CODECS: usize = 32;

/// One serialization of the type `T`.
///
/// ```
/// use bytes::Bytes;
/// use link::codec::{Codec, CodecError};
///
/// /// Whole numbers as decimal text.
/// struct Decimal;
///
/// impl Codec<u64> for Decimal {
///     const NUMBER: u8 = 24;
///     const NAME: &'static str = "decimal";
///
///     fn encode(value: &u64, out: &mut Vec<u8>) -> Result<(), CodecError> {
///         out.extend_from_slice(value.to_string().as_bytes());
///         Ok(())
///     }
///
///     fn decode(bytes: Bytes) -> Result<u64, CodecError> {
///         let text = std::str::from_utf8(&bytes).map_err(CodecError::new)?;
///         text.parse().map_err(CodecError::new)
///     }
/// }
/// ```
pub trait Codec<T> {
    /// What is in the messages; from 1, below [`MAX_CODECS`].
    const NUMBER: u8;
    /// For people.
    const NAME: &'static str;

    /// Appends the value to `out`.
    ///
    /// # Errors
    /// The value has no form in this serialization.
    fn encode(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Reads a value; all bytes must be used.
    ///
    /// # Errors
    /// The bytes are not such a value.
    fn decode(bytes: Bytes) -> Result<T, CodecError>;

    /// The value's bytes, if it is nothing else: they are then sent without being copied here.
    fn shared(value: &T) -> Option<&Bytes> {
        let _ = value;
        None
    }
}

/// Why a value could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(Box<dyn std::error::Error + Send + Sync>);

impl CodecError {
    /// From the error of a serialization library, or from a text.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

/// A list of serializations that know the type `T`. Tuples of up to four codecs are such lists.
pub trait CodecSet<T: 'static> {
    /// The table for `T`.
    const CODECS: &'static Codecs<T>;
}

/// The set that is used unless another one is named: the serde formats that are compiled in.
#[cfg(all(feature = "postcard", feature = "json", feature = "hessian"))]
pub type Serde = (Postcard, Json, Hessian2);
/// The set that is used unless another one is named: the serde formats that are compiled in.
#[cfg(all(feature = "postcard", feature = "json", not(feature = "hessian")))]
pub type Serde = (Postcard, Json);

macro_rules! tuples_are_sets {
    ($(($($codec:ident),+))*) => {$(
        impl<T: 'static, $($codec: Codec<T>),+> CodecSet<T> for ($($codec,)+) {
            const CODECS: &'static Codecs<T> = &Codecs::new()$(.with::<$codec>())+;
        }
    )*};
}

tuples_are_sets! { (A) (A, B) (A, B, C) (A, B, C, D) }

/// The serializations of one type, by number.
pub struct Codecs<T> {
    entries: [Option<CodecFunctions<T>>; MAX_CODECS],
    preferred: u8,
}

/// One serialization of one type, as functions.
struct CodecFunctions<T> {
    name: &'static str,
    encode: fn(&T, &mut Vec<u8>) -> Result<(), CodecError>,
    decode: fn(Bytes) -> Result<T, CodecError>,
    shared: fn(&T) -> Option<&Bytes>,
}

impl<T> Clone for CodecFunctions<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for CodecFunctions<T> {}

impl<T> Default for Codecs<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Codecs<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self { entries: [None; MAX_CODECS], preferred: 0 }
    }

    /// The same with one more codec; the first is the preferred one.
    ///
    /// # Panics
    /// When compiled, if the number is 0 or not below [`MAX_CODECS`], or taken.
    #[must_use]
    pub const fn with<C: Codec<T>>(mut self) -> Self {
        let number = C::NUMBER as usize;
        assert!(number != 0 && number < MAX_CODECS, "codec numbers go from 1 to 31");
        assert!(self.entries[number].is_none(), "two codecs of one set have the same number");
        self.entries[number] = Some(CodecFunctions {
            name: C::NAME,
            encode: C::encode,
            decode: C::decode,
            shared: C::shared,
        });
        if self.preferred == 0 {
            self.preferred = C::NUMBER;
        }
        self
    }

    /// The number to use when `wanted` was asked for: that one if it is here, else the preferred.
    pub fn choose(&self, wanted: u8) -> u8 {
        if self.has(wanted) { wanted } else { self.preferred }
    }

    /// Whether the table has this codec.
    pub fn has(&self, number: u8) -> bool {
        self.find(number).is_some()
    }

    /// Numbers and names of the codecs.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'static str)> + '_ {
        let numbered = (0_u8..).zip(&self.entries);
        numbered.filter_map(|(number, entry)| Some((number, entry.as_ref()?.name)))
    }

    #[inline]
    fn entry(&self, number: u8) -> Result<&CodecFunctions<T>, CodecError> {
        self.find(number).ok_or_else(|| self.unknown(number))
    }

    #[inline]
    fn find(&self, number: u8) -> Option<&CodecFunctions<T>> {
        self.entries.get(usize::from(number))?.as_ref()
    }

    #[cold]
    fn unknown(&self, number: u8) -> CodecError {
        let known: Vec<String> =
            self.iter().map(|(number, name)| format!("{number} ({name})")).collect();
        CodecError::new(format!("codec {number} is not among {}", known.join(", ")))
    }

    /// Appends the value to `out` in the codec of this number, or gives its bytes if there is
    /// nothing to encode.
    ///
    /// # Errors
    /// Such a codec is not in the table, or the value has no form in it.
    #[inline]
    pub fn encode<'a>(
        &self,
        number: u8,
        value: &'a T,
        out: &mut Vec<u8>,
    ) -> Result<Option<&'a Bytes>, CodecError> {
        let entry = self.entry(number)?;
        if let Some(bytes) = (entry.shared)(value) {
            return Ok(Some(bytes));
        }
        (entry.encode)(value, out).map(|()| None)
    }

    /// Reads a value in the codec of this number.
    ///
    /// # Errors
    /// Such a codec is not in the table, or the bytes are not a value.
    #[inline]
    pub fn decode(&self, number: u8, bytes: Bytes) -> Result<T, CodecError> {
        (self.entry(number)?.decode)(bytes)
    }
}

impl<T> std::fmt::Debug for Codecs<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
