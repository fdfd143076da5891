//! How many connections to one endpoint its calls need.
//!
//! A connection whose messages come one after the other is a queue with one server. Its load is
//! the share of the time in which a message has begun to come and is not whole, or waits for room
//! in the socket. Below half of the time, a message seldom waits for the one before it. Above, a
//! further connection lowers the load, if it was the connection that was slow: its buffers, or the
//! thread that the peer serves it with. If it was the network or the app, nothing changes, and
//! what was opened is closed again.
//!
//! Invariants:
//! - At most twice as many as before at a time, and never more than the limit. One always stays.
//! - A connection is opened only while calls wait for each other: a caller on its own has nothing
//!   to gain.
//! - What did not help is tried again only after a pause, which doubles each time.

use std::time::{Duration, Instant};

/// From this load on, in percent of the time, messages wait for each other.
const BUSY_PERCENT: u64 = 50;
/// From this load on, one more would hardly be felt: as many again are opened.
const FULL_PERCENT: u64 = 80;
/// If one connection fewer would be loaded less than this, one of them can go.
const IDLE_PERCENT: u64 = 25;
/// What is looked at together. A shorter time would take one long message for a trend.
const WINDOW: Duration = Duration::from_millis(200);
/// Busy windows in a row that open a connection.
const N_BUSY_WINDOWS: u32 = 2;
/// Windows that a new connection has before it is judged: it connects, and TCP starts slowly.
const N_SETTLING_WINDOWS: u32 = 2;
/// Windows by which it is judged.
const N_JUDGED_WINDOWS: u32 = 2;
/// More bytes than before by so many percent show that a connection helps.
const MORE_PERCENT: u64 = 5;
/// A connection that is not needed for so long is closed.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// The first pause after a connection that did not help.
const MIN_PAUSE: Duration = Duration::from_secs(10);
/// The longest.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// What the connections to an endpoint have done since the last look, all together.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionUse {
    /// How long they were in the midst of a message, summed over them.
    pub busy: Duration,
    /// Bytes that came and went.
    pub bytes: u64,
    /// Calls that are in flight now.
    pub in_flight: usize,
}

/// What to do about the number of connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Advice {
    /// Nothing.
    Stay,
    /// Open so many more.
    Open(usize),
    /// Close so many, each once its calls are answered.
    Close(usize),
}

/// Decides how many connections there are to one endpoint, of one worker.
#[derive(Clone, Debug)]
pub struct ConnectionCount {
    max: usize,
    n: usize,
    /// Of the window that is under way.
    seen: ConnectionUse,
    window_began: Instant,
    /// Of the busy windows in a row, or of those by which a connection is judged.
    sum: WindowSums,
    phase: Phase,
    idle_since: Option<Instant>,
    pause: Duration,
    /// No connection is opened before.
    paused_until: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Watching,
    /// Connections were opened, and get some windows.
    Settling {
        opened: Opened,
        n_left: u32,
    },
    Judging {
        opened: Opened,
    },
}

/// What was done about a load.
#[derive(Clone, Copy, Debug)]
struct Opened {
    before: WindowSums,
    n: usize,
}

/// Sums over windows.
#[derive(Clone, Copy, Debug, Default)]
struct WindowSums {
    n_windows: u32,
    time: Duration,
    /// What all connections together could have been busy.
    most_busy: Duration,
    busy: Duration,
    bytes: u64,
}

impl WindowSums {
    fn add(&mut self, time: Duration, n_connections: usize, seen: ConnectionUse) {
        self.n_windows += 1;
        self.time += time;
        self.most_busy += time.saturating_mul(u32::try_from(n_connections).unwrap_or(u32::MAX));
        self.busy += seen.busy;
        self.bytes = self.bytes.saturating_add(seen.bytes);
    }

    /// How much of the time a connection is busy, in thousandths.
    fn permille(&self) -> u64 {
        share(self.busy, self.most_busy)
    }

    fn bytes_per_s(&self) -> u64 {
        let per_ms = u128::from(self.bytes) * 1000 / self.time.as_millis().max(1);
        u64::try_from(per_ms).unwrap_or(u64::MAX)
    }

    /// Whether what was `opened` made this better, where there are `n` connections now.
    fn is_better(&self, opened: &Opened, n: usize) -> bool {
        let (before, n) = (&opened.before, u64::try_from(n.max(1)).unwrap_or(u64::MAX));
        let more = before.bytes_per_s().saturating_mul(100 + MORE_PERCENT) / 100;
        // The same work on more connections would lower the load by the share of the new ones.
        // Nearly half of that must be seen.
        let n_new = u64::try_from(opened.n).unwrap_or(u64::MAX);
        let less = before.permille().saturating_mul(n_new) * 2 / (5 * n);
        let now = self.bytes_per_s();
        more <= now && before.bytes_per_s() < now
            || self.permille() <= before.permille().saturating_sub(less)
    }
}

fn share(part: Duration, of: Duration) -> u64 {
    let permille = part.as_nanos() * 1000 / of.as_nanos().max(1);
    u64::try_from(permille).unwrap_or(u64::MAX)
}

impl ConnectionCount {
    /// One connection, and at most `max`.
    pub fn new(max: usize, now: Instant) -> Self {
        Self {
            max: max.max(1),
            n: 1,
            seen: ConnectionUse::default(),
            window_began: now,
            sum: WindowSums::default(),
            phase: Phase::Watching,
            idle_since: None,
            pause: MIN_PAUSE,
            paused_until: now,
        }
    }

    /// How many there should be.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Takes in what happened since the last look. Call this at least every 100 ms; what is
    /// advised counts as done.
    pub fn look(&mut self, now: Instant, activity: ConnectionUse) -> Advice {
        self.seen.busy += activity.busy;
        self.seen.bytes = self.seen.bytes.saturating_add(activity.bytes);
        self.seen.in_flight = activity.in_flight;
        let time = now.saturating_duration_since(self.window_began);
        if time < WINDOW {
            return Advice::Stay;
        }
        self.window_began = now;
        let seen = std::mem::take(&mut self.seen);
        let advice = self.end_window(now, time, seen);
        match advice {
            Advice::Stay => {}
            Advice::Open(n) => self.n += n,
            Advice::Close(n) => self.n -= n,
        }
        advice
    }

    fn end_window(&mut self, now: Instant, time: Duration, seen: ConnectionUse) -> Advice {
        match self.phase {
            Phase::Watching => self.watch(now, time, seen),
            Phase::Settling { opened, n_left: 0 } => {
                self.sum = WindowSums::default();
                self.sum.add(time, self.n, seen);
                self.phase = Phase::Judging { opened };
                Advice::Stay
            }
            Phase::Settling { opened, n_left } => {
                self.phase = Phase::Settling { opened, n_left: n_left - 1 };
                Advice::Stay
            }
            Phase::Judging { opened } => {
                self.sum.add(time, self.n, seen);
                if self.sum.n_windows < N_JUDGED_WINDOWS {
                    return Advice::Stay;
                }
                self.phase = Phase::Watching;
                let is_better = self.sum.is_better(&opened, self.n);
                self.sum = WindowSums::default();
                if is_better {
                    self.pause = MIN_PAUSE;
                    return Advice::Stay;
                }
                self.paused_until = now + self.pause;
                self.pause = (self.pause * 2).min(MAX_PAUSE);
                Advice::Close(opened.n)
            }
        }
    }

    fn watch(&mut self, now: Instant, time: Duration, seen: ConnectionUse) -> Advice {
        let mut this = WindowSums::default();
        this.add(time, self.n, seen);
        if self.can_spare_one(&this) {
            let since = *self.idle_since.get_or_insert(now);
            if IDLE_TIME <= now.saturating_duration_since(since) {
                self.idle_since = None;
                return Advice::Close(1);
            }
        } else {
            self.idle_since = None;
        }
        let is_busy = BUSY_PERCENT * 10 <= this.permille() && self.n < seen.in_flight;
        if !is_busy {
            self.sum = WindowSums::default();
            return Advice::Stay;
        }
        self.sum.add(time, self.n, seen);
        if self.sum.n_windows < N_BUSY_WINDOWS {
            return Advice::Stay;
        }
        let before = std::mem::take(&mut self.sum);
        if self.max <= self.n || now < self.paused_until {
            return Advice::Stay;
        }
        let is_full = FULL_PERCENT * 10 <= before.permille();
        let n = if is_full { self.n.min(self.max - self.n) } else { 1 };
        let opened = Opened { before, n };
        self.phase = Phase::Settling { opened, n_left: N_SETTLING_WINDOWS - 1 };
        Advice::Open(n)
    }

    fn can_spare_one(&self, this: &WindowSums) -> bool {
        let n = u64::try_from(self.n).unwrap_or(u64::MAX);
        1 < n && this.permille().saturating_mul(n) / (n - 1) < IDLE_PERCENT * 10
    }
}

#[cfg(test)]
mod tests;
