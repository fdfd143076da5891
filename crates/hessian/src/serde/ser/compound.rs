//! Lists, maps and objects that are being written.

use ::serde::ser::{self, Serialize};

use super::Writer;
use crate::OpenList;
use crate::serde::Error;

/// A list.
#[derive(Debug)]
pub(in crate::serde) struct Elements<'w, 'e, 'a> {
    pub(super) writer: &'w mut Writer<'e, 'a>,
    pub(super) open: Option<OpenList>,
    pub(super) announced: Option<usize>,
    pub(super) n_written: usize,
    /// Whether it is the content of a variant, whose map ends with it.
    pub(super) in_variant: bool,
}

impl Elements<'_, '_, '_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.n_written += 1;
        value.serialize(&mut *self.writer)
    }

    fn finish(self) -> Result<(), Error> {
        match (self.open, self.announced) {
            (Some(list), _) => self.writer.enc.list_close(list, self.n_written),
            (None, Some(announced)) if announced != self.n_written => {
                return Err(Error::SequenceLen { announced, written: self.n_written });
            }
            (None, _) => {}
        }
        if self.in_variant {
            self.writer.enc.map_end();
        }
        Ok(())
    }
}

/// A map.
#[derive(Debug)]
pub(in crate::serde) struct Entries<'w, 'e, 'a> {
    pub(super) writer: &'w mut Writer<'e, 'a>,
    /// Whether it is the content of a variant, whose map ends with it.
    pub(super) in_variant: bool,
}

impl Entries<'_, '_, '_> {
    fn finish(self) {
        self.writer.enc.map_end();
        if self.in_variant {
            self.writer.enc.map_end();
        }
    }
}

/// An object.
#[derive(Debug)]
pub(in crate::serde) struct Fields<'w, 'e, 'a> {
    pub(super) writer: &'w mut Writer<'e, 'a>,
    /// Where it begins.
    pub(super) at: usize,
    /// Its class as far as is known.
    pub(super) class: usize,
    pub(super) n_written: usize,
}

impl Fields<'_, '_, '_> {
    /// Notes that the object is of `class`.
    #[inline]
    fn set_class(&mut self, class: usize) {
        if class != self.class {
            let (old, new) =
                (self.writer.class_number(self.class), self.writer.class_number(class));
            self.writer.enc.replace_object_head(self.at, old, new);
            self.class = class;
        }
    }
}

impl ser::SerializeSeq for Elements<'_, '_, '_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

impl ser::SerializeTuple for Elements<'_, '_, '_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

impl ser::SerializeTupleStruct for Elements<'_, '_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

impl ser::SerializeTupleVariant for Elements<'_, '_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

impl ser::SerializeMap for Entries<'_, '_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        key.serialize(&mut *self.writer)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

impl ser::SerializeStructVariant for Entries<'_, '_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        field: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.writer.enc.string(field);
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

impl ser::SerializeStruct for Fields<'_, '_, '_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        field: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let class = self.writer.classes.field(self.class, self.n_written, field);
        self.set_class(class);
        self.n_written += 1;
        value.serialize(&mut *self.writer)
    }

    fn end(mut self) -> Result<(), Error> {
        let class = self.writer.classes.end(self.class, self.n_written);
        self.set_class(class);
        Ok(())
    }
}
