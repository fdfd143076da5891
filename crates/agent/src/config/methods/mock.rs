//! The key `mock` of `[[...method]]`: an answer of ours, in the words of Dubbo.
//!
//! Source: apache/dubbo, `MockInvoker.normalizeMock` and `MockInvoker.parseMockValue`.

use std::fmt;
use std::sync::Arc;

use hessian::json::{self, JsonReader};
use hessian::{JavaType, Limits};

use crate::config::section::Section;

const REMEDY: &str = "write \"return VALUE\", \"throw\" or \"throw CLASS\", after \"fail:\" or \
                      \"force:\", with VALUE in JSON";

/// An answer that no endpoint gives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mock {
    /// Whether nobody is called; otherwise it stands for failures.
    pub always: bool,
    /// What it is.
    pub answer: MockAnswer,
}

/// What a mock answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MockAnswer {
    /// A value, as JSON.
    Value(Arc<str>),
    /// The empty value of the method's type: nothing in it, 0, or false.
    Empty,
    /// An exception of this class; `None` is Dubbo's own for calls that fail.
    Throw(Option<Arc<str>>),
}

impl fmt::Display for MockAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(json) => write!(f, "return {json}"),
            Self::Empty => f.write_str("return empty"),
            Self::Throw(None) => f.write_str("throw"),
            Self::Throw(Some(class)) => write!(f, "throw {class}"),
        }
    }
}

pub(super) fn mock(section: &mut Section<'_>) -> Option<Mock> {
    let text = section.text("mock")?.trim();
    let (always, rest) = match (text.strip_prefix("force:"), text.strip_prefix("fail:")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => (false, text),
    };
    // Where quotes cannot be written, as in a URL, Dubbo has these.
    let rest = rest.trim().replace('`', "\"");
    let word = |word: &str| {
        let after = rest.strip_prefix(word)?;
        (after.is_empty() || after.starts_with(' ')).then(|| after.trim())
    };
    let answer = match (word("return"), word("throw")) {
        (Some(value), _) => value_of(value),
        (None, Some("")) => Ok(MockAnswer::Throw(None)),
        (None, Some(class)) if JavaType::is_class_name(class) => {
            Ok(MockAnswer::Throw(Some(class.into())))
        }
        (None, Some(class)) => Err(format!("\"{class}\" is not the name of a class")),
        (None, None) => Err(format!("\"{text}\" is not known")),
    };
    let answer = answer.map_err(|problem| section.wrong("mock", problem, REMEDY)).ok()?;
    Some(Mock { always, answer })
}

fn value_of(value: &str) -> Result<MockAnswer, String> {
    let mut reader = JsonReader::new(value.as_bytes(), Limits::default());
    let is_json = reader.skip_value().is_ok() && reader.finish().is_ok();
    let json = match value {
        "empty" => return Ok(MockAnswer::Empty),
        "" => "null".to_owned(),
        _ if is_json => value.to_owned(),
        _ if value.starts_with(['{', '[', '"']) => return Err(format!("{value} is not JSON")),
        // As in Dubbo, a word is a text.
        word => {
            let unquoted = word.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
            let mut quoted = Vec::new();
            json::write_string(&mut quoted, unquoted.unwrap_or(word));
            String::from_utf8_lossy(&quoted).into_owned()
        }
    };
    Ok(MockAnswer::Value(json.into()))
}
