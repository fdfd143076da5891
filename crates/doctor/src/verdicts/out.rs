//! Endpoints that agents keep calls from: whether they get none, or get them all the same and fail
//! them.

use std::collections::BTreeMap;

use agent::inspect::snapshot::EndpointSnapshot;

use super::agent_pages::{AgentLook, EndpointLooks, n_failed};
use super::failing::remedy;
use super::{Cause, Finding, MIN_LOOKS, OFTEN, counted, percent, share_of};

/// Endpoints that get calls, and those whose last calls end.
const READY: &str = "ready";
const LEAVING: &str = "leaving";
/// Those that can be reached, and failed calls.
const EJECTED: &str = "ejected";
/// How calls end that another endpoint was faster with, or whose caller has gone.
const CANCELLED: &str = "cancelled";
/// Ejected endpoints get trial calls. One that gets such a part of its service's calls gets more
/// than that: nobody else is better.
const MANY: f64 = 0.3;

/// How calls to an endpoint ended while it was watched.
#[derive(Default)]
struct EndpointCalls {
    n_ok: u64,
    failed: BTreeMap<String, u64>,
}

impl EndpointCalls {
    fn of(seen: &EndpointLooks<'_>) -> Self {
        let (before, after) = seen.whole();
        let failed = after.calls.failed.keys().filter(|name| *name != CANCELLED);
        Self {
            n_ok: after.calls.ok.saturating_sub(before.map_or(0, |it| it.calls.ok)),
            failed: failed.map(|name| (name.clone(), n_failed((before, after), name))).collect(),
        }
    }

    fn n_failed(&self) -> u64 {
        self.failed.values().sum()
    }

    fn n_all(&self) -> u64 {
        self.n_ok + self.n_failed()
    }

    /// What most of the failures are.
    fn code(&self) -> Option<(&str, u64)> {
        let most = self.failed.iter().max_by_key(|(_, n)| **n).filter(|(_, n)| **n != 0);
        most.map(|(name, n)| (&**name, *n))
    }
}

/// An endpoint that agents keep calls from, most of the time. One that leaves is meant to go.
pub(super) fn of_endpoint(looks: &[AgentLook], seen: &EndpointLooks<'_>) -> Option<Finding> {
    let is_in = |it: &EndpointSnapshot| {
        it.standing.is_empty()
            || it.standing.iter().any(|(standing, n)| standing == READY && *n != 0)
            || it.standing.keys().all(|standing| standing == LEAVING)
    };
    let is_out = |it: &EndpointSnapshot| !is_in(it);
    let share = share_of(seen.each(), is_out).filter(|share| OFTEN <= *share)?;
    let ended = EndpointCalls::of(seen);
    // How it was when it was out last.
    let endpoint = seen.each().filter(|it| is_out(it)).last()?;
    let is_reachable = endpoint.standing.keys().all(|standing| standing == EJECTED);
    if is_reachable && gets_many(looks, seen, &ended) {
        return fails(seen, &ended);
    }
    let standing: Vec<&str> = endpoint.standing.keys().map(String::as_str).collect();
    let mut evidence = endpoint.why.clone();
    if let Some((code, n)) = ended.code() {
        evidence.push(format!("{} failed with {code}", counted(n, "trial call", "trial calls")));
    }
    if is_in(seen.last) {
        evidence.push("it gets calls again now".to_owned());
    }
    Some(Finding {
        cause: Cause::EndpointOut,
        subject: seen.subject(),
        verdict: format!(
            "it gets no calls: {}, {} of the time",
            standing.join(", "),
            percent(share)
        ),
        evidence,
        remedy: "see whether the provider runs, and whether it can be reached and answers; the \
                 agent goes on trying, and uses it again by itself"
            .to_owned(),
    })
}

/// Whether an endpoint gets a good part of its service's calls, look by look.
fn gets_many(looks: &[AgentLook], seen: &EndpointLooks<'_>, ended: &EndpointCalls) -> bool {
    let n_ended = |it: &EndpointSnapshot| it.calls.ok + it.calls.failed.values().sum::<u64>();
    let of_service = |look: &AgentLook| -> u64 {
        let all = look.endpoints.iter().filter(|it| it.service == seen.last.service);
        all.map(n_ended).sum()
    };
    let [first, .., last] = looks else { return false };
    let n_all = of_service(last).saturating_sub(of_service(first)).max(ended.n_all());
    let active = seen.steps().filter(|(before, after)| before.map_or(0, n_ended) != n_ended(after));
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let share = ended.n_all() as f64 / n_all.max(1) as f64;
    MIN_LOOKS <= active.count() && MANY <= share
}

/// It gets calls, and fails them.
fn fails(seen: &EndpointLooks<'_>, ended: &EndpointCalls) -> Option<Finding> {
    let (code, n) = ended.code().filter(|(_, n)| ended.n_all() <= 2 * n)?;
    let evidence = vec![
        format!("{n} of the {} that it got failed so", counted(ended.n_all(), "call", "calls")),
        "it is ejected for that, and gets calls all the same: no other endpoint is better"
            .to_owned(),
    ];
    Some(Finding {
        cause: Cause::CallsFail,
        subject: seen.subject(),
        verdict: format!("calls to it fail with {code}"),
        evidence,
        remedy: remedy(code, &seen.last.service),
    })
}
