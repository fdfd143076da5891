//! What the figures of one connection show while bytes flow over it.

use std::net::SocketAddr;

use super::{Cause, OFTEN, bytes, percent, recurs, share_of, time};
use crate::figures::Figures;
use crate::watched::{Interval, WatchedSocket};

/// A sender that is limited for less than this share of the time is not slowed down to speak of.
const LIMITED: f64 = 0.1;
/// A sender that has something under way for at least this share of the time is busy.
const BUSY: f64 = 0.5;
/// Less than this is read at the next turn of any event loop.
const MANY_UNREAD: u64 = 16 * 1024;
/// Who has less under way may have a long round trip because the peer confirms it late.
const MANY_UNDER_WAY: u64 = 64 * 1024;
/// More segments than one of so many are lost on no good network.
const LOST_PARTS: u64 = 100;
/// Fewer are chance.
const MIN_LOST: u64 = 5;
/// Queues in the network lengthen the round trip at least to so many times the shortest one.
const QUEUED_RTT_TIMES: u32 = 2;
/// And by at least this, in microseconds: less than that comes of busy processors.
const QUEUED_RTT_US: u32 = 1_000;

/// One sign on one connection.
pub(super) struct Symptom {
    pub(super) cause: Cause,
    /// How bad it is, 0 to 1.
    pub(super) share: f64,
    pub(super) verdict: String,
    pub(super) evidence: Vec<String>,
    pub(super) remedy: String,
}

/// What holds up bytes that flow. Loss and full networks are not looked for within a machine: what
/// is lost or waits there is its processors' doing.
pub(super) fn of_flow(watched: &WatchedSocket, peer: SocketAddr, is_inside: bool) -> Vec<Symptom> {
    let near = [send_buffer(watched), peer_reads_slowly(watched, peer), reads_slowly(watched)];
    let network = [packet_loss(watched), network_full(watched)];
    let network = network.into_iter().filter(|_| !is_inside);
    near.into_iter().chain(network).flatten().collect()
}

/// The share of all the time that a clock ran, if it ran for long enough often enough.
fn limited(watched: &WatchedSocket, clock: fn(&Figures) -> Option<u64>) -> Option<f64> {
    let is_limited = |it: Interval| it.share(clock).is_some_and(|share| LIMITED <= share);
    let often = share_of(watched.intervals(), is_limited)?;
    let share = watched.whole()?.share(clock)?;
    (OFTEN <= often && LIMITED <= share).then_some(share)
}

fn send_buffer(watched: &WatchedSocket) -> Option<Symptom> {
    let share = limited(watched, |figures| figures.buffer_limited_us)?;
    let whole = watched.whole()?;
    let mut evidence = Vec::new();
    if let Some(size) = whole.after.send_buffer_bytes {
        evidence.push(format!("the send buffer has {}", bytes(size)));
    }
    if let Some(window) = whole.share(|figures| figures.window_limited_us) {
        let is_cause = if window < LIMITED { "is not the cause" } else { "is another cause" };
        evidence.push(format!(
            "the peer's receive window {is_cause}: it was full {} of the time",
            percent(window)
        ));
    }
    evidence.extend(round_trip(&whole.after));
    Some(Symptom {
        cause: Cause::SendBuffer,
        share,
        verdict: format!("send buffer limited {} of the time", percent(share)),
        evidence,
        remedy: "raise the send buffer (SO_SNDBUF of the program, send_buffer_bytes of an agent; \
                 if it sets none, the third number of net.ipv4.tcp_wmem), or use more connections"
            .to_owned(),
    })
}

fn peer_reads_slowly(watched: &WatchedSocket, peer: SocketAddr) -> Option<Symptom> {
    let share = limited(watched, |figures| figures.window_limited_us)?;
    let whole = watched.whole()?;
    let mut evidence = vec![format!("the receive window was full {} of the time", percent(share))];
    if let Some(unacked) = whole.after.unacked_bytes.filter(|n| *n != 0) {
        evidence.push(format!("{} wait in the socket", bytes(unacked)));
    }
    evidence.extend(round_trip(&whole.after));
    Some(Symptom {
        cause: Cause::PeerReadsSlowly,
        share,
        verdict: format!(
            "the other side has no room for what is sent, {} of the time",
            percent(share)
        ),
        evidence,
        remedy: format!(
            "look at the process that has {peer}: it stands still, or its event loop is busy or \
             blocked (dubmesh doctor --port {} there says \"does not read\"); if it reads all, its \
             receive buffer (SO_RCVBUF, receive_buffer_bytes of an agent, net.ipv4.tcp_rmem) is \
             too small for the distance",
            peer.port()
        ),
    })
}

fn reads_slowly(watched: &WatchedSocket) -> Option<Symptom> {
    let has_many = |it: &Figures| it.unread_bytes.is_some_and(|n| MANY_UNREAD <= n);
    let share = share_of(watched.looks(), has_many).filter(|share| OFTEN <= *share)?;
    let most = watched.looks().filter_map(|it| it.unread_bytes).max().unwrap_or(0);
    let evidence = vec![format!(
        "at {} of {} looks at least {} had come and were not read; at most {}",
        watched.looks().filter(|it| has_many(it)).count(),
        watched.n_looks(),
        bytes(MANY_UNREAD),
        bytes(most)
    )];
    Some(Symptom {
        cause: Cause::ReadsSlowly,
        share,
        verdict: format!("the process does not read what has come, {} of the time", percent(share)),
        evidence,
        remedy: "look at what its I/O threads do: they decode long messages, wait for a lock, or \
                 are too few; more connections help only if there are more I/O threads"
            .to_owned(),
    })
}

fn packet_loss(watched: &WatchedSocket) -> Option<Symptom> {
    let whole = watched.whole()?;
    let n_again = whole.growth(|figures| figures.retransmits)?;
    let n_duplicates = n_late(whole);
    let n_lost = n_again.saturating_sub(n_duplicates);
    let n_sent = whole.growth(|figures| figures.segments_out)?.max(1);
    if n_lost < MIN_LOST || n_lost * LOST_PARTS < n_sent {
        return None;
    }
    // A connection that begins, or a queue that runs over once, loses many at a time.
    let has_lost =
        |it: Interval| it.growth(|figures| figures.retransmits).is_some_and(|n| n_late(it) < n);
    if !recurs(watched.intervals().map(has_lost)) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    let share = (n_lost as f64 / n_sent as f64).min(1.0);
    let mut evidence = vec![format!("{n_again} of {n_sent} segments were sent again")];
    if n_duplicates != 0 {
        evidence.push(format!("{n_duplicates} of them for nothing: they had been late, not lost"));
    }
    let window = whole.share(|figures| figures.window_limited_us);
    if let Some(window) = window.filter(|window| BUSY <= *window) {
        evidence.push(format!(
            "the peer's receive window was full {} of the time: what it has no room for is sent \
             again, too",
            percent(window)
        ));
    }
    evidence.extend(round_trip(&whole.after));
    Some(Symptom {
        cause: Cause::PacketLoss,
        share,
        verdict: format!("{} of all segments are lost", percent(share)),
        evidence,
        remedy: "look at the network between the two: errors of interfaces (ip -s link), full \
                 queues, or a limit of bandwidth"
            .to_owned(),
    })
}

/// Segments that were sent again although they had arrived, as where a machine stands still for a
/// moment. A peer or a kernel that does not say so has lost them.
fn n_late(interval: Interval) -> u64 {
    interval.growth(|figures| figures.duplicates).unwrap_or(0)
}

fn network_full(watched: &WatchedSocket) -> Option<Symptom> {
    let has_long_way = |figures: &Figures| {
        let is_long = |rtt: u32, min: u32| {
            min.saturating_mul(QUEUED_RTT_TIMES).saturating_add(QUEUED_RTT_US) <= rtt
        };
        figures.rtt_us.zip(figures.min_rtt_us).is_some_and(|(rtt, min)| is_long(rtt, min))
    };
    // Callers that wait for their answers leave a queue in the network, and none in the socket.
    let has_much = |figures: &Figures| {
        let waits = figures.not_sent_bytes.is_some_and(|n| n != 0);
        waits && figures.is_app_limited != Some(true)
            || figures.unacked_bytes.is_some_and(|n| MANY_UNDER_WAY <= n)
    };
    let is_full = |it: Interval| {
        let share = |clock: fn(&Figures) -> Option<u64>| it.share(clock).unwrap_or(0.0);
        BUSY <= share(|figures| figures.busy_us)
            && share(|figures| figures.window_limited_us) < LIMITED
            && share(|figures| figures.buffer_limited_us) < LIMITED
            && has_long_way(&it.after)
            && has_much(&it.after)
    };
    let share = share_of(watched.intervals(), is_full).filter(|share| OFTEN <= *share)?;
    let after = watched.whole()?.after;
    let mut evidence = Vec::new();
    if let Some(rate) = after.delivery_rate {
        evidence.push(format!("{} arrive a second", bytes(rate)));
    }
    if let Some(waiting) = after.unacked_bytes.or(after.not_sent_bytes).filter(|n| *n != 0) {
        evidence.push(format!("{} wait to be sent or are under way", bytes(waiting)));
    }
    evidence.extend(round_trip(&after));
    Some(Symptom {
        cause: Cause::NetworkFull,
        share,
        verdict: format!("the network takes no more, {} of the time", percent(share)),
        evidence,
        remedy: "the path has no more bandwidth: send less (smaller or compressed messages), or \
                 spread the load over other machines; if little is sent, others fill it, or it \
                 has become longer (mtr, traceroute)"
            .to_owned(),
    })
}

/// `round trip 180 us, at best 150 us`.
pub(super) fn round_trip(figures: &Figures) -> Option<String> {
    let rtt = time(f64::from(figures.rtt_us?));
    Some(match figures.min_rtt_us {
        Some(min) => format!("round trip {rtt}, at best {}", time(f64::from(min))),
        None => format!("round trip {rtt}"),
    })
}
