//! Paths with places for arguments: `/users/{id}/orders?limit={1}`.
//!
//! An argument is named by its number, from 0, or by the name of its parameter. Pure: what is
//! wrong with a template is found when it is read, what is wrong with an argument when it is
//! written.

use std::fmt::Write as _;

use hessian::Limits;
use hessian::json::{JsonError, JsonKind, JsonReader};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but the characters that mean nothing to any part of a URL (RFC 3986, "unreserved").
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The longest path and query, which is the limit of crate `http`. Servers take less by default.
const MAX_URL_LEN: usize = (u16::MAX - 1) as usize;

/// A path and a query with places for arguments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Template {
    path: Vec<TemplatePart>,
    query: Vec<Pair>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum TemplatePart {
    Literal(Box<str>),
    Argument(usize),
}

/// One `name=value` of a query.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Pair {
    name: Box<str>,
    value: Vec<TemplatePart>,
}

/// Why a text is not a template.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TemplateError {
    /// A path begins with a slash.
    #[error("does not begin with /")]
    NoSlash,
    /// A brace without its other half, or with nothing between.
    #[error("has braces without a name or number in them, at byte {offset}")]
    Braces {
        /// Bytes before the place.
        offset: usize,
    },
    /// Something that may not be in a URL.
    #[error("{found:?} is not allowed in a URL; write it percent-encoded")]
    Character {
        /// The character.
        found: char,
    },
    /// No parameter has this name or number.
    #[error("{{{name}}} is not a parameter of the method")]
    Unknown {
        /// As the template has it.
        name: String,
    },
}

/// Why an argument cannot be in a URL.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RenderError {
    /// There are fewer arguments.
    #[error("argument {index} is missing; the path needs it")]
    Missing {
        /// Its number, from 0.
        index: usize,
    },
    /// Not every value has a form in a URL.
    #[error("argument {index} is {found}, which cannot be written in a URL")]
    Kind {
        /// Its number, from 0.
        index: usize,
        /// What it is.
        found: &'static str,
    },
    /// In a path, these lead elsewhere.
    #[error("argument {index} is empty, \".\" or \"..\", which would change the path")]
    Dots {
        /// Its number, from 0.
        index: usize,
    },
    /// The arguments are longer than any URL may be.
    #[error("the path with its arguments is longer than {max} bytes")]
    TooLong {
        /// The limit.
        max: usize,
    },
    /// The argument is not JSON.
    #[error("argument {index}: {error}")]
    Json {
        /// Its number, from 0.
        index: usize,
        /// What is wrong.
        error: JsonError,
    },
}

impl Template {
    /// `/{interface}/{method}`, as calls of methods without a path of their own have it.
    pub fn of_method(interface: &str, method: &str) -> Self {
        let mut path = String::with_capacity(interface.len() + method.len() + 2);
        for part in [interface, method] {
            path.push('/');
            encode(part, &mut path);
        }
        Self { path: vec![TemplatePart::Literal(path.into())], query: Vec::new() }
    }

    /// Reads a template for a method whose parameters have these names; `n_params` bounds their
    /// numbers where it is known.
    ///
    /// # Errors
    /// [`TemplateError`] with the rule that the text breaks.
    pub fn parse(
        text: &str,
        names: &[&str],
        n_params: Option<usize>,
    ) -> Result<Self, TemplateError> {
        if !text.starts_with('/') {
            return Err(TemplateError::NoSlash);
        }
        let (path, query) = text.split_once('?').map_or((text, None), |(p, q)| (p, Some(q)));
        let mut template = Self { path: parts(path, 0, names, n_params)?, query: Vec::new() };
        let mut offset = path.len() + 1;
        for pair in query.into_iter().flat_map(|query| query.split('&')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            check(name)?;
            let value = parts(value, offset + name.len() + 1, names, n_params)?;
            template.query.push(Pair { name: name.into(), value });
            offset += pair.len() + 1;
        }
        Ok(template)
    }

    /// The same below `base`, which is a path without a slash at its end, or empty.
    #[must_use]
    pub fn under(mut self, base: &str) -> Self {
        if !base.is_empty() {
            self.path.insert(0, TemplatePart::Literal(base.into()));
        }
        self
    }

    /// Whether the argument with this number has a place here.
    pub fn uses(&self, index: usize) -> bool {
        let in_query = self.query.iter().flat_map(|pair| &pair.value);
        self.path.iter().chain(in_query).any(|part| *part == TemplatePart::Argument(index))
    }

    /// Writes the path with the arguments, each a JSON text. In a query, null is left out, and an
    /// array becomes one pair for each element.
    ///
    /// # Errors
    /// [`RenderError`] with the argument that has no form in a URL.
    pub fn render<'a>(
        &self,
        argument: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> Result<String, RenderError> {
        let mut out = String::with_capacity(64);
        for part in &self.path {
            match part {
                TemplatePart::Literal(text) => out.push_str(text),
                TemplatePart::Argument(index) => {
                    let text = scalar(*index, &argument)?
                        .ok_or(RenderError::Kind { index: *index, found: "null" })?;
                    if matches!(&*text, "" | "." | "..") {
                        return Err(RenderError::Dots { index: *index });
                    }
                    encode(&text, &mut out);
                }
            }
        }
        let mut separator = '?';
        for Pair { name, value } in &self.query {
            for text in pair_values(value, &argument)? {
                out.push(separator);
                separator = '&';
                out.push_str(name);
                out.push('=');
                out.push_str(&text);
                if MAX_URL_LEN < out.len() {
                    return Err(RenderError::TooLong { max: MAX_URL_LEN });
                }
            }
        }
        if MAX_URL_LEN < out.len() {
            return Err(RenderError::TooLong { max: MAX_URL_LEN });
        }
        Ok(out)
    }
}

/// Splits a text at its places for arguments.
fn parts(
    text: &str,
    offset: usize,
    names: &[&str],
    n_params: Option<usize>,
) -> Result<Vec<TemplatePart>, TemplateError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find(['{', '}']) {
        let (literal, from) = rest.split_at(open);
        let braces = TemplateError::Braces { offset: offset + text.len() - from.len() };
        let inside = from.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let Some((name, after)) = inside.filter(|(name, _)| !name.is_empty()) else {
            return Err(braces);
        };
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(check(literal)?.into()));
        }
        let index = match name.parse::<usize>() {
            Ok(index) => Some(index).filter(|index| n_params.is_none_or(|n| *index < n)),
            Err(_) => names.iter().position(|known| *known == name),
        };
        let unknown = || TemplateError::Unknown { name: name.to_owned() };
        parts.push(TemplatePart::Argument(index.ok_or_else(unknown)?));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(TemplatePart::Literal(check(rest)?.into()));
    }
    Ok(parts)
}

/// What is in a template goes into the URL as it is.
fn check(literal: &str) -> Result<&str, TemplateError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~%!$&'()*+,;=:@/".contains(c);
    match literal.chars().find(|c| !fits(*c)) {
        Some(found) => Err(TemplateError::Character { found }),
        None => Ok(literal),
    }
}

fn encode(text: &str, out: &mut String) {
    let written = write!(out, "{}", utf8_percent_encode(text, ENCODED));
    debug_assert!(written.is_ok(), "text into memory cannot fail");
}

/// The values of one name in a query: none for null, several for an array.
fn pair_values<'a>(
    value: &[TemplatePart],
    argument: &impl Fn(usize) -> Option<&'a [u8]>,
) -> Result<Vec<String>, RenderError> {
    if let [TemplatePart::Argument(index)] = value {
        let json = argument(*index).ok_or(RenderError::Missing { index: *index })?;
        let mut reader = JsonReader::new(json, Limits::of_whole());
        let broken = |error| RenderError::Json { index: *index, error };
        let mut texts = Vec::new();
        if reader.peek().map_err(broken)? == JsonKind::Array {
            let mut array = reader.begin_array().map_err(broken)?;
            while reader.next_element(&mut array).map_err(broken)? {
                texts.extend(read_scalar(*index, &mut reader)?);
            }
        } else {
            texts.extend(read_scalar(*index, &mut reader)?);
        }
        return Ok(texts
            .iter()
            .map(|text| utf8_percent_encode(text, ENCODED).to_string())
            .collect());
    }
    let mut text = String::new();
    for part in value {
        match part {
            TemplatePart::Literal(literal) => text.push_str(literal),
            TemplatePart::Argument(index) => {
                let found = scalar(*index, argument)?
                    .ok_or(RenderError::Kind { index: *index, found: "null" })?;
                encode(&found, &mut text);
            }
        }
    }
    Ok(vec![text])
}

fn scalar<'a>(
    index: usize,
    argument: &impl Fn(usize) -> Option<&'a [u8]>,
) -> Result<Option<String>, RenderError> {
    let json = argument(index).ok_or(RenderError::Missing { index })?;
    read_scalar(index, &mut JsonReader::new(json, Limits::of_whole()))
}

/// A text, number or boolean as text; nothing for null.
fn read_scalar(index: usize, reader: &mut JsonReader<'_>) -> Result<Option<String>, RenderError> {
    let broken = |error| RenderError::Json { index, error };
    Ok(match reader.peek().map_err(broken)? {
        JsonKind::Null => {
            reader.read_null().map_err(broken)?;
            None
        }
        JsonKind::Bool => Some(reader.read_bool().map_err(broken)?.to_string()),
        JsonKind::Number => Some(reader.read_number().map_err(broken)?.to_owned()),
        JsonKind::String => Some(reader.read_string().map_err(broken)?.into_owned()),
        JsonKind::Array => return Err(RenderError::Kind { index, found: "an array" }),
        JsonKind::Object => return Err(RenderError::Kind { index, found: "an object" }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Template, TemplateError> {
        Template::parse(text, &["id", "name"], Some(3))
    }

    fn render(text: &str, arguments: &[&str]) -> Result<String, RenderError> {
        parse(text).unwrap().render(|index| arguments.get(index).map(|json| json.as_bytes()))
    }

    #[test]
    fn arguments_take_their_places() {
        let cases = [
            ("/users", &[][..], "/users"),
            ("/users/{0}", &["7"], "/users/7"),
            ("/users/{id}/x{name}y", &["\"a/b ü\"", "true"], "/users/a%2Fb%20%C3%BC/xtruey"),
            ("/u?q={id}&r=1&s=a-{name}", &["\"a&b\"", "2"], "/u?q=a%26b&r=1&s=a-2"),
            ("/u?q={id}&r={name}", &["null", "[1,\"b\",null]"], "/u?r=1&r=b"),
            ("/u?q={id}", &["[]"], "/u"),
            ("/u?flag", &[], "/u?flag="),
        ];
        for (text, arguments, expected) in cases {
            assert_eq!(render(text, arguments).as_deref(), Ok(expected), "{text}");
        }
        let template = parse("/u/{2}?q={id}").unwrap();
        assert_eq!([0, 1, 2].map(|index| template.uses(index)), [true, false, true]);
    }

    #[test]
    fn what_is_no_template_is_refused() {
        use TemplateError as E;
        let unknown = |name: &str| E::Unknown { name: name.to_owned() };
        for (text, error) in [
            ("users", E::NoSlash),
            ("", E::NoSlash),
            ("/a{", E::Braces { offset: 2 }),
            ("/a}", E::Braces { offset: 2 }),
            ("/a{}", E::Braces { offset: 2 }),
            ("/a?b={", E::Braces { offset: 5 }),
            ("/a b", E::Character { found: ' ' }),
            ("/a#b", E::Character { found: '#' }),
            ("/{3}", unknown("3")),
            ("/{x}", unknown("x")),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
        assert!(Template::parse("/{7}", &[], None).is_ok());
    }

    #[test]
    fn long_urls_are_refused() {
        let long = format!("\"{}\"", "x".repeat(MAX_URL_LEN));
        let many = format!("[{}1]", "1,".repeat(MAX_URL_LEN));
        for (text, argument) in [("/u/{0}", &long), ("/u?q={0}", &long), ("/u?q={0}", &many)] {
            let error = RenderError::TooLong { max: MAX_URL_LEN };
            assert_eq!(render(text, &[argument]), Err(error), "{text}");
        }
        let fits = format!("\"{}\"", "x".repeat(MAX_URL_LEN - 3));
        assert_eq!(render("/u/{0}", &[&fits]).map(|url| url.len()), Ok(MAX_URL_LEN));
    }

    #[test]
    fn what_has_no_form_in_a_url_is_refused() {
        use RenderError as E;
        for (text, argument, error) in [
            ("/u/{0}", "null", E::Kind { index: 0, found: "null" }),
            ("/u/{0}", "[1]", E::Kind { index: 0, found: "an array" }),
            ("/u?q={0}", "[[1]]", E::Kind { index: 0, found: "an array" }),
            ("/u?q={0}", "{}", E::Kind { index: 0, found: "an object" }),
            ("/u/{0}", "\"\"", E::Dots { index: 0 }),
            ("/u/{0}", "\"..\"", E::Dots { index: 0 }),
            ("/u/{1}", "1", E::Missing { index: 1 }),
        ] {
            assert_eq!(render(text, &[argument]), Err(error), "{text} {argument}");
        }
    }
}
