//! What the figures of sockets mean, whatever is spoken on them.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

use super::{Cause, Finding, OFTEN, bytes, counted, percent, recurs, share_of, time};
use crate::figures::{Figures, Role, SocketId};
use crate::watched::{Interval, Watched};

/// A sender that is limited for less than this share of the time is not slowed down to speak of.
const LIMITED: f64 = 0.1;
/// A sender that has something under way for at least this share of the time is busy.
const BUSY: f64 = 0.5;
/// Less than this is read at the next turn of any event loop.
const MANY_UNREAD: u64 = 16 * 1024;
/// More segments than one of so many are lost on no good network.
const LOST_PARTS: u64 = 100;
/// Fewer are chance.
const MIN_LOST: u64 = 5;
/// Queues in the network lengthen the round trip at least to so many times the shortest one.
const QUEUED_RTT_TIMES: u32 = 2;
/// And by at least this, in microseconds: less than that comes of busy processors.
const QUEUED_RTT_US: u32 = 1_000;
/// An accept queue is full from so many tenths on: the kernel drops what comes then.
const FULL_TENTHS: u64 = 9;

/// A connection that was watched.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Which one, seen from the side that was watched.
    pub id: SocketId,
    /// Which side opened it.
    pub role: Role,
    /// Whose it is, such as `java (pid 4711)`.
    pub owner: Option<String>,
    /// Its figures.
    pub watched: Watched,
}

impl Connection {
    /// What it is named by: the address that calls go to.
    fn service(&self) -> SocketAddr {
        match self.role {
            Role::Client => self.id.remote,
            Role::Server => self.id.local,
        }
    }
}

/// A listening socket that was watched.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whose it is.
    pub owner: Option<String>,
    /// How many connections waited at each look, and how many may.
    pub queue: Vec<(u64, u64)>,
}

/// One sign on one connection.
struct Symptom {
    cause: Cause,
    /// How bad it is, 0 to 1.
    share: f64,
    evidence: Vec<String>,
}

/// What is wrong with connections. Those of one owner with the same service are told of together.
#[must_use]
pub fn of_sockets(connections: &[Connection]) -> Vec<Finding> {
    type Key<'a> = (Cause, SocketAddr, Role, Option<&'a String>);
    let all: Vec<_> = connections.iter().map(|it| (it, symptoms(it))).collect();
    let unread: HashSet<SocketId> = all
        .iter()
        .filter(|(_, symptoms)| symptoms.iter().any(|it| it.cause == Cause::ReadsSlowly))
        .map(|(connection, _)| connection.id)
        .collect();
    let mut groups: BTreeMap<Key<'_>, Vec<Symptom>> = BTreeMap::new();
    let mut sizes: BTreeMap<(SocketAddr, Role, Option<&String>), usize> = BTreeMap::new();
    for (connection, symptoms) in all {
        let (service, role, owner) =
            (connection.service(), connection.role, connection.owner.as_ref());
        *sizes.entry((service, role, owner)).or_default() += 1;
        for symptom in symptoms {
            // The other side says more of it.
            let is_told = symptom.cause == Cause::PeerReadsSlowly
                && unread.contains(&connection.id.reversed());
            if !is_told {
                groups.entry((symptom.cause, service, role, owner)).or_default().push(symptom);
            }
        }
    }
    let finding = |((cause, service, role, owner), mut group): (Key<'_>, Vec<Symptom>)| {
        let n_all = sizes.get(&(service, role, owner)).copied().unwrap_or(group.len());
        let n_found = group.len();
        group.sort_by(|a, b| b.share.total_cmp(&a.share));
        let worst = group.into_iter().next()?;
        let mut evidence = worst.evidence;
        if 1 < n_all {
            let of = if n_found == 1 { "it is" } else { "the worst of them is shown" };
            evidence.push(format!("{n_found} of {n_all} connections; {of}"));
        }
        Some(describe(cause, &place(service, role, owner), worst.share, evidence))
    };
    groups.into_iter().filter_map(finding).collect()
}

fn place(service: SocketAddr, role: Role, owner: Option<&String>) -> String {
    let owner = owner.map(|owner| format!("{owner}, ")).unwrap_or_default();
    match role {
        Role::Client => format!("{owner}connections to {service}"),
        Role::Server => format!("{owner}callers of {service}"),
    }
}

fn describe(cause: Cause, place: &str, share: f64, evidence: Vec<String>) -> Finding {
    let (verdict, remedy) = match cause {
        Cause::SendBuffer => (
            format!("send buffer limited {} of the time", percent(share)),
            "raise the send buffer (SO_SNDBUF of the program, send_buffer_bytes of an agent; if it \
             sets none, the third number of net.ipv4.tcp_wmem), or use more connections",
        ),
        Cause::PeerReadsSlowly => (
            format!("the other side has no room for what is sent, {} of the time", percent(share)),
            "look at the process on the other side: its event loop is busy or blocked, or its \
             receive buffer (SO_RCVBUF, receive_buffer_bytes of an agent, net.ipv4.tcp_rmem) is \
             too small for the distance",
        ),
        Cause::ReadsSlowly => (
            format!("the process does not read what has come, {} of the time", percent(share)),
            "look at what its I/O threads do: they decode long messages, wait for a lock, or are \
             too few; more connections help only if there are more I/O threads",
        ),
        Cause::PacketLoss => (
            format!("{} of all segments are sent again", percent(share)),
            "look at the network between the two: errors of interfaces (ip -s link), full queues, \
             or a limit of bandwidth",
        ),
        _ => (
            format!("the network takes no more, {} of the time", percent(share)),
            "the path has no more bandwidth: send less (smaller or compressed messages), or \
             spread the load over other machines",
        ),
    };
    Finding { cause, subject: place.to_owned(), verdict, evidence, remedy: remedy.to_owned() }
}

fn symptoms(connection: &Connection) -> Vec<Symptom> {
    let signs = [send_buffer, peer_reads_slowly, reads_slowly, packet_loss, network_full];
    // What is lost or waits inside of a machine is its processors' doing.
    let is_inside = connection.id.local.ip() == connection.id.remote.ip();
    let is_network = |cause| matches!(cause, Cause::PacketLoss | Cause::NetworkFull);
    let found = signs.iter().filter_map(|sign| sign(&connection.watched));
    found.filter(|symptom| !is_inside || !is_network(symptom.cause)).collect()
}

/// The share of all the time that a clock ran, if it ran for long enough often enough.
fn limited(watched: &Watched, clock: fn(&Figures) -> Option<u64>) -> Option<f64> {
    let is_limited = |it: Interval| it.share(clock).is_some_and(|share| LIMITED <= share);
    let often = share_of(watched.intervals(), is_limited)?;
    let share = watched.whole()?.share(clock)?;
    (OFTEN <= often && LIMITED <= share).then_some(share)
}

fn send_buffer(watched: &Watched) -> Option<Symptom> {
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
    Some(Symptom { cause: Cause::SendBuffer, share, evidence })
}

fn peer_reads_slowly(watched: &Watched) -> Option<Symptom> {
    let share = limited(watched, |figures| figures.window_limited_us)?;
    let whole = watched.whole()?;
    let mut evidence = vec![format!("the receive window was full {} of the time", percent(share))];
    if let Some(unacked) = whole.after.unacked_bytes.filter(|n| *n != 0) {
        evidence.push(format!("{} wait in the socket", bytes(unacked)));
    }
    evidence.extend(round_trip(&whole.after));
    Some(Symptom { cause: Cause::PeerReadsSlowly, share, evidence })
}

fn reads_slowly(watched: &Watched) -> Option<Symptom> {
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
    Some(Symptom { cause: Cause::ReadsSlowly, share, evidence })
}

fn packet_loss(watched: &Watched) -> Option<Symptom> {
    let whole = watched.whole()?;
    let n_lost = whole.growth(|figures| figures.retransmits)?;
    let n_sent = whole.growth(|figures| figures.segments_out)?.max(1);
    if n_lost < MIN_LOST || n_lost * LOST_PARTS < n_sent {
        return None;
    }
    // A connection that begins, or a queue that runs over once, loses many at a time.
    let has_lost = |it: Interval| it.growth(|figures| figures.retransmits).is_some_and(|n| n != 0);
    if !recurs(watched.intervals().map(has_lost)) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    let share = (n_lost as f64 / n_sent as f64).min(1.0);
    let mut evidence = vec![format!("{n_lost} of {n_sent} segments were sent again")];
    evidence.extend(round_trip(&whole.after));
    Some(Symptom { cause: Cause::PacketLoss, share, evidence })
}

fn network_full(watched: &Watched) -> Option<Symptom> {
    let is_queued = |figures: &Figures| {
        let is_long = |rtt: u32, min: u32| {
            min.saturating_mul(QUEUED_RTT_TIMES).saturating_add(QUEUED_RTT_US) <= rtt
        };
        figures.not_sent_bytes.is_some_and(|n| n != 0)
            && figures.is_app_limited != Some(true)
            && figures.rtt_us.zip(figures.min_rtt_us).is_some_and(|(rtt, min)| is_long(rtt, min))
    };
    let is_full = |it: Interval| {
        let share = |clock: fn(&Figures) -> Option<u64>| it.share(clock).unwrap_or(0.0);
        BUSY <= share(|figures| figures.busy_us)
            && share(|figures| figures.window_limited_us) < LIMITED
            && share(|figures| figures.buffer_limited_us) < LIMITED
            && is_queued(&it.after)
    };
    let share = share_of(watched.intervals(), is_full).filter(|share| OFTEN <= *share)?;
    let after = watched.whole()?.after;
    let mut evidence = Vec::new();
    if let Some(rate) = after.delivery_rate {
        evidence.push(format!("{} arrive a second", bytes(rate)));
    }
    if let Some(waiting) = after.not_sent_bytes {
        evidence.push(format!("{} wait to be sent", bytes(waiting)));
    }
    evidence.extend(round_trip(&after));
    Some(Symptom { cause: Cause::NetworkFull, share, evidence })
}

fn round_trip(figures: &Figures) -> Option<String> {
    let rtt = time(f64::from(figures.rtt_us?));
    Some(match figures.min_rtt_us {
        Some(min) => format!("round trip {rtt}, at best {}", time(f64::from(min))),
        None => format!("round trip {rtt}"),
    })
}

/// What is wrong with listening sockets.
#[must_use]
pub fn of_listeners(listeners: &[Listening]) -> Vec<Finding> {
    let is_full =
        |(waiting, limit): &(u64, u64)| limit * FULL_TENTHS <= waiting * 10 && *limit != 0;
    let finding = |listening: &Listening| {
        // While a process stands still once, nothing is accepted, and that is over with it.
        if !recurs(listening.queue.iter().map(is_full)) {
            return None;
        }
        let n_full = listening.queue.iter().filter(|look| is_full(look)).count();
        let (waiting, limit) = listening.queue.iter().copied().max()?;
        let owner = listening.owner.as_ref().map(|it| format!("{it}, ")).unwrap_or_default();
        Some(Finding {
            cause: Cause::AcceptQueue,
            subject: format!("{owner}listening at {}", listening.address),
            verdict: "connections wait until they are accepted".to_owned(),
            evidence: vec![
                format!(
                    "{} waited; the limit is {limit}",
                    counted(waiting, "connection", "connections")
                ),
                format!("the queue was full at {n_full} of {} looks", listening.queue.len()),
            ],
            remedy: "the process accepts too slowly: look at its accepting thread; raise the \
                     backlog (of Dubbo and Netty it is net.core.somaxconn when they start, of an \
                     agent backlog of [ingress.socket], [link.socket] or [dubbo.socket])"
                .to_owned(),
        })
    };
    listeners.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests;
