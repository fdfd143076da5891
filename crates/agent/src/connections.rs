//! The table of a worker's connections: all that it serves, and all that it has made.
//!
//! Whatever goes through all of them goes through here: a drain, the sweep that keeps their times,
//! and whoever asks what they do.
//!
//! Invariants:
//! - A connection is in the table from before its first byte to its end. One that has ended stays
//!   in it until the next sweep, and is shown no more.
//! - The table keeps nothing alive: it knows sessions weakly.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dubbo_proto::ServiceKey;
use wire::{Facts, Meter};

/// What is done on a connection.
pub trait Session {
    /// Takes no new calls, and ends once those in flight are answered.
    fn drain(&self);
    /// Ends what has taken too long. The worker's sweep calls this.
    fn check_time(&self, now: Instant);
    /// Gives calls up that are at a silent endpoint, and makes them again elsewhere. The worker's
    /// sweep calls this.
    fn move_stuck(self: Rc<Self>, _: Instant) {}
    /// A worker reaches the app behind an export, or does so no more. Links tell their peers.
    fn app_changed(&self, _: &ServiceKey) {}
    /// Whether a call of it was answered. Who is not known has less time of the event loop.
    /// Agents, which are few and hold their links, are known from the first.
    fn is_known(&self) -> bool {
        true
    }
    /// What it does just now. This must be cheap: it is asked of many in one turn.
    fn activity(&self) -> SessionActivity;
    /// How long it has been in the midst of a message, until `now`, if that is counted.
    fn waited(&self, now: Instant) -> Option<Duration> {
        let _ = now;
        None
    }
}

/// What a session does at one moment.
#[derive(Clone, Debug)]
pub struct SessionActivity {
    /// In a word, such as `idle`.
    pub doing: &'static str,
    /// Calls that have begun and not ended.
    pub in_flight: usize,
    /// Bytes that the process holds for it, of the budget.
    pub held_bytes: usize,
    /// What the peer calls itself, if it has said so.
    pub peer_name: Option<String>,
}

/// Who opened a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// The peer: it was accepted.
    Downstream,
    /// This worker.
    Upstream,
}

/// One connection of the table.
pub struct ListedConnection {
    /// Who is at its other end, since when, and what is spoken.
    pub facts: Facts,
    /// Who opened it.
    pub direction: Direction,
    /// Its bytes, and what the kernel says of it.
    pub meter: Arc<Meter>,
    session: Weak<dyn Session>,
}

impl ListedConnection {
    /// What it does just now; `None` if it has ended.
    pub fn activity(&self) -> Option<SessionActivity> {
        Some(self.session.upgrade()?.activity())
    }

    /// How long it has been in the midst of a message, until `now`, if that is counted.
    pub fn waited(&self, now: Instant) -> Option<Duration> {
        self.session.upgrade()?.waited(now)
    }

    /// Whether it has not ended.
    pub fn is_open(&self) -> bool {
        self.session.strong_count() != 0
    }
}

/// The table. A clone is another handle to the same.
#[derive(Clone, Default)]
pub struct Connections(Rc<RefCell<Vec<ListedConnection>>>);

impl Connections {
    /// Adds a connection. It is in the table for as long as `session` lives.
    pub fn add<S: Session + 'static>(
        &self,
        facts: Facts,
        meter: Arc<Meter>,
        direction: Direction,
        session: &Rc<S>,
    ) {
        let session: Weak<S> = Rc::downgrade(session);
        self.0.borrow_mut().push(ListedConnection { facts, direction, meter, session });
    }

    /// Has all of them take no new calls.
    pub fn drain(&self) {
        self.each_session(|session| session.drain());
    }

    /// Says that the app behind an exported service can be reached, or no more.
    pub fn app_changed(&self, service: &ServiceKey) {
        self.each_session(|session| session.app_changed(service));
    }

    /// Ends what has taken too long, and forgets what has ended.
    pub fn sweep(&self, now: Instant) {
        self.0.borrow_mut().retain(|entry| {
            let session = entry.session.upgrade();
            let Some(session) = session else { return false };
            session.check_time(now);
            session.move_stuck(now);
            true
        });
    }

    /// Shows the open connections to `look`, in the order in which they were added.
    pub fn each(&self, look: impl FnMut(&ListedConnection)) {
        self.0.borrow().iter().filter(|entry| entry.is_open()).for_each(look);
    }

    fn each_session(&self, act: impl Fn(Rc<dyn Session>)) {
        self.0.borrow().iter().filter_map(|entry| entry.session.upgrade()).for_each(act);
    }
}
