//! The answer of a provider of Dubbo 2.x to telnet's `ls -l INTERFACE`: a line per method, as
//! `java.lang.String text(java.lang.String,int[])`. Source: `ListTelnetHandler` and
//! `ReflectUtils.getName` in apache/dubbo 2.6 and 2.7.

use std::collections::HashSet;

use hessian::JavaType;

use super::{MAX_METHODS, MethodDefinition, ServiceDefinition};
use crate::descriptor::MAX_PARAMETERS;

/// What comes after every answer.
pub const PROMPT: &str = "dubbo>";

/// The longest words of a provider that are repeated to an operator.
const MAX_SAID_LEN: usize = 120;

/// Why a provider's answer does not tell its methods.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TelnetError {
    /// It listens to telnet, but not to this: 2.7 does from some release on only if its parameter
    /// `telnet` names the command, and 3.x not at all.
    #[error("the provider has no telnet command ls: {said:?}")]
    NoCommand {
        /// The first line of its answer.
        said: Box<str>,
    },
    /// It has no such service.
    #[error("the provider does not know the interface: {said:?}")]
    NoService {
        /// The first line of its answer.
        said: Box<str>,
    },
    /// No line of the answer is a method.
    #[error("the answer lists no method: {said:?}")]
    NoMethod {
        /// The first line of its answer.
        said: Box<str>,
    },
}

pub(super) fn parse(interface: &str, answer: &str) -> Result<ServiceDefinition, TelnetError> {
    let mut methods: Vec<MethodDefinition> = Vec::new();
    // The same interface may be offered several times, as provider and as consumer.
    let mut seen = HashSet::new();
    for method in answer.lines().filter_map(|line| method(line.trim())) {
        let result = method.result.as_ref().map(ToString::to_string);
        if seen.insert((result, method.to_string())) {
            methods.push(method);
        }
        if methods.len() == MAX_METHODS {
            break;
        }
    }
    if methods.is_empty() {
        let said: Box<str> =
            answer.lines().next().unwrap_or("").chars().take(MAX_SAID_LEN).collect();
        return Err(match () {
            () if said.starts_with("No such service") => TelnetError::NoService { said },
            () if said.starts_with("Command: ls") || said.starts_with("Unsupported command") => {
                TelnetError::NoCommand { said }
            }
            () => TelnetError::NoMethod { said },
        });
    }
    Ok(ServiceDefinition {
        interface: interface.to_owned(),
        methods,
        ..ServiceDefinition::default()
    })
}

fn method(line: &str) -> Option<MethodDefinition> {
    let (result, rest) = line.split_once(' ')?;
    let (name, rest) = rest.split_once('(')?;
    let parameters = rest.strip_suffix(')')?;
    crate::validate_method(name).ok()?;
    let types = parameters.split(',').filter(|name| !name.is_empty());
    let parameters: Vec<JavaType> = types
        .take(MAX_PARAMETERS + 1)
        .map(|name| JavaType::parse_named(name).ok().and_then(super::parameter))
        .collect::<Option<_>>()?;
    if MAX_PARAMETERS < parameters.len() {
        return None;
    }
    Some(MethodDefinition {
        name: name.into(),
        parameters,
        result: JavaType::parse_named(result).ok(),
    })
}
