//! Methods that take long beside quick ones, which hide them in the mean of their endpoint.

use std::collections::BTreeMap;

use agent::inspect::snapshot::{ConnectionSnapshot, MethodSnapshot};

use super::agent_pages::AgentLook;
use super::{Cause, Finding, OFTEN, counted, failing, processor, recurs, slow, time};

/// The calls of which the method is not known.
const OTHER: &str = "other";
/// The network is no cause if its round trip takes less than one part of so many of a call.
const ROUND_TRIP_PARTS: f64 = 10.0;
/// More methods than these are told together.
const MAX_METHODS: usize = 5;

/// What the good answers of a method took from one look to the next.
struct MethodAnswers {
    n: u64,
    total_ms: f64,
}

impl MethodAnswers {
    fn between(before: Option<&MethodSnapshot>, after: &MethodSnapshot) -> Self {
        let total = |it: &MethodSnapshot| it.calls.ok_total_ms.unwrap_or(0.0);
        let n_before = before.map_or(0, |it| it.calls.n_answers());
        Self {
            n: after.calls.n_answers().saturating_sub(n_before),
            total_ms: (total(after) - before.map_or(0.0, total)).max(0.0),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn mean_ms(&self) -> f64 {
        if self.n == 0 { 0.0 } else { self.total_ms / self.n as f64 }
    }

    fn is_slow(&self) -> bool {
        slow::SLOW_MS <= self.mean_ms()
    }
}

/// Methods whose calls take long, of services of which nothing was `found`.
pub(super) fn of_methods(looks: &[AgentLook], found: &[Finding]) -> Vec<Finding> {
    let [_, .., last] = looks else { return Vec::new() };
    let mut by_service: BTreeMap<&str, Vec<(&str, MethodAnswers)>> = BTreeMap::new();
    for method in &last.methods {
        let is_told = found
            .iter()
            .any(|it| it.cause == Cause::NoProcessor || it.subject.contains(&*method.service));
        if method.method == OTHER || is_told || failing::is_delayed(looks, &method.service) {
            continue;
        }
        if let Some(took) = slow_one(looks, method) {
            by_service.entry(&method.service).or_default().push((&method.method, took));
        }
    }
    by_service.into_iter().map(|(service, slow)| told(looks, service, slow)).collect()
}

fn slow_one(looks: &[AgentLook], method: &MethodSnapshot) -> Option<MethodAnswers> {
    let at = |look: &'_ AgentLook| {
        let is_it =
            |it: &&MethodSnapshot| (&it.service, &it.method) == (&method.service, &method.method);
        look.methods.iter().find(is_it).cloned()
    };
    let seen: Vec<Option<MethodSnapshot>> = looks.iter().map(at).collect();
    let steps = seen
        .windows(2)
        .filter_map(|pair| Some(MethodAnswers::between(pair[0].as_ref(), pair[1].as_ref()?)));
    let steps: Vec<MethodAnswers> = steps.collect();
    let (n_active, n_slow) = (
        steps.iter().filter(|it| it.n != 0).count(),
        steps.iter().filter(|it| it.is_slow()).count(),
    );
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let is_usual = OFTEN <= n_slow as f64 / n_active.max(1) as f64;
    let whole = MethodAnswers::between(seen.first()?.as_ref(), method);
    let mean_ms = whole.mean_ms();
    let is_far = mean_ms * 1e3 < ROUND_TRIP_PARTS * slowest_round_trip_us(looks, &method.service);
    let is_chance = !recurs(steps.iter().map(MethodAnswers::is_slow)) || !is_usual;
    if is_chance || !whole.is_slow() || is_far || processor::explains(looks, mean_ms) {
        return None;
    }
    Some(whole)
}

/// To an endpoint of a service.
fn slowest_round_trip_us(looks: &[AgentLook], service: &str) -> f64 {
    let Some(last) = looks.last() else { return 0.0 };
    let is_there = |it: &&ConnectionSnapshot| {
        let mut own = last.endpoints.iter().filter(|endpoint| endpoint.service == service);
        it.direction == "upstream" && own.any(|endpoint| endpoint.address == it.peer)
    };
    let us = |it: &ConnectionSnapshot| it.tcp.as_ref()?.rtt_us.map(f64::from);
    last.connections.iter().filter(is_there).filter_map(us).fold(0.0, f64::max)
}

fn told(looks: &[AgentLook], service: &str, mut slow: Vec<(&str, MethodAnswers)>) -> Finding {
    slow.sort_by(|(_, a), (_, b)| b.mean_ms().total_cmp(&a.mean_ms()));
    let line = |(method, took): &(&str, MethodAnswers)| {
        format!(
            "{method}: {} took {} on average",
            counted(took.n, "good answer", "good answers"),
            time(took.mean_ms() * 1e3)
        )
    };
    let mut evidence: Vec<String> = slow.iter().take(MAX_METHODS).map(line).collect();
    if MAX_METHODS < slow.len() {
        evidence.push(format!("so did those of {} more", slow.len() - MAX_METHODS));
    }
    let n_others = looks.last().map_or(0, |look| {
        look.methods.iter().filter(|it| it.service == service && it.method != OTHER).count()
    });
    let n_others = n_others.saturating_sub(slow.len());
    if n_others != 0 {
        let others = counted(n_others as u64, "other method is", "other methods are");
        evidence.push(format!("{others} quick, or not called"));
    }
    let names: Vec<&str> = slow.iter().take(MAX_METHODS).map(|(method, _)| *method).collect();
    Finding {
        cause: Cause::SlowMethod,
        subject: service.to_owned(),
        verdict: format!("calls of {} take long", names.join(", ")),
        evidence,
        remedy: format!(
            "see what these calls wait for at the provider (jstack: a lock, a database); dubmesh \
             top --view stages and dubmesh tap {service} show where their time goes"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{endpoint, look, looks, method, of_agent};
    use super::*;

    /// A quick method with many calls, and one whose calls are these at each look.
    fn found(of_slow: impl Fn(u64) -> (u64, f64)) -> Vec<Finding> {
        of_agent(&looks(20, |nth| {
            let (n, each_ms) = of_slow(nth);
            let mut look = look(endpoint(0, 0.0, &[]), 200);
            look.endpoints[0].calls.in_flight = 0;
            look.methods = vec![method("find", 50 * nth, 4.0), method("report", n, each_ms)];
            look
        }))
    }

    #[test]
    fn a_slow_method_beside_quick_ones_is_named() {
        let findings = found(|nth| (nth, 1_500.0));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((finding.cause, &*finding.subject), (Cause::SlowMethod, "com.acme.Orders"));
        assert_eq!(finding.verdict, "calls of report take long");
        assert_eq!(
            finding.evidence,
            [
                "report: 19 good answers took 1.5 s on average",
                "1 other method is quick, or not called"
            ]
        );
        assert_eq!(found(|nth| (nth, 150.0)), [], "it is not slow");
        assert_eq!(found(|nth| (nth / 9, 1_500.0)), [], "two calls");
    }

    /// As a garbage collector does.
    #[test]
    fn one_pause_makes_no_slow_method() {
        let paused =
            |nth: u64| if 9 < nth { (5 * nth, 4.0 + 400.0 / nth as f64) } else { (5 * nth, 4.0) };
        assert_eq!(found(paused), []);
    }

    #[test]
    fn a_long_way_makes_no_slow_method() {
        let far = looks(20, |nth| {
            let mut look = look(endpoint(0, 0.0, &[]), 120_000);
            look.endpoints[0].calls.in_flight = 0;
            look.methods = vec![method("find", 50 * nth, 250.0)];
            look
        });
        assert_eq!(of_agent(&far), []);
    }
}
