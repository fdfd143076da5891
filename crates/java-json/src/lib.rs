//! What Java's values are in JSON, whatever the serialization that they come or go in.
//!
//! Pure: bytes in, bytes out. No socket, clock, runtime or log.
//!
//! - [`json`] reads and writes JSON text.
//! - [`JavaType`] is what a parameter is declared as; it guides how JSON is read.
//!   `builtin` has the classes that the mapping knows by name.
//! - [`generics`] knows the fields of classes with type parameters, [`Schema`] the types of
//!   fields.
//! - [`InputOptions`] and [`JsonOptions`] are the choices of callers, in and out.
//! - `declared` and `named` say what a JSON value becomes, by the class that is declared and the
//!   one that it names; `write` has how values look in JSON.
//! - [`unknown`] finds objects of classes of which nobody knows the fields.
//! - `scalars` reads the values of the JDK's classes that are scalars in JSON.
//! - `number`, `bigint`, `time` and `texts` are the texts of the JDK's values.
//! - [`Limits`] bound everything that a peer can ask for.
//!
//! Crates `hessian` and `jsonb` turn their formats into JSON and back by these.
//! docs/json-mapping.md has the tables of the mapping.

#[doc(hidden)]
pub mod ascii;
#[doc(hidden)]
pub mod bigint;
#[doc(hidden)]
pub mod builtin;
#[doc(hidden)]
pub mod declared;
#[doc(hidden)]
pub mod expected;
pub mod generics;
mod java_type;
pub mod json;
#[doc(hidden)]
pub mod keys;
mod limits;
#[doc(hidden)]
pub mod named;
#[doc(hidden)]
pub mod number;
pub mod options;
#[doc(hidden)]
pub mod passed;
#[doc(hidden)]
pub mod references;
#[doc(hidden)]
pub mod scalars;
mod schema;
#[doc(hidden)]
pub mod short_copy;
#[doc(hidden)]
pub mod texts;
#[doc(hidden)]
pub mod time;
pub mod unknown;
#[doc(hidden)]
pub mod write;

pub use java_type::{ClassType, JavaType, TypeError, TypeParameter};
pub use limits::Limits;
pub use options::{
    DateStyle, EnumStyle, FieldChoice, FieldRule, JsonOptions, OptionsError, OutRoom, RefStyle,
    TextRoom,
};
pub use schema::{InputOptions, Schema};
