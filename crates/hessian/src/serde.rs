//! Rust types with serde derives as Hessian 2.0, without a tree in between.
//!
//! [`to_vec`], [`to_writer`] and [`to_encoder`] write; [`from_slice`] and [`from_decoder`] read.
//! The last of each pair work on the crate's [`Encoder`] and [`Decoder`], so that several values
//! can share one message, as the arguments of a Dubbo call do.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! #[serde(rename = "com.acme.User", rename_all = "camelCase")]
//! struct User {
//!     id: i64,
//!     full_name: Option<String>,
//! }
//!
//! let user = User { id: 7, full_name: Some("Ada".into()) };
//! let bytes = hessian::serde::to_vec(&user)?;
//! assert_eq!(hessian::serde::from_slice::<User>(&bytes)?, user);
//! # Ok::<(), hessian::serde::Error>(())
//! ```
//!
//! # What becomes what
//!
//! | Rust | written as | read from |
//! | --- | --- | --- |
//! | `bool` | boolean | boolean |
//! | `i8`, `i16`, `i32`, `u8`, `u16` | int | int, long, if the number fits |
//! | `i64`, `u32` | long | int, long, if the number fits; a date, as its milliseconds |
//! | `u64`, `i128`, `u128` | long; [`Error::IntegerRange`] beyond it | the same |
//! | `f32`, `f64` | double | double, int, long, if nothing of the number gets lost |
//! | `char`, `&str`, `String` | string | string (`&str` only from a single chunk of plain UTF-8) |
//! | bytes ([`bytes`](mod@bytes)) | binary | binary, list of integers |
//! | [`Date`] | date | date, int, long |
//! | `Option` | null, or the value | null, or the value |
//! | `()`, unit struct | null | null |
//! | newtype struct | what is in it | what is in it |
//! | sequence, tuple, tuple struct, `Vec<u8>` | untyped list of fixed length | list; binary |
//! | map, struct with `flatten` | untyped map | any map; an object, keys being its fields |
//! | struct | object; the class is the name of the container | object of any class; map |
//! | enum, unit variant | string; Java's enum object if the container's name has a dot | either |
//! | enum, other variants | map of one entry: name to content | the same; object of one field |
//!
//! docs/serde-mapping.md says why, and what it means for Java.
//!
//! # How it is written
//!
//! serde tells the fields of a struct one by one, while Hessian wants the whole class before the
//! first of them. So the classes of a value are collected while it is written, and their
//! definitions put before it in the end. Structs of one type share one definition, which is found
//! by comparing pointers; fields that were skipped make another definition.

#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod check;
mod de;
mod error;
mod helpers;
mod ser;

pub use error::Error;
pub use helpers::{Date, bytes, or_default};

use ::serde::{Deserialize, Serialize};

use crate::{Decoder, Encoder, Limits};

/// Appends `value` to `out`, as a message of its own.
///
/// # Errors
/// [`Error`] if the value has no form in Hessian; `out` is then as it was.
pub fn to_writer<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), Error> {
    to_encoder(value, &mut Encoder::new(out))
}

/// `value` as a message.
///
/// # Errors
/// [`Error`] if the value has no form in Hessian.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(128);
    to_writer(value, &mut out)?;
    Ok(out)
}

/// Writes `value` as the next value of a message.
///
/// Classes that were defined before it in the same message are defined again.
///
/// # Errors
/// [`Error`] if the value has no form in Hessian; the encoder is then as it was.
pub fn to_encoder<T: Serialize + ?Sized>(
    value: &T,
    encoder: &mut Encoder<'_>,
) -> Result<(), Error> {
    ser::write(value, encoder)
}

/// Reads the one value of a message, within [`Limits::default`].
///
/// # Errors
/// [`Error`] if the bytes are not Hessian, not a `T`, or more than one value.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Error> {
    from_slice_within(bytes, Limits::default())
}

/// Reads the one value of a message, within `limits`.
///
/// # Errors
/// As [`from_slice`].
pub fn from_slice_within<'de, T: Deserialize<'de>>(
    bytes: &'de [u8],
    limits: Limits,
) -> Result<T, Error> {
    let mut decoder = Decoder::new(bytes, limits);
    let value = from_decoder(&mut decoder)?;
    if !decoder.is_at_end() {
        return Err(Error::TrailingBytes { offset: decoder.position(), len: decoder.rest().len() });
    }
    Ok(value)
}

/// Reads the next value of a message.
///
/// # Errors
/// [`Error`] if the bytes are not Hessian, or not a `T`.
pub fn from_decoder<'de, T: Deserialize<'de>>(decoder: &mut Decoder<'de>) -> Result<T, Error> {
    de::read(decoder)
}

#[cfg(test)]
mod tests;
