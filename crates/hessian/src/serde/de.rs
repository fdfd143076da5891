//! The deserializer: what the decoder pulls out of a message, handed to serde's visitors.
//!
//! Invariants:
//! - Nothing is kept for a length that was announced; serde's own collections keep at most 1 MiB
//!   ahead, and a list of fixed length is never announced longer than the bytes that follow.
//! - A reference is read from where its value stands, unless that is still open; all that is read
//!   again is bounded by [`Limits::max_len`](crate::Limits::max_len), and by the limit on
//!   elements.
//! - A list, map or object is left at its end, or the message is given up.

mod access;
mod number;
mod variant;

use std::borrow::Cow;

use ::serde::Deserialize;
use ::serde::de::{self, Visitor};
use ::serde::forward_to_deserialize_any;

use self::access::{ByteElements, ListElements, MapEntries, ObjectFields};
use super::Error;
use super::error::Failure;
use crate::decode::Starts;
use crate::{Decoder, HessianError, ValueKind};

/// Reads one value.
pub(super) fn read<'de, T: Deserialize<'de>>(dec: &mut Decoder<'de>) -> Result<T, Error> {
    let start = dec.position();
    let mut reader = ValueReader { dec, open: Starts::default(), n_repeated: 0 };
    T::deserialize(&mut reader).map_err(|failure| failure.at(start).into())
}

/// Where a value is read from.
#[derive(Debug)]
pub(super) struct ValueReader<'d, 'de> {
    dec: &'d mut Decoder<'de>,
    /// Where the lists, maps and objects around the next value begin.
    open: Starts,
    /// How many bytes were read again for references.
    n_repeated: usize,
}

impl<'d, 'de> ValueReader<'d, 'de> {
    /// What kind of value comes next.
    #[inline]
    fn kind(&mut self) -> Result<ValueKind, Failure> {
        Ok(self.dec.peek()?)
    }

    /// Why the next value cannot be read: it is not what is expected.
    #[cold]
    fn mismatch(&mut self, expected: &'static str) -> Failure {
        let tag = self.dec.rest().first().copied().unwrap_or_default();
        HessianError::Tag { offset: self.dec.position(), tag, expected }.into()
    }

    /// Reads the value that the next reference names.
    #[cold]
    fn repeat<T>(
        &mut self,
        read: impl FnOnce(&mut ValueReader<'d, 'de>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let offset = self.dec.position();
        let index = self.dec.read_ref()?;
        let max = self.dec.limits().max_len;
        if max < self.n_repeated {
            return Err(Error::Repeats { offset, max }.into());
        }
        let start = self.dec.ref_start(index);
        let start = start.filter(|start| !self.open.contains(*start));
        let (Some(start), Some(after)) = (start, self.dec.begin_replay(index)) else {
            return Err(Error::Cycle { offset, index }.into());
        };
        let value = read(self)?;
        self.n_repeated += self.dec.position().saturating_sub(start);
        self.dec.end_replay(after);
        Ok(value)
    }

    fn list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Failure> {
        self.open.push(self.dec.position());
        let cursor = self.dec.read_list_begin()?;
        let mut list = ListElements { reader: self, cursor, is_done: false };
        let result = visitor.visit_seq(&mut list);
        if result.is_ok() {
            list.finish()?;
            self.open.pop();
        }
        // As it came: a value may be large.
        result
    }

    fn map<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Failure> {
        self.open.push(self.dec.position());
        let cursor = self.dec.read_map_begin()?;
        let mut map = MapEntries { reader: self, cursor, is_done: false };
        let result = visitor.visit_map(&mut map);
        if result.is_ok() {
            map.finish()?;
            self.open.pop();
        }
        // As it came: a value may be large.
        result
    }

    fn object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Failure> {
        self.open.push(self.dec.position());
        let cursor = self.dec.read_object_begin()?;
        let mut object = ObjectFields { reader: self, cursor, is_done: false };
        let result = visitor.visit_map(&mut object);
        if result.is_ok() {
            object.finish()?;
            self.open.pop();
        }
        // As it came: a value may be large.
        result
    }

    #[inline]
    fn text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Failure> {
        let text = match self.dec.short_ascii() {
            Some(text) => text,
            None => match self.dec.other_string()? {
                Cow::Borrowed(text) => text,
                Cow::Owned(text) => return visitor.visit_string(text),
            },
        };
        visitor.visit_borrowed_str(text)
    }

    fn binary<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Failure> {
        match self.dec.read_binary()? {
            Cow::Borrowed(bytes) => visitor.visit_borrowed_bytes(bytes),
            Cow::Owned(bytes) => visitor.visit_byte_buf(bytes),
        }
    }
}

/// Integers of one type, from any form of Hessian's integers.
macro_rules! integers {
    ($($method:ident $visit:ident $ty:ty, $name:literal;)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
            let value: $ty = self.integer($name)?;
            visitor.$visit(value)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut ValueReader<'_, 'de> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.kind()? {
            ValueKind::Null => {
                self.dec.read_null()?;
                visitor.visit_unit()
            }
            ValueKind::Bool => visitor.visit_bool(self.dec.read_bool()?),
            ValueKind::Int => visitor.visit_i32(self.dec.read_int()?),
            ValueKind::Long => visitor.visit_i64(self.dec.read_long()?),
            ValueKind::Double => visitor.visit_f64(self.dec.read_double()?),
            ValueKind::Date => visitor.visit_i64(self.dec.read_date_ms()?),
            ValueKind::String => self.text(visitor),
            ValueKind::Binary => self.binary(visitor),
            ValueKind::List => self.list(visitor),
            ValueKind::Map => self.map(visitor),
            ValueKind::Object => self.object(visitor),
            ValueKind::Ref => {
                self.repeat(|reader| de::Deserializer::deserialize_any(reader, visitor))
            }
        }
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_bool(self.dec.read_bool()?)
    }

    integers! {
        deserialize_i8 visit_i8 i8, "an i8";
        deserialize_i16 visit_i16 i16, "an i16";
        deserialize_i32 visit_i32 i32, "an i32";
        deserialize_i64 visit_i64 i64, "an i64";
        deserialize_i128 visit_i128 i128, "an i128";
        deserialize_u8 visit_u8 u8, "a u8";
        deserialize_u16 visit_u16 u16, "a u16";
        deserialize_u32 visit_u32 u32, "a u32";
        deserialize_u64 visit_u64 u64, "a u64";
        deserialize_u128 visit_u128 u128, "a u128";
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_f32(self.float()?)
    }

    #[inline]
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_f64(self.double()?)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.text(visitor)
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.text(visitor)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.text(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.kind()? {
            ValueKind::List => self.list(visitor),
            ValueKind::Ref => {
                self.repeat(|reader| de::Deserializer::deserialize_bytes(reader, visitor))
            }
            _ => self.binary(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_bytes(visitor)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        if self.dec.read_null()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        if self.dec.read_null()? { visitor.visit_unit() } else { Err(self.mismatch("null")) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.kind()? {
            ValueKind::Binary => {
                let bytes = self.dec.read_binary()?;
                ByteElements::new(bytes, self.dec.position()).visit(visitor)
            }
            ValueKind::Ref => {
                self.repeat(|reader| de::Deserializer::deserialize_seq(reader, visitor))
            }
            _ => self.list(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.kind()? {
            ValueKind::Object => self.object(visitor),
            ValueKind::Map => self.map(visitor),
            ValueKind::Ref => {
                self.repeat(|reader| de::Deserializer::deserialize_map(reader, visitor))
            }
            _ => Err(self.mismatch("an object or a map")),
        }
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.variant(variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.dec.skip_value()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { identifier }
}
