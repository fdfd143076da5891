//! Fields that another one of the same object hides, because both have one name in JSON: a
//! subclass declares what its superclass has, too, or an exception has a `message` of its own.
//!
//! The message has both values. Java's reader puts values of one name into the same field, so that
//! the last one counts; versions of hessian-lite differ in whether that is the subclass's. JSON
//! gets that one alone, for many readers refuse an object with two members of one name.

use std::collections::HashMap;

use super::{HessianToJson, TranscodeError};
use crate::{Name, ObjectCursor};

/// For each field of a class, the next one that has the same name in JSON. Empty if there is none
/// at all.
#[derive(Debug, Default)]
pub(super) struct Hidden(Vec<Option<usize>>);

impl Hidden {
    /// `key` says what a field is called in JSON.
    pub(super) fn of(fields: &[Name<'_>], key: impl Fn(&str) -> &str) -> Self {
        if !may_repeat(fields, &key) {
            return Self::default();
        }
        let mut next = HashMap::with_capacity(fields.len());
        let names = fields.iter().enumerate().rev();
        let mut hidden: Vec<_> = names.map(|(at, field)| next.insert(key(field), at)).collect();
        if next.len() == fields.len() {
            return Self::default();
        }
        hidden.reverse();
        Self(hidden)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next field of the same name.
    fn by(&self, index: usize) -> Option<usize> {
        self.0.get(index).copied().flatten()
    }
}

/// Whether names may be equal. They rarely are, and most classes are told by a few steps: names of
/// one length and with one last byte are compared with all those before.
fn may_repeat(fields: &[Name<'_>], key: impl Fn(&str) -> &str) -> bool {
    const MAX_COMPARED: usize = 64;
    let mut seen = 0u64;
    MAX_COMPARED < fields.len()
        || fields.iter().enumerate().any(|(at, field)| {
            let key_here = key(field);
            let last = key_here.as_bytes().last().copied().unwrap_or_default();
            let bit = 1u64 << ((usize::from(last) + 5 * key_here.len()) % 64);
            let is_known = seen & bit != 0;
            seen |= bit;
            is_known && fields.iter().take(at).any(|before| key(before) == key_here)
        })
}

impl HessianToJson<'_, '_, '_> {
    /// The next field that has the same name in JSON as this one.
    #[inline]
    pub(super) fn hidden_by(&self, class: usize, index: usize) -> Option<usize> {
        self.plans.get(class).and_then(|plan| plan.hidden.by(index))
    }

    /// A bean some of whose fields are hidden.
    pub(super) fn hiding_bean(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let class = object.class();
        self.out.push(b'{');
        let mut is_first = true;
        if self.opts.class_name {
            self.class_member(class);
            is_first = false;
        }
        while let Some(index) = object.next(self.dec) {
            if self.hidden_by(class, index).is_some() {
                self.dec.skip_value()?;
                continue;
            }
            if !std::mem::replace(&mut is_first, false) {
                self.out.push(b',');
            }
            let key_at = self.out.len();
            self.field_name(class, index);
            if let Some(paths) = &mut self.paths {
                paths.at_key(key_at..self.out.len() - 1);
            }
            self.styled_field(class, index)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(names: &[&str]) -> Vec<Option<usize>> {
        let fields: Vec<Name<'_>> = names.iter().map(|name| Name::Borrowed(name)).collect();
        Hidden::of(&fields, |name| if name == "long" { "short" } else { name }).0
    }

    #[test]
    fn names_of_their_own_need_no_table() {
        let many: Vec<String> = (0..200).map(|at| format!("name{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for n_fields in 0..many.len() {
            assert_eq!(hidden(&many[..n_fields]), []);
        }
        assert_eq!(hidden(&["ab", "cb", "", "long"]), []);
    }

    #[test]
    fn equal_names_lead_from_one_to_the_next() {
        assert_eq!(hidden(&["a", "b", "a", "a"]), [Some(2), None, Some(3), None]);
        assert_eq!(hidden(&["short", "b", "long"]), [Some(2), None, None]);
        let many: Vec<String> = (0..200).map(|at| format!("name{}", at % 199)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(hidden(&many).iter().flatten().collect::<Vec<_>>(), [&199]);
    }
}
