//! What stages mean, and what they do not.

use std::collections::BTreeMap;

use agent::inspect::snapshot::{AppSnapshot, CallsSnapshot};

use super::super::testing::{endpoint, of_agent, service};
use super::*;

/// Looks at an agent with so many more timed calls each time, which spend `ms` on average.
fn looks(n_looks: u64, ms: &dyn Fn(u64) -> [(&'static str, f64); 4]) -> Vec<AgentLook> {
    let mut stages = StagesSnapshot {
        place: "ingress".to_owned(),
        service: "com.acme.Orders".to_owned(),
        ..StagesSnapshot::default()
    };
    let look = |nth| {
        stages.calls += 10;
        for (stage, ms) in ms(nth) {
            *stages.total_ms.entry(stage.to_owned()).or_default() += 10.0 * ms;
        }
        AgentLook { stages: vec![stages.clone()], ..AgentLook::default() }
    };
    (0..n_looks).map(look).collect()
}

fn causes(looks: &[AgentLook]) -> Vec<Cause> {
    of_agent(looks).into_iter().map(|finding| finding.cause).collect()
}

#[test]
fn calls_that_wait_are_named_with_how_long() {
    let waits = |_| [("wait", 80.0), ("network", 1.0), ("app", 39.0), ("decode", 0.1)];
    let [finding] = of_agent(&looks(20, &waits)).try_into().unwrap();
    assert_eq!(finding.cause, Cause::CallsWait);
    assert_eq!(finding.verdict, "calls wait 80.0 ms before they are sent");
    assert_eq!(finding.evidence, ["that is 67% of the time of 190 calls that were timed"]);
    // Only agents lend credits; any endpoint may have a limit.
    for (protocol, told) in [
        ("link", "calls wait 80.0 ms for a credit, because the capacity is used up"),
        ("dubbo", "calls wait 80.0 ms for room at an endpoint: those below have none"),
    ] {
        let mut looks = looks(20, &waits);
        let mut full = endpoint(0, 0.0, &[]);
        (full.protocol, full.capacity, full.calls.in_flight) = (protocol.to_owned(), Some(2), 2);
        full.service = looks[19].stages[0].service.clone();
        looks[19].endpoints = vec![full];
        let [finding] = of_agent(&looks).try_into().unwrap();
        assert_eq!(finding.verdict, told);
        assert!(finding.evidence[1].contains("has 2 of 2 calls in flight"), "{finding}");
    }
}

#[test]
fn long_replies_that_starve_others_are_named() {
    let decodes = |_| [("wait", 0.1), ("network", 30.0), ("decode", 45.0), ("answer", 3.0)];
    let [finding] = of_agent(&looks(20, &decodes)).try_into().unwrap();
    assert_eq!(finding.cause, Cause::EventLoop);
    assert_eq!(finding.verdict, "the event loop is starved by decoding its replies");
    assert_eq!(finding.evidence[0], "that takes 45.0 ms for each of 190 calls that were timed");
    let with_lag = |ms| {
        let mut looks = looks(20, &decodes);
        looks[19].lag_ms = Some(ms);
        let [finding] = of_agent(&looks).try_into().unwrap();
        finding
    };
    let starved = with_lag(34.0);
    assert_eq!((starved.cause, &starved.verdict), (Cause::EventLoop, &finding.verdict));
    assert!(starved.evidence[1].contains("its event loop was 34.0 ms late"), "{starved}");
    // They are decoded beside it.
    let aside = with_lag(2.0);
    assert_eq!(aside.cause, Cause::LongMessages);
    assert_eq!(aside.verdict, "decoding its replies takes 45.0 ms of each call, 60% of its time");
}

#[test]
fn two_causes_at_once_are_both_named() {
    let both = |_| [("wait", 90.0), ("network", 30.0), ("encode", 25.0), ("answer", 0.1)];
    assert_eq!(causes(&looks(20, &both)), [Cause::CallsWait, Cause::EventLoop]);
}

#[test]
fn what_a_naive_rule_would_blame_is_not_blamed() {
    // All is well, or nobody calls.
    let well = |_| [("wait", 0.1), ("network", 0.4), ("app", 2.0), ("decode", 0.1)];
    assert_eq!(causes(&looks(20, &well)), []);
    let mut idle = looks(1, &well);
    idle.resize(20, idle[0].clone());
    assert_eq!(causes(&idle), []);
    // A caller that sends its request, and reads the answer, as slowly as it likes.
    let caller = |_| [("read", 900.0), ("network", 0.4), ("app", 2.0), ("answer", 2_000.0)];
    assert_eq!(causes(&looks(20, &caller)), []);
    // Everything stops for 2 s once, wherever the calls are then.
    for stage in ["wait", "network", "decode"] {
        let pause = |nth| {
            [(stage, if nth == 7 { 2_000.0 } else { 0.1 }), ("app", 2.0), ("", 0.0), ("", 0.0)]
        };
        assert_eq!(causes(&looks(20, &pause)), [], "{stage}");
    }
    // A process that began anew between two looks.
    let mut anew = looks(20, &well);
    anew.extend(looks(3, &well));
    assert_eq!(causes(&anew), []);
    assert_eq!(causes(&anew[..1]), []);
}

/// Its sums are smaller then than those before.
#[test]
fn a_process_that_began_anew_has_its_verdict() {
    let waits = |_| [("wait", 80.0), ("network", 1.0), ("app", 39.0), ("decode", 0.1)];
    let mut anew = looks(10, &waits).split_off(5);
    anew.extend(looks(4, &waits));
    assert_eq!(causes(&anew), [Cause::CallsWait]);
}

/// The app behind this agent, which takes two calls at a time.
fn app(service: &str, in_flight: u64, waiting: u64) -> AppSnapshot {
    AppSnapshot {
        app: "127.0.0.1:20880".to_owned(),
        services: vec![service.to_owned()],
        capacity: 2,
        source: "configured".to_owned(),
        in_flight,
        waiting,
        ..AppSnapshot::default()
    }
}

fn waiting_service(waiting: usize) -> ServiceSnapshot {
    ServiceSnapshot { waiting, ..service(BTreeMap::new()) }
}

/// Those that are shed at once have waited for nothing: the means say that all is well.
#[test]
fn calls_that_stand_in_line_are_named_whatever_the_means_say() {
    let mut calls = CallsSnapshot::default();
    (calls.in_flight, calls.ok) = (2, 5);
    let endpoint = EndpointSnapshot {
        service: "com.acme.Orders".to_owned(),
        registry: "r".to_owned(),
        address: "10.0.0.7:20880".to_owned(),
        protocol: "dubbo".to_owned(),
        standing: [("ready".to_owned(), 1)].into(),
        weight: 100,
        capacity: Some(2),
        capacity_source: Some("configured".to_owned()),
        calls,
        ..EndpointSnapshot::default()
    };
    let well = |_| [("wait", 0.1), ("network", 0.4), ("app", 2.0), ("decode", 0.1)];
    let looks_with = |waiting: fn(usize) -> usize| {
        let mut looks = looks(20, &well);
        for (nth, look) in looks.iter_mut().enumerate() {
            look.services = vec![waiting_service(waiting(nth))];
            look.endpoints = vec![endpoint.clone()];
        }
        looks
    };
    let [finding] = of_agent(&looks_with(|nth| nth % 5)).try_into().unwrap();
    assert_eq!(finding.cause, Cause::CallsWait);
    assert_eq!(
        finding.verdict,
        "calls wait for endpoints that have as many as they can take, 80% of the time"
    );
    assert_eq!(
        finding.evidence,
        [
            "at most 4 waited at a time",
            "10.0.0.7:20880 has 2 of 2 calls in flight; the limit is configured"
        ]
    );
    // The app is behind this agent: its pool is what is named.
    let own = |mut looks: Vec<AgentLook>| {
        for look in &mut looks {
            look.apps = vec![app("com.acme.Orders", 2, 4)];
        }
        causes(&looks)
    };
    assert_eq!(own(looks_with(|nth| nth % 5)), [Cause::PoolFull]);
    let waits = |_| [("wait", 80.0), ("network", 1.0), ("app", 39.0), ("decode", 0.1)];
    let mut timed = looks(20, &waits);
    timed.iter_mut().for_each(|look| look.endpoints = vec![endpoint.clone()]);
    assert_eq!(causes(&timed), [Cause::CallsWait]);
    assert_eq!(own(timed), [Cause::PoolFull]);
    // All are busy, and nobody waits; or some waited for a moment.
    assert_eq!(causes(&looks_with(|_| 0)), []);
    assert_eq!(causes(&looks_with(|nth| usize::from(nth < 8))), []);
}

#[test]
fn what_is_below_the_limits_has_no_verdict() {
    let waits = |wait, app| {
        causes(&looks(20, &|_| [("wait", wait), ("app", app), ("network", 1.0), ("decode", 0.1)]))
    };
    assert_eq!(waits(15.0, 10.0), []);
    assert_eq!(waits(25.0, 10.0), [Cause::CallsWait]);
    assert_eq!(waits(25.0, 150.0), []);
    assert_eq!(waits(50.0, 100.0), [Cause::CallsWait]);
    let decodes = |ms| {
        causes(&looks(20, &|_| [("wait", 0.1), ("app", 2.0), ("network", 1.0), ("decode", ms)]))
    };
    assert_eq!(decodes(8.0), []);
    assert_eq!(decodes(12.0), [Cause::EventLoop]);
    // How slowly the caller sends is no part of a call's time, and hides no wait.
    let read = |_| [("read", 900.0), ("wait", 50.0), ("app", 100.0), ("answer", 900.0)];
    assert_eq!(causes(&looks(20, &read)), [Cause::CallsWait]);
    // Waits in most looks, which have few calls; nearly all calls wait for nothing.
    let mut seldom = looks(20, &|_| [("wait", 50.0), ("decode", 20.0), ("app", 9.0), ("", 0.0)]);
    for look in &mut seldom[15..] {
        look.stages[0].calls += 1_000;
    }
    assert_eq!(causes(&seldom), []);
}

#[test]
fn encoding_is_told_from_decoding() {
    let encodes = |_| [("wait", 0.1), ("network", 3.0), ("encode", 45.0), ("decode", 11.0)];
    let [finding] = of_agent(&looks(20, &encodes)).try_into().unwrap();
    assert_eq!(finding.verdict, "the event loop is starved by encoding its arguments");
}

/// A busy machine makes any event loop late once in a while. Starved ones are late all the time.
#[test]
fn one_hiccup_starves_no_event_loop() {
    let decodes =
        |app: f64| move |_| [("wait", 0.1), ("app", app), ("decode", 45.0), ("answer", 3.0)];
    let with_lag = |app: f64, worst, usual| {
        let mut looks = looks(20, &decodes(app));
        (looks[19].lag_ms, looks[19].usual_lag_ms) = (Some(worst), usual);
        of_agent(&looks)
    };
    let [hiccup] = with_lag(30.0, 340.0, Some(2.0)).try_into().unwrap();
    assert_eq!(hiccup.cause, Cause::LongMessages);
    assert_eq!(
        hiccup.evidence[1],
        "other calls do not wait for it: in most of the last ten seconds no event loop was more \
         than 2.0 ms late; one was 340.0 ms late at worst"
    );
    let [never] = with_lag(30.0, 3.0, Some(2.0)).try_into().unwrap();
    assert!(never.evidence[1].ends_with("no event loop was more than 3.0 ms late"), "{never}");
    let [starved] = with_lag(30.0, 340.0, Some(30.0)).try_into().unwrap();
    assert_eq!(starved.cause, Cause::EventLoop);
    // Beside the event loops, and a small part of calls that take long anyway.
    assert_eq!(with_lag(900.0, 3.0, Some(2.0)), []);
}

/// The pages of one service say nothing of another, nor those of providers anything of callers.
#[test]
fn each_service_is_judged_by_its_own_pages() {
    let stages = |look: &mut AgentLook, place: &str, service: &str, ms: f64| {
        let calls = look.stages[0].calls;
        let total_ms = [("wait".to_owned(), calls as f64 * ms)].into();
        let (place, service) = (place.to_owned(), service.to_owned());
        look.stages.insert(0, StagesSnapshot { place, service, calls, total_ms });
    };
    let well = |_| [("wait", 0.1), ("network", 0.4), ("app", 2.0), ("decode", 0.1)];
    let with = |place: &str, service: &str, ms: f64| {
        let mut looks = looks(20, &well);
        looks.iter_mut().for_each(|look| stages(look, place, service, ms));
        of_agent(&looks).into_iter().map(|it| it.subject).collect::<Vec<_>>()
    };
    assert_eq!(with("ingress", "com.acme.Prices", 90.0), ["com.acme.Prices"]);
    // Waits at a provider's gate are found by what is known of its app.
    assert_eq!(with("export", "com.acme.Orders", 90.0), [""; 0]);
    assert_eq!(with("export", "com.acme.Prices", 90.0), [""; 0]);
    // A service that is called here and offered here, too, is named once.
    let mut both = looks(20, &|_| [("wait", 90.0), ("app", 2.0), ("network", 1.0), ("", 0.0)]);
    both.iter_mut().for_each(|look| stages(look, "export", "com.acme.Orders", 0.1));
    assert_eq!(causes(&both), [Cause::CallsWait]);
}

/// A look at a service whose two endpoints have `in_flight` calls of two each, and `waiting`.
fn in_line(in_flight: [u64; 2], waiting: usize) -> AgentLook {
    let endpoint = |in_flight| {
        let mut endpoint = super::super::testing::endpoint(5, 1.0, &[]);
        (endpoint.calls.in_flight, endpoint.calls.ok) = (in_flight, in_flight);
        (endpoint.capacity, endpoint.capacity_source) = (Some(2), Some("configured".to_owned()));
        endpoint
    };
    AgentLook {
        services: vec![waiting_service(waiting)],
        endpoints: in_flight.map(endpoint).into(),
        ..AgentLook::default()
    }
}

#[test]
fn only_full_endpoints_have_a_line() {
    // Calls wait for something else: endpoints have room.
    assert_eq!(causes(&vec![in_line([1, 1], 4); 20]), []);
    let [finding] = of_agent(&vec![in_line([2, 1], 4); 20]).try_into().unwrap();
    assert_eq!(finding.evidence.len(), 2, "{finding}");
    // It has ended just when somebody looks last.
    let mut over = vec![in_line([2, 2], 4); 20];
    over[19] = in_line([0, 0], 0);
    let [finding] = of_agent(&over).try_into().unwrap();
    assert_eq!(finding.evidence.len(), 3, "{finding}");
    // The line is that of another service.
    let mut other = in_line([0, 0], 4);
    other.services[0].service = "com.acme.Prices".to_owned();
    other.services.push(waiting_service(0));
    other.endpoints = in_line([2, 2], 0).endpoints;
    assert_eq!(causes(&vec![other; 20]), []);
}

#[test]
fn each_service_that_waits_is_named_once() {
    let waits = |_| [("wait", 80.0), ("network", 1.0), ("app", 39.0), ("decode", 0.1)];
    let mut timed = looks(20, &waits);
    for look in &mut timed {
        let line = in_line([2, 2], 4);
        (look.services, look.endpoints) = (line.services, line.endpoints);
    }
    assert_eq!(causes(&timed), [Cause::CallsWait]);
    // Another one has a line of its own, and its app is not the one behind this agent.
    for look in &mut timed {
        let mut line = in_line([2, 2], 4);
        line.services[0].service = "com.acme.Prices".to_owned();
        line.endpoints.iter_mut().for_each(|it| it.service = "com.acme.Prices".to_owned());
        look.services.append(&mut line.services);
        look.endpoints.append(&mut line.endpoints);
        look.apps = vec![app("com.acme.Stock", 0, 0)];
    }
    let subjects: Vec<_> = of_agent(&timed).into_iter().map(|it| it.subject).collect();
    assert_eq!(subjects, ["com.acme.Orders", "com.acme.Prices"]);
    // Calls wait, but not for the app behind this agent: it has room.
    let mut own = looks(20, &waits);
    for look in &mut own {
        look.apps = timed[0].apps.clone();
        look.apps[0].services = vec!["com.acme.Orders".to_owned()];
    }
    assert_eq!(causes(&own), [Cause::CallsWait]);
}

/// The provider's operator asks its own agent.
#[test]
fn a_slow_app_is_named_by_its_own_agent() {
    let looks = |app_ms: fn(u64) -> f64| {
        let mut stages = StagesSnapshot {
            place: "export".to_owned(),
            service: "com.acme.Orders".to_owned(),
            ..StagesSnapshot::default()
        };
        let look = |nth| {
            stages.calls += 4;
            *stages.total_ms.entry("app".to_owned()).or_default() += 4.0 * app_ms(nth);
            *stages.total_ms.entry("wait".to_owned()).or_default() += 4.0;
            AgentLook { stages: vec![stages.clone()], ..AgentLook::default() }
        };
        (0..20).map(look).collect::<Vec<_>>()
    };
    let findings = of_agent(&looks(|_| 400.0));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.cause, &*finding.subject), (Cause::SlowProvider, "app of com.acme.Orders"));
    assert_eq!(finding.verdict, "the app takes 400.0 ms for each call, 100% of its time here");
    assert_eq!(
        finding.evidence,
        ["that is the mean of 76 calls that were timed", "calls waited 1.0 ms for room in it"]
    );
    assert_eq!(causes(&looks(|_| 150.0)), [], "it is not slow");
    assert_eq!(causes(&looks(|nth| if nth == 9 { 9_000.0 } else { 5.0 })), [], "a pause");
}
