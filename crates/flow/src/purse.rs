//! The credits that a link holds toward one app behind its peer.
//!
//! Nobody needs credits until the peer lends some. From then on no more calls begin than there are
//! credits for. The others wait elsewhere, and the peer is told how many wait: when calls begin to
//! wait, when twice as many wait as it knows of, when none waits any more, and now and then, since
//! it forgets. A peer that has taken credits back hears that its word has come.
//!
//! Invariant: while credits are needed, no more calls are in flight by credits than there are, but
//! for those that were when some were taken back.

use std::time::{Duration, Instant};

use crate::lender::Demand;
use crate::line::{Certainty, Pace};
use crate::windowed_min::WindowedMin;

/// The peer is told of calls that wait no more often than this.
const LEAST_INTERVAL: Duration = Duration::from_millis(20);
/// The peer is told again of calls that still wait.
const REMIND_INTERVAL: Duration = Duration::from_millis(400);
/// How long the fastest answer is remembered.
const FLOOR_WINDOW: Duration = Duration::from_secs(10);
/// One answer counts for so much of the usual time.
const SMOOTHING: u32 = 16;

/// A call that began by a credit. Give it back to [`Purse::ended`].
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a credit that is not given back is lost"]
pub struct Coin {
    began: Instant,
    /// Credits of an earlier time, before nobody needed any, count no more.
    period: u32,
}

/// The credits of a link.
#[derive(Debug)]
pub struct Purse {
    /// How many calls may be in flight; `None` while nobody needs credits.
    credits: Option<u32>,
    in_flight: u32,
    period: u32,
    /// How often the peer has said something.
    n_seen: u32,
    has_to_confirm: bool,
    n_waiting: u32,
    /// What the peer knows of `n_waiting`, and since when.
    told: Option<(u32, Instant)>,
    usual: Duration,
    certainty: Certainty,
    floor: WindowedMin,
}

impl Purse {
    /// Nobody needs credits yet.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            credits: None,
            in_flight: 0,
            period: 0,
            n_seen: 0,
            has_to_confirm: false,
            n_waiting: 0,
            told: None,
            usual: Duration::ZERO,
            certainty: Certainty::default(),
            floor: WindowedMin::new(FLOOR_WINDOW, now),
        }
    }

    /// The peer says how many calls may be in flight, or, by `None`, that nobody needs credits.
    pub fn set_credits(&mut self, credits: Option<u32>) {
        self.n_seen = self.n_seen.wrapping_add(1);
        if credits.is_none() || self.credits.is_none() {
            self.period = self.period.wrapping_add(1);
            (self.in_flight, self.told, self.has_to_confirm) = (0, None, false);
        }
        self.has_to_confirm |= credits < self.credits && credits.is_some();
        self.credits = credits;
    }

    /// Whether calls need credits.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        self.credits.is_some()
    }

    /// How many calls may be in flight; `None` while nobody needs credits.
    #[must_use]
    pub fn credits(&self) -> Option<u32> {
        self.credits
    }

    /// Whether a call may begin.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.credits.is_none_or(|credits| self.in_flight < credits)
    }

    /// A call begins. It has no coin if it needs none, or there is none for it.
    pub fn begin(&mut self, now: Instant) -> Option<Coin> {
        self.credits.filter(|credits| self.in_flight < *credits)?;
        self.in_flight += 1;
        Some(Coin { began: now, period: self.period })
    }

    /// A call has ended; `is_answered` if its time tells how long calls take.
    pub fn ended(&mut self, Coin { began, period }: Coin, now: Instant, is_answered: bool) {
        if period == self.period {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        if is_answered {
            let latency = now.saturating_duration_since(began);
            self.floor.take_in(now, latency);
            self.certainty.note(began, latency);
            self.usual = match self.usual {
                Duration::ZERO => latency,
                usual => usual - usual / SMOOTHING + latency / SMOOTHING,
            };
        }
    }

    /// So many calls wait for credits now.
    pub fn want(&mut self, n_waiting: u32) {
        self.n_waiting = n_waiting;
    }

    /// What the peer is to be told now. Ask after each step, and every 20 ms while calls wait.
    pub fn poll_demand(&mut self, now: Instant) -> Option<Demand> {
        self.credits?;
        let n = self.n_waiting;
        let is_news = match self.told {
            None => 0 < n,
            Some((told, at)) => {
                let age = now.saturating_duration_since(at);
                LEAST_INTERVAL <= age && told.saturating_mul(2) < n
                    || REMIND_INTERVAL <= age && 0 < n
                    || n == 0 && 0 < told
            }
        };
        if !is_news && !self.has_to_confirm {
            return None;
        }
        self.has_to_confirm = false;
        self.told = Some((n, now));
        Some(Demand { n_waiting: n, n_seen: self.n_seen })
    }

    /// How fast calls go on by these credits. A link without any may get one soon.
    #[must_use]
    pub fn pace(&self) -> Pace {
        let least = self.floor.least().unwrap_or_default();
        let reach = f64::from(self.credits.unwrap_or(1).max(1));
        Pace { usual: self.usual, least, reach, is_sure: self.certainty.is_sure() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_start;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn calls_need_credits_only_while_some_are_lent() {
        let now = test_start();
        let mut purse = Purse::new(now);
        assert!(purse.has_room() && purse.begin(now).is_none());
        purse.set_credits(Some(2));
        let coins = [purse.begin(now), purse.begin(now)].map(Option::unwrap);
        assert!(!purse.has_room() && purse.begin(now).is_none());
        for coin in coins {
            purse.ended(coin, now + 8 * MS, true);
        }
        assert!(purse.has_room());
        let pace = Pace { usual: 8 * MS, least: 8 * MS, reach: 2.0, is_sure: false };
        assert_eq!(purse.pace(), pace);
        let old = purse.begin(now).unwrap();
        purse.set_credits(None);
        assert!(purse.begin(now).is_none() && !purse.is_lent());
        purse.set_credits(Some(1));
        let own = purse.begin(now).unwrap();
        purse.ended(old, now, false);
        assert!(!purse.has_room(), "a call of an earlier time gives nothing back");
        purse.ended(own, now, false);
        assert!(purse.has_room());
    }

    #[test]
    fn the_peer_hears_seldom_of_those_who_wait_and_always_of_what_it_took_back() {
        let now = test_start();
        let mut purse = Purse::new(now);
        purse.want(5);
        assert_eq!(purse.poll_demand(now), None, "nobody needs credits");
        purse.set_credits(Some(4));
        let demand = |n_waiting, n_seen| Some(Demand { n_waiting, n_seen });
        assert_eq!(purse.poll_demand(now), demand(5, 1));
        purse.want(100);
        assert_eq!(purse.poll_demand(now + 19 * MS), None);
        assert_eq!(purse.poll_demand(now + 20 * MS), demand(100, 1));
        purse.want(110);
        assert_eq!(purse.poll_demand(now + 419 * MS), None);
        assert_eq!(purse.poll_demand(now + 420 * MS), demand(110, 1));
        purse.want(0);
        assert_eq!(purse.poll_demand(now + 421 * MS), demand(0, 1));
        assert_eq!(purse.poll_demand(now + 900 * MS), None);
        purse.set_credits(Some(6));
        assert_eq!(purse.poll_demand(now + 500 * MS), None);
        purse.set_credits(Some(3));
        assert_eq!(purse.poll_demand(now + 500 * MS), demand(0, 3));
        assert_eq!(purse.poll_demand(now + 500 * MS), None);
    }
}
