//! What has to hold for any bytes that are read into Rust types. The fuzz target and the tests
//! call it; it panics where something does not hold, and returns whether the bytes were good.

use std::collections::BTreeMap;
use std::fmt::Debug;

use ::serde::de::DeserializeOwned;
use ::serde::{Deserialize, Serialize};

use super::{Date, Error, from_slice, from_slice_within, to_vec};
use crate::{Decoder, Limits};

/// A type with a bit of everything, which holds itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "com.acme.Sample", rename_all = "camelCase", default)]
pub struct Sample {
    /// Numbers of each width.
    pub byte: i8,
    /// Unsigned.
    pub word: u16,
    /// 32 bits.
    pub int: i32,
    /// Unsigned, 32 bits.
    pub uint: u32,
    /// 64 bits.
    pub long: i64,
    /// Unsigned, 64 bits.
    pub ulong: u64,
    /// 32 bits.
    pub float: f32,
    /// 64 bits.
    pub double: f64,
    /// A boolean.
    pub flag: bool,
    /// A character.
    pub letter: char,
    /// Text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Text that may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// A date.
    pub at: Option<Date>,
    /// A binary.
    #[serde(with = "super::bytes")]
    pub raw: Vec<u8>,
    /// A pair.
    pub pair: (i32, String),
    /// Variants.
    pub shape: Vec<SampleShape>,
    /// Java's enum.
    pub color: Color,
    /// A map with keys that are not text.
    pub map: BTreeMap<i64, Option<String>>,
    /// More of the same.
    #[serde(deserialize_with = "super::or_default")]
    pub children: Vec<Sample>,
    /// Anything that a type may hold.
    pub any: Any,
}

/// Every kind of variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SampleShape {
    /// A name only.
    Dot,
    /// One value.
    Circle(f64),
    /// Several values.
    Line(i32, i32),
    /// Named values.
    Box {
        /// A number.
        width: i32,
        /// A sample inside.
        inside: Option<Box<Sample>>,
    },
}

/// An enum as Java has them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename = "com.acme.Color", rename_all = "UPPERCASE")]
pub enum Color {
    /// A constant.
    #[default]
    Red,
    /// Another.
    Green,
}

/// A type that takes what comes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Any {
    /// Null.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A double.
    Double(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Any>),
    /// A map or an object.
    Map(BTreeMap<String, Any>),
}

/// Reads the bytes into several types; what can be read is written and read again as the same.
pub fn read(bytes: &[u8]) -> bool {
    let is_sample = one::<Sample>(bytes);
    let is_list = one::<Vec<Sample>>(bytes);
    let is_any = one::<Any>(bytes);
    let is_map = one::<BTreeMap<String, Any>>(bytes);
    let is_shape = one::<SampleShape>(bytes);
    let is_pair = one::<(Option<Color>, Box<[i32]>)>(bytes);
    let is_numbers = one::<Vec<f32>>(bytes) | one::<Vec<u8>>(bytes) | one::<Vec<u128>>(bytes);
    let is_text = one::<Vec<Option<String>>>(bytes) | one::<char>(bytes);
    is_sample | is_list | is_any | is_map | is_shape | is_pair | is_numbers | is_text
}

/// Below, for one type.
fn one<T: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) -> bool {
    let value: T = match from_slice(bytes) {
        Ok(value) => value,
        Err(error) => {
            let offset = error.offset();
            assert!(offset.is_some_and(|offset| offset <= bytes.len()), "{error}");
            return false;
        }
    };
    let mut skipping = Decoder::new(bytes, Limits::default());
    assert_eq!(skipping.skip_value(), Ok(()), "what can be read can be skipped");
    assert!(skipping.is_at_end());
    let again = match to_vec(&value) {
        Ok(again) => again,
        Err(error) => {
            // The only thing that a value which was read can have too much of.
            assert!(matches!(error, Error::IntegerRange { .. }), "{error}");
            return true;
        }
    };
    // References are written out, and defaults filled in, so that it can be longer and deeper.
    let limits = Limits { max_depth: 200, max_len: usize::MAX, max_items: usize::MAX };
    match from_slice_within::<T>(&again, limits) {
        // By their text, for NaN is not equal to itself.
        Ok(second) => assert_eq!(format!("{value:?}"), format!("{second:?}")),
        Err(error) => panic!("our own bytes are refused: {error}"),
    }
    true
}
