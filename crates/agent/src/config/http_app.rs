//! The part of an `[[export]]` that is about an app which speaks HTTP: `[[export.method]]`,
//! `[[export.class]]` and the keys beside them.

mod classes;
pub mod method;
pub mod origin;
pub mod template;

use std::time::Duration;

use dubbo_proto::{Status as DubboStatus, validate_interface, validate_method};
use hessian::JavaType;
use hessian::transcode::{DateStyle, EnumStyle, JsonOptions};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};

use self::method::{
    BodyShape, Classes, ErrorRule, MappedMethod, MappedMethods, StatusTable, Statuses,
};
use self::origin::AppOrigin;
use self::template::Template;
use super::defaults;
use super::section::Section;
use crate::grown_text::IN_PLACE_LEN;

/// An app that speaks HTTP, and how calls become its requests.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpAppConfig {
    /// Where the app is.
    pub origin: AppOrigin,
    /// The longest that the app gets for a call; the caller's own deadline may be nearer.
    pub timeout: Option<Duration>,
    /// Connections to the app from one worker; each carries one call at a time.
    pub max_connections: usize,
    /// How long a connection may be idle and still be used.
    pub idle_timeout: Duration,
    /// Longest body of an answer, in bytes.
    pub max_answer_len: usize,
    /// How the app is looked after.
    pub health: HealthConfig,
    /// The methods; if there are none every call is `POST /{interface}/{method}`.
    pub methods: MappedMethods,
    /// Headers of every request, for methods that are not in the table.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// What errors become, for methods that are not in the table.
    pub errors: StatusTable,
    /// The types of the fields of classes.
    pub classes: Classes,
    /// How arguments are written.
    pub json: JsonOptions,
}

impl Eq for HttpAppConfig {}

/// How an app is looked after.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HealthConfig {
    /// What is asked for by GET, and answered with a status from 200 to 299 by an app that is
    /// well; without it, an app that can be connected to is well.
    pub path: Option<http::uri::PathAndQuery>,
    /// Time between the end of a check and the next one.
    pub interval: Duration,
    /// Longest wait for a check.
    pub timeout: Duration,
    /// After so many failed checks in a row the app counts as away; at least 1.
    pub n_failures: u32,
}

/// The keys that only an app which speaks HTTP has.
pub(super) const HTTP_APP_KEYS: [&str; 16] = [
    "timeout_ms",
    "max_connections",
    "idle_timeout_ms",
    "max_answer_bytes",
    "health",
    "health_interval_ms",
    "health_timeout_ms",
    "health_failures",
    "headers",
    "errors",
    "method",
    "class",
    "dates",
    "enums",
    "big_numbers",
    "class_names",
];

const ERROR_REMEDY: &str = "write \"null\", the class of an exception such as \
                            \"com.acme.NotFoundException\", or one of busy, timeout, bad-request, \
                            failed";

/// What the methods of an export have in common.
struct Common<'a> {
    interface: &'a str,
    /// Stands before all paths.
    base: &'a str,
    headers: Vec<(HeaderName, HeaderValue)>,
    errors: StatusTable,
}

/// Reads the keys of an export of `interface` whose app is at `origin`.
pub(super) fn http_app(
    section: &mut Section<'_>,
    interface: &str,
    origin: AppOrigin,
) -> HttpAppConfig {
    let base = &*origin.base;
    let common = Common { interface, base, headers: headers(section), errors: errors(section) };
    let mut classes = classes::read(section);
    let mut methods = MappedMethods::default();
    let sections = section.tables_as("method", "export.method");
    for section in sections {
        if let Some(method) = method(section, &common, &methods, &mut classes) {
            methods.add(method);
        }
    }
    let health = health(section, base);
    let (headers, errors) = (common.headers, common.errors);
    HttpAppConfig {
        timeout: section.optional_ms("timeout_ms", defaults::LONGEST),
        max_connections: section.number(
            "max_connections",
            1..=defaults::MAX_CONNECTIONS,
            defaults::APP_CONNECTIONS,
        ),
        idle_timeout: section.ms("idle_timeout_ms", defaults::LONGEST, defaults::APP_IDLE_TIMEOUT),
        max_answer_len: section.number(
            "max_answer_bytes",
            1..=defaults::MAX_BODY_LEN,
            defaults::BODY_LEN,
        ),
        health,
        methods,
        headers,
        errors,
        classes,
        json: json(section),
        origin,
    }
}

fn json(section: &mut Section<'_>) -> JsonOptions {
    let dates = [("iso", DateStyle::Iso), ("millis", DateStyle::Millis)];
    let enums = [("name", EnumStyle::Name), ("object", EnumStyle::Object)];
    let big_numbers = [("number", false), ("text", true)];
    let class_names = section.flag("class_names", false);
    JsonOptions {
        class_name: class_names,
        key_classes: class_names,
        dates: section.choice("dates", &dates).unwrap_or_default(),
        enums: section.choice("enums", &enums).unwrap_or_default(),
        big_numbers_as_text: section.choice("big_numbers", &big_numbers).unwrap_or_default(),
        max_out_len: IN_PLACE_LEN,
        ..JsonOptions::default()
    }
}

fn health(section: &mut Section<'_>, base: &str) -> HealthConfig {
    const REMEDY: &str = "write a path such as \"/healthz\"";
    let path = section.text("health").and_then(|text| {
        let path = format!("{base}{text}").parse::<PathAndQuery>().ok();
        let path = path.filter(|_| text.starts_with('/'));
        if path.is_none() {
            section.wrong("health", format!("\"{text}\" is not a path"), REMEDY);
        }
        path
    });
    HealthConfig {
        path,
        interval: section.ms("health_interval_ms", defaults::LONGEST, defaults::HEALTH_INTERVAL),
        timeout: section.ms("health_timeout_ms", defaults::LONGEST, defaults::HEALTH_TIMEOUT),
        n_failures: section.number(
            "health_failures",
            1..=defaults::MOST_HEALTH_FAILURES,
            defaults::HEALTH_FAILURES,
        ),
    }
}

fn headers(section: &mut Section<'_>) -> Vec<(HeaderName, HeaderValue)> {
    // What the connection or the body decides.
    const OURS: [&str; 6] =
        ["host", "content-length", "content-type", "connection", "transfer-encoding", "upgrade"];
    let mut headers = Vec::new();
    for (place, name, value) in section.pairs("headers") {
        let parsed = (HeaderName::try_from(name), HeaderValue::try_from(value));
        match parsed {
            (Ok(name), Ok(_)) if OURS.contains(&name.as_str()) => {
                section.wrong_at(&place, "is set by the agent", "remove it");
            }
            (Ok(name), Ok(mut value)) => {
                // So that no log and no `Debug` shows it.
                value.set_sensitive(true);
                headers.push((name, value));
            }
            _ => {
                let remedy = "write a header's name and value, such as x-token = \"abc\"";
                section.wrong_at(&place, "cannot be a header", remedy);
            }
        }
    }
    headers
}

fn errors(section: &mut Section<'_>) -> StatusTable {
    let mut table = StatusTable::default();
    for (place, name, value) in section.pairs("errors") {
        let Some(statuses) = Statuses::parse(name) else {
            let remedy = "write an HTTP status from 300 to 599, 3xx, 4xx, 5xx or default";
            section.wrong_at(&place, "is not an error status", remedy);
            continue;
        };
        let rule = match value {
            "null" => ErrorRule::Null,
            "busy" => ErrorRule::Status(DubboStatus::ServerThreadpoolExhausted),
            "timeout" => ErrorRule::Status(DubboStatus::ServerTimeout),
            "bad-request" => ErrorRule::Status(DubboStatus::BadRequest),
            "failed" => ErrorRule::Status(DubboStatus::ServiceError),
            class if class.contains('.') && validate_interface(class).is_ok() => {
                ErrorRule::Exception(class.into())
            }
            other => {
                section.wrong_at(&place, format!("\"{other}\" is not known"), ERROR_REMEDY);
                continue;
            }
        };
        table.rules.push((statuses, rule));
    }
    table
}

/// The request of a method: `GET /users/{id}`.
struct HttpRequestLine<'d> {
    http: http::Method,
    path: Option<&'d str>,
}

fn method(
    mut section: Section<'_>,
    common: &Common<'_>,
    known: &MappedMethods,
    classes: &mut Classes,
) -> Option<MappedMethod> {
    const NAME_REMEDY: &str = "write the method's name in Java";
    let name = section.required_text("name", NAME_REMEDY);
    if let Some(name) = name.filter(|name| validate_method(name).is_err()) {
        section.wrong("name", format!("\"{name}\" is not the name of a method"), NAME_REMEDY);
    }
    let types = types(&mut section, classes);
    let names = section.optional_texts("params").unwrap_or_default();
    if let Some(types) =
        types.as_ref().filter(|it| section.has("params") && it.len() != names.len())
    {
        let problem = format!("{} names for {} types", names.len(), types.len());
        section.wrong("params", problem, "name each parameter once, in their order");
    }
    let returns = section
        .text("returns")
        .and_then(|text| classes::java_type(&section, "returns", text, classes));
    let target = target(&mut section);
    let path = path(&section, &target, &names, types.as_ref().map(Vec::len));
    let mut own_headers = self::headers(&mut section);
    own_headers.splice(0..0, common.headers.iter().cloned());
    let mut descriptor = types.as_ref().map(|_| String::new());
    if let (Some(types), Some(text)) = (&types, &mut descriptor) {
        types.iter().for_each(|ty| ty.write_descriptor(text));
    }
    let method = MappedMethod {
        name: name.unwrap_or_default().into(),
        types,
        descriptor: descriptor.map(Into::into),
        names: names.into_iter().map(Into::into).collect(),
        returns,
        body: body(&mut section, &target.http),
        http: target.http,
        path: path
            .unwrap_or_else(|| Template::of_method(common.interface, name.unwrap_or_default()))
            .under(common.base),
        timeout: section.optional_ms("timeout_ms", defaults::LONGEST),
        headers: own_headers,
        errors: self::errors(&mut section).or(&common.errors),
    };
    check_arguments(&section, &method);
    if known.has(&method) {
        let problem = format!("{} is already defined", method.signature());
        section.wrong("name", problem, "remove one, or give each overload its types");
    }
    section.finish();
    name.map(|_| method)
}

fn types(section: &mut Section<'_>, classes: &mut Classes) -> Option<Vec<JavaType>> {
    let texts = section.optional_texts("types")?;
    let read = |text| classes::java_type(section, "types", text, classes);
    Some(texts.into_iter().filter_map(read).collect())
}

/// Reads `path`, with the method of HTTP before it or not.
fn target<'d>(section: &mut Section<'d>) -> HttpRequestLine<'d> {
    const METHODS: [(&str, http::Method); 5] = [
        ("GET", http::Method::GET),
        ("POST", http::Method::POST),
        ("PUT", http::Method::PUT),
        ("PATCH", http::Method::PATCH),
        ("DELETE", http::Method::DELETE),
    ];
    let text = section.text("path");
    let (verb, path) = match text.and_then(|text| text.split_once(' ')) {
        Some((verb, path)) => (Some(verb), Some(path.trim_start())),
        None => (None, text),
    };
    let http = verb.and_then(|verb| METHODS.into_iter().find(|(name, _)| *name == verb));
    if let (Some(verb), None) = (verb, &http) {
        let known = METHODS.map(|(name, _)| name).join(", ");
        section.wrong("path", format!("\"{verb}\" is not an HTTP method"), format!("use {known}"));
    }
    HttpRequestLine { http: http.map_or(http::Method::POST, |(_, method)| method), path }
}

fn path(
    section: &Section<'_>,
    target: &HttpRequestLine<'_>,
    names: &[&str],
    n_params: Option<usize>,
) -> Option<Template> {
    let text = target.path?;
    let n_params = n_params.or((!names.is_empty()).then_some(names.len()));
    match Template::parse(text, names, n_params) {
        Ok(template) => Some(template),
        Err(error) => {
            let remedy = "name an argument by its number from 0, or by a name of params: {0}, {id}";
            section.wrong("path", format!("\"{text}\" {error}"), remedy);
            None
        }
    }
}

fn body(section: &mut Section<'_>, method: &http::Method) -> BodyShape {
    let shapes = [
        ("none", BodyShape::None),
        ("array", BodyShape::Array),
        ("single", BodyShape::Single),
        ("object", BodyShape::Object),
    ];
    let has_none = matches!(*method, http::Method::GET | http::Method::DELETE);
    let default = if has_none { BodyShape::None } else { BodyShape::Array };
    let shape = section.choice("body", &shapes).unwrap_or(default);
    if *method == http::Method::GET && shape != BodyShape::None {
        section.wrong("body", "GET has no body", "use POST, or put the arguments into the path");
    }
    shape
}

/// Every argument has a place, and the body's shape can hold those that the path leaves.
fn check_arguments(section: &Section<'_>, method: &MappedMethod) {
    if method.body == BodyShape::Object && method.names.is_empty() {
        let remedy = "add params = [\"...\"], or use body = \"array\"";
        section.wrong("body", "an object needs the names of the parameters", remedy);
    }
    let n_names = Some(method.names.len()).filter(|n| *n != 0);
    let Some(n_params) = method.types.as_ref().map(Vec::len).or(n_names) else {
        return;
    };
    let left: Vec<usize> = (0..n_params).filter(|index| !method.path.uses(*index)).collect();
    match (method.body, left.as_slice()) {
        (BodyShape::None, [first, ..]) => {
            let name = method.names.get(*first).map_or(first.to_string(), ToString::to_string);
            let remedy = format!("put {{{name}}} into the path, as in \"?{name}={{{name}}}\"");
            section.wrong("path", format!("argument {name} is never sent"), remedy);
        }
        (BodyShape::Single, left) if left.len() != 1 => {
            let problem =
                format!("{} arguments are left for the body, expected exactly one", left.len());
            section.wrong("body", problem, "use body = \"array\" or \"object\"");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
