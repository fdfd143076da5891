//! What all kinds of rules begin with.

use super::error::{RuleError, RuleProblem};
use super::yaml::YamlNode;

/// The keys that all rules have in common.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) version: Option<String>,
    /// Whether a call is left without endpoints rather than with those that the rule does not
    /// name.
    pub(super) force: bool,
    /// Neither `enabled: false` nor `valid: false`.
    pub(super) is_on: bool,
}

impl Header {
    pub(super) fn read(document: &YamlNode) -> Result<Self, RuleError> {
        if !document.is_map() {
            let problem = RuleProblem::WrongType { key: "the rule", expected: "a mapping" };
            return Err(document.error(problem));
        }
        for key in ["scope", "key"] {
            document.text(key)?;
        }
        if let Some(node) = document.get("priority") {
            let text = node.plain().unwrap_or_default();
            if text.parse::<i32>().is_err() {
                return Err(node.error(RuleProblem::Number { key: "priority", text }));
            }
        }
        Ok(Self {
            version: document.text("configVersion")?.map(str::to_owned),
            force: document.flag("force", false),
            is_on: document.flag("enabled", true) && document.flag("valid", true),
        })
    }
}
