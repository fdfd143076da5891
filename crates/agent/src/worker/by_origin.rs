//! Who waits, by where they came from.
//!
//! Origins take turns, so that one who comes from another does not wait for a crowd. Half of those
//! of one origin are those who came last: who comes while a crowd waits need not wait for all of
//! it.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

/// A crowd may come from any number of origins. So many are looked at for one that need not wait,
/// and others the next time.
const N_LOOKED_AT: usize = 64;

/// Where somebody comes from: an address, or all of an IPv6 network of 64 bits, which one machine
/// may have.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into()
            }
        })
    }
}

/// Who waits.
#[derive(Debug)]
pub(super) struct ByOrigin<T> {
    lines: BTreeMap<Origin, OriginLine<T>>,
    turns: VecDeque<Origin>,
}

impl<T> Default for ByOrigin<T> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), turns: VecDeque::new() }
    }
}

impl<T> ByOrigin<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Adds one from an origin.
    pub(super) fn push(&mut self, origin: Origin, item: T) {
        let line = self.lines.entry(origin).or_insert_with(|| {
            self.turns.push_back(origin);
            OriginLine::new()
        });
        line.items.push_back(item);
    }

    /// How many there are from there.
    pub(super) fn len_from(&self, origin: Origin) -> usize {
        self.lines.get(&origin).map_or(0, |line| line.items.len())
    }

    /// Whether it is so of all origins that have the next turns.
    pub(super) fn all(&self, is_so: impl Fn(Origin) -> bool) -> bool {
        self.turns.iter().take(N_LOOKED_AT).all(|origin| is_so(*origin))
    }

    /// The next of an origin that need not wait, of those that have the next turns: of each by
    /// turns who came first and who came last.
    pub(super) fn pop_unless(&mut self, must_wait: impl Fn(Origin) -> bool) -> Option<T> {
        let mut next = self.turns.iter().take(N_LOOKED_AT);
        let Some(nth) = next.position(|origin| !must_wait(*origin)) else {
            self.turns.rotate_left(N_LOOKED_AT.min(self.turns.len()));
            return None;
        };
        let origin = self.turns.remove(nth)?;
        let line = self.lines.get_mut(&origin)?;
        let popped = line.pop();
        match line.items.is_empty() {
            true => drop(self.lines.remove(&origin)),
            false => self.turns.push_back(origin),
        }
        popped
    }
}

/// Those of one origin.
#[derive(Debug)]
struct OriginLine<T> {
    items: VecDeque<T>,
    is_turn_of_last: bool,
}

impl<T> OriginLine<T> {
    fn new() -> Self {
        Self { items: VecDeque::new(), is_turn_of_last: true }
    }

    /// By turns who came first and who came last.
    fn pop(&mut self) -> Option<T> {
        self.is_turn_of_last = !self.is_turn_of_last;
        match self.is_turn_of_last {
            true => self.items.pop_back(),
            false => self.items.pop_front(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use std::cell::Cell;

    use super::*;

    const HERE: Origin = Origin(IpAddr::V4(Ipv4Addr::LOCALHOST));
    const ELSEWHERE: Origin = Origin(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)));

    fn pop<T>(waiting: &mut ByOrigin<T>) -> Option<T> {
        waiting.pop_unless(|_| false)
    }

    #[test]
    fn who_comes_from_elsewhere_does_not_wait_for_a_crowd() {
        let mut waiting = ByOrigin::default();
        (0..50).for_each(|nth| waiting.push(HERE, nth));
        waiting.push(ELSEWHERE, 100);
        waiting.push(ELSEWHERE, 101);
        let order: Vec<i32> = std::iter::from_fn(|| pop(&mut waiting)).collect();
        assert_eq!(order[..6], [0, 100, 49, 101, 1, 48]);
        assert_eq!((order.len(), waiting.is_empty(), waiting.lines.len()), (52, true, 0));
    }

    #[test]
    fn who_must_wait_keeps_nobody_else_waiting() {
        let mut waiting = ByOrigin::default();
        for origin in [HERE, HERE, ELSEWHERE, HERE, ELSEWHERE] {
            waiting.push(origin, origin);
        }
        assert_eq!((waiting.len_from(HERE), waiting.len_from(ELSEWHERE)), (3, 2));
        assert!(!waiting.all(|origin| origin == HERE));
        let mut pop_elsewhere = || waiting.pop_unless(|origin| origin == HERE);
        let popped = [pop_elsewhere(), pop_elsewhere(), pop_elsewhere()];
        assert_eq!(popped, [Some(ELSEWHERE), Some(ELSEWHERE), None]);
        assert_eq!((waiting.len_from(HERE), waiting.len_from(ELSEWHERE)), (3, 0));
        assert!(waiting.all(|origin| origin == HERE) && !waiting.all(|_| false));
        assert_eq!(pop(&mut waiting), Some(HERE));
    }

    #[test]
    fn a_crowd_of_many_origins_is_looked_at_by_parts() {
        let origin = |nth: usize| Origin(IpAddr::V6(Ipv6Addr::from((nth as u128) << 64)));
        let mut waiting = ByOrigin::default();
        (0..=2 * N_LOOKED_AT).for_each(|nth| waiting.push(origin(nth), nth));
        let n_asked = Cell::new(0);
        let is_in_crowd = |other| {
            n_asked.set(n_asked.get() + 1);
            other != origin(2 * N_LOOKED_AT)
        };
        let mut pop = || (waiting.pop_unless(is_in_crowd), n_asked.take());
        assert_eq!((pop(), pop()), ((None, N_LOOKED_AT), (None, N_LOOKED_AT)));
        assert_eq!(pop(), (Some(2 * N_LOOKED_AT), 1));
        assert!(waiting.all(is_in_crowd) && n_asked.get() == N_LOOKED_AT);
    }

    #[test]
    fn a_network_of_ipv6_is_one_origin() {
        let origin = |text: &str| Origin::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::2:3:4:5"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_ne!(origin("10.0.0.1"), origin("10.0.0.2"));
        assert_eq!(origin("10.0.0.1"), origin("::ffff:10.0.0.1"));
    }
}
