//! Descriptors into JSON. Each comes as JSON, too, which says how the object looks.

use std::borrow::Cow;

use hessian::Limits;
use hessian::json::{self, JsonError, JsonReader};

use super::{BeanKind, CLASS, OLD_CLASS};
use crate::error::{CallError, Code};

/// The longest JSON of a descriptor, each byte of which is looked at once for each level that it
/// is nested. Twice what a request may hold, for repeated descriptors make it grow.
const MAX_LEN: usize = 16 << 20;

/// The class of the descriptors among the arguments of a call, which is that of its caller's
/// Dubbo.
pub fn class_of(arguments: &[&[u8]]) -> &'static str {
    let first = arguments.iter().find_map(|argument| Descriptor::read(argument).ok()?);
    first.map_or(CLASS, |descriptor| descriptor.own_class)
}

/// The JSON that an argument stands for, which came as the JSON of its descriptor with the names
/// of classes. Objects get a member `class`.
///
/// # Errors
/// [`Code::BadArguments`] if it is not a descriptor, or one that means nothing.
pub fn plain(argument: &[u8]) -> Result<Vec<u8>, CallError> {
    if MAX_LEN < argument.len() {
        return Err(bad(format!("a JavaBeanDescriptor of over {MAX_LEN} bytes as JSON")));
    }
    let mut out = Vec::with_capacity(argument.len());
    match Descriptor::read(argument)? {
        Some(descriptor) => descriptor.write(&mut out)?,
        None if argument == b"null" => out.extend_from_slice(argument),
        None => return Err(bad("generic=bean takes only JavaBeanDescriptor and null")),
    }
    Ok(out)
}

fn bad(what: impl std::fmt::Display) -> CallError {
    CallError::new(Code::BadArguments, what.to_string())
}

fn broken(error: JsonError) -> CallError {
    bad(format!("a JavaBeanDescriptor: {error}"))
}

/// A descriptor as JSON, with its parts not yet read.
struct Descriptor<'a> {
    own_class: &'static str,
    class: Cow<'a, str>,
    kind: BeanKind,
    properties: Members<'a>,
}

impl<'a> Descriptor<'a> {
    /// Nothing if the value is something else.
    fn read(text: &'a [u8]) -> Result<Option<Self>, CallError> {
        let members = members(text).map_err(broken)?;
        let member = |wanted| members.iter().find(|(name, _)| name == wanted).map(|(_, it)| *it);
        let string = |name| member(name).and_then(string_of);
        let own_class = string("class");
        let own_class = [CLASS, OLD_CLASS].into_iter().find(|it| own_class.as_deref() == Some(it));
        let Some(own_class) = own_class else { return Ok(None) };
        let class = string("className").filter(|class| !class.trim().is_empty());
        let class = class.ok_or_else(|| bad("a JavaBeanDescriptor has no className"))?;
        let ty = member("type").unwrap_or(b"0");
        let kind =
            BeanKind::ALL.into_iter().find(|kind| (*kind as u8).to_string().as_bytes() == ty);
        let kind = kind.ok_or_else(|| {
            let ty = String::from_utf8_lossy(ty);
            bad(format!("the JavaBeanDescriptor of {class} is of type {ty}, expected 1 to 7"))
        })?;
        let properties = member("properties").filter(|it| it.first() == Some(&b'{'));
        let properties = properties
            .ok_or_else(|| bad(format!("the JavaBeanDescriptor of {class} has no properties")))?;
        let mut properties = self::members(properties).map_err(broken)?;
        // The class of the map itself. Properties are descriptors, and no texts.
        if kind != BeanKind::Primitive {
            properties.retain(|(name, it)| name != "class" || it.first() != Some(&b'"'));
        }
        Ok(Some(Self { own_class, class, kind, properties }))
    }

    /// The depth is bounded by the reader.
    fn write(&self, out: &mut Vec<u8>) -> Result<(), CallError> {
        match self.kind {
            BeanKind::Class | BeanKind::Enum => {
                let name = self.property("name")?;
                let name = string_of(name).ok_or_else(|| {
                    bad(format!(
                        "the name in the JavaBeanDescriptor of {} is not a string",
                        self.class
                    ))
                })?;
                json::write_string(out, &name);
            }
            BeanKind::Primitive => out.extend_from_slice(self.property("value")?),
            BeanKind::Collection | BeanKind::Array => {
                out.push(b'[');
                for (index, text) in self.elements()?.into_iter().enumerate() {
                    if index != 0 {
                        out.push(b',');
                    }
                    write_inner(text, out)?;
                }
                out.push(b']');
            }
            BeanKind::Map => self.write_members(None, out)?,
            BeanKind::Bean => self.write_members(Some(&self.class), out)?,
        }
        Ok(())
    }

    fn property(&self, wanted: &str) -> Result<&'a [u8], CallError> {
        let found = self.properties.iter().find(|(name, _)| name == wanted);
        found.map(|(_, text)| *text).ok_or_else(|| {
            bad(format!("the JavaBeanDescriptor of {} has no property {wanted}", self.class))
        })
    }

    /// The elements in the order of their places, each of which has to be there once.
    fn elements(&self) -> Result<Vec<&'a [u8]>, CallError> {
        let mut elements = vec![None; self.properties.len()];
        for (place, text) in &self.properties {
            let index = place.parse().ok().filter(|index: &usize| index.to_string() == **place);
            match index.and_then(|index| elements.get_mut(index)) {
                Some(element @ None) => *element = Some(*text),
                _ => {
                    let (class, n) = (&self.class, self.properties.len());
                    let what =
                        format!("index {place:?} is invalid or repeated; it has {n} elements");
                    return Err(bad(format!("the JavaBeanDescriptor of {class}: {what}")));
                }
            }
        }
        Ok(elements.into_iter().flatten().collect())
    }

    fn write_members(&self, class: Option<&str>, out: &mut Vec<u8>) -> Result<(), CallError> {
        out.push(b'{');
        if let Some(class) = class {
            out.extend_from_slice(b"\"class\":");
            json::write_string(out, class);
        }
        for (index, (name, text)) in self.properties.iter().enumerate() {
            if index != 0 || class.is_some() {
                out.push(b',');
            }
            match class {
                Some(_) => json::write_string(out, name),
                None => json::write_string(out, &key(name)?),
            }
            out.push(b':');
            write_inner(text, out)?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// A value inside of a descriptor; what is none itself is taken as it is, as Java does.
fn write_inner(text: &[u8], out: &mut Vec<u8>) -> Result<(), CallError> {
    match Descriptor::read(text)? {
        Some(descriptor) => descriptor.write(out)?,
        None => out.extend_from_slice(text),
    }
    Ok(())
}

/// A map's key, which is the JSON text of its descriptor.
fn key(name: &str) -> Result<Cow<'_, str>, CallError> {
    let Ok(Some(descriptor)) = Descriptor::read(name.as_bytes()) else {
        return Ok(Cow::Borrowed(name));
    };
    let mut text = Vec::new();
    descriptor.write(&mut text)?;
    let key = string_of(&text).map(Cow::into_owned);
    Ok(Cow::Owned(key.unwrap_or_else(|| String::from_utf8_lossy(&text).into_owned())))
}

pub(super) fn string_of(text: &[u8]) -> Option<Cow<'_, str>> {
    JsonReader::new(text, Limits::of_whole()).read_string().ok()
}

/// The names of an object's members, with the texts of their values.
type Members<'a> = Vec<(Cow<'a, str>, &'a [u8])>;

/// The members of an object; none of anything else.
pub(super) fn members(text: &[u8]) -> Result<Members<'_>, JsonError> {
    let mut members = Vec::new();
    if text.first() != Some(&b'{') {
        return Ok(members);
    }
    let mut reader = JsonReader::new(text, Limits::of_whole());
    let mut object = reader.begin_object()?;
    while let Some(name) = reader.next_key(&mut object)? {
        members.push((name, reader.skip_value()?));
    }
    reader.finish()?;
    Ok(members)
}
