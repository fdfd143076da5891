//! What is known of classes, and how JSON is read by it.

use crate::JavaType;

/// What is known of classes beside their names: the types of their fields.
pub trait Schema {
    /// The type of a field, where it is known.
    fn field_type(&self, class: &str, field: &str) -> Option<&JavaType>;

    /// Whether it is known what the type arguments mean for the fields of a class: of one that is
    /// named as [`ClassType::key`](crate::ClassType::key) has it.
    fn knows_arguments(&self, _class: &str) -> bool {
        false
    }

    /// Whether a class is known to be no enum, although its objects look like one.
    fn is_bean(&self, _class: &str) -> bool {
        false
    }

    /// The values of an enum, where they are known.
    fn enum_names(&self, _class: &str) -> Option<&[Box<str>]> {
        None
    }

    /// Whether a text is written as a constant of an enum.
    fn takes_constant(&self, class: &str, name: &str) -> bool {
        self.enum_names(class).is_none_or(|names| names.iter().any(|one| **one == *name))
    }

    /// Whether a class is an enum, where that is known.
    fn is_enum(&self, class: &str) -> Option<bool> {
        self.is_bean(class).then_some(false)
    }

    /// Whether a text may stand for an object of a class: it does for an enum, and what nobody
    /// knows may be one.
    fn takes_text(&self, class: &str) -> bool {
        self.is_enum(class) != Some(false)
    }

    /// Whether a provider cannot make objects of this class from maps, as a generic call has them:
    /// a record, whose fields nobody can set.
    fn takes_no_map(&self, _class: &str) -> bool {
        false
    }
}

/// Nothing is known.
impl Schema for () {
    fn field_type(&self, _class: &str, _field: &str) -> Option<&JavaType> {
        None
    }
}

/// The choices in the mapping of JSON to values.
#[derive(Clone, Copy)]
pub struct InputOptions<'s> {
    /// What is known of classes.
    pub schema: &'s dyn Schema,
    /// Whether `{"$ref":"$.a[0]"}` is the array or object that stands there in the same JSON
    /// value, which has to begin before: one value that is shared, or a cycle. What
    /// [`RefStyle::Path`](crate::options::RefStyle::Path) writes is read so.
    pub refs: bool,
    /// Whether objects of classes are maps with an entry `class`, of which the provider makes the
    /// objects: the form of Dubbo's generic calls. What is no JSON object in the table
    /// (`java.util.Date`, say) stays what it is. Numbers of unknown type are written so that Java,
    /// which makes them what the method takes, changes none: decimals keep the zeros at their end,
    /// and whole numbers beyond 64 bits are an error.
    pub as_maps: bool,
    /// Whether a decimal of unknown type that ends with zeros (`19.90`) is a `BigDecimal`, which
    /// keeps them, and not a double: where JSON is made of the values again.
    pub keeps_zeros: bool,
}

impl Default for InputOptions<'_> {
    fn default() -> Self {
        Self { schema: &(), refs: false, as_maps: false, keeps_zeros: false }
    }
}

impl std::fmt::Debug for InputOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputOptions")
            .field("refs", &self.refs)
            .field("as_maps", &self.as_maps)
            .field("keeps_zeros", &self.keeps_zeros)
            .finish_non_exhaustive()
    }
}
