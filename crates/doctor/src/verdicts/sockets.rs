//! What the figures of sockets mean, whatever is spoken on them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use super::signs::{self, Symptom};
use super::{Cause, Finding, bytes, counted, recurs, silence};
use crate::figures::{Role, SocketId};
use crate::watched::WatchedSocket;

/// An accept queue is full from so many tenths on: the kernel drops what comes then.
const FULL_TENTHS: u64 = 9;

/// A connection that was watched.
#[derive(Clone, Debug)]
pub struct WatchedConnection {
    /// Which one, seen from the side that was watched.
    pub id: SocketId,
    /// Which side opened it.
    pub role: Role,
    /// Whose it is, such as `java (pid 4711)`.
    pub owner: Option<String>,
    /// Its figures.
    pub watched: WatchedSocket,
    /// Whether anybody waits for answers over it in most looks, as the agent at one of its ends
    /// says. `None` if no agent says.
    pub is_awaited: Option<bool>,
}

impl WatchedConnection {
    /// What it is named by: the address that calls go to.
    fn service(&self) -> SocketAddr {
        match self.role {
            Role::Client => self.id.remote,
            Role::Server => self.id.local,
        }
    }
}

/// The causes that keep messages from flowing over a connection. Where one of them was found, how
/// long calls take says nothing of the provider's work.
pub(super) const HELD_UP: [Cause; 3] =
    [Cause::SendBuffer, Cause::PeerReadsSlowly, Cause::ReadsSlowly];

/// The services over whose connections messages do not flow, as either side shows, and why: the
/// first of [`HELD_UP`] that was found.
pub(super) fn held_up(connections: &[WatchedConnection]) -> HashMap<SocketAddr, Cause> {
    let mut found = HashMap::new();
    for cause in HELD_UP {
        for connection in connections {
            if symptoms(connection).iter().any(|it| it.cause == cause) {
                found.entry(connection.service()).or_insert(cause);
            }
        }
    }
    found
}

/// A listening socket that was watched.
#[derive(Clone, Debug)]
pub struct WatchedListener {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whose it is.
    pub owner: Option<String>,
    /// How many connections waited at each look, and how many may.
    pub queue: Vec<(u64, u64)>,
}

/// What is wrong with connections. Those of one owner with the same service are told of together.
#[must_use]
pub fn of_sockets(connections: &[WatchedConnection]) -> Vec<Finding> {
    type Key<'a> = (Cause, SocketAddr, Role, Option<&'a String>);
    let all: Vec<_> = connections.iter().map(|it| (it, symptoms(it))).collect();
    let causes: HashMap<SocketId, Vec<Cause>> = all
        .iter()
        .map(|(it, symptoms)| (it.id, symptoms.iter().map(|it| it.cause).collect()))
        .collect();
    let sides: HashMap<SocketId, &WatchedConnection> =
        connections.iter().map(|it| (it.id, it)).collect();
    let owners = ServiceOwners::of(connections);
    let mut groups: BTreeMap<Key<'_>, Vec<(&WatchedConnection, Symptom)>> = BTreeMap::new();
    let mut sizes: BTreeMap<(SocketAddr, Role, Option<&String>), usize> = BTreeMap::new();
    for (connection, symptoms) in all {
        let (service, role, owner) =
            (connection.service(), connection.role, owners.owner(connection));
        *sizes.entry((service, role, owner)).or_default() += 1;
        let other = causes.get(&connection.id.reversed());
        let reader = sides.get(&connection.id.reversed());
        for mut symptom in symptoms {
            if !is_told(symptom.cause, role, other) {
                if let (Cause::PeerReadsSlowly, Some(reader)) = (symptom.cause, reader) {
                    name_reader(&mut symptom, reader);
                }
                let group = groups.entry((symptom.cause, service, role, owner)).or_default();
                group.push((connection, symptom));
            }
        }
    }
    let finding = |((cause, service, role, owner), mut group): (Key<'_>, Vec<_>)| {
        let n_all = sizes.get(&(service, role, owner)).copied().unwrap_or(group.len());
        let n_found = group.len();
        group.sort_by(|(_, a), (_, b): &(_, Symptom)| b.share.total_cmp(&a.share));
        let (connection, mut worst) = group.into_iter().next()?;
        worst.evidence.extend(which(connection, n_found, n_all));
        Some(Finding {
            cause,
            subject: place(service, role, owner),
            verdict: worst.verdict,
            evidence: worst.evidence,
            remedy: worst.remedy,
        })
    };
    groups.into_iter().filter_map(finding).collect()
}

/// Whose connections to a service are. The kernel takes one that is being closed from its process.
struct ServiceOwners<'a>(HashMap<(SocketAddr, Role), Vec<&'a String>>);

impl<'a> ServiceOwners<'a> {
    fn of(connections: &'a [WatchedConnection]) -> Self {
        let mut owners: HashMap<_, Vec<&String>> = HashMap::new();
        for it in connections {
            let known = owners.entry((it.service(), it.role)).or_default();
            known.extend(it.owner.as_ref().filter(|owner| !known.contains(owner)));
        }
        Self(owners)
    }

    /// That of a connection, or the only one that there is of its kind.
    fn owner(&self, connection: &'a WatchedConnection) -> Option<&'a String> {
        let known = self.0.get(&(connection.service(), connection.role)).map(Vec::as_slice);
        let only = match known {
            Some([one]) => Some(*one),
            _ => None,
        };
        connection.owner.as_ref().or(only)
    }
}

fn place(service: SocketAddr, role: Role, owner: Option<&String>) -> String {
    let owner = owner.map(|owner| format!("{owner}, ")).unwrap_or_default();
    match role {
        Role::Client => format!("{owner}connections to {service}"),
        Role::Server => format!("{owner}callers of {service}"),
    }
}

/// What a connection shows. Where all has stopped, there is no flow to look at.
fn symptoms(connection: &WatchedConnection) -> Vec<Symptom> {
    let id = connection.id;
    let silence = silence::of_silence(&connection.watched, id.remote, connection.role);
    // Nobody waits for an answer to calls that are one-way, or were given up.
    let is_asked = connection.is_awaited != Some(false);
    let silence = silence.filter(|it| it.cause != Cause::NoAnswer || is_asked);
    let is_inside = id.local.ip() == id.remote.ip();
    let mut flow = signs::of_flow(&connection.watched, id.remote, is_inside);
    match silence.as_ref().map(|it| it.cause) {
        Some(Cause::NotConfirmed) => flow.retain(|it| it.cause != Cause::PacketLoss),
        Some(cause) => flow.retain(|it| it.cause != cause),
        None => {}
    }
    silence.into_iter().chain(flow).collect()
}

/// Whether the other side of the connection, if it is seen, says more of the same.
fn is_told(cause: Cause, role: Role, other: Option<&Vec<Cause>>) -> bool {
    let says = |causes: &[Cause]| other.is_some_and(|it| it.iter().any(|it| causes.contains(it)));
    match (cause, role) {
        (Cause::PeerReadsSlowly, _) => says(&[Cause::ReadsSlowly]),
        // It is the server that does not answer.
        (Cause::NoAnswer, Role::Client) => says(&[Cause::ReadsSlowly, Cause::NoAnswer]),
        _ => false,
    }
}

/// Says of a side that has no room who that is, if it is seen. It never has much that is unread,
/// or that would have been told instead.
fn name_reader(symptom: &mut Symptom, reader: &WatchedConnection) {
    let unread = reader.watched.looks().filter_map(|it| it.unread_bytes).max();
    let (Some(owner), Some(unread)) = (&reader.owner, unread) else { return };
    symptom.evidence.push(format!(
        "the other side is {owner}: at most {} had come there and were not read",
        bytes(unread)
    ));
    symptom.remedy = format!(
        "give {owner} a larger receive buffer (SO_RCVBUF, receive_buffer_bytes of an agent, \
         net.ipv4.tcp_rmem); if that does not help, look at what its I/O threads do"
    );
}

/// Which of the connections to a service it is about.
fn which(worst: &WatchedConnection, n_found: usize, n_all: usize) -> Option<String> {
    match (n_all, worst.role) {
        (0 | 1, Role::Client) => None,
        (0 | 1, Role::Server) => Some(format!("the caller is {}", worst.id.remote)),
        _ if n_found == 1 => Some(format!("1 of {n_all} connections: {}", worst.id)),
        _ => Some(format!("{n_found} of {n_all} connections; the worst is {}", worst.id)),
    }
}

/// What is wrong with listening sockets.
#[must_use]
pub fn of_listeners(listeners: &[WatchedListener]) -> Vec<Finding> {
    let is_full =
        |(waiting, limit): &(u64, u64)| limit * FULL_TENTHS <= waiting * 10 && *waiting != 0;
    let finding = |listening: &WatchedListener| {
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
