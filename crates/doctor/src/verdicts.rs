//! What the figures mean.
//!
//! A verdict needs evidence over most of the time that was watched: one pause, one burst or one
//! slow call is no cause. An idle connection and a healthy one get no verdict.

mod agent_pages;
mod failing;
mod grouping;
mod hanging;
mod in_flight;
mod out;
mod processor;
mod remarks;
mod signs;
mod silence;
mod slow;
mod slow_method;
mod sockets;
mod stages;
#[cfg(test)]
mod testing;
mod unfound;

use std::fmt;

use serde::Serialize;

pub use agent_pages::{AgentLook, of_agent};
pub use in_flight::note_in_flight;
pub use remarks::remarks;
pub use silence::{ConnectAttempts, Process, of_attempts, of_processes};
pub use sockets::{WatchedConnection, WatchedListener, of_listeners, of_sockets};

/// Something that happens in so many of the looks, or of the times between them, happens often.
const OFTEN: f64 = 0.6;
/// Fewer looks, or times between them, show nothing.
const MIN_LOOKS: usize = 4;

/// What lasts a moment and happens less often is chance, or a burst.
const MIN_TIMES: usize = 3;
/// Nor does it recur if it all happens within one part of so many of the time.
const SPAN_PARTS: usize = 4;

/// What slows calls down.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A process is stopped.
    Stopped,
    /// An agent does not get the processor time that it needs.
    NoProcessor,
    /// Nothing answers where a process wants to connect to.
    CannotConnect,
    /// What is sent does not arrive.
    NotConfirmed,
    /// What is sent arrives, and is not answered.
    NoAnswer,
    /// A socket's own send buffer is too small.
    SendBuffer,
    /// The peer does not read what is sent, or has little room for it.
    PeerReadsSlowly,
    /// The process does not read what has come.
    ReadsSlowly,
    /// Segments are lost on their way.
    PacketLoss,
    /// The network takes no more.
    NetworkFull,
    /// Connections wait until they are accepted.
    AcceptQueue,
    /// An agent closes connections at once, because it may have no more.
    ConnectionsRefused,
    /// An agent may hold no more memory for its connections.
    MemoryFull,
    /// An app works on as many calls as it can.
    PoolFull,
    /// An app's thread pool rejects calls.
    PoolRejects,
    /// Calls wait for each other on a connection to a provider.
    ConnectionFull,
    /// The work itself takes long; the network does not.
    SlowProvider,
    /// Some methods of a service take long; the others do not.
    SlowMethod,
    /// An endpoint gets no calls.
    EndpointOut,
    /// Nobody offers what is called, or nobody who can be called.
    NoEndpoint,
    /// The configuration delays calls, or has them fail.
    FaultsInjected,
    /// Calls fail, and nothing else says why.
    CallsFail,
    /// Calls wait in the agent before they are sent.
    CallsWait,
    /// One piece of work holds up all other calls of a worker.
    EventLoop,
    /// To read or write a service's messages takes long; other calls do not wait for it.
    LongMessages,
}

/// A cause, where it is, how that is known, and what to do.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// What it is.
    pub cause: Cause,
    /// Where: a connection's far end, an app, an endpoint.
    pub subject: String,
    /// The verdict in one sentence.
    pub verdict: String,
    /// The figures that it rests on.
    pub evidence: Vec<String>,
    /// What to do.
    pub remedy: String,
}

/// A paragraph of some lines.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.subject, self.verdict)?;
        for line in &self.evidence {
            writeln!(f, "  - {line}")?;
        }
        writeln!(f, "  Remedy: {}", self.remedy)
    }
}

/// The share of those of which something is true. `None` if there are too few to tell.
fn share_of<T>(all: impl IntoIterator<Item = T>, is_true: impl Fn(T) -> bool) -> Option<f64> {
    let (mut n_true, mut n_all) = (0_u32, 0_u32);
    for one in all {
        n_all += 1;
        n_true += u32::from(is_true(one));
    }
    let is_enough = usize::try_from(n_all).is_ok_and(|n| MIN_LOOKS <= n);
    is_enough.then(|| f64::from(n_true) / f64::from(n_all))
}

/// Whether something that lasts a moment happened again and again: often enough, and spread over
/// the time that was watched. A burst is over soon.
fn recurs(happened: impl IntoIterator<Item = bool>) -> bool {
    let (mut nths, mut n_all) = (Vec::new(), 0);
    for did in happened {
        if did {
            nths.push(n_all);
        }
        n_all += 1;
    }
    let span = nths.first().zip(nths.last()).map_or(0, |(first, last)| last - first + 1);
    MIN_TIMES <= nths.len() && n_all <= span * SPAN_PARTS
}

/// `1 connection`, `2 connections`.
#[must_use]
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// `32%`.
fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// `180 us`, `12.5 ms`, `3.2 s`.
fn time(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.0} us"),
        us if us < 1_000_000.0 => format!("{:.1} ms", us / 1_000.0),
        us => format!("{:.1} s", us / 1_000_000.0),
    }
}

/// `512 B`, `64 KiB`, `3.5 MiB`.
fn bytes(n: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let exact = n as f64;
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.0} KiB", exact / 1024.0),
        _ => format!("{:.1} MiB", exact / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!(
            (time(180.4), time(12_500.0), time(3.2e6)),
            ("180 us".into(), "12.5 ms".into(), "3.2 s".into())
        );
        assert_eq!(
            (bytes(512), bytes(65_536), bytes(3_670_016)),
            ("512 B".into(), "64 KiB".into(), "3.5 MiB".into())
        );
        assert_eq!(percent(0.324), "32%");
    }

    #[test]
    fn a_few_looks_show_nothing() {
        assert_eq!(share_of([true; 3], |is| is), None);
        assert_eq!(share_of([true, true, true, false], |is| is), Some(0.75));
    }

    #[test]
    fn what_recurs_is_told_from_a_burst() {
        let at = |nths: &[usize]| recurs((0..20).map(|nth| nths.contains(&nth)));
        assert!(at(&[2, 9, 15]) && at(&[0, 1, 4]));
        assert!(!at(&[]) && !at(&[1, 19]) && !at(&[7, 8, 9, 10]));
        assert!(!recurs([true, true]));
    }

    #[test]
    fn one_of_many_is_counted_as_such() {
        assert_eq!(
            counted(1, "call", "calls") + ", " + &counted(0, "call", "calls"),
            "1 call, 0 calls"
        );
    }

    #[test]
    fn a_finding_is_a_paragraph() {
        let finding = Finding {
            cause: Cause::SendBuffer,
            subject: "10.0.0.7:20880".to_owned(),
            verdict: "the send buffer is too small".to_owned(),
            evidence: vec!["limited 32% of the time".to_owned()],
            remedy: "raise it".to_owned(),
        };
        let text = "10.0.0.7:20880: the send buffer is too small\n  - limited 32% of the time\n  Remedy: raise it\n";
        assert_eq!(finding.to_string(), text);
    }
}
