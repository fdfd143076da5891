//! What the member `class` of a JSON object says: the same for every serialization.

use super::Builtin;
use crate::JavaType;

/// A class that an object names.
#[derive(Debug)]
pub struct Named {
    /// What the mapping knows of it.
    pub builtin: Option<Builtin>,
    /// An array or primitive type, whose values no JSON object is.
    pub plain: Option<JavaType>,
}

impl Named {
    /// Nothing if the name is empty, which no class has, or longer than any has.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        if name.is_empty() || JavaType::MAX_NAME_LEN < name.len() {
            return None;
        }
        // Arrays in both spellings, and primitive types.
        let is_plain =
            name.starts_with('[') || name.ends_with("[]") || 1 < name.len() && !name.contains('.');
        let parsed = if is_plain { JavaType::parse(name).ok() } else { None };
        let plain = parsed.filter(|ty| !matches!(ty, JavaType::Class(_) | JavaType::Void));
        // Generic arguments do not change what a class is.
        let builtin = Builtin::of_declared(name.split('<').next().unwrap_or(name));
        Some(Self { builtin, plain })
    }

    /// Whether `{"class": C, "value": v}` is v as a value of this class.
    #[must_use]
    pub fn is_of_value(&self) -> bool {
        let is_object = matches!(self.builtin, None | Some(Builtin::Map | Builtin::Any));
        self.plain.is_some() || !is_object
    }
}
