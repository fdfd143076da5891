//! Watches sockets, and an agent's pages.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use doctor::processes::Owners;
use doctor::sock_diag::{self, Look};
use doctor::verdicts::{AgentLook, Connection, Listening, of_agent, of_listeners, of_sockets};
use doctor::{Finding, Role, Socket, SocketId, Watched, counted};

use crate::admin_pages;

/// Looks at single sockets that are remembered, a quarter of a KiB each.
const MAX_FIGURES: usize = 1_000_000;

/// What is watched, and for how long.
pub(super) struct Wanted {
    /// The admin listener of an agent.
    pub(super) admin: Option<String>,
    /// Processes.
    pub(super) pids: Vec<u32>,
    /// Ports, of either side.
    pub(super) ports: Vec<u16>,
    pub(super) time: Duration,
    pub(super) every: Duration,
}

/// What was seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) connections: Vec<Connection>,
    pub(super) listeners: Vec<Listening>,
    pub(super) agent: Vec<AgentLook>,
    /// What could not be seen, and why.
    pub(super) notes: Vec<String>,
    pub(super) time: Duration,
    pub(super) n_looks: usize,
}

impl Seen {
    /// What is wrong, by cause.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = of_listeners(&self.listeners);
        findings.extend(of_sockets(&self.connections));
        findings.extend(of_agent(&self.agent));
        findings.sort_by(|a, b| (a.cause, &a.subject).cmp(&(b.cause, &b.subject)));
        findings
    }
}

/// Watches until the time is over, or until Ctrl-C.
pub(super) fn watch(wanted: &Wanted) -> Result<Seen, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start an event loop: {error}"))?;
    runtime.block_on(watch_all(wanted))
}

async fn watch_all(wanted: &Wanted) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut owners = Owners::of_all();
    let mut pids: HashSet<u32> = wanted.pids.iter().copied().collect();
    for pid in &pids {
        owners.add(*pid).map_err(|error| unseen_process(*pid, &error))?;
    }
    if let Some(admin) = &wanted.admin {
        let agent = admin_pages::version(admin).await?;
        // Only an agent of this machine has sockets here. A local port may also be forwarded to
        // another machine, where other processes have other numbers.
        let is_here = is_local(admin) && owners.add(agent.pid).is_ok();
        if is_here && listens(admin, agent.pid, &owners) {
            pids.insert(agent.pid);
        } else {
            let note = format!(
                "the sockets of {} (pid {}) cannot be seen from here; run this on its machine, as \
                 its user or root",
                agent.agent, agent.pid
            );
            seen.notes.push(note);
        }
    }
    seen.notes.extend(pids.iter().filter_map(|pid| other_namespace(*pid)));
    let mut watching = Watching {
        wanted,
        pids,
        owners,
        sockets: BTreeMap::new(),
        listeners: BTreeMap::new(),
        n_figures: 0,
    };
    let start = Instant::now();
    let mut ticks = tokio::time::interval(wanted.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut stop = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = &mut stop => break,
        }
        let at = start.elapsed();
        if !(watching.pids.is_empty() && watching.wanted.ports.is_empty()) {
            let look = sock_diag::look().map_err(|error| {
                format!("the kernel does not show its sockets: {error} (sock_diag)")
            })?;
            watching.add(at, look);
        }
        if let Some(admin) = &wanted.admin {
            let look = admin_pages::look(admin, at).await.map_err(|error| match seen.n_looks {
                0 => error,
                _ => format!("the agent stopped answering after {at:.1?}: {error}"),
            });
            seen.agent.push(look?);
        }
        (seen.n_looks, seen.time) = (seen.n_looks + 1, at);
        if MAX_FIGURES <= watching.n_figures && at < wanted.time {
            seen.notes.push(format!(
                "it ended after {at:.1?}: there are too many connections to watch them longer; \
                 look less often (--every), or at a port (--port)"
            ));
            break;
        }
        if wanted.time <= at {
            break;
        }
    }
    if let (Some(admin), Some(last)) = (&wanted.admin, seen.agent.last_mut()) {
        admin_pages::add_lag(admin, last).await;
    }
    watching.finish(&mut seen);
    Ok(seen)
}

fn is_local(admin: &str) -> bool {
    if wire::address::unix_path(admin).is_some() {
        return true;
    }
    let Ok((host, _)) = wire::address::split_optional(admin) else { return false };
    let is_loopback = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_loopback || host == "localhost"
}

/// Whether it is that process that listens at an address of this machine. Of Unix sockets nobody
/// knows.
fn listens(admin: &str, pid: u32, owners: &Owners) -> bool {
    let Ok((_, port)) = wire::address::split_optional(admin) else { return true };
    let (Some(port), false) = (port, wire::address::unix_path(admin).is_some()) else {
        return true;
    };
    // Where the kernel does not show them, that is told later.
    let Ok(look) = sock_diag::look() else { return true };
    let mut listeners = look.listeners.iter().filter(|it| it.address.port() == port);
    listeners.any(|it| owners.pid(it.inode) == Some(pid))
}

/// Says so if the sockets of a process are in a network that this one does not see.
fn other_namespace(pid: u32) -> Option<String> {
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let (own, other) = (namespace("self")?, namespace(&pid.to_string())?);
    (own != other).then(|| {
        format!(
            "process {pid} is in another network namespace; its sockets are seen by: nsenter -t \
             {pid} -n dubmesh doctor --pid {pid}"
        )
    })
}

fn unseen_process(pid: u32, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no process {pid}"),
        std::io::ErrorKind::PermissionDenied => format!(
            "the sockets of process {pid} belong to another user; run this as that user or root, \
             or name a port by --port"
        ),
        _ => format!("the sockets of process {pid} cannot be read: {error}"),
    }
}

/// What is watched so far.
struct Watching<'a> {
    wanted: &'a Wanted,
    pids: HashSet<u32>,
    owners: Owners,
    sockets: BTreeMap<SocketId, (u64, Watched)>,
    listeners: BTreeMap<SocketAddr, (u64, Vec<(u64, u64)>)>,
    n_figures: usize,
}

impl Watching<'_> {
    fn add(&mut self, at: Duration, look: Look) {
        let is_new = |inode: u64, owners: &Owners| inode != 0 && owners.pid(inode).is_none();
        let inodes = look.sockets.iter().map(|it| it.inode);
        if inodes.chain(look.listeners.iter().map(|it| it.inode)).any(|it| is_new(it, &self.owners))
        {
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
        for socket in look.sockets {
            if ids.contains(&socket.id) || ids.contains(&socket.id.reversed()) {
                let entry = self.sockets.entry(socket.id).or_default();
                entry.0 = socket.inode;
                entry.1.add(at, socket.figures);
                self.n_figures += 1;
            }
        }
        for listener in look.listeners {
            let is_wanted = self.wanted.ports.contains(&listener.address.port())
                || self.is_of_pid(listener.inode);
            if is_wanted {
                let entry = self.listeners.entry(listener.address).or_default();
                entry.0 = listener.inode;
                entry.1.push((listener.waiting, listener.limit));
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

    fn finish(mut self, seen: &mut Seen) {
        // Those of other processes may be new.
        self.owners = Owners::of_all();
        let ports: HashSet<u16> = self.listeners.keys().map(SocketAddr::port).collect();
        let asked = &self.wanted.ports;
        let is_server = |id: &SocketId| {
            // The side that listens, or else that whose port was asked for, or that with the lower
            // one.
            let of = |port: u16| (ports.contains(&port), asked.contains(&port), u16::MAX - port);
            of(id.remote.port()) < of(id.local.port())
        };
        for (id, (inode, watched)) in self.sockets {
            let role = if is_server(&id) { Role::Server } else { Role::Client };
            seen.connections.push(Connection { id, role, owner: self.owners.name(inode), watched });
        }
        for (address, (inode, queue)) in self.listeners {
            seen.listeners.push(Listening { address, owner: self.owners.name(inode), queue });
        }
        let n_hidden = self.owners.n_hidden();
        if n_hidden != 0 {
            let hidden = counted(n_hidden as u64, "process", "processes");
            let verb = if n_hidden == 1 { "is" } else { "are" };
            let note = format!("{hidden} of other users {verb} not named; root sees them");
            seen.notes.push(note);
        }
        if seen.connections.is_empty() && seen.agent.is_empty() {
            let ports = self.wanted.ports.iter().map(|port| format!("from or to port {port}"));
            let pids = self.wanted.pids.iter().map(|pid| format!("of process {pid}"));
            let what = ports.chain(pids).collect::<Vec<_>>().join(", or ");
            seen.notes.push(format!("no connection {what} was open"));
        }
        // Both sides of a connection are here, or the other one is elsewhere. Of one within the
        // machine, a side that is closing is not shown.
        let ids: HashSet<SocketId> = seen.connections.iter().map(|it| it.id).collect();
        let is_half =
            |id: &&SocketId| id.local.ip() != id.remote.ip() && !ids.contains(&id.reversed());
        let n_half = ids.iter().filter(is_half).count();
        if n_half != 0 {
            let half = counted(n_half as u64, "connection", "connections");
            seen.notes.push(format!(
                "the other end of {half} is not on this machine; what holds up what it sends is \
                 only seen there"
            ));
        }
    }
}
