//! What has stopped is told from what pauses, idles, or goes one way.

use super::super::sockets::{WatchedConnection, of_sockets};
use super::*;
use crate::figures::SocketId;

fn peer() -> SocketAddr {
    "10.0.0.7:20880".parse().unwrap()
}

fn id() -> SocketId {
    SocketId { local: "10.0.0.5:40000".parse().unwrap(), remote: peer() }
}

/// Ten seconds, looked at every half a second.
fn watched(at: impl Fn(u64) -> Figures) -> WatchedSocket {
    let mut watched = WatchedSocket::default();
    for nth in 0..=20 {
        watched.add(Duration::from_millis(500 * nth), at(nth));
    }
    watched
}

/// A caller's connection: so many bytes of requests and of answers, all of them read.
fn talk(asked: u64, answered: u64) -> Figures {
    Figures {
        unread_bytes: Some(0),
        unacked_bytes: Some(0),
        not_sent_bytes: Some(0),
        acked_bytes: Some(asked),
        received_bytes: Some(answered),
        segments_out: Some(asked / 100),
        retransmits: Some(0),
        rtt_us: Some(200),
        min_rtt_us: Some(150),
        ..Figures::default()
    }
}

fn found(role: Role, at: impl Fn(u64) -> Figures) -> Option<Symptom> {
    of_silence(&watched(at), peer(), role)
}

fn cause(role: Role, at: impl Fn(u64) -> Figures) -> Option<Cause> {
    found(role, at).map(|it| it.cause)
}

#[test]
fn what_flows_or_idles_is_no_silence() {
    for role in [Role::Client, Role::Server] {
        assert_eq!(cause(role, |nth| talk(1_000 + 100 * nth, 1_000 + 500 * nth)), None);
        assert_eq!(cause(role, |_| talk(1_000, 5_000)), None);
        assert_eq!(cause(role, |_| Figures::default()), None);
    }
}

#[test]
fn requests_that_get_no_answer_are_named() {
    // Answers until the second second; callers go on.
    let hangs = |nth: u64| talk(1_000 + 300 * nth, 9_000 + 100 * nth.min(4));
    let it = found(Role::Client, hangs).unwrap();
    assert_eq!(it.cause, Cause::NoAnswer);
    assert_eq!(it.verdict, "no answer has come for 8.0 s, and the network is not the cause");
    assert_eq!(
        it.evidence,
        [
            "5 KiB were sent meanwhile, and the other side has confirmed them",
            "round trip 200 us, at best 150 us"
        ]
    );
    assert!(it.remedy.starts_with("look at the process at 10.0.0.7:20880: "), "{}", it.remedy);
    // The other side does not read what is asked, and that is said by itself.
    let full = |nth: u64| Figures { window_limited_us: Some(nth * 400_000), ..hangs(nth) };
    assert_eq!(cause(Role::Client, full), None);
    let partly = |nth: u64| Figures { window_limited_us: Some(nth * 200_000), ..hangs(nth) };
    assert_eq!(cause(Role::Client, partly), Some(Cause::NoAnswer));
    // A pause of less than three seconds, or of less than most of the time.
    let pause = |looks: u64| {
        cause(Role::Client, move |nth| {
            talk(1_000 + 300 * nth, 9_000 + 100 * nth.saturating_sub(looks))
        })
    };
    assert_eq!(pause(5), None);
    assert_eq!(pause(11), None);
    assert_eq!(pause(13), Some(Cause::NoAnswer));
    // It pauses for all of the two seconds that are watched.
    let mut brief = WatchedSocket::default();
    (0..5).for_each(|nth| brief.add(Duration::from_millis(500 * nth), talk(300 * nth, 9_000)));
    assert!(of_silence(&brief, peer(), Role::Client).is_none());
}

/// A registry is asked, and answers when there is news; logs go one way.
#[test]
fn who_waits_for_no_answer_has_no_verdict() {
    let asks_once = |nth: u64| talk(if 3 < nth { 1_300 } else { 1_000 }, 9_000);
    assert_eq!(cause(Role::Client, asks_once), None);
    assert_eq!(cause(Role::Server, |nth| talk(9_000, asks_once(nth).acked_bytes.unwrap())), None);
    assert_eq!(cause(Role::Client, |nth| talk(9_000_000 + 300 * nth, 5_000)), None);
    assert_eq!(cause(Role::Client, |nth| talk(300_000 + 300 * nth, 0)), None);
    // Of a young connection nobody knows; its first calls may hang.
    assert_eq!(cause(Role::Client, |nth| talk(300 * nth, 0)), Some(Cause::NoAnswer));
    // Nobody has asked for most of the time.
    let early = |nth: u64| talk(1_000 + 300 * nth.min(3), 9_000);
    assert_eq!(cause(Role::Client, early), None);
    let late = |nth: u64| talk(1_000 + 300 * nth.saturating_sub(15), 9_000);
    assert_eq!(cause(Role::Client, late), None);
}

#[test]
fn a_provider_that_reads_and_answers_nothing_is_named() {
    let hangs = |nth: u64| talk(9_000, 1_000 + 300 * nth);
    let it = found(Role::Server, hangs).unwrap();
    assert_eq!(
        (it.cause, &*it.verdict),
        (Cause::NoAnswer, "the process has answered nothing for 10.0 s")
    );
    assert_eq!(it.evidence[0], "6 KiB came meanwhile, and it has read them");
    // It answers; the network has not taken that yet.
    let answers = |nth: u64| Figures {
        unacked_bytes: Some(100 * nth),
        not_sent_bytes: Some(100 * nth),
        ..hangs(nth)
    };
    assert_eq!(cause(Role::Server, answers), None);
    // Who calls it has the same figures, and has to answer nothing.
    assert_eq!(cause(Role::Client, hangs), None);
}

#[test]
fn a_process_that_reads_nothing_is_named_however_little_has_come() {
    let stands =
        |nth: u64| Figures { unread_bytes: Some(100 * nth), ..talk(9_000, 5_000 + 100 * nth) };
    let it = found(Role::Server, stands).unwrap();
    assert_eq!(
        (it.cause, &*it.verdict),
        (Cause::ReadsSlowly, "the process has read nothing for 9.5 s")
    );
    assert_eq!(it.evidence, ["2 KiB have come and are not read"]);
    // Each time something else waits for its turn.
    let reads = |nth: u64| Figures {
        unread_bytes: Some(100),
        ..talk(9_000 + 100 * nth, 5_000 + 100 * nth)
    };
    assert_eq!(cause(Role::Server, reads), None);
    // A pool keeps a connection that its server has closed with a last word.
    let pooled =
        |_| Figures { unread_bytes: Some(32), is_closed_by_peer: true, ..talk(9_000, 5_000) };
    assert_eq!(cause(Role::Client, pooled), None);
    assert_eq!(
        cause(Role::Client, |_| Figures { unread_bytes: Some(15), ..talk(9_000, 5_000) }),
        None
    );
    let waits = |_| Figures { unread_bytes: Some(16), ..talk(9_000, 5_000) };
    assert_eq!(cause(Role::Client, waits), Some(Cause::ReadsSlowly));
}

#[test]
fn what_never_arrives_is_named() {
    let lost = |nth: u64| Figures {
        unacked_bytes: Some(700 + 300 * nth),
        not_sent_bytes: Some(300 * nth),
        retransmits: Some(nth / 4),
        window_limited_us: Some(0),
        ..talk(9_000, 5_000)
    };
    let it = found(Role::Client, lost).unwrap();
    assert_eq!(
        (it.cause, &*it.verdict),
        (Cause::NotConfirmed, "nothing that is sent has arrived for 10.0 s")
    );
    assert_eq!(
        it.evidence,
        ["700 B were sent and not confirmed", "5 segments were sent again meanwhile, in vain"]
    );
    assert!(it.remedy.starts_with("see whether the machine 10.0.0.7 runs"), "{}", it.remedy);
    let once = |nth| Figures { retransmits: Some(3), ..lost(nth) };
    assert_eq!(found(Role::Client, once).unwrap().evidence, ["700 B were sent and not confirmed"]);
    // Some of it is confirmed; nothing is under way; the peer has no room.
    let flows = |nth| Figures {
        acked_bytes: Some(9_000 + nth),
        received_bytes: Some(5_000 + nth),
        ..lost(nth)
    };
    assert_eq!(cause(Role::Client, flows), None);
    let held = |nth: u64| Figures { not_sent_bytes: lost(nth).unacked_bytes, ..lost(nth) };
    assert_eq!(cause(Role::Client, held), None);
    let full = |nth| Figures { window_limited_us: Some(nth * 500_000), ..lost(nth) };
    assert_eq!(cause(Role::Client, full), None);
    // That segments are lost needs no saying then.
    let connection = WatchedConnection {
        id: id(),
        role: Role::Client,
        owner: None,
        watched: watched(|nth| Figures { retransmits: Some(nth), ..lost(nth) }),
        is_awaited: None,
    };
    let causes: Vec<_> = of_sockets(&[connection]).into_iter().map(|it| it.cause).collect();
    assert_eq!(causes, [Cause::NotConfirmed]);
}

/// Both ends are on this machine: the one that is to blame is named, and once.
#[test]
fn the_side_that_is_silent_is_named() {
    let client = WatchedConnection {
        id: id(),
        role: Role::Client,
        owner: Some("consumer".to_owned()),
        watched: watched(|nth| talk(1_000 + 300 * nth, 9_000)),
        is_awaited: None,
    };
    let server = |at: &dyn Fn(u64) -> Figures| WatchedConnection {
        id: id().reversed(),
        role: Role::Server,
        owner: Some("provider".to_owned()),
        watched: watched(at),
        is_awaited: None,
    };
    let of =
        |other: &[WatchedConnection]| of_sockets(&[std::slice::from_ref(&client), other].concat());
    let [finding] = of(&[]).try_into().unwrap();
    assert_eq!(finding.subject, "consumer, connections to 10.0.0.7:20880");
    let hangs = server(&|nth| talk(9_000, 1_000 + 300 * nth));
    let [finding] = of(&[hangs]).try_into().unwrap();
    assert_eq!(finding.subject, "provider, callers of 10.0.0.7:20880");
    assert_eq!(finding.evidence.last().unwrap(), "the caller is 10.0.0.5:40000");
    let stands = server(&|nth| Figures {
        unread_bytes: Some(100 + 300 * nth),
        ..talk(9_000, 1_000 + 300 * nth)
    });
    let [finding] = of(&[stands]).try_into().unwrap();
    assert_eq!(finding.cause, Cause::ReadsSlowly);
}

/// One-way calls look the same as those that are not answered, but to an agent at one end.
#[test]
fn nobody_is_silent_who_is_not_asked() {
    let silent = |role, is_awaited| {
        let (asked, answered) = (1_000, 9_000);
        let at = |nth| match role {
            Role::Client => talk(asked + 300 * nth, answered),
            Role::Server => talk(answered, asked + 300 * nth),
        };
        let id = if role == Role::Client { id() } else { id().reversed() };
        WatchedConnection { id, role, owner: None, watched: watched(at), is_awaited }
    };
    for role in [Role::Client, Role::Server] {
        for (is_awaited, n_findings) in [(None, 1), (Some(true), 1), (Some(false), 0)] {
            let findings = of_sockets(&[silent(role, is_awaited)]);
            assert_eq!(findings.len(), n_findings, "{role:?} {is_awaited:?}: {findings:?}");
        }
    }
}

#[test]
fn a_process_that_is_stopped_is_named() {
    let of = |states: &str| {
        let states = states.chars().collect();
        of_processes(&[Process { name: "java (pid 7)".to_owned(), pid: 7, states }])
    };
    assert_eq!(of("SSSSSRSSSS"), []);
    assert_eq!(of("SSSSSTTSSS"), []);
    assert_eq!(of("TTT"), []);
    let [finding] = of("STTTTTtTTT").try_into().unwrap();
    assert_eq!(finding.cause, Cause::Stopped);
    assert_eq!(finding.evidence, ["by a signal or a debugger, at 9 of 10 looks"]);
    assert_eq!(finding.verdict, "the process is stopped");
    assert!(finding.remedy.starts_with("kill -CONT 7 "), "{finding}");
    // One that is let go in between.
    let [finding] = of("STSSTSSTSSSS").try_into().unwrap();
    assert_eq!(finding.verdict, "the process is stopped again and again");
    assert_eq!(finding.evidence, ["by a signal or a debugger, at 3 of 12 looks"]);
    assert_eq!(of("SSSTTTTTSSSS"), []);
    assert_eq!(of("TTSSSSTTSSSS"), []);
}

#[test]
fn connections_that_nothing_answers_are_named() {
    let of = |repeats: &[u64]| {
        of_attempts(&[ConnectAttempts {
            owner: Some("java (pid 7)".to_owned()),
            remote: peer(),
            repeats: repeats.to_vec(),
        }])
    };
    assert_eq!(of(&[0, 0, 0, 0, 0, 0]), []);
    assert_eq!(of(&[0, 0, 1, 1, 0, 0]), []);
    let [finding] = of(&[0, 1, 1, 2, 0, 0]).try_into().unwrap();
    assert_eq!(finding.cause, Cause::CannotConnect);
    assert_eq!(finding.subject, "java (pid 7), connections to 10.0.0.7:20880");
    assert_eq!(
        finding.evidence,
        ["at 3 of 6 looks an attempt to connect had been repeated in vain"]
    );
}
