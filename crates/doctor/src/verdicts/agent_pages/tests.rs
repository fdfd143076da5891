//! What pages mean, and what they do not.

use super::super::testing::{endpoint, look, looks, of_agent};
use super::*;

fn app(in_flight: u64, shed: u64) -> AppSnapshot {
    AppSnapshot {
        app: "127.0.0.1:20880".to_owned(),
        services: vec!["com.acme.Orders".to_owned()],
        capacity: 200,
        source: "configured".to_owned(),
        in_flight,
        waiting: 17,
        shed,
        ..AppSnapshot::default()
    }
}

#[test]
fn a_healthy_agent_has_no_verdict() {
    assert_eq!(of_agent(&looks(20, |nth| look(endpoint(100 * nth, 3.0, &[]), 200))), []);
    // What failed before it was watched is over.
    let failed = &[("timeout", 7), ("thread_pool_exhausted", 9)];
    assert_eq!(of_agent(&looks(20, |nth| look(endpoint(10 * nth, 3.0, failed), 200))), []);
    // Slow calls of an hour ago.
    let idle = looks(20, |_| {
        let mut endpoint = endpoint(10, 900.0, &[]);
        endpoint.calls.in_flight = 0;
        look(endpoint, 200)
    });
    assert_eq!(of_agent(&idle), []);
    assert_eq!(of_agent(&idle[..1]), []);
    assert_eq!(of_agent(&[]), []);
}

#[test]
fn a_full_pool_is_named_and_one_that_is_full_now_and_then_is_not() {
    let looks = |in_flight: [u64; 5]| {
        in_flight.map(|n| AgentLook { apps: vec![app(n, 2 * n)], ..AgentLook::default() })
    };
    let full = "the provider's thread pool is full: 200 of 200 in use, 80% of the time";
    let [finding] = of_agent(&looks([150, 200, 200, 200, 200])).try_into().unwrap();
    assert_eq!((finding.cause, &*finding.verdict), (Cause::PoolFull, full));
    assert_eq!(finding.evidence[0], "the capacity of 200 calls is configured");
    assert_eq!(
        finding.evidence[1],
        "up to 17 were seen waiting at its gate; 100 were shed meanwhile"
    );
    // A look that meets nobody there does not say that nobody waited.
    let unseen = [(0, 0), (0, 100)].map(|(from, to)| {
        let n_shed = [from, from, from, from, to];
        let apps = |n: u64| vec![AppSnapshot { waiting: 0, shed: n, ..app(200, 0) }];
        let looks = n_shed.map(|n| AgentLook { apps: apps(n), ..AgentLook::default() });
        of_agent(&looks)[0].evidence[1].clone()
    });
    assert_eq!(
        unseen,
        [
            "no call was seen waiting at its gate, and none was shed",
            "100 calls were shed at its gate, at once or between two looks"
        ]
    );
    // It has room again just when the doctor ends.
    let [finding] = of_agent(&looks([200, 200, 200, 200, 0])).try_into().unwrap();
    assert_eq!(finding.verdict, full);
    assert_eq!(of_agent(&looks([20, 200, 20, 200, 199])), []);
}

#[test]
fn rejections_are_named_if_they_go_on() {
    let rejected = |n: fn(u64) -> u64| {
        let at = |nth| look(endpoint(5 * nth, 1.0, &[("thread_pool_exhausted", n(nth))]), 100);
        of_agent(&looks(20, at))
    };
    let [finding] = rejected(|nth| 2 + nth / 4).try_into().unwrap();
    assert_eq!(finding.cause, Cause::PoolRejects);
    assert_eq!(
        finding.evidence,
        [
            "4 calls were answered by \"Threadpool is exhausted\" meanwhile",
            "at most 3 calls were in flight to it"
        ]
    );
    // One of a thousand, as an agent that finds out what a provider can take may get, or a burst.
    assert_eq!(rejected(|nth| u64::from(9 < nth)), []);
    assert_eq!(rejected(|nth| 50 * nth.clamp(5, 8)), []);
}

#[test]
fn an_endpoint_that_is_out_for_most_of_the_time_is_named() {
    let out = |standing: [(&str, usize); 2], is_out: fn(u64) -> bool| {
        let at = |nth| {
            let mut endpoint = endpoint(5 * nth, 1.0, &[]);
            if is_out(nth) {
                endpoint.standing = standing.map(|(name, n)| (name.to_owned(), n)).into();
                endpoint.why = vec!["cannot connect: refused".to_owned()];
            }
            look(endpoint, 100)
        };
        of_agent(&looks(20, at))
    };
    let gone = [("ejected", 1), ("down", 1)];
    let [finding] = out(gone, |nth| 4 < nth).try_into().unwrap();
    assert_eq!(finding.cause, Cause::EndpointOut);
    assert_eq!(finding.verdict, "it gets no calls: down, ejected, 75% of the time");
    assert_eq!(finding.evidence, ["cannot connect: refused"]);
    let [finding] = out(gone, |nth| nth < 15).try_into().unwrap();
    assert_eq!(finding.evidence, ["cannot connect: refused", "it gets calls again now"]);
    // It restarts, also if that is when the doctor ends.
    assert_eq!(out(gone, |nth| (6..10).contains(&nth)), []);
    assert_eq!(out(gone, |nth| 14 < nth), []);
    // One worker of two still has it; or it was taken away.
    assert_eq!(out([("ejected", 1), ("ready", 1)], |_| true), []);
    assert_eq!(out([("leaving", 1), ("leaving", 1)], |_| true), []);
}

/// Ejection empties no cluster: where no other endpoint is better, it gets the calls, and its
/// failures are what there is to see.
#[test]
fn an_ejected_endpoint_that_gets_its_calls_fails_them() {
    let ejected = |each: u64, of_others: u64| {
        let at = |nth: u64| {
            let mut bad = endpoint(0, 1.0, &[("provider_rejected", each * nth)]);
            bad.calls.in_flight = 0;
            bad.standing = [("ejected".to_owned(), 2)].into();
            bad.why = vec!["it refuses calls".to_owned()];
            let mut other = endpoint(of_others * nth, 1.0, &[]);
            other.address = "10.0.0.8:20880".to_owned();
            other.calls.in_flight = 0;
            AgentLook { endpoints: vec![bad, other], ..AgentLook::default() }
        };
        let [finding] = of_agent(&looks(20, at)).try_into().unwrap();
        finding
    };
    let finding = ejected(10, 0);
    assert_eq!(finding.cause, Cause::CallsFail);
    assert_eq!(finding.verdict, "calls to it fail with provider_rejected");
    assert_eq!(finding.evidence[0], "190 of the 190 calls that it got failed so");
    // Trial calls are few.
    let finding = ejected(1, 99);
    assert_eq!(finding.verdict, "it gets no calls: ejected, 100% of the time");
    assert_eq!(
        finding.evidence,
        ["it refuses calls", "19 trial calls failed with provider_rejected"]
    );
}

/// A list of hundreds, of which none is there any more.
#[test]
fn what_many_endpoints_of_a_service_share_is_told_once() {
    let out = |n: u64, differs: bool| {
        let at = |nth: u64| {
            let of = |number: u64| {
                let mut endpoint = endpoint(nth, 1.0, &[]);
                endpoint.address = format!("10.0.1.{number:03}:20880");
                endpoint.standing = [("down".to_owned(), 1)].into();
                let why = if differs && number.is_multiple_of(2) { "no route" } else { "refused" };
                endpoint.why = vec![format!("cannot connect to {}: {why}", endpoint.address)];
                endpoint
            };
            AgentLook { endpoints: (0..n).map(of).collect(), ..AgentLook::default() }
        };
        of_agent(&looks(5, at))
    };
    assert_eq!(out(3, false).len(), 3);
    let [finding] = out(500, false).try_into().unwrap();
    assert_eq!(finding.subject, "com.acme.Orders at 500 endpoints");
    let these = "these are 10.0.1.000:20880, 10.0.1.001:20880, 10.0.1.002:20880, and 497 more";
    assert_eq!(finding.evidence[1], these);
    assert_eq!(out(500, true).len(), 2, "each reason once");
}

/// One address may offer a thousand services.
#[test]
fn what_many_services_of_an_endpoint_share_is_told_once() {
    let out = |n_services: u64| {
        let at = |nth: u64| {
            let of = |service: u64| {
                let mut endpoint = endpoint(nth, 1.0, &[]);
                endpoint.service = format!("com.acme.S{service:04}");
                endpoint.standing = [("down".to_owned(), 1)].into();
                endpoint.why = vec!["cannot connect: refused".to_owned()];
                endpoint
            };
            AgentLook { endpoints: (0..n_services).map(of).collect(), ..AgentLook::default() }
        };
        of_agent(&looks(5, at))
    };
    let subjects: Vec<String> = out(3).into_iter().map(|it| it.subject).collect();
    assert_eq!((subjects.len(), &*subjects[2]), (3, "com.acme.S0002 at 10.0.0.7:20880"));
    let [finding] = out(200).try_into().unwrap();
    assert_eq!(finding.subject, "200 services at 10.0.0.7:20880");
    let named = "this applies to com.acme.S0000, com.acme.S0001, com.acme.S0002, and 197 more";
    assert_eq!(finding.evidence, ["cannot connect: refused", named]);
}

#[test]
fn a_full_pool_is_that_of_one_app() {
    let mut other = app(3, 0);
    other.app = "127.0.0.1:20881".to_owned();
    let look = AgentLook { apps: vec![other, app(200, 0)], ..AgentLook::default() };
    let [finding] = of_agent(&vec![look; 5]).try_into().unwrap();
    assert_eq!(finding.subject, "app 127.0.0.1:20880");
}

#[test]
fn what_keeps_an_endpoint_out_is_no_good_standing() {
    let causes = |standing: &[(&str, usize)]| {
        let mut endpoint = endpoint(5, 1.0, &[]);
        endpoint.calls.in_flight = 0;
        endpoint.standing = standing.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let looks = looks(20, |_| look(endpoint.clone(), 100));
        of_agent(&looks).into_iter().map(|it| it.cause).collect::<Vec<_>>()
    };
    // Nobody has said anything of it.
    assert_eq!(causes(&[]), []);
    assert_eq!(causes(&[("ready", 0), ("down", 2)]), [Cause::EndpointOut]);
    assert_eq!(causes(&[("leaving", 1), ("down", 1)]), [Cause::EndpointOut]);
}

/// What is said of one endpoint is not taken for what is said of another one that is like it.
#[test]
fn endpoints_that_are_alike_are_told_apart() {
    for change in [
        |it: &mut EndpointSnapshot| it.service = "com.acme.Prices".to_owned(),
        |it: &mut EndpointSnapshot| it.registry = "r2".to_owned(),
        |it: &mut EndpointSnapshot| it.address = "10.0.0.8:20880".to_owned(),
        |it: &mut EndpointSnapshot| it.protocol = "tri".to_owned(),
    ] {
        let at = |nth| {
            let mut out = endpoint(5 * nth, 1.0, &[]);
            out.standing = [("down".to_owned(), 1)].into();
            change(&mut out);
            let mut look = look(endpoint(5 * nth, 1.0, &[]), 100);
            look.endpoints.push(out);
            look
        };
        let looks = looks(20, at);
        let [finding] = of_agent(&looks).try_into().unwrap();
        let out = looks[0].endpoints[1].clone();
        assert_eq!(finding.subject, format!("{} at {}", out.service, out.address));
    }
}

/// A provider whose pool rejects calls beside another one that is slow.
#[test]
fn two_causes_at_once_are_both_named() {
    let at = |nth| {
        let rejects = endpoint(5 * nth, 1.0, &[("thread_pool_exhausted", nth)]);
        let slow = endpoint(5 * nth, 900.0, &[]);
        let mut look = look(rejects, 100);
        look.endpoints.push(EndpointSnapshot { registry: "r2".to_owned(), ..slow });
        look
    };
    let causes: Vec<_> = of_agent(&looks(20, at)).into_iter().map(|it| it.cause).collect();
    assert_eq!(causes, [Cause::PoolRejects, Cause::SlowProvider]);
    // And one that is both.
    let both = |nth| look(endpoint(5 * nth, 900.0, &[("thread_pool_exhausted", nth)]), 100);
    let causes: Vec<_> = of_agent(&looks(20, both)).into_iter().map(|it| it.cause).collect();
    assert_eq!(causes, [Cause::PoolRejects, Cause::SlowProvider]);
}
