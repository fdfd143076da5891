//! Calls to an endpoint that are not answered at all, or not in time: whether the network, one
//! connection, the provider or only some of its calls are the cause.

use agent::inspect::snapshot::ConnectionSnapshot;

use super::super::agent_pages::{AgentLook, EndpointLooks, n_failed};
use super::super::{Cause, Finding, MIN_LOOKS, counted, percent, time};
use super::{LOOK_AT_PROVIDER, TIMEOUT, Took, to_endpoint};

/// Whether what is sent to an endpoint gets there, as the kernel knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Arrival {
    Confirmed,
    NotConfirmed,
    Unknown,
}

impl Arrival {
    /// Of what was sent over the connections to an endpoint. Whoever confirms what was sent has
    /// it.
    fn of(looks: &[AgentLook], seen: &EndpointLooks<'_>) -> Self {
        let Some(last) = looks.last() else { return Self::Unknown };
        let unacked = |it: &ConnectionSnapshot| it.tcp.as_ref()?.unacked_segments;
        let acked = |it: &ConnectionSnapshot| it.tcp.as_ref()?.acked_bytes;
        let is_lost = |now: &ConnectionSnapshot| {
            let is_it = |it: &&ConnectionSnapshot| it.id == now.id;
            let waits = |look: &AgentLook| {
                to_endpoint(look, seen.last).find(is_it).is_some_and(|it| {
                    unacked(it).is_some_and(|n| n != 0) && acked(it) == acked(now)
                })
            };
            looks.iter().all(waits)
        };
        let connections = || to_endpoint(last, seen.last);
        if connections().any(is_lost) {
            Self::NotConfirmed
        } else if connections().any(|it| it.tcp.as_ref().is_some_and(|tcp| tcp.rtt_us.is_some())) {
            Self::Confirmed
        } else {
            Self::Unknown
        }
    }
}

/// An endpoint that has calls, and answers none of them.
pub(super) fn of_silence(looks: &[AgentLook], seen: &EndpointLooks<'_>, none: String) -> Finding {
    let (verdict, remedy) = match Arrival::of(looks, seen) {
        Arrival::Confirmed => {
            ("the provider does not answer, though what is sent to it arrives", LOOK_AT_PROVIDER)
        }
        Arrival::NotConfirmed => (
            "nothing comes back, and what was sent is not confirmed",
            "see whether the provider's machine runs and can be reached (ping, ip route, \
             firewalls)",
        ),
        Arrival::Unknown => (
            "the provider does not answer; whether what is sent to it arrives is not known",
            "see whether the provider runs and can be reached; then look at its threads (jstack), \
             its garbage collector, and what its calls wait for",
        ),
    };
    Finding {
        cause: Cause::SlowProvider,
        subject: seen.subject(),
        verdict: verdict.to_owned(),
        evidence: vec![none],
        remedy: remedy.to_owned(),
    }
}

/// An endpoint that leaves calls unanswered until they time out, and answers all others quickly,
/// if any.
pub(super) fn of_timeouts(looks: &[AgentLook], seen: &EndpointLooks<'_>, took: &Took) -> Finding {
    let mut evidence = took.evidence();
    evidence.extend(round_trip(looks, seen));
    if took.n_ok == 0 {
        let none = counted(took.n_timeouts, "call was", "calls were");
        let none = format!("{none} not answered in time meanwhile, and none was answered well");
        let mut finding = of_silence(looks, seen, none);
        finding.evidence.extend(round_trip(looks, seen));
        return finding;
    }
    let silent = Silent::of(looks, seen);
    let others = Others::of(looks, seen);
    evidence.extend(silent.as_ref().map(Silent::text));
    evidence.extend(others.text());
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    let share = took.n_timeouts as f64 / (took.n_timeouts + took.n_ok) as f64;
    let quick = time(took.mean_ms.unwrap_or(0.0) * 1e3);
    let service = &seen.last.service;
    let which = format!(
        "find out which calls these are: dubmesh tap {service} --failed shows their methods"
    );
    let (what, remedy) = match (silent, others.n_late) {
        (Some(silent), _) => (
            "a connection to the provider hangs".to_owned(),
            format!(
                "run dubmesh doctor --port {} here and at the other end, and see what the \
                 provider's I/O threads do (jstack): {} of {} connections work",
                seen.last.address.rsplit(':').next().unwrap_or_default(),
                silent.n_all - silent.n_silent,
                silent.n_all
            ),
        ),
        (None, 0) => (
            "some calls hang in the provider".to_owned(),
            format!("{which}; then look what they wait for there (jstack: a lock, a database)"),
        ),
        (None, _) => (
            "some calls hang in the providers".to_owned(),
            format!(
                "{which}; then look what they wait for (jstack of any of these providers): more \
                 than one has them, so what they share (a method, a database) is the likely cause"
            ),
        ),
    };
    Finding {
        cause: Cause::SlowProvider,
        subject: seen.subject(),
        verdict: format!(
            "{} of the calls are not answered in time, and the others take {quick}: {what}",
            few(share)
        ),
        evidence,
        remedy,
    }
}

/// `less than 1%`, `32%`.
fn few(share: f64) -> String {
    if share < 0.01 { "less than 1%".to_owned() } else { percent(share) }
}

/// Its slowest one. Where a round trip is known, the network carries bytes to and fro.
fn round_trip(looks: &[AgentLook], seen: &EndpointLooks<'_>) -> Option<String> {
    let us = |it: &ConnectionSnapshot| it.tcp.as_ref()?.rtt_us;
    let slowest = to_endpoint(looks.last()?, seen.last).filter_map(us).max()?;
    Some(format!("the slowest round trip to it takes {}", time(slowest.into())))
}

/// Connections to an endpoint over which nothing comes back, while others bring answers.
struct Silent {
    n_silent: usize,
    n_all: usize,
}

impl Silent {
    fn of(looks: &[AgentLook], seen: &EndpointLooks<'_>) -> Option<Self> {
        let last = looks.last()?;
        let is_silent = |now: &ConnectionSnapshot| {
            let received = |it: &ConnectionSnapshot| it.tcp.as_ref()?.received_bytes;
            let at = |look| to_endpoint(look, seen.last).find(|it| it.id == now.id);
            let seen: Vec<_> = looks.iter().filter_map(at).collect();
            MIN_LOOKS <= seen.len()
                && received(now).is_some()
                && seen.iter().all(|it| it.in_flight != 0 && received(it) == received(now))
        };
        let n_all = to_endpoint(last, seen.last).count();
        let n_silent = to_endpoint(last, seen.last).filter(|it| is_silent(it)).count();
        (0 < n_silent && n_silent < n_all).then_some(Self { n_silent, n_all })
    }

    fn text(&self) -> String {
        format!(
            "nothing has come over {} of {} connections to it, which have calls in flight",
            self.n_silent, self.n_all
        )
    }
}

/// The other endpoints of a service.
struct Others {
    n_all: usize,
    /// Those that leave calls unanswered, too.
    n_late: usize,
}

impl Others {
    fn of(looks: &[AgentLook], seen: &EndpointLooks<'_>) -> Self {
        let of = |look: &'_ AgentLook| -> Vec<_> {
            let is_other = |address: &str| address != seen.last.address;
            let all = look.endpoints.iter().filter(|it| it.service == seen.last.service);
            all.filter(|it| is_other(&it.address)).cloned().collect()
        };
        let others = looks.last().map(of).unwrap_or_default();
        let is_late = |it: &_| n_failed(EndpointLooks::of(looks, it).whole(), TIMEOUT) != 0;
        Self { n_all: others.len(), n_late: others.iter().filter(|it| is_late(it)).count() }
    }

    fn text(&self) -> Option<String> {
        let n = self.n_all;
        match (n, self.n_late) {
            (0, _) => None,
            (1, 0) => Some("the other endpoint of the service has no such calls".to_owned()),
            (1, _) => Some("the other endpoint of the service has such calls, too".to_owned()),
            (_, 0) => {
                Some(format!("none of the {n} other endpoints of the service has such calls"))
            }
            (_, late) => Some(format!(
                "such calls to other endpoints of the service: {late} of {n} have them, too"
            )),
        }
    }
}

#[cfg(test)]
mod tests;
