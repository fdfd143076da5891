//! Agents that wait for a processor.

use agent::inspect::snapshot::{CpuThrottlingSnapshot, StagesSnapshot};

use super::super::testing::{endpoint, look, looks, of_agent};
use super::*;

/// What the kernel and the event loops say of a process.
fn process(cpu_ms: f64, run_queue_ms: f64, usual_lag_ms: f64) -> ProcessSnapshot {
    ProcessSnapshot {
        cpu_ms: Some(cpu_ms),
        run_queue_ms: Some(run_queue_ms),
        lag_ms: Some(2.0 * usual_lag_ms),
        usual_lag_ms: Some(usual_lag_ms),
        ..ProcessSnapshot::default()
    }
}

/// Calls that take so long, of an agent whose threads wait so much of each half second.
fn agent(each_ms: f64, wait_ms: f64, lag_ms: f64) -> Vec<AgentLook> {
    looks(20, |nth| {
        let mut look = look(endpoint(9 * nth, each_ms, &[]), 200);
        let n = nth as f64;
        look.process = Some(process(10.0 * n, wait_ms * n, lag_ms));
        (look.lag_ms, look.usual_lag_ms) = (Some(2.0 * lag_ms), Some(lag_ms));
        look
    })
}

#[test]
fn an_agent_without_a_processor_is_named_and_its_provider_is_not() {
    let findings = of_agent(&agent(300.0, 450.0, 75.0));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(finding.cause, Cause::NoProcessor);
    assert_eq!(
        finding.evidence,
        [
            "its event loops are late by 75.0 ms in most seconds, and by 150.0 ms at worst \
             (dubmesh_worker_lag_seconds)",
            "its threads waited for a processor 90% of the time, together",
            "it used 2% of one processor meanwhile",
        ]
    );
    // Also if calls are not slow, since other callers of it may be.
    assert_eq!(of_agent(&agent(100.0, 450.0, 75.0)).len(), 1);
}

#[test]
fn a_busy_machine_makes_no_verdict() {
    assert_eq!(of_agent(&agent(20.0, 450.0, 45.0)), [], "loops are hardly late");
    assert_eq!(of_agent(&agent(20.0, 50.0, 75.0)), [], "it does not wait");
    let idle = looks(20, |nth| {
        let mut look = look(endpoint(7, 3.0, &[]), 200);
        look.endpoints[0].calls.in_flight = 0;
        look.process = Some(process(0.0, 450.0 * nth as f64, 75.0));
        look
    });
    assert_eq!(of_agent(&idle), [], "it has no calls");
    let once = looks(20, |nth| {
        let mut look = look(endpoint(9 * nth, 3.0, &[]), 200);
        let wait_ms = if nth < 9 { 0.0 } else { 2_000.0 };
        look.process = Some(process(0.0, wait_ms, if nth == 9 { 900.0 } else { 1.0 }));
        look
    });
    assert_eq!(of_agent(&once), [], "it stood still once");
}

/// A loop that is a little late explains no slow provider, and an agent's word on its app counts.
#[test]
fn a_slow_provider_is_still_named() {
    let causes = |looks: &[AgentLook]| -> Vec<Cause> {
        of_agent(looks).iter().map(|finding| finding.cause).collect()
    };
    assert_eq!(causes(&agent(500.0, 50.0, 30.0)), [Cause::SlowProvider]);
    let mut told = agent(300.0, 450.0, 75.0);
    for (look, n) in told.iter_mut().zip(0_u32..) {
        let calls = &mut look.endpoints[0].calls;
        calls.app_timed = n.into();
        calls.app_timed_total_ms = 300.0 * f64::from(n);
        calls.app_total_ms = 280.0 * f64::from(n);
    }
    assert_eq!(causes(&told), [Cause::SlowProvider, Cause::NoProcessor]);
}

#[test]
fn a_quota_that_is_used_up_is_named() {
    let throttled = looks(20, |nth| {
        let mut look = look(endpoint(9 * nth, 100.0, &[]), 200);
        let quota = CpuThrottlingSnapshot { periods: 5 * nth, throttled: 4 * nth };
        look.process = Some(ProcessSnapshot {
            run_queue_ms: None,
            cpu_throttling: Some(quota),
            ..process(1.0, 0.0, 95.0)
        });
        look
    });
    let findings = of_agent(&throttled);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let line = "its control group had used up its quota in 80% of the periods".to_owned();
    assert!(findings[0].evidence.contains(&line), "{findings:?}");
}

/// Tiny replies that take 75 ms to decode, as the clock has it, on hardly any processor time.
#[test]
fn time_without_a_processor_is_no_decoding() {
    let causes = |cpu_ms: f64| {
        let mut looks = agent(100.0, 450.0, 75.0);
        for (look, n) in looks.iter_mut().zip(0_u32..) {
            look.process = Some(process(cpu_ms * f64::from(n), 450.0 * f64::from(n), 75.0));
            let spent = [("network", 40.0), ("decode", 75.0)];
            look.stages = vec![StagesSnapshot {
                place: "ingress".to_owned(),
                service: "com.acme.Orders".to_owned(),
                calls: n.into(),
                total_ms: spent.map(|(name, ms)| (name.to_owned(), ms * f64::from(n))).into(),
            }];
        }
        of_agent(&looks).iter().map(|finding| finding.cause).collect::<Vec<_>>()
    };
    assert_eq!(causes(5.0), [Cause::NoProcessor]);
    // Nine calls at each look: that is work.
    assert_eq!(causes(600.0), [Cause::EventLoop, Cause::NoProcessor]);
}
