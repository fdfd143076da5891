//! What fastjson reads less of than the other serializations: a `Number`, and objects where a
//! class of the mapping's table is declared.

use java_json::ClassType;
use java_json::named::{NamedClass, ObjectForm};
use java_json::number::InGenericCall;
use java_json::scalars::Misfit;

use super::Writer;
use crate::values::ValueError;

impl Writer<'_, '_, '_> {
    /// A `Number`, of which fastjson reads no whole ones beyond 64 bits.
    pub(super) fn number(&mut self) -> Result<(), ValueError> {
        let mut ahead = self.json.clone();
        if InGenericCall::of(ahead.read_number()?) == InGenericCall::Nothing {
            return Err(self.not_read("java.lang.Number beyond 64 bits without a point"));
        }
        self.skip()
    }

    /// An object where a class of the table is declared: a value of the class that it names.
    /// fastjson reads no object of a subclass there.
    pub(super) fn named_object(&mut self, declared: &ClassType) -> Result<(), ValueError> {
        let start = self.json.position();
        let look = self.passed.look(&self.json)?;
        let (class, args) = (look.class.as_deref(), declared.args());
        let named = match NamedClass::of_object(start, class, self.known.schema)? {
            Some(named) => named,
            // It is a reference.
            None if self.known.refs => return self.object(None, args),
            None => return Err(Misfit::kind(&self.json, declared.name()).into()),
        };
        let only_value = look.only_value;
        let form = ObjectForm::of(Some(named), None, args, only_value.is_some(), || false);
        match (form, only_value) {
            (ObjectForm::Value(ty), Some((_, at))) => self.only_value(&ty, start, at),
            _ => {
                let class = class.unwrap_or_default();
                let both = format!("{class} where {} is declared", declared.name());
                Err(self.not_read_at(start, &both))
            }
        }
    }
}
