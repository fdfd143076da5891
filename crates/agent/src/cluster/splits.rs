//! Which part of the traffic a call belongs to, by the splits of the configuration.

use std::borrow::Cow;
use std::sync::Arc;

use dubbo_proto::ServiceKey;
use flow::rules::{Clause, Effect, FORCE_TAG, Step, TAG};
use flow::split::{POINTS, Share, choose, parts, point_of};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::config::{CallPart, CallTest, Split, SplitTarget};
use crate::facts::CallFacts;

/// What chance says of a call: the same for all of its attempts, so that a call that goes to a
/// second endpoint stays in its part of the traffic.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallDraw(pub(super) u64);

impl CallDraw {
    /// Of a new call.
    pub(super) fn new() -> Self {
        Self(rand::random())
    }
}

/// The split that takes a call, among its own endpoints. Calls that go to another version or group
/// have gone there before.
pub(super) fn of_call<'a>(
    splits: &'a [Split],
    call: &dyn CallFacts,
    service: &ServiceKey,
    CallDraw(seed): CallDraw,
) -> Option<&'a Split> {
    if splits.is_empty() {
        return None;
    }
    let (fitting, shares) = shares(splits, call, service, is_detour);
    let index = choose(&shares, &mut SmallRng::seed_from_u64(seed))?;
    fitting.get(index).copied()
}

/// All that chance can make of a call among its own endpoints, each with its part of a hundred
/// calls.
pub(super) fn all_of_call<'a>(
    splits: &'a [Split],
    call: &dyn CallFacts,
    service: &ServiceKey,
) -> Vec<(f64, Option<&'a Split>)> {
    let (fitting, shares) = shares(splits, call, service, is_detour);
    let (parts, none) = parts(&shares);
    let taken = parts.into_iter().zip(fitting).map(|(percent, split)| (percent, Some(split)));
    taken.chain([(none, None)]).filter(|(percent, _)| *percent != 0.0).collect()
}

/// The service that a call goes to instead of `service`.
pub(super) fn detour(
    splits: &[Split],
    call: &dyn CallFacts,
    service: &ServiceKey,
) -> Option<ServiceKey> {
    let (fitting, shares) = shares(splits, call, service, |_| false);
    match &fitting.get(choose(&shares, &mut rand::rng())?)?.to {
        SplitTarget::Service(other) => Some(other.of(service)).filter(|other| other != service),
        SplitTarget::Tag { .. } | SplitTarget::Endpoints(_) => None,
    }
}

/// What an explanation says of a split whose endpoints all have weight 0, so that its calls go as
/// if there were no split. `None` if they go nowhere else.
pub(super) fn without_weight(split: &Split) -> Option<Step> {
    let clause = match &split.to {
        SplitTarget::Tag { tag, force: false } => Clause::Tag(tag.clone()),
        SplitTarget::Endpoints(subset) if !subset.force => Clause::Subset,
        _ => return None,
    };
    let rule = format!("split {}", split.name).into();
    Some(Step { rule, clause, effect: Effect::Weightless })
}

fn is_detour(split: &Split) -> bool {
    matches!(split.to, SplitTarget::Service(_))
}

/// Whether any of them leads to another version or group.
pub(super) fn has_detour(splits: &[Split]) -> bool {
    splits.iter().any(is_detour)
}

/// The splits that are for calls like this one, and what each takes of them.
fn shares<'a>(
    splits: &'a [Split],
    call: &dyn CallFacts,
    service: &ServiceKey,
    is_elsewhere: impl Fn(&Split) -> bool,
) -> (Vec<&'a Split>, Vec<Share>) {
    let fitting = splits.iter().filter(|split| fits(split, call, service));
    let share = |split: &Split| Share {
        percent: split.percent,
        point: split
            .sticky
            .as_ref()
            .and_then(|part| value(part, call, service))
            .map(|it| point_of(&it)),
        is_elsewhere: is_elsewhere(split),
    };
    fitting.map(|split| (split, share(split))).unzip()
}

/// Whether a split is for calls like this one, of `service`.
fn fits(split: &Split, call: &dyn CallFacts, service: &ServiceKey) -> bool {
    let passes = |CallTest { part, pattern }: &CallTest| {
        value(part, call, service).is_some_and(|value| match pattern.strip_suffix('*') {
            Some(beginning) => value.starts_with(beginning),
            None => *value == **pattern,
        })
    };
    split.is_for(&call.method())
        && split.when.iter().all(passes)
        && !is_asked_for_otherwise(split, service)
}

/// Whether a split would give its callers another version or group than they ask for.
fn is_asked_for_otherwise(split: &Split, service: &ServiceKey) -> bool {
    let is_asked = |asked: &str| !matches!(asked, "" | "*");
    let ServiceKey { version, group, .. } = service;
    is_asked(version) && split.is_for_unasked(&CallPart::Version)
        || is_asked(group) && split.is_for_unasked(&CallPart::Group)
}

fn value<'a>(
    part: &CallPart,
    call: &'a dyn CallFacts,
    service: &'a ServiceKey,
) -> Option<Cow<'a, str>> {
    let asked = |text: &'a str| (!text.is_empty()).then_some(Cow::Borrowed(text));
    match part {
        CallPart::Version => asked(&service.version),
        CallPart::Group => asked(&service.group),
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
pub(super) fn steps(
    splits: &[Split],
    call: &dyn CallFacts,
    service: &ServiceKey,
    taken: Option<&Split>,
) -> Vec<Step> {
    let (_, shares) = shares(splits, call, service, |_| false);
    let (parts, _) = parts(&shares);
    let (mut parts, mut n_left) = (parts.into_iter(), POINTS);
    let mut step = |split: &Split| {
        let is_fitting = fits(split, call, service);
        let part = if is_fitting { parts.next().unwrap_or(0.0) } else { 0.0 };
        let width = split.percent.min(n_left);
        let effect = match is_fitting {
            false => Effect::OtherCalls,
            true if width == 0 => Effect::NoneLeft,
            // Whether it is one of those is drawn before its endpoints are looked at.
            true if is_detour(split) && part == 0.0 => Effect::NotDrawn,
            true if is_detour(split) && part == 100.0 => Effect::Drawn,
            true if is_detour(split) => Effect::Detour,
            true if taken.is_some_and(|taken| taken.name == split.name) => Effect::Drawn,
            true => Effect::NotDrawn,
        };
        // What the splits before it leave to it.
        let percent = if is_fitting && width != 0 { width } else { split.percent };
        if is_fitting {
            n_left -= width;
        }
        let rule: Arc<str> = format!("split {} to {}", split.name, split.to).into();
        Step { rule, clause: Clause::Share(percent), effect }
    };
    splits.iter().map(&mut step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::testing::HeaderFacts;

    #[test]
    fn a_split_takes_what_those_before_it_leave() {
        const BETA: (&str, &str) = ("beta", "when = { 'header:x-user' = 'beta*' }\ntag = 'gray'");
        const CANARY: (&str, &str) = ("canary", "percent = 60\nversion = '2.0'");
        const SOME: (&str, &str) =
            ("some", "percent = 70\nwhen = { 'header:x-user' = 'z*' }\nversion = '3.0'");
        const ALL: (&str, &str) = ("all", "when = { 'header:x-user' = '*' }\nversion = '4.0'");
        const STICKY: (&str, &str) = (
            "sticky",
            "percent = 50\nwhen = { 'header:x-user' = '*' }\nversion = '5.0'\n\
             sticky = 'header:x-user'",
        );
        let service: ServiceKey = "a.B".parse().unwrap();
        for (user, splits, expected) in [
            (&[("x-user", "beta1")], vec![BETA, CANARY], vec!["100% drawn", "60% none-left"]),
            (&[("x-user", "zoe")], vec![BETA, CANARY], vec!["100% other-calls", "60% detour"]),
            (&[("x-user", "zoe")], vec![SOME, CANARY], vec!["70% detour", "30% detour"]),
            (&[("x-user", "ann")], vec![SOME, CANARY], vec!["70% other-calls", "60% detour"]),
            (&[("x-user", "zoe")], vec![ALL, CANARY], vec!["100% drawn", "60% none-left"]),
            // Users have points of their own.
            (&[("x-user", "ann")], vec![STICKY, CANARY], vec!["50% not-drawn", "50% detour"]),
            (&[("x-user", "bob")], vec![STICKY, CANARY], vec!["50% drawn", "50% not-drawn"]),
        ] {
            let write = |(name, keys)| format!("[[cluster.split]]\nname = '{name}'\n{keys}\n");
            let keys: String = splits.into_iter().map(write).collect();
            let text = format!(
                "[[registry]]\nname = 'main'\nkind = 'file'\npath = 'x'\n\
                 [[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n\
                 [[cluster]]\ninterface = 'a.B'\n{keys}"
            );
            let config = parse(&text, "test.toml").unwrap();
            let splits = &config.clusters.policy("a.B").routing.splits;
            let call = HeaderFacts(user);
            let taken = (0..100).find_map(|n| of_call(splits, &call, &service, CallDraw(n)));
            let steps = steps(splits, &call, &service, taken);
            let shown = steps.iter().map(|step| match step.clause {
                Clause::Share(percent) => format!("{percent}% {}", step.effect.name()),
                _ => unreachable!("of a split"),
            });
            assert_eq!(shown.collect::<Vec<_>>(), expected, "{user:?} {keys}");
        }
    }
}
