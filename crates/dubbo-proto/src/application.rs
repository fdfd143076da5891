//! What Dubbo 3 writes down at application level: which applications offer an interface
//! (*mapping*), where an application runs (*instance*), and what all instances of one *revision*
//! offer (*metadata*). Pure: texts in, values out, and back.
//!
//! Sources: `ServiceInstanceMetadataUtils`, `CuratorFrameworkUtils`, `DefaultServiceInstance` and
//! `MetadataInfo` in apache/dubbo 3.3, `EtcdServiceDiscovery` in apache/dubbo-spi-extensions.
//!
//! Invariants:
//! - Every text's length, and the number of its values, is checked before anything is kept of it.
//! - The revision of metadata follows from what they say: other metadata have another one.

mod instance;
mod mapping;
mod metadata;

use std::borrow::Cow;

use parameters::Parameters;
use serde_json::Value;

pub use instance::{Instance, MetadataAddress, Storage};
pub use mapping::{
    ApplicationsInTurn, MAX_APPLICATIONS, add_application, applications, applications_in_turn,
};
pub use metadata::{MAX_METADATA_LEN, METADATA_CLASS, Metadata, MetadataClasses, OfferedService};

/// The interface by which an instance tells its metadata.
pub const METADATA_SERVICE: &str = "org.apache.dubbo.metadata.MetadataService";

/// Its version. Its group is the name of the application.
pub const METADATA_SERVICE_VERSION: &str = "1.0.0";

/// Its method: a revision in, metadata out.
pub const METADATA_METHOD: &str = "getMetadataInfo";

/// The longest name of an application.
pub const MAX_APPLICATION_LEN: usize = 256;

/// The most values in one text, all names, numbers, lists and objects together.
const MAX_VALUES: usize = 256 << 10;

/// Why a text of the application level is of no use.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ApplicationError {
    /// It is too long.
    #[error("{len} bytes are over the limit of {max}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// It has too many values.
    #[error("{count} values are over the limit of {max}")]
    TooMany {
        /// How many there are.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// It is not JSON.
    #[error("not JSON of at most 128 levels (line {line}, column {column})")]
    NotJson {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// Something is not there, or not what it should be.
    #[error("{what} is missing or wrong")]
    Wrong {
        /// What it is.
        what: &'static str,
    },
}

/// Whether an application can have this name: it becomes a part of paths.
#[must_use]
pub fn is_application(name: &str) -> bool {
    let is_good = |c: char| !c.is_control() && !matches!(c, '/' | ',' | ' ');
    !name.is_empty()
        && name.len() <= MAX_APPLICATION_LEN
        && name.chars().all(is_good)
        && name != "."
        && name != ".."
}

/// Reads a JSON object, within limits.
fn object(text: &[u8], max_len: usize) -> Result<Value, ApplicationError> {
    if max_len < text.len() {
        return Err(ApplicationError::TooLong { len: text.len(), max: max_len });
    }
    // Every value but the first comes after one of these.
    let count = text.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
    if MAX_VALUES < count {
        return Err(ApplicationError::TooMany { count, max: MAX_VALUES });
    }
    let value: Value = serde_json::from_slice(text).map_err(|error| ApplicationError::NotJson {
        line: error.line(),
        column: error.column(),
    })?;
    if value.is_object() { Ok(value) } else { Err(wrong("the JSON object")) }
}

const fn wrong(what: &'static str) -> ApplicationError {
    ApplicationError::Wrong { what }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A port, as a number or as text; `None` if it is neither, or 0.
fn port(value: &Value) -> Option<u16> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.and_then(|number| u16::try_from(number).ok()).filter(|port| *port != 0)
}

/// The members of a map that are texts, numbers or booleans, as texts.
fn texts(value: Option<&Value>) -> Parameters {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(name, value)| Some((name, as_text(value)?))).collect()
}

fn as_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string().into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
