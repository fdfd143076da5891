//! What is known of an HTTP app's methods: which one a call means, and what its errors become.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use dubbo_proto::Status as DubboStatus;
use hessian::generics::{GenericClass, GenericsError, Instances};
use hessian::transcode::Schema;
use hessian::{JavaType, TypeParameter};
use http::{HeaderName, HeaderValue, StatusCode};

use super::template::Template;

/// One method, and the request that it becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct MappedMethod {
    /// Its name in Java.
    pub name: Box<str>,
    /// The types of its parameters; `None` takes those that each caller names.
    pub types: Option<Vec<JavaType>>,
    /// The same as JVM descriptors, as callers name them.
    pub descriptor: Option<Box<str>>,
    /// The names of its parameters, where they were given.
    pub names: Vec<Box<str>>,
    /// What it returns, where that is known.
    pub returns: Option<JavaType>,
    /// The method of HTTP.
    pub http: http::Method,
    /// Path and query.
    pub path: Template,
    /// What becomes of the arguments that have no place in the path.
    pub body: BodyShape,
    /// The longest that the app gets; the caller's own deadline may be nearer.
    pub timeout: Option<Duration>,
    /// Constant headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// What answers of other statuses than 2xx become.
    pub errors: StatusTable,
}

/// The body of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BodyShape {
    /// There is none.
    None,
    /// A JSON array of the arguments.
    Array,
    /// The one argument.
    Single,
    /// A JSON object of the arguments, by the names of their parameters.
    Object,
}

impl MappedMethod {
    /// Whether a call with these parameters means this method.
    pub fn takes(&self, descriptor: &str) -> bool {
        self.descriptor.as_ref().is_none_or(|own| **own == *descriptor)
    }

    /// How a Java programmer would write it.
    pub fn signature(&self) -> String {
        match &self.types {
            Some(types) => {
                let types: Vec<String> = types.iter().map(JavaType::java_name).collect();
                format!("{}({})", self.name, types.join(","))
            }
            None => format!("{}(..)", self.name),
        }
    }
}

/// What an answer of another status than 2xx becomes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ErrorRule {
    /// The method returned null.
    Null,
    /// The method threw an exception of this class.
    Exception(Box<str>),
    /// The call failed outside of the method, with this status of Dubbo's.
    Status(DubboStatus),
}

/// The exception that an error becomes unless something else is configured: every consumer has its
/// class and lets it through.
pub const DEFAULT_EXCEPTION: &str = "java.lang.RuntimeException";

/// Rules by status.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StatusTable {
    /// The narrowest that covers a status counts.
    pub rules: Vec<(Statuses, ErrorRule)>,
}

/// Some statuses of HTTP.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Statuses {
    /// One: `404`.
    One(u16),
    /// A hundred: `4xx`.
    Class(u16),
    /// `default`.
    All,
}

impl Statuses {
    /// Reads `404`, `4xx` or `default`.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "default" {
            return Some(Self::All);
        }
        if let Some(class) = text.strip_suffix("xx") {
            return class.parse().ok().filter(|class| (3..=5).contains(class)).map(Self::Class);
        }
        text.parse().ok().filter(|status| (300..=599).contains(status)).map(Self::One)
    }

    fn covers(self, status: u16) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => class == status / 100,
            Self::All => true,
        }
    }
}

impl StatusTable {
    /// The rule for a status; `None` where nothing is configured.
    pub fn rule(&self, status: StatusCode) -> Option<&ErrorRule> {
        let covering = self.rules.iter().filter(|(those, _)| those.covers(status.as_u16()));
        covering.min_by_key(|(those, _)| *those).map(|(_, rule)| rule)
    }

    /// These rules, and `other` where they say nothing.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        for (those, rule) in &other.rules {
            if !self.rules.iter().any(|(known, _)| known == those) {
                self.rules.push((*those, rule.clone()));
            }
        }
        self
    }
}

/// The types of the fields of classes, as far as they were configured.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Classes {
    /// By class; type parameters are what they extend.
    fields: HashMap<Box<str>, BTreeMap<Box<str>, JavaType>>,
    generics: HashMap<Box<str>, GenericClass>,
    instances: Instances,
}

impl Classes {
    /// Adds a class that is not an enum, with its type parameters and the types of its fields in
    /// terms of these.
    pub fn add(
        &mut self,
        class: &str,
        parameters: Vec<TypeParameter>,
        fields: BTreeMap<Box<str>, JavaType>,
    ) {
        let generic = GenericClass::new(parameters, fields);
        self.fields.insert(class.into(), generic.erased());
        self.generics.remove(class);
        if generic.has_parameters() {
            self.generics.insert(class.into(), generic);
        }
    }

    /// Whether anything was said of a class.
    pub fn knows(&self, class: &str) -> bool {
        self.fields.contains_key(class)
    }

    /// The classes that something was said of.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(|name| &**name)
    }

    /// A class that declares type parameters.
    pub fn generic(&self, class: &str) -> Option<&GenericClass> {
        self.generics.get(class)
    }

    /// Works out what the type arguments in a type mean.
    ///
    /// # Errors
    /// [`GenericsError`] with what is not understood.
    pub fn take_in(&mut self, ty: &JavaType) -> Result<(), GenericsError> {
        let Self { generics, instances, .. } = self;
        let known = |class: &str| generics.get(class);
        hessian::generics::check(ty, &known)?;
        instances.add(ty, &known)
    }
}

impl Classes {
    /// The same for the fields of classes without type parameters. Those of others are worked out
    /// with the arguments that these get somewhere.
    ///
    /// # Errors
    /// [`GenericsError`] with what is not understood.
    pub fn take_in_fields(&mut self) -> Result<(), GenericsError> {
        let plain = self.fields.iter().filter(|(class, _)| !self.generics.contains_key(*class));
        let known = |class: &str| self.generics.get(class);
        let mut instances = std::mem::take(&mut self.instances);
        let added = plain
            .flat_map(|(_, fields)| fields.values())
            .try_for_each(|ty| instances.add(ty, &known));
        self.instances = instances;
        added
    }
}

impl Schema for Classes {
    fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
        match self.instances.fields(class) {
            Some(fields) => fields.get(field),
            None => self.fields.get(class.split('<').next()?)?.get(field),
        }
    }

    fn knows_arguments(&self, class: &str) -> bool {
        self.instances.fields(class).is_some()
    }

    fn is_bean(&self, class: &str) -> bool {
        self.knows(class)
    }
}

/// The methods of one app, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MappedMethods(HashMap<Box<str>, Vec<MappedMethod>>);

/// Which method a call means.
#[derive(Debug)]
pub enum MethodMatch<'a> {
    /// This one.
    One(&'a MappedMethod),
    /// None has this name and these parameters.
    None,
    /// Several have this name, and the call does not say which it means.
    Several(&'a [MappedMethod]),
}

impl MappedMethods {
    /// Adds a method.
    pub fn add(&mut self, method: MappedMethod) {
        self.0.entry(method.name.clone()).or_default().push(method);
    }

    /// Whether a method of that name and those parameters is there.
    pub fn has(&self, method: &MappedMethod) -> bool {
        let overloads = self.0.get(&method.name).map_or(&[][..], Vec::as_slice);
        overloads.iter().any(|known| known.descriptor == method.descriptor)
    }

    /// All of them, by their names in the order of the alphabet.
    pub fn all(&self) -> Vec<&MappedMethod> {
        let mut all: Vec<&MappedMethod> = self.0.values().flatten().collect();
        all.sort_by(|a, b| (&a.name, &a.descriptor).cmp(&(&b.name, &b.descriptor)));
        all
    }

    /// Their names, in the order of the alphabet.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.keys().map(ToString::to_string).collect();
        names.sort();
        names
    }

    /// How many there are, overloads among them.
    pub fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Whether there is none: then every call is passed on.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The method of that name whose parameters are `descriptor`, or the only one if the call does
    /// not tell them. One whose types are configured goes before one that takes any.
    pub fn find(&self, name: &str, descriptor: Option<&str>) -> MethodMatch<'_> {
        let overloads = self.0.get(name).map_or(&[][..], Vec::as_slice);
        let Some(descriptor) = descriptor else {
            return match overloads {
                [] => MethodMatch::None,
                [one] => MethodMatch::One(one),
                several => MethodMatch::Several(several),
            };
        };
        let mut fitting: Vec<&MappedMethod> =
            overloads.iter().filter(|it| it.takes(descriptor)).collect();
        fitting.sort_by_key(|it| it.types.is_none());
        fitting.first().map_or(MethodMatch::None, |it| MethodMatch::One(it))
    }

    /// The methods of that name, as a Java programmer would write them; all methods if none has
    /// it.
    pub fn candidates(&self, name: &str) -> String {
        let mut signatures: Vec<String> = match self.0.get(name) {
            Some(overloads) => overloads.iter().map(MappedMethod::signature).collect(),
            None => self.0.values().flatten().map(MappedMethod::signature).collect(),
        };
        signatures.sort();
        signatures.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(name: &str, descriptor: Option<&str>) -> MappedMethod {
        let types = descriptor.map(|types| JavaType::parse_descriptors(types).unwrap());
        MappedMethod {
            name: name.into(),
            types,
            descriptor: descriptor.map(Into::into),
            names: Vec::new(),
            returns: None,
            http: http::Method::POST,
            path: Template::of_method("a.B", name),
            body: BodyShape::Array,
            timeout: None,
            headers: Vec::new(),
            errors: StatusTable::default(),
        }
    }

    #[test]
    fn overloads_are_told_apart_by_their_types() {
        let mut methods = MappedMethods::default();
        methods.add(method("find", None));
        methods.add(method("find", Some("J")));
        methods.add(method("find", Some("Ljava/util/List;Z")));
        methods.add(method("one", Some("")));
        let found = |name, descriptor| match methods.find(name, descriptor) {
            MethodMatch::One(method) => method.signature(),
            MethodMatch::None => "none".to_owned(),
            MethodMatch::Several(all) => all.len().to_string(),
        };
        assert_eq!(found("find", Some("J")), "find(long)");
        assert_eq!(found("find", Some("Ljava/util/List;Z")), "find(java.util.List,boolean)");
        assert_eq!(found("find", Some("I")), "find(..)");
        assert_eq!(found("find", None), "3");
        assert_eq!(found("one", None), "one()");
        assert_eq!((found("one", Some("I")), found("two", None)), ("none".into(), "none".into()));
        assert_eq!(methods.candidates("one"), "one()");
        assert!(methods.candidates("two").contains("find(long), one()"));
    }

    #[test]
    fn the_narrowest_rule_counts() {
        let exception = |name: &str| ErrorRule::Exception(name.into());
        let parse = |text| Statuses::parse(text).unwrap();
        let own = StatusTable { rules: vec![(parse("4xx"), exception("a.A"))] };
        let rules = vec![
            (parse("default"), exception("a.B")),
            (parse("404"), ErrorRule::Null),
            (parse("4xx"), exception("a.C")),
        ];
        let table = own.or(&StatusTable { rules });
        let rule = |status| table.rule(StatusCode::from_u16(status).unwrap());
        assert_eq!(rule(404), Some(&ErrorRule::Null));
        assert_eq!(rule(409), Some(&exception("a.A")));
        assert_eq!(rule(500), Some(&exception("a.B")));
        assert_eq!(StatusTable::default().rule(StatusCode::NOT_FOUND), None);
        for text in ["200", "2xx", "600", "xx", "4x", "-1", "all"] {
            assert_eq!(Statuses::parse(text), None, "{text}");
        }
    }
}
