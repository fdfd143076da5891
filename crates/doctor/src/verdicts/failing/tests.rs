//! Calls that fail.

use agent::inspect::snapshot::{MemorySnapshot, ProcessSnapshot};

use super::super::testing::{endpoint, look, looks, method, of_agent, service};
use super::*;

/// A service of which this happens at each look: good answers, failures at its endpoint, and
/// failures before one was chosen.
fn agent(n_ok: u64, sent: &[(&str, u64)], early: &[(&str, u64)]) -> Vec<AgentLook> {
    looks(20, |nth| {
        let by = |all: &[(&str, u64)]| -> Counts {
            all.iter().map(|(code, n)| ((*code).to_owned(), n * nth)).collect()
        };
        let mut look = look(endpoint(n_ok * nth, 3.0, &[]), 200);
        look.endpoints[0].calls.failed = by(sent);
        look.endpoints[0].calls.in_flight = 0;
        look.services = vec![service(by(early))];
        look
    })
}

fn only(looks: &[AgentLook]) -> Finding {
    let findings = of_agent(looks);
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    finding.clone()
}

#[test]
fn a_code_with_which_many_calls_fail_is_named() {
    let finding = only(&agent(1, &[], &[("rate_limited", 9)]));
    assert_eq!((finding.cause, &*finding.subject), (Cause::CallsFail, "com.acme.Orders"));
    assert_eq!(finding.verdict, "90% of its calls fail with rate_limited");
    assert_eq!(finding.evidence, ["171 of 190 calls"]);
    assert!(finding.remedy.starts_with("raise rate_limit"), "{}", finding.remedy);
    assert_eq!(only(&agent(7, &[("provider_rejected", 3)], &[])).cause, Cause::CallsFail);
    assert_eq!(of_agent(&agent(9, &[], &[("rate_limited", 1)])), [], "few");
    assert_eq!(of_agent(&agent(6, &[("exception", 4)], &[])), [], "apps throw exceptions");
    assert_eq!(only(&agent(4, &[("exception", 6)], &[])).cause, Cause::CallsFail);
    assert_eq!(of_agent(&agent(9, &[("cancelled", 60)], &[])), [], "another one was faster");
    let burst = looks(20, |nth| {
        let mut look = look(endpoint(nth, 3.0, &[]), 200);
        let n = if nth < 3 { 0 } else { 1_000 };
        look.services = vec![service([("overloaded".to_owned(), n)].into())];
        look
    });
    assert_eq!(of_agent(&burst), [], "one burst");
}

/// Attempts that another one followed are no failures that a caller has seen.
#[test]
fn what_callers_saw_counts() {
    let mut retried = agent(9, &[("unreachable", 9)], &[]);
    assert_eq!(only(&retried).cause, Cause::CallsFail);
    for (look, nth) in retried.iter_mut().zip(0..) {
        look.services[0].retries = [("unreachable".to_owned(), 9 * nth)].into();
    }
    assert_eq!(of_agent(&retried), []);
    // Calls over HTTP are counted as their callers saw them.
    let mut masked = agent(9, &[("unreachable", 9)], &[]);
    for (look, nth) in masked.iter_mut().zip(0..) {
        look.methods = vec![method("find", 18 * nth, 3.0)];
    }
    assert_eq!(of_agent(&masked), []);
    let mut without_route = agent(1, &[], &[("registry_unavailable", 9)]);
    for (look, nth) in without_route.iter_mut().zip(0..) {
        look.methods = vec![method("find", nth, 3.0)];
    }
    assert_eq!(only(&without_route).verdict, "90% of its calls fail with registry_unavailable");
}

#[test]
fn what_is_told_already_is_told_once() {
    let looks = agent(1, &[], &[("no_endpoint", 9)]);
    assert_eq!(only(&looks).cause, Cause::NoEndpoint);
    assert_eq!(only(&agent(1, &[("thread_pool_exhausted", 9)], &[])).cause, Cause::PoolRejects);
    assert_eq!(only(&agent(1, &[("timeout", 9)], &[])).cause, Cause::SlowProvider);
}

#[test]
fn faults_on_purpose_are_named_and_nobody_is_blamed() {
    let injected = |event: &str, code: &str| {
        let mut looks = agent(1, &[], &[(code, 9)]);
        for (look, nth) in looks.iter_mut().zip(0..) {
            look.services[0].method_events = [(event.to_owned(), 9 * nth)].into();
        }
        only(&looks)
    };
    let finding = injected(ABORTED, "fault_injected");
    assert_eq!(finding.cause, Cause::FaultsInjected);
    assert_eq!(finding.verdict, "the configuration of this agent has calls fail, as a test");
    let line = "171 calls were made to fail meanwhile (fault_abort_percent)";
    assert_eq!(finding.evidence, [line]);
    // They may have any code.
    assert_eq!(injected(ABORTED, "no_endpoint").cause, Cause::FaultsInjected);
    assert_eq!(injected(ABORTED, "overloaded").cause, Cause::FaultsInjected);
    assert_eq!(injected(DELAYED, "timeout").cause, Cause::FaultsInjected);
}

#[test]
fn an_agent_that_refuses_connections_says_why() {
    let refusing = |n_full: u64, n_no_files: u64| {
        looks(20, |nth| {
            let listener = ListenerSnapshot {
                listener: "0.0.0.0:8080".to_owned(),
                open: 60,
                refused_full: n_full * nth,
                refused_no_files: n_no_files * nth,
                ..ListenerSnapshot::default()
            };
            let process = ProcessSnapshot {
                open_files: Some(64),
                max_files: Some(64),
                ..ProcessSnapshot::default()
            };
            let (listeners, process) = (vec![listener], Some(process));
            AgentLook { listeners, process, ..AgentLook::default() }
        })
    };
    let finding = only(&refusing(0, 2));
    assert_eq!(finding.cause, Cause::ConnectionsRefused);
    assert_eq!(
        finding.evidence,
        [
            "38 were closed at once meanwhile",
            "60 connections are open",
            "64 of 64 descriptors are open"
        ]
    );
    assert_eq!(
        only(&refusing(1, 0)).verdict,
        "connections are refused: it has as many as it may have"
    );
    assert_eq!(of_agent(&refusing(0, 0)), []);
}

#[test]
fn memory_that_is_used_up_is_named() {
    let refusing = |n: fn(u64) -> u64| {
        looks(20, |nth| {
            let memory =
                MemorySnapshot { used_bytes: 19 << 20, limit_bytes: 20 << 20, refused: n(nth) };
            let process = ProcessSnapshot { memory: Some(memory), ..ProcessSnapshot::default() };
            AgentLook { process: Some(process), ..AgentLook::default() }
        })
    };
    let finding = only(&refusing(|nth| 3 * nth));
    assert_eq!(finding.cause, Cause::MemoryFull);
    assert_eq!(finding.evidence[1], "at most 19.0 MiB of 20.0 MiB were held at a look");
    assert_eq!(of_agent(&refusing(|nth| if nth < 9 { 0 } else { 40 })), [], "a burst");
}
