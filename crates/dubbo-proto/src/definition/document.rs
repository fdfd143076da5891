//! The JSON documents.

use std::collections::{BTreeMap, BTreeSet};

use hessian::generics::GenericClass;
use hessian::{JavaType, TypeParameter};
use serde_json::Value;

use super::{
    ClassDefinition, MAX_DOCUMENT_LEN, MAX_METHODS, MAX_VALUES, MethodDefinition,
    ServiceDefinition, Variant,
};
use crate::ProtoError;
use crate::descriptor::MAX_PARAMETERS;

/// References that name references: fastjson never writes them, so that few are enough.
const MAX_HOPS: usize = 4;

pub(super) fn parse(text: &[u8]) -> Result<ServiceDefinition, ProtoError> {
    bound("bytes of a service definition", text.len(), MAX_DOCUMENT_LEN)?;
    // Every value but the first comes after one of these.
    let n_values = text.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
    bound("values in a service definition", n_values, MAX_VALUES)?;
    let root: Value = serde_json::from_slice(text).map_err(|error| ProtoError::Definition {
        line: error.line(),
        column: error.column(),
        rule: "valid JSON of at most 128 levels",
    })?;
    if !root.is_object() {
        return Err(ProtoError::Definition { line: 1, column: 1, rule: "a JSON object" });
    }
    let mut document = Document { root: &root, exact: BTreeSet::new() };
    document.note_exact_names();
    document.service()
}

fn bound(what: &'static str, count: usize, max: usize) -> Result<(), ProtoError> {
    if max < count {
        return Err(ProtoError::TooMany { what, count, max });
    }
    Ok(())
}

/// What becomes of type variables.
#[derive(Clone, Copy)]
enum Variables {
    /// They are classes of their name.
    Keep,
    /// Each may be anything.
    Drop,
}

/// The only type parameter of a class, as far as its fields tell. Dubbo's own documents do not
/// name the parameters of a class, and tell a field of type `T` as `java.lang.Object`, but a
/// `List<T>` as it is; and a field of the class itself without its arguments, which are the same
/// as those of the class wherever Java's programmers do what is usual.
fn only_parameter(
    class: &str,
    fields: &mut BTreeMap<Box<str>, JavaType>,
    known: &BTreeSet<&str>,
) -> Option<TypeParameter> {
    const OBJECT: &str = "java.lang.Object";
    let mut names = BTreeSet::new();
    fields.values().for_each(|ty| note_variables(ty, known, &mut names));
    let is_open =
        |ty: &&mut JavaType| matches!(ty, JavaType::Class(class) if class.name() == OBJECT);
    let mut open = fields.values_mut().filter(is_open);
    let only_open = open.next().filter(|_| open.next().is_none());
    let name: Box<str> = match (names.len(), &only_open) {
        (1, _) => names.into_iter().next()?,
        (0, Some(_)) => "T".into(),
        _ => return None,
    };
    // The only field that may be anything is one of type `T`; of several nobody can say which are.
    if let Some(field) = only_open {
        *field = JavaType::class(&name);
    }
    let itself = JavaType::class_of(class, vec![JavaType::class(&name)]);
    for ty in fields.values_mut() {
        let mut inner = ty;
        while let JavaType::Array(element) = inner {
            inner = element;
        }
        if *inner == JavaType::class(class) {
            inner.clone_from(&itself);
        }
    }
    Some(TypeParameter { name, bound: JavaType::class(OBJECT) })
}

fn note_variables(ty: &JavaType, known: &BTreeSet<&str>, names: &mut BTreeSet<Box<str>>) {
    match ty {
        JavaType::Array(element) => note_variables(element, known, names),
        JavaType::Class(class) => {
            if !class.name().contains('.') && !known.contains(class.name()) {
                names.insert(class.name().into());
            }
            class.args().iter().for_each(|arg| note_variables(arg, known, names));
        }
        _ => {}
    }
}

/// Works out what type arguments mean for fields, wherever there are some. A document with more of
/// them than there is room for tells less.
fn add_instances(service: &mut ServiceDefinition) {
    let ServiceDefinition { methods, classes, generics, instances, .. } = service;
    let of_methods = methods.iter().flat_map(|it| it.parameters.iter().chain(&it.result));
    let of_fields = classes.values().flat_map(|class| match class {
        ClassDefinition::Bean(fields) => Some(fields.values()),
        ClassDefinition::Enum(_) => None,
    });
    for ty in of_methods.chain(of_fields.flatten()) {
        if instances.add(ty, &|name| generics.get(name)).is_err() {
            break;
        }
    }
}

struct Document<'a> {
    root: &'a Value,
    /// Names that are certainly as the JVM has them.
    exact: BTreeSet<&'a str>,
}

impl<'a> Document<'a> {
    /// Dubbo 2.7 names classes with fields as the JVM does; everything else has points throughout.
    fn note_exact_names(&mut self) {
        let is_exact = |ty: &&Value| {
            let has_fields = !properties(ty).is_none_or(serde_json::Map::is_empty);
            // Without a package it is the whole name, whoever wrote it.
            let is_simple = !ty.get("type").and_then(Value::as_str).unwrap_or("").contains('.');
            let is_enum = ["enums", "enum"].iter().any(|key| !list(ty.get(key)).is_empty());
            has_fields && ty.get("typeBuilderName").is_some()
                || is_simple && (has_fields || is_enum)
        };
        let exact = self.all_types().into_iter().filter(is_exact);
        self.exact = exact.filter_map(|ty| ty.get("type")?.as_str()).collect();
    }

    fn service(&self) -> Result<ServiceDefinition, ProtoError> {
        let text = |value: Option<&Value>| {
            value.and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
        };
        let variant = self.root.get("parameters").filter(|value| value.is_object()).map(|map| {
            let version = text(map.get("version"));
            let is_none = version == crate::service::NO_VERSION;
            Variant {
                version: if is_none { String::new() } else { version },
                group: text(map.get("group")),
            }
        });
        let mut service = ServiceDefinition {
            interface: text(self.root.get("canonicalName")),
            variant,
            methods: self.methods()?,
            ..ServiceDefinition::default()
        };
        self.add_classes(&mut service);
        add_instances(&mut service);
        Ok(service)
    }

    fn methods(&self) -> Result<Vec<MethodDefinition>, ProtoError> {
        let listed = list(self.root.get("methods"));
        bound("methods", listed.len(), MAX_METHODS)?;
        let mut methods = Vec::with_capacity(listed.len());
        for method in listed {
            let types = list(method.get("parameterTypes"));
            bound("parameters", types.len(), MAX_PARAMETERS)?;
            let Some(name) = method.get("name").and_then(Value::as_str) else { continue };
            if crate::validate_method(name).is_err() {
                continue;
            }
            // Without one of its parameters nobody could call it.
            let Some(parameters) = types
                .iter()
                .map(|ty| self.java_type(ty, Variables::Drop).and_then(super::parameter))
                .collect()
            else {
                continue;
            };
            let result =
                method.get("returnType").and_then(|ty| self.java_type(ty, Variables::Drop));
            methods.push(MethodDefinition { name: name.into(), parameters, result });
        }
        Ok(methods)
    }

    fn add_classes(&self, service: &mut ServiceDefinition) {
        for ty in self.all_types() {
            let Some(text) = ty.get("type").and_then(Value::as_str) else { continue };
            if text.contains(['[', '?']) {
                continue;
            }
            let values = ["enums", "enum"].map(|key| list(ty.get(key))).concat();
            if !values.is_empty() {
                let values = values.iter().filter_map(Value::as_str).map(Box::from).collect();
                let name = self.jvm_name(text).into();
                service.classes.insert(name, ClassDefinition::Enum(values));
                continue;
            }
            let Some(properties) = properties(ty).filter(|map| !map.is_empty()) else { continue };
            let read = |variables| {
                let fields = properties.iter().filter_map(|(field, ty)| {
                    Some((field.as_str().into(), self.java_type(ty, variables)?))
                });
                fields.collect::<BTreeMap<Box<str>, JavaType>>()
            };
            // `a.Page<a.Order>` tells of this type alone, `a.Page<T>` of the class, and so does
            // `a.Page`.
            let of_all = JavaType::parse_declaration(&self.jvm_type(text, Variables::Keep));
            let Ok((name, parameters)) = of_all else {
                if let Some(JavaType::Class(class)) = self.type_of(text, Variables::Drop) {
                    service.instances.put(&class, read(Variables::Drop));
                }
                continue;
            };
            let mut fields = read(Variables::Keep);
            let parameters = match parameters.as_slice() {
                [] => only_parameter(&name, &mut fields, &self.exact).into_iter().collect(),
                _ => parameters,
            };
            let name: Box<str> = name.into();
            if !parameters.is_empty() {
                service.generics.insert(name.clone(), GenericClass::new(parameters, fields));
            }
            let fields = read(Variables::Drop);
            service.classes.insert(name, ClassDefinition::Bean(fields));
        }
    }

    /// Every type definition, also those inside of others. Each value of the document is seen
    /// once, as no reference is followed.
    fn all_types(&self) -> Vec<&'a Value> {
        let mut found = Vec::new();
        let mut todo: Vec<&Value> = list(self.root.get("types")).iter().collect();
        let of_methods = list(self.root.get("methods")).iter();
        todo.extend(of_methods.flat_map(|method| list(method.get("parameters"))));
        while let Some(ty) = todo.pop() {
            if !ty.is_object() {
                continue;
            }
            found.push(ty);
            todo.extend(properties(ty).into_iter().flat_map(|map| map.values()));
            todo.extend(list(ty.get("items")));
        }
        // What stands deeper may be cut short by references: the outermost counts, so it comes
        // last.
        found.reverse();
        found
    }

    /// A type that is given by its name, by a definition or by a reference.
    fn java_type(&self, value: &Value, variables: Variables) -> Option<JavaType> {
        let mut value = value;
        for _ in 0..MAX_HOPS {
            if let Some(name) = value.as_str().or_else(|| value.get("type")?.as_str()) {
                return self.type_of(name, variables);
            }
            let reference = value.get("$ref")?.as_str()?;
            if !reference.starts_with('$') {
                return self.type_of(reference, variables);
            }
            value = self.at_path(reference)?;
        }
        None
    }

    /// fastjson's `$.types[3].properties.name`.
    fn at_path(&self, path: &str) -> Option<&'a Value> {
        let mut value = self.root;
        for part in path.strip_prefix('$')?.split('.').filter(|part| !part.is_empty()) {
            let (name, indexes) = part.split_once('[').unwrap_or((part, ""));
            value = value.get(name)?;
            for index in indexes.split('[').filter(|index| !index.is_empty()) {
                value = value.get(index.strip_suffix(']')?.parse::<usize>().ok()?)?;
            }
        }
        Some(value)
    }

    fn type_of(&self, text: &str, variables: Variables) -> Option<JavaType> {
        JavaType::parse_named(&self.jvm_type(text, variables)).ok()
    }

    /// The text of a type, each class in it named as the JVM does.
    fn jvm_type(&self, text: &str, variables: Variables) -> String {
        let is_in_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '$' | '-');
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let len = rest.find(|c| !is_in_name(c)).unwrap_or(rest.len());
            if len == 0 {
                out.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
                continue;
            }
            let (name, behind) = rest.split_at(len);
            rest = behind;
            let is_word = matches!(name, "extends" | "super");
            if !is_word && self.is_variable(name) {
                out.push_str(match variables {
                    Variables::Keep => name,
                    Variables::Drop => "java.lang.Object",
                });
                continue;
            }
            out.push_str(&self.jvm_name(name));
        }
        out
    }

    /// Whether a name is that of a type variable: it has no package, and is neither a class of the
    /// document nor primitive.
    fn is_variable(&self, name: &str) -> bool {
        let is_primitive = || JavaType::parse_named(name).is_ok_and(|ty| ty.is_primitive());
        !name.contains('.') && !self.exact.contains(name) && !is_primitive()
    }

    /// `com.acme.Outer.Inner` as `com.acme.Outer$Inner`: what follows a class, which begins with a
    /// capital, is nested in it. A package with a capital is not told apart.
    fn jvm_name(&self, name: &str) -> String {
        if self.exact.contains(name) {
            return name.to_owned();
        }
        let mut out = String::with_capacity(name.len());
        let mut is_in_class = false;
        for (index, part) in name.split('.').enumerate() {
            if index != 0 {
                out.push(if is_in_class { '$' } else { '.' });
            }
            out.push_str(part);
            is_in_class |= part.chars().next().is_some_and(char::is_uppercase);
        }
        out
    }
}

fn properties(ty: &Value) -> Option<&serde_json::Map<String, Value>> {
    ty.get("properties")?.as_object()
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
