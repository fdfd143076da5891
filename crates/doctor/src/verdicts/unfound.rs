//! Services of which calls find no endpoint.

use std::collections::BTreeSet;

use agent::inspect::snapshot::ServiceSnapshot;

use super::agent_pages::AgentLook;
use super::{Cause, Finding, OFTEN, counted, failing, percent, share_of};

/// The errors of calls for which there is nobody, by their names on the pages.
const NOBODY: [&str; 2] = ["service_not_found", "no_endpoint"];

/// How a service's calls ended so far.
#[derive(Clone, Copy, Default)]
struct EndedCalls {
    n_all: u64,
    n_unfound: u64,
}

impl EndedCalls {
    fn at(look: &AgentLook, service: &str) -> Self {
        let early = look.services.iter().find(|it| it.service == service);
        let early = early.into_iter().flat_map(|it| &it.failed_without_endpoint);
        let (mut n_all, mut n_unfound) = (0, 0);
        for (name, n) in early {
            n_all += n;
            n_unfound += if NOBODY.contains(&&**name) { *n } else { 0 };
        }
        let sent = look.endpoints.iter().filter(|it| it.service == service);
        n_all += sent.map(|it| it.calls.ok + it.calls.failed.values().sum::<u64>()).sum::<u64>();
        Self { n_all, n_unfound }
    }

    /// Nothing if endpoints have gone, with what they counted.
    fn since(self, before: Self) -> Self {
        Self {
            n_all: self.n_all.saturating_sub(before.n_all),
            n_unfound: self.n_unfound.saturating_sub(before.n_unfound),
        }
    }

    /// Whether it is so with most of the calls.
    fn is_unfound(self) -> bool {
        self.n_all < self.n_unfound * 2
    }
}

/// Services that are called although nobody offers them, or nobody who can be called.
pub(super) fn of_services(looks: &[AgentLook]) -> Vec<Finding> {
    let Some(last) = looks.last() else { return Vec::new() };
    let names: BTreeSet<&str> = last.services.iter().map(|it| &*it.service).collect();
    names.into_iter().filter_map(|name| unfound(looks, name)).collect()
}

/// Of names beyond those that have a label of their own, an agent says how many calls failed.
fn subject(service: &str) -> String {
    match service {
        "other" => "further services, which have no label of their own".to_owned(),
        service => service.to_owned(),
    }
}

fn unfound(looks: &[AgentLook], service: &str) -> Option<Finding> {
    let ended: Vec<EndedCalls> = looks.iter().map(|look| EndedCalls::at(look, service)).collect();
    let [first, .., last] = *ended else { return None };
    let steps = ended.windows(2).map(|pair| pair[1].since(pair[0]));
    let share = share_of(steps.filter(|it| it.n_all != 0), EndedCalls::is_unfound)?;
    let whole = last.since(first);
    // A failure on purpose may have any code.
    let is_injected = whole.n_unfound <= 2 * failing::grown(looks, service, failing::ABORTED);
    if share < OFTEN || !whole.is_unfound() || is_injected {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let part = whole.n_unfound as f64 / whole.n_all.max(whole.n_unfound) as f64;
    let seen = looks
        .iter()
        .rev()
        .find_map(|look| look.services.iter().find(|it| it.service == service))?;
    let mut evidence = vec![format!(
        "{} failed before an endpoint was chosen, {} of all",
        counted(whole.n_unfound, "call", "calls"),
        percent(part)
    )];
    evidence.push(match seen.endpoints {
        0 => format!("the registry {} lists no endpoint that can be called", seen.registry),
        n => format!(
            "of {} in the registry {}, {} ready",
            counted(n as u64, "endpoint", "endpoints"),
            seen.registry,
            seen.ready
        ),
    });
    evidence.extend(seen.unused.iter().cloned());
    let (verdict, remedy) = why(seen);
    Some(Finding {
        cause: Cause::NoEndpoint,
        subject: subject(service),
        verdict: verdict.to_owned(),
        evidence,
        remedy,
    })
}

/// Why calls find no endpoint, by what is known of those that there are, and what to do.
fn why(seen: &ServiceSnapshot) -> (&'static str, String) {
    let service = &seen.service;
    if seen.endpoints != 0 && seen.weightless == seen.endpoints {
        let remedy = format!(
            "have at least one provider register a weight, or take back the configurator that \
             switches all of them off (dubmesh describe {service})"
        );
        return ("most calls fail because all its endpoints have the weight 0", remedy);
    }
    if seen.ready != 0 {
        let remedy = format!(
            "see which rule leaves no endpoint for a call: dubmesh explain {service} METHOD; then \
             change that rule, or the calls"
        );
        return ("most calls fail because routing rules leave no endpoint for them", remedy);
    }
    let remedy = "see whether its provider runs and has registered (dubmesh list), and whether \
                  interface, group and version are the same on both sides";
    ("most calls fail because there is no endpoint for them", remedy.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{endpoint, look, looks, service};
    use super::*;

    /// So many calls are answered and find no endpoint in each look.
    fn causes(n_ok: u64, n_unfound: u64, name: &str) -> Vec<Cause> {
        let at = |nth| {
            let failed = [(name.to_owned(), 7 + nth * n_unfound)].into();
            let mut look = look(endpoint(nth * n_ok, 1.0, &[]), 100);
            look.services = vec![service(failed)];
            look
        };
        of_services(&looks(20, at)).iter().map(|it| it.cause).collect()
    }

    #[test]
    fn a_service_that_nobody_offers_is_named() {
        assert_eq!(causes(0, 3, "service_not_found"), [Cause::NoEndpoint]);
        assert_eq!(causes(1, 3, "no_endpoint"), [Cause::NoEndpoint]);
        assert_eq!(causes(3, 1, "no_endpoint"), []);
        assert_eq!(causes(0, 3, "bad_arguments"), [], "the caller's fault");
        assert_eq!(causes(0, 0, "no_endpoint"), [], "it was so before");
    }

    #[test]
    fn one_burst_is_no_verdict() {
        let at = |nth: u64| {
            let n_unfound = if nth < 3 { 0 } else { 1000 };
            let mut look = look(endpoint(nth, 1.0, &[]), 100);
            look.services = vec![service([("no_endpoint".to_owned(), n_unfound)].into())];
            look
        };
        assert_eq!(of_services(&looks(20, at)), []);
    }
}
