//! The serializer: what serde tells of a value, into the encoder.
//!
//! Invariants:
//! - Class numbers are given when objects begin; the definitions stand before the value in the
//!   end, in the order of their numbers.
//! - A value that is refused leaves nothing behind in the buffer.

mod classes;
mod compound;

use std::fmt::Display;

use ::serde::ser::{self, Serialize};

use self::classes::Classes;
use self::compound::{Elements, Entries, Fields};
use super::Error;
use super::error::Failure;
use super::helpers::DATE_NAME;
use crate::Encoder;

/// Writes one value.
pub(super) fn write<T: Serialize + ?Sized>(value: &T, enc: &mut Encoder<'_>) -> Result<(), Error> {
    let (start, n_refs, first_class) = (enc.position(), enc.ref_count(), enc.class_count());
    let mut writer =
        HessianSerializer { enc, classes: Classes::default(), first_class, as_date: false };
    let result = value.serialize(&mut writer);
    let classes = writer.classes;
    if result.is_err() {
        enc.rewind(start, n_refs);
    } else {
        enc.insert_classes(start, classes.iter());
    }
    Ok(result?)
}

/// Where a value is written to.
#[derive(Debug)]
pub(super) struct HessianSerializer<'e, 'a> {
    enc: &'e mut Encoder<'a>,
    classes: Classes,
    /// The number of the first of `classes` in the message.
    first_class: u32,
    /// Whether the next integer is a date.
    as_date: bool,
}

impl<'e, 'a> HessianSerializer<'e, 'a> {
    fn class_number(&self, class: usize) -> u32 {
        self.first_class.saturating_add(u32::try_from(class).unwrap_or(u32::MAX))
    }

    fn integer<N: Copy + Display + TryInto<i64>>(&mut self, value: N) -> Result<(), Failure> {
        let long = value.try_into();
        let long = long.map_err(|_| Error::IntegerRange { value: value.to_string().into() })?;
        ser::Serializer::serialize_i64(self, long)
    }

    /// A list, whose length may be known only at its end.
    fn list(&mut self, len: Option<usize>) -> Elements<'_, 'e, 'a> {
        let open = match len {
            Some(len) => {
                self.enc.list_begin(None, len);
                None
            }
            None => Some(self.enc.list_open(None)),
        };
        Elements { writer: self, open, announced: len, n_written: 0, in_variant: false }
    }

    /// The map of one entry that a variant with content is; the content comes next.
    fn variant(&mut self, variant: &str) {
        self.enc.map_begin(None);
        self.enc.string(variant);
    }

    /// An object, whose fields come next.
    fn object(&mut self, name: &'static str, len: usize) -> Fields<'_, 'e, 'a> {
        let (class, start) = self.classes.begin(name, len);
        let at = self.enc.position();
        self.enc.object_head(self.class_number(class));
        Fields { writer: self, at, class, start, n_written: 0 }
    }
}

impl<'w, 'e, 'a> ser::Serializer for &'w mut HessianSerializer<'e, 'a> {
    type Ok = ();
    type Error = Failure;
    type SerializeSeq = Elements<'w, 'e, 'a>;
    type SerializeTuple = Elements<'w, 'e, 'a>;
    type SerializeTupleStruct = Elements<'w, 'e, 'a>;
    type SerializeTupleVariant = Elements<'w, 'e, 'a>;
    type SerializeMap = Entries<'w, 'e, 'a>;
    type SerializeStruct = Fields<'w, 'e, 'a>;
    type SerializeStructVariant = Entries<'w, 'e, 'a>;

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<(), Failure> {
        self.enc.bool(value);
        Ok(())
    }

    #[inline]
    fn serialize_i8(self, value: i8) -> Result<(), Failure> {
        self.serialize_i32(value.into())
    }

    #[inline]
    fn serialize_i16(self, value: i16) -> Result<(), Failure> {
        self.serialize_i32(value.into())
    }

    #[inline]
    fn serialize_i32(self, value: i32) -> Result<(), Failure> {
        self.enc.int(value);
        Ok(())
    }

    #[inline]
    fn serialize_i64(self, value: i64) -> Result<(), Failure> {
        if self.as_date {
            self.enc.date_ms(value);
        } else {
            self.enc.long(value);
        }
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<(), Failure> {
        self.integer(value)
    }

    #[inline]
    fn serialize_u8(self, value: u8) -> Result<(), Failure> {
        self.serialize_i32(value.into())
    }

    #[inline]
    fn serialize_u16(self, value: u16) -> Result<(), Failure> {
        self.serialize_i32(value.into())
    }

    #[inline]
    fn serialize_u32(self, value: u32) -> Result<(), Failure> {
        self.serialize_i64(value.into())
    }

    #[inline]
    fn serialize_u64(self, value: u64) -> Result<(), Failure> {
        self.integer(value)
    }

    fn serialize_u128(self, value: u128) -> Result<(), Failure> {
        self.integer(value)
    }

    #[inline]
    fn serialize_f32(self, value: f32) -> Result<(), Failure> {
        self.serialize_f64(value.into())
    }

    #[inline]
    fn serialize_f64(self, value: f64) -> Result<(), Failure> {
        self.enc.double(value);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Failure> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), Failure> {
        self.enc.string(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Failure> {
        self.enc.binary(value);
        Ok(())
    }

    #[inline]
    fn serialize_none(self) -> Result<(), Failure> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Failure> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), Failure> {
        self.enc.null();
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Failure> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Failure> {
        // Java reads an enum from nothing but this object. Only a name with a package is Java's.
        if name.contains('.') {
            let mut object = self.object(name, 1);
            ser::SerializeStruct::serialize_field(&mut object, "name", variant)?;
            return ser::SerializeStruct::end(object);
        }
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Failure> {
        if name != DATE_NAME {
            return value.serialize(self);
        }
        self.as_date = true;
        let result = value.serialize(&mut *self);
        self.as_date = false;
        result
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Failure> {
        self.variant(variant);
        value.serialize(&mut *self)?;
        self.enc.map_end();
        Ok(())
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Elements<'w, 'e, 'a>, Failure> {
        Ok(self.list(len))
    }

    fn serialize_tuple(self, len: usize) -> Result<Elements<'w, 'e, 'a>, Failure> {
        Ok(self.list(Some(len)))
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        len: usize,
    ) -> Result<Elements<'w, 'e, 'a>, Failure> {
        Ok(self.list(Some(len)))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Elements<'w, 'e, 'a>, Failure> {
        self.variant(variant);
        Ok(Elements { in_variant: true, ..self.list(Some(len)) })
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Entries<'w, 'e, 'a>, Failure> {
        self.enc.map_begin(None);
        Ok(Entries { writer: self, in_variant: false })
    }

    #[inline]
    fn serialize_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Fields<'w, 'e, 'a>, Failure> {
        Ok(self.object(name, len))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Entries<'w, 'e, 'a>, Failure> {
        self.variant(variant);
        self.enc.map_begin(None);
        Ok(Entries { writer: self, in_variant: true })
    }
}
