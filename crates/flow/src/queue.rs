//! A bounded queue of calls: by priority, fair between callers, and by deadline.
//!
//! The better class goes first. Within a class callers take turns: in each round every caller that
//! waits has one call served, and the calls of a round go by their deadlines. So a single caller's
//! calls go by deadline, and one that asks for everything gets no more than its turn.
//!
//! Callers who were answered before are known. Others are newcomers, of whom thousands may come at
//! once: a few of them have their first turn in each round, so that who is known need not wait for
//! all of them.
//!
//! Invariants:
//! - No more than `max_len` calls wait. If another comes, the worst class gives way to a better
//!   one, the caller with the most waiting calls to one with fewer, and the last newcomer to a
//!   known caller of whom nothing waits.
//! - Each step but [`Queue::in_order`] costs O(log n).

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::iter;
use std::time::Instant;

use foldhash::fast::FixedState;

/// How much a call matters. Under overload the lower classes are shed first.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Priority {
    /// Goes before everything else.
    High,
    /// What calls are that say nothing.
    #[default]
    Normal,
    /// Goes when nothing else waits.
    Low,
}

impl Priority {
    /// The classes and their names.
    pub const NAMES: [(&str, Self); N_CLASSES] =
        [("high", Self::High), ("normal", Self::Normal), ("low", Self::Low)];

    /// The class of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, class)| *class)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let [(high, _), (normal, _), (low, _)] = Self::NAMES;
        match self {
            Self::High => high,
            Self::Normal => normal,
            Self::Low => low,
        }
    }
}

const N_CLASSES: usize = 3;
/// So many newcomers have their first turn in a round. A worker begins that many calls in a
/// millisecond or two.
const NEWCOMERS_PER_ROUND: usize = 16;
/// So many entries are looked at to find out whether they are few.
const FEW: usize = 16;

/// By numbers of our own: nobody can choose them so that they collide.
type ByNumber<K, V> = HashMap<K, V, FixedState>;

/// Who calls.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CallerId {
    /// Any number that is this caller's alone.
    pub number: u64,
    /// Whether a call of it was answered before.
    pub is_known: bool,
}

impl CallerId {
    /// A caller who was answered before.
    #[must_use]
    pub const fn known(number: u64) -> Self {
        Self { number, is_known: true }
    }
}

/// A call that is to wait, as the queue sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueuedCall {
    /// Who calls.
    pub caller: CallerId,
    /// The call's class.
    pub priority: Priority,
    /// Earlier ones go first among the calls of a round.
    pub deadline: Instant,
    /// The last moment at which the call is still worth beginning.
    pub until: Instant,
}

/// Names one waiting call for as long as it waits. Keys are never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WaitKey(u64);

/// What came of a call that was to wait.
#[derive(Debug, Eq, PartialEq)]
pub enum Pushed<T> {
    /// It waits.
    Waits(WaitKey),
    /// It waits, and this other call gave way to it.
    Displaces(WaitKey, Displaced<T>),
    /// The queue is full, and no call in it has less of a right to be there.
    Refused(T),
}

/// A call that gave way to another.
#[derive(Debug, Eq, PartialEq)]
pub struct Displaced<T> {
    /// Its key until now.
    pub key: WaitKey,
    /// The call.
    pub item: T,
}

/// Calls that wait.
#[derive(Debug)]
pub struct Queue<T> {
    max_len: usize,
    next_key: u64,
    calls: ByNumber<WaitKey, (QueuedCall, T)>,
    /// One for each priority once a call has waited, and none before: there is a queue for each of
    /// thousands of endpoints, and most of them are never needed.
    classes: Vec<Class>,
    expiries: BTreeSet<(Instant, WaitKey)>,
}

/// The calls of one priority.
#[derive(Debug, Default)]
struct Class {
    /// The round that is being served.
    round: u64,
    len: usize,
    callers: ByNumber<u64, QueuedCaller>,
    orders: CallerOrders,
    /// The last round in which newcomers have their first turn, and how many have.
    round_of_new: (u64, usize),
}

/// The callers of a class in their orders.
#[derive(Debug, Default)]
struct CallerOrders {
    /// By the caller's next round, then by its first call.
    turns: BTreeSet<(u64, Instant, WaitKey, u64)>,
    /// Those of whom several calls wait, by how many.
    several: BTreeSet<(usize, u64)>,
    /// Those who are not known, by the round of their next call.
    newcomers: BTreeSet<(u64, u64)>,
}

/// A caller of whom calls wait.
#[derive(Debug)]
struct QueuedCaller {
    is_newcomer: bool,
    /// The round in which its next call is served.
    round: u64,
    /// Its first call by deadline. Most have no other.
    first: (Instant, WaitKey),
    more: BTreeSet<(Instant, WaitKey)>,
}

impl<T> Queue<T> {
    /// An empty queue for at most `max_len` calls.
    #[must_use]
    pub fn new(max_len: usize) -> Self {
        Self {
            max_len,
            next_key: 0,
            calls: ByNumber::default(),
            classes: Vec::new(),
            expiries: BTreeSet::new(),
        }
    }

    /// How many calls wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether no call waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether calls of the same caller wait in the same class.
    #[must_use]
    pub fn has_others_of(&self, entry: &QueuedCall) -> bool {
        let class = self.classes.get(entry.priority as usize);
        class.is_some_and(|class| class.callers.contains_key(&entry.caller.number))
    }

    /// How many callers have more than one call waiting in this class. Counts no further than to
    /// `at_most`.
    #[must_use]
    pub fn n_with_several(&self, priority: Priority, at_most: usize) -> usize {
        let class = self.classes.get(priority as usize);
        class.map_or(0, |class| class.orders.several.iter().take(at_most).count())
    }

    /// About how many calls would go before this one, if it came now. Counts no further than to
    /// `at_most`, so that the answer costs no more than that.
    #[must_use]
    pub fn n_ahead(&self, entry: &QueuedCall, at_most: usize) -> usize {
        let own = entry.priority as usize;
        let Some(class) = self.classes.get(own) else { return 0 };
        let n_better: usize = self.classes[..own].iter().map(|class| class.len).sum();
        let n_left = at_most.saturating_sub(n_better);
        (n_better + class.n_ahead(entry, n_left)).min(at_most)
    }

    /// Lets a call wait, if there is room or another has to give way to it.
    pub fn push(&mut self, entry: QueuedCall, item: T) -> Pushed<T> {
        let displaced = match self.calls.len() < self.max_len {
            true => None,
            false => {
                match self.displaced_by(&entry).and_then(|key| self.take(key, Leaves::Unserved)) {
                    Some(displaced) => Some(displaced),
                    None => return Pushed::Refused(item),
                }
            }
        };
        let key = WaitKey(self.next_key);
        self.next_key += 1;
        if self.classes.is_empty() {
            self.classes.resize_with(N_CLASSES, Class::default);
        }
        self.classes[entry.priority as usize].insert(&entry, key);
        self.expiries.insert((entry.until, key));
        self.calls.insert(key, (entry, item));
        match displaced {
            Some(displaced) => Pushed::Displaces(key, displaced),
            None => Pushed::Waits(key),
        }
    }

    /// The call whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let key = self.classes.iter().find_map(Class::next)?;
        self.take(key, Leaves::Served).map(|taken| taken.item)
    }

    /// The deadline of the call whose turn it is.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let class = self.classes.iter().find(|class| 0 < class.len)?;
        class.orders.turns.first().map(|&(_, deadline, ..)| deadline)
    }

    /// Takes out the call whose turn it is, which is not served.
    pub fn drop_next(&mut self) -> Option<T> {
        let key = self.classes.iter().find_map(Class::next)?;
        self.cancel(key)
    }

    /// All calls that wait and their deadlines, in about the order in which they are served. Costs
    /// O(n log n).
    #[must_use]
    pub fn in_order(&self) -> Vec<(WaitKey, Instant)> {
        self.classes.iter().flat_map(Class::in_order).collect()
    }

    /// Until when a call that waits is worth beginning.
    pub fn set_until(&mut self, key: WaitKey, until: Instant) {
        let Some((entry, _)) = self.calls.get_mut(&key) else { return };
        self.expiries.remove(&(entry.until, key));
        entry.until = until;
        self.expiries.insert((until, key));
    }

    /// A call that it is too late to begin at `now`.
    pub fn pop_expired(&mut self, now: Instant) -> Option<T> {
        let &(until, key) = self.expiries.first()?;
        if now <= until {
            return None;
        }
        self.take(key, Leaves::Unserved).map(|taken| taken.item)
    }

    /// The last moment of the call that expires first.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        self.expiries.first().map(|(until, _)| *until)
    }

    /// Takes a call out whose caller has gone away; `None` if it no longer waits.
    pub fn cancel(&mut self, key: WaitKey) -> Option<T> {
        self.take(key, Leaves::Unserved).map(|taken| taken.item)
    }

    fn take(&mut self, key: WaitKey, leaves: Leaves) -> Option<Displaced<T>> {
        let (entry, item) = self.calls.remove(&key)?;
        self.expiries.remove(&(entry.until, key));
        self.classes[entry.priority as usize].remove(&entry, key, leaves);
        Some(Displaced { key, item })
    }

    /// Which call has to give way to one that comes while the queue is full.
    fn displaced_by(&self, entry: &QueuedCall) -> Option<WaitKey> {
        let own = entry.priority as usize;
        let worst = (own..self.classes.len()).rev().find(|class| 0 < self.classes[*class].len)?;
        let class = &self.classes[worst];
        let (len, caller) = class.most_calls()?;
        let n_own = class.callers.get(&entry.caller.number).map_or(0, QueuedCaller::len);
        // One more than the other would have: or the two would displace each other in turns.
        let gives_way = match worst != own || n_own + 1 < len {
            true => caller,
            false if entry.caller.is_known && n_own == 0 => class.orders.newcomers.last()?.1,
            false => return None,
        };
        class.callers.get(&gives_way).map(QueuedCaller::last)
    }
}

/// Why a call waits no longer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Leaves {
    /// It was its turn, and its caller's next one comes in the round after.
    Served,
    /// Its caller keeps the turn.
    Unserved,
}

impl Class {
    /// The caller's own earlier calls each take a round, and in the round of this one the others
    /// go first whose deadline is earlier.
    fn n_ahead(&self, entry: &QueuedCall, at_most: usize) -> usize {
        let own = self.callers.get(&entry.caller.number);
        let n_rounds = own.map_or(0, |own| {
            own.calls().take(at_most).take_while(|call| call.0 <= entry.deadline).count()
        });
        let round = own.map_or_else(|| self.first_round(entry.caller).0, |own| own.round);
        let until = (round, entry.deadline, WaitKey(u64::MAX), u64::MAX);
        let turns = &self.orders.turns;
        // Who comes last mostly goes last: then it is faster to count the few who go after it.
        let n_after = turns.range(until..).take(FEW).count();
        let n_in_round = match n_after < FEW {
            true => turns.len() - n_after,
            false => turns.range(..=until).take(at_most).count(),
        };
        let n_others = n_rounds.saturating_mul(self.callers.len().saturating_sub(1));
        self.len.min(n_rounds.saturating_add(n_others).max(n_in_round))
    }

    /// In which round somebody is served who comes now, and how many newcomers have their first
    /// turn by then in that round. It is the next one for who is known: in this one it may have
    /// been served already.
    fn first_round(&self, caller: CallerId) -> (u64, usize) {
        let next = self.round + 1;
        match self.round_of_new {
            _ if caller.is_known => (next, 0),
            (round, _) if round < next => (next, 1),
            (round, n) if n < NEWCOMERS_PER_ROUND => (round, n + 1),
            (round, _) => (round + 1, 1),
        }
    }

    /// The call whose turn it is.
    fn next(&self) -> Option<WaitKey> {
        self.orders.turns.first().map(|&(_, _, key, _)| key)
    }

    fn in_order(&self) -> Vec<(WaitKey, Instant)> {
        let calls = self.callers.values().flat_map(|caller| {
            let rounds = caller.round..;
            rounds.zip(caller.calls()).map(|(round, &(deadline, key))| (round, deadline, key))
        });
        let mut calls: Vec<_> = calls.collect();
        calls.sort_unstable();
        calls.into_iter().map(|(_, deadline, key)| (key, deadline)).collect()
    }

    /// The most calls that wait of one caller, and whose.
    fn most_calls(&self) -> Option<(usize, u64)> {
        let one_each = || self.orders.turns.last().map(|&(_, _, _, caller)| (1, caller));
        self.orders.several.last().copied().or_else(one_each)
    }

    fn insert(&mut self, entry: &QueuedCall, key: WaitKey) {
        self.len += 1;
        let (round, n_new) = self.first_round(entry.caller);
        let CallerId { number, is_known } = entry.caller;
        let call = (entry.deadline, key);
        match self.callers.entry(number) {
            Entry::Occupied(mut caller) => {
                let caller = caller.get_mut();
                self.orders.remove(number, caller);
                caller.add(call);
                self.orders.add(number, caller);
            }
            Entry::Vacant(place) => {
                if !is_known {
                    self.round_of_new = (round, n_new);
                }
                let more = BTreeSet::new();
                let caller = QueuedCaller { is_newcomer: !is_known, round, first: call, more };
                self.orders.add(number, place.insert(caller));
            }
        }
    }

    fn remove(&mut self, entry: &QueuedCall, key: WaitKey, leaves: Leaves) {
        let number = entry.caller.number;
        let Entry::Occupied(mut caller) = self.callers.entry(number) else { return };
        self.len -= 1;
        self.orders.remove(number, caller.get());
        if leaves == Leaves::Served {
            self.round = caller.get().round;
            caller.get_mut().round += 1;
        }
        match caller.get_mut().take((entry.deadline, key)) {
            true => self.orders.add(number, caller.get()),
            false => _ = caller.remove(),
        }
    }
}

impl CallerOrders {
    fn add(&mut self, number: u64, caller: &QueuedCaller) {
        let (deadline, key) = caller.first;
        self.turns.insert((caller.round, deadline, key, number));
        if !caller.more.is_empty() {
            self.several.insert((caller.len(), number));
        }
        if caller.is_newcomer {
            self.newcomers.insert((caller.round, number));
        }
    }

    fn remove(&mut self, number: u64, caller: &QueuedCaller) {
        let (deadline, key) = caller.first;
        self.turns.remove(&(caller.round, deadline, key, number));
        if !caller.more.is_empty() {
            self.several.remove(&(caller.len(), number));
        }
        if caller.is_newcomer {
            self.newcomers.remove(&(caller.round, number));
        }
    }
}

impl QueuedCaller {
    fn len(&self) -> usize {
        1 + self.more.len()
    }

    /// Its calls by deadline.
    fn calls(&self) -> impl Iterator<Item = &(Instant, WaitKey)> {
        iter::once(&self.first).chain(&self.more)
    }

    fn last(&self) -> WaitKey {
        self.more.last().unwrap_or(&self.first).1
    }

    fn add(&mut self, call: (Instant, WaitKey)) {
        let later = self.first.max(call);
        self.first = self.first.min(call);
        self.more.insert(later);
    }

    /// Takes a call out; whether others are left.
    fn take(&mut self, call: (Instant, WaitKey)) -> bool {
        if call != self.first {
            self.more.remove(&call);
            return true;
        }
        match self.more.pop_first() {
            Some(next) => {
                self.first = next;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests;
