//! Which part of the traffic a call belongs to, by the splits of the configuration.

use std::borrow::Cow;
use std::sync::Arc;

use dubbo_proto::ServiceKey;
use flow::rules::{Clause, Effect, FORCE_TAG, Step, TAG};
use flow::split::{Share, choose, point_of};

use crate::config::{CallPart, CallTest, Split, SplitTarget};
use crate::facts::CallFacts;

/// The split that takes a call, among its own endpoints. Calls that go to another version or group
/// have gone there before.
pub(super) fn of_call<'a>(splits: &'a [Split], call: &dyn CallFacts) -> Option<&'a Split> {
    chosen(splits, call, |split| matches!(split.to, SplitTarget::Service(_)))
}

/// The service that a call goes to instead of `service`.
pub(super) fn detour(
    splits: &[Split],
    call: &dyn CallFacts,
    service: &ServiceKey,
) -> Option<ServiceKey> {
    match &chosen(splits, call, |_| false)?.to {
        SplitTarget::Service(other) => Some(other.of(service)).filter(|other| other != service),
        SplitTarget::Tag { .. } | SplitTarget::Endpoints(_) => None,
    }
}

/// Whether any of them leads to another version or group.
pub(super) fn has_detour(splits: &[Split]) -> bool {
    splits.iter().any(|split| matches!(split.to, SplitTarget::Service(_)))
}

fn chosen<'a>(
    splits: &'a [Split],
    call: &dyn CallFacts,
    is_elsewhere: impl Fn(&Split) -> bool,
) -> Option<&'a Split> {
    let fitting: Vec<&Split> = splits.iter().filter(|split| fits(split, call)).collect();
    let share = |split: &&Split| Share {
        percent: split.percent,
        point: split.sticky.as_ref().and_then(|part| value(part, call)).map(|it| point_of(&it)),
        is_elsewhere: is_elsewhere(split),
    };
    let shares: Vec<Share> = fitting.iter().map(share).collect();
    fitting.get(choose(&shares, &mut rand::rng())?).copied()
}

/// Whether a split is for calls like this one.
fn fits(split: &Split, call: &dyn CallFacts) -> bool {
    let passes = |CallTest { part, pattern }: &CallTest| {
        value(part, call).is_some_and(|value| match pattern.strip_suffix('*') {
            Some(beginning) => value.starts_with(beginning),
            None => *value == **pattern,
        })
    };
    split.is_for(&call.method()) && split.when.iter().all(passes)
}

fn value<'a>(part: &CallPart, call: &'a dyn CallFacts) -> Option<Cow<'a, str>> {
    match part {
        CallPart::Header(name) => call.header(name),
        CallPart::Attachment(name) => call.attachment(name),
        CallPart::Argument(index, path) if path.is_empty() => call.argument(*index),
        CallPart::Argument(index, path) => call.member(*index, path),
    }
}

/// What the tag that a split gives its calls makes of an attachment.
pub(super) fn tagged<'a>(split: Option<&'a Split>, name: &str) -> Option<Cow<'a, str>> {
    match &split?.to {
        SplitTarget::Tag { tag, .. } if name == TAG => Some(Cow::Borrowed(tag)),
        SplitTarget::Tag { force: true, .. } if name == FORCE_TAG => Some(Cow::Borrowed("true")),
        _ => None,
    }
}

/// What each split does to a call, if `taken` takes it among its own endpoints.
pub(super) fn steps(splits: &[Split], call: &dyn CallFacts, taken: Option<&Split>) -> Vec<Step> {
    let step = |split: &Split| {
        let is_detour = matches!(split.to, SplitTarget::Service(_));
        let effect = match fits(split, call) {
            false => Effect::OtherCalls,
            // Whether it is one of those is drawn before its endpoints are looked at.
            true if is_detour && split.percent == 100 => Effect::Drawn,
            true if taken.is_some_and(|taken| taken.name == split.name) => Effect::Drawn,
            true => Effect::NotDrawn,
        };
        let rule: Arc<str> = format!("split {} to {}", split.name, split.to).into();
        Step { rule, clause: Clause::Share(split.percent), effect }
    };
    splits.iter().map(step).collect()
}
