//! Why calls to an endpoint take long: the provider's own work, its silence, or the connections to
//! it. Answers that never come are in `late`.

mod late;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use agent::inspect::snapshot::{ConnectionSnapshot, EndpointSnapshot};
use agent::stages::Stage;

use super::agent_pages::{AgentLook, EndpointLooks, n_failed};
use super::signs::{self, Symptom};
use super::sockets::HELD_UP;
use super::{
    Cause, Finding, MIN_LOOKS, OFTEN, counted, percent, processor, share_of, stages, time,
};
use crate::figures::Figures;
use crate::watched::WatchedSocket;

/// Names of errors on the pages: an answer that was waited for in vain.
const TIMEOUT: &str = "timeout";
const CANCELLED: &str = "cancelled";
/// Calls that take less are not slow, whatever they wait for, in milliseconds.
pub(super) const SLOW_MS: f64 = 200.0;
/// Fewer times in which calls were slow are chance.
const MIN_SLOW: u32 = 2;
/// The network is no cause if its round trip takes less than one part of so many of a call.
const ROUND_TRIP_PARTS: f64 = 10.0;
/// So much of the time in the app is the provider's own doing, whatever else there is.
const NEARLY_ALL: f64 = 0.8;
/// A connection that is in the midst of a message for so much of the time holds up all others.
const BUSY: f64 = 0.5;
/// Who answers nothing for less time may be a garbage collector's victim, in seconds.
const MIN_SILENCE_S: f64 = 3.0;

pub(super) const LOOK_AT_PROVIDER: &str = "look at the provider: its threads (jstack), its garbage \
                                           collector, and what its calls wait for";

const BEFORE_APP: &str = "ask the provider's agent whether calls wait there (dubmesh doctor, its \
                          page /apps), and measure the way behind a proxy from there";

/// What the calls to an endpoint took, and why. `told` are the addresses to which messages do not
/// flow, and why; that was found where their sockets were seen.
pub(super) fn of_endpoint(
    looks: &[AgentLook],
    seen: &EndpointLooks<'_>,
    told: &HashMap<SocketAddr, Cause>,
) -> Vec<Finding> {
    let (silence, took) = (unanswered(looks, seen), Took::of(seen));
    if silence.is_none() && !(is_usually_slow(seen) && took.is_slow()) {
        return Vec::new();
    }
    let told = seen.last.address.parse().ok().and_then(|address| told.get(&address));
    // Sockets of another machine are only on the agent's page.
    let hold_up = told.is_none().then(|| hold_up(looks, seen.last)).flatten();
    let is_held_up = told.is_some() || hold_up.is_some();
    // What a process does not read has arrived there.
    let arrives = hold_up.is_none() && told.is_none_or(|cause| *cause == Cause::ReadsSlowly);
    let mut findings: Vec<Finding> = hold_up.map(|it| of_hold_up(seen, it)).into_iter().collect();
    match silence {
        None if took.is_mean_slow() => {
            findings.extend(slow_mean(looks, seen, &took, is_held_up).into_iter().flatten());
        }
        None if is_held_up => {}
        None => findings.push(late::of_timeouts(looks, seen, &took)),
        Some(silence) if arrives => findings.push(silence),
        // Who has not got the calls cannot answer them.
        Some(_) => {}
    }
    findings
}

/// Why the good answers take long on average.
fn slow_mean(
    looks: &[AgentLook],
    seen: &EndpointLooks<'_>,
    took: &Took,
    is_held_up: bool,
) -> Option<Vec<Finding>> {
    let last = looks.last()?;
    let round_trips =
        to_endpoint(last, seen.last).filter_map(|it| it.tcp.as_ref()?.rtt_us).map(f64::from);
    let round_trip_us = round_trips.reduce(f64::max)?;
    let call_us = took.mean_ms.unwrap_or(0.0) * 1e3;
    if call_us < round_trip_us * ROUND_TRIP_PARTS {
        return None;
    }
    // Where its agent says how long the app took, nothing has to be concluded.
    let app = AppTime::of(looks, seen);
    let share = app.as_ref().map(AppTime::share);
    if share.is_none_or(|share| share < BUSY) && processor::explains(looks, call_us / 1e3) {
        // The agent itself comes late to what is due: that tells nothing of the provider.
        return None;
    }
    let mut evidence = vec![format!("the slowest round trip to it takes {}", time(round_trip_us))];
    evidence.extend(took.evidence());
    evidence.extend(app.as_ref().map(AppTime::text));
    let busy = busiest(looks, seen.last);
    let busy = busy.filter(|_| share.is_none_or(|share| share < NEARLY_ALL));
    let mut findings = Vec::new();
    if let Some(busy) = busy {
        findings.push(connection_full(seen, busy, evidence.clone()));
    }
    // Both may be true.
    let is_crowded = is_held_up || busy.is_some();
    if !is_crowded || share.is_some_and(|share| BUSY <= share) {
        findings.push(Finding {
            cause: Cause::SlowProvider,
            subject: seen.subject(),
            verdict: match share.filter(|_| is_crowded) {
                Some(share) => of_own_work(share),
                None => verdict(share, call_us, round_trip_us),
            },
            evidence,
            remedy: match share {
                Some(share) if share < BUSY => BEFORE_APP.to_owned(),
                _ => LOOK_AT_PROVIDER.to_owned(),
            },
        });
    }
    Some(findings)
}

fn verdict(app_share: Option<f64>, call_us: f64, round_trip_us: f64) -> String {
    match app_share {
        Some(share) if BUSY <= share => format!("the network is fine: {}", of_own_work(share)),
        Some(share) => format!(
            "{} passes neither in the app nor on the way to the next hop: calls wait at the \
             provider before it begins them, or the way behind a proxy is long",
            percent(1.0 - share)
        ),
        // The kernel knows the way to whoever has the connection, and that may be a proxy.
        None => format!(
            "the network is fine up to the next hop: {}, or a proxy is on the way",
            of_own_work(1.0 - round_trip_us / call_us)
        ),
    }
}

fn of_own_work(share: f64) -> String {
    format!("{} of the time is the provider's own work", percent(share))
}

/// How long the app of an endpoint took, as its agent says.
struct AppTime {
    n_calls: u64,
    calls_ms: f64,
    app_ms: f64,
}

impl AppTime {
    /// Of calls to this endpoint, if the agent tells them apart. An older one tells only of all
    /// calls to a service, which says something if that has one endpoint.
    fn of(looks: &[AgentLook], seen: &EndpointLooks<'_>) -> Option<Self> {
        let (before, after) = seen.whole();
        let of = |it: &EndpointSnapshot| it.calls.app_timed;
        if let Some(n_calls) =
            of(after).checked_sub(before.map_or(0, of)).filter(|n_calls| *n_calls != 0)
        {
            let grown = |of: fn(&EndpointSnapshot) -> f64| of(after) - before.map_or(0.0, of);
            return Some(Self {
                n_calls,
                calls_ms: grown(|it| it.calls.app_timed_total_ms),
                app_ms: grown(|it| it.calls.app_total_ms),
            });
        }
        let all = &looks.last()?.endpoints;
        let is_alone = all.iter().filter(|it| it.service == after.service).count() == 1;
        if of(after) != 0 || !is_alone || after.protocol != "link" {
            return None;
        }
        let means = stages::means(looks, &after.service)?;
        let app_ms = means.total_ms(Stage::App);
        let share = means.share_once_sent(Stage::App);
        (share != 0.0).then(|| Self { n_calls: means.n_calls, calls_ms: app_ms / share, app_ms })
    }

    fn share(&self) -> f64 {
        if self.calls_ms <= 0.0 { 0.0 } else { (self.app_ms / self.calls_ms).min(1.0) }
    }

    fn text(&self) -> String {
        format!(
            "its agent says that the app took {} of the time after {} had been sent, {} together",
            percent(self.share()),
            counted(self.n_calls, "call that was timed", "calls that were timed"),
            time(self.app_ms * 1e3)
        )
    }
}

/// How the calls that ended while an endpoint was watched went.
struct Took {
    n_ok: u64,
    n_timeouts: u64,
    /// Of the good answers, in milliseconds.
    mean_ms: Option<f64>,
}

impl Took {
    fn of(seen: &EndpointLooks<'_>) -> Self {
        Self::between(seen.whole())
    }

    fn between(step: (Option<&EndpointSnapshot>, &EndpointSnapshot)) -> Self {
        let (before, after) = step;
        // What nobody wants an answer to is neither slow nor quick.
        let n_answers = |it: &EndpointSnapshot| it.calls.n_answers();
        let n_ok = n_answers(after).saturating_sub(before.map_or(0, n_answers));
        let total = |it: &EndpointSnapshot| it.calls.ok_total_ms;
        let before_ms = before.map_or(Some(0.0), total);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let mean =
            total(after).zip(before_ms).map(|(after, before)| (after - before) / n_ok as f64);
        // An older agent says only what its balancer goes by.
        let mean_ms = mean.or(after.calls.average_ms).filter(|_| n_ok != 0);
        Self { n_ok, n_timeouts: n_failed(step, TIMEOUT), mean_ms }
    }

    fn is_mean_slow(&self) -> bool {
        self.mean_ms.is_some_and(|mean| SLOW_MS <= mean)
    }

    fn is_slow(&self) -> bool {
        self.n_timeouts != 0 || self.is_mean_slow()
    }

    fn evidence(&self) -> Vec<String> {
        let mean = self.mean_ms.map(|mean| {
            let n = counted(self.n_ok, "good answer", "good answers");
            format!("{n} took {} on average", time(mean * 1e3))
        });
        let late = (self.n_timeouts != 0).then(|| {
            let n = counted(self.n_timeouts, "call was", "calls were");
            format!("{n} not answered in time meanwhile")
        });
        mean.into_iter().chain(late).collect()
    }
}

/// Whether calls were slow, or not answered in time, in most of the times in which any ended. A
/// pause, such as that of a garbage collector, makes no slow provider, and one slow call neither.
fn is_usually_slow(seen: &EndpointLooks<'_>) -> bool {
    let (mut n_slow, mut n_active) = (0_u32, 0_u32);
    for step in seen.steps() {
        let took = Took::between(step);
        n_active += u32::from(took.n_timeouts != 0 || took.n_ok != 0);
        n_slow += u32::from(took.is_slow());
    }
    MIN_SLOW <= n_slow && OFTEN <= f64::from(n_slow) / f64::from(n_active)
}

/// Our connections to an endpoint.
fn to_endpoint<'a>(
    look: &'a AgentLook,
    endpoint: &'a EndpointSnapshot,
) -> impl Iterator<Item = &'a ConnectionSnapshot> {
    look.connections.iter().filter(|it| it.direction == "upstream" && it.peer == endpoint.address)
}

/// What keeps messages from flowing over a connection to an endpoint, as its agent sees it: the
/// worst of all.
fn hold_up(looks: &[AgentLook], endpoint: &EndpointSnapshot) -> Option<Symptom> {
    let peer = endpoint.address.parse().ok()?;
    let symptoms = |connection: &ConnectionSnapshot| {
        let mut watched = WatchedSocket::default();
        for look in looks {
            let found = to_endpoint(look, endpoint).find(|it| it.id == connection.id);
            if let Some(tcp) = found.and_then(|it| it.tcp.as_ref()) {
                watched.add(look.at, Figures::from(tcp));
            }
        }
        signs::of_flow(&watched, peer, true)
    };
    let all = to_endpoint(looks.last()?, endpoint).flat_map(symptoms);
    let held_up = all.filter(|it| HELD_UP.contains(&it.cause));
    held_up.max_by(|a, b| a.share.total_cmp(&b.share))
}

fn of_hold_up(seen: &EndpointLooks<'_>, symptom: Symptom) -> Finding {
    let Symptom { cause, verdict, evidence, remedy, share: _ } = symptom;
    Finding { cause, subject: seen.subject(), verdict, evidence, remedy }
}

/// The share of the time that the busiest connection to an endpoint was in the midst of a message,
/// if that is most of it, most of the time.
fn busiest(looks: &[AgentLook], endpoint: &EndpointSnapshot) -> Option<f64> {
    let last = looks.last()?;
    let shares = |connection: &ConnectionSnapshot| {
        let at = |look: &AgentLook| {
            let same = |it: &&ConnectionSnapshot| it.id == connection.id;
            let found = to_endpoint(look, endpoint).find(same)?;
            Some((look.at, found.in_message_ms?))
        };
        let seen: Vec<_> = looks.iter().filter_map(at).collect();
        let share = |pair: &[(Duration, u64)]| match pair {
            [(at, before), (until, after)] => {
                let time = until.saturating_sub(*at);
                let busy = Duration::from_millis(after.saturating_sub(*before));
                (!time.is_zero()).then(|| busy.div_duration_f64(time).min(1.0))
            }
            _ => None,
        };
        seen.windows(2).filter_map(share).collect::<Vec<f64>>()
    };
    let busy = |shares: Vec<f64>| {
        let often = share_of(&shares, |share| BUSY <= *share)?;
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        (OFTEN <= often && BUSY <= mean).then_some(mean)
    };
    to_endpoint(last, endpoint).map(shares).filter_map(busy).reduce(f64::max)
}

fn connection_full(seen: &EndpointLooks<'_>, busy: f64, evidence: Vec<String>) -> Finding {
    let port = seen.last.address.rsplit(':').next().unwrap_or_default();
    Finding {
        cause: Cause::ConnectionFull,
        subject: seen.subject(),
        verdict: format!(
            "calls wait for each other on the connection: it is in the midst of a message {} of \
             the time",
            percent(busy)
        ),
        evidence,
        remedy: format!(
            "a buffer, a window, the network or the thread that writes holds messages up: run \
             dubmesh doctor --port {port} here and at the other end; raise buffers \
             (send_buffer_bytes, receive_buffer_bytes) that are set too low, and leave connections \
             at \"auto\""
        ),
    }
}

/// An endpoint that has calls, and has answered none of them for most of the time.
fn unanswered(looks: &[AgentLook], seen: &EndpointLooks<'_>) -> Option<Finding> {
    let answered = |step: &(Option<&EndpointSnapshot>, &EndpointSnapshot)| {
        let (before, after) = *step;
        let n_answers = |it: &EndpointSnapshot| {
            let failed = it.calls.failed.iter();
            let failed = failed.filter(|(name, _)| ![TIMEOUT, CANCELLED].contains(&name.as_str()));
            it.calls.ok + failed.map(|(_, n)| n).sum::<u64>()
        };
        let is_awaited = |it: &EndpointSnapshot| it.calls.in_flight != 0;
        // Those that were given up before their time was over might have been answered.
        let given_up = n_failed((before, after), CANCELLED) != 0;
        before.is_none_or(|before| !is_awaited(before) || n_answers(before) != n_answers(after))
            || !is_awaited(after)
            || given_up
    };
    let steps: Vec<_> = seen.steps().collect();
    let n_silent = steps.iter().rev().take_while(|step| !answered(step)).count();
    let since = looks.len().checked_sub(n_silent + 1)?;
    let silence = looks.last()?.at.saturating_sub(looks.get(since)?.at).as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let share = n_silent as f64 / steps.len().max(1) as f64;
    if n_silent < MIN_LOOKS || share < OFTEN || silence < MIN_SILENCE_S {
        return None;
    }
    let n = counted(seen.last.calls.in_flight, "call that is", "calls that are");
    let none = format!("none of the {n} in flight was answered for {silence:.1} s");
    Some(late::of_silence(&looks[since..], seen, none))
}

#[cfg(test)]
mod tests;
