//! `[[export.class]]`, and the Java types in `types`, `returns` and `fields`.
//!
//! Invariant: what was read without a problem is understood to its last type argument.

use std::collections::BTreeMap;

use dubbo_proto::validate_interface;
use hessian::generics;
use hessian::{ClassType, JavaType, TypeParameter};

use super::method::Classes;
use crate::config::section::{Section, advise_package};

const TYPE_REMEDY: &str =
    "write a Java type such as \"long\", \"java.lang.String\" or \"java.util.List<com.acme.User>\"";
const CLASS_REMEDY: &str = "write a Java class such as \"com.acme.User\" or \"com.acme.Page<T>\"";

/// A class, before its fields are read.
struct Declared<'d> {
    section: Section<'d>,
    name: String,
    parameters: Vec<TypeParameter>,
}

/// What is wrong with a type, and what to do.
struct Wrong {
    problem: String,
    remedy: String,
}

/// Reads all classes. Fields may be of classes that come later.
pub(super) fn read(section: &mut Section<'_>) -> Classes {
    let mut classes = Classes::default();
    let mut declared: Vec<Declared<'_>> = Vec::new();
    for section in section.tables_as("class", "export.class") {
        let class = declaration(section, &classes);
        classes.add(&class.name, class.parameters.clone(), BTreeMap::new());
        declared.push(class);
    }
    let known = classes.clone();
    for Declared { mut section, name, parameters } in declared {
        let mut fields = BTreeMap::new();
        for (place, field, text) in section.pairs("fields") {
            match field_type(text, &parameters, &known) {
                Ok(ty) => {
                    fields.insert(field.into(), ty);
                }
                Err(Wrong { problem, remedy }) => section.wrong_at(&place, problem, remedy),
            }
        }
        section.finish();
        classes.add(&name, parameters, fields);
    }
    if let Err(error) = classes.take_in_fields() {
        section.wrong("class", error.to_string(), "describe fewer classes with type arguments");
    }
    classes
}

fn declaration<'d>(mut section: Section<'d>, classes: &Classes) -> Declared<'d> {
    let text = section.required_text("name", CLASS_REMEDY).unwrap_or_default();
    let (name, parameters) = match JavaType::parse_declaration(text) {
        Ok((name, parameters)) if validate_interface(&name).is_ok() => (name, parameters),
        parsed => {
            if section.has("name") {
                let why = parsed.err().map_or(String::new(), |error| format!(": {error}"));
                let problem = format!("\"{text}\" is not the name of a class{why}");
                section.wrong("name", problem, CLASS_REMEDY);
            }
            (String::new(), Vec::new())
        }
    };
    if classes.knows(&name) && !name.is_empty() {
        section.wrong("name", format!("{name} is described already"), "remove one");
    }
    if !section.has("fields") {
        let remedy = "write fields = { born = \"java.util.Date\" }";
        section.wrong("fields", "is missing", remedy);
    }
    Declared { section, name, parameters }
}

fn field_type(
    text: &str,
    parameters: &[TypeParameter],
    known: &Classes,
) -> Result<JavaType, Wrong> {
    let ty = parse(text, parameters, known)?;
    let checked = generics::check(&ty, &|class| known.generic(class));
    checked.map_err(|error| wrong_arguments(text, &error.to_string())).map(|()| ty)
}

/// Reads the type of a parameter or result, and what its type arguments mean.
pub(super) fn java_type(
    section: &Section<'_>,
    key: &str,
    text: &str,
    classes: &mut Classes,
) -> Option<JavaType> {
    // Only a result may be nothing.
    let read = match (JavaType::parse_named(text), key) {
        (Ok(JavaType::Void), "returns") => Ok(JavaType::Void),
        _ => parse(text, &[], classes),
    };
    let understood = read.and_then(|ty| {
        let taken = classes.take_in(&ty);
        taken.map_err(|error| wrong_arguments(text, &error.to_string())).map(|()| ty)
    });
    match understood {
        Ok(ty) => Some(ty),
        Err(Wrong { problem, remedy }) => {
            section.wrong(key, problem, remedy);
            None
        }
    }
}

fn wrong_arguments(text: &str, why: &str) -> Wrong {
    let remedy = "declare the class's type parameters: [[export.class]] name = \
        \"com.acme.Page<T>\", with \
                  fields = { items = \"java.util.List<T>\" }";
    Wrong { problem: format!("\"{text}\": {why}"), remedy: remedy.to_owned() }
}

/// A type whose classes all have their full names; `parameters` may be in it as well.
fn parse(text: &str, parameters: &[TypeParameter], classes: &Classes) -> Result<JavaType, Wrong> {
    let ty = match JavaType::parse_named(text) {
        Ok(JavaType::Void) => Err("a parameter or field cannot be void".to_owned()),
        Ok(ty) => Ok(ty),
        Err(error) => Err(format!("\"{text}\" is not a type: {error}")),
    };
    let ty = ty.map_err(|problem| Wrong { problem, remedy: TYPE_REMEDY.to_owned() })?;
    let is_parameter = |name: &str| parameters.iter().any(|it| *it.name == *name);
    let is_simple = |class: &ClassType| {
        let name = class.name();
        !name.contains('.') && !is_parameter(name) && !classes.knows(name)
    };
    if let Some(class) = ty.find_class(&is_simple) {
        let name = class.name();
        let ends_so = |full: &&str| full.rsplit(['.', '$']).next() == Some(name);
        let remedy = match classes.names().find(ends_so) {
            Some(full) => format!("did you mean {full}?"),
            None => advise_package(name),
        };
        let problem = match parameters {
            [] => format!("\"{text}\": {name} has no package"),
            _ => {
                format!(
                    "\"{text}\": {name} has no package, and is not a type parameter of this class"
                )
            }
        };
        return Err(Wrong { problem, remedy });
    }
    let is_raw =
        |class: &ClassType| class.args().is_empty() && classes.generic(class.name()).is_some();
    if let Some(class) = ty.find_class(&is_raw) {
        let name = class.name();
        let problem = format!("\"{text}\": {name} needs types for its type parameters");
        let remedy = format!("write {name}<com.acme.User>, or {name}<?> for any");
        return Err(Wrong { problem, remedy });
    }
    Ok(ty)
}
