//! JSON to Hessian and Hessian to JSON, directly: no tree in between.
//!
//! - [`json_to_hessian`] is guided by the parameter's [`JavaType`](crate::JavaType), where it is
//!   known, and by `"class"` members of JSON objects.
//! - [`hessian_to_json`] is guided by the class names in the message, and by [`JsonOptions`].
//!
//! docs/json-mapping.md is the table of both directions.
//!
//! Invariants:
//! - No number changes its value on the way: where a double would, a `BigDecimal` is written.
//! - Output is bounded: by the length of the JSON text on the way in, and by
//!   [`JsonOptions::max_out_len`] on the way out, where references can repeat a value.

mod error;
mod generalized;
mod number;
mod run;
mod scalars;
mod temporal;
mod to_hessian;
mod to_json;

pub use error::TranscodeError;
pub use generalized::fold_generalized;
pub use java_json::{
    DateStyle, EnumStyle, FieldChoice, FieldRule, InputOptions, JsonOptions, OptionsError, OutRoom,
    RefStyle, Schema, TextRoom, builtin, named, time,
};
pub use scalars::ScalarCheck;
pub use to_hessian::{json_to_hessian, json_to_hessian_by, json_to_hessian_with};
pub use to_json::{hessian_to_json, hessian_to_json_as, hessian_to_json_with};

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use to_hessian::json_to_hessian_plainly;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use to_json::hessian_to_json_plainly;

#[cfg(test)]
mod tests;
