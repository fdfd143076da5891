//! In which stages the time of calls goes, as an agent's clocks show it.

use agent::inspect::snapshot::{EndpointSnapshot, ServiceSnapshot, StagesSnapshot};
use agent::stages::Stage;

use super::agent_pages::AgentLook;
use super::{Cause, Finding, OFTEN, counted, failing, percent, processor, share_of, slow, time};

/// Waiting that takes less of a call is no cause.
const MIN_WAIT_SHARE: f64 = 0.2;
/// Nor is waiting that takes less time, in milliseconds.
const MIN_WAIT_MS: f64 = 20.0;
/// Whoever decodes for so long holds up all other calls of his thread, in milliseconds.
const LONG_CODING_MS: f64 = 10.0;
/// On a busy machine, so much of the time that coding takes may be work, and the rest waiting for
/// a processor.
const MIN_CODING_SHARE: f64 = 0.2;

const MORE_PROVIDERS: &str = "add providers or threads, or find out what its calls wait for; a \
                              larger capacity (endpoint_capacity, or capacity of [[export]]) helps \
                              only if the app has room";

/// What the calls of a service did between two looks, on average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    /// How many calls they are of.
    pub(super) n_calls: u64,
    ms: [f64; agent::stages::N_STAGES],
}

impl Means {
    /// `None` if no call of the service was timed between the looks.
    fn between(before: &AgentLook, after: &AgentLook, calls: TimedCalls<'_>) -> Option<Self> {
        let of = |look: &AgentLook| calls.find(look).cloned();
        let after = of(after)?;
        let before = of(before).filter(|it| it.calls <= after.calls).unwrap_or_default();
        let n_calls = after.calls - before.calls;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let n = n_calls as f64;
        let total = |it: &StagesSnapshot, name| it.total_ms.get(name).copied().unwrap_or(0.0);
        let mean = |stage: Stage| {
            (total(&after, stage.name()) - total(&before, stage.name())).max(0.0) / n
        };
        (n_calls != 0).then(|| Self { n_calls, ms: Stage::ALL.map(mean) })
    }

    /// How long calls are in a stage, in milliseconds.
    pub(super) fn ms(&self, stage: Stage) -> f64 {
        self.ms[stage as usize]
    }

    /// How long all of them were in a stage together, in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn total_ms(&self, stage: Stage) -> f64 {
        self.ms(stage) * self.n_calls as f64
    }

    /// The part of a call's time in a stage, without what its own caller takes.
    pub(super) fn share(&self, stage: Stage) -> f64 {
        let own = [Stage::Read, Stage::Answer];
        let all = Stage::ALL.into_iter().filter(|it| !own.contains(it));
        let all: f64 = all.map(|stage| self.ms(stage)).sum();
        if all == 0.0 { 0.0 } else { self.ms(stage) / all }
    }

    /// The same of the time after the call was sent: what it waited for before is not the
    /// endpoint's doing.
    pub(super) fn share_once_sent(&self, stage: Stage) -> f64 {
        let rest = 1.0 - self.share(Stage::Wait);
        if rest <= 0.0 { 0.0 } else { (self.share(stage) / rest).min(1.0) }
    }

    fn coding_ms(&self) -> f64 {
        self.ms(Stage::Encode).max(self.ms(Stage::Decode))
    }
}

/// Where calls are timed.
const INGRESS: &str = "ingress";
const EXPORT: &str = "export";

/// Which calls are meant.
#[derive(Clone, Copy)]
struct TimedCalls<'a> {
    place: &'a str,
    service: &'a str,
}

impl<'a> TimedCalls<'a> {
    /// Those that local programs make to a service.
    fn to(service: &'a str) -> Self {
        Self { place: INGRESS, service }
    }

    /// What an agent says of them.
    fn find(self, look: &AgentLook) -> Option<&StagesSnapshot> {
        look.stages.iter().find(|it| it.place == self.place && it.service == self.service)
    }

    /// All of them that were timed while the agent was watched.
    fn means(self, looks: &[AgentLook]) -> Option<Means> {
        let [first, .., last] = looks else { return None };
        Means::between(first, last, self)
    }

    /// Whether something is true between most of the looks. One pause makes no verdict.
    fn is_usual(self, looks: &[AgentLook], is_true: impl Fn(&Means) -> bool) -> bool {
        let pairs = looks.windows(2).filter_map(|pair| match pair {
            [before, after] => Means::between(before, after, self),
            _ => None,
        });
        share_of(pairs, |means| is_true(&means)).is_some_and(|share| OFTEN <= share)
    }
}

/// All of a service's calls that were timed while it was watched.
pub(super) fn means(looks: &[AgentLook], service: &str) -> Option<Means> {
    TimedCalls::to(service).means(looks)
}

/// What stages show besides what is known of endpoints.
pub(super) fn of_stages(looks: &[AgentLook]) -> Vec<Finding> {
    let Some(last) = looks.last() else { return Vec::new() };
    let ingress = last.stages.iter().filter(|it| it.place == INGRESS);
    let timed = ingress.flat_map(|it| [waits(looks, &it.service), starves(looks, &it.service)]);
    let export = last.stages.iter().filter(|it| it.place == EXPORT);
    let apps = export.map(|it| slow_app(looks, &it.service));
    let mut findings: Vec<Finding> = timed.chain(apps).flatten().collect();
    let in_line = last.services.iter().filter_map(|it| stands_in_line(looks, it));
    for finding in in_line {
        if findings.iter().all(|it| (it.cause, &it.subject) != (finding.cause, &finding.subject)) {
            findings.push(finding);
        }
    }
    findings
}

/// The app behind this agent's export takes as long as makes an endpoint slow.
fn slow_app(looks: &[AgentLook], service: &str) -> Option<Finding> {
    let calls = TimedCalls { place: EXPORT, service };
    let is_slow = |means: &Means| slow::SLOW_MS <= means.ms(Stage::App);
    let all = calls.means(looks).filter(is_slow)?;
    if !calls.is_usual(looks, is_slow) {
        return None;
    }
    Some(Finding {
        cause: Cause::SlowProvider,
        subject: format!("app of {service}"),
        verdict: format!(
            "the app takes {} for each call, {} of its time here",
            time(all.ms(Stage::App) * 1e3),
            percent(all.share(Stage::App))
        ),
        evidence: vec![
            format!(
                "that is the mean of {}",
                counted(all.n_calls, "call that was timed", "calls that were timed")
            ),
            format!("calls waited {} for room in it", time(all.ms(Stage::Wait) * 1e3)),
        ],
        remedy: slow::LOOK_AT_PROVIDER.to_owned(),
    })
}

fn waits(looks: &[AgentLook], service: &str) -> Option<Finding> {
    let does_wait = |means: &Means| {
        MIN_WAIT_MS <= means.ms(Stage::Wait) && MIN_WAIT_SHARE <= means.share(Stage::Wait)
    };
    let (all, last) = (means(looks, service)?, looks.last()?);
    // A delay on purpose is found where it is counted.
    if failing::is_delayed(looks, service)
        || !does_wait(&all)
        || !TimedCalls::to(service).is_usual(looks, does_wait)
    {
        return None;
    }
    let full = full_endpoints(last, service);
    // That its pool is full is found where the app is.
    if !full.is_empty() && is_own(last, service) {
        return None;
    }
    let waited = time(all.ms(Stage::Wait) * 1e3);
    let (why, remedy) = match full.is_empty() {
        false if has_credits(last, service) => {
            ("for a credit, because the capacity is used up", MORE_PROVIDERS)
        }
        false => ("for room at an endpoint: those below have none", MORE_PROVIDERS),
        true => (
            "before they are sent",
            "see dubmesh list --admin and the log: endpoints that are not connected, routes that \
             are not settled, or rules that delay calls",
        ),
    };
    let mut evidence = vec![format!(
        "that is {} of the time of {}",
        percent(all.share(Stage::Wait)),
        counted(all.n_calls, "call that was timed", "calls that were timed")
    )];
    evidence.extend(full);
    Some(Finding {
        cause: Cause::CallsWait,
        subject: service.to_owned(),
        verdict: format!("calls wait {waited} {why}"),
        evidence,
        remedy: remedy.to_owned(),
    })
}

/// The endpoints of a service that have as many calls as they can take, in words.
fn full_endpoints(look: &AgentLook, service: &str) -> Vec<String> {
    let of = |it: &EndpointSnapshot| {
        let limit = it.capacity.filter(|_| it.service == service)?;
        let source = it.capacity_source.as_deref().unwrap_or("unknown");
        let line = || {
            format!(
                "{} has {} of {} in flight; the limit is {source}",
                it.address,
                it.calls.in_flight,
                counted(limit.into(), "call", "calls")
            )
        };
        is_full(it).then(line)
    };
    look.endpoints.iter().filter_map(of).collect()
}

/// Whether an agent lends the capacity of a full endpoint. Others have a limit of calls.
fn has_credits(look: &AgentLook, service: &str) -> bool {
    look.endpoints.iter().any(|it| it.service == service && it.protocol == "link" && is_full(it))
}

/// Whether an endpoint has as many calls as it can take.
fn is_full(endpoint: &EndpointSnapshot) -> bool {
    endpoint.capacity.is_some_and(|limit| u64::from(limit) <= endpoint.calls.in_flight)
}

/// Whether the app is behind this agent, which knows more of it.
fn is_own(look: &AgentLook, service: &str) -> bool {
    look.apps.iter().any(|app| app.services.iter().any(|it| it == service))
}

/// Calls stand in line for endpoints that have as many as they can take. What waits for too long
/// is shed, and hides in the times of all calls how long the others wait.
fn stands_in_line(looks: &[AgentLook], service: &ServiceSnapshot) -> Option<Finding> {
    let service = &service.service;
    let waiting = |look: &AgentLook| {
        let found = look.services.iter().find(|it| it.service == *service);
        found.map_or(0, |it| it.waiting)
    };
    let is_full =
        |look: &AgentLook| waiting(look) != 0 && !full_endpoints(look, service).is_empty();
    let share = share_of(looks, is_full).filter(|share| OFTEN <= *share)?;
    let last =
        looks.iter().rev().find(|look| is_full(look)).filter(|look| !is_own(look, service))?;
    let most = looks.iter().map(waiting).max().unwrap_or(0);
    let mut evidence = vec![format!("at most {most} waited at a time")];
    evidence.extend(full_endpoints(last, service));
    Some(Finding {
        cause: Cause::CallsWait,
        subject: service.clone(),
        verdict: format!(
            "calls wait for endpoints that have as many as they can take, {} of the time",
            percent(share)
        ),
        evidence,
        remedy: MORE_PROVIDERS.to_owned(),
    })
}

fn others_do_not_wait(last: &AgentLook) -> String {
    let late = |ms: Option<f64>| time(ms.unwrap_or_default() * 1e3);
    let begin = "other calls do not wait for it";
    match last.usual_lag_ms.filter(|_| last.lag_ms.is_some_and(|ms| LONG_CODING_MS <= ms)) {
        None => format!(
            "{begin}: in the last ten seconds no event loop was more than {} late",
            late(last.lag_ms)
        ),
        usual => format!(
            "{begin}: in most of the last ten seconds no event loop was more than {} late; one was \
             {} late at worst",
            late(usual),
            late(last.lag_ms)
        ),
    }
}

/// How many calls of a service were answered while it was watched, timed or not.
fn n_answered(looks: &[AgentLook], service: &str) -> u64 {
    let of = |look: &AgentLook| -> u64 {
        let all = look.endpoints.iter().filter(|it| it.service == service);
        all.map(|it| it.calls.n_answers()).sum()
    };
    let [first, .., last] = looks else { return 0 };
    of(last).saturating_sub(of(first))
}

fn starves(looks: &[AgentLook], service: &str) -> Option<Finding> {
    let is_long = |means: &Means| LONG_CODING_MS <= means.coding_ms();
    let (all, last) = (means(looks, service)?, looks.last()?);
    if !is_long(&all) || !TimedCalls::to(service).is_usual(looks, is_long) {
        return None;
    }
    // What a thread without a processor waits for looks like work on its clock.
    let n_coded = n_answered(looks, service).max(all.n_calls);
    let least_ms = LONG_CODING_MS.max(all.coding_ms() * MIN_CODING_SHARE);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let coding_ms = least_ms * n_coded as f64;
    if processor::is_work(looks, coding_ms) == Some(false) {
        return None;
    }
    let decodes = all.ms(Stage::Encode) <= all.ms(Stage::Decode);
    let (stage, what) = match decodes {
        true => (Stage::Decode, "decoding its replies"),
        false => (Stage::Encode, "encoding its arguments"),
    };
    let took = time(all.coding_ms() * 1e3);
    let calls = counted(all.n_calls, "call that was timed", "calls that were timed");
    let less = "ask for less in one call (pages of a list), or have the caller speak Dubbo, whose \
                messages the agent passes on unread";
    let lag = last.lag_ms.map(|ms| time(ms * 1e3));
    // Long messages are coded beside the event loops: they take time, but only their own. One
    // hiccup of a busy machine makes any event loop late once.
    let usual_ms = last.usual_lag_ms.or(last.lag_ms);
    if usual_ms.is_some_and(|ms| ms < LONG_CODING_MS) {
        let share = all.share(stage);
        return (MIN_WAIT_SHARE <= share).then(|| Finding {
            cause: Cause::LongMessages,
            subject: service.to_owned(),
            verdict: format!("{what} takes {took} of each call, {} of its time", percent(share)),
            evidence: vec![format!("that is the mean of {calls}"), others_do_not_wait(last)],
            remedy: less.to_owned(),
        });
    }
    let late = lag.map_or_else(
        || "all other calls of the same worker wait meanwhile".to_owned(),
        |lag| {
            format!(
                "all other calls of the same worker wait meanwhile: its event loop was {lag} late \
                 (dubmesh_worker_lag_seconds)"
            )
        },
    );
    Some(Finding {
        cause: Cause::EventLoop,
        subject: service.to_owned(),
        verdict: format!("the event loop is starved by {what}"),
        evidence: vec![format!("that takes {took} for each of {calls}"), late],
        remedy: format!("{less}; or add workers ([agent]) if there are cores for them"),
    })
}

#[cfg(test)]
mod tests;
