//! Hessian 2.0 as Dubbo's hessian-lite speaks it, and its translation from and to JSON.
//!
//! Pure: bytes in, bytes out. No socket, clock, runtime or log.
//!
//! - [`Encoder`] writes values to a buffer of the caller; [`Decoder`] pulls them out of a slice.
//!   These two are the hot path: no tree, no allocation per value.
//! - [`Value`] is a tree for tests, tools and cold paths.
//! - [`json`] reads and writes JSON text; [`transcode`] turns one format into the other directly.
//! - [`JavaType`] is what a parameter is declared as; it guides JSON to Hessian.
//! - [`generics`] knows the fields of classes with type parameters.
//! - `serde` (with the feature of that name) writes and reads Rust types with serde derives.
//! - [`Limits`] bound everything that a peer can ask for.
//!
//! Begin to read at `encode.rs` and `decode.rs`; docs/json-mapping.md and
//! docs/serde-mapping.md have the tables of the mappings.

#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod check;
mod decode;
mod encode;
mod error;
#[cfg(feature = "serde")]
pub mod serde;
mod tag;
pub mod transcode;
mod utf16;
mod value;

pub use decode::{
    ClassDef, Decoder, ListCursor, MapCursor, Name, ObjectCursor, ValueKind, is_ascii_string,
};
pub use encode::{
    Encoder, OpenList, write_binary, write_date_ms, write_double, write_int, write_long,
    write_string,
};
pub use error::HessianError;
pub use java_json::{ClassType, JavaType, Limits, TypeError, TypeParameter, generics, json};
pub use value::{Class, Value};
