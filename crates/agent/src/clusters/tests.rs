//! Which services are watched in the registry, and which are refused.

use super::*;

/// Decides with `n_clusters` services, of which `n_without` have no endpoint.
fn admit(n_clusters: usize, n_without: usize, presence: Presence) -> NewServiceAdmission {
    let counts = ClusterCounts { n_clusters, n_without_endpoints: n_without };
    counts.admit(|| presence, || true)
}

#[test]
fn the_first_names_are_watched_without_a_question() {
    let counts = ClusterCounts { n_clusters: MAX_CLUSTERS, n_without_endpoints: MAX_UNSURE - 1 };
    let asked = || -> Presence { panic!("the registry is not asked") };
    assert_eq!(counts.admit(asked, || panic!("nor is the count")), NewServiceAdmission::Watch);
}

#[test]
fn further_names_are_watched_if_they_exist() {
    let n_without = MAX_UNSURE;
    let all = [
        (Presence::Offered, NewServiceAdmission::Watch),
        (Presence::Absent, NewServiceAdmission::Refuse(WatchRefusal::Absent)),
        (Presence::Asking, NewServiceAdmission::Ask),
        (Presence::Unknown, NewServiceAdmission::Watch),
    ];
    for (presence, expected) in all {
        assert_eq!(admit(n_without, n_without, presence), expected, "{presence:?}");
    }
}

#[test]
fn a_worker_calls_no_more_services_than_its_limit() {
    let n_without = MAX_WITHOUT_ENDPOINTS;
    assert_eq!(admit(MAX_CLUSTERS - 1, n_without, Presence::Offered), NewServiceAdmission::Watch);
    let full = NewServiceAdmission::Refuse(WatchRefusal::Clusters);
    assert_eq!(admit(MAX_CLUSTERS, n_without, Presence::Offered), full);
}

#[test]
fn names_of_which_nobody_knows_are_limited_in_number_and_by_time() {
    let last = MAX_WITHOUT_ENDPOINTS - 1;
    assert_eq!(admit(0, last, Presence::Unknown), NewServiceAdmission::Watch);
    let full = |n_without| NewServiceAdmission::Refuse(WatchRefusal::WithoutEndpoints(n_without));
    assert_eq!(admit(0, last + 1, Presence::Unknown), full(last + 1));
    let counts = ClusterCounts { n_clusters: 0, n_without_endpoints: last };
    assert_eq!(counts.admit(|| Presence::Unknown, || false), full(last));
}

#[test]
fn so_many_names_are_trusted_in_each_second() {
    let (mut unsure, start) = (Unsure::default(), Instant::now());
    let second = Duration::from_secs(1);
    for n in 0..MAX_UNSURE_PER_SECOND {
        assert!(unsure.may_trust(start), "name {n}");
    }
    assert!(!unsure.may_trust(start + second - Duration::from_nanos(1)));
    assert!(unsure.may_trust(start + second));
    // A refused name does not make the second longer.
    for _ in 1..MAX_UNSURE_PER_SECOND {
        assert!(unsure.may_trust(start + second));
    }
    assert!(!unsure.may_trust(start + second));
    assert!(unsure.may_trust(start + 2 * second));
}
