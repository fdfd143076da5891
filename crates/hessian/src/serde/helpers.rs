//! What a derive may name: a date, a binary, and nulls that stand for nothing.

use std::fmt;

use ::serde::de::{SeqAccess, Visitor};
use ::serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name by which the serializer knows [`Date`].
pub(super) const DATE_NAME: &str = "hessian::serde::Date";

/// A `java.util.Date`, in milliseconds since 1970 UTC. Other formats see a plain number.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
#[serde(rename = "hessian::serde::Date")]
pub struct Date(pub i64);

/// For `#[serde(deserialize_with = "hessian::serde::or_default")]`: null becomes the default.
///
/// Java writes null for a collection or text that was never set. Together with
/// `#[serde(default)]` it covers a field that is not there, too.
///
/// # Errors
/// What the type itself gives.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// For `#[serde(with = "hessian::serde::bytes")]`: a `Vec<u8>` that is Java's `byte[]`.
///
/// serde takes a `Vec<u8>` for a list of integers otherwise.
pub mod bytes {
    use super::{BytesVisitor, Deserializer, Serializer};

    /// Writes a binary.
    ///
    /// # Errors
    /// What the serializer gives.
    pub fn serialize<S: Serializer>(value: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(value)
    }

    /// Reads a binary.
    ///
    /// # Errors
    /// What the deserializer gives.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_byte_buf(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Vec<u8>, E> {
        Ok(value.to_vec())
    }

    fn visit_byte_buf<E>(self, value: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<u8>, A::Error> {
        // What the sender announced is not believed further than a page.
        let mut value = Vec::with_capacity(items.size_hint().unwrap_or(0).min(4096));
        while let Some(byte) = items.next_element()? {
            value.push(byte);
        }
        Ok(value)
    }
}
