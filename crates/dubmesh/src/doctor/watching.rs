//! The sockets and processes that are watched, look by look.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use doctor::processes::{self, SocketOwners};
use doctor::sock_diag::{Connecting, ListenerSocket, SocketTable};
use doctor::verdicts::{
    ConnectAttempts, Process, WatchedConnection, WatchedListener, note_in_flight, remarks,
};
use doctor::{Role, Socket, SocketId, WatchedSocket, counted};

use super::sampling::{Wanted, WatchResult};

/// Looks at single sockets that are remembered, a quarter of a KiB each.
const MAX_FIGURES: usize = 1_000_000;
/// How many other machines are named.
const MAX_PLACES: usize = 3;

/// What was asked for and not there.
fn unseen(wanted: &Wanted, seen: &WatchResult) -> Vec<String> {
    let unseen = |port: &u16| {
        let is_open = seen.connections.iter().any(|it| {
            let SocketId { local, remote } = &it.id;
            [local.port(), remote.port()].contains(port)
        });
        let is_heard = seen.listeners.iter().any(|it| it.address.port() == *port);
        let is_tried = seen.attempts.iter().any(|it| it.remote.port() == *port);
        match (is_open, is_heard || is_tried) {
            (true, _) => None,
            (false, true) => Some(format!("no connection from or to port {port} was open")),
            (false, false) => Some(format!(
                "no connection from or to port {port} was open, and nothing listens there, in this \
                 network namespace"
            )),
        }
    };
    let mut notes: Vec<String> = wanted.ports.iter().filter_map(unseen).collect();
    if seen.connections.is_empty() && seen.agent.is_empty() && !wanted.pids.is_empty() {
        let pids = wanted.pids.iter().map(|pid| format!("of process {pid}"));
        let what = pids.collect::<Vec<_>>().join(", or ");
        notes.push(format!("no connection {what} was open"));
    }
    notes
}

/// What is watched so far.
pub(super) struct Watching<'a> {
    wanted: &'a Wanted,
    pids: HashSet<u32>,
    /// That of the agent whose pages are read, if its sockets are here.
    agent: Option<u32>,
    owners: SocketOwners,
    sockets: BTreeMap<SocketId, (u64, WatchedSocket)>,
    listeners: BTreeMap<SocketAddr, (u64, Vec<(u64, u64)>)>,
    /// Ports of this machine at which anybody listened.
    listening: HashSet<u16>,
    /// How often attempts of a process to connect to an address were repeated, by look.
    attempts: BTreeMap<(Option<u32>, SocketAddr), Vec<u64>>,
    /// The states of processes, by look.
    states: BTreeMap<u32, Vec<char>>,
    n_looks: usize,
    n_figures: usize,
}

impl<'a> Watching<'a> {
    pub(super) fn new(wanted: &'a Wanted, pids: HashSet<u32>, owners: SocketOwners) -> Self {
        Self {
            wanted,
            pids,
            agent: None,
            owners,
            sockets: BTreeMap::new(),
            listeners: BTreeMap::new(),
            listening: HashSet::new(),
            attempts: BTreeMap::new(),
            states: BTreeMap::new(),
            n_looks: 0,
            n_figures: 0,
        }
    }

    /// The process of the agent whose pages are read.
    pub(super) fn set_agent(&mut self, pid: Option<u32>) {
        self.agent = pid;
    }

    /// Whether there is anything to be watched here.
    pub(super) fn needs_sockets(&self) -> bool {
        !(self.pids.is_empty() && self.wanted.ports.is_empty())
    }

    /// Whether there is no room for another look.
    pub(super) fn is_full(&self) -> bool {
        MAX_FIGURES <= self.n_figures
    }

    /// Adds a look at the sockets of this machine.
    pub(super) fn add(&mut self, at: Duration, look: SocketTable) {
        let is_new = |inode: u64, owners: &SocketOwners| inode != 0 && owners.pid(inode).is_none();
        let inodes = look.sockets.iter().map(|it| it.inode);
        let inodes = inodes.chain(look.listeners.iter().map(|it| it.inode));
        let mut inodes = inodes.chain(look.connecting.iter().map(|it| it.inode));
        if inodes.any(|it| is_new(it, &self.owners)) {
            // Connections come and go: those of the processes that are watched are looked up
            // again.
            for pid in &self.pids {
                // It may have ended.
                let _ = self.owners.add(*pid);
            }
        }
        // Both sides, where both are of this machine.
        let ids: HashSet<SocketId> =
            look.sockets.iter().filter(|it| self.is_wanted(it)).map(|it| it.id).collect();
        let mut pids = self.pids.clone();
        for socket in look.sockets {
            if ids.contains(&socket.id) || ids.contains(&socket.id.reversed()) {
                let inode = holder(&socket, &look.listeners);
                let entry = self.sockets.entry(socket.id).or_default();
                entry.0 = inode;
                entry.1.add(at, socket.figures);
                self.n_figures += 1;
                pids.extend(self.owners.pid(inode));
            }
        }
        self.listening.extend(look.listeners.iter().map(|it| it.address.port()));
        for listener in look.listeners {
            let is_wanted = self.wanted.ports.contains(&listener.address.port())
                || self.is_of_pid(listener.inode);
            if is_wanted {
                let entry = self.listeners.entry(listener.address).or_default();
                entry.0 = listener.inode;
                entry.1.push((listener.waiting, listener.limit));
                pids.extend(self.owners.pid(listener.inode));
            }
        }
        self.add_attempts(&look.connecting);
        for pid in pids {
            self.states.entry(pid).or_default().extend(processes::state(pid));
        }
        self.n_looks += 1;
    }

    /// Adds attempts to connect, of the look that is being added.
    fn add_attempts(&mut self, connecting: &[Connecting]) {
        for it in connecting {
            let port = it.id.remote.port();
            if self.wanted.ports.contains(&port) || self.is_of_pid(it.inode) {
                let key = (self.owners.pid(it.inode), it.id.remote);
                let repeats = self.attempts.entry(key).or_default();
                repeats.resize(self.n_looks + 1, 0);
                repeats[self.n_looks] = repeats[self.n_looks].max(it.repeats);
            }
        }
    }

    fn is_wanted(&self, socket: &Socket) -> bool {
        let ports = [socket.id.local.port(), socket.id.remote.port()];
        self.wanted.ports.iter().any(|port| ports.contains(port)) || self.is_of_pid(socket.inode)
    }

    fn is_of_pid(&self, inode: u64) -> bool {
        self.owners.pid(inode).is_some_and(|pid| self.pids.contains(&pid))
    }

    /// Hands over what was seen.
    pub(super) fn finish(self, seen: &mut WatchResult) {
        // Those of other processes may be new, and may have ended meanwhile.
        let owners = SocketOwners::of_all();
        let name = |inode| owners.name(inode).or_else(|| self.owners.name(inode));
        self.finish_processes(seen);
        let roles: Vec<Role> = self.sockets.keys().map(|id| self.role(id)).collect();
        let mut of_agent = HashSet::new();
        for ((id, (inode, watched)), role) in self.sockets.into_iter().zip(roles) {
            if self.owners.pid(inode).is_some_and(|pid| Some(pid) == self.agent) {
                of_agent.insert(id);
            }
            let owner = name(inode);
            seen.connections.push(WatchedConnection { id, role, owner, watched, is_awaited: None });
        }
        note_in_flight(&mut seen.connections, &of_agent, &seen.agent);
        for (address, (inode, queue)) in self.listeners {
            seen.listeners.push(WatchedListener { address, owner: name(inode), queue });
        }
        let n_hidden = owners.n_hidden();
        if n_hidden != 0 {
            let hidden = counted(n_hidden as u64, "process", "processes");
            let verb = if n_hidden == 1 { "is" } else { "are" };
            let note = format!("{hidden} of other users {verb} not named; root sees them");
            seen.notes.push(note);
        }
        seen.notes.extend(unseen(self.wanted, seen));
        seen.notes.extend(half_seen(&seen.connections));
        seen.notes.extend(remarks(&seen.connections));
    }

    /// Which side of a connection has called. All sockets of this machine that listen were seen.
    fn role(&self, id: &SocketId) -> Role {
        let [local, remote] = [id.local.port(), id.remote.port()];
        let asked = &self.wanted.ports;
        let is_server = match (self.listening.contains(&local), self.listening.contains(&remote)) {
            (true, false) => true,
            (false, true) => false,
            // A listener that was closed meanwhile. Of two ends, one is the server.
            (false, false) if !self.sockets.contains_key(&id.reversed()) => asked.contains(&local),
            _ => {
                let of = |port: u16| (asked.contains(&port), u16::MAX - port);
                of(remote) < of(local)
            }
        };
        if is_server { Role::Server } else { Role::Client }
    }

    /// Whose they are, and what connections they wait for.
    fn finish_processes(&self, seen: &mut WatchResult) {
        let name = |pid: u32| self.owners.name_of(pid);
        for (pid, states) in &self.states {
            if self.wanted.pids.contains(pid) && states.len() < self.n_looks {
                seen.notes.push(format!("{} has ended meanwhile", name(*pid)));
            }
            seen.processes.push(Process { name: name(*pid), pid: *pid, states: states.clone() });
        }
        for ((pid, remote), repeats) in &self.attempts {
            let mut repeats = repeats.clone();
            repeats.resize(self.n_looks, 0);
            seen.attempts.push(ConnectAttempts { owner: pid.map(name), remote: *remote, repeats });
        }
    }
}

/// The number by which a process holds a socket. A connection that was not accepted yet has none:
/// it belongs to whoever listens there, and may be stopped.
fn holder(socket: &Socket, listeners: &[ListenerSocket]) -> u64 {
    if socket.inode != 0 {
        return socket.inode;
    }
    let local = socket.id.local;
    let is_there = |it: &&ListenerSocket| {
        it.address == local || it.address.ip().is_unspecified() && it.address.port() == local.port()
    };
    listeners.iter().find(is_there).map_or(0, |it| it.inode)
}

/// Says so if the other side of connections is elsewhere, and where. Of a connection within the
/// machine, a side that is closing is not shown.
fn half_seen(connections: &[WatchedConnection]) -> Option<String> {
    let ids: HashSet<SocketId> = connections.iter().map(|it| it.id).collect();
    let is_half = |it: &&WatchedConnection| {
        it.id.local.ip() != it.id.remote.ip() && !ids.contains(&it.id.reversed())
    };
    let half: Vec<&WatchedConnection> = connections.iter().filter(is_half).collect();
    // Of callers, the port says nothing.
    let place = |it: &&WatchedConnection| match it.role {
        Role::Client => it.id.remote.to_string(),
        Role::Server => it.id.remote.ip().to_string(),
    };
    let places: BTreeSet<String> = half.iter().map(place).collect();
    let more = places.len().saturating_sub(MAX_PLACES);
    let mut places: Vec<String> = places.into_iter().take(MAX_PLACES).collect();
    if more != 0 {
        places.push(format!("{more} more"));
    }
    let n_half = counted(half.len() as u64, "connection", "connections");
    (!half.is_empty()).then(|| {
        format!(
            "the other end of {n_half} is not on this machine ({}); what holds up what it sends \
             is only seen there: run this there, too",
            places.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The port of a provider may be higher than those of its callers.
    #[test]
    fn who_listens_is_the_server() {
        let (port, wanted) = (
            |port: u16| SocketAddr::from(([10, 0, 0, 5], port)),
            |ports: &[u16]| {
                let (time, every) = (Duration::from_secs(10), Duration::from_millis(500));
                Wanted { admin: None, pids: Vec::new(), ports: ports.to_vec(), time, every }
            },
        );
        let id = |local, remote| SocketId { local: port(local), remote: port(remote) };
        let roles = |wanted: &Wanted, listening: &[u16], seen: &[SocketId]| -> Vec<Role> {
            let mut watching = Watching::new(wanted, HashSet::new(), SocketOwners::of_all());
            watching.listening.extend(listening);
            watching.sockets.extend(seen.iter().map(|id| (*id, Default::default())));
            seen.iter().map(|id| watching.role(id)).collect()
        };
        let (both, far) = ([id(58_881, 51_848), id(51_848, 58_881)], [id(40_000, 50_051)]);
        assert_eq!(roles(&wanted(&[]), &[58_881], &both), [Role::Server, Role::Client]);
        assert_eq!(roles(&wanted(&[]), &[], &far), [Role::Client]);
        assert_eq!(roles(&wanted(&[50_051]), &[], &far), [Role::Client]);
        // The listener was closed.
        assert_eq!(roles(&wanted(&[40_000]), &[], &far), [Role::Server]);
        assert_eq!(roles(&wanted(&[58_881]), &[], &both), [Role::Server, Role::Client]);
        assert_eq!(roles(&wanted(&[]), &[], &both), [Role::Client, Role::Server]);
    }

    /// A process that is stopped accepts nothing: its new connections are nobody's.
    #[test]
    fn connections_that_wait_to_be_accepted_are_those_of_who_listens() {
        let listener = |address: &str, inode| ListenerSocket {
            address: address.parse().unwrap(),
            inode,
            waiting: 1,
            limit: 128,
        };
        let listeners =
            [listener("127.0.0.2:8080", 7), listener("0.0.0.0:8081", 8), listener("[::]:8082", 9)];
        let socket = |local: &str, inode| Socket {
            id: SocketId {
                local: local.parse().unwrap(),
                remote: "127.0.0.1:50000".parse().unwrap(),
            },
            inode,
            figures: doctor::Figures::default(),
        };
        for (local, inode, expected) in [
            ("127.0.0.2:8080", 0, 7),
            ("127.0.0.1:8080", 0, 0),
            ("127.0.0.1:8081", 0, 8),
            ("127.0.0.1:8082", 0, 9),
            ("127.0.0.2:8080", 5, 5),
        ] {
            assert_eq!(holder(&socket(local, inode), &listeners), expected, "{local}");
        }
    }

    #[test]
    fn where_the_other_ends_are_is_told() {
        let connection = |local: &str, remote: &str, role| WatchedConnection {
            id: SocketId { local: local.parse().unwrap(), remote: remote.parse().unwrap() },
            role,
            owner: None,
            watched: WatchedSocket::default(),
            is_awaited: None,
        };
        let near = [
            connection("10.0.0.5:1", "10.0.0.5:20880", Role::Client),
            connection("10.0.0.5:2", "10.0.0.6:20880", Role::Client),
            connection("10.0.0.6:20880", "10.0.0.5:2", Role::Server),
        ];
        assert_eq!(half_seen(&near), None);
        let caller = |port| connection("10.0.0.5:20880", &format!("10.0.0.9:{port}"), Role::Server);
        let provider = |nth| connection("10.0.0.5:3", &format!("10.0.0.{nth}:20880"), Role::Client);
        assert_eq!(
            half_seen(&[caller(1), caller(2), provider(7)]).unwrap(),
            "the other end of 3 connections is not on this machine (10.0.0.7:20880, 10.0.0.9); \
             what holds up what it sends is only seen there: run this there, too"
        );
        let many: Vec<WatchedConnection> = (10..16).map(provider).collect();
        let told = half_seen(&many).unwrap();
        assert!(
            told.contains("(10.0.0.10:20880, 10.0.0.11:20880, 10.0.0.12:20880, 3 more)"),
            "{told}"
        );
    }
}
