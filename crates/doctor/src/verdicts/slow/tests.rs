//! What makes calls slow, and what only looks like it.

use agent::inspect::snapshot::StagesSnapshot;

use super::super::agent_pages::of_agent;
use super::super::testing::{endpoint, look, looks};
use super::*;

fn only(looks: &[AgentLook]) -> Finding {
    let findings = of_agent(looks);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.into_iter().next().unwrap()
}

#[test]
fn a_slow_provider_is_told_from_a_slow_network() {
    let slow = |rtt_us| looks(20, |nth| look(endpoint(9 * nth, 500.0, &[]), rtt_us));
    let finding = only(&slow(15_000));
    assert_eq!(finding.cause, Cause::SlowProvider);
    assert_eq!(finding.verdict, "the network is fine: 97% of the time is the provider's own work");
    assert_eq!(
        finding.evidence,
        ["the slowest round trip to it takes 15.0 ms", "171 good answers took 500.0 ms on average"]
    );
    assert_eq!(of_agent(&slow(400_000)), []);
    // Without a round trip, nothing is said of the network.
    let mut unknown = slow(15_000);
    unknown.iter_mut().for_each(|look| look.connections.clear());
    assert_eq!(of_agent(&unknown), []);
}

/// The mean that balancers go by is that of one worker, and may be old.
#[test]
fn one_slow_call_among_many_is_none() {
    let slow_once = |n_each: u64| {
        looks(20, |nth| {
            let mut endpoint = endpoint(n_each * nth, 3.0, &[]);
            endpoint.calls.average_ms = Some(900.0);
            *endpoint.calls.ok_total_ms.as_mut().unwrap() += if 7 < nth { 2_000.0 } else { 0.0 };
            look(endpoint, 200)
        })
    };
    assert_eq!(of_agent(&slow_once(100)), []);
    assert_eq!(of_agent(&slow_once(2)), []);
    // Nor is one call in all the time.
    let alone = looks(20, |nth| look(endpoint(u64::from(7 < nth), 900.0, &[]), 200));
    let idle = |mut look: AgentLook| {
        look.endpoints[0].calls.in_flight = 0;
        look
    };
    assert_eq!(of_agent(&alone.into_iter().map(idle).collect::<Vec<_>>()), []);
    // An older agent says no more than its mean.
    let older = looks(20, |nth| {
        let mut endpoint = endpoint(9 * nth, 500.0, &[]);
        endpoint.calls.ok_total_ms = None;
        look(endpoint, 200)
    });
    assert_eq!(only(&older).cause, Cause::SlowProvider);
}

#[test]
fn a_provider_that_does_not_answer_is_named() {
    let timeouts = looks(20, |nth| look(endpoint(0, 0.0, &[("timeout", nth / 2)]), 200));
    let finding = only(&timeouts);
    assert_eq!(finding.verdict, "the network is fine; the provider does not answer");
    // Calls whose time is not up yet.
    let mut waiting = looks(20, |nth| look(endpoint(if nth < 3 { nth } else { 3 }, 1.0, &[]), 200));
    let finding = only(&waiting);
    assert_eq!(finding.verdict, "the network is fine; the provider does not answer");
    assert_eq!(finding.evidence, ["none of the 3 calls that are in flight was answered for 8.0 s"]);
    for look in &mut waiting {
        look.connections[0].tcp.as_mut().unwrap().unacked_segments = Some(3);
    }
    let finding = only(&waiting);
    assert_eq!(finding.verdict, "nothing comes back, and what was sent is not confirmed");
    // Some of many.
    let some = looks(20, |nth| look(endpoint(100 * nth, 3.0, &[("timeout", nth)]), 200));
    let finding = only(&some);
    assert_eq!(
        finding.verdict,
        "the network is fine; the provider does not answer some calls in time"
    );
}

/// A provider that stands still for 2 s, once, answers late then, or not in time.
#[test]
fn a_pause_of_the_provider_is_neither_its_work_nor_the_network() {
    let pause = |begin: u64| {
        looks(20, |nth| {
            let past = nth.saturating_sub(begin);
            let n_timeouts = 10 * past.min(4);
            // Nothing is answered meanwhile, and 4 calls then take all that time.
            let mut endpoint = endpoint(10 * (nth - past.min(4)), 3.0, &[("timeout", n_timeouts)]);
            let late_ms = if 4 < past { 8_000.0 } else { 0.0 };
            *endpoint.calls.ok_total_ms.as_mut().unwrap() += late_ms;
            look(endpoint, 200)
        })
    };
    for begin in [0, 8, 15, 17] {
        assert_eq!(of_agent(&pause(begin)), [], "{begin}");
    }
}

/// A reply that trickles through a small window keeps those after it waiting. The provider idles.
#[test]
fn a_connection_that_is_full_is_no_slow_provider() {
    let busy = |per_look: u64| {
        looks(20, move |nth| {
            let mut look = look(endpoint(9 * nth, 700.0, &[]), 10_000);
            look.connections[0].in_message_ms = Some(per_look * nth);
            look
        })
    };
    let finding = only(&busy(450));
    assert_eq!(finding.cause, Cause::ConnectionFull);
    assert_eq!(
        finding.verdict,
        "calls wait for each other on the connection: it is in the midst of a message 90% of the \
         time"
    );
    assert!(finding.remedy.contains("doctor --port 20880"), "{finding}");
    assert_eq!(only(&busy(100)).cause, Cause::SlowProvider);
    // Its agent knows that the app takes nearly all of the time.
    let of_app = |app_ms: f64| {
        let mut looks = busy(450);
        for (nth, look) in (0_u32..).zip(&mut looks) {
            let ms = |each: f64| f64::from(nth) * each;
            look.stages = vec![StagesSnapshot {
                place: "ingress".to_owned(),
                service: "com.acme.Orders".to_owned(),
                calls: nth.into(),
                total_ms: [
                    ("app".to_owned(), ms(app_ms)),
                    ("network".to_owned(), ms(700.0 - app_ms)),
                ]
                .into(),
            }];
        }
        looks
    };
    assert_eq!(only(&of_app(650.0)).cause, Cause::SlowProvider);
    let finding = only(&of_app(150.0));
    assert_eq!(finding.cause, Cause::ConnectionFull);
    assert_eq!(
        finding.evidence[2],
        "its agent says that the app took 21% of the time after 19 calls that were timed had been \
         sent, 2.9 s together"
    );
}

/// What its agent says counts, and not what is left of the round trip.
#[test]
fn calls_that_wait_at_the_provider_are_not_its_own_work() {
    let looks = |app_ms: f64| {
        looks(20, move |nth| {
            let mut look = look(endpoint(9 * nth, 600.0, &[]), 200);
            let ms = |each: f64| each * nth as f64;
            look.stages = vec![StagesSnapshot {
                place: "ingress".to_owned(),
                service: "com.acme.Orders".to_owned(),
                calls: nth,
                total_ms: [
                    ("app".to_owned(), ms(app_ms)),
                    ("network".to_owned(), ms(600.0 - app_ms)),
                    // In our own line, before they are sent; it is found apart.
                    ("wait".to_owned(), ms(15.0)),
                ]
                .into(),
            }];
            look
        })
    };
    let verdict = |app_ms| only(&looks(app_ms)).verdict;
    assert_eq!(verdict(540.0), "the network is fine: 90% of the time is the provider's own work");
    assert_eq!(verdict(360.0), "the network is fine: 60% of the time is the provider's own work");
    assert_eq!(
        verdict(60.0),
        "the network is fine: calls wait at the provider before it begins them; 10% of the time \
         is its own work"
    );
}
