//! One budget of memory for the whole process: everything that buffers a peer's bytes draws from
//! it.
//!
//! [`Budget`] is the process's. Each worker thread has a [`Lease`] of it: a piece that it hands
//! out without touching anything shared. Each connection has an [`Account`], which belongs to a
//! listener's and a peer's [`Group`]; what it buffers is set as a total ([`Account::set`]) or
//! taken as a [`Hold`].
//!
//! # Who is refused
//!
//! Nobody has a fixed share. What one connection may hold is what is still free; what one peer may
//! hold is twice that, and one listener four times. (Switches share their buffers among queues by
//! this rule.) So a single caller may use half of an idle agent's budget, and the more there are
//! the less each of them gets. Three exceptions let small calls pass while large ones are refused,
//! also where all callers have one address:
//! - The first [`FREE_LEN`] bytes of a connection cost nothing: the limit of connections bounds
//!   them.
//! - A connection that holds less than a 64th of what is free is not refused for what its peer
//!   holds, until only a quarter of the budget is free.
//! - A peer that holds less than half of what is free is not refused for what its listener holds,
//!   until only an eighth is free.
//!
//! A connection to an endpoint carries the calls of many. Each of its messages counts by itself:
//! what the connection holds already is not a reason to refuse a small one. All connections to one
//! endpoint are one peer, and those to all endpoints together are as a listener's: an endpoint
//! that does not read is short of memory before others are.
//!
//! Invariants:
//! - What is in use beyond [`FREE_LEN`] is always counted: a growth that is refused by
//!   [`Account::set`] is counted until the caller sheds it.
//! - What an account holds is given back when it is dropped.
//! - Nothing shared is touched for a connection that holds less than [`FREE_LEN`].

mod growth;
mod machine;
mod shares;

use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub use growth::Growth;
pub use machine::memory_of_machine;
pub use shares::{BudgetHolder, OverBudget};
use shares::{Shares, largest_share};

/// What a lease takes from the budget at a time. Small beside any useful budget, large beside a
/// message.
const CHUNK_LEN: usize = 256 * 1024;
/// What every connection may hold beside the budget: a common call and its answer.
pub(crate) const FREE_LEN: usize = 8 * 1024;
/// Peers that are remembered before those without a connection are looked for.
const MIN_PEERS: usize = 64;

/// The process's budget; clones are handles to the same.
#[derive(Clone, Debug)]
pub struct Budget(Arc<BudgetTotals>);

#[derive(Debug)]
struct BudgetTotals {
    limit: usize,
    /// What workers have leased, whether they use it or not.
    leased: AtomicUsize,
    /// What grows away from the workers has of that.
    grown: AtomicUsize,
    refused: AtomicU64,
    /// What each worker uses.
    used: Mutex<Vec<Arc<AtomicUsize>>>,
    peers: Mutex<Peers>,
}

impl BudgetTotals {
    fn largest_share(&self) -> usize {
        largest_share(self.limit)
    }
}

#[derive(Debug, Default)]
struct Peers {
    groups: HashMap<IpAddr, Weak<Group>>,
    /// How many there may be before those without a connection are forgotten.
    max_len: usize,
}

/// Several accounts whose sum counts: those of a listener, or of a peer.
#[derive(Debug, Default)]
pub struct Group {
    held: AtomicUsize,
}

impl Group {
    /// A group without accounts.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// What its accounts hold, without what costs nothing.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }
}

impl Budget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(BudgetTotals {
            limit,
            leased: AtomicUsize::new(0),
            grown: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            used: Mutex::default(),
            peers: Mutex::default(),
        }))
    }

    /// The whole budget, in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes that are in use, without what costs nothing.
    #[must_use]
    pub fn used(&self) -> usize {
        let used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.iter().map(|used| used.load(Relaxed)).sum::<usize>() + self.0.grown.load(Relaxed)
    }

    /// How often somebody was refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Relaxed)
    }

    /// A worker's piece of the budget, which grows and shrinks with what it needs.
    #[must_use]
    pub fn lease(&self) -> Rc<Lease> {
        let used = Arc::new(AtomicUsize::new(0));
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&used));
        Rc::new(Lease { shared: Arc::clone(&self.0), spare: Cell::new(0), used })
    }

    /// The group of a peer's connections. Addresses of one IPv6 network of 64 bits are one peer.
    #[must_use]
    pub fn peer(&self, address: IpAddr) -> Arc<Group> {
        let address = network(address);
        let mut peers = self.0.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = peers.groups.get(&address).and_then(Weak::upgrade) {
            return group;
        }
        if peers.max_len <= peers.groups.len() {
            peers.groups.retain(|_, group| group.strong_count() != 0);
            peers.max_len = (2 * peers.groups.len()).max(MIN_PEERS);
        }
        let group = Group::new();
        peers.groups.insert(address, Arc::downgrade(&group));
        group
    }
}

/// What one host can choose freely is not part of who it is.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address => address,
    }
}

/// A worker's piece of the budget.
#[derive(Debug)]
pub struct Lease {
    shared: Arc<BudgetTotals>,
    /// Leased and not in use.
    spare: Cell<usize>,
    /// Written by this worker alone, for others to read.
    used: Arc<AtomicUsize>,
}

impl Lease {
    /// What is free, for all.
    #[inline]
    fn free(&self) -> usize {
        let leased = self.shared.leased.load(Relaxed);
        self.shared.limit.saturating_sub(leased) + self.spare.get()
    }

    #[inline]
    fn take(&self, len: usize) {
        self.used.store(self.used.load(Relaxed) + len, Relaxed);
        match self.spare.get().checked_sub(len) {
            Some(spare) => self.spare.set(spare),
            None => self.lease_more(len - self.spare.get()),
        }
    }

    #[cold]
    fn lease_more(&self, missing: usize) {
        // The last chunk of a budget is leased as it is needed.
        let left = self.shared.limit.saturating_sub(self.shared.leased.load(Relaxed));
        let len = if missing + CHUNK_LEN <= left { missing + CHUNK_LEN } else { missing };
        self.shared.leased.fetch_add(len, Relaxed);
        self.spare.set(len - missing);
    }

    #[inline]
    fn give_back(&self, len: usize) {
        self.used.store(self.used.load(Relaxed) - len, Relaxed);
        let spare = self.spare.get() + len;
        let kept = if spare <= 2 * CHUNK_LEN { spare } else { CHUNK_LEN };
        if kept != spare {
            self.shared.leased.fetch_sub(spare - kept, Relaxed);
        }
        self.spare.set(kept);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.leased.fetch_sub(self.spare.get(), Relaxed);
        let mut used = self.shared.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|used| !Arc::ptr_eq(used, &self.used));
    }
}

/// What one connection holds.
#[derive(Debug)]
pub struct Account {
    lease: Rc<Lease>,
    listener: Arc<Group>,
    peer: Arc<Group>,
    /// Whether it carries what many callers have asked for: then what it holds already is nobody's
    /// fault.
    is_shared: bool,
    held: Cell<usize>,
}

impl Account {
    /// A connection of one caller, which holds nothing yet.
    #[must_use]
    pub fn new(lease: &Rc<Lease>, listener: &Arc<Group>, peer: Arc<Group>) -> Rc<Self> {
        Self::of(lease, listener, peer, false)
    }

    /// A connection that carries the calls of many. `all` is all such connections, and `endpoint`
    /// those to the same endpoint.
    #[must_use]
    pub fn shared(lease: &Rc<Lease>, all: &Arc<Group>, endpoint: &Arc<Group>) -> Rc<Self> {
        Self::of(lease, all, Arc::clone(endpoint), true)
    }

    fn of(lease: &Rc<Lease>, listener: &Arc<Group>, peer: Arc<Group>, is_shared: bool) -> Rc<Self> {
        Rc::new(Self {
            lease: Rc::clone(lease),
            listener: Arc::clone(listener),
            peer,
            is_shared,
            held: Cell::new(0),
        })
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.get()
    }

    /// Whether it may hold `len` bytes more.
    ///
    /// # Errors
    /// [`OverBudget`]; that is counted.
    #[inline]
    pub fn check(&self, len: usize) -> Result<(), OverBudget> {
        // Nearly all calls.
        let before = if self.is_shared { 0 } else { self.held.get() };
        if before + len <= FREE_LEN {
            return Ok(());
        }
        self.check_shares(len)
    }

    fn check_shares(&self, wanted: usize) -> Result<(), OverBudget> {
        let checked = self.look_at_shares(wanted);
        if checked.is_err() {
            self.lease.shared.refused.fetch_add(1, Relaxed);
        }
        checked
    }

    /// Whether it holds so much that it would get no more: while memory is short, this is whose
    /// loss makes room for others.
    #[must_use]
    pub fn is_over_share(&self) -> bool {
        self.cost() != 0 && self.look_at_shares(0).is_err()
    }

    fn look_at_shares(&self, wanted: usize) -> Result<(), OverBudget> {
        let (free, limit) = (self.lease.free(), self.lease.shared.limit);
        let shares = Shares {
            connection: if self.is_shared { 0 } else { self.cost() },
            peer: self.peer.held(),
            listener: self.listener.held(),
            is_shared: self.is_shared,
        };
        shares.check(wanted, free, limit)
    }

    /// Says how much it holds now, in all that is not a [`Hold`]: `before` is what it said last.
    ///
    /// # Errors
    /// [`OverBudget`] if it has grown and should not have. The growth is counted nevertheless,
    /// since it is there: the caller sheds what it can, and says how much it holds then.
    #[inline]
    pub fn set(&self, before: usize, now: usize) -> Result<(), OverBudget> {
        if now <= before {
            self.shrink(before - now);
            return Ok(());
        }
        let checked = self.check(now - before);
        self.grow(now - before);
        checked
    }

    /// Takes `len` bytes until the hold is dropped.
    ///
    /// # Errors
    /// [`OverBudget`]; nothing was taken.
    #[inline]
    pub fn take(self: &Rc<Self>, len: usize) -> Result<Hold, OverBudget> {
        self.check(len)?;
        self.grow(len);
        Ok(Hold { account: Rc::clone(self), len })
    }

    /// Counts `len` bytes that are there already, whether there is room or not, until the hold is
    /// dropped.
    #[inline]
    pub fn count(self: &Rc<Self>, len: usize) -> Hold {
        self.grow(len);
        Hold { account: Rc::clone(self), len }
    }

    /// What it costs the budget.
    #[inline]
    fn cost(&self) -> usize {
        self.held.get().saturating_sub(FREE_LEN)
    }

    #[inline]
    fn grow(&self, len: usize) {
        let before = self.cost();
        self.held.set(self.held.get() + len);
        if self.cost() != 0 {
            let more = self.cost() - before;
            self.lease.take(more);
            self.listener.held.fetch_add(more, Relaxed);
            self.peer.held.fetch_add(more, Relaxed);
        }
    }

    #[inline]
    fn shrink(&self, len: usize) {
        debug_assert!(len <= self.held.get(), "more is given back than was taken");
        let before = self.cost();
        self.held.set(self.held.get().saturating_sub(len));
        if before != 0 {
            let less = before - self.cost();
            self.lease.give_back(less);
            self.listener.held.fetch_sub(less, Relaxed);
            self.peer.held.fetch_sub(less, Relaxed);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.shrink(self.held.get());
    }
}

/// Bytes of an account, until it is dropped.
#[derive(Debug)]
pub struct Hold {
    account: Rc<Account>,
    len: usize,
}

impl Hold {
    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes it one of `len` bytes.
    ///
    /// # Errors
    /// [`OverBudget`]; it is as it was.
    #[inline]
    pub fn resize(&mut self, len: usize) -> Result<(), OverBudget> {
        if len <= self.len {
            self.account.shrink(self.len - len);
        } else {
            self.account.check(len - self.len)?;
            self.account.grow(len - self.len);
        }
        self.len = len;
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.account.shrink(self.len);
    }
}

#[cfg(test)]
mod tests;
