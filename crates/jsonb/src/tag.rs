//! The first byte of each value. Source: alibaba/fastjson2, `JSONB.Constants`.
//!
//! Whole numbers in parts of the ranges below are in the byte itself, or begin in it:
//!
//! | bytes | what |
//! | --- | --- |
//! | `f0..=ff`, `00..=2f` | an int from -16 to 47 |
//! | `30..=3f`, `40..=47` | an int of 12 or 19 bits |
//! | `49..=78` | a text of 0 to 47 characters, one byte each |
//! | `94..=a3` | an array of 0 to 15 elements |
//! | `c0..=c7`, `c8..=d7`, `d8..=ef` | a long of 19, 12 or 5 bits |

pub(crate) const INT_NUM_MIN: i32 = -16;
pub(crate) const INT_NUM_MAX: i32 = 0x2f;
pub(crate) const INT_12_FIRST: u8 = 0x30;
pub(crate) const INT_12_ZERO: u8 = 0x38;
pub(crate) const INT_12_LAST: u8 = 0x3f;
pub(crate) const INT_19_FIRST: u8 = 0x40;
pub(crate) const INT_19_ZERO: u8 = 0x44;
pub(crate) const INT_19_LAST: u8 = 0x47;
pub(crate) const INT_32: u8 = 0x48;

/// A short text in Latin-1; its length is added.
pub(crate) const STR_0: u8 = 0x49;
pub(crate) const STR_47: u8 = 0x78;
/// A longer text in Latin-1.
pub(crate) const STR_LATIN1: u8 = 0x79;
pub(crate) const STR_UTF8: u8 = 0x7a;
/// Big-endian, unless it begins with a mark that says otherwise.
pub(crate) const STR_UTF16: u8 = 0x7b;
pub(crate) const STR_UTF16_LE: u8 = 0x7c;
pub(crate) const STR_UTF16_BE: u8 = 0x7d;
pub(crate) const STR_GB18030: u8 = 0x7e;
/// A name that is given a number (text, number), or such a number.
pub(crate) const SYMBOL: u8 = 0x7f;

pub(crate) const CHAR: u8 = 0x90;
pub(crate) const BINARY: u8 = 0x91;
/// A type's name with its number, or that number alone; then the value.
pub(crate) const TYPED: u8 = 0x92;
/// A text: the path of a value that was written before.
pub(crate) const REFERENCE: u8 = 0x93;
pub(crate) const ARRAY_0: u8 = 0x94;
pub(crate) const ARRAY: u8 = 0xa4;
pub(crate) const OBJECT_END: u8 = 0xa5;
pub(crate) const OBJECT: u8 = 0xa6;
pub(crate) const LOCAL_TIME: u8 = 0xa7;
pub(crate) const LOCAL_DATE_TIME: u8 = 0xa8;
pub(crate) const LOCAL_DATE: u8 = 0xa9;
pub(crate) const ZONED_DATE_TIME: u8 = 0xaa;
pub(crate) const MILLIS: u8 = 0xab;
pub(crate) const SECONDS: u8 = 0xac;
pub(crate) const MINUTES: u8 = 0xad;
pub(crate) const INSTANT: u8 = 0xae;

pub(crate) const NULL: u8 = 0xaf;
pub(crate) const FALSE: u8 = 0xb0;
pub(crate) const TRUE: u8 = 0xb1;
pub(crate) const DOUBLE_0: u8 = 0xb2;
pub(crate) const DOUBLE_1: u8 = 0xb3;
pub(crate) const DOUBLE_LONG: u8 = 0xb4;
pub(crate) const DOUBLE: u8 = 0xb5;
pub(crate) const FLOAT_INT: u8 = 0xb6;
pub(crate) const FLOAT: u8 = 0xb7;
pub(crate) const DECIMAL_LONG: u8 = 0xb8;
pub(crate) const DECIMAL: u8 = 0xb9;
pub(crate) const BIGINT_LONG: u8 = 0xba;
pub(crate) const BIGINT: u8 = 0xbb;
pub(crate) const INT_16: u8 = 0xbc;
pub(crate) const INT_8: u8 = 0xbd;
pub(crate) const LONG_64: u8 = 0xbe;
pub(crate) const LONG_32: u8 = 0xbf;
pub(crate) const LONG_19_FIRST: u8 = 0xc0;
pub(crate) const LONG_19_ZERO: u8 = 0xc4;
pub(crate) const LONG_19_LAST: u8 = 0xc7;
pub(crate) const LONG_12_FIRST: u8 = 0xc8;
pub(crate) const LONG_12_ZERO: u8 = 0xd0;
pub(crate) const LONG_12_LAST: u8 = 0xd7;
pub(crate) const LONG_NUM_FIRST: u8 = 0xd8;
pub(crate) const LONG_NUM_LAST: u8 = 0xef;
pub(crate) const LONG_NUM_MIN: i64 = -8;
pub(crate) const LONG_NUM_MAX: i64 = 15;

pub(crate) const BITS_12_MIN: i64 = -0x800;
pub(crate) const BITS_12_MAX: i64 = 0x7ff;
pub(crate) const BITS_19_MIN: i64 = -0x4_0000;
pub(crate) const BITS_19_MAX: i64 = 0x3_ffff;

/// Whether an int begins with this byte.
pub(crate) const fn is_int(tag: u8) -> bool {
    tag <= INT_32 || 0xf0 <= tag
}

/// Whether a text begins with this byte.
pub(crate) const fn is_text(tag: u8) -> bool {
    STR_0 <= tag && tag <= STR_GB18030
}
