//! What a worker's gate lends to the links of other agents, while its calls have to wait.
//!
//! [`flow::lender`] decides. Here its words reach the links, and its limit reaches the gate.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::Instant;

use flow::capacity::Allowance;
use flow::gate::Pass;
use flow::lender::{Demand, Lender};
use link_proto::Credits;

use super::{AppGate, CapacitySource};

/// A link that calls the app, and knows credits.
pub trait Borrower {
    /// How often it was told of credits, modulo 2^32.
    fn n_told(&self) -> u32;

    /// Tells it how many calls it may have in flight.
    fn tell(&self, credits: Credits);

    /// Tells it that the app gives no sign of life, or gives some again.
    fn tell_pause(&self, pauses: bool);
}

/// Who may have how many calls in the app.
pub(super) struct Lending {
    lender: Lender,
    borrowers: HashMap<u64, Rc<dyn Borrower>>,
}

impl AppGate {
    /// Calls of the link `caller` find no room. From now on they are to wait there and not here.
    /// While room goes round, nothing is lent: each credit would be unused on its way. Nor is it
    /// while the limit doubles every few milliseconds.
    #[cold]
    pub fn lend(&self, now: Instant, caller: u64, borrower: &Rc<dyn Borrower>) {
        if !self.may_be_lent.get() {
            return;
        }
        let (limit, own) = {
            let gate = self.gate.borrow();
            (self.allowed.get(), gate.own())
        };
        {
            let mut lending = self.lending.borrow_mut();
            let it = lending.get_or_insert_with(|| {
                let lender = Lender::new(limit, own, now);
                Box::new(Lending { lender, borrowers: HashMap::new() })
            });
            if it.lender.has(caller) {
                return;
            }
            it.lender.join(now, caller, borrower.n_told());
            it.borrowers.insert(caller, Rc::clone(borrower));
            it.lender.deal(now, own);
        }
        self.is_lending.set(true);
        self.tell();
    }

    /// A link says how many calls wait there.
    pub fn demanded(&self, now: Instant, caller: u64, demand: Demand) {
        self.change(|lender| lender.demand(now, caller, demand));
    }

    /// A link has ended.
    pub fn lost(&self, now: Instant, caller: u64) {
        if let Some(it) = &mut *self.lending.borrow_mut() {
            it.borrowers.remove(&caller);
        }
        self.change(|lender| lender.lost(now, caller));
    }

    /// Lets a call of a link in by a credit, if the link has one for it.
    pub(super) fn enter_lent(&self, now: Instant, caller: u64) -> Option<Pass> {
        let link = NonZeroU64::new(caller)?;
        let mut lending = self.lending.borrow_mut();
        let it = lending.as_mut()?;
        self.gate.borrow_mut().enter_lent(now, link, || it.lender.begin(caller))
    }

    /// A call has ended that had a credit.
    pub(super) fn left_lent(&self, now: Instant, link: NonZeroU64) {
        self.change(|lender| lender.ended(now, link.get()));
    }

    /// This worker may have so many calls in the app, with and without credits.
    pub(super) fn allow(&self, now: Instant, allowance: Allowance) {
        self.allowed.set(allowance.limit);
        self.may_be_lent.set(allowance.may_be_lent);
        self.gate.borrow_mut().set_line_policy(allowance.line);
        self.gate.borrow_mut().set_limit(allowance.limit, allowance.reach);
        self.change(|lender| lender.set_capacity(allowance.limit, now));
    }

    /// A call without a credit wants to be let in: it takes what is free.
    pub(super) fn want_own(&self, now: Instant) {
        let mut own = self.gate.borrow().own();
        own.demand = own.demand.saturating_add(1);
        self.change(|lender| lender.set_own(now, own));
    }

    /// Deals anew if it is time to, and ends the lending once nobody waits any more.
    pub(super) fn look_at_lending(&self, now: Instant, is_idle: bool) {
        let own = self.gate.borrow().own();
        self.change(|lender| lender.look(now, own));
        let ended = {
            let mut lending = self.lending.borrow_mut();
            let may_be_lent = self.may_be_lent.get();
            lending.take_if(|it| is_idle || !may_be_lent || it.lender.is_calm(now))
        };
        let Some(Lending { lender, mut borrowers }) = ended.map(|it| *it) else { return };
        self.is_lending.set(false);
        let open: Vec<_> = lender.end().filter_map(|link| borrowers.remove(&link)).collect();
        {
            let mut gate = self.gate.borrow_mut();
            gate.end_lending();
            gate.set_limit(self.allowed.get(), self.allowed.get().into());
        }
        open.iter().for_each(|borrower| borrower.tell(Credits::Open));
    }

    /// Calls that wait at links.
    pub(super) fn n_waiting_at_links(&self) -> u32 {
        self.lending.borrow().as_ref().map_or(0, |it| it.lender.n_waiting())
    }

    /// What this worker has of the capacity and cannot return now.
    pub(super) fn n_held(&self, now: Instant) -> u32 {
        let in_flight = self.gate.borrow().stats().in_flight;
        let in_flight = in_flight.saturating_add(self.n_settling_lent(now));
        self.lending.borrow().as_ref().map_or(in_flight, |it| it.lender.n_held().max(in_flight))
    }

    fn change(&self, change: impl FnOnce(&mut Lender)) {
        match &mut *self.lending.borrow_mut() {
            Some(it) => change(&mut it.lender),
            None => return,
        }
        self.tell();
    }

    /// Tells the links what has changed, and the gate.
    fn tell(&self) {
        loop {
            let told = {
                let mut lending = self.lending.borrow_mut();
                let Some(it) = &mut *lending else { return };
                let Some(told) = it.lender.poll_told() else { break };
                it.borrowers.get(&told.link).cloned().map(|borrower| (borrower, told.credits))
            };
            if let Some((borrower, credits)) = told {
                borrower.tell(credits_of(self.shared.source(), credits));
            }
        }
        let limit = self.lending.borrow().as_ref().map(|it| it.lender.own_limit());
        let Some(limit) = limit else { return };
        let is_wanted = {
            let mut gate = self.gate.borrow_mut();
            gate.set_own_limit(limit);
            gate.has_waiting() && !gate.is_full()
        };
        if is_wanted {
            self.shared.wake(self.worker);
        }
    }
}

/// What a link is told that may have so many calls in flight.
fn credits_of(source: CapacitySource, n: u32) -> Credits {
    match source {
        CapacitySource::Configured | CapacitySource::Registered => Credits::Limited(n),
        CapacitySource::Found => Credits::Measured(n),
    }
}
