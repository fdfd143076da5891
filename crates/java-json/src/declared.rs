//! What a JSON value is written as where a class is declared: the same for every serialization.

use crate::builtin::Builtin;
use crate::json::JsonKind;

/// What is made of a JSON value where a class is declared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DeclaredForm {
    /// Whatever it looks like.
    Untyped,
    /// Java's null.
    Null,
    /// An `Optional` of it.
    Optional,
    /// The elements of a list or set.
    Elements,
    /// The elements of a set of enums.
    EnumSet,
    /// The words of a `BitSet`.
    BitSet,
    /// The map of java.util that it names itself.
    NamedMap,
    /// A map's entries.
    Entries,
    /// A value of the class that the object names, which the declared one has to take.
    NamedObject,
    /// A value of the JDK that is a scalar in JSON.
    Scalar(Builtin),
    /// An object of a class that is known by its name alone.
    Object,
    /// The name of a constant of such a class.
    EnumName,
    /// The value cannot be one of the class.
    Wrong,
}

impl DeclaredForm {
    /// For a class that is `builtin` in the table, or is not in it. `names_map` is asked where a
    /// map is declared: whether the object that comes next names one itself.
    ///
    /// # Errors
    /// What `names_map` says.
    #[inline]
    pub fn of<E>(
        builtin: Option<Builtin>,
        kind: JsonKind,
        names_map: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Self, E> {
        let Some(builtin) = builtin else { return Ok(Self::of_bean(kind)) };
        Ok(match (builtin, kind) {
            (Builtin::Any, _) => Self::Untyped,
            (Builtin::Optional, _) => Self::Optional,
            (_, JsonKind::Null) => Self::Null,
            (Builtin::Number, JsonKind::Number) => Self::Untyped,
            (Builtin::Number, JsonKind::String) => Self::Scalar(Builtin::BigDecimal),
            (Builtin::Number, JsonKind::Bool | JsonKind::Array) => Self::Wrong,
            (Builtin::List, JsonKind::Array) => Self::Elements,
            (Builtin::EnumSet, JsonKind::Array) => Self::EnumSet,
            (Builtin::Map, JsonKind::Object) if names_map()? => Self::NamedMap,
            (Builtin::Map, JsonKind::Object) => Self::Entries,
            (Builtin::BitSet, JsonKind::Object) => Self::BitSet,
            (_, JsonKind::Object) => Self::NamedObject,
            (Builtin::List | Builtin::Map | Builtin::EnumSet | Builtin::BitSet, _) => Self::Wrong,
            _ => Self::Scalar(builtin),
        })
    }

    fn of_bean(kind: JsonKind) -> Self {
        match kind {
            JsonKind::Null => Self::Null,
            JsonKind::Object => Self::Object,
            // The only class that has a text for its JSON is an enum.
            JsonKind::String => Self::EnumName,
            _ => Self::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(builtin: Option<Builtin>, kind: JsonKind, names_map: bool) -> DeclaredForm {
        DeclaredForm::of(builtin, kind, || Ok::<_, ()>(names_map)).unwrap()
    }

    #[test]
    fn the_class_and_the_kind_of_value_decide() {
        use Builtin::{Any, BigDecimal, EnumSet, List, Map, Optional};
        use DeclaredForm as Form;
        use JsonKind::{Array, Null, Number, Object, String};
        for (builtin, kind, expected) in [
            (Some(Any), Null, Form::Untyped),
            (Some(Optional), Null, Form::Optional),
            (Some(List), Null, Form::Null),
            (Some(List), Array, Form::Elements),
            (Some(List), Number, Form::Wrong),
            (Some(EnumSet), Array, Form::EnumSet),
            (Some(Builtin::BitSet), Object, Form::BitSet),
            (Some(Builtin::BitSet), String, Form::Wrong),
            (Some(Map), Object, Form::Entries),
            (Some(Map), Array, Form::Wrong),
            (Some(List), Object, Form::NamedObject),
            (Some(BigDecimal), Object, Form::NamedObject),
            (Some(BigDecimal), Number, Form::Scalar(BigDecimal)),
            (Some(BigDecimal), Array, Form::Scalar(BigDecimal)),
            (Some(Builtin::Number), Null, Form::Null),
            (Some(Builtin::Number), Number, Form::Untyped),
            (Some(Builtin::Number), String, Form::Scalar(BigDecimal)),
            (Some(Builtin::Number), Object, Form::NamedObject),
            (Some(Builtin::Number), JsonKind::Bool, Form::Wrong),
            (None, Null, Form::Null),
            (None, Object, Form::Object),
            (None, String, Form::EnumName),
            (None, Number, Form::Wrong),
        ] {
            assert_eq!(form(builtin, kind, false), expected, "{builtin:?} {kind:?}");
        }
        assert_eq!(form(Some(Map), Object, true), Form::NamedMap);
        let refuse = || Err("broken");
        assert_eq!(DeclaredForm::of(Some(Map), Object, refuse), Err("broken"));
        assert_eq!(DeclaredForm::of(Some(List), Array, refuse), Ok(Form::Elements));
    }
}
