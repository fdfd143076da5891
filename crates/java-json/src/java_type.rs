//! Java types as parameters are declared with: JVM descriptors, `Class.getName`, and source names.
//!
//! A type says how a JSON value is to be written (see crates `hessian` and `jsonb`). The classes
//! that the mapping knows by name are told apart once, when the type is parsed.

mod common;
mod parse;

use std::fmt;

use crate::builtin::Builtin;

/// A Java type.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JavaType {
    /// `void`, only as a result.
    Void,
    /// `boolean`
    Boolean,
    /// `byte`
    Byte,
    /// `char`
    Char,
    /// `short`
    Short,
    /// `int`
    Int,
    /// `long`
    Long,
    /// `float`
    Float,
    /// `double`
    Double,
    /// A class or interface.
    Class(ClassType),
    /// An array of this type.
    Array(Box<JavaType>),
}

/// A class or interface, with its generic arguments where they were given.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassType {
    name: Box<str>,
    args: Vec<JavaType>,
    builtin: Option<Builtin>,
    /// The whole text of the type, where fields may depend on the arguments.
    key: Option<Box<str>>,
}

/// A type parameter that a class declares: `T extends com.acme.Item`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TypeParameter {
    /// Its name.
    pub name: Box<str>,
    /// What it extends; `java.lang.Object` if it does not say.
    pub bound: JavaType,
}

impl ClassType {
    /// The name as Java source has it, with `$` before nested classes: `java.util.Map$Entry`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The generic arguments: one for `java.util.List<com.acme.Order>`.
    #[must_use]
    pub fn args(&self) -> &[JavaType] {
        &self.args
    }

    /// What a [`Schema`](crate::Schema) knows its fields by: the name, or with generic arguments
    /// the text of the whole type: `com.acme.Page<com.acme.Order>`.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.name)
    }

    /// What the mapping knows of this class.
    #[doc(hidden)]
    #[must_use]
    pub fn builtin(&self) -> Option<Builtin> {
        self.builtin
    }
}

/// Why a text is not a Java type.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TypeError {
    /// The text ends inside a type.
    #[error("the type ends too early, at byte {offset}")]
    End {
        /// Bytes before the end.
        offset: usize,
    },
    /// A character that may not stand there.
    #[error("unexpected {found:?} at byte {offset} of the type")]
    Character {
        /// Bytes before the character.
        offset: usize,
        /// The character.
        found: char,
    },
    /// More array dimensions or nested generic arguments than the limit.
    #[error("the type at byte {offset} is nested deeper than {max} levels")]
    TooDeep {
        /// Bytes before the place.
        offset: usize,
        /// The limit.
        max: usize,
    },
    /// A name over the limit.
    #[error("the name at byte {offset} is longer than {max} bytes")]
    TooLong {
        /// Bytes before the name.
        offset: usize,
        /// The limit.
        max: usize,
    },
    /// The whole text is over the limit.
    #[error("the type has {len} bytes; the limit is {max}")]
    TypeTooLong {
        /// How many there are.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// What should be the name of a type parameter is none, or there twice.
    #[error("invalid or repeated name of a type parameter at byte {offset}")]
    Parameter {
        /// Bytes before it.
        offset: usize,
    },
    /// More parameters than a Java method can have.
    #[error("more than {max} types")]
    TooMany {
        /// The limit, which is the JVM's.
        max: usize,
    },
}

impl JavaType {
    /// The longest name of a class, in bytes. Classes are files, whose names end at 255 bytes on
    /// most systems.
    pub const MAX_NAME_LEN: usize = 1024;

    /// The longest text of one type, in bytes.
    pub const MAX_LEN: usize = 8192;

    /// The big number that a value of this type is, or holds as an element.
    #[doc(hidden)]
    #[must_use]
    pub fn held_number(&self) -> Option<Builtin> {
        match self {
            Self::Array(element) => element.held_number(),
            Self::Class(class) => match class.builtin()? {
                number @ (Builtin::BigDecimal | Builtin::BigInteger) => Some(number),
                Builtin::List | Builtin::Map | Builtin::Optional => {
                    class.args().last()?.held_number()
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A type from any spelling: `I`, `[J`, `Ljava/lang/String;`, `[Ljava.lang.String;`, `int`,
    /// `int[]`, `java.lang.String`, `java.util.List<com.acme.Order>`.
    ///
    /// One upper-case letter that is a primitive's descriptor is taken for that.
    ///
    /// # Errors
    /// [`TypeError`] where the text is none of these.
    pub fn parse(text: &str) -> Result<Self, TypeError> {
        parse::any(text)
    }

    /// A type from any spelling that has more than one letter: `B` is a class of that name, not
    /// `byte`.
    ///
    /// # Errors
    /// [`TypeError`] where the text is none of these.
    pub fn parse_named(text: &str) -> Result<Self, TypeError> {
        parse::named(text)
    }

    /// A class as it is declared, and its type parameters: `com.acme.Page<T extends
    /// com.acme.Item>`.
    ///
    /// # Errors
    /// [`TypeError`] where the text is none.
    pub fn parse_declaration(text: &str) -> Result<(String, Vec<TypeParameter>), TypeError> {
        parse::declaration(text)
    }

    /// The class of the JDK that a name without its package stands for in Java's source, or with
    /// an import that is usual: `java.lang.String` for `String`. Whether it is in capitals does
    /// not matter.
    #[must_use]
    pub fn full_name(simple: &str) -> Option<&'static str> {
        common::full_name(simple)
    }

    /// The first class in the type, its generic arguments among them, that `is_it` is content
    /// with.
    pub fn find_class(&self, is_it: &dyn Fn(&ClassType) -> bool) -> Option<&ClassType> {
        match self {
            Self::Array(element) => element.find_class(is_it),
            Self::Class(class) if is_it(class) => Some(class),
            Self::Class(class) => class.args.iter().find_map(|arg| arg.find_class(is_it)),
            _ => None,
        }
    }

    /// Whether it is `java.lang.Object`, which says nothing.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Class(class) if *class.name == *"java.lang.Object")
    }

    /// The types of a method's parameters, as Dubbo sends them: descriptors without separators,
    /// an empty text for none.
    ///
    /// # Errors
    /// [`TypeError`] where the text is no list of descriptors.
    pub fn parse_descriptors(text: &str) -> Result<Vec<Self>, TypeError> {
        parse::descriptors(text)
    }

    /// Whether the text is a class's name, as Java has it: parts between points, each of letters,
    /// digits, `_` and `$`, none of which starts with a digit.
    #[must_use]
    pub fn is_class_name(text: &str) -> bool {
        Self::misplaced(text).is_none()
    }

    /// Where a text stops being a class's name: the offset of the first character that may not
    /// stand there, or the length if a part is missing at the end.
    pub(crate) fn misplaced(text: &str) -> Option<usize> {
        let mut is_part_empty = true;
        for (offset, c) in text.char_indices() {
            let belongs = match is_part_empty {
                true => c.is_alphabetic() || matches!(c, '_' | '$'),
                false => c.is_alphanumeric() || matches!(c, '_' | '$') || c == '.',
            };
            if !belongs {
                return Some(offset);
            }
            is_part_empty = c == '.';
        }
        is_part_empty.then_some(text.len())
    }

    /// A class by its name, without generic arguments.
    #[must_use]
    pub fn class(name: &str) -> Self {
        Self::class_of(name, Vec::new())
    }

    /// A class by its name, with generic arguments.
    #[doc(hidden)]
    #[must_use]
    pub fn class_of(name: &str, args: Vec<Self>) -> Self {
        let builtin = Builtin::of_declared(name);
        let mut class = ClassType { name: name.into(), args, builtin, key: None };
        if builtin.is_none() && !class.args.is_empty() {
            class.key = Some(class.to_string().into());
        }
        Self::Class(class)
    }

    /// The JVM descriptor, without generic arguments: `[Ljava/lang/String;`.
    #[must_use]
    pub fn to_descriptor(&self) -> String {
        let mut text = String::new();
        self.write_descriptor(&mut text);
        text
    }

    /// Appends the JVM descriptor.
    pub fn write_descriptor(&self, out: &mut String) {
        match self {
            Self::Class(class) => {
                out.push('L');
                out.extend(class.name.chars().map(|c| if c == '.' { '/' } else { c }));
                out.push(';');
            }
            Self::Array(element) => {
                out.push('[');
                element.write_descriptor(out);
            }
            primitive => out.push(primitive.letter()),
        }
    }

    /// The name as Java source has it, without generic arguments: `java.lang.String[]`. This is
    /// what `$invoke` takes as a parameter's type.
    #[must_use]
    pub fn java_name(&self) -> String {
        match self {
            Self::Array(element) => element.java_name() + "[]",
            Self::Class(class) => class.name.to_string(),
            primitive => primitive.keyword().to_owned(),
        }
    }

    /// Whether it is a primitive type, which cannot be null.
    #[must_use]
    pub fn is_primitive(&self) -> bool {
        !matches!(self, Self::Class(_) | Self::Array(_))
    }

    /// The type of a list as hessian-lite writes it for arrays of this element: `[int`, `[string`.
    pub fn array_tag(element: &Self, out: &mut String) {
        out.push('[');
        match element {
            Self::Array(inner) => Self::array_tag(inner, out),
            Self::Class(class) => out.push_str(match class.name() {
                "java.lang.String" => "string",
                "java.lang.Object" => "object",
                "java.util.Date" => "date",
                name => name,
            }),
            primitive => out.push_str(primitive.keyword()),
        }
    }

    fn keyword(&self) -> &'static str {
        match self {
            Self::Void => "void",
            Self::Boolean => "boolean",
            Self::Byte => "byte",
            Self::Char => "char",
            Self::Short => "short",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Class(_) | Self::Array(_) => "",
        }
    }

    fn letter(&self) -> char {
        match self {
            Self::Void => 'V',
            Self::Boolean => 'Z',
            Self::Byte => 'B',
            Self::Char => 'C',
            Self::Short => 'S',
            Self::Int => 'I',
            Self::Long => 'J',
            Self::Float => 'F',
            Self::Double => 'D',
            Self::Class(_) => 'L',
            Self::Array(_) => '[',
        }
    }

    fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'V' => Self::Void,
            b'Z' => Self::Boolean,
            b'B' => Self::Byte,
            b'C' => Self::Char,
            b'S' => Self::Short,
            b'I' => Self::Int,
            b'J' => Self::Long,
            b'F' => Self::Float,
            b'D' => Self::Double,
            _ => return None,
        })
    }

    fn from_name(name: &str, args: Vec<Self>) -> Self {
        match name {
            "void" => Self::Void,
            "boolean" => Self::Boolean,
            "byte" => Self::Byte,
            "char" => Self::Char,
            "short" => Self::Short,
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            _ => Self::class_of(name, args),
        }
    }
}

/// The name as Java source has it, with generic arguments.
impl fmt::Display for JavaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(element) => write!(f, "{element}[]"),
            Self::Class(class) => write!(f, "{class}"),
            primitive => f.write_str(primitive.keyword()),
        }
    }
}

/// The same.
impl fmt::Display for ClassType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (index, arg) in self.args.iter().enumerate() {
            f.write_str(if index == 0 { "<" } else { ", " })?;
            write!(f, "{arg}")?;
        }
        f.write_str(if self.args.is_empty() { "" } else { ">" })
    }
}

#[cfg(test)]
mod tests;
