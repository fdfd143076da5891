//! Lends an app's capacity to the links that call it, as credits.
//!
//! A gate whose calls have to wait gets a lender. From then on each link that wants more than it
//! gets is a holder of the [`Allocator`], and so is the gate itself, for the calls of all others:
//! of links that have asked for nothing yet, and of peers that know no credits. Once nobody has
//! waited for a while, nobody needs credits any more, and the lender goes.
//!
//! A link is told how many calls it may have in flight. It confirms what it was told, and what it
//! holds beyond it comes back as its calls end. If it confirms nothing, its credits come back
//! after a while all the same: should it use them, its calls wait at the gate like those without a
//! credit.
//!
//! Invariants:
//! - What links may use, with what they have not returned, and what the gate may let in besides,
//!   is never more than the capacity, but for what was in the app when it fell.
//! - A link that is lost, or silent, keeps nothing. Calls of a lost link that are still in the app
//!   count until the app has ended them.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::credit::Allocator;

/// How often credits are dealt anew.
pub const DEAL_INTERVAL: Duration = Duration::from_millis(100);
/// They are dealt sooner if the gate does not use its own while links wait: at first it has all.
const SOON: Duration = Duration::from_millis(5);
/// What a link has said of its waiting calls counts for so long.
const MEMORY: Duration = Duration::from_secs(1);
/// A link that has confirmed nothing for so long has returned all that was taken back.
const CONFIRM_TIME: Duration = Duration::from_secs(1);
/// Credits are lent until nobody has waited for so long.
const CALM_TIME: Duration = Duration::from_secs(1);

/// What a link says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Demand {
    /// Calls that wait for credits there.
    pub n_waiting: u32,
    /// How often it had been told something, modulo 2^32.
    pub n_seen: u32,
}

/// What a link is to be told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CreditNotice {
    /// Which link.
    pub link: u64,
    /// How many calls it may have in flight.
    pub credits: u32,
}

/// Calls of a worker, or those of them that need no credits.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnDemand {
    /// Calls that are in the app.
    pub in_flight: u32,
    /// Those, and calls that wait for room.
    pub demand: u32,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum CreditOwner {
    Own,
    Link(u64),
}

#[derive(Debug)]
struct Link {
    /// How many calls it may have in flight, as it was told.
    credits: u32,
    in_flight: u32,
    /// Since the last deal.
    max_in_flight: u32,
    /// A call has ended since the last deal.
    has_ended: bool,
    n_waiting: u32,
    /// When it said so.
    heard_at: Instant,
    /// How often it was told something.
    n_told: u32,
    n_seen: u32,
    /// Since when it has something to confirm, or when it last confirmed something.
    told_at: Instant,
    /// It has ended, and the app still works on calls that came by it.
    is_lost: bool,
}

impl Link {
    fn has_confirmed(&self, now: Instant) -> bool {
        self.n_seen == self.n_told || CONFIRM_TIME <= now.saturating_duration_since(self.told_at)
    }

    fn demand(&self, now: Instant) -> u32 {
        let is_fresh = now.saturating_duration_since(self.heard_at) < MEMORY;
        let n_waiting = if is_fresh { self.n_waiting } else { 0 };
        self.max_in_flight.max(self.in_flight).saturating_add(n_waiting)
    }
}

/// Who may have how many calls in an app.
#[derive(Debug)]
pub struct Lender {
    allocator: Allocator<CreditOwner>,
    links: BTreeMap<u64, Link>,
    own: OwnDemand,
    own_limit: u32,
    told: VecDeque<CreditNotice>,
    dealt_at: Instant,
    /// When somebody last wanted more than there was.
    busy_at: Instant,
}

impl Lender {
    /// Lends so much, of which `own` is in use.
    #[must_use]
    pub fn new(capacity: u32, own: OwnDemand, now: Instant) -> Self {
        let mut allocator = Allocator::new(capacity);
        allocator.join(CreditOwner::Own);
        let (links, told, own_limit) = Default::default();
        let mut lender =
            Self { allocator, links, own, own_limit, told, dealt_at: now, busy_at: now };
        lender.allocator.demand(CreditOwner::Own, own.in_flight.max(own.demand));
        lender.take_changes(now);
        lender
    }

    /// So much may be lent from now on.
    pub fn set_capacity(&mut self, capacity: u32, now: Instant) {
        let before = self.allocator.capacity();
        self.allocator.set_capacity(capacity);
        if capacity < before {
            self.deal(now, self.own);
        }
    }

    /// How many calls the gate may let in without credits.
    #[must_use]
    pub fn own_limit(&self) -> u32 {
        self.own_limit
    }

    /// What is in use, or may be at any moment.
    #[must_use]
    pub fn n_held(&self) -> u32 {
        self.allocator.n_held()
    }

    /// How many calls wait at links.
    #[must_use]
    pub fn n_waiting(&self) -> u32 {
        self.links.values().fold(0, |sum, link| sum.saturating_add(link.n_waiting))
    }

    /// A link has more calls than it can get through. It was told something `n_told` times before.
    pub fn join(&mut self, now: Instant, link: u64, n_told: u32) {
        self.busy_at = now;
        let known = self.links.get(&link);
        if known.is_some_and(|it| !it.is_lost) {
            return;
        }
        // One that was lost may have had the same number.
        let in_flight = known.map_or(0, |it| it.in_flight);
        let joined = Link {
            credits: 0,
            in_flight,
            max_in_flight: in_flight,
            has_ended: true,
            n_waiting: 1,
            heard_at: now,
            n_told,
            n_seen: n_told,
            told_at: now,
            is_lost: false,
        };
        self.links.insert(link, joined);
        self.allocator.join(CreditOwner::Link(link));
        self.allocator.demand(CreditOwner::Link(link), 1);
        self.take_changes(now);
        if let Some(it) = self.links.get_mut(&link).filter(|it| it.n_told == n_told) {
            // It has to know that it needs credits. Otherwise it never says how many calls wait.
            it.n_told = it.n_told.wrapping_add(1);
            self.told.push_back(CreditNotice { link, credits: 0 });
        }
    }

    /// Whether the link was told how many calls it may have in flight.
    #[must_use]
    pub fn has(&self, link: u64) -> bool {
        self.links.get(&link).is_some_and(|it| !it.is_lost)
    }

    /// A link says what it wants.
    pub fn demand(&mut self, now: Instant, link: u64, demand: Demand) {
        let Some(it) = self.links.get_mut(&link).filter(|it| !it.is_lost) else { return };
        let n_unseen = |n_seen: u32| it.n_told.wrapping_sub(n_seen);
        if n_unseen(demand.n_seen) < n_unseen(it.n_seen) {
            it.told_at = now;
        }
        (it.n_waiting, it.n_seen, it.heard_at) = (demand.n_waiting, demand.n_seen, now);
        if 0 < it.n_waiting {
            self.busy_at = now;
        }
        let wanted = it.demand(now);
        self.take_back(now, link);
        self.allocator.demand(CreditOwner::Link(link), wanted);
        self.take_changes(now);
    }

    /// A call of a link begins by a credit. `false` if the link has no credit for it.
    pub fn begin(&mut self, link: u64) -> bool {
        let Some(it) = self.links.get_mut(&link).filter(|it| it.in_flight < it.credits) else {
            return false;
        };
        it.in_flight += 1;
        it.max_in_flight = it.max_in_flight.max(it.in_flight);
        true
    }

    /// A call has ended that had begun by a credit.
    pub fn ended(&mut self, now: Instant, link: u64) {
        let Some(it) = self.links.get_mut(&link) else { return };
        it.in_flight = it.in_flight.saturating_sub(1);
        it.has_ended = true;
        if it.is_lost {
            self.take_back_lost(link);
            self.take_changes(now);
        } else if it.credits <= it.in_flight {
            self.take_back(now, link);
            self.take_changes(now);
        }
    }

    /// A link has ended. What it held is free, but for what its calls use that are in the app.
    pub fn lost(&mut self, now: Instant, link: u64) {
        let Some(it) = self.links.get_mut(&link) else { return };
        (it.is_lost, it.credits, it.n_waiting) = (true, 0, 0);
        self.told.retain(|told| told.link != link);
        self.allocator.leaves(CreditOwner::Link(link));
        self.take_back_lost(link);
        self.take_changes(now);
    }

    /// How the gate stands: to be said now and then, and when calls have ended that the gate had
    /// let in while it may let in fewer.
    pub fn set_own(&mut self, now: Instant, own: OwnDemand) {
        self.own = own;
        self.allocator.demand(CreditOwner::Own, own.demand);
        self.take_changes(now);
        self.return_own();
        self.take_changes(now);
    }

    /// Deals anew if it is time to. To be called every few milliseconds.
    pub fn look(&mut self, now: Instant, own: OwnDemand) {
        let age = now.saturating_duration_since(self.dealt_at);
        let is_unused = own.demand < self.own_limit && 0 < self.n_waiting();
        let is_due = DEAL_INTERVAL <= age || is_unused && SOON <= age;
        match is_due {
            true => self.deal(now, own),
            false => self.set_own(now, own),
        }
    }

    /// Shares the capacity out by what everybody wants.
    pub fn deal(&mut self, now: Instant, own: OwnDemand) {
        self.dealt_at = now;
        let links: Vec<u64> = self.links.keys().copied().collect();
        for link in &links {
            self.take_back(now, *link);
        }
        let mut wanted = own.demand;
        for (link, it) in self.links.iter_mut().filter(|(_, it)| !it.is_lost) {
            let demand = it.demand(now);
            it.max_in_flight = it.in_flight;
            let is_in_use = 0 < it.in_flight && it.credits <= it.in_flight;
            let is_stuck = is_in_use && !std::mem::take(&mut it.has_ended);
            self.allocator.set_stuck(CreditOwner::Link(*link), is_stuck);
            wanted = wanted.saturating_add(demand);
            self.allocator.demand(CreditOwner::Link(*link), demand);
        }
        self.own = own;
        self.allocator.demand(CreditOwner::Own, own.demand);
        self.allocator.deal();
        if self.allocator.capacity() < wanted {
            self.busy_at = now;
        }
        self.take_changes(now);
        self.return_own();
        self.take_changes(now);
    }

    /// Whether nobody has waited for so long that nobody needs credits any more.
    #[must_use]
    pub fn is_calm(&self, now: Instant) -> bool {
        CALM_TIME <= now.saturating_duration_since(self.busy_at)
    }

    /// The next link that is to be told something. Ask until there is none, after each step.
    pub fn poll_told(&mut self) -> Option<CreditNotice> {
        self.told.pop_front()
    }

    /// All links, which are to be told that they need no credits any more.
    pub fn end(self) -> impl Iterator<Item = u64> {
        self.links.into_iter().filter(|(_, it)| !it.is_lost).map(|(link, _)| link)
    }

    /// Takes back what a link has returned.
    fn take_back(&mut self, now: Instant, link: u64) {
        if let Some(it) = self.links.get(&link).filter(|it| it.has_confirmed(now)) {
            self.allocator.returned(CreditOwner::Link(link), it.credits.max(it.in_flight));
        }
    }

    /// Takes back what a lost link needs no longer.
    fn take_back_lost(&mut self, link: u64) {
        let n_left = self.links.get(&link).map_or(0, |it| it.in_flight);
        if 0 < n_left {
            return self.allocator.returned(CreditOwner::Link(link), n_left);
        }
        self.links.remove(&link);
        self.allocator.lost(CreditOwner::Link(link));
    }

    /// The gate lets nobody in any more whom it may not: what it has to return comes back when
    /// calls have ended.
    fn return_own(&mut self) {
        self.allocator.returned(CreditOwner::Own, self.own.in_flight.max(self.own_limit));
    }

    fn take_changes(&mut self, now: Instant) {
        while let Some(change) = self.allocator.poll_change() {
            let CreditOwner::Link(link) = change.holder else {
                self.own_limit = change.credits;
                continue;
            };
            let Some(it) = self.links.get_mut(&link) else { continue };
            it.credits = change.credits;
            // It may hang, however often it is told something.
            it.told_at = if it.n_seen == it.n_told { now } else { it.told_at };
            it.n_told = it.n_told.wrapping_add(1);
            self.told.push_back(CreditNotice { link, credits: change.credits });
        }
    }
}

#[cfg(test)]
mod tests;
