//! Calls that fail, by their code, where nothing else says why; and what an agent refuses for lack
//! of descriptors or memory.

mod remedies;

use std::collections::{BTreeMap, BTreeSet};

use agent::inspect::snapshot::{CallsSnapshot, ListenerSnapshot, ServiceSnapshot};

use self::remedies::is_callers_fault;
pub(super) use self::remedies::remedy;
use super::agent_pages::AgentLook;
use super::{Cause, Finding, OFTEN, bytes, counted, percent, recurs, share_of};

/// A part of the calls that fails so is worth a word, if it is not their callers' doing.
const MANY: f64 = 0.2;
/// Callers do wrong what they do, and apps throw exceptions as a matter of course, up to here.
const MOST: f64 = 0.5;
/// Fewer calls show nothing.
const MIN_CALLS: u64 = 10;
/// More services than these are told together.
const MAX_SERVICES: usize = 10;

/// What happened to calls on purpose.
const DELAYED: &str = "delay_injected";
pub(super) const ABORTED: &str = "abort_injected";
/// How calls end that another one was faster than, or whose caller has gone.
const CANCELLED: &str = "cancelled";

type Counts = BTreeMap<String, u64>;

/// How calls ended until now, as their callers saw it.
#[derive(Clone, Debug, Default)]
struct SeenCalls {
    ok: u64,
    failed: Counts,
}

impl SeenCalls {
    fn n_all(&self) -> u64 {
        self.ok + self.failed.values().sum::<u64>()
    }

    fn n_failed(&self, code: &str) -> u64 {
        self.failed.get(code).copied().unwrap_or(0)
    }

    fn add(&mut self, calls: &CallsSnapshot) {
        self.ok += calls.ok;
        for (code, n) in &calls.failed {
            *self.failed.entry(code.clone()).or_default() += n;
        }
    }

    fn since(&self, before: &Self) -> Self {
        let of_code =
            |(code, n): (&String, &u64)| (code.clone(), n.saturating_sub(before.n_failed(code)));
        let failed = self.failed.iter().map(of_code).filter(|(_, n)| *n != 0).collect();
        Self { ok: self.ok.saturating_sub(before.ok), failed }
    }

    /// The part of all calls that failed with a code.
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    fn share(&self, code: &str) -> f64 {
        self.n_failed(code) as f64 / self.n_all().max(1) as f64
    }
}

/// What an agent counts of the calls of a service at a look: of attempts at endpoints, of calls
/// that got none, and, of calls over HTTP, of what their callers saw.
#[derive(Clone, Debug, Default)]
struct CountedCalls {
    sent: SeenCalls,
    early: SeenCalls,
    methods: SeenCalls,
    retries: Counts,
}

impl CountedCalls {
    fn at(look: &AgentLook, service: &str) -> Self {
        let mut counted = Self::default();
        let snapshot = look.services.iter().find(|it| it.service == service);
        if let Some(ServiceSnapshot { failed_without_endpoint, retries, .. }) = snapshot {
            counted.early.failed.clone_from(failed_without_endpoint);
            counted.retries.clone_from(retries);
        }
        let endpoints = look.endpoints.iter().filter(|it| it.service == service);
        endpoints.for_each(|it| counted.sent.add(&it.calls));
        let methods = look.methods.iter().filter(|it| it.service == service);
        methods.for_each(|it| counted.methods.add(&it.calls));
        counted
    }

    /// How calls ended from one look to the next, each once. Dubbo's consumers are not counted by
    /// method: of those, an attempt that another one followed does not count.
    fn between(before: &Self, after: &Self) -> SeenCalls {
        let (methods, mut sent) =
            (after.methods.since(&before.methods), after.sent.since(&before.sent));
        sent.failed.remove(CANCELLED);
        for (code, n) in &mut sent.failed {
            let of = |it: &Self| it.retries.get(code).copied().unwrap_or(0);
            *n = n.saturating_sub(of(after).saturating_sub(of(before)));
        }
        let early = after.early.since(&before.early);
        if sent.n_all() + early.n_all() <= 2 * methods.n_all() {
            // Calls that got no route are not among those of methods.
            let mut ended = methods;
            for (code, n) in early.failed {
                let known = ended.failed.entry(code).or_default();
                *known = n.max(*known);
            }
            ended.failed.remove(CANCELLED);
            return ended;
        }
        for (code, n) in early.failed {
            *sent.failed.entry(code).or_default() += n;
        }
        sent
    }
}

/// Services of which many calls fail with one code, and nothing that was `found` says why.
pub(super) fn of_services(looks: &[AgentLook], found: &[Finding]) -> Vec<Finding> {
    let [_, .., last] = looks else { return Vec::new() };
    let names: BTreeSet<&str> = last.services.iter().map(|it| &*it.service).collect();
    let failing = names.into_iter().filter_map(|service| fails(looks, service, found));
    let mut findings: Vec<Finding> = failing.collect();
    if MAX_SERVICES < findings.len() {
        let more: Vec<Finding> = findings.split_off(MAX_SERVICES);
        if let Some(last) = findings.last_mut() {
            last.evidence.push(format!("so do calls of {} further services", more.len()));
        }
    }
    findings
}

fn fails(looks: &[AgentLook], service: &str, found: &[Finding]) -> Option<Finding> {
    let counted_at: Vec<CountedCalls> =
        looks.iter().map(|look| CountedCalls::at(look, service)).collect();
    let [first, .., last] = &counted_at[..] else { return None };
    let whole = CountedCalls::between(first, last);
    let (code, n) = whole.failed.iter().max_by_key(|(_, n)| **n)?;
    let least = if is_callers_fault(code) { MOST } else { MANY };
    let is_many = |ended: &SeenCalls| least <= ended.share(code);
    let steps = counted_at.windows(2).map(|pair| CountedCalls::between(&pair[0], &pair[1]));
    let active: Vec<SeenCalls> = steps.filter(|it| it.n_all() != 0).collect();
    let often = share_of(&active, is_many).is_some_and(|share| OFTEN <= share);
    let injected = grown(looks, service, ABORTED);
    if whole.n_all() < MIN_CALLS || !is_many(&whole) || !often || *n <= 2 * injected {
        return None;
    }
    if is_explained(looks, service, code, found) {
        return None;
    }
    let mut evidence = vec![format!("{n} of {}", counted(whole.n_all(), "call", "calls"))];
    let others = whole.failed.iter().filter(|(other, _)| *other != code);
    let others: Vec<String> = others.take(5).map(|(other, n)| format!("{n} {other}")).collect();
    if !others.is_empty() {
        evidence.push(format!("others failed, too: {}", others.join(", ")));
    }
    Some(Finding {
        cause: Cause::CallsFail,
        subject: service.to_owned(),
        verdict: format!("{} of its calls fail with {code}", percent(whole.share(code))),
        evidence,
        remedy: remedy(code, service),
    })
}

/// By how much a count of what happened to a service's calls has grown.
pub(super) fn grown(looks: &[AgentLook], service: &str, event: &str) -> u64 {
    let at = |look: &AgentLook| {
        let found = look.services.iter().find(|it| it.service == service);
        found.and_then(|it| it.method_events.get(event)).copied().unwrap_or(0)
    };
    let [first, .., last] = looks else { return 0 };
    at(last).saturating_sub(at(first))
}

/// Whether a finding says already why calls of a service fail so.
fn is_explained(looks: &[AgentLook], service: &str, code: &str, found: &[Finding]) -> bool {
    let addresses: Vec<&str> = looks
        .last()
        .into_iter()
        .flat_map(|look| &look.endpoints)
        .filter(|it| it.service == service)
        .map(|it| &*it.address)
        .collect();
    let is_of_service = |it: &Finding| {
        it.subject.contains(service)
            || it.subject.starts_with("app ")
            || it.cause == Cause::NoProcessor
            || addresses.iter().any(|address| it.subject.ends_with(address))
    };
    let causes: &[Cause] = match code {
        "timeout" => &[
            Cause::NoAnswer,
            Cause::SlowProvider,
            Cause::ConnectionFull,
            Cause::CallsWait,
            Cause::PoolFull,
            Cause::NoProcessor,
            Cause::SendBuffer,
            Cause::PeerReadsSlowly,
            Cause::ReadsSlowly,
            Cause::FaultsInjected,
        ],
        "overloaded" => &[
            Cause::PoolFull,
            Cause::CallsWait,
            Cause::MemoryFull,
            Cause::SlowProvider,
            Cause::NoProcessor,
        ],
        "thread_pool_exhausted" => &[Cause::PoolRejects, Cause::PoolFull],
        "service_not_found" | "no_endpoint" => &[Cause::NoEndpoint, Cause::EndpointOut],
        "unreachable" | "connection_broken" | "refused" => &[Cause::EndpointOut],
        "fault_injected" => &[Cause::FaultsInjected],
        _ => &[],
    };
    let names_code = |it: &Finding| it.cause == Cause::CallsFail && it.verdict.contains(code);
    let explains = |it: &Finding| causes.contains(&it.cause) || names_code(it);
    found.iter().any(|it| explains(it) && (is_of_service(it) || it.cause == Cause::MemoryFull))
}

/// Services whose calls are delayed, or fail, because the configuration says so.
pub(super) fn of_faults(looks: &[AgentLook]) -> Vec<Finding> {
    let [_, .., last] = looks else { return Vec::new() };
    let names: BTreeSet<&str> = last.services.iter().map(|it| &*it.service).collect();
    names.into_iter().filter_map(|service| faults(looks, service)).collect()
}

/// Whether calls of a service are delayed on purpose, again and again.
pub(super) fn is_delayed(looks: &[AgentLook], service: &str) -> bool {
    recurs(looks.windows(2).map(|pair| grown(pair, service, DELAYED) != 0))
}

fn faults(looks: &[AgentLook], service: &str) -> Option<Finding> {
    let happens = |event| recurs(looks.windows(2).map(|pair| grown(pair, service, event) != 0));
    let (delays, aborts) = (happens(DELAYED), happens(ABORTED));
    if !delays && !aborts {
        return None;
    }
    let n_delayed = counted(grown(looks, service, DELAYED), "call was", "calls were");
    let n_aborted = counted(grown(looks, service, ABORTED), "call was", "calls were");
    let what = match (delays, aborts) {
        (true, true) => "delays calls and has calls fail",
        (true, false) => "delays calls",
        _ => "has calls fail",
    };
    let mut evidence = Vec::new();
    if delays {
        evidence.push(format!("{n_delayed} delayed meanwhile (fault_delay_ms)"));
    }
    if aborts {
        evidence.push(format!("{n_aborted} made to fail meanwhile (fault_abort_percent)"));
    }
    Some(Finding {
        cause: Cause::FaultsInjected,
        subject: service.to_owned(),
        verdict: format!("the configuration of this agent {what}, as a test"),
        evidence,
        remedy: format!(
            "if the test is over, remove the keys fault_* from the [[cluster.method]] that holds \
             for it (dubmesh explain {service} METHOD shows which)"
        ),
    })
}

/// What an agent refuses because it has no descriptors, connections or memory left.
pub(super) fn of_limits(looks: &[AgentLook]) -> Vec<Finding> {
    let [_, .., last] = looks else { return Vec::new() };
    let refused = last.listeners.iter().filter_map(|it| refuses_connections(looks, &it.listener));
    refused.chain(memory_full(looks)).collect()
}

fn refuses_connections(looks: &[AgentLook], listener: &str) -> Option<Finding> {
    let at = |look: &AgentLook, of: fn(&ListenerSnapshot) -> u64| {
        look.listeners.iter().find(|it| it.listener == listener).map_or(0, of)
    };
    let grown = |looks: &[AgentLook], of| match looks {
        [first, .., last] => at(last, of).saturating_sub(at(first, of)),
        _ => 0,
    };
    let recurs = |of| recurs(looks.windows(2).map(|pair| grown(pair, of) != 0));
    let no_files: fn(&ListenerSnapshot) -> u64 = |it| it.refused_no_files;
    let full: fn(&ListenerSnapshot) -> u64 = |it| it.refused_full;
    let (of, why, remedy) = if recurs(no_files) {
        let remedy = "raise the limit of file descriptors (ulimit -n, LimitNOFILE of systemd), or \
                      have callers keep fewer connections";
        (no_files, "the process has no file descriptors left but reserved ones", remedy)
    } else if recurs(full) {
        let remedy = "raise max_connections of this listener, or have callers keep fewer \
                      connections";
        (full, "it has as many as it may have", remedy)
    } else {
        return None;
    };
    let last = looks.last()?;
    let mut evidence = vec![
        format!("{} closed at once meanwhile", counted(grown(looks, of), "was", "were")),
        format!("{} open", counted(at(last, |it| it.open), "connection is", "connections are")),
    ];
    let files = last.process.as_ref().and_then(|it| it.open_files.zip(it.max_files));
    evidence.extend(files.map(|(open, max)| format!("{open} of {max} descriptors are open")));
    Some(Finding {
        cause: Cause::ConnectionsRefused,
        subject: format!("listener {listener}"),
        verdict: format!("connections are refused: {why}"),
        evidence,
        remedy: remedy.to_owned(),
    })
}

fn memory_full(looks: &[AgentLook]) -> Option<Finding> {
    let memory = |look: &AgentLook| look.process.as_ref()?.memory;
    let grown = |looks: &[AgentLook]| match looks {
        [first, .., last] => {
            Some(memory(last)?.refused.saturating_sub(memory(first)?.refused)).filter(|n| *n != 0)
        }
        _ => None,
    };
    if !recurs(looks.windows(2).map(|pair| grown(pair).is_some())) {
        return None;
    }
    let (n, now) = (grown(looks)?, memory(looks.last()?)?);
    let most = looks.iter().filter_map(memory).map(|it| it.used_bytes).max().unwrap_or(0);
    Some(Finding {
        cause: Cause::MemoryFull,
        subject: "this agent".to_owned(),
        verdict: "connections are refused memory: the budget for all of them is used up".to_owned(),
        evidence: vec![
            format!("that was so {} meanwhile", counted(n, "time", "times")),
            format!(
                "at most {} of {} were held at a look",
                bytes(most as u64),
                bytes(now.limit_bytes as u64)
            ),
        ],
        remedy: "raise memory_bytes of [agent], if the machine has more; or have callers send and \
                 ask for less at a time"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests;
