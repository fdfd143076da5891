//! What makes calls slow, and what only looks like it.

use agent::inspect::snapshot::StagesSnapshot;

use super::super::WatchedConnection;
use super::super::agent_pages;
use super::super::testing::{endpoint, look, looks, of_agent};
use super::*;
use crate::figures::{Role, SocketId};

const ARRIVES: &str = "the provider does not answer, though what is sent to it arrives";

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
    assert_eq!(
        finding.verdict,
        "the network is fine up to the next hop: 97% of the time is the provider's own work, or a \
         proxy is on the way"
    );
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

/// Calls that nobody wants an answer to take no time, and hide nothing.
#[test]
fn one_way_calls_make_no_provider_quick() {
    let mixed = looks(20, |nth| {
        let mut endpoint = endpoint(9 * nth, 500.0, &[]);
        (endpoint.calls.ok, endpoint.calls.one_way) = (109 * nth, 100 * nth);
        look(endpoint, 200)
    });
    let finding = only(&mixed);
    assert_eq!(finding.cause, Cause::SlowProvider);
    assert_eq!(finding.evidence[1], "171 good answers took 500.0 ms on average");
}

#[test]
fn a_provider_that_does_not_answer_is_named() {
    let timeouts = looks(20, |nth| look(endpoint(0, 0.0, &[("timeout", nth / 2)]), 200));
    let finding = only(&timeouts);
    assert_eq!(finding.verdict, ARRIVES);
    assert_eq!(finding.evidence, ["none of the 3 calls that are in flight was answered for 9.5 s"]);
    // Calls whose time is not up yet.
    let mut waiting = looks(20, |nth| look(endpoint(if nth < 3 { nth } else { 3 }, 1.0, &[]), 200));
    let finding = only(&waiting);
    assert_eq!(finding.verdict, ARRIVES);
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
        "less than 1% of the calls are not answered in time, and the others take 3.0 ms: some \
         calls hang in the provider"
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
            look.endpoints[0].protocol = "link".to_owned();
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

/// So many timed calls, and how long each stage of one took.
fn stages(calls: u64, means_ms: &[(&str, f64)]) -> StagesSnapshot {
    let total = |(name, ms): &(&str, f64)| ((*name).to_owned(), ms * calls as f64);
    StagesSnapshot {
        place: "ingress".to_owned(),
        service: "com.acme.Orders".to_owned(),
        calls,
        total_ms: means_ms.iter().map(total).collect(),
    }
}

/// What its agent says counts, and not what is left of the round trip.
#[test]
fn calls_that_wait_at_the_provider_are_not_its_own_work() {
    let looks = |app_ms: f64| {
        looks(20, move |nth| {
            let mut look = look(endpoint(9 * nth, 600.0, &[]), 200);
            // In our own line, before they are sent; it is found apart.
            let wait = ("wait", 15.0);
            let means = [("app", app_ms), ("network", 600.0 - app_ms), wait];
            look.endpoints[0].protocol = "link".to_owned();
            look.stages = vec![stages(nth, &means)];
            look
        })
    };
    let verdict = |app_ms| only(&looks(app_ms)).verdict;
    assert_eq!(verdict(540.0), "the network is fine: 90% of the time is the provider's own work");
    assert_eq!(verdict(360.0), "the network is fine: 60% of the time is the provider's own work");
    assert_eq!(
        verdict(60.0),
        "90% passes neither in the app nor on the way to the next hop: calls wait at the provider \
         before it begins them, or the way behind a proxy is long"
    );
}

/// Of two endpoints of a service, one says what its app took. The other one has no agent, or
/// another app.
#[test]
fn what_one_endpoint_says_of_its_app_says_nothing_of_another() {
    let told = |app_ms: f64| {
        looks(20, move |nth| {
            let mut plain = endpoint(9 * nth, 400.0, &[]);
            plain.address = "10.0.0.8:20880".to_owned();
            let mut linked = endpoint(9 * nth, 300.0, &[]);
            linked.protocol = "link".to_owned();
            let calls = &mut linked.calls;
            calls.app_timed = nth;
            (calls.app_timed_total_ms, calls.app_total_ms) =
                (300.0 * nth as f64, app_ms * nth as f64);
            let mut look = look(linked, 200);
            look.connections.push(ConnectionSnapshot {
                id: 2,
                peer: plain.address.clone(),
                ..look.connections[0].clone()
            });
            look.endpoints.push(plain);
            look.stages = vec![stages(2 * nth, &[("network", 345.0), ("app", app_ms / 2.0)])];
            look
        })
    };
    let found = of_agent(&told(290.0));
    let verdicts: Vec<_> = found.iter().map(|it| (&*it.subject, &*it.verdict)).collect();
    let own = "the network is fine: 97% of the time is the provider's own work";
    let guess = "the network is fine up to the next hop: 100% of the time is the provider's own \
                 work, or a proxy is on the way";
    let [linked, plain] =
        ["com.acme.Orders at 10.0.0.7:20880", "com.acme.Orders at 10.0.0.8:20880"];
    assert_eq!(verdicts, [(linked, own), (plain, guess)]);
    // A long way that the kernel does not see.
    let found = of_agent(&told(5.0));
    assert!(found[0].verdict.starts_with("98% passes neither in the app nor on the way"));
}

/// The losers of hedged calls, and callers that hang up: the endpoint might have answered.
#[test]
fn calls_that_are_given_up_show_no_silence() {
    let given_up = looks(20, |nth| look(endpoint(0, 0.0, &[("cancelled", 3 * nth)]), 200));
    assert_eq!(of_agent(&given_up), []);
}

fn causes(looks: &[AgentLook]) -> Vec<Cause> {
    of_agent(looks).into_iter().map(|finding| finding.cause).collect()
}

/// An endpoint to which nobody has calls in flight just when somebody looks.
fn quiet(mut endpoint: EndpointSnapshot) -> EndpointSnapshot {
    endpoint.calls.in_flight = 0;
    endpoint
}

#[test]
fn what_is_below_the_limits_has_no_verdict() {
    let answers = |ms, rtt_us| causes(&looks(20, |nth| look(endpoint(9 * nth, ms, &[]), rtt_us)));
    assert_eq!(answers(180.0, 200), []);
    assert_eq!(answers(220.0, 200), [Cause::SlowProvider]);
    // A network that takes an eighth of the time may be the cause.
    assert_eq!(answers(480.0, 60_000), []);
    assert_eq!(answers(480.0, 40_000), [Cause::SlowProvider]);
}

#[test]
fn only_times_in_which_calls_end_count() {
    // Two slow calls in ten seconds, and no others.
    let two = looks(20, |nth| {
        let n = u64::from(4 < nth) + u64::from(14 < nth);
        look(quiet(endpoint(n, 900.0, &[])), 200)
    });
    assert_eq!(causes(&two), [Cause::SlowProvider]);
    // Nobody has called for an hour; an older agent still shows the mean of then.
    let idle = looks(20, |_| {
        let mut endpoint = quiet(endpoint(10, 900.0, &[]));
        endpoint.calls.ok_total_ms = None;
        look(endpoint, 200)
    });
    assert_eq!(causes(&idle), []);
    // Slow answers one at a time, and so many quick ones that calls are quick.
    let mostly_quick = looks(20, |nth| {
        let n_slow = nth.min(13);
        let n_quick = 1_000 * nth.saturating_sub(13);
        let mut endpoint = quiet(endpoint(n_slow + n_quick, 0.0, &[]));
        endpoint.calls.ok_total_ms = Some((300 * n_slow + n_quick) as f64);
        look(endpoint, 200)
    });
    assert_eq!(causes(&mostly_quick), []);
    // For seven looks all calls came too late, in the other eight all were quick.
    let half = looks(16, |nth| {
        let endpoint = endpoint(100 * nth.saturating_sub(7), 1.0, &[("timeout", nth.min(7))]);
        look(quiet(endpoint), 200)
    });
    assert_eq!(causes(&half), []);
    // What its callers gave up is not the provider's doing.
    let given_up = looks(20, |nth| look(quiet(endpoint(nth, 1.0, &[("cancelled", nth)])), 200));
    assert_eq!(causes(&given_up), []);
}

/// Timeouts do not make a slow network a slow provider.
#[test]
fn timeouts_over_a_slow_network_are_not_the_providers() {
    let late = |ms, rtt_us| {
        looks(20, |nth| look(quiet(endpoint(10 * nth, ms, &[("timeout", nth)])), rtt_us))
    };
    assert_eq!(causes(&late(450.0, 400_000)), []);
    assert_eq!(causes(&late(450.0, 200)), [Cause::SlowProvider]);
    let finding = only(&late(3.0, 2_000));
    assert!(finding.verdict.ends_with("some calls hang in the provider"), "{finding}");
    // No answer at all: nothing to compare the round trip with.
    let none = looks(20, |nth| look(quiet(endpoint(0, 0.0, &[("timeout", nth)])), 200));
    let finding = only(&none);
    assert_eq!(finding.verdict, ARRIVES);
    assert_eq!(
        finding.evidence,
        [
            "19 calls were not answered in time meanwhile, and none was answered well",
            "the slowest round trip to it takes 200 us"
        ]
    );
}

/// The network is as slow as the slowest connection to it, and as no connection to others.
#[test]
fn only_its_own_connections_are_looked_at() {
    let with = |change: fn(&mut ConnectionSnapshot)| {
        causes(&looks(20, |nth| {
            let mut look = look(endpoint(9 * nth, 500.0, &[]), 200);
            let mut other = look.connections[0].clone();
            other.id = 2;
            other.tcp.as_mut().unwrap().rtt_us = Some(300_000);
            change(&mut other);
            look.connections.insert(0, other);
            look
        }))
    };
    assert_eq!(with(|_| ()), []);
    assert_eq!(with(|it| it.direction = "downstream".to_owned()), [Cause::SlowProvider]);
    assert_eq!(with(|it| it.peer = "10.0.0.8:20880".to_owned()), [Cause::SlowProvider]);
}

/// How long two connections are in the midst of a message in each look, and what is named.
fn with_busy(first: fn(u64) -> u64, second: fn(u64) -> u64) -> Finding {
    only(&looks(20, |nth| {
        let mut look = look(endpoint(9 * nth, 700.0, &[]), 200);
        let mut other = look.connections[0].clone();
        other.id = 2;
        look.connections[0].in_message_ms = Some((0..nth).map(first).sum());
        other.in_message_ms = Some((0..nth).map(second).sum());
        look.connections.push(other);
        look
    }))
}

#[test]
fn the_busiest_connection_counts_if_it_is_busy_most_of_the_time() {
    let idle = |_| 0;
    assert_eq!(with_busy(|_| 200, idle).cause, Cause::SlowProvider);
    for finding in [with_busy(|_| 450, |_| 350), with_busy(|_| 350, |_| 450)] {
        assert_eq!(finding.cause, Cause::ConnectionFull);
        assert!(finding.verdict.contains("90% of the time"), "{finding}");
    }
    // Wholly busy for a little more than half of the time; or half busy in two thirds of it.
    assert_eq!(with_busy(|nth| 500 * u64::from(nth % 2 == 0), idle).cause, Cause::SlowProvider);
    assert_eq!(with_busy(|nth| 260 * u64::from(nth % 3 != 0), idle).cause, Cause::SlowProvider);
}

/// Two causes at once: a full connection, and work that takes most of the time all the same.
/// Messages that the peer has no room for take long whatever the provider does.
#[test]
fn work_is_no_cause_where_messages_do_not_flow() {
    let full = |window_us: u64, at: &[EndpointSnapshot]| {
        looks(20, |nth| {
            let mut look = look(at[usize::try_from(nth).unwrap()].clone(), 200);
            let tcp = look.connections[0].tcp.as_mut().unwrap();
            (tcp.busy_us, tcp.window_limited_us) = (Some(500_000 * nth), Some(window_us * nth));
            look
        })
    };
    let slow: Vec<_> = (0..20).map(|nth| endpoint(9 * nth, 500.0, &[])).collect();
    let some_late: Vec<_> =
        (0..20).map(|nth| endpoint(100 * nth, 3.0, &[("timeout", nth)])).collect();
    let silent = vec![endpoint(3, 1.0, &[]); 20];
    for at in [&slow, &some_late, &silent] {
        assert_eq!(causes(&full(10_000, at)), [Cause::SlowProvider]);
        // On the machine of the agent, its sockets say it; elsewhere, only its page does.
        let looks = full(495_000, at);
        assert_eq!(causes(&looks), [Cause::PeerReadsSlowly]);
        for cause in HELD_UP {
            let found = agent_pages::of_agent(&looks, &[connection_with(cause)]);
            // What a process does not read has arrived there, and is not answered.
            let is_silent = std::ptr::eq(at, &silent) && cause == Cause::ReadsSlowly;
            assert_eq!(found.len(), usize::from(is_silent), "{cause:?}: {found:?}");
        }
    }
    // An agent at the provider knows better.
    for (app_ms, n_findings) in [(450.0, 1), (50.0, 0)] {
        let mut looks = full(495_000, &slow);
        for (nth, look) in (0..).zip(&mut looks) {
            look.endpoints[0].protocol = "link".to_owned();
            look.stages = vec![stages(9 * nth, &[("network", 500.0 - app_ms), ("app", app_ms)])];
        }
        let findings = agent_pages::of_agent(&looks, &[connection_with(Cause::PeerReadsSlowly)]);
        assert_eq!(findings.len(), n_findings, "{findings:?}");
        for finding in findings {
            assert_eq!(finding.verdict, "90% of the time is the provider's own work");
        }
    }
}

/// Ten seconds of a connection to the endpoint.
fn connection_with(cause: Cause) -> WatchedConnection {
    let mut watched = WatchedSocket::default();
    for second in 0..=10 {
        let mut figures = Figures { busy_us: Some(second * 1_000_000), ..Figures::default() };
        let limited = Some(second * 900_000);
        match cause {
            Cause::SendBuffer => figures.buffer_limited_us = limited,
            Cause::PeerReadsSlowly => figures.window_limited_us = limited,
            _ => figures.unread_bytes = Some(100_000),
        }
        watched.add(Duration::from_secs(second), figures);
    }
    let (local, remote) = ("10.0.0.5:40000".parse().unwrap(), "10.0.0.7:20880".parse().unwrap());
    let id = SocketId { local, remote };
    WatchedConnection { id, role: Role::Client, owner: None, watched, is_awaited: None }
}

#[test]
fn slow_work_is_named_beside_a_full_connection() {
    let of_app = |app_ms: f64| {
        looks(20, |nth| {
            let mut look = look(endpoint(9 * nth, 700.0, &[]), 200);
            look.connections[0].in_message_ms = Some(450 * nth);
            look.endpoints[0].protocol = "link".to_owned();
            look.stages = vec![stages(nth, &[("app", app_ms), ("network", 700.0 - app_ms)])];
            look
        })
    };
    let [full, work] = of_agent(&of_app(450.0)).try_into().unwrap();
    assert_eq!((full.cause, work.cause), (Cause::ConnectionFull, Cause::SlowProvider));
    assert_eq!(work.verdict, "64% of the time is the provider's own work");
    assert_eq!(causes(&of_app(300.0)), [Cause::ConnectionFull]);
    assert_eq!(causes(&of_app(600.0)), [Cause::SlowProvider]);
    // No agent is there that could say it: the round trip tells.
    let mut without = of_app(0.0);
    without.iter_mut().for_each(|look| look.connections[0].in_message_ms = None);
    let verdict = only(&without).verdict;
    let fine =
        "the network is fine up to the next hop: 100% of the time is the provider's own work";
    assert!(verdict.starts_with(fine), "{verdict}");
}

fn failed(name: &str, nth: u64, it: &mut EndpointSnapshot) {
    it.calls.failed = [(name.to_owned(), nth)].into();
}

#[test]
fn silence_needs_calls_and_lasts() {
    let silent = |n_looks, change: fn(u64, &mut EndpointSnapshot)| {
        causes(&looks(n_looks, |nth| {
            let mut endpoint = endpoint(7, 1.0, &[]);
            change(nth, &mut endpoint);
            look(endpoint, 200)
        }))
    };
    assert_eq!(silent(20, |_, _| ()), [Cause::SlowProvider]);
    // What is not answered in time is no answer; an exception is one. Calls that are given up
    // before their time is over might have been answered: nothing is known then.
    assert_eq!(silent(20, |nth, it| failed("timeout", nth, it)), [Cause::SlowProvider]);
    assert_eq!(silent(20, |nth, it| failed("cancelled", nth, it)), []);
    assert_eq!(silent(20, |nth, it| failed("exception", nth, it)), []);
    // The same where nothing is known of the network.
    let mut timeouts = looks(20, |nth| look(endpoint(7, 1.0, &[("timeout", nth)]), 200));
    timeouts.iter_mut().for_each(|look| look.connections.clear());
    let finding = only(&timeouts);
    assert_eq!(
        finding.verdict,
        "the provider does not answer; whether what is sent to it arrives is not known"
    );
    // Nobody waits; or a call begins or ends now and then.
    assert_eq!(silent(20, |_, it| it.calls.in_flight = 0), []);
    assert_eq!(silent(20, |nth, it| it.calls.in_flight = nth % 2), []);
    assert_eq!(silent(20, |nth, it| it.calls.in_flight = u64::from(nth < 19)), []);
    assert_eq!(silent(20, |nth, it| it.calls.in_flight = u64::from(nth == 19)), []);
    assert_eq!(silent(20, |nth, it| it.calls.in_flight = u64::from(7 < nth)), []);
    // For less than most of the time, and for less than 3 s.
    assert_eq!(silent(40, |nth, it| it.calls.ok = nth.min(20)), []);
    assert_eq!(silent(6, |_, _| ()), []);
    // Seldom looked at, it has been silent for 4 s in three looks.
    let mut few = looks(3, |_| look(endpoint(7, 1.0, &[]), 200));
    few.iter_mut().zip([0, 2, 4]).for_each(|(look, at)| look.at = Duration::from_secs(at));
    assert_eq!(causes(&few), []);
    // It came when others were there already.
    let mut late = looks(20, |_| look(endpoint(7, 1.0, &[]), 200));
    late[..10].iter_mut().for_each(|look| look.endpoints.clear());
    let finding = only(&late);
    assert_eq!(finding.evidence, ["none of the 3 calls that are in flight was answered for 4.5 s"]);
}

/// What is confirmed at any look since has arrived.
#[test]
fn a_dead_machine_confirms_nothing() {
    let verdict = |n_unacked: fn(u64) -> u32| {
        let silent = looks(20, |nth| {
            let mut look = look(endpoint(nth.min(3), 1.0, &[]), 200);
            look.connections[0].tcp.as_mut().unwrap().unacked_segments = Some(n_unacked(nth));
            look
        });
        only(&silent).verdict
    };
    let (gone, there) = ("nothing comes back, and what was sent is not confirmed", ARRIVES);
    assert_eq!(verdict(|_| 0), there);
    assert_eq!(verdict(|nth| u32::from(nth % 2 == 0)), there);
    assert_eq!(verdict(|nth| u32::from(2 < nth)), gone);
}
