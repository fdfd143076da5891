//! Well-behaved callers: each thread calls at a fixed pace over a connection of its own, and now
//! and then over a new one, whatever became of the call before (an open loop). Every answer is
//! compared.
//!
//! A latency counts from when the call was due if the call before it took too long, and else from
//! when the thread woke up: an oversleeping thread is the machine's doing, a call that waits for
//! another one is not.

mod connection;
pub(crate) mod floor;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use self::connection::Connection;
use crate::attacks::Door;

/// How often a call takes a new connection.
const CALLS_PER_NEW_CONNECTION: u32 = 10;

/// One kind of caller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Caller {
    pub(crate) kind: Kind,
    pub(crate) n_threads: u32,
    /// Between two calls of a thread.
    interval: Duration,
    /// Every so many calls take a new connection; 0: none does.
    calls_per_new: u32,
}

/// What is called, and how.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// The service, by HTTP.
    Http,
    /// The service, by Dubbo.
    Dubbo,
    /// A service that nobody has called before the attack, by HTTP.
    Late,
    /// `/healthz` of the admin listener, over a new connection each time.
    Health,
    /// No agent, but a server that echoes.
    Floor,
}

impl Caller {
    pub(crate) const HTTP: Self = Self {
        kind: Kind::Http,
        n_threads: 4,
        interval: Duration::from_millis(20),
        calls_per_new: CALLS_PER_NEW_CONNECTION,
    };
    pub(crate) const DUBBO: Self = Self { kind: Kind::Dubbo, ..Self::HTTP };
    pub(crate) const LATE: Self =
        Self { kind: Kind::Late, n_threads: 1, interval: Duration::from_millis(50), ..Self::HTTP };
    pub(crate) const HEALTH: Self = Self {
        kind: Kind::Health,
        n_threads: 1,
        interval: Duration::from_millis(50),
        calls_per_new: 1,
    };
    pub(crate) const FLOOR: Self = Self { kind: Kind::Floor, n_threads: 1, ..Self::HTTP };

    /// The same over its first connections alone.
    pub(crate) const fn without_new_connections(self) -> Self {
        Self { calls_per_new: 0, ..self }
    }
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Dubbo => "dubbo",
            Self::Late => "late",
            Self::Health => "healthz",
            Self::Floor => "floor",
        }
    }

    /// The agent's listener that is called, if one is.
    pub(crate) fn door(self) -> Option<Door> {
        match self {
            Self::Http | Self::Late => Some(Door::Http),
            Self::Dubbo => Some(Door::Dubbo),
            Self::Health => Some(Door::Admin),
            Self::Floor => None,
        }
    }
}

/// Where callers find what they call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) http: SocketAddr,
    pub(crate) dubbo: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) floor: SocketAddr,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    pub(crate) start: Instant,
    pub(crate) latency: Duration,
    /// Why it failed, if it did.
    pub(crate) problem: Option<String>,
}

/// What callers are told while they run.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// Those who begin late may begin.
    pub(crate) is_late: AtomicBool,
    pub(crate) stop: AtomicBool,
}

/// Starts the threads of all callers; each returns its calls when it is told to stop.
pub(crate) fn start<'s>(
    scope: &'s Scope<'s, '_>,
    callers: &[Caller],
    addresses: Addresses,
    signals: &'s Signals,
) -> Vec<ScopedJoinHandle<'s, Vec<Call>>> {
    let threads = callers.iter().flat_map(|caller| (0..caller.n_threads).map(|nth| (*caller, nth)));
    let start = |(caller, nth): (Caller, u32)| {
        // They take turns, so that the pace of all of them together is even.
        let offset = caller.interval * nth / caller.n_threads;
        scope.spawn(move || run(caller, addresses, offset, signals))
    };
    threads.map(start).collect()
}

/// Calls until the first right answer of each kind.
pub(crate) fn wait_until_answered(
    callers: &[Caller],
    addresses: Addresses,
    timeout: Duration,
) -> Result<(), String> {
    let deadline = Instant::now() + timeout;
    // The late ones must find a service that was never asked for.
    for caller in callers.iter().filter(|caller| caller.kind != Kind::Late) {
        loop {
            match call_once(caller.kind, addresses) {
                Ok(()) => break,
                Err(problem) if deadline < Instant::now() => return Err(problem),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
    Ok(())
}

fn run(caller: Caller, addresses: Addresses, offset: Duration, signals: &Signals) -> Vec<Call> {
    let Caller { kind, interval, calls_per_new, .. } = caller;
    let is_stopped = || signals.stop.load(Ordering::Relaxed);
    while kind == Kind::Late && !signals.is_late.load(Ordering::Relaxed) && !is_stopped() {
        thread::sleep(Duration::from_millis(5));
    }
    let (mut calls, mut own) = (Vec::new(), None);
    let mut due = Instant::now() + offset;
    for nth in 1_u32.. {
        let now = Instant::now();
        let start = if now < due {
            thread::sleep(due - now);
            Instant::now()
        } else {
            due
        };
        if is_stopped() {
            break;
        }
        let is_new = calls_per_new != 0 && nth % calls_per_new == 0;
        let answer = match is_new {
            true => call_once(kind, addresses),
            false => call_over(&mut own, kind, addresses),
        };
        calls.push(Call { kind, start, latency: start.elapsed(), problem: answer.err() });
        due += interval;
    }
    calls
}

/// Makes a call over a new connection, and closes it.
fn call_once(kind: Kind, addresses: Addresses) -> Result<(), String> {
    call_over(&mut None, kind, addresses)
        .map_err(|problem| format!("over a new connection: {problem}"))
}

/// Makes a call over a connection that is kept, unless it broke.
fn call_over(own: &mut Option<Connection>, kind: Kind, addresses: Addresses) -> Result<(), String> {
    let mut connection = match own.take() {
        Some(connection) => connection,
        None => Connection::open(kind, addresses).map_err(|error| not_connected(&error))?,
    };
    let answer = connection.call().map_err(|error| format!("connection broken: {error}"))?;
    *own = Some(connection);
    answer
}

fn not_connected(error: &io::Error) -> String {
    format!("not connected: {error}")
}
