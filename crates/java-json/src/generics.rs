//! Classes with type parameters: the types of their fields, once type arguments are put in for the
//! parameters.
//!
//! A field of `com.acme.Page<T>` that is a `java.util.List<T>` is a
//! `java.util.List<com.acme.Order>` where a `com.acme.Page<com.acme.Order>` is declared. That is
//! worked out once for each type that occurs, and looked up by the text of the type: see
//! [`ClassType::key`](crate::ClassType::key).
//!
//! Invariants:
//! - A type parameter never leaves this module: it becomes its argument, its bound, or
//!   `java.lang.Object`.
//! - What comes of one definition is bounded in depth, size and number, also where a class holds
//!   itself with other arguments at each level.

use std::collections::BTreeMap;

use crate::JavaType;
use crate::builtin::Builtin;
use crate::java_type::{ClassType, TypeParameter};

/// Types nest no deeper than they can be written.
const MAX_DEPTH: usize = 32;
/// Names in one type. A class that holds itself with more arguments at each level ends here.
const MAX_NAMES: usize = 64;
/// Bytes of names in all types that are worked out from one definition or configuration.
const MAX_BYTES: usize = 1 << 20;

/// A class that declares type parameters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GenericClass {
    parameters: Vec<TypeParameter>,
    /// A type parameter is a class of its name here.
    fields: BTreeMap<Box<str>, JavaType>,
}

/// Why a type with type arguments is not understood.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GenericsError {
    /// Nothing is known of the class.
    #[error("it is unknown which fields of {class} have the types between < and >")]
    Unknown {
        /// The class.
        class: Box<str>,
    },
    /// The class has another number of parameters.
    #[error("{class} takes {wants} types between < and >, not {has}")]
    Number {
        /// The class.
        class: Box<str>,
        /// How many it declares.
        wants: usize,
        /// How many were given.
        has: usize,
    },
    /// A primitive type between `<` and `>`.
    #[error(
        "{name} is primitive; between < and > write the name of its box, such as java.lang.Integer"
    )]
    Primitive {
        /// The type.
        name: Box<str>,
    },
    /// The limit on all types together.
    #[error("the types with type arguments take more than {max} bytes together")]
    TooLong {
        /// The limit.
        max: usize,
    },
}

impl GenericClass {
    /// A class with these parameters, and the types of its fields in terms of them: `T` as the
    /// class `T`.
    #[must_use]
    pub fn new(parameters: Vec<TypeParameter>, fields: BTreeMap<Box<str>, JavaType>) -> Self {
        Self { parameters, fields }
    }

    /// Whether it declares any.
    #[must_use]
    pub fn has_parameters(&self) -> bool {
        !self.parameters.is_empty()
    }

    /// The types of its fields where no type arguments are given: parameters are what they extend.
    #[must_use]
    pub fn erased(&self) -> BTreeMap<Box<str>, JavaType> {
        self.fields_with(&[])
    }

    fn fields_with(&self, args: &[JavaType]) -> BTreeMap<Box<str>, JavaType> {
        let put_in = |ty: &JavaType| {
            let mut names_left = MAX_NAMES;
            self.put_in(ty, args, 0, &mut names_left).unwrap_or_else(|| self.raw(ty))
        };
        self.fields.iter().map(|(name, ty)| (name.clone(), put_in(ty))).collect()
    }

    /// A type with the arguments in place of the parameters; nothing if it becomes too deep or too
    /// large.
    fn put_in(
        &self,
        ty: &JavaType,
        args: &[JavaType],
        depth: usize,
        names_left: &mut usize,
    ) -> Option<JavaType> {
        *names_left = names_left.checked_sub(1)?;
        if MAX_DEPTH <= depth {
            return None;
        }
        match ty {
            JavaType::Array(element) => {
                let element = self.put_in(element, args, depth + 1, names_left)?;
                Some(JavaType::Array(Box::new(element)))
            }
            JavaType::Class(class) => {
                if let Some(index) = self.index_of(class) {
                    let put = self.argument(index, args);
                    let size = Size::of(&put);
                    *names_left = names_left.checked_sub(size.n_names)?;
                    return (depth + size.depth <= MAX_DEPTH).then_some(put);
                }
                let put = |arg| self.put_in(arg, args, depth + 1, names_left);
                let of: Option<Vec<JavaType>> = class.args().iter().map(put).collect();
                Some(JavaType::class_of(class.name(), of?))
            }
            primitive => Some(primitive.clone()),
        }
    }

    /// The type without type arguments.
    fn raw(&self, ty: &JavaType) -> JavaType {
        match ty {
            JavaType::Array(element) => JavaType::Array(Box::new(self.raw(element))),
            JavaType::Class(class) => match self.index_of(class) {
                Some(index) => self.argument(index, &[]),
                None => JavaType::class(class.name()),
            },
            primitive => primitive.clone(),
        }
    }

    fn index_of(&self, class: &ClassType) -> Option<usize> {
        let is_it = |parameter: &TypeParameter| *parameter.name == *class.name();
        self.parameters.iter().position(is_it).filter(|_| class.args().is_empty())
    }

    /// The argument for a parameter. `?` and none at all mean what the parameter extends.
    fn argument(&self, index: usize, args: &[JavaType]) -> JavaType {
        match args.get(index) {
            Some(arg) if !arg.is_object() => arg.clone(),
            _ => self.parameters.get(index).map_or_else(object, |it| it.bound.clone()),
        }
    }
}

fn object() -> JavaType {
    JavaType::class("java.lang.Object")
}

/// How large a type is.
struct Size {
    n_names: usize,
    depth: usize,
    n_bytes: usize,
}

impl Size {
    fn of(ty: &JavaType) -> Self {
        let one = |n_bytes| Self { n_names: 1, depth: 1, n_bytes };
        match ty {
            JavaType::Array(element) => {
                let inner = Self::of(element);
                Self { n_names: inner.n_names + 1, depth: inner.depth + 1, ..inner }
            }
            JavaType::Class(class) => {
                let all = class.args().iter().map(Self::of);
                all.fold(one(class.name().len()), |sum, arg| Self {
                    n_names: sum.n_names + arg.n_names,
                    depth: sum.depth.max(arg.depth + 1),
                    n_bytes: sum.n_bytes + arg.n_bytes,
                })
            }
            _ => one(1),
        }
    }
}

/// The fields of the types with type arguments that occur somewhere.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Instances {
    by_type: BTreeMap<Box<str>, BTreeMap<Box<str>, JavaType>>,
    n_bytes: usize,
}

impl Instances {
    /// The types of the fields of a type, by its text. Nothing for one that was not added.
    #[must_use]
    pub fn fields(&self, key: &str) -> Option<&BTreeMap<Box<str>, JavaType>> {
        self.by_type.get(key)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_type.is_empty()
    }

    /// Adds a class whose fields are known for these arguments alone. Whether there was room.
    pub fn put(&mut self, class: &ClassType, fields: BTreeMap<Box<str>, JavaType>) -> bool {
        let n_fields: usize =
            fields.iter().map(|(name, ty)| name.len() + Size::of(ty).n_bytes).sum();
        self.n_bytes = self.n_bytes.saturating_add(class.key().len() + n_fields);
        let has_room = self.n_bytes <= MAX_BYTES;
        if has_room {
            self.by_type.entry(class.key().into()).or_insert(fields);
        }
        has_room
    }

    /// Adds a type, and those of its fields. Classes that `known` does not know are left as they
    /// are.
    ///
    /// # Errors
    /// [`GenericsError::TooLong`]
    pub fn add<'k>(
        &mut self,
        ty: &JavaType,
        known: &dyn Fn(&str) -> Option<&'k GenericClass>,
    ) -> Result<(), GenericsError> {
        let mut todo = vec![ty.clone()];
        while let Some(ty) = todo.pop() {
            let class = match ty {
                JavaType::Array(element) => {
                    todo.push(*element);
                    continue;
                }
                JavaType::Class(class) if !class.args().is_empty() => class,
                _ => continue,
            };
            todo.extend(class.args().iter().cloned());
            if class.builtin().is_some() || self.by_type.contains_key(class.key()) {
                continue;
            }
            let generic = known(class.name());
            let fits = |generic: &&GenericClass| generic.parameters.len() == class.args().len();
            let Some(generic) = generic.filter(fits) else { continue };
            let fields = generic.fields_with(class.args());
            todo.extend(fields.values().filter(|ty| Size::of(ty).n_names != 1).cloned());
            if !self.put(&class, fields) {
                return Err(GenericsError::TooLong { max: MAX_BYTES });
            }
        }
        Ok(())
    }
}

/// Checks that all type arguments in a type are understood: those of collections and the like, and
/// those of classes that `known` knows.
///
/// # Errors
/// The first that is not.
pub fn check<'k>(
    ty: &JavaType,
    known: &dyn Fn(&str) -> Option<&'k GenericClass>,
) -> Result<(), GenericsError> {
    let class = match ty {
        JavaType::Array(element) => return check(element, known),
        JavaType::Class(class) if !class.args().is_empty() => class,
        _ => return Ok(()),
    };
    let wants = match class.builtin() {
        Some(Builtin::Map) => Some(if class.name() == "java.util.Properties" { 0 } else { 2 }),
        Some(Builtin::List | Builtin::EnumSet | Builtin::Optional | Builtin::ClassName) => Some(1),
        Some(Builtin::Any) if class.name() == "java.lang.Comparable" => Some(1),
        Some(_) => Some(0),
        None => known(class.name()).map(|generic| generic.parameters.len()),
    };
    let (name, has) = (|| class.name().into(), class.args().len());
    match wants {
        None => return Err(GenericsError::Unknown { class: name() }),
        Some(wants) if wants != has => {
            return Err(GenericsError::Number { class: name(), wants, has });
        }
        Some(_) => {}
    }
    class.args().iter().try_for_each(|arg| match arg.is_primitive() {
        true => Err(GenericsError::Primitive { name: arg.java_name().into() }),
        false => check(arg, known),
    })
}

#[cfg(test)]
mod tests;
