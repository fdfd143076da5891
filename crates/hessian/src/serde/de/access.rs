//! What is inside of lists, maps and objects, handed out piece by piece.

use std::borrow::Cow;

use ::serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use ::serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::ValueReader;
use crate::serde::Error;
use crate::serde::error::Failure;
use crate::{ListCursor, MapCursor, Name, ObjectCursor};

impl<'de> ValueReader<'_, 'de> {
    /// Reads one element, key or value. What the type has against it is told with its place.
    #[inline]
    fn next_value<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        let start = self.dec.position();
        seed.deserialize(self).map_err(|failure: Failure| failure.at(start))
    }

    fn longer<T>(&self) -> Result<T, Failure> {
        Err(Error::Longer { offset: self.dec.position() }.into())
    }
}

/// A list.
#[derive(Debug)]
pub(super) struct ListElements<'r, 'd, 'de> {
    pub(super) reader: &'r mut ValueReader<'d, 'de>,
    pub(super) cursor: ListCursor<'de>,
    pub(super) is_done: bool,
}

impl ListElements<'_, '_, '_> {
    #[inline]
    fn advance(&mut self) -> Result<bool, Failure> {
        self.is_done = self.is_done || !self.cursor.next(self.reader.dec)?;
        Ok(!self.is_done)
    }

    /// Leaves the list, which must be at its end.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if self.advance()? { self.reader.longer() } else { Ok(()) }
    }
}

impl<'de> SeqAccess<'de> for ListElements<'_, '_, 'de> {
    type Error = Failure;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Failure> {
        if self.advance()? { self.reader.next_value(seed).map(Some) } else { Ok(None) }
    }

    fn size_hint(&self) -> Option<usize> {
        self.cursor.left()
    }
}

/// A map.
#[derive(Debug)]
pub(super) struct MapEntries<'r, 'd, 'de> {
    pub(super) reader: &'r mut ValueReader<'d, 'de>,
    pub(super) cursor: MapCursor<'de>,
    pub(super) is_done: bool,
}

impl MapEntries<'_, '_, '_> {
    #[inline]
    fn advance(&mut self) -> Result<bool, Failure> {
        self.is_done = self.is_done || !self.cursor.next(self.reader.dec)?;
        Ok(!self.is_done)
    }

    /// Leaves the map, which must be at its end.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if self.advance()? { self.reader.longer() } else { Ok(()) }
    }
}

impl<'de> MapAccess<'de> for MapEntries<'_, '_, 'de> {
    type Error = Failure;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Failure> {
        if self.advance()? { self.reader.next_value(seed).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        self.reader.next_value(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        (!self.is_done).then(|| self.reader.dec.guess_entries())
    }
}

/// An object, as a map from the names of its fields.
#[derive(Debug)]
pub(super) struct ObjectFields<'r, 'd, 'de> {
    pub(super) reader: &'r mut ValueReader<'d, 'de>,
    pub(super) cursor: ObjectCursor,
    pub(super) is_done: bool,
}

impl<'de> ObjectFields<'_, '_, 'de> {
    #[inline]
    fn advance(&mut self) -> Option<usize> {
        let index = if self.is_done { None } else { self.cursor.next(self.reader.dec) };
        self.is_done = index.is_none();
        index
    }

    /// Leaves the object, which must be at its end.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if self.advance().is_some() { self.reader.longer() } else { Ok(()) }
    }
}

impl<'de> MapAccess<'de> for ObjectFields<'_, '_, 'de> {
    type Error = Failure;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Failure> {
        let Some(index) = self.advance() else {
            return Ok(None);
        };
        let class = self.reader.dec.class(self.cursor.class());
        // A cursor gives no index that its class does not have.
        let Some(field) = class.and_then(|class| class.fields.get(index)) else {
            return self.reader.longer();
        };
        let start = self.reader.dec.position();
        let key = match field {
            Name::Borrowed(text) => seed.deserialize(BorrowedStrDeserializer::new(text)),
            Name::Shared(text) => seed.deserialize(StrDeserializer::new(text)),
        };
        key.map(Some).map_err(|failure: Failure| failure.at(start))
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        self.reader.next_value(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.cursor.n_fields())
    }
}

/// A binary, as a list of its bytes.
#[derive(Debug)]
pub(super) struct ByteElements<'de> {
    bytes: Cow<'de, [u8]>,
    next: usize,
    /// Where the binary ends.
    end: usize,
}

impl<'de> ByteElements<'de> {
    pub(super) fn new(bytes: Cow<'de, [u8]>, end: usize) -> Self {
        Self { bytes, next: 0, end }
    }

    pub(super) fn visit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Failure> {
        let value = visitor.visit_seq(&mut self)?;
        if self.next < self.bytes.len() {
            let n_left = self.bytes.len() - self.next;
            return Err(Error::Longer { offset: self.end.saturating_sub(n_left) }.into());
        }
        Ok(value)
    }
}

impl<'de> SeqAccess<'de> for ByteElements<'de> {
    type Error = Failure;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Failure> {
        let Some(&byte) = self.bytes.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        seed.deserialize(byte.into_deserializer()).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.bytes.len() - self.next)
    }
}
