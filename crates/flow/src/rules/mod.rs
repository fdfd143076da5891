//! Routing rules: which endpoints a call may go to, in Dubbo's own syntax and with its meaning.
//!
//! - [`TagRule`] groups endpoints by tags; a call goes to the endpoints of its tag.
//! - [`ConditionRule`] says "calls like these go to endpoints like those".
//! - [`Configurators`] change parameters of endpoints, such as their timeout.
//! - [`Subset`] is a group of endpoints that a part of the calls goes to.
//! - [`RuleSet`] holds the rules of one service. [`RuleSet::select`] applies them to a call, and
//!   says for each endpoint that is removed which rule, and which of its conditions, did it.
//!
//! The meaning is that of Dubbo 3.3.6, with its odd corners: `tests/rules.rs` compares with what
//! Dubbo's own routers answered. These are different on purpose:
//! - A name is never looked up: an address in a rule matches a host name only as text.
//! - Of weighted destinations each gets its share. Dubbo gives the first one a little more.
//! - Regular expressions (`regex` of tag rules) are refused with an error.
//!
//! Invariants:
//! - A rule is parsed once, within limits of length, depth and count. Errors name line and column.
//! - Selecting never fails, and a text from outside never makes it panic.
//! - With `force: false` no condition rule leaves a call without endpoints, except for a ban.

mod address;
mod chances;
mod condition;
mod condition_rule;
mod configurator;
mod error;
mod header;
mod parties;
mod pattern;
mod rule_set;
mod selection;
mod subset;
mod tag_rule;
mod without_effect;
mod yaml;

pub use chances::{Chance, Chances, WeightedDestination, WeightedDraw};
pub use condition_rule::ConditionRule;
pub use configurator::Configurators;
pub use error::{RuleError, RuleProblem};
pub use parties::{CallView, UrlView};
pub use rule_set::{Inputs, RuleSet};
pub use selection::{Clause, Effect, Removal, Selection, Step};
pub use subset::{Subset, apply_subsets};
pub use tag_rule::TagRule;
pub use without_effect::why_without_effect;

/// Parameter of providers, and attachment or parameter of callers: the tag.
pub const TAG: &str = "dubbo.tag";
/// Attachment or parameter of callers: `true` if endpoints without a tag are no substitute.
pub const FORCE_TAG: &str = "dubbo.force.tag";

#[cfg(test)]
mod tests;
