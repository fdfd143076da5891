//! Watches sockets, and an agent's pages.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use agent::inspect::snapshot::VersionSnapshot;
use doctor::Finding;
use doctor::processes::SocketOwners;
use doctor::sock_diag;
use doctor::verdicts::{
    AgentLook, ConnectAttempts, Process, WatchedConnection, WatchedListener, of_agent, of_attempts,
    of_listeners, of_processes, of_sockets,
};

use super::watching::Watching;
use crate::admin_pages;

/// Fewer looks show nothing that needs to last.
pub(super) const MIN_LOOKS: usize = 5;

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
pub(super) struct WatchResult {
    pub(super) connections: Vec<WatchedConnection>,
    pub(super) listeners: Vec<WatchedListener>,
    pub(super) attempts: Vec<ConnectAttempts>,
    pub(super) processes: Vec<Process>,
    pub(super) agent: Vec<AgentLook>,
    /// What could not be seen, and why.
    pub(super) notes: Vec<String>,
    pub(super) time: Duration,
    pub(super) n_looks: usize,
}

impl WatchResult {
    /// Whether there was nothing to look at, so that nothing is known.
    pub(super) fn is_blind(&self) -> bool {
        let n_seen = self.connections.len() + self.listeners.len() + self.attempts.len();
        n_seen == 0 && self.agent.is_empty()
    }

    /// What is wrong, by cause.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = of_listeners(&self.listeners);
        findings.extend(of_processes(&self.processes));
        findings.extend(of_attempts(&self.attempts));
        findings.extend(of_sockets(&self.connections));
        findings.extend(of_agent(&self.agent, &self.connections));
        findings.sort_by(|a, b| (a.cause, &a.subject).cmp(&(b.cause, &b.subject)));
        findings
    }
}

/// Watches until the time is over, or until Ctrl-C.
pub(super) fn watch(wanted: &Wanted) -> Result<WatchResult, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start an event loop: {error}"))?;
    runtime.block_on(watch_all(wanted))
}

async fn watch_all(wanted: &Wanted) -> Result<WatchResult, String> {
    let mut seen = WatchResult::default();
    let mut owners = SocketOwners::of_all();
    let mut pids: HashSet<u32> = wanted.pids.iter().copied().collect();
    for pid in &pids {
        owners.add(*pid).map_err(|error| unseen_process(*pid, &error))?;
    }
    let agent_pid = match &wanted.admin {
        Some(admin) => {
            let agent = admin_pages::version(admin).await?;
            let here = pid_here(admin, &agent, &mut owners);
            here.map_err(|note| seen.notes.push(note)).ok()
        }
        None => None,
    };
    pids.extend(agent_pid);
    seen.notes.extend(pids.iter().filter_map(|pid| other_namespace(*pid)));
    let mut watching = Watching::new(wanted, pids, owners);
    watching.set_agent(agent_pid);
    let start = Instant::now();
    let mut ticks = tokio::time::interval(wanted.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut stop = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        // Ctrl-C is heard from the first look on.
        tokio::select! {
            biased;
            _ = &mut stop => break,
            _ = ticks.tick() => {}
        }
        let at = start.elapsed();
        if watching.needs_sockets() {
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
        if watching.is_full() && at < wanted.time {
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
    seen.notes.extend(few(seen.n_looks));
    Ok(seen)
}

/// The process of an agent whose sockets are seen here; otherwise what to say of that.
fn pid_here(
    admin: &str,
    agent: &VersionSnapshot,
    owners: &mut SocketOwners,
) -> Result<u32, String> {
    let VersionSnapshot { agent: name, pid, .. } = agent;
    // Only an agent of this machine has sockets here. A local port may also be forwarded to
    // another machine, where other processes have other numbers.
    let is_here = is_local(admin) && owners.add(*pid).is_ok();
    match is_here && listens(admin, *pid, owners) {
        true => Ok(*pid),
        false => Err(format!(
            "the sockets of {name} (pid {pid}) cannot be seen from here; run this on its machine, \
             as its user or root"
        )),
    }
}

/// Says so if what was seen shows little.
fn few(n_looks: usize) -> Option<String> {
    let looks = match n_looks {
        MIN_LOOKS.. => return None,
        1 => "was only 1 look, which shows".to_owned(),
        n => format!("were only {n} looks, which show"),
    };
    Some(format!("there {looks} little: watch longer, or see what keeps the agent from answering"))
}

fn is_local(admin: &str) -> bool {
    if wire::address::unix_path(admin).is_some() {
        return true;
    }
    let Ok((host, _)) = wire::address::split_optional(admin) else { return false };
    let ip = host.parse().map(|ip: std::net::IpAddr| ip.to_canonical());
    ip.is_ok_and(|ip| ip.is_loopback()) || host == "localhost"
}

/// Whether it is that process that listens at an address of this machine. Of Unix sockets nobody
/// knows.
fn listens(admin: &str, pid: u32, owners: &SocketOwners) -> bool {
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
