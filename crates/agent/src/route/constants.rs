//! Which texts are sent as constants of enums.
//!
//! A definition of Dubbo's lists what `toString()` of the constants gives (`EnumTypeBuilder` of
//! 2.7 and 3), but only a name makes a constant. Of another text hessian-lite of Dubbo 2, fastjson
//! and fastjson2 make null, and the method is called with it. A generic call is refused instead
//! (`PojoUtils` calls `Enum.valueOf`). So a text goes in a generic call until an answer has proved
//! that it is a name. A text that is not listed may be one, too: the provider knows.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use dubbo_proto::definition::ClassDefinition;
use hessian::JavaType;
use hessian::transcode::Schema;
use java_json::expected;
use java_json::named::is_constant;

use super::Plan;
use crate::error::{CallError, Code};

/// So many names of one method are remembered. Further ones always go in generic calls.
const MAX_PROVED: usize = 1024;
/// A longer name is not remembered, in bytes.
const MAX_NAME_LEN: usize = 256;
/// How a provider refuses a generic call with a text that is no constant: the JVM's words.
const NO_CONSTANT: &str = "No enum constant ";

/// Which texts are written as constants of an enum whose values are listed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum ConstantRule {
    /// Those that are listed. No generic call would tell more.
    #[default]
    Certain,
    /// Those that are listed, for the provider refuses what is no name.
    Listed,
    /// Those that are listed and written like names, and what was proved: the answer of a generic
    /// call would be another.
    Capitals,
    /// What was proved to be a name.
    Proved,
    /// Any: the provider refuses what is no name.
    Any,
}

/// The texts that a method's callers send as constants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constants {
    rule: Cell<ConstantRule>,
    /// By the name of the enum.
    proved: RefCell<HashMap<Box<str>, HashSet<Box<str>>>>,
    n_proved: Cell<usize>,
}

impl Constants {
    pub(super) fn by(rule: ConstantRule) -> Self {
        Self { rule: Cell::new(rule), ..Self::default() }
    }

    pub(crate) fn rule(&self) -> ConstantRule {
        self.rule.get()
    }

    /// How those are written from now on that no generic call has.
    #[inline]
    pub(crate) fn set_rule(&self, rule: ConstantRule) {
        self.rule.set(rule);
    }

    /// Remembers that these are names.
    pub(crate) fn prove(&self, constants: &[Constant]) {
        let mut proved = self.proved.borrow_mut();
        for Constant { class, name } in constants.iter().filter(|it| it.name.len() <= MAX_NAME_LEN)
        {
            if MAX_PROVED <= self.n_proved.get() {
                return;
            }
            let is_new = proved.entry(class.clone()).or_default().insert(name.clone());
            self.n_proved.set(self.n_proved.get() + usize::from(is_new));
        }
    }

    /// Takes that back.
    pub(crate) fn forget(&self, constants: &[Constant]) {
        let mut proved = self.proved.borrow_mut();
        for Constant { class, name } in constants {
            let was_known = proved.get_mut(class).is_some_and(|names| names.remove(name));
            self.n_proved.set(self.n_proved.get() - usize::from(was_known));
        }
    }

    /// Whether a text is written as a constant of an enum that lists these.
    pub(super) fn take(&self, class: &str, name: &str, listed: &[Box<str>]) -> bool {
        let is_listed = || listed.iter().any(|one| **one == *name);
        let is_taken = match self.rule.get() {
            ConstantRule::Any => true,
            ConstantRule::Certain | ConstantRule::Listed => is_listed(),
            ConstantRule::Capitals => is_constant(name) && is_listed(),
            ConstantRule::Proved => false,
        };
        is_taken || self.proved.borrow().get(class).is_some_and(|names| names.contains(name))
    }
}

/// A text where an enum is declared whose values are listed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Constant {
    pub(crate) class: Box<str>,
    pub(crate) name: Box<str>,
}

/// What a plan knows, for looking through arguments: takes every text, and notes it.
pub(crate) struct NotedConstants<'p> {
    plan: &'p Plan,
    found: RefCell<Vec<Constant>>,
}

impl<'p> NotedConstants<'p> {
    pub(crate) fn of(plan: &'p Plan) -> Self {
        Self { plan, found: RefCell::default() }
    }

    /// What was found, in the order of the arguments.
    pub(crate) fn into_found(self) -> Vec<Constant> {
        self.found.into_inner()
    }
}

impl Schema for NotedConstants<'_> {
    fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
        self.plan.field_type(class, field)
    }

    fn knows_arguments(&self, class: &str) -> bool {
        self.plan.knows_arguments(class)
    }

    fn enum_names(&self, class: &str) -> Option<&[Box<str>]> {
        self.plan.enum_names(class)
    }

    fn takes_constant(&self, class: &str, name: &str) -> bool {
        if self.plan.enum_names(class).is_some() {
            self.found.borrow_mut().push(Constant { class: class.into(), name: name.into() });
        }
        true
    }

    fn is_enum(&self, class: &str) -> Option<bool> {
        self.plan.is_enum(class)
    }

    fn takes_text(&self, class: &str) -> bool {
        self.plan.takes_text(class)
    }

    fn takes_no_map(&self, class: &str) -> bool {
        self.plan.takes_no_map(class)
    }
}

/// Whether a provider refused a generic call for a text that is no constant.
pub(crate) fn is_no_constant(error: &CallError) -> bool {
    error.code == Code::BadArguments && error.message.contains(NO_CONSTANT)
}

/// The refusal of a text that is no constant, with what its definition lists.
pub(crate) fn advise(error: CallError, plan: &Plan) -> CallError {
    let Some(definition) = plan.schema.as_deref().filter(|_| is_no_constant(&error)) else {
        return error;
    };
    let refused = error.message.split_once(NO_CONSTANT).and_then(|(_, rest)| rest.lines().next());
    // Java names a nested class with a point.
    let name_in = |class: &str| {
        let name = refused?.strip_prefix(&class.replace('$', "."))?;
        name.strip_prefix('.')
    };
    let classes = definition.service.classes.iter();
    let mut enums = classes.filter(|(_, class)| matches!(class, ClassDefinition::Enum(_)));
    let Some((class, name)) = enums.find_map(|(class, _)| Some((class, name_in(class)?))) else {
        return error;
    };
    let summary = error.summary();
    let names = definition.service.enum_names(class).unwrap_or_default();
    let message = match names.iter().any(|one| **one == *name) {
        true => format!(
            "{summary}; {} lists {name} because Dubbo's definitions have what toString() gives: \
             send the name of the constant",
            definition.origin
        ),
        false => {
            let (found, expected) =
                (expected::quoted(name), expected::enum_values(&definition.service, class));
            format!("{found} is not {expected}; the provider says: {summary}")
        }
    };
    CallError { message: message.into(), provider_status: None, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_says_what_is_written_without_proof() {
        use ConstantRule::{Any, Capitals, Certain, Listed, Proved};
        let listed: [Box<str>; 3] = ["RED".into(), "dark".into(), "A b".into()];
        for (rule, expected) in [
            (Certain, [true, true, false]),
            (Listed, [true, true, false]),
            (Capitals, [true, false, false]),
            (Proved, [false, false, false]),
            (Any, [true, true, true]),
        ] {
            let constants = Constants::by(rule);
            let taken = ["RED", "dark", "DARK"].map(|name| constants.take("a.B", name, &listed));
            assert_eq!(taken, expected, "{rule:?}");
            let dark = [Constant { class: "a.B".into(), name: "DARK".into() }];
            constants.prove(&dark);
            assert!(constants.take("a.B", "DARK", &listed), "{rule:?}");
            assert_eq!(constants.take("a.C", "DARK", &listed), rule == Any);
            constants.forget(&dark);
            assert_eq!(constants.take("a.B", "DARK", &listed), rule == Any);
        }
    }

    #[test]
    fn few_names_are_remembered() {
        let constants = Constants::by(ConstantRule::Proved);
        let named = |n: usize| Constant { class: "a.B".into(), name: n.to_string().into() };
        let many: Vec<Constant> = (0..=MAX_PROVED).map(named).collect();
        constants.prove(&many);
        constants.prove(&many);
        let is_taken = |n: usize| constants.take("a.B", &n.to_string(), &[]);
        assert!(is_taken(0) && is_taken(MAX_PROVED - 1) && !is_taken(MAX_PROVED));
        let long = Constant { class: "a.B".into(), name: "x".repeat(MAX_NAME_LEN + 1).into() };
        constants.forget(&[named(0), named(MAX_PROVED)]);
        constants.prove(std::slice::from_ref(&long));
        assert!(!constants.take("a.B", &long.name, &[]));
        constants.prove(&[named(MAX_PROVED)]);
        assert!(!is_taken(0) && is_taken(MAX_PROVED));
    }
}
