use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn entry(start: Instant, caller: u64, priority: Priority, deadline_ms: u64) -> QueuedCall {
    let deadline = start + Duration::from_millis(deadline_ms);
    QueuedCall { caller: CallerId::known(caller), priority, deadline, until: deadline }
}

fn newcomer(start: Instant, number: u64) -> QueuedCall {
    let caller = CallerId { number, is_known: false };
    QueuedCall { caller, ..entry(start, number, Priority::Normal, 10) }
}

fn pushed(queue: &mut Queue<u32>, entry: QueuedCall, item: u32) -> WaitKey {
    match queue.push(entry, item) {
        Pushed::Waits(key) => key,
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_of_one_caller_go_by_deadline() {
    let (start, mut queue) = (crate::test_start(), Queue::new(10));
    for (item, deadline_ms) in [(0, 30), (1, 10), (2, 20)] {
        pushed(&mut queue, entry(start, 1, Priority::Normal, deadline_ms), item);
    }
    assert_eq!(
        [queue.pop(), queue.pop(), queue.pop(), queue.pop()],
        [Some(1), Some(2), Some(0), None]
    );
}

#[test]
fn callers_take_turns_and_the_better_class_goes_first() {
    let (start, mut queue) = (crate::test_start(), Queue::new(10));
    for item in 0..4 {
        pushed(&mut queue, entry(start, 1, Priority::Normal, 10), item);
    }
    pushed(&mut queue, entry(start, 2, Priority::Normal, 90), 10);
    pushed(&mut queue, entry(start, 2, Priority::Normal, 90), 11);
    pushed(&mut queue, entry(start, 3, Priority::High, 99), 20);
    let served: Vec<u32> = std::iter::from_fn(|| queue.pop()).collect();
    assert_eq!(served, [20, 0, 10, 1, 11, 2, 3]);
}

#[test]
fn a_full_queue_gives_way_to_those_with_less() {
    let (start, mut queue) = (crate::test_start(), Queue::new(3));
    for item in 0..3 {
        pushed(&mut queue, entry(start, 1, Priority::Normal, 10 + u64::from(item)), item);
    }
    assert_eq!(queue.push(entry(start, 1, Priority::Normal, 5), 3), Pushed::Refused(3));
    assert_eq!(queue.push(entry(start, 1, Priority::Low, 5), 3), Pushed::Refused(3));
    let Pushed::Displaces(_, gone) = queue.push(entry(start, 2, Priority::Normal, 90), 4) else {
        panic!("the caller with three calls must give way")
    };
    assert_eq!(gone.item, 2);
    assert_eq!(queue.push(entry(start, 2, Priority::Normal, 90), 5), Pushed::Refused(5));
    let Pushed::Displaces(..) = queue.push(entry(start, 1, Priority::High, 90), 6) else {
        panic!("a lower class must give way")
    };
    assert_eq!((queue.len(), queue.pop()), (3, Some(6)));
}

/// However it is counted: those after are few, or those before.
#[test]
fn who_comes_is_told_how_many_go_before() {
    let (start, mut queue) = (crate::test_start(), Queue::new(200));
    for caller in 0..100 {
        let item = u32::try_from(caller).unwrap();
        pushed(&mut queue, entry(start, caller, Priority::Normal, 10 * caller + 5), item);
    }
    for n_before in [0, 1, 50, 83, 84, 85, 99, 100] {
        let new = entry(start, 1000, Priority::Normal, 10 * n_before);
        let n_before = usize::try_from(n_before).unwrap();
        assert_eq!(queue.n_ahead(&new, 1000), n_before);
        assert_eq!(queue.n_ahead(&new, 30), n_before.min(30), "counts no further");
    }
}

#[test]
fn who_is_known_goes_before_a_crowd_of_newcomers_which_goes_on() {
    let (start, mut queue) = (crate::test_start(), Queue::new(2000));
    for item in 0..1000 {
        pushed(&mut queue, newcomer(start, u64::from(item)), item);
    }
    let one = entry(start, 5000, Priority::Normal, 90);
    assert!(queue.n_ahead(&one, 1000) <= NEWCOMERS_PER_ROUND);
    assert_eq!(queue.n_ahead(&newcomer(start, 4000), 2000), 1000);
    // Whoever calls again and again has a turn in each round, and so have newcomers.
    for round in 0..10 {
        pushed(&mut queue, entry(start, 5000, Priority::Normal, 90), 5000);
        let n_before = std::iter::from_fn(|| queue.pop()).take_while(|item| *item != 5000).count();
        assert_eq!(n_before, NEWCOMERS_PER_ROUND, "round {round}");
    }
    let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).collect();
    assert!(order.is_sorted() && order.len() == 1000 - 10 * NEWCOMERS_PER_ROUND, "{order:?}");
}

#[test]
fn a_queue_full_of_newcomers_has_room_for_who_is_known() {
    let (start, mut queue) = (crate::test_start(), Queue::new(40));
    for item in 0..40 {
        pushed(&mut queue, newcomer(start, u64::from(item)), item);
    }
    assert_eq!(queue.push(newcomer(start, 99), 99), Pushed::Refused(99));
    let Pushed::Displaces(_, gone) = queue.push(entry(start, 50, Priority::Normal, 90), 50) else {
        panic!("the last newcomer must give way")
    };
    assert!(2 * NEWCOMERS_PER_ROUND <= gone.item as usize, "{gone:?}");
    // Those who have a call waiting displace nobody.
    assert_eq!(queue.push(entry(start, 50, Priority::Normal, 90), 51), Pushed::Refused(51));
}

#[test]
fn what_is_too_late_comes_out_and_what_is_cancelled_is_gone() {
    let (start, mut queue) = (crate::test_start(), Queue::new(3));
    let key = pushed(&mut queue, entry(start, 1, Priority::Normal, 10), 1);
    pushed(&mut queue, entry(start, 1, Priority::Normal, 20), 2);
    assert_eq!(queue.cancel(key), Some(1));
    assert_eq!(queue.cancel(key), None);
    let late = start + Duration::from_millis(20);
    assert_eq!((queue.next_expiry(), queue.pop_expired(late)), (Some(late), None));
    assert_eq!(queue.pop_expired(late + Duration::from_nanos(1)), Some(2));
    assert!(queue.is_empty() && queue.classes.iter().all(|class| class.callers.is_empty()));
}

fn any_priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(Priority::High), Just(Priority::Normal), Just(Priority::Low)]
}

proptest! {
    /// Each call comes out once; the orders agree with each other all the time.
    #[test]
    fn every_call_comes_out_once(
        steps in prop::collection::vec(
            (0..5u8, 0..6u64, any_priority(), 0..50u64, any::<bool>()), 1..200,
        ),
        max_len in 0..20usize,
    ) {
        let start = crate::test_start();
        let mut queue = Queue::new(max_len);
        let (mut came, mut left, mut keys) = (0, Vec::new(), Vec::new());
        let mut now = start;
        for (step, caller, priority, ms, is_known) in steps {
            match step {
                0..=2 => {
                    let mut entry = entry(now, caller, priority, ms);
                    entry.caller.is_known = is_known;
                    match queue.push(entry, came) {
                        Pushed::Waits(key) => keys.push(key),
                        Pushed::Displaces(key, gone) => {
                            keys.push(key);
                            left.push(gone.item);
                        }
                        Pushed::Refused(item) => left.push(item),
                    }
                    came += 1;
                }
                3 => left.extend(queue.pop()),
                _ => {
                    now += Duration::from_millis(ms);
                    left.extend(std::iter::from_fn(|| queue.pop_expired(now)));
                    left.extend(keys.pop().and_then(|key| queue.cancel(key)));
                }
            }
            prop_assert!(queue.len() <= max_len);
            prop_assert_eq!(queue.len(), queue.expiries.len());
            prop_assert_eq!(queue.len(), queue.classes.iter().map(|class| class.len).sum());
            for class in &queue.classes {
                let CallerOrders { turns, several, newcomers } = &class.orders;
                let n_of = |is_one: fn(&QueuedCaller) -> bool| {
                    class.callers.values().filter(|caller| is_one(caller)).count()
                };
                prop_assert_eq!(turns.len(), class.callers.len());
                prop_assert_eq!(several.len(), n_of(|caller| 1 < caller.len()));
                prop_assert_eq!(newcomers.len(), n_of(|caller| caller.is_newcomer));
                prop_assert!(class.callers.values().all(|caller| caller.calls().is_sorted()));
            }
        }
        left.extend(std::iter::from_fn(|| queue.pop()));
        left.sort_unstable();
        prop_assert_eq!(left, (0..came).collect::<Vec<u32>>());
    }

    /// While two callers wait, one is never served twice more than the other.
    #[test]
    fn nobody_is_starved(n_greedy in 2..60u32, n_modest in 1..20u32) {
        let start = crate::test_start();
        let mut queue = Queue::new(100);
        for item in 0..n_greedy {
            pushed(&mut queue, entry(start, 1, Priority::Normal, 1), item);
        }
        for item in 0..n_modest {
            pushed(&mut queue, entry(start, 2, Priority::Normal, 9), 100 + item);
        }
        let served: Vec<u32> = std::iter::from_fn(|| queue.pop()).collect();
        let modest = served.iter().position(|item| *item == 99 + n_modest).unwrap();
        prop_assert!(modest <= 2 * n_modest as usize);
    }
}
