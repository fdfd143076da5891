//! Variants of an enum: a name, Java's enum object, or a map of one entry.

use std::borrow::Cow;

use ::serde::de::value::StrDeserializer;
use ::serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, VariantAccess, Visitor,
};

use super::ValueReader;
use crate::serde::Error;
use crate::serde::error::Failure;
use crate::{Name, ValueKind};

/// The one field of the object that Java writes an enum as.
const JAVA_ENUM_FIELD: &str = "name";

impl<'de> ValueReader<'_, 'de> {
    pub(super) fn variant<V: Visitor<'de>>(
        &mut self,
        variants: &[&str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match self.kind()? {
            ValueKind::String => self.unit(visitor),
            ValueKind::Map => self.map_variant(variants, visitor),
            ValueKind::Object => self.object_variant(variants, visitor),
            ValueKind::Ref => self.repeat(|reader| reader.variant(variants, visitor)),
            _ => Err(self.mismatch("a variant's name, a map or an object")),
        }
    }

    /// A name that is all of the variant.
    fn unit<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Failure> {
        let start = self.dec.position();
        let name = self.dec.read_string()?;
        visitor.visit_enum(name.into_deserializer()).map_err(|failure: Failure| failure.at(start))
    }

    fn map_variant<V: Visitor<'de>>(
        &mut self,
        variants: &[&str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let offset = self.dec.position();
        self.open.push(offset);
        let mut map = self.dec.read_map_begin()?;
        if !map.next(self.dec)? {
            return Err(Error::Variant { offset }.into());
        }
        let name = self.dec.read_string()?;
        let value = self.content(&name, variants, visitor)?;
        if map.next(self.dec)? {
            return Err(Error::Variant { offset }.into());
        }
        self.open.pop();
        Ok(value)
    }

    fn object_variant<V: Visitor<'de>>(
        &mut self,
        variants: &[&str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let offset = self.dec.position();
        self.open.push(offset);
        let mut object = self.dec.read_object_begin()?;
        let name = match self.dec.class(object.class()).map(|class| class.fields.as_slice()) {
            Some([Name::Borrowed(name)]) => Cow::Borrowed(*name),
            Some([Name::Shared(name)]) => Cow::Owned(name.to_string()),
            _ => return Err(Error::Variant { offset }.into()),
        };
        object.next(self.dec);
        let value = self.content(&name, variants, visitor)?;
        object.next(self.dec);
        self.open.pop();
        Ok(value)
    }

    /// What stands beside `name`: the content of that variant, or the name of Java's enum.
    fn content<V: Visitor<'de>>(
        &mut self,
        name: &str,
        variants: &[&str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        if name == JAVA_ENUM_FIELD && !variants.contains(&name) {
            return self.unit(visitor);
        }
        let start = self.dec.position();
        visitor.visit_enum(NamedVariant { name, reader: self }).map_err(|failure| failure.at(start))
    }
}

/// A variant whose name is known, before its content.
#[derive(Debug)]
struct NamedVariant<'n, 'r, 'd, 'de> {
    name: &'n str,
    reader: &'r mut ValueReader<'d, 'de>,
}

impl<'r, 'd, 'de> EnumAccess<'de> for NamedVariant<'_, 'r, 'd, 'de> {
    type Error = Failure;
    type Variant = Content<'r, 'd, 'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Content<'r, 'd, 'de>), Failure> {
        let name = seed.deserialize(StrDeserializer::<Failure>::new(self.name))?;
        Ok((name, Content { reader: self.reader }))
    }
}

/// The content of a variant.
#[derive(Debug)]
struct Content<'r, 'd, 'de> {
    reader: &'r mut ValueReader<'d, 'de>,
}

impl<'de> VariantAccess<'de> for Content<'_, '_, 'de> {
    type Error = Failure;

    fn unit_variant(self) -> Result<(), Failure> {
        ::serde::Deserialize::deserialize(self.reader)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Failure> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Failure> {
        self.reader.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.reader.deserialize_map(visitor)
    }
}
