//! What is known of calls that nobody answers.

use agent::inspect::snapshot::StagesSnapshot;

use super::super::super::testing::{endpoint, look, looks, of_agent};
use super::*;

fn only(looks: &[AgentLook]) -> Finding {
    let findings = of_agent(looks);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.into_iter().next().unwrap()
}

/// 99 quick answers and one call in vain in each look.
fn some_hang(change: impl Fn(u64, &mut AgentLook)) -> Vec<AgentLook> {
    looks(20, |nth| {
        let mut look = look(endpoint(9 * nth, 3.0, &[("timeout", nth)]), 200);
        change(nth, &mut look);
        look
    })
}

/// Another endpoint of the service, and how many of its calls are not answered in time.
fn add_other(look: &mut AgentLook, port: u16, nth: u64, n_late: u64) {
    let mut other = endpoint(9 * nth, 3.0, &[("timeout", n_late)]);
    other.address = format!("10.0.0.8:{port}");
    other.calls.in_flight = 0;
    look.endpoints.push(other);
}

#[test]
fn calls_that_hang_beside_quick_ones_are_no_praise_of_the_network() {
    let finding = only(&some_hang(|_, _| ()));
    assert_eq!(
        finding.verdict,
        "10% of the calls are not answered in time, and the others take 3.0 ms: some calls hang \
         in the provider"
    );
    assert_eq!(
        finding.evidence,
        [
            "171 good answers took 3.0 ms on average",
            "19 calls were not answered in time meanwhile",
            "the slowest round trip to it takes 200 us"
        ]
    );
    let tap = "find out which calls these are: dubmesh tap com.acme.Orders --failed shows";
    assert!(finding.remedy.starts_with(tap), "{finding}");
    // That quick calls spend their time in the app says nothing of those that hang.
    let timed = some_hang(|nth, look| {
        look.stages = vec![StagesSnapshot {
            place: "ingress".to_owned(),
            service: "com.acme.Orders".to_owned(),
            calls: nth,
            total_ms: [("app".to_owned(), 2.9 * nth as f64)].into(),
        }];
    });
    assert_eq!(only(&timed).verdict, finding.verdict);
}

#[test]
fn whether_other_endpoints_have_such_calls_is_told() {
    let told = |late: fn(u64) -> u64| {
        let looks = some_hang(|nth, look| {
            add_other(look, 1, nth, 0);
            add_other(look, 2, nth, late(nth));
        });
        let findings = of_agent(&looks);
        let finding = findings.iter().find(|it| it.subject.ends_with("10.0.0.7:20880")).unwrap();
        (finding.evidence[3].clone(), finding.remedy.contains("more than one has them"))
    };
    let none = "none of the 2 other endpoints of the service has such calls";
    // What failed before it was watched does not count.
    assert_eq!(told(|_| 7), (none.to_owned(), false));
    let one = "such calls to other endpoints of the service: 1 of 2 have them, too";
    assert_eq!(told(|nth| nth), (one.to_owned(), true));
    let alone = only(&some_hang(|nth, look| add_other(look, 1, nth, 0)));
    assert_eq!(alone.evidence[3], "the other endpoint of the service has no such calls");
    // Those of other services do not count.
    let other = some_hang(|nth, look| {
        add_other(look, 1, nth, nth);
        look.endpoints[1].service = "com.acme.Prices".to_owned();
    });
    let findings = of_agent(&other);
    assert!(findings.iter().all(|it| it.evidence.len() <= 3), "{findings:?}");
}

#[test]
fn a_connection_that_hangs_is_told_from_calls_that_do() {
    let with = |received: fn(u64) -> u64, in_flight: usize| {
        only(&some_hang(|nth, look| {
            let mut other = look.connections[0].clone();
            (other.id, other.in_flight) = (2, in_flight);
            other.tcp.as_mut().unwrap().received_bytes = Some(received(nth));
            look.connections[0].tcp.as_mut().unwrap().received_bytes = Some(1_000 * nth);
            look.connections.push(other);
        }))
    };
    let finding = with(|_| 7, 3);
    assert!(finding.verdict.ends_with("a connection to the provider hangs"), "{finding}");
    assert_eq!(
        finding.evidence[3],
        "nothing has come over 1 of 2 connections to it, which have calls in flight"
    );
    assert!(finding.remedy.starts_with("run dubmesh doctor --port 20880 here"), "{finding}");
    // Its only one brings what is answered, whatever a page says.
    let only_one = only(&some_hang(|_, look| {
        look.connections[0].tcp.as_mut().unwrap().received_bytes = Some(7);
    }));
    for finding in [with(|nth| nth, 3), with(|_| 7, 0), only_one] {
        assert!(finding.verdict.ends_with("some calls hang in the provider"), "{finding}");
    }
}

/// What others send goes on being under way; only what stays there has not arrived.
#[test]
fn what_is_under_way_is_not_what_is_lost() {
    let verdict = |acked: fn(u64) -> Option<u64>| {
        let silent = looks(20, |nth| {
            let mut look = look(endpoint(0, 1.0, &[("timeout", nth)]), 200);
            let tcp = look.connections[0].tcp.as_mut().unwrap();
            (tcp.unacked_segments, tcp.acked_bytes) = (Some(3), acked(nth));
            look
        });
        only(&silent).verdict
    };
    assert!(verdict(|nth| Some(100 * nth)).ends_with("though what is sent to it arrives"));
    for lost in [verdict(|_| Some(100)), verdict(|_| None)] {
        assert_eq!(lost, "nothing comes back, and what was sent is not confirmed");
    }
}
