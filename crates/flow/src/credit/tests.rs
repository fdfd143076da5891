use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Holders that return at once what they are told to return.
fn settle(allocator: &mut Allocator<u32>) -> BTreeMap<u32, u32> {
    let mut told = BTreeMap::new();
    while let Some(CreditGrant { holder, credits }) = allocator.poll_change() {
        allocator.returned(holder, credits);
        told.insert(holder, credits);
    }
    told
}

fn with_demands(capacity: u32, demands: &[u32]) -> Allocator<u32> {
    let mut allocator = Allocator::new(capacity);
    for (holder, demand) in (0..).zip(demands) {
        allocator.join(holder);
        allocator.demand(holder, *demand);
    }
    allocator
}

fn rounds(allocator: &mut Allocator<u32>, demands: &[u32], n: usize) {
    for _ in 0..n {
        settle(allocator);
        for (holder, demand) in (0..).zip(demands) {
            allocator.demand(holder, *demand);
        }
        allocator.deal();
    }
    settle(allocator);
}

#[test]
fn shares_by_demand() {
    let demands = [10, 500, 500];
    let mut allocator = with_demands(200, &demands);
    rounds(&mut allocator, &demands, 3);
    let held: Vec<u32> = (0..3).map(|holder| allocator.held_by(holder)).collect();
    assert_eq!(held, [10, 95, 95]);
}

#[test]
fn takes_back_what_lies_unused_and_what_the_lost_held() {
    let mut allocator = with_demands(100, &[100, 0]);
    rounds(&mut allocator, &[100, 0], 2);
    assert_eq!((allocator.held_by(0), allocator.held_by(1)), (100, 0));
    rounds(&mut allocator, &[0, 100], 3);
    assert_eq!((allocator.held_by(0), allocator.held_by(1)), (0, 100));
    allocator.lost(1);
    assert_eq!(allocator.n_held(), 0);
    allocator.demand(0, 60);
    assert_eq!(allocator.poll_change(), Some(CreditGrant { holder: 0, credits: 60 }));
}

#[test]
fn what_is_not_returned_is_not_granted() {
    let mut allocator = with_demands(10, &[10, 10]);
    assert_eq!(settle(&mut allocator), BTreeMap::from([(0, 10)]));
    allocator.demand(0, 10);
    allocator.demand(1, 10);
    allocator.deal();
    assert_eq!(allocator.poll_change(), Some(CreditGrant { holder: 0, credits: 5 }));
    assert_eq!((allocator.poll_change(), allocator.n_held()), (None, 10));
    allocator.returned(0, 7);
    allocator.demand(1, 10);
    assert_eq!(allocator.poll_change(), Some(CreditGrant { holder: 1, credits: 3 }));
    assert_eq!(allocator.n_held(), 10);
}

/// The capacity falls twice before a holder has returned anything: it hears of both.
#[test]
fn what_is_not_returned_yet_is_taken_back_again() {
    let mut allocator = with_demands(64, &[100, 100]);
    settle(&mut allocator);
    for (capacity, share) in [(24, 12), (6, 3), (20, 10)] {
        allocator.set_capacity(capacity);
        (0..2).for_each(|holder| allocator.demand(holder, 100));
        allocator.deal();
        let changes: Vec<_> = std::iter::from_fn(|| allocator.poll_change()).collect();
        assert!(changes.contains(&CreditGrant { holder: 0, credits: share }), "{changes:?}");
    }
}

#[test]
fn credits_rotate_where_there_are_more_holders_than_credits() {
    let demands = [2; 1000];
    let mut allocator = with_demands(200, &demands);
    let mut n_served = vec![0; 1000];
    for _ in 0..20 {
        rounds(&mut allocator, &demands, 1);
        for (holder, n) in (0..).zip(&mut n_served) {
            *n += allocator.held_by(holder);
        }
    }
    assert!(n_served.iter().all(|n| 0 < *n), "{n_served:?}");
}

/// Two workers of an app with five threads, of which one would always have three.
#[test]
fn what_cannot_be_divided_rotates_too() {
    for (capacity, n) in [(5, 2), (8, 3), (11, 7)] {
        let demands = vec![20; n as usize];
        let mut allocator = with_demands(capacity, &demands);
        let mut sums = vec![0; n as usize];
        let n_deals = 100 * n;
        for _ in 0..n_deals {
            rounds(&mut allocator, &demands, 1);
            (0..).zip(&mut sums).for_each(|(holder, sum)| *sum += allocator.held_by(holder));
        }
        let fair = capacity * n_deals / n;
        let is_fair = |sum: &u32| sum.abs_diff(fair) <= fair / 20;
        assert!(sums.iter().all(is_fair), "{sums:?}, fair is {fair}");
    }
    // Where each has many, nobody is told anything for that.
    let demands = [100; 3];
    let mut allocator = with_demands(100, &demands);
    rounds(&mut allocator, &demands, 3);
    for _ in 0..30 {
        (0..).zip(demands).for_each(|(holder, demand)| allocator.demand(holder, demand));
        allocator.deal();
        assert_eq!(allocator.poll_change(), None);
    }
}

proptest! {
    /// No grant exceeds the capacity, whatever holders report, return late, or are lost.
    #[test]
    fn never_more_than_the_capacity(
        steps in prop::collection::vec((0..7u8, 0..12u32, 0..60u32), 1..300),
        capacity in 0..50u32,
    ) {
        let mut allocator = Allocator::new(capacity);
        // What each holder may have in flight, by the latest of what it was told and has not
        // returned.
        let mut model = BTreeMap::<u32, u32>::new();
        let mut capacity = capacity;
        for (step, holder, n) in steps {
            let before: u32 = model.values().sum();
            match step {
                0 => {
                    allocator.join(holder);
                    model.entry(holder).or_default();
                }
                1 | 2 => allocator.demand(holder, n),
                3 => {
                    allocator.lost(holder);
                    model.remove(&holder);
                }
                4 => {
                    allocator.returned(holder, n);
                    if let Some(held) = model.get_mut(&holder) {
                        *held = allocator.held_by(holder);
                    }
                }
                5 => allocator.deal(),
                _ => {
                    capacity = n;
                    allocator.set_capacity(n);
                }
            }
            while let Some(change) = allocator.poll_change() {
                let held = model.get_mut(&change.holder);
                prop_assert!(held.is_some());
                if let Some(held) = held {
                    *held = change.credits.max(*held);
                }
            }
            let after: u32 = model.values().sum();
            prop_assert!(after <= before.max(capacity));
            prop_assert_eq!(after, allocator.n_held());
        }
    }
}

/// Who could not return what others wanted, because its calls went on, gets credits again once the
/// others want nothing.
#[test]
fn who_has_more_in_flight_than_it_was_told_is_not_forgotten() {
    let mut allocator = with_demands(16, &[5, 0, 0, 0]);
    // The first one's five calls go on; the others return what they are told to.
    let mut deal = |demands: [u32; 4], told: &mut [u32; 4]| {
        (0..).zip(demands).for_each(|(holder, demand)| allocator.demand(holder, demand));
        allocator.deal();
        while let Some(CreditGrant { holder, credits }) = allocator.poll_change() {
            told[holder as usize] = credits;
            allocator.returned(holder, if holder == 0 { credits.max(5) } else { credits });
        }
    };
    let mut told = [0; 4];
    deal([5, 0, 0, 0], &mut told);
    (0..3).for_each(|_| deal([5, 30, 30, 30], &mut told));
    assert_eq!(told[0], 4, "its share, of which it has five in use");
    (0..2).for_each(|_| deal([9, 0, 0, 0], &mut told));
    assert!(9 <= told[0], "{told:?}");
}
