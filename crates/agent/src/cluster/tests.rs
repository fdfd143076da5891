use std::cell::RefCell;
use std::collections::HashMap;

use balance::Policy;
use bytes::Bytes;
use dubbo_proto::{Serialization, Status};
use flow::pause::Pause;
use flow::{GiveUp, NextAction};
use parameters::Parameters;
use registry::{Protocol, Unused};

use super::member::TOKEN;
use super::offering::Choice;
use super::*;
use crate::call::{Outcome, ProviderReply, Times};
use crate::config::RoutingPolicy;
use crate::invocation::THIS_AGENT;
use crate::testing::{NO_FACTS, NOWHERE, on_worker, pool};

fn cluster(policy: &ClusterPolicy) -> Rc<Cluster> {
    let service = ServiceKey::new("com.acme.Echo", "", "").unwrap();
    Rc::new(Cluster::new(service, "main", policy, pool(), Hub::new(&Code::NAMES)))
}

fn policy(max_attempts: u32) -> ClusterPolicy {
    ClusterPolicy { balance: Policy::RoundRobin, max_attempts, ..ClusterPolicy::default() }
}

/// A list of so many endpoints. Nothing listens there.
fn list(n_endpoints: u16) -> Snapshot {
    let endpoint = |port| Endpoint::new(Protocol::Dubbo, NOWHERE.0, port);
    Snapshot {
        status: Freshness::Current,
        endpoints: (1..=n_endpoints).map(endpoint).collect(),
        unused: Arc::new([]),
    }
}

fn in_flight(cluster: &Cluster) -> u32 {
    cluster.balancer.borrow().stats().map(|stats| stats.in_flight).sum()
}

fn answer(attempt: &Attempt) -> Outcome {
    let endpoint = Rc::clone(attempt.upstream().address());
    let (serialization, body) = (Serialization::Hessian2, Bytes::new());
    Ok(ProviderReply::new(serialization, body, endpoint))
}

fn failure(code: Code) -> Outcome {
    Err(CallError::new(code, "no"))
}

/// A new definition takes all routes away. What was counted of their methods stays in sight, also
/// where other services take all labels.
#[test]
fn counts_of_methods_outlast_their_routes() {
    on_worker(async || {
        let cluster = cluster(&policy(1));
        cluster.update(&list(1));
        cluster.method_stats(Some("m")).unwrap().finished(Duration::ZERO, None);
        for n in 0..2 * MAX_METHOD_LABELS {
            drop(cluster.hub.method(&format!("com.acme.Other{n}"), Some("m")));
        }
        cluster.method_stats(Some("m")).unwrap().finished(Duration::ZERO, None);
        let name = "dubmesh_method_calls_total{service=\"com.acme.Echo\",method=\"m\",code=\"ok\"}";
        let text = cluster.hub.render(&[], &[]);
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        assert_eq!(line, Some(" 2"), "{text:.2000}");
    });
}

/// Offers a call, which `make` answers, and says where it has been.
async fn offer(
    cluster: &Rc<Cluster>,
    time: Duration,
    make: impl Fn(&Attempt, usize) -> Outcome,
) -> (Outcome, Vec<Rc<str>>) {
    let (now, asked) = (Instant::now(), RefCell::new(Vec::new()));
    let attempts = cluster.attempts(now + time);
    let outcome = cluster.offer(now, attempts, THIS_AGENT, &NO_FACTS, async |attempt, _| {
        asked.borrow_mut().push(Rc::clone(attempt.upstream().address()));
        let n_asked = asked.borrow().len();
        assert_eq!(in_flight(cluster), 1, "one attempt at a time");
        make(attempt, n_asked)
    });
    let outcome = outcome.await;
    assert_eq!(in_flight(cluster), 0, "everything is given back");
    (outcome, asked.into_inner())
}

/// The port of the endpoint that a call at `now` goes to, which answers or fails.
fn ask(cluster: &Rc<Cluster>, now: Instant, point: Option<u32>, failing: &[u16]) -> u16 {
    let choice = Choice { point, ..Choice::default() };
    let slot = match cluster.next(&cluster.attempts(now + LONG), now, &choice) {
        NextAction::Offer(slot) => slot,
        other => panic!("{other:?}"),
    };
    let attempt = cluster.attempt(slot, now, None).unwrap();
    let port = attempt.member.0.endpoint.port;
    match failing.contains(&port) {
        true => attempt.failed(now, &CallError::from_provider(Status::ServerError, "no")),
        false => drop(attempt.answered(now, (Serialization::Hessian2, b""), &mut None)),
    }
    port
}

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn a_call_that_was_refused_goes_to_another_endpoint() {
    on_worker(async || {
        let cluster = cluster(&policy(3));
        cluster.update(&list(3));
        let (outcome, asked) = offer(&cluster, LONG, |attempt, n_asked| match n_asked {
            3 => answer(attempt),
            _ => failure(Code::Refused),
        })
        .await;
        let [first, second, third] = &*asked else { panic!("{asked:?}") };
        assert!(first != second && second != third && first != third, "{asked:?}");
        assert_eq!(&outcome.unwrap().endpoint, third);
    });
}

/// An endpoint that the registry no longer lists has ended in order when it says so itself.
#[test]
fn an_endpoint_that_has_left_fails_no_call_and_is_not_blamed() {
    on_worker(async || {
        let cluster = cluster(&policy(3));
        for n_endpoints in [1, 2] {
            cluster.update(&list(n_endpoints));
            let (outcome, asked) = offer(&cluster, LONG, |attempt, n_asked| {
                if n_asked == 2 {
                    return answer(attempt);
                }
                let listed = list(n_endpoints);
                let stays = |it: &&Endpoint| *it.address() != **attempt.upstream().address();
                let endpoints = listed.endpoints.iter().filter(stays).cloned().collect();
                cluster.update(&Snapshot { endpoints, ..listed });
                failure(Code::ServiceNotFound)
            })
            .await;
            assert_eq!(asked.len(), usize::from(n_endpoints));
            match outcome {
                Ok(reply) => assert_eq!(&reply.endpoint, &asked[1]),
                Err(error) => {
                    assert_eq!((n_endpoints, error.code), (1, Code::NoEndpoint), "{error}");
                    assert!(error.message.contains("has left registry \"main\""), "{error}");
                    assert!(error.retry().is_unbegun());
                }
            }
        }
        assert!(cluster.ejected().is_empty());
        // One that is listed says it: then it is wrong.
        cluster.update(&list(1));
        let (outcome, _) = offer(&cluster, LONG, |_, _| failure(Code::ServiceNotFound)).await;
        assert_eq!(outcome.unwrap_err().code, Code::ServiceNotFound);
    });
}

#[test]
fn what_may_have_begun_is_offered_to_nobody_else() {
    on_worker(async || {
        let cluster = cluster(&policy(3));
        cluster.update(&list(3));
        for code in Code::ALL {
            let (outcome, asked) = offer(&cluster, LONG, |_, _| failure(code)).await;
            let n_expected = match code.row().retry.allows_another_endpoint() {
                true => 3,
                false => 1,
            };
            assert_eq!(asked.len(), n_expected, "{code:?}");
            assert_eq!(outcome.unwrap_err().code, code, "the last failure is the answer");
        }
    });
}

#[test]
fn no_endpoint_is_asked_after_the_deadline() {
    on_worker(async || {
        let cluster = cluster(&policy(3));
        cluster.update(&list(3));
        // The first attempt takes all the time there is.
        let (outcome, asked) = offer(&cluster, Duration::from_nanos(1), |_, _| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(1) {}
            Err(CallError::new(Code::Unreachable, "gone").at("h:1"))
        })
        .await;
        let error = outcome.unwrap_err();
        assert_eq!((asked.len(), error.code), (1, Code::Timeout));
        assert!(error.message.contains("unreachable: gone (at h:1)"), "{error}");
    });
}

#[test]
fn a_call_waits_for_the_first_list() {
    on_worker(async || {
        let cluster = cluster(&policy(2));
        let later = Rc::clone(&cluster);
        tokio::task::spawn_local(async move { later.update(&list(1)) });
        let (outcome, asked) = offer(&cluster, LONG, |attempt, _| answer(attempt)).await;
        assert!(outcome.is_ok() && asked.len() == 1);
    });
}

#[test]
fn a_silent_registry_is_named_at_the_deadline() {
    on_worker(async || {
        let cluster = cluster(&policy(2));
        let make = |_: &Attempt, _| unreachable!("nobody is known");
        let (outcome, _) = offer(&cluster, Duration::from_millis(1), make).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.code, Code::RegistryUnavailable);
        assert!(error.message.contains("\"main\" has not answered"), "{error}");
    });
}

#[test]
fn a_service_without_endpoints_says_why() {
    on_worker(async || {
        let cluster = cluster(&policy(2));
        let error = async || {
            let make = |_: &Attempt, _| unreachable!("nobody is known");
            offer(&cluster, LONG, make).await.0.unwrap_err()
        };
        cluster.update(&list(0));
        let nobody = error().await;
        assert_eq!(nobody.code, Code::ServiceNotFound);
        assert!(nobody.message.starts_with("nobody offers com.acme.Echo"), "{nobody}");
        let what = Unused {
            what: "tri://h:1".to_owned(),
            address: Some("h:1".to_owned()),
            reason: registry::NotUsed::Protocol,
        };
        cluster.update(&Snapshot { unused: Arc::new([what]), ..list(0) });
        let unused = error().await;
        assert_eq!(unused.code, Code::ServiceNotFound);
        assert!(unused.message.contains("tri://h:1"), "{unused}");
        let other = Unused {
            what: "com.acme.Echo:2.0".to_owned(),
            address: None,
            reason: registry::NotUsed::OtherVariant,
        };
        cluster.update(&Snapshot { unused: Arc::new([other]), ..list(0) });
        let other = error().await;
        assert_eq!(other.code, Code::ServiceNotFound);
        assert!(other.message.ends_with("did you mean com.acme.Echo:2.0?"), "{other}");
        assert_eq!(cluster.describe().unused.len(), 1);
        cluster.update(&Snapshot { status: Freshness::Stale, ..list(0) });
        assert_eq!(error().await.code, Code::RegistryUnavailable);
        let refused = Unused {
            what: "the list of its providers".to_owned(),
            address: None,
            reason: registry::NotUsed::Unreadable("NoAuth".to_owned()),
        };
        for status in [Freshness::Pending, Freshness::Stale] {
            let unused = Arc::new([refused.clone()]);
            cluster.update(&Snapshot { status, unused, ..list(0) });
            let asked = Instant::now();
            let refused = match status {
                Freshness::Pending => cluster.wait_for_endpoints(asked).await.unwrap_err(),
                _ => error().await,
            };
            assert_eq!(refused.code, Code::RegistryUnavailable);
            assert!(refused.message.ends_with("the list of its providers (NoAuth)"), "{refused}");
        }
    });
}

/// Whatever comes and goes around it in the list, an endpoint stays the same, and is made anew
/// only if a call would go another way.
#[test]
fn endpoints_are_found_again_in_another_list() {
    on_worker(async || {
        let cluster = cluster(&policy(1));
        let endpoints = |ports: &[u16]| Snapshot {
            endpoints: ports
                .iter()
                .map(|port| list(*port).endpoints.last().unwrap().clone())
                .collect(),
            ..list(0)
        };
        let ids = || -> HashMap<u16, *const ()> {
            let balancer = cluster.balancer.borrow();
            let members = balancer.stats().map(|stats| stats.key);
            let ids = members.map(|member| (member.0.endpoint.port, member.id()));
            let ids: HashMap<_, _> = ids.collect();
            for spec in cluster.holding.borrow().listed() {
                assert_eq!(ids.get(&spec.key.0.endpoint.port), Some(&spec.key.id()));
            }
            ids
        };
        cluster.update(&endpoints(&[2, 4, 5, 7]));
        let first = ids();
        let of = |ids: &HashMap<u16, *const ()>, port: u16| ids.get(&port).copied();
        for ports in [&[1, 2, 3, 4, 6, 7, 8][..], &[7, 9], &[2, 4, 7], &[1, 7]] {
            let before = ids();
            cluster.update(&endpoints(ports));
            let now = ids();
            assert_eq!(of(&now, 7), of(&first, 7), "{ports:?}");
            for port in ports.iter().filter(|port| before.contains_key(port)) {
                assert_eq!(of(&now, *port), of(&before, *port), "{port} of {ports:?}");
            }
        }
        // One that still has a call while it is not listed comes back as itself.
        let (now, attempts) = (Instant::now(), cluster.attempts(Instant::now() + LONG));
        let before = ids();
        cluster
            .offer(now, attempts, THIS_AGENT, &NO_FACTS, async |attempt, _| {
                cluster.update(&endpoints(&[9]));
                cluster.update(&endpoints(&[1, 7, 9]));
                answer(attempt)
            })
            .await
            .unwrap();
        assert!(before.iter().any(|(port, id)| of(&ids(), *port) == Some(*id)), "{before:?}");
        let mut other = endpoints(&[7]);
        let token: Parameters = [(TOKEN, "secret")].into_iter().collect();
        other.endpoints =
            other.endpoints.iter().map(|it| it.with_params(Parameters::clone(&token))).collect();
        let before = ids();
        cluster.update(&other);
        assert_ne!(of(&ids(), 7), of(&before, 7));
    });
}

/// A caller that goes away leaves nothing behind.
#[test]
fn an_attempt_that_is_dropped_is_given_back() {
    on_worker(async || {
        let cluster = cluster(&policy(2));
        cluster.update(&list(2));
        let now = Instant::now();
        let never = cluster.offer(
            now,
            cluster.attempts(now + LONG),
            THIS_AGENT,
            &NO_FACTS,
            async |_, _| std::future::pending().await,
        );
        let mut never = Box::pin(never);
        let is_pending = std::future::poll_fn(|context| {
            std::task::Poll::Ready(never.as_mut().poll(context).is_pending())
        });
        assert!(is_pending.await);
        assert_eq!(in_flight(&cluster), 1);
        drop(never);
        assert_eq!(in_flight(&cluster), 0);
    });
}

/// Those that begin a call in place may not wait.
#[test]
fn a_call_begins_at_once_only_on_an_endpoint_that_is_connected() {
    on_worker(async || {
        let cluster = cluster(&policy(2));
        cluster.update(&list(2));
        assert!(cluster.begin(Instant::now(), &NO_FACTS).is_none(), "all of them are connecting");
        assert!(cluster.has_choice());
        cluster.update(&list(1));
        assert!(!cluster.has_choice());
        cluster.update(&list(2));
        cluster.set_policy(&policy(1));
        assert!(!cluster.has_choice());
    });
}

#[test]
fn what_a_first_failure_leaves_to_try() {
    on_worker(async || {
        let cluster = cluster(&policy(2));
        cluster.update(&list(2));
        let now = Instant::now();
        let times = Times { now, deadline: now + LONG };
        let slot = match cluster.next(&cluster.attempts(times.deadline), now, &Choice::default()) {
            NextAction::Offer(slot) => slot,
            other => panic!("{other:?}"),
        };
        let attempt = cluster.attempt(slot, now, None).unwrap();
        let after = |times, error: &CallError| {
            cluster.after_first(&attempt, times, error, &NO_FACTS).map(|left| left.is_first())
        };
        let refused = CallError::new(Code::Refused, "");
        assert_eq!(after(times, &refused), Ok(false));
        let late = Times { now: times.deadline + Duration::from_nanos(1), ..times };
        assert_eq!(after(late, &refused), Err(GiveUp::TooLate));
        let broken = CallError::new(Code::ConnectionBroken, "");
        assert_eq!(after(times, &broken), Err(GiveUp::LastFailure));
        // A provider of 2.7 that is starting knows none of its methods yet.
        let starting = CallError::from_provider(
            Status::BadRequest,
            "Fail to decode request due to: x: Service not found:a.B, c",
        );
        assert_eq!(after(times, &starting), Ok(false));
        attempt.failed(now, &refused);
        assert_eq!(in_flight(&cluster), 0);
    });
}

/// Alone, an endpoint gets every call, whether it pauses or not: no pause of it is remembered.
#[test]
fn no_pause_is_remembered_of_an_endpoint_that_is_left_alone() {
    on_worker(async || {
        let cluster = cluster(&policy(2));
        cluster.update(&list(2));
        let first = || cluster.balancer.borrow().stats_from(0).next().unwrap().key.clone();
        let now = Instant::now();
        first().0.pause.set(Some(Pause::begun(now)));
        cluster.update(&list(1));
        cluster.check_endpoints(now + Duration::from_secs(1));
        assert_eq!(first().0.pause.get(), None);
        assert!(!cluster.has_pauses() && first().0.silence.get().is_none());
    });
}

/// Endpoints that stay keep what is known of them; those that register something else are others.
#[test]
fn an_update_keeps_the_endpoints_that_stay() {
    on_worker(async || {
        let cluster = cluster(&policy(2));
        cluster.update(&list(2));
        let members = || {
            let balancer = cluster.balancer.borrow();
            balancer.stats().map(|stats| stats.key.clone()).collect::<Vec<Member>>()
        };
        let before = members();
        cluster.update(&list(3));
        let after = members();
        assert_eq!(after.len(), 3);
        assert!(before.iter().all(|old| after.iter().any(|new| Rc::ptr_eq(&old.0, &new.0))));
        let mut other = list(1).endpoints[0].clone();
        other.params = [(TOKEN, "secret")].into();
        cluster.update(&Snapshot { endpoints: Arc::new([other]), ..list(0) });
        let [only] = &*members() else { panic!("one is listed") };
        assert!(before.iter().all(|old| !Rc::ptr_eq(&old.0, &only.0)));
        assert_eq!(only.0.attachments, [(TOKEN, "secret".to_owned())]);
    });
}

/// A list of thousands makes no message of thousands, again for each call that fails.
#[test]
fn a_caller_is_told_of_some_endpoints_and_how_many_more_there_are() {
    on_worker(async || {
        let cluster = cluster(&policy(2));
        for (n, more) in [(10, None), (11, Some(", and 1 more")), (500, Some(", and 490 more"))] {
            cluster.update(&list(n));
            let message = cluster.no_endpoint_at(Instant::now(), None).message;
            assert_eq!(message.matches(NOWHERE.0).count(), 10, "{message}");
            match more {
                Some(more) => assert!(message.ends_with(more), "{message}"),
                None => assert!(!message.contains("more"), "{message}"),
            }
        }
    });
}

/// An endpoint that is ejected can take calls if need be. It must not keep them in its zone.
#[test]
fn another_zone_stands_in_for_one_whose_endpoints_are_ejected() {
    let zones = ["north", "south"];
    for (balance, point) in [(Policy::RoundRobin, None), (Policy::ConsistentHash, Some(7))] {
        on_worker(async || {
            let routing = RoutingPolicy { zone: Some("north".into()), ..RoutingPolicy::default() };
            let policy = ClusterPolicy { balance, routing: Arc::new(routing), ..policy(2) };
            let cluster = cluster(&policy);
            let mut snapshot = list(2);
            let endpoints = snapshot.endpoints.iter().zip(zones);
            let endpoints = endpoints.map(|(it, zone)| it.with_params([("zone", zone)].into()));
            snapshot.endpoints = endpoints.collect();
            cluster.update(&snapshot);
            let start = Instant::now();
            let ports = |failing: &'static [u16], from: u64| {
                let at = move |n: u64| start + Duration::from_millis(from + 5 * n);
                (0..40).map(|n| ask(&cluster, at(n), point, failing)).collect::<Vec<u16>>()
            };
            assert_eq!(ports(&[], 0), [1; 40], "the own zone comes first");
            let failing = ports(&[1], 200);
            assert_eq!(failing[35..], [2; 5], "{failing:?}");
        });
    }
}
