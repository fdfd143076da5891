//! Lists, maps and objects that are being written.

use ::serde::ser::{self, Serialize};

use super::HessianSerializer;
use crate::OpenList;
use crate::serde::Error;
use crate::serde::error::Failure;

/// A list.
#[derive(Debug)]
pub(in crate::serde) struct Elements<'w, 'e, 'a> {
    pub(super) writer: &'w mut HessianSerializer<'e, 'a>,
    pub(super) open: Option<OpenList>,
    pub(super) announced: Option<usize>,
    pub(super) n_written: usize,
    /// Whether it is the content of a variant, whose map ends with it.
    pub(super) in_variant: bool,
}

impl Elements<'_, '_, '_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        self.n_written += 1;
        value.serialize(&mut *self.writer)
    }

    fn finish(self) -> Result<(), Failure> {
        match (self.open, self.announced) {
            (Some(list), _) => self.writer.enc.list_close(list, self.n_written),
            (None, Some(announced)) if announced != self.n_written => {
                return Err(Error::SequenceLen { announced, written: self.n_written }.into());
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
    pub(super) writer: &'w mut HessianSerializer<'e, 'a>,
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
    pub(super) writer: &'w mut HessianSerializer<'e, 'a>,
    /// Where it begins.
    pub(super) at: usize,
    /// Its class as far as is known.
    pub(super) class: usize,
    /// Where the fields of that class stand.
    pub(super) start: usize,
    pub(super) n_written: usize,
}

impl Fields<'_, '_, '_> {
    /// Takes in a field that the class is not seen to have here.
    fn other_field(&mut self, field: &'static str) {
        let class = self.writer.classes.field(self.class, self.n_written, field);
        if class != self.class {
            self.set_class(class);
        }
    }

    /// Ends an object that is not seen to be of its class.
    fn other_end(&mut self) {
        let class = self.writer.classes.end(self.class, self.n_written);
        if class != self.class {
            self.set_class(class);
        }
    }

    /// Notes that the object is of `class`, which is another one than before.
    #[cold]
    fn set_class(&mut self, class: usize) {
        let (old, new) = (self.writer.class_number(self.class), self.writer.class_number(class));
        self.writer.enc.replace_object_head(self.at, old, new);
        self.start = self.writer.classes.start(class);
        self.class = class;
    }
}

impl ser::SerializeSeq for Elements<'_, '_, '_> {
    type Ok = ();
    type Error = Failure;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        self.element(value)
    }

    fn end(self) -> Result<(), Failure> {
        self.finish()
    }
}

impl ser::SerializeTuple for Elements<'_, '_, '_> {
    type Ok = ();
    type Error = Failure;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        self.element(value)
    }

    fn end(self) -> Result<(), Failure> {
        self.finish()
    }
}

impl ser::SerializeTupleStruct for Elements<'_, '_, '_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        self.element(value)
    }

    fn end(self) -> Result<(), Failure> {
        self.finish()
    }
}

impl ser::SerializeTupleVariant for Elements<'_, '_, '_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        self.element(value)
    }

    fn end(self) -> Result<(), Failure> {
        self.finish()
    }
}

impl ser::SerializeMap for Entries<'_, '_, '_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failure> {
        key.serialize(&mut *self.writer)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Failure> {
        self.finish();
        Ok(())
    }
}

impl ser::SerializeStructVariant for Entries<'_, '_, '_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        field: &'static str,
        value: &T,
    ) -> Result<(), Failure> {
        self.writer.enc.string(field);
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Failure> {
        self.finish();
        Ok(())
    }
}

impl ser::SerializeStruct for Fields<'_, '_, '_> {
    type Ok = ();
    type Error = Failure;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        field: &'static str,
        value: &T,
    ) -> Result<(), Failure> {
        if !self.writer.classes.has(self.start, self.n_written, field) {
            self.other_field(field);
        }
        self.n_written += 1;
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn end(mut self) -> Result<(), Failure> {
        if !self.writer.classes.ends(self.start, self.n_written) {
            self.other_end();
        }
        Ok(())
    }
}
