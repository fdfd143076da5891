//! What a service's methods and classes look like, as Dubbo itself describes them: the JSON
//! documents that providers put into a metadata center, and the answer to telnet's `ls -l`.
//!
//! Two forms of the document are met. Dubbo 2.7 nests the definition of each field's type, and its
//! fastjson writes what was said before as a reference (`{"$ref":"$.types[3]"}`); Gson writes
//! `{"$ref":"a.Class"}` for a class that contains itself. Dubbo 3 writes names only. Source:
//! `FullServiceDefinition`, `TypeDefinition` and their builders in apache/dubbo 2.7 and 3.3.
//!
//! Invariants:
//! - A document's length and its number of values are checked before anything is kept of it.
//! - Classes are named as the JVM names them, with `$` before a nested class, whatever the
//!   document says.

mod document;
mod telnet;

use std::collections::BTreeMap;
use std::fmt;

use hessian::generics::{GenericClass, Instances};
use hessian::transcode::Schema;
use hessian::{ClassType, JavaType};

use crate::ProtoError;

pub use telnet::{PROMPT, TelnetError};

/// The longest document that is read. etcd refuses values over 1.5 MiB by default.
pub const MAX_DOCUMENT_LEN: usize = 2 << 20;

/// The most values in one document, all names, numbers, lists and objects together.
pub const MAX_VALUES: usize = 128 << 10;

/// The most methods of a service that are kept. `wsdl`-made monsters have some hundred.
pub const MAX_METHODS: usize = 4096;

/// A service, its methods and the classes that they take and return.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ServiceDefinition {
    /// The interface; empty if the document does not tell.
    pub interface: String,
    /// Version and group, where the document tells about them at all.
    pub variant: Option<Variant>,
    /// The methods, overloads each on their own, in the order of the document.
    pub methods: Vec<MethodDefinition>,
    /// The classes with fields and the enums among the types, by name.
    pub classes: BTreeMap<Box<str>, ClassDefinition>,
    /// Those of them whose type parameters are known.
    pub generics: BTreeMap<Box<str>, GenericClass>,
    /// The types with type arguments that occur in the methods and fields.
    pub instances: Instances,
}

/// What tells two services of one interface apart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Variant {
    /// Empty if there is none.
    pub version: String,
    /// Empty if there is none.
    pub group: String,
}

/// One method.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MethodDefinition {
    /// Its name.
    pub name: Box<str>,
    /// The types of its parameters, with type arguments where they are known.
    pub parameters: Vec<JavaType>,
    /// The type of its result, where it can be read.
    pub result: Option<JavaType>,
}

/// `name(java.lang.String, int)`.
impl fmt::Display for MethodDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (index, ty) in self.parameters.iter().enumerate() {
            write!(f, "{}{ty}", if index == 0 { "" } else { ", " })?;
        }
        f.write_str(")")
    }
}

/// One class.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClassDefinition {
    /// The types of its fields, those of its superclasses included.
    Bean(BTreeMap<Box<str>, JavaType>),
    /// The names of its values.
    Enum(Vec<Box<str>>),
}

impl ServiceDefinition {
    /// Reads a document of a metadata center.
    ///
    /// # Errors
    /// [`ProtoError::TooMany`] over a limit, [`ProtoError::Definition`] if it is no such document.
    /// Single types that cannot be read are left out.
    pub fn parse(document: &[u8]) -> Result<Self, ProtoError> {
        document::parse(document)
    }

    /// Reads what a provider of Dubbo 2.x answers to telnet's `ls -l INTERFACE`. It tells the
    /// methods with their types, and nothing of classes.
    ///
    /// # Errors
    /// What the provider said instead of methods.
    pub fn from_telnet(interface: &str, answer: &str) -> Result<Self, TelnetError> {
        telnet::parse(interface, answer)
    }

    /// All methods of this name.
    pub fn overloads<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a MethodDefinition> {
        self.methods.iter().filter(move |method| &*method.name == name)
    }

    /// The values of an enum, if the class is known as one.
    #[must_use]
    pub fn enum_values(&self, class: &str) -> Option<&[Box<str>]> {
        match self.classes.get(class) {
            Some(ClassDefinition::Enum(values)) => Some(values),
            _ => None,
        }
    }

    /// Whether the fields of a class are known, or that it is an enum; of one with type arguments,
    /// what these mean for its fields. It is named as [`ClassType::key`] has it.
    #[must_use]
    pub fn knows(&self, class: &ClassType) -> bool {
        match class.args() {
            [] => self.classes.contains_key(class.name()),
            _ => self.instances.fields(class.key()).is_some(),
        }
    }

    /// Whether any class has a field of such a type.
    pub fn has_field(&self, is_such: &impl Fn(&JavaType) -> bool) -> bool {
        self.classes.values().any(|class| match class {
            ClassDefinition::Bean(fields) => fields.values().any(is_such),
            ClassDefinition::Enum(_) => false,
        })
    }

    /// A class with type parameters.
    #[must_use]
    pub fn generic(&self, class: &str) -> Option<&GenericClass> {
        self.generics.get(class)
    }

    /// The fields of a class, if they are known.
    #[must_use]
    pub fn fields(&self, class: &str) -> Option<&BTreeMap<Box<str>, JavaType>> {
        match self.classes.get(class) {
            Some(ClassDefinition::Bean(fields)) => Some(fields),
            _ => None,
        }
    }
}

impl Schema for ServiceDefinition {
    fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
        let fields = match class.split_once('<') {
            None => self.fields(class),
            Some((raw, _)) => self.instances.fields(class).or_else(|| self.fields(raw)),
        };
        fields?.get(field)
    }

    fn knows_arguments(&self, class: &str) -> bool {
        self.instances.fields(class).is_some()
    }

    fn enum_names(&self, class: &str) -> Option<&[Box<str>]> {
        self.enum_values(class).filter(|values| !values.is_empty())
    }

    fn is_enum(&self, class: &str) -> Option<bool> {
        self.classes.get(class).map(|class| matches!(class, ClassDefinition::Enum(_)))
    }

    /// A class with no other field than `name` is a text in JSON, as an enum is.
    fn takes_text(&self, class: &str) -> bool {
        let is_name = |fields: &BTreeMap<Box<str>, JavaType>| {
            fields.len() == 1 && fields.contains_key("name")
        };
        self.fields(class).is_none_or(is_name)
    }
}

/// A type that a parameter may have: `void` is none, nor is an array of it.
fn parameter(ty: JavaType) -> Option<JavaType> {
    (crate::descriptor::count(&ty.to_descriptor()) == Ok(1)).then_some(ty)
}

#[cfg(test)]
mod tests;
