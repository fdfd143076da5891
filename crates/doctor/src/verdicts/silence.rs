//! Connections over which something has stopped: what came is not read, what was sent is not
//! confirmed, or not answered. And processes that have stopped altogether.
//!
//! A pause, such as that of a garbage collector, is no silence: it has to last, and to take most
//! of the time that was watched.

use std::net::SocketAddr;
use std::time::Duration;

use super::signs::{Symptom, round_trip};
use super::{Cause, Finding, MIN_LOOKS, MIN_TIMES, OFTEN, bytes, counted, recurs, share_of};
use crate::figures::{Figures, Role};
use crate::watched::{Interval, WatchedSocket};

/// Who does nothing for less time may be a garbage collector's victim.
const MIN_SILENCE: Duration = Duration::from_secs(3);
/// No message of Dubbo is shorter.
const MIN_MESSAGE_LEN: u64 = 16;
/// Where less than one part of so many comes back, nobody waits for answers: logs go that way.
const ANSWER_PARTS: u64 = 1_000;
/// Of a connection that has carried less, that cannot be told: its first calls may hang.
const MIN_ONE_WAY: u64 = 256 * 1024;
/// So much of a silence with a full window is the peer's, which does not read.
const FULL_WINDOW: f64 = 0.5;

/// What has stopped on a connection.
pub(super) fn of_silence(watched: &WatchedSocket, peer: SocketAddr, role: Role) -> Option<Symptom> {
    reads_nothing(watched)
        .or_else(|| nothing_confirmed(watched, peer))
        .or_else(|| no_answer(watched, peer, role))
}

/// Some time without a break.
struct Run {
    intervals: Vec<Interval>,
}

impl Run {
    /// The longest one in which something was true.
    fn longest(watched: &WatchedSocket, is_true: impl Fn(&Interval) -> bool) -> Self {
        let intervals: Vec<Interval> = watched.intervals().collect();
        let runs = intervals.split(|it| !is_true(it)).map(|run| Self { intervals: run.to_vec() });
        runs.max_by_key(Self::time).unwrap_or(Self { intervals: Vec::new() })
    }

    fn time(&self) -> Duration {
        self.intervals.iter().map(|it| it.time).sum()
    }

    /// Whether it is more than a pause.
    fn lasts(&self, watched: &WatchedSocket) -> bool {
        let whole = watched.whole().map_or(Duration::ZERO, |whole| whole.time);
        MIN_LOOKS <= self.intervals.len()
            && MIN_SILENCE <= self.time()
            && whole.mul_f64(OFTEN) <= self.time()
    }

    fn whole(&self) -> Option<Interval> {
        let (first, last) = (self.intervals.first()?, self.intervals.last()?);
        Some(Interval { before: first.before, after: last.after, time: self.time() })
    }

    fn share(&self, watched: &WatchedSocket) -> f64 {
        let whole = watched.whole().map_or(self.time(), |whole| whole.time);
        if whole.is_zero() { 0.0 } else { self.time().div_duration_f64(whole).min(1.0) }
    }
}

/// `8.5 s`.
fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// What the process has read so far.
fn read(figures: &Figures) -> Option<u64> {
    figures.received_bytes?.checked_sub(figures.unread_bytes?)
}

fn reads_nothing(watched: &WatchedSocket) -> Option<Symptom> {
    // What a peer says before it closes a connection that nobody uses may stay unread.
    let has_message = |it: &Figures| {
        it.unread_bytes.is_some_and(|n| MIN_MESSAGE_LEN <= n) && !it.is_closed_by_peer
    };
    let is_still = |it: &Interval| {
        has_message(&it.before)
            && has_message(&it.after)
            && read(&it.before).zip(read(&it.after)).is_some_and(|(before, after)| before == after)
    };
    let run = Run::longest(watched, is_still);
    if !run.lasts(watched) {
        return None;
    }
    let unread = run.whole()?.after.unread_bytes?;
    Some(Symptom {
        cause: Cause::ReadsSlowly,
        share: run.share(watched),
        verdict: format!("the process has read nothing for {}", seconds(run.time())),
        evidence: vec![format!("{} have come and are not read", bytes(unread))],
        remedy: "see whether the process runs (ps -o stat= -p PID: T is stopped, D waits for a \
                 disk), whether its garbage collector or a frozen container stops it, and what \
                 its I/O threads do (jstack)"
            .to_owned(),
    })
}

fn nothing_confirmed(watched: &WatchedSocket, peer: SocketAddr) -> Option<Symptom> {
    let under_way = |it: &Figures| it.unacked_bytes?.checked_sub(it.not_sent_bytes?);
    let is_lost = |it: &Interval| {
        let waits = |figures: &Figures| under_way(figures).is_some_and(|n| n != 0);
        waits(&it.before) && waits(&it.after) && it.growth(|it| it.acked_bytes) == Some(0)
    };
    let run = Run::longest(watched, is_lost);
    let whole = run.whole()?;
    let window = whole.share(|it| it.window_limited_us).unwrap_or(0.0);
    if !run.lasts(watched) || FULL_WINDOW <= window {
        return None;
    }
    let n_again = whole.growth(|it| it.retransmits).unwrap_or(0);
    let segments = counted(n_again, "segment was", "segments were");
    let unconfirmed = format!("{} were sent and not confirmed", bytes(under_way(&whole.after)?));
    Some(Symptom {
        cause: Cause::NotConfirmed,
        share: run.share(watched),
        verdict: format!("nothing that is sent has arrived for {}", seconds(run.time())),
        evidence: std::iter::once(unconfirmed)
            .chain((n_again != 0).then(|| format!("{segments} sent again meanwhile, in vain")))
            .collect(),
        remedy: format!(
            "see whether the machine {} runs and can be reached (ping, ip route, firewalls, \
             tables of connections that are full or forget them)",
            peer.ip()
        ),
    })
}

/// What was asked so far, and what was answered, as far as bytes tell.
struct Talk {
    asked: u64,
    answered: u64,
}

impl Talk {
    fn of(figures: &Figures, role: Role) -> Option<Self> {
        Some(match role {
            Role::Client => Self { asked: figures.acked_bytes?, answered: figures.received_bytes? },
            Role::Server => Self {
                asked: read(figures)?,
                answered: figures.acked_bytes? + figures.unacked_bytes?,
            },
        })
    }
}

fn no_answer(watched: &WatchedSocket, peer: SocketAddr, role: Role) -> Option<Symptom> {
    let talk = |it: &Interval| Talk::of(&it.before, role).zip(Talk::of(&it.after, role));
    let is_silent =
        |it: &Interval| talk(it).is_some_and(|(before, after)| before.answered == after.answered);
    let is_asked =
        |it: &Interval| talk(it).is_some_and(|(before, after)| before.asked < after.asked);
    let mut run = Run::longest(watched, is_silent);
    let first = run.intervals.iter().position(is_asked)?;
    run.intervals.drain(..first);
    // One question may wait for news, as those to a registry do.
    if !run.lasts(watched) || !recurs(run.intervals.iter().map(is_asked)) {
        return None;
    }
    let whole = run.whole()?;
    // Who has not read what was asked cannot answer it, and that is said by itself.
    if whole.share(|it| it.window_limited_us).is_some_and(|share| FULL_WINDOW <= share) {
        return None;
    }
    let (before, after) = talk(&whole)?;
    if MIN_ONE_WAY < after.asked && after.answered.saturating_mul(ANSWER_PARTS) < after.asked {
        return None;
    }
    let (silence, asked) = (seconds(run.time()), bytes(after.asked - before.asked));
    let (verdict, evidence, who) = match role {
        Role::Client => (
            format!("no answer has come for {silence}, and the network is not the cause"),
            format!("{asked} were sent meanwhile, and the other side has confirmed them"),
            format!("the process at {peer}"),
        ),
        Role::Server => (
            format!("the process has answered nothing for {silence}"),
            format!("{asked} came meanwhile, and it has read them"),
            "the process".to_owned(),
        ),
    };
    Some(Symptom {
        cause: Cause::NoAnswer,
        share: run.share(watched),
        verdict,
        evidence: std::iter::once(evidence).chain(round_trip(&watched.whole()?.after)).collect(),
        remedy: format!(
            "look at {who}: its threads (jstack; those of Dubbo are named DubboServerHandler), \
             its garbage collector, and what its calls wait for; where nobody expects answers \
             (one-way calls, logs), all is well: an agent knows (--admin)"
        ),
    })
}

/// A process, and what the kernel said of it at each look.
#[derive(Clone, Debug)]
pub struct Process {
    /// Such as `java (pid 4711)`.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// Its state at each look, such as `S` or `T`. Source: `proc_pid_stat(5)`.
    pub states: Vec<char>,
}

/// Processes that stand still.
#[must_use]
pub fn of_processes(processes: &[Process]) -> Vec<Finding> {
    let is_stopped = |state: &char| matches!(state, 'T' | 't');
    let finding = |process: &Process| {
        let is_often = OFTEN <= share_of(&process.states, is_stopped)?;
        // One that is let go in between reads and answers meanwhile, but late. One pause is none.
        let was_stopped = std::iter::once(false).chain(process.states.iter().map(is_stopped));
        let begins = process.states.iter().zip(was_stopped).map(|(it, was)| is_stopped(it) && !was);
        if !is_often && !recurs(begins) {
            return None;
        }
        let n_stopped = process.states.iter().filter(|state| is_stopped(state)).count();
        let how = if is_often { "is stopped" } else { "is stopped again and again" };
        Some(Finding {
            cause: Cause::Stopped,
            subject: process.name.clone(),
            verdict: format!("the process {how}"),
            evidence: vec![format!(
                "by a signal or a debugger, at {n_stopped} of {} looks",
                process.states.len()
            )],
            remedy: format!(
                "kill -CONT {} lets it go on; if a debugger holds it (state t), detach that",
                process.pid
            ),
        })
    };
    processes.iter().filter_map(finding).collect()
}

/// Attempts of a process to connect to an address.
#[derive(Clone, Debug)]
pub struct ConnectAttempts {
    /// Whose they are.
    pub owner: Option<String>,
    /// Where to.
    pub remote: SocketAddr,
    /// For each look, how often the attempt that waits the longest was repeated.
    pub repeats: Vec<u64>,
}

/// Connections that do not come about, because nothing answers.
#[must_use]
pub fn of_attempts(attempts: &[ConnectAttempts]) -> Vec<Finding> {
    let finding = |it: &ConnectAttempts| {
        let n_waiting = it.repeats.iter().filter(|n| **n != 0).count();
        if n_waiting < MIN_TIMES {
            return None;
        }
        let owner = it.owner.as_ref().map(|owner| format!("{owner}, ")).unwrap_or_default();
        let looks = counted(it.repeats.len() as u64, "look", "looks");
        Some(Finding {
            cause: Cause::CannotConnect,
            subject: format!("{owner}connections to {}", it.remote),
            verdict: "it cannot connect: nothing answers there".to_owned(),
            evidence: vec![format!(
                "at {n_waiting} of {looks} an attempt to connect had been repeated in vain"
            )],
            remedy: format!(
                "see whether the machine {} runs and can be reached (ping, ip route, firewalls), \
                 and whether the accept queue there is full (dubmesh doctor --port {})",
                it.remote.ip(),
                it.remote.port()
            ),
        })
    };
    attempts.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests;
