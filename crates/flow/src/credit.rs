//! Deals an app's capacity out, as credits, to those who call it: workers, or links.
//!
//! Each holder reports how much it could use (its demand). [`Allocator::deal`] shares the capacity
//! out: nobody gets more than it wants before everybody has an equal share. A part of what is left
//! over goes out as headroom; the rest is there for whoever wants more before the next deal.
//! A holder is told how many credits it may use. If that is less than before, the difference is
//! free only once the holder has returned it, since calls may still be in flight on it.
//!
//! Where more holders want credits than there are, credits rotate: those who have waited longest
//! get theirs next. So does what is left over where few credits cannot be divided.
//!
//! All that a holder has may be in use by slow calls. Then one of its credits counts as nobody's,
//! and the holder has its part of the others: one slow call must not keep the holder's other calls
//! waiting. More than one does not count, so that slow calls do not take everything. A holder that
//! gets no part of the others returns that one, too, when its call ends: slow or not, its turn is
//! over. Who has waited longest gets it then, and does not have to wait for the next deal.
//!
//! Invariants:
//! - Credits are granted only while those held, with those not yet returned, are below the
//!   capacity.
//! - All credits of a holder that is lost are free again at once.

use std::collections::{BTreeMap, VecDeque};

/// What a holder may use from now on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CreditGrant<K> {
    /// Who.
    pub holder: K,
    /// How many calls it may have in flight. What it holds beyond it returns when it can.
    pub credits: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct CreditHolder {
    /// What it may have in flight, and what it has not returned yet.
    held: u32,
    /// What it was last told. Less than `held` while credits are to be returned.
    told: u32,
    /// The most it could have used since the last deal.
    demand: u32,
    /// The deal in which it last held a credit.
    served: u64,
    /// Its last turn to have one more than what all have: such turns are counted, of all.
    had_more: u32,
    /// What the deal that is being made gives it.
    share: u32,
    /// All that it holds is in use by calls that do not end: it has one more than its share, of
    /// what goes round.
    is_stuck: bool,
}

/// A holder that is to get more as credits are returned.
#[derive(Clone, Copy, Debug)]
struct DueCredit<K> {
    holder: K,
    /// It has its share, and gets one more if more is returned than the others lack.
    is_extra: bool,
}

/// One app's capacity, and who holds how much of it.
#[derive(Clone, Debug)]
pub struct Allocator<K> {
    capacity: u32,
    n_held: u32,
    n_deals: u64,
    holders: BTreeMap<K, CreditHolder>,
    /// Turns to have one more, of all holders, and those when they last changed.
    n_more: u32,
    n_more_before: u32,
    /// At the last deal more was wanted than free.
    is_scarce: bool,
    /// Those who are to get more as credits are returned, in their order.
    due: VecDeque<DueCredit<K>>,
    changes: VecDeque<CreditGrant<K>>,
}

/// Of what nobody wants, one half is headroom of those who hold credits.
const HEADROOM_PART: u32 = 2;
/// Where each has so many, one more makes no difference, and nobody is told anything for it.
const ONE_MORE_MATTERS: u32 = 16;
/// Who has one more than others keeps it for so many deals: what changes hands lies idle
/// meanwhile.
const DEALS_WITH_MORE: u64 = 10;

impl<K: Ord + Copy> Allocator<K> {
    /// Nobody holds anything yet.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self {
            capacity,
            n_held: 0,
            n_deals: 0,
            n_more: 0,
            n_more_before: 0,
            holders: BTreeMap::new(),
            is_scarce: false,
            due: VecDeque::new(),
            changes: VecDeque::new(),
        }
    }

    /// The app can take so many calls from now on.
    pub fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity;
    }

    /// What is dealt out at most.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Credits that are out, those that are to be returned included.
    #[must_use]
    pub fn n_held(&self) -> u32 {
        self.n_held
    }

    /// What one holder may use, or has not returned yet.
    #[must_use]
    pub fn held_by(&self, holder: K) -> u32 {
        self.holders.get(&holder).map_or(0, |it| it.held)
    }

    /// A holder without credits. It has no effect if the holder is known.
    pub fn join(&mut self, holder: K) {
        self.holders.entry(holder).or_default();
    }

    /// A holder has gone, and may use nothing any more. What it holds is free as it is
    /// [`returned`](Self::returned).
    pub fn leaves(&mut self, holder: K) {
        if let Some(it) = self.holders.get_mut(&holder) {
            (it.told, it.demand, it.share, it.is_stuck) = (0, 0, 0, false);
        }
        self.changes.retain(|change| change.holder != holder);
        self.due.retain(|due| due.holder != holder);
    }

    /// A holder is gone for good, and what it held is free.
    pub fn lost(&mut self, holder: K) {
        if let Some(gone) = self.holders.remove(&holder) {
            self.n_held -= gone.held;
        }
        self.changes.retain(|change| change.holder != holder);
        self.due.retain(|due| due.holder != holder);
        self.grant_due();
    }

    /// A holder could use so many credits now. It gets what is free at once, but while credits are
    /// scarce no more than its share of the last deal.
    pub fn demand(&mut self, holder: K, demand: u32) {
        let free = self.free();
        let Some(it) = self.holders.get_mut(&holder) else { return };
        it.demand = it.demand.max(demand);
        let wanted = if self.is_scarce { demand.min(it.share) } else { demand };
        let more = free.min(wanted.saturating_sub(it.held));
        if 0 < more {
            self.grant(holder, more);
        } else if it.told < wanted.min(it.held) {
            let kept = wanted.min(it.held);
            self.tell(holder, kept);
        }
    }

    /// Whether none of a holder's calls has ended since the last deal, and all that it holds is in
    /// use by them.
    pub fn set_stuck(&mut self, holder: K, is_stuck: bool) {
        if let Some(it) = self.holders.get_mut(&holder) {
            it.is_stuck = is_stuck && 0 < it.held;
        }
    }

    /// A holder has no more than `held` credits left, because it was told to use fewer.
    pub fn returned(&mut self, holder: K, held: u32) {
        let Some(it) = self.holders.get_mut(&holder) else { return };
        // It cannot return what it may still use.
        let held = held.clamp(it.told.min(it.held), it.held);
        self.n_held -= it.held - held;
        it.held = held;
        self.grant_due();
    }

    /// A holder needs no more than `credits`, and gives back the others at once.
    pub fn give_back(&mut self, holder: K, credits: u32) {
        let Some(it) = self.holders.get_mut(&holder) else { return };
        (it.share, it.demand) = (it.share.min(credits), it.demand.min(credits));
        let has_more = credits < it.told;
        self.due.retain(|due| due.holder != holder);
        if has_more {
            self.tell(holder, credits);
        }
        self.returned(holder, credits);
    }

    /// A holder gets one more, if there is one. For who decides itself who gets what.
    pub fn grant_one(&mut self, holder: K) -> bool {
        self.due.clear();
        let is_free = 0 < self.free() && self.holders.contains_key(&holder);
        if is_free {
            self.grant(holder, 1);
        }
        is_free
    }

    /// A holder may use no more than `credits`, if it may use more now. What it does not use of
    /// the others is free as it is [`returned`](Self::returned).
    pub fn recall(&mut self, holder: K, credits: u32) {
        if self.holders.get(&holder).is_some_and(|it| credits < it.told) {
            self.tell(holder, credits);
        }
    }

    /// Shares the capacity out anew. Call it now and then, and when somebody wants more than is
    /// free.
    pub fn deal(&mut self) {
        self.n_deals += 1;
        let short = self.share_out();
        let wanted: u64 = self.holders.values().map(|it| u64::from(it.missing())).sum();
        self.is_scarce =
            !short.is_empty() || u64::from(self.free()) < wanted || self.capacity < self.n_held;
        let changed: Vec<(K, u32)> = self
            .holders
            .iter()
            .filter_map(|(holder, it)| Some((*holder, it.credits_of_share(self.is_scarce)?)))
            .collect();
        for (holder, credits) in changed {
            self.tell(holder, credits);
        }
        self.set_due(short);
        self.grant_due();
        let n_deals = self.n_deals;
        for it in self.holders.values_mut() {
            // What is stuck is nobody's turn.
            if it.n_stuck() < it.told {
                it.served = n_deals;
            }
            it.demand = 0;
        }
    }

    /// The next holder that is to be told something. Ask until there is none.
    pub fn poll_change(&mut self) -> Option<CreditGrant<K>> {
        self.changes.pop_front()
    }

    fn free(&self) -> u32 {
        self.capacity.saturating_sub(self.n_held)
    }

    /// Gives each holder what it wants, or an equal share if that is less. Returns those who want
    /// more, first those who have waited longest.
    fn share_out(&mut self) -> Vec<K> {
        let n_stuck: u32 = self.holders.values().map(CreditHolder::n_stuck).sum();
        let mut left = self.capacity.saturating_sub(n_stuck);
        let level = self.level(left);
        let mut short = Vec::new();
        let is_kept = !self.n_deals.is_multiple_of(DEALS_WITH_MORE);
        if !is_kept {
            self.n_more_before = self.n_more;
        }
        for (holder, it) in &mut self.holders {
            let wanted = it.demand.saturating_sub(it.n_stuck());
            it.share = level.min(wanted);
            left -= it.share;
            if it.share < wanted {
                let turn = match (ONE_MORE_MATTERS <= level, is_kept) {
                    (true, _) => 0,
                    (_, true) => u32::MAX - it.had_more,
                    _ => it.had_more,
                };
                short.push((it.served, turn, *holder));
            }
        }
        // The division leaves less than one for each: those who have waited longest get it.
        short.sort_unstable();
        let mut short = short.into_iter().map(|(.., holder)| holder);
        for holder in short.by_ref().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            if let Some(it) = self.holders.get_mut(&holder) {
                it.share += 1;
                left -= 1;
                if it.had_more <= self.n_more_before {
                    self.n_more = self.n_more.saturating_add(1);
                    it.had_more = self.n_more;
                }
            }
        }
        let short: Vec<K> = short.collect();
        let is_enough = short.is_empty();
        for it in self.holders.values_mut().filter(|it| is_enough || 0 < it.share) {
            it.share += it.n_stuck();
        }
        self.share_headroom(left);
        short
    }

    /// The greatest share that everybody who wants as much can have.
    fn level(&self, mut left: u32) -> u32 {
        let wanted = |it: &CreditHolder| it.demand.saturating_sub(it.n_stuck());
        let mut demands: Vec<u32> = self.holders.values().map(wanted).collect();
        demands.sort_unstable();
        for (demand, n_left) in demands.iter().zip((1..=demands.len()).rev()) {
            let level = left / u32::try_from(n_left).unwrap_or(u32::MAX);
            if level < *demand {
                return level;
            }
            left -= demand;
        }
        u32::MAX
    }

    /// Adds a part of what nobody wants to the shares of those who want something.
    fn share_headroom(&mut self, n_left: u32) {
        let n_active = self.holders.values().filter(|it| 0 < it.demand).count();
        let each = n_left / HEADROOM_PART / u32::try_from(n_active).unwrap_or(u32::MAX).max(1);
        for it in self.holders.values_mut().filter(|it| 0 < it.demand) {
            it.share = it.share.saturating_add(each);
        }
    }

    /// Puts those who are to get more into their order: first those who have waited longest, then
    /// those for whom nothing is left yet.
    fn set_due(&mut self, short: Vec<K>) {
        let mut due: Vec<(u64, K)> = self
            .holders
            .iter()
            .filter(|(_, it)| it.held < it.share)
            .map(|(holder, it)| (it.served, *holder))
            .collect();
        due.sort_unstable();
        let due = due.into_iter().map(|(_, holder)| DueCredit { holder, is_extra: false });
        let extra = short.into_iter().map(|holder| DueCredit { holder, is_extra: true });
        self.due = due.chain(extra).collect();
    }

    /// Grants what is free to those who are to get more.
    fn grant_due(&mut self) {
        while let Some(due) = self.due.front().copied().filter(|_| 0 < self.free()) {
            let missing = self.holders.get_mut(&due.holder).map_or(0, |it| {
                if due.is_extra {
                    it.add_extra();
                }
                it.share.saturating_sub(it.held)
            });
            let more = missing.min(self.free());
            if 0 < more {
                self.grant(due.holder, more);
            }
            if more == missing || due.is_extra {
                self.due.pop_front();
            }
        }
    }

    fn grant(&mut self, holder: K, more: u32) {
        debug_assert!(more <= self.free(), "more than the capacity");
        if let Some(it) = self.holders.get_mut(&holder) {
            it.held += more;
            self.n_held += more;
            let credits = it.held;
            self.tell(holder, credits);
        }
    }

    fn tell(&mut self, holder: K, credits: u32) {
        if let Some(it) = self.holders.get_mut(&holder) {
            it.told = credits;
            self.changes.push_back(CreditGrant { holder, credits });
        }
    }
}

impl CreditHolder {
    /// What it is told because of its share, before it is granted more: that it has to return
    /// some, or that it may keep what it has not returned yet.
    fn credits_of_share(&self, is_scarce: bool) -> Option<u32> {
        let kept = self.share.min(self.held);
        let is_recalled = kept < self.told && (is_scarce || self.demand == 0);
        (self.told < kept || is_recalled).then_some(kept)
    }

    /// It gets one more, unless it has not returned yet what it had.
    fn add_extra(&mut self) {
        let n_stuck = u32::from(self.is_stuck && self.share == 0 && 0 < self.held);
        if self.held <= self.share + n_stuck {
            self.share += n_stuck + 1;
        }
    }

    fn n_stuck(&self) -> u32 {
        u32::from(self.is_stuck && 0 < self.demand)
    }

    /// Credits that it wants, and that its share has for it.
    fn missing(&self) -> u32 {
        self.share.min(self.demand).saturating_sub(self.held)
    }
}

#[cfg(test)]
mod tests;
