//! JSONB, the binary format of alibaba/fastjson2, as Dubbo's serialization 23 writes and reads it,
//! and its translation from and to JSON.
//!
//! Pure: bytes in, bytes out. No socket, clock, runtime or log.
//!
//! - [`jsonb_to_json`] and [`json_to_jsonb`] turn one format into the other directly, with no tree
//!   in between. What a Java value is in JSON does not depend on the serialization: the tables of
//!   types and the texts of dates and numbers are those of crate `java-json`.
//! - [`Decoder`] finds the ends of values and reads what needs no tree: texts, numbers, maps of
//!   texts.
//! - [`Encoder`] appends values to a buffer of the caller.
//!
//! Begin to read at `tag.rs`, which is the format, then at `decode.rs` and `to_json.rs`.
//! docs/json-mapping.md has the tables of the mapping, and what JSONB cannot tell.

#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod check;
mod decode;
mod encode;
mod error;
mod from_json;
mod names;
mod tag;
mod to_json;

pub use decode::{Decoder, EncodedText};
pub use encode::{DateParts, Encoder, OpenArray, TimeParts};
pub use error::{JsonbError, Rule};
pub use from_json::{ValueContext, json_to_jsonb, json_to_jsonb_by, json_to_jsonb_with};
pub use to_json::{jsonb_to_json, jsonb_to_json_as};
