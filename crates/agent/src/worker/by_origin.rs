//! Who waits, by where they came from.
//!
//! Origins take turns, so that one who comes from another does not wait for a crowd. Half of those
//! of one origin are those who came first. The others are those who have had least so far, and of
//! these who came last: who comes while a crowd waits need not wait for all of it.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

/// So many are compared.
const N_COMPARED: usize = 64;

/// Who waits.
#[derive(Debug)]
pub(super) struct ByOrigin<T> {
    lines: BTreeMap<IpAddr, Line<T>>,
    turns: VecDeque<IpAddr>,
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

    /// Adds one from an address, who has had so many turns so far.
    pub(super) fn push(&mut self, address: IpAddr, n_turns: u8, item: T) {
        let origin = origin(address);
        let line = self.lines.entry(origin).or_insert_with(|| {
            self.turns.push_back(origin);
            Line::new()
        });
        line.items.push_back((n_turns, item));
    }

    /// How many there are from where an address is.
    pub(super) fn len_from(&self, address: IpAddr) -> usize {
        self.lines.get(&origin(address)).map_or(0, |line| line.items.len())
    }

    /// The next: of each origin by turns who came first and who came last.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.pop_unless(|_| false)
    }

    /// The next of an origin that need not wait.
    pub(super) fn pop_unless(&mut self, must_wait: impl Fn(IpAddr) -> bool) -> Option<T> {
        let nth = self.turns.iter().position(|origin| !must_wait(*origin))?;
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

/// Those of one origin, with how many turns each has had.
#[derive(Debug)]
struct Line<T> {
    items: VecDeque<(u8, T)>,
    is_turn_of_first: bool,
}

impl<T> Line<T> {
    fn new() -> Self {
        Self { items: VecDeque::new(), is_turn_of_first: false }
    }

    /// By turns who came first and who has had least.
    fn pop(&mut self) -> Option<T> {
        self.is_turn_of_first = !self.is_turn_of_first;
        let nth = if self.is_turn_of_first { 0 } else { self.of_least()? };
        self.items.remove(nth).map(|(_, item)| item)
    }

    /// Which of the last has had least.
    fn of_least(&self) -> Option<usize> {
        let last = self.items.iter().enumerate().rev().take(N_COMPARED);
        last.min_by_key(|(_, (n_turns, _))| *n_turns).map(|(nth, _)| nth)
    }
}

/// Whom an address belongs to: one machine may have all of an IPv6 network of 64 bits.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

    #[test]
    fn who_comes_from_elsewhere_does_not_wait_for_a_crowd() {
        let mut waiting = ByOrigin::default();
        (0..50).for_each(|nth| waiting.push(HERE, 0, nth));
        waiting.push(ELSEWHERE, 0, 100);
        waiting.push(ELSEWHERE, 0, 101);
        let order: Vec<i32> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(order[..6], [0, 100, 49, 101, 1, 48]);
        assert_eq!((order.len(), waiting.is_empty(), waiting.lines.len()), (52, true, 0));
    }

    #[test]
    fn who_must_wait_keeps_nobody_else_waiting() {
        let mut waiting = ByOrigin::default();
        for address in [HERE, HERE, ELSEWHERE, HERE, ELSEWHERE] {
            waiting.push(address, 0, address);
        }
        assert_eq!((waiting.len_from(HERE), waiting.len_from(ELSEWHERE)), (3, 2));
        let mut pop = || waiting.pop_unless(|origin| origin == HERE);
        assert_eq!([pop(), pop(), pop()], [Some(ELSEWHERE), Some(ELSEWHERE), None]);
        assert_eq!((waiting.len_from(HERE), waiting.len_from(ELSEWHERE)), (3, 0));
        assert_eq!(waiting.pop(), Some(HERE));
    }

    #[test]
    fn half_are_those_who_have_had_least() {
        let mut waiting = ByOrigin::default();
        for (n_turns, item) in [(9, 'a'), (3, 'b'), (2, 'c'), (9, 'd'), (2, 'e'), (7, 'f')] {
            waiting.push(HERE, n_turns, item);
        }
        let order: String = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(order, "aebcdf");
        // Of a long line those who came last are compared.
        waiting.push(HERE, 0, 'x');
        (0..N_COMPARED).for_each(|_| waiting.push(HERE, 5, 'y'));
        waiting.push(HERE, 1, 'z');
        assert_eq!([waiting.pop(), waiting.pop(), waiting.pop()], ['x', 'z', 'y'].map(Some));
    }

    #[test]
    fn a_network_of_ipv6_is_one_origin() {
        let origin = |text: &str| origin(text.parse().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::2:3:4:5"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_ne!(origin("10.0.0.1"), origin("10.0.0.2"));
        assert_eq!(origin("10.0.0.1"), origin("::ffff:10.0.0.1"));
    }
}
