//! Objects of classes: members by the names of their fields, or what else a class is in JSON.

use super::{EnumStyle, Shape, TranscodeError, Writer};
use crate::ObjectCursor;
use crate::json;

impl Writer<'_, '_, '_> {
    pub(super) fn object(&mut self) -> Result<(), TranscodeError> {
        let start = self.dec.position();
        let mut object = self.dec.read_object_begin()?;
        let shape = match self.shape(object.class()) {
            Shape::Enum if self.style.enums == EnumStyle::Object => Shape::Bean,
            shape => shape,
        };
        match shape {
            Shape::Bean => {
                self.enter(start);
                self.bean(object)?;
                self.leave();
                return Ok(());
            }
            Shape::Throwable => {
                self.enter(start);
                self.throwable(object)?;
                self.leave();
                return Ok(());
            }
            Shape::Enum | Shape::Known(_) => {}
        }
        // These are no objects in JSON: a reference repeats them.
        self.open.push(start);
        match shape {
            Shape::Known(builtin) => self.known(builtin, object)?,
            _ => {
                while object.next(self.dec).is_some() {
                    self.value()?;
                }
            }
        }
        self.open.pop();
        Ok(())
    }

    fn bean(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        self.out.push(b'{');
        let mut is_first = true;
        if self.opts.class_name {
            self.class_member(object.class());
            is_first = false;
        }
        let class = object.class();
        // Taken out, so that an object inside of the first one does not add to the same list.
        let mut keys = self.keys.get_mut(class).map(std::mem::take).unwrap_or_default();
        let n_known = keys.len();
        if n_known == 0 {
            keys.reserve_exact(object.n_fields());
        }
        while let Some(index) = object.next(self.dec) {
            let lead_at = self.out.len();
            // Whether there is a comma is the same for all objects of the class.
            let has_comma = !std::mem::replace(&mut is_first, false);
            match keys.get(index) {
                Some(range) if index < n_known => self.out.extend_from_within(range.clone()),
                _ => {
                    if has_comma {
                        self.out.push(b',');
                    }
                    self.field_name(class, index);
                    keys.push(lead_at..self.out.len());
                }
            }
            if let Some(paths) = &mut self.paths {
                paths.at_key(lead_at + usize::from(has_comma)..self.out.len() - 1);
            }
            if self.opts.fields.is_empty() {
                self.value()?;
            } else {
                self.styled_field(class, index)?;
            }
        }
        self.out.push(b'}');
        if n_known != 0 || !self.is_in_key {
            if self.keys.len() <= class {
                self.keys.resize(class + 1, Vec::new());
            }
            if let Some(slot) = self.keys.get_mut(class) {
                *slot = keys;
            }
        }
        Ok(())
    }

    pub(super) fn field_name(&mut self, class: usize, index: usize) {
        if let Some(name) = self.dec.class(class).and_then(|def| def.fields.get(index)) {
            json::write_string(self.out, name);
        }
        self.out.push(b':');
    }

    /// A field where options of single fields were given.
    fn styled_field(&mut self, class: usize, index: usize) -> Result<(), TranscodeError> {
        let outer = self.style;
        if let Some(def) = self.dec.class(class)
            && let Some(name) = def.fields.get(index)
        {
            self.style = outer.inside(&self.opts.fields, Some(&def.name), name.as_bytes());
        }
        self.value()?;
        self.style = outer;
        Ok(())
    }

    pub(super) fn shape(&mut self, class: usize) -> Shape {
        if let Some(Some(shape)) = self.shapes.get(class) {
            return *shape;
        }
        let shape = match self.dec.class(class) {
            Some(def) => match Shape::of(def) {
                Shape::Enum if self.schema.is_bean(&def.name) => Shape::Bean,
                shape => shape,
            },
            None => Shape::Bean,
        };
        if self.shapes.len() <= class {
            self.shapes.resize(class + 1, None);
        }
        if let Some(slot) = self.shapes.get_mut(class) {
            *slot = Some(shape);
        }
        shape
    }

    pub(super) fn class_member(&mut self, class: usize) {
        self.out.extend_from_slice(b"\"class\":");
        if let Some(def) = self.dec.class(class) {
            json::write_string(self.out, &def.name);
        }
    }
}
