//! Each cause is named where it is, and by nothing that only looks like it.

use std::time::Duration;

use super::*;
use crate::figures::Figures;

const SECOND_US: u64 = 1_000_000;

fn id() -> SocketId {
    SocketId { local: "10.0.0.5:40000".parse().unwrap(), remote: "10.0.0.7:20880".parse().unwrap() }
}

/// Of ten seconds, what `at` says of each.
fn watched(at: impl Fn(u64) -> Figures) -> WatchedSocket {
    let mut watched = WatchedSocket::default();
    for second in 0..=10 {
        watched.add(Duration::from_secs(second), at(second));
    }
    watched
}

fn client(at: impl Fn(u64) -> Figures) -> WatchedConnection {
    WatchedConnection {
        id: id(),
        role: Role::Client,
        owner: None,
        watched: watched(at),
        is_awaited: None,
    }
}

/// A connection that is used and has no trouble.
fn well(second: u64) -> Figures {
    Figures {
        unread_bytes: Some(0),
        unacked_bytes: Some(0),
        not_sent_bytes: Some(0),
        acked_bytes: Some(second * 1_000_000),
        received_bytes: Some(second * 2_000_000),
        segments_out: Some(second * 1_000),
        retransmits: Some(0),
        duplicates: Some(0),
        busy_us: Some(second * SECOND_US / 20),
        window_limited_us: Some(0),
        buffer_limited_us: Some(0),
        rtt_us: Some(200),
        min_rtt_us: Some(150),
        delivery_rate: Some(10_000_000),
        is_app_limited: Some(false),
        send_buffer_bytes: Some(87_040),
        is_closed_by_peer: false,
    }
}

fn causes(connections: &[WatchedConnection]) -> Vec<Cause> {
    of_sockets(connections).into_iter().map(|finding| finding.cause).collect()
}

#[test]
fn what_is_well_idle_or_unknown_has_no_verdict() {
    assert_eq!(causes(&[client(well)]), []);
    assert_eq!(causes(&[client(|_| well(7))]), []);
    assert_eq!(causes(&[client(|_| Figures::default())]), []);
    assert_eq!(causes(&[]), []);
    let once = WatchedConnection { watched: WatchedSocket::default(), ..client(well) };
    assert_eq!(causes(&[once]), []);
}

#[test]
fn a_small_send_buffer_is_named_with_its_evidence() {
    let limited = client(|second| Figures {
        busy_us: Some(second * 900_000),
        buffer_limited_us: Some(second * 320_000),
        ..well(second)
    });
    let [finding] = of_sockets(&[limited]).try_into().unwrap();
    assert_eq!(finding.cause, Cause::SendBuffer);
    assert_eq!(finding.subject, "connections to 10.0.0.7:20880");
    assert_eq!(finding.verdict, "send buffer limited 32% of the time");
    assert_eq!(
        finding.evidence,
        [
            "the send buffer has 85 KiB",
            "the peer's receive window is not the cause: it was full 0% of the time",
            "round trip 200 us, at best 150 us"
        ]
    );
    assert!(finding.remedy.contains("SO_SNDBUF"));
}

#[test]
fn a_peer_that_reads_slowly_is_not_the_buffers_fault() {
    let limited = |second| Figures {
        busy_us: Some(second * SECOND_US),
        window_limited_us: Some(second * 800_000),
        unacked_bytes: Some(3_000_000),
        ..well(second)
    };
    assert_eq!(causes(&[client(limited)]), [Cause::PeerReadsSlowly]);
    // Where the peer's side is seen as well, it says more.
    let unread = |second| Figures { unread_bytes: Some(2_000_000), ..well(second) };
    let server = WatchedConnection {
        id: id().reversed(),
        role: Role::Server,
        owner: Some("java (pid 7)".to_owned()),
        watched: watched(unread),
        is_awaited: None,
    };
    let small = WatchedConnection {
        watched: watched(|second| Figures { unread_bytes: Some(7_000), ..well(second) }),
        ..server.clone()
    };
    let [finding] = of_sockets(&[client(limited), server]).try_into().unwrap();
    assert_eq!(finding.cause, Cause::ReadsSlowly);
    assert_eq!(finding.subject, "java (pid 7), callers of 10.0.0.7:20880");
    // A small buffer never has much that is unread.
    let [finding] = of_sockets(&[client(limited), small]).try_into().unwrap();
    assert_eq!(finding.cause, Cause::PeerReadsSlowly);
    let named = "the other side is java (pid 7): at most 7 KiB had come there and were not read";
    assert!(finding.evidence.iter().any(|it| it == named), "{finding:?}");
    assert!(finding.remedy.contains("give java (pid 7) a larger receive buffer"), "{finding:?}");
}

#[test]
fn one_pause_is_no_cause() {
    // Garbage is collected from the third second to the fifth.
    let paused = |second: u64| Figures {
        unread_bytes: Some(if (3..5).contains(&second) { 4_000_000 } else { 0 }),
        busy_us: Some(second * SECOND_US / 2),
        window_limited_us: Some(second.clamp(3, 5) * SECOND_US - 3 * SECOND_US),
        ..well(second)
    };
    assert_eq!(causes(&[client(paused)]), []);
}

#[test]
fn two_causes_at_once_are_both_named() {
    let both = client(|second| Figures {
        busy_us: Some(second * SECOND_US),
        buffer_limited_us: Some(second * 400_000),
        retransmits: Some(second * 50),
        ..well(second)
    });
    assert_eq!(causes(&[both]), [Cause::SendBuffer, Cause::PacketLoss]);
}

#[test]
fn some_lost_segments_of_many_are_normal() {
    let lost = |per_second| {
        client(move |second| Figures { retransmits: Some(second * per_second), ..well(second) })
    };
    assert_eq!(causes(&[lost(9)]), []);
    assert_eq!(causes(&[lost(30)]), [Cause::PacketLoss]);
    // A queue on the way that runs over once, and never again.
    let once = client(|second| Figures {
        retransmits: Some(if 4 < second { 900 } else { 0 }),
        ..well(second)
    });
    assert_eq!(causes(&[once]), []);
    // Late, as where the other machine stands still for a moment.
    let late = |n_lost: u64| {
        client(move |second| Figures {
            retransmits: Some(second * 30),
            duplicates: Some(second * (30 - n_lost)),
            ..well(second)
        })
    };
    assert_eq!(causes(&[late(9)]), []);
    let [loss] = of_sockets(&[late(20)]).try_into().unwrap();
    assert_eq!(
        (&*loss.verdict, &*loss.evidence[0], &*loss.evidence[1]),
        (
            "2% of all segments are lost",
            "300 of 10000 segments were sent again",
            "100 of them for nothing: they had been late, not lost"
        )
    );
    // Four of ten may be chance.
    let few = client(|second| Figures {
        segments_out: Some(second),
        retransmits: Some(second * 4 / 10),
        ..well(second)
    });
    assert_eq!(causes(&[few]), []);
}

/// A peer that does not read throws away what comes, which the network did not lose.
#[test]
fn a_full_window_is_told_beside_lost_segments() {
    let lost = |window_us: u64| {
        of_sockets(&[client(move |second| Figures {
            retransmits: Some(second * 50),
            window_limited_us: Some(second * window_us),
            ..well(second)
        })])
    };
    let [_, loss] = lost(970_000).try_into().unwrap();
    assert_eq!(
        loss.evidence[1],
        "the peer's receive window was full 97% of the time: what it has no room for is sent \
         again, too"
    );
    let [_, loss] = lost(400_000).try_into().unwrap();
    assert!(loss.evidence[1].starts_with("round trip"), "{loss}");
}

#[test]
fn the_worst_of_callers_is_named() {
    let connection = |port: u16, per_second: u64| {
        let mut connection = client(move |second| Figures {
            retransmits: Some(second * per_second),
            ..well(second)
        });
        connection.role = Role::Server;
        connection.id = SocketId { local: id().remote, remote: id().local };
        connection.id.remote.set_port(port);
        connection
    };
    let evidence = |of: &[WatchedConnection]| {
        let [finding] = of_sockets(of).try_into().unwrap();
        finding.evidence.last().unwrap().clone()
    };
    let (bad, well, worse) = (connection(1, 50), connection(2, 0), connection(3, 70));
    assert_eq!(evidence(std::slice::from_ref(&bad)), "the caller is 10.0.0.5:1");
    assert_eq!(
        evidence(&[bad.clone(), well.clone()]),
        "1 of 2 connections: 10.0.0.7:20880 -> 10.0.0.5:1"
    );
    assert_eq!(
        evidence(&[bad, well, worse]),
        "2 of 3 connections; the worst is 10.0.0.7:20880 -> 10.0.0.5:3"
    );
}

#[test]
fn a_full_network_has_a_queue_and_a_long_round_trip() {
    let full = |second| Figures {
        busy_us: Some(second * SECOND_US),
        not_sent_bytes: Some(500_000),
        rtt_us: Some(40_000),
        min_rtt_us: Some(5_000),
        ..well(second)
    };
    assert_eq!(causes(&[client(full)]), [Cause::NetworkFull]);
    // As fast as a processor can, on one machine.
    let fast = |second| Figures { rtt_us: Some(300), min_rtt_us: Some(20), ..full(second) };
    assert_eq!(causes(&[client(fast)]), []);
    let little = |second| Figures { is_app_limited: Some(true), ..full(second) };
    assert_eq!(causes(&[client(little)]), []);
    // Callers wait for their answers, and leave no queue in the socket.
    let under_way = |n| {
        client(move |second| Figures {
            not_sent_bytes: Some(0),
            unacked_bytes: Some(n),
            ..little(second)
        })
    };
    assert_eq!(causes(&[under_way(60_000)]), []);
    let [finding] = of_sockets(&[under_way(70_000)]).try_into().unwrap();
    assert_eq!(finding.cause, Cause::NetworkFull);
    assert_eq!(finding.evidence[1], "68 KiB wait to be sent or are under way");
    // Processors that are busy lengthen round trips, too.
    let mut inside = client(full);
    inside.id.local.set_ip(inside.id.remote.ip());
    assert_eq!(causes(&[inside]), []);
}

#[test]
fn connections_to_the_same_service_are_told_of_together() {
    let connection = |port: u16, is_slow: bool| {
        let mut connection = client(move |second| Figures {
            busy_us: Some(second * SECOND_US),
            buffer_limited_us: Some(if is_slow { second * u64::from(port) * 10 } else { 0 }),
            ..well(second)
        });
        connection.id.local.set_port(port);
        connection
    };
    let all = [connection(20_000, true), connection(40_000, true), connection(50_000, false)];
    let [finding] = of_sockets(&all).try_into().unwrap();
    assert_eq!(finding.verdict, "send buffer limited 40% of the time");
    assert_eq!(
        finding.evidence.last().unwrap(),
        "2 of 3 connections; the worst is 10.0.0.5:40000 -> 10.0.0.7:20880"
    );
    // One that is being closed has no process any more. Of several, any may have had it.
    let owned = |port, owner: Option<&str>| WatchedConnection {
        owner: owner.map(str::to_owned),
        ..connection(port, true)
    };
    let told = |all: &[WatchedConnection]| {
        of_sockets(all).into_iter().map(|it| it.subject).collect::<Vec<_>>()
    };
    let closing = [owned(40_000, None), owned(30_000, Some("java (pid 7)"))];
    assert_eq!(told(&closing), ["java (pid 7), connections to 10.0.0.7:20880"]);
    let several = [closing, [owned(20_000, Some("a")), owned(20_001, Some("a"))]].concat();
    assert_eq!(told(&several).len(), 3);
}

#[test]
fn a_full_accept_queue_is_named_and_a_burst_is_not() {
    let listening = |queue: &[(u64, u64)]| WatchedListener {
        address: "10.0.0.7:20880".parse().unwrap(),
        owner: Some("java (pid 7)".to_owned()),
        queue: queue.to_vec(),
    };
    let waiting = |at: fn(usize) -> u64| {
        let queue: Vec<_> = (0..20).map(|nth| (at(nth), 128)).collect();
        of_listeners(&[listening(&queue)])
    };
    assert_eq!(waiting(|nth| if nth == 1 { 129 } else { 0 }), []);
    // The process stands still for 2 s, as for its garbage collector; or nearly all have room.
    assert_eq!(waiting(|nth| if (7..11).contains(&nth) { 129 } else { 0 }), []);
    assert_eq!(waiting(|_| 60), []);
    assert_eq!(of_listeners(&[listening(&[(0, 0); 20])]), []);
    let full = |nth: usize| [120, 129, 3][nth % 3];
    let [finding] = waiting(full).try_into().unwrap();
    assert_eq!(finding.cause, Cause::AcceptQueue);
    assert_eq!(finding.evidence[1], "the queue was full at 14 of 20 looks");
    assert_eq!(finding.subject, "java (pid 7), listening at 10.0.0.7:20880");
    assert_eq!(finding.evidence[0], "129 connections waited; the limit is 128");
}

/// What is just below a limit has no verdict, and what is just above it has one.
#[test]
fn what_is_below_the_limits_has_no_verdict() {
    let limited = |per_second: u64| {
        let of_buffer = client(move |second| Figures {
            buffer_limited_us: Some(second * per_second),
            ..well(second)
        });
        let of_window = client(move |second| Figures {
            window_limited_us: Some(second * per_second),
            ..well(second)
        });
        [causes(&[of_buffer]), causes(&[of_window])].concat()
    };
    assert_eq!(limited(80_000), []);
    assert_eq!(limited(120_000), [Cause::SendBuffer, Cause::PeerReadsSlowly]);
    // Limited a little in seven seconds of ten, and not at all in the others.
    let little =
        |second: u64| Figures { buffer_limited_us: Some(second.min(7) * 110_000), ..well(second) };
    assert_eq!(causes(&[client(little)]), []);
    let unread = |n| client(move |second| Figures { unread_bytes: Some(n), ..well(second) });
    assert_eq!(causes(&[unread(15_000)]), []);
    assert_eq!(causes(&[unread(17_000)]), [Cause::ReadsSlowly]);
}

/// Each change alone makes it a connection that has room, or one that something else holds up.
#[test]
fn a_full_network_is_full_and_nothing_else() {
    let of = |change: fn(u64, &mut Figures)| {
        causes(&[client(move |second| {
            let mut figures = Figures {
                busy_us: Some(second * SECOND_US),
                not_sent_bytes: Some(500_000),
                rtt_us: Some(40_000),
                min_rtt_us: Some(5_000),
                ..well(second)
            };
            change(second, &mut figures);
            figures
        })])
    };
    assert_eq!(of(|_, _| ()), [Cause::NetworkFull]);
    assert_eq!(of(|_, it| it.not_sent_bytes = Some(0)), []);
    assert_eq!(of(|second, it| it.busy_us = Some(second * 300_000)), []);
    assert_eq!(of(|_, it| it.min_rtt_us = Some(25_000)), []);
    let window = |second, it: &mut Figures| it.window_limited_us = Some(second * 500_000);
    assert_eq!(of(window), [Cause::PeerReadsSlowly]);
    let buffer = |second, it: &mut Figures| it.buffer_limited_us = Some(second * 500_000);
    assert_eq!(of(buffer), [Cause::SendBuffer]);
    // Two seconds of ten.
    let seldom = |second, it: &mut Figures| {
        if !(4..6).contains(&second) {
            it.not_sent_bytes = Some(0);
        }
    };
    assert_eq!(of(seldom), []);
}

#[test]
fn a_verdict_on_one_connection_hides_no_other_cause() {
    let limited = |second| Figures {
        window_limited_us: Some(second * 800_000),
        buffer_limited_us: Some(second * 400_000),
        unacked_bytes: Some(3 * 1_048_576),
        ..well(second)
    };
    let server = |id: SocketId| WatchedConnection {
        id: id.reversed(),
        role: Role::Server,
        owner: None,
        watched: watched(|second| Figures {
            unread_bytes: Some(2_000_000),
            buffer_limited_us: Some(second * 400_000),
            ..well(second)
        }),
        is_awaited: None,
    };
    // What its peer does not read is told of there. That buffers are small is told of each side.
    let all = causes(&[client(limited), server(id())]);
    assert_eq!(all, [Cause::SendBuffer, Cause::SendBuffer, Cause::ReadsSlowly]);
    // It is another connection that is not read.
    let mut other = id();
    other.local.set_port(50_000);
    let findings = of_sockets(&[client(limited), server(other)]);
    let slow = findings.iter().find(|it| it.cause == Cause::PeerReadsSlowly).unwrap();
    assert_eq!(slow.evidence[1], "3.0 MiB wait in the socket");
    assert!(findings[0].evidence[1].contains("is another cause: it was full 80% of the time"));
}

#[test]
fn within_a_machine_only_the_network_is_not_blamed() {
    let lost = |second| Figures {
        retransmits: Some(second * 2_000),
        buffer_limited_us: Some(second * 400_000),
        ..well(second)
    };
    let mut connection = client(lost);
    let [buffer, loss] = of_sockets(&[connection.clone()]).try_into().unwrap();
    assert_eq!((buffer.cause, loss.cause), (Cause::SendBuffer, Cause::PacketLoss));
    assert_eq!(loss.verdict, "100% of all segments are lost");
    connection.id.local.set_ip(connection.id.remote.ip());
    assert_eq!(causes(&[connection]), [Cause::SendBuffer]);
}
