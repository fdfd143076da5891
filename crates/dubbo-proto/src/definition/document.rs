//! The JSON documents.

use std::collections::{BTreeMap, BTreeSet};

use hessian::JavaType;
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
    // Every value but the first stands behind one of these.
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

struct Document<'a> {
    root: &'a Value,
    /// Names that are certainly as the JVM has them.
    exact: BTreeSet<&'a str>,
}

impl<'a> Document<'a> {
    /// Dubbo 2.7 names classes with fields as the JVM does; everything else has points throughout.
    fn note_exact_names(&mut self) {
        let exact = self.all_types().into_iter().filter(|ty| {
            ty.get("typeBuilderName").is_some()
                && !properties(ty).is_none_or(serde_json::Map::is_empty)
        });
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
        Ok(ServiceDefinition {
            interface: text(self.root.get("canonicalName")),
            variant,
            methods: self.methods()?,
            classes: self.classes(),
        })
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
            let Some(parameters) =
                types.iter().map(|ty| self.java_type(ty).and_then(super::parameter)).collect()
            else {
                continue;
            };
            let result = method.get("returnType").and_then(|ty| self.java_type(ty));
            methods.push(MethodDefinition { name: name.into(), parameters, result });
        }
        Ok(methods)
    }

    fn classes(&self) -> BTreeMap<Box<str>, ClassDefinition> {
        let mut classes = BTreeMap::new();
        for ty in self.all_types() {
            let Some(name) = ty.get("type").and_then(Value::as_str) else { continue };
            if name.contains(['<', '[', ' ']) {
                continue;
            }
            let name: Box<str> = self.jvm_name(name).into();
            let values = ["enums", "enum"].map(|key| list(ty.get(key))).concat();
            if !values.is_empty() {
                let values = values.iter().filter_map(Value::as_str).map(Box::from).collect();
                classes.insert(name, ClassDefinition::Enum(values));
                continue;
            }
            let Some(properties) = properties(ty).filter(|map| !map.is_empty()) else { continue };
            let fields = properties
                .iter()
                .filter_map(|(field, ty)| Some((field.as_str().into(), self.java_type(ty)?)));
            classes.insert(name, ClassDefinition::Bean(fields.collect()));
        }
        classes
    }

    /// Every type definition, also those inside of others. Each value of the document is seen once, as no
    /// reference is followed.
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
        // What stands deeper may be cut short by references: the outermost counts, so it comes last.
        found.reverse();
        found
    }

    /// A type that is given by its name, by a definition or by a reference.
    fn java_type(&self, value: &Value) -> Option<JavaType> {
        let mut value = value;
        for _ in 0..MAX_HOPS {
            if let Some(name) = value.as_str().or_else(|| value.get("type")?.as_str()) {
                return JavaType::parse(&self.jvm_type(name)).ok();
            }
            let reference = value.get("$ref")?.as_str()?;
            if !reference.starts_with('$') {
                return JavaType::parse(&self.jvm_type(reference)).ok();
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

    /// The text of a type, each class in it named as the JVM does.
    fn jvm_type(&self, text: &str) -> String {
        let is_in_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '$' | '-');
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut depth = 0_usize;
        while let Some(first) = rest.chars().next() {
            let len = rest.find(|c| !is_in_name(c)).unwrap_or(rest.len());
            if len == 0 {
                match first {
                    '<' => depth += 1,
                    '>' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                out.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
                continue;
            }
            let (name, behind) = rest.split_at(len);
            rest = behind;
            let is_word = matches!(name, "extends" | "super");
            if 0 < depth && !is_word && !name.contains('.') && !self.exact.contains(name) {
                // A type variable: `T` may be anything. (No primitive stands alone between `<` and `>`.)
                let is_array = behind.trim_start().starts_with('[');
                out.push_str(if is_array { name } else { "java.lang.Object" });
                continue;
            }
            out.push_str(&self.jvm_name(name));
        }
        out
    }

    /// `com.acme.Outer.Inner` as `com.acme.Outer$Inner`: what follows a class, which begins with a capital,
    /// is nested in it. A package with a capital is not told apart.
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
