//! JSON to Hessian.
//!
//! Invariants:
//! - One pass over the text, but for objects that become Hessian objects: their names have to be
//!   written before their values, so that they are looked through once before. The ends of the
//!   objects inside are remembered then, so that nothing is looked through at every level again.
//!   An object of a class that was met before is taken to have the same names; only if it has
//!   others is it looked through. That happens a bounded number of times.
//! - What is written when an error comes stays in the buffer; the caller drops it.

mod containers;
mod leaf;
mod object;
mod references;
mod run;
mod single_pass;

use std::borrow::Cow;
use std::rc::Rc;

use self::run::Rule;
use super::{InputOptions, Schema, TranscodeError, number};
use crate::{Encoder, JavaType};
use java_json::ClassType;
use java_json::builtin::{BIT_SET_HANDLE, Builtin};
use java_json::declared::DeclaredForm;
use java_json::expected;
use java_json::json::{JsonKind, JsonReader, MemberName};
use java_json::number::InGenericCall;
use java_json::passed::Passed;
use java_json::references::ReferencePaths;
use java_json::scalars::{self, Misfit};
use java_json::unknown::{ENUM_MAP, is_optional_class, optional_number};

/// Writes the JSON value that `json` is at, as a value of the Java type `ty`; without a type, as
/// what the JSON value looks like. The table is in docs/json-mapping.md.
///
/// # Errors
/// [`TranscodeError`] if the text is no JSON, or a value does not fit its type.
pub fn json_to_hessian(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
) -> Result<(), TranscodeError> {
    json_to_hessian_with(json, ty, enc, &())
}

/// Like [`json_to_hessian`], where the types of fields are known too.
///
/// # Errors
/// [`TranscodeError`] if the text is no JSON, or a value does not fit its type.
pub fn json_to_hessian_with(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
    schema: &dyn Schema,
) -> Result<(), TranscodeError> {
    json_to_hessian_by(json, ty, enc, &InputOptions { schema, ..Default::default() })
}

/// Like [`json_to_hessian`], with all choices.
///
/// # Errors
/// [`TranscodeError`] if the text is no JSON, or a value does not fit its type.
pub fn json_to_hessian_by(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
    opts: &InputOptions<'_>,
) -> Result<(), TranscodeError> {
    write(json, ty, enc, opts, true)
}

/// The same by the general way alone, which the others have to agree with.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn json_to_hessian_plainly(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
) -> Result<(), TranscodeError> {
    write(json, ty, enc, &InputOptions::default(), false)
}

fn write(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
    opts: &InputOptions<'_>,
    has_runs: bool,
) -> Result<(), TranscodeError> {
    let has_decimals = (opts.as_maps || opts.keeps_zeros)
        && match json.peek()? {
            // All that follows is looked through, but not for each of many short values.
            JsonKind::Array | JsonKind::Object => {
                let rest = json.text().get(json.position()..).unwrap_or_default();
                InGenericCall::may_have_decimal(rest)
            }
            kind => kind == JsonKind::Number,
        };
    let mut writer = JsonToHessian {
        has_decimals,
        json,
        enc,
        // By runs a decimal would become a double.
        has_runs: has_runs && !has_decimals,
        schema: opts.schema,
        as_maps: opts.as_maps,
        keeps_zeros: opts.keeps_zeros,
        members: Vec::new(),
        passed: Passed::default(),
        has_class: None,
        known: Vec::new(),
        n_misses: 0,
        places: opts.refs.then(ReferencePaths::default),
    };
    writer.value(ty)
}

/// A member of an object that was looked through.
struct ScannedMember<'a> {
    name: Cow<'a, str>,
    /// Where its value begins.
    at: usize,
}

impl AsRef<str> for ScannedMember<'_> {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

/// The members that objects of a class have, and the number of the class definition that says so.
struct ClassMembers<'s> {
    key: Box<str>,
    /// How each name stands in JSON without white space: `,"name":`, but the first has no comma.
    leads: Vec<Box<[u8]>>,
    /// The same for names that are short, and what simple values are.
    simple: Rc<[(MemberName, Rule)]>,
    /// The type of each member, where it is known.
    types: Vec<Option<&'s JavaType>>,
    number: u32,
}

/// What an `EnumMap` would have to be.
const NO_ENUM_MAP: &str = "a java.util.EnumMap: by hessian2, and in generic calls, Java makes a \
                           HashMap of it; send null, or have the service declare a java.util.Map";

struct JsonToHessian<'r, 'a, 'e, 'o, 's> {
    json: &'r mut JsonReader<'a>,
    enc: &'e mut Encoder<'o>,
    schema: &'s dyn Schema,
    /// Whether objects of classes are written as maps here. Inside of an object they never are.
    as_maps: bool,
    /// Whether a decimal of unknown type keeps the zeros at its end.
    keeps_zeros: bool,
    /// The members of the objects that are being written, the innermost last.
    members: Vec<ScannedMember<'a>>,
    passed: Passed,
    /// Whether the rest of the text has a member named `class` at all, once somebody asked.
    has_class: Option<bool>,
    /// What objects of declared classes had for members.
    known: Vec<ClassMembers<'s>>,
    /// Whether there may be decimals that are no doubles for the zeros at their end.
    has_decimals: bool,
    /// Whether simple values may go by runs, and objects be written while they are read.
    has_runs: bool,
    /// How often an object had others.
    n_misses: u32,
    /// Where everything stands, if references may name it.
    places: Option<ReferencePaths<'a>>,
}

impl<'a> JsonToHessian<'_, 'a, '_, '_, '_> {
    #[inline]
    fn value(&mut self, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        // Most values are texts and numbers, most of them simple, and of unknown type.
        if self.has_runs && ty.is_none() && self.simple() { Ok(()) } else { self.any_value(ty) }
    }

    fn any_value(&mut self, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        if self.places.is_some() && self.is_ref()? {
            return self.reference();
        }
        match ty {
            None => self.untyped(),
            Some(ty) if self.simple_of(ty) => Ok(()),
            Some(JavaType::Class(class)) => self.class_value(class),
            Some(JavaType::Array(element)) => self.array(element),
            Some(primitive) => {
                let Some(builtin) = scalars::of_primitive(primitive) else {
                    return Err(self.wrong_kind("void"));
                };
                if self.json.peek()? == JsonKind::Null {
                    return Err(self.wrong_kind(&primitive.java_name()));
                }
                self.scalar(builtin, "")
            }
        }
    }

    /// Whatever the JSON value looks like.
    fn untyped(&mut self) -> Result<(), TranscodeError> {
        match self.json.peek()? {
            JsonKind::Null => self.null(),
            JsonKind::Bool => {
                self.enc.bool(self.json.read_bool()?);
                Ok(())
            }
            JsonKind::Number => {
                let short = if self.has_decimals { None } else { self.json.read_short_number() };
                match short {
                    Some(number) => {
                        self.number(number);
                        Ok(())
                    }
                    None => self.untyped_number(),
                }
            }
            JsonKind::String => self.text(),
            JsonKind::Array => self.elements(None, None),
            JsonKind::Object if self.may_have_class() => self.object(None),
            JsonKind::Object => self.members(None, None, None),
        }
    }

    fn untyped_number(&mut self) -> Result<(), TranscodeError> {
        let offset = self.json.position();
        let text = self.json.read_number()?;
        match InGenericCall::of(text) {
            InGenericCall::Decimal if self.as_maps || self.keeps_zeros => {
                number::write_big_decimal(self.enc, text);
            }
            InGenericCall::Nothing if self.as_maps => {
                return Err(self.wrong_value(offset, java_json::number::GENERIC_NUMBER));
            }
            _ if number::write_untyped(self.enc, text).is_some() => {}
            _ => {
                let expected = expected::scalar(Builtin::BigDecimal);
                return Err(self.wrong_value(offset, expected));
            }
        }
        Ok(())
    }

    fn class_value(&mut self, class: &ClassType) -> Result<(), TranscodeError> {
        let kind = self.json.peek()?;
        let name = class.name();
        match DeclaredForm::of(class.builtin(), kind, || self.names_map())? {
            DeclaredForm::Untyped => self.untyped(),
            DeclaredForm::Null => self.null(),
            DeclaredForm::Optional => self.optional(class.args().first()),
            DeclaredForm::Elements => self.elements(Builtin::list_type(name), class.args().first()),
            DeclaredForm::EnumSet => self.enum_set(class),
            DeclaredForm::BitSet if self.next_class()?.is_some() => self.named_object(class),
            DeclaredForm::BitSet => self.bit_set(),
            DeclaredForm::NamedMap | DeclaredForm::Entries if self.as_maps && name == ENUM_MAP => {
                Err(self.wrong_kind(NO_ENUM_MAP))
            }
            DeclaredForm::NamedMap => self.object_by_look(None, class.args()),
            DeclaredForm::Entries => {
                let (key, value) = (class.args().first(), class.args().get(1));
                self.members(Builtin::map_type(name), key, value)
            }
            DeclaredForm::NamedObject => self.named_object(class),
            DeclaredForm::Scalar(builtin) => self.scalar(builtin, name),
            DeclaredForm::Object => self.object(Some(class)),
            DeclaredForm::EnumName | DeclaredForm::Wrong
                if matches!(kind, JsonKind::Number | JsonKind::String)
                    && is_optional_class(name) =>
            {
                self.optional_number(name)
            }
            DeclaredForm::EnumName => self.enum_name(name),
            DeclaredForm::Wrong => Err(self.wrong_kind(name)),
        }
    }

    /// hessian-lite reads no object of a class that is not serializable, unless told to; and Dubbo
    /// makes none of a map that names it.
    fn optional(&mut self, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        if self.json.peek()? == JsonKind::Null {
            return self.null();
        }
        let class = "java.util.Optional";
        if self.is_map(class) {
            self.enc.map_begin(None);
            self.enc.string("value");
            self.value(ty)?;
            self.enc.map_end();
            return Ok(());
        }
        self.enc.object_begin(class, &["value"]);
        self.as_object(|writer| writer.value(ty))
    }

    /// A number where an optional one is declared.
    fn optional_number(&mut self, class: &str) -> Result<(), TranscodeError> {
        let Some(held) = optional_number(class) else { return Err(self.wrong_kind(class)) };
        if self.is_map(class) {
            self.enc.map_begin(None);
            self.enc.string("isPresent");
            self.enc.bool(true);
            self.enc.string("value");
            self.scalar(held, "")?;
            self.enc.map_end();
            return Ok(());
        }
        self.enc.object_begin(class, &["isPresent", "value"]);
        self.enc.bool(true);
        self.scalar(held, "")
    }

    /// hessian-lite's stand-in for an `EnumSet`; its class has to be known from the generic
    /// argument.
    fn enum_set(&mut self, class: &ClassType) -> Result<(), TranscodeError> {
        let Some(element @ JavaType::Class(of)) = class.args().first() else {
            return Err(self.wrong_kind("java.util.EnumSet without its enum"));
        };
        if self.as_maps {
            self.check_listed(of.name())?;
        }
        let class = "com.alibaba.com.caucho.hessian.io.EnumSetHandler";
        self.enc.object_begin(class, &["type", "objects"]);
        self.enc.object_begin("java.lang.Class", &["name"]);
        self.enc.string(of.name());
        self.as_object(|writer| writer.elements(Some("[object"), Some(element)))
    }

    /// Checks that all texts in the array that comes next are listed as values of the enum, if
    /// these are known. In a generic call others go as maps, of which the provider knows whether
    /// they are constants; but no `EnumSet` can be made of maps.
    fn check_listed(&self, class: &str) -> Result<(), TranscodeError> {
        let Some(names) = self.schema.enum_names(class) else { return Ok(()) };
        let mut json = self.json.scan();
        let mut array = json.begin_array()?;
        while json.next_element(&mut array)? {
            let is_text = json.peek()? == JsonKind::String;
            let offset = json.position();
            if !is_text {
                json.skip_value()?;
                continue;
            }
            let text = json.read_string()?;
            if !names.iter().any(|name| **name == *text) {
                return Err(self.wrong_value(offset, &expected::enum_values(self.schema, class)));
            }
        }
        Ok(())
    }

    /// hessian-lite's stand-in for a `BitSet`. Of an object of that class it makes an empty one.
    fn bit_set(&mut self) -> Result<(), TranscodeError> {
        let words = scalars::bit_set(self.json)?;
        self.enc.object_begin(BIT_SET_HANDLE, &["words"]);
        self.enc.list_begin(Some("[long"), words.len());
        words.into_iter().for_each(|word| self.enc.long(word));
        Ok(())
    }

    /// Writes what is inside of an object, where the provider's generic call does not look for
    /// maps.
    fn as_object(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), TranscodeError>,
    ) -> Result<(), TranscodeError> {
        let outside = std::mem::replace(&mut self.as_maps, false);
        let written = write(self);
        self.as_maps = outside;
        written
    }

    /// A text where a class is declared that we know nothing of but its name.
    fn enum_name(&mut self, class: &str) -> Result<(), TranscodeError> {
        if self.is_map(class) {
            self.enc.map_begin(None);
            self.class_entry(class);
            self.enc.string("name");
            self.text()?;
            self.enc.map_end();
            return Ok(());
        }
        self.check_enum(class)?;
        self.enc.object_begin(class, &["name"]);
        self.text()
    }

    /// Checks that the string that comes next is a value of the enum, where these are known: what
    /// is none, Java takes for null. Of a class that is no enum it would set the field `name`.
    fn check_enum(&self, class: &str) -> Result<(), TranscodeError> {
        if self.schema.enum_names(class).is_none() && self.schema.takes_text(class) {
            return Ok(());
        }
        let mut json = self.json.scan();
        json.peek()?;
        let offset = json.position();
        match expected::enum_without(self.schema, class, &json.read_string()?) {
            Some(expected) => Err(self.wrong_value(offset, &expected)),
            None => Ok(()),
        }
    }

    #[cold]
    fn wrong_kind(&self, expected: &str) -> TranscodeError {
        Misfit::kind(self.json, expected).into()
    }

    /// The object that comes next says that it is of a class that the declared one does not take.
    #[cold]
    fn wrong_class(&self, expected: &str) -> TranscodeError {
        let (offset, found) = (self.json.position(), "an object of another class");
        TranscodeError::Kind { offset, found, expected: expected.into() }
    }

    /// The number or string at `offset` is not what it should be.
    #[cold]
    fn wrong_value(&self, offset: usize, expected: &str) -> TranscodeError {
        Misfit::value(self.json, offset, expected).into()
    }
}
