//! What is worth knowing of connections, and is no cause: how long the way is, and that nobody
//! uses them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::sockets::WatchedConnection;
use super::{counted, time};
use crate::figures::{Figures, Role};

/// A way this long shows in each call, in microseconds. A shorter round trip may be a peer's that
/// confirms late, as kernels do for up to 40 ms.
const LONG_WAY_US: u32 = 50_000;
/// So many segments say how long the way is.
const MIN_SEGMENTS: u64 = 5;
/// Heartbeats of Dubbo, and a few calls, are no use to speak of: in bytes, of all connections.
const IDLE_LEN: u64 = 1024;

/// Remarks about connections, whatever else was found.
#[must_use]
pub fn remarks(connections: &[WatchedConnection]) -> Vec<String> {
    long_ways(connections).into_iter().chain(idle(connections)).collect()
}

/// No call takes less than a round trip.
fn long_ways(connections: &[WatchedConnection]) -> Vec<String> {
    let mut ways: BTreeMap<(Role, SocketAddr), u32> = BTreeMap::new();
    for connection in connections {
        let id = connection.id;
        let Some(whole) = connection.watched.whole() else { continue };
        let n_sent = whole.growth(|it| it.segments_out).unwrap_or(0);
        let Some(best) = whole.after.min_rtt_us.filter(|best| LONG_WAY_US <= *best) else {
            continue;
        };
        if MIN_SEGMENTS <= n_sent {
            // The port of a caller says nothing.
            let place = match connection.role {
                Role::Client => id.remote,
                Role::Server => SocketAddr::new(id.remote.ip(), 0),
            };
            let way = ways.entry((connection.role, place)).or_insert(best);
            *way = best.min(*way);
        }
    }
    let tell = |((role, place), best): ((Role, SocketAddr), u32)| {
        let way = match role {
            Role::Client => format!("to {place}"),
            Role::Server => format!("from {}", place.ip()),
        };
        format!(
            "the way {way} and back takes {} at best, and no call takes less: the peer is far away, or \
             a queue on the way is never empty; use nearer endpoints, or make fewer calls one after \
             the other",
            time(f64::from(best))
        )
    };
    ways.into_iter().map(tell).collect()
}

/// Says so if next to nothing went over the connections.
fn idle(connections: &[WatchedConnection]) -> Option<String> {
    let carried = |connection: &WatchedConnection| {
        let whole = connection.watched.whole()?;
        let of = |sum: fn(&Figures) -> Option<u64>| whole.growth(sum);
        Some(of(|it| it.acked_bytes)? + of(|it| it.received_bytes)?)
    };
    // What still waits was carried by somebody.
    let waits = |it: &Figures| it.unread_bytes != Some(0) || it.unacked_bytes != Some(0);
    if connections.iter().flat_map(|it| it.watched.looks()).any(waits) {
        return None;
    }
    let all: u64 = connections.iter().map(carried).sum::<Option<u64>>()?;
    (!connections.is_empty() && all < IDLE_LEN).then(|| {
        format!(
            "next to nothing went over the {}: callers made no calls, or stand still; look at \
             them, where they run",
            counted(connections.len() as u64, "connection", "connections")
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::figures::SocketId;
    use crate::watched::WatchedSocket;

    /// A connection that was looked at twice; `after` is what it had then.
    fn connection(role: Role, remote: &str, after: Figures) -> WatchedConnection {
        let still = Figures { unread_bytes: Some(0), unacked_bytes: Some(0), ..after };
        let before = Figures {
            segments_out: Some(0),
            acked_bytes: Some(0),
            received_bytes: Some(0),
            ..still
        };
        let mut watched = WatchedSocket::default();
        watched.add(Duration::ZERO, before);
        watched.add(Duration::from_secs(10), Figures { unread_bytes: after.unread_bytes, ..still });
        let id = SocketId { local: "10.0.0.5:1".parse().unwrap(), remote: remote.parse().unwrap() };
        WatchedConnection { id, role, owner: None, watched, is_awaited: None }
    }

    fn figures(min_rtt_us: u32, segments: u64, bytes: u64) -> Figures {
        Figures {
            min_rtt_us: Some(min_rtt_us),
            segments_out: Some(segments),
            acked_bytes: Some(bytes),
            received_bytes: Some(bytes),
            unread_bytes: Some(0),
            ..Figures::default()
        }
    }

    #[test]
    fn a_long_way_is_told_once_for_each_place() {
        let to = |remote, us| connection(Role::Client, remote, figures(us, 5, 9_000));
        let told = remarks(&[to("10.0.0.7:20880", 103_000), to("10.0.0.7:20880", 100_000)]);
        let [told] = &told[..] else { panic!("{told:?}") };
        let beginning = "the way to 10.0.0.7:20880 and back takes 100.0 ms at best, and no call";
        assert!(told.starts_with(beginning), "{told}");
        let from = |remote| connection(Role::Server, remote, figures(100_000, 5, 9_000));
        let told = remarks(&[from("10.0.0.9:1"), from("10.0.0.9:2")]);
        let [told] = &told[..] else { panic!("{told:?}") };
        assert!(told.starts_with("the way from 10.0.0.9 and back takes 100.0 ms"), "{told}");
        // Kernels confirm late, and little says little.
        assert!(remarks(&[to("10.0.0.7:20880", 49_999)]).is_empty());
        let few = connection(Role::Client, "10.0.0.7:1", figures(100_000, 4, 9_000));
        assert!(remarks(&[few]).is_empty());
    }

    #[test]
    fn connections_that_nobody_uses_are_told() {
        let carrying = |bytes| connection(Role::Server, "10.0.0.9:1", figures(10, 1, bytes));
        let told = remarks(&[carrying(20), carrying(20)]);
        let [told] = &told[..] else { panic!("{told:?}") };
        assert!(told.starts_with("next to nothing went over the 2 connections: "), "{told}");
        assert!(remarks(&[carrying(20), carrying(1_000)]).is_empty());
        assert!(remarks(&[]).is_empty());
        // One with something to read is the process' own fault.
        let unread = Figures { unread_bytes: Some(20), ..figures(10, 1, 20) };
        assert!(remarks(&[connection(Role::Server, "10.0.0.9:1", unread)]).is_empty());
        let unknown = Figures { acked_bytes: None, ..figures(10, 1, 20) };
        assert!(remarks(&[connection(Role::Server, "10.0.0.9:1", unknown)]).is_empty());
    }
}
