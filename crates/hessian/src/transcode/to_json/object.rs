//! Objects of classes: members by the names of their fields, or what else a class is in JSON.

use super::hidden::Hidden;
use super::throwable::key_of;
use super::{EnumStyle, HessianToJson, ObjectShape, TranscodeError};
use crate::transcode::Schema;
use crate::{ClassDef, JavaType, Name, ObjectCursor};
use java_json::builtin::Builtin;
use java_json::json::{self, MemberName};
use java_json::short_copy::push_front;
use java_json::write;

/// Names are prepared for classes of up to so many fields.
const MAX_LEADS: usize = 256;

/// What objects of one class have in common.
#[derive(Default)]
pub(super) struct ObjectPlan {
    shape: ObjectShape,
    /// Which fields others of the same name hide.
    pub(super) hidden: Hidden,
    /// What stands before the values of the fields, once an object was met.
    pub(super) leads: Vec<MemberName>,
    /// By field: whether doubles in it come from floats. None if there are none of these.
    floats: Vec<bool>,
    /// By field: the big number that it is declared as. None if there are none of these.
    numbers: Vec<Option<Builtin>>,
}

impl ObjectPlan {
    pub(super) fn shape(&self) -> ObjectShape {
        self.shape
    }

    fn of(class: &ClassDef<'_>, schema: &dyn Schema) -> Self {
        let shape = match ObjectShape::of(class) {
            ObjectShape::Enum if schema.is_bean(&class.name) => ObjectShape::Bean,
            shape => shape,
        };
        let hidden = match shape {
            ObjectShape::Bean => Hidden::of(&class.fields, |field| field),
            ObjectShape::Throwable => Hidden::of(&class.fields, key_of),
            _ => Hidden::default(),
        };
        let is_hiding = shape == ObjectShape::Bean && !hidden.is_empty();
        let shape = if is_hiding { ObjectShape::HidingBean } else { shape };
        let is_float = |field: &Name<'_>| {
            schema.field_type(&class.name, field).is_some_and(super::holds_floats)
        };
        let floats = match class.fields.iter().any(is_float) {
            true => class.fields.iter().map(is_float).collect(),
            false => Vec::new(),
        };
        let number = |field: &Name<'_>| {
            schema.field_type(&class.name, field).and_then(JavaType::held_number)
        };
        let numbers = match class.fields.iter().any(|field| number(field).is_some()) {
            true => class.fields.iter().map(number).collect(),
            false => Vec::new(),
        };
        Self { shape, hidden, leads: Vec::new(), floats, numbers }
    }
}

impl HessianToJson<'_, '_, '_> {
    pub(super) fn object(&mut self) -> Result<(), TranscodeError> {
        let start = self.dec.position();
        let mut object = self.dec.read_object_begin()?;
        let class = object.class();
        // One whose members are written last is no key.
        self.last_class = None;
        let shape = match self.shape(class) {
            ObjectShape::Enum if self.style.enums == EnumStyle::Object => ObjectShape::Bean,
            shape => shape,
        };
        match shape {
            ObjectShape::Bean => {
                self.enter(start);
                self.bean(object)?;
                self.leave();
                return Ok(());
            }
            ObjectShape::HidingBean => {
                self.enter(start);
                self.hiding_bean(object)?;
                self.leave();
                return Ok(());
            }
            ObjectShape::Throwable => {
                self.enter(start);
                self.throwable(object)?;
                self.leave();
                return Ok(());
            }
            ObjectShape::Enum | ObjectShape::Known(_) => {}
        }
        // These are no objects in JSON: a reference repeats them.
        self.open.push(start);
        match shape {
            ObjectShape::Known(builtin) => self.known(builtin, object)?,
            _ => {
                while object.next(self.dec).is_some() {
                    self.value()?;
                }
            }
        }
        self.open.pop();
        self.last_class = Some(class);
        Ok(())
    }

    fn bean(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let class = object.class();
        self.prepare_leads(class);
        let has_styles = self.plans.get(class).is_some_and(|plan| {
            !plan.floats.is_empty() || self.names_numbers && !plan.numbers.is_empty()
        });
        self.out.push(b'{');
        if self.opts.class_name {
            self.class_member(class);
        }
        loop {
            if self.is_plain && !has_styles {
                object.pass(self.run_fields(class, object.index()));
                // The run ended with what is too long, if that is so.
                self.check_len()?;
            }
            let Some(index) = object.next(self.dec) else { break };
            // There is a comma before all but the first, and before that one if there is a class.
            let has_comma = index != 0 || self.opts.class_name;
            let lead_at = self.out.len();
            self.lead(class, index, has_comma);
            if let Some(paths) = &mut self.paths {
                paths.at_key(lead_at + usize::from(has_comma)..self.out.len() - 1);
            }
            if self.opts.fields.is_empty() && !has_styles {
                self.value()?;
            } else {
                self.styled_field(class, index)?;
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    /// The name of a field in quotes, with its colon, and the comma before it.
    fn lead(&mut self, class: usize, index: usize, has_comma: bool) {
        let lead = self.plans.get(class).and_then(|plan| plan.leads.get(index));
        if let Some((text, len)) = lead.and_then(MemberName::text) {
            push_front(self.out, text, len);
            return;
        }
        if has_comma {
            self.out.push(b',');
        }
        self.field_name(class, index);
    }

    #[inline]
    fn prepare_leads(&mut self, class: usize) {
        if let Some(plan) = self.plans.get_mut(class)
            && plan.leads.is_empty()
            && let Some(def) = self.dec.class(class)
            && def.fields.len() <= MAX_LEADS
        {
            let is_after_class = self.opts.class_name;
            let lead = |(index, name): (usize, &Name<'_>)| {
                MemberName::new(name, index != 0 || is_after_class)
            };
            plan.leads.extend(def.fields.iter().enumerate().map(lead));
        }
    }

    pub(super) fn field_name(&mut self, class: usize, index: usize) {
        if let Some(name) = self.dec.class(class).and_then(|def| def.fields.get(index)) {
            json::write_string(self.out, name);
        }
        self.out.push(b':');
    }

    /// A field where options of single fields were given, a float, or a declared big number.
    pub(super) fn styled_field(
        &mut self,
        class: usize,
        index: usize,
    ) -> Result<(), TranscodeError> {
        let outer = self.style;
        if let Some(def) = self.dec.class(class)
            && let Some(name) = def.fields.get(index)
        {
            self.style = outer.inside(&self.opts.fields, Some(&def.name), name.as_bytes());
        }
        let plan = self.plans.get(class);
        self.style.floats |= plan.and_then(|plan| plan.floats.get(index)).is_some_and(|&is| is);
        let number = plan.and_then(|plan| plan.numbers.get(index)).copied().flatten();
        let declared_number = std::mem::replace(&mut self.declared_number, number);
        self.value()?;
        (self.style, self.declared_number) = (outer, declared_number);
        Ok(())
    }

    pub(super) fn shape(&mut self, class: usize) -> ObjectShape {
        if let Some(plan) = self.plans.get(class) {
            return plan.shape;
        }
        // All up to this one; those between are of classes that are met later, or never.
        for index in self.plans.len()..=class {
            let plan = self
                .dec
                .class(index)
                .map_or_else(ObjectPlan::default, |def| ObjectPlan::of(def, self.schema));
            self.plans.push(plan);
        }
        self.plans.get(class).map_or(ObjectShape::Bean, |plan| plan.shape)
    }

    pub(super) fn class_member(&mut self, class: usize) {
        if let Some(def) = self.dec.class(class) {
            write::write_class(self.out, &def.name);
        }
    }
}
