use std::time::Duration;

use balance::{EndpointSpec, Policy};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

/// A cluster of the endpoints 0, 1, 2 and so on, which stand as `standings` says.
struct Cluster {
    now: Instant,
    balancer: Balancer<usize>,
    standings: Vec<Standing>,
    is_known: bool,
    rng: StdRng,
}

impl Cluster {
    fn new(standings: &[Standing]) -> Self {
        let now = crate::test_start();
        let mut balancer = Balancer::new(Policy::RoundRobin);
        let specs = (0..standings.len()).map(|key| EndpointSpec { key, weight: 1, warm_up: None });
        balancer.update(now, specs);
        let (standings, rng) = (standings.to_vec(), StdRng::seed_from_u64(7));
        Self { now, balancer, standings, is_known: true, rng }
    }

    fn attempts(&self, max_attempts: u32) -> Attempts<usize> {
        Attempts::new(AttemptLimits { max_attempts, deadline: self.now + Duration::from_secs(1) })
    }

    fn next(&mut self, attempts: &Attempts<usize>, now: Instant) -> NextAction {
        let standing = |key: &usize| self.standings[*key];
        attempts.next(now, self.is_known, &mut self.balancer, &mut self.rng, standing)
    }

    /// The endpoint that the call is to be offered to.
    fn offer(&mut self, attempts: &Attempts<usize>) -> usize {
        match self.next(attempts, self.now) {
            NextAction::Offer(slot) => *self.balancer.key(slot).expect("it is listed"),
            other => panic!("no offer but {other:?}"),
        }
    }
}

const READY: Standing = Standing::Ready;
const CONNECTING: Standing = Standing::Connecting;
const DOWN: Standing = Standing::Down;

#[test]
fn each_endpoint_is_tried_once_and_connected_ones_first() {
    let mut cluster = Cluster::new(&[CONNECTING, READY, DOWN, READY]);
    let mut attempts = cluster.attempts(9);
    let mut order = Vec::new();
    for _ in 0..3 {
        let endpoint = cluster.offer(&attempts);
        order.push(endpoint);
        attempts.failed(endpoint, Retry::Safe);
    }
    assert_eq!(order[2], 0, "{order:?}");
    order.sort_unstable();
    assert_eq!(order, [0, 1, 3]);
    assert_eq!(cluster.next(&attempts, cluster.now), NextAction::GiveUp(GiveUp::LastFailure));
}

#[test]
fn nothing_is_offered_again_that_may_have_begun() {
    for (failure, may) in [
        (Retry::Safe, true),
        (Retry::Elsewhere, true),
        (Retry::Rewritten, false),
        (Retry::IfIdempotent, false),
        (Retry::Never, false),
    ] {
        let mut cluster = Cluster::new(&[READY, READY, READY]);
        let mut attempts = cluster.attempts(3);
        let endpoint = cluster.offer(&attempts);
        attempts.failed(endpoint, failure);
        let next = cluster.next(&attempts, cluster.now);
        assert_eq!(matches!(next, NextAction::Offer(_)), may, "{failure:?}: {next:?}");
        // A later refusal does not make it safe.
        attempts.failed(9, Retry::Safe);
        let next = cluster.next(&attempts, cluster.now);
        assert_eq!(matches!(next, NextAction::Offer(_)), may, "{failure:?}: {next:?}");
    }
}

#[test]
fn attempts_are_limited_by_number() {
    for max_attempts in [0, 1, 2] {
        let mut cluster = Cluster::new(&[READY, READY, READY]);
        let mut attempts = cluster.attempts(max_attempts);
        for _ in 0..max_attempts.max(1) {
            let endpoint = cluster.offer(&attempts);
            attempts.failed(endpoint, Retry::Safe);
        }
        assert_eq!(cluster.next(&attempts, cluster.now), NextAction::GiveUp(GiveUp::LastFailure));
    }
}

#[test]
fn no_attempt_begins_after_the_deadline() {
    let mut cluster = Cluster::new(&[READY, READY]);
    let mut attempts = cluster.attempts(2);
    let deadline = attempts.limits().deadline;
    let late = deadline + Duration::from_nanos(1);
    assert_eq!(cluster.next(&attempts, late), NextAction::GiveUp(GiveUp::TooLate));
    let endpoint = cluster.offer(&attempts);
    attempts.failed(endpoint, Retry::Safe);
    assert!(matches!(cluster.next(&attempts, deadline), NextAction::Offer(_)));
    assert_eq!(cluster.next(&attempts, late), NextAction::GiveUp(GiveUp::TooLate));
    // Where nobody is left, the failure says more than the clock.
    attempts.failed(1 - endpoint, Retry::Safe);
    assert_eq!(cluster.next(&attempts, late), NextAction::GiveUp(GiveUp::LastFailure));
}

#[test]
fn a_call_waits_until_it_is_known_who_offers_its_service() {
    let mut cluster = Cluster::new(&[]);
    let attempts = cluster.attempts(2);
    cluster.is_known = false;
    assert_eq!(cluster.next(&attempts, cluster.now), NextAction::Wait);
    let deadline = attempts.limits().deadline;
    assert_eq!(cluster.next(&attempts, deadline), NextAction::GiveUp(GiveUp::NothingKnown));
    cluster.is_known = true;
    assert_eq!(cluster.next(&attempts, cluster.now), NextAction::GiveUp(GiveUp::NoEndpoint));
    let mut down = Cluster::new(&[DOWN, DOWN]);
    let attempts = down.attempts(2);
    assert_eq!(down.next(&attempts, down.now), NextAction::GiveUp(GiveUp::NoEndpoint));
}

#[test]
fn there_is_a_choice_with_two_endpoints_and_two_attempts() {
    for (max_attempts, n_endpoints, expected) in
        [(2, 2, true), (1, 2, false), (2, 1, false), (0, 5, false), (3, 0, false)]
    {
        assert_eq!(has_choice(max_attempts, n_endpoints), expected);
    }
}
