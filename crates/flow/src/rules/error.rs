//! Why a rule is refused.

/// Why a rule's text is refused, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct RuleError {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: RuleProblem,
}

/// What is wrong with a rule's text.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RuleProblem {
    /// Not YAML.
    #[error("cannot be read as YAML: {0}")]
    Yaml(String),
    /// Longer than a rule may be.
    #[error("the rule has {len} bytes, more than {max}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// Lists and mappings inside each other.
    #[error("nested deeper than {max} levels")]
    TooDeep {
        /// The limit.
        max: usize,
    },
    /// More values than a rule may have.
    #[error("more than {max} values")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// An alias within the value that it repeats.
    #[error("the alias is within the value that it stands for")]
    AliasOfItself,
    /// Aliases repeat too much.
    #[error("aliases repeat more than {max} bytes: write fewer of them")]
    Repeated {
        /// The limit.
        max: usize,
    },
    /// Another type than expected.
    #[error("{key} has to be {expected}")]
    WrongType {
        /// The key.
        key: &'static str,
        /// The type.
        expected: &'static str,
    },
    /// A rule without content: Dubbo leaves such a rule out.
    #[error("{key} is missing or empty: the rule would do nothing")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// The same, of a kind of rule whose earlier content ends with it in Dubbo.
    #[error("{key} is missing or empty: the rule does nothing")]
    Emptied {
        /// The key.
        key: &'static str,
    },
    /// `configVersion` above `v3.1`.
    #[error("configVersion {0:?} is not supported; versions up to v3.1 are")]
    Version(String),
    /// Not an integer.
    #[error("{key}: {text:?} is not a whole number")]
    Number {
        /// The key.
        key: &'static str,
        /// What was written.
        text: String,
    },
    /// An address whose port is no number.
    #[error("the port of address {0:?} is not a number: write HOST, or HOST:PORT")]
    Port(String),
    /// A condition without text.
    #[error("the condition is empty")]
    EmptyCondition,
    /// A condition that cannot be read.
    #[error("{separator:?} before {content:?} is out of place in condition {condition:?}")]
    Condition {
        /// What stands there.
        separator: String,
        /// What follows it.
        content: String,
        /// The whole condition.
        condition: String,
    },
    /// A text that is no URL of a configurator.
    #[error(
        "expected override://HOST/INTERFACE?KEY=VALUE, or absent://..., or a mapping with configs"
    )]
    OverrideUrl,
    /// Regular expressions.
    #[error("regex is not supported: use exact, prefix, wildcard, empty or noempty")]
    Regex,
    /// A tag of version 3.0 that says nothing about its endpoints.
    #[error("tag {0:?} has neither addresses nor match")]
    EmptyTag(String),
}
