use proptest::prelude::*;

use super::*;
use crate::queue::{CallerId, Priority};

const MS: Duration = Duration::from_millis(1);

fn arrival(caller: u64, deadline: Instant) -> Arrival {
    Arrival { caller: CallerId::known(caller), priority: Priority::Normal, deadline }
}

/// A gate whose app answers in 50 ms.
fn gate(limit: u32, start: Instant) -> Gate<u32> {
    let mut gate = Gate::new(LinePolicy::default(), limit, start);
    let pass = gate.enter(start).expect("room");
    gate.leave(pass, start + 50 * MS, Left::Answered(50 * MS));
    gate
}

#[test]
fn lets_in_makes_wait_and_sheds() {
    let start = crate::test_start();
    let now = start + 50 * MS;
    let mut gate = gate(1, start);
    let pass = gate.enter(now).expect("room");
    assert_eq!(gate.enter(now), None);
    // Not even an answer as fast as the fastest would come in time.
    assert_eq!(gate.wait(now, arrival(1, now + 49 * MS), 1), Err((Shed::Late, 1)));
    // There would be time if it began now, but it would begin after 50 ms.
    assert_eq!(gate.wait(now, arrival(1, now + 99 * MS), 2), Err((Shed::Late, 2)));
    assert!(gate.wait(now, arrival(1, now + 500 * MS), 3).is_ok());
    assert!(gate.wait(now, arrival(1, now + 500 * MS), 4).is_ok());
    // There is room for a third only after 150 ms, longer than a burst may last.
    assert_eq!(gate.wait(now, arrival(1, now + 500 * MS), 5), Err((Shed::Busy, 5)));
    assert_eq!((gate.poll_shed(now), gate.poll_admitted(now)), (None, None));
    gate.leave(pass, now + 50 * MS, Left::Answered(50 * MS));
    let (item, pass) = gate.poll_admitted(now + 50 * MS).expect("the first that waits");
    assert_eq!(
        (item, gate.stats()),
        (3, GateStats { limit: 1, in_flight: 1, n_own: 1, n_waiting: 1 })
    );
    assert_eq!(gate.poll_timeout(), Some(now + 450 * MS));
    assert_eq!(gate.poll_shed(now + 451 * MS), Some((4, Shed::Late)));
    gate.leave(pass, now + 451 * MS, Left::Unknown);
    assert_eq!(gate.stats(), GateStats { limit: 1, in_flight: 0, n_own: 0, n_waiting: 0 });
}

#[test]
fn a_late_thread_costs_no_capacity_and_is_asked_again() {
    let start = crate::test_start();
    let mut gate = gate(2, start);
    let now = start + 50 * MS;
    let first = gate.enter(now).expect("room");
    assert!(!gate.may_be_rejected(), "a thread is free");
    let second = gate.enter(now).expect("room");
    assert!(gate.may_be_rejected());
    gate.leave(first, now, Left::Answered(MS));
    let next = gate.enter(now).expect("room");
    let (mut repeats, deadline) = (Repeats::default(), now + 500 * MS);
    assert_eq!(gate.repeat_at(now, deadline, &mut repeats), Some(now));
    assert_eq!(gate.repeat_at(now, deadline, &mut repeats), Some(now + MS));
    assert!(gate.enter(now).is_none(), "it keeps its place");
    gate.leave(next, now + 2 * MS, Left::Answered(2 * MS));
    gate.leave(second, now + 2 * MS, Left::Unknown);
    let sample = gate.take_sample(now + 2 * MS);
    assert_eq!((sample.n_rejected, gate.stats().limit), (0, 2));
    let _next = gate.enter(now).expect("room");
    assert!(gate.may_be_rejected(), "the threads of both may be late");
    gate.take_sample(now);
    gate.take_sample(now);
    assert!(!gate.may_be_rejected());
}

/// The first call opens the connection, or starts the app.
#[test]
fn a_first_answer_that_was_slow_is_not_the_fastest_as_soon_as_others_come() {
    let start = crate::test_start();
    let mut gate = Gate::<u32>::new(LinePolicy::default(), 1, start);
    let slow = gate.enter(start).expect("room");
    let now = start + 600 * MS;
    gate.leave(slow, now, Left::Answered(600 * MS));
    assert!(!gate.pace().is_sure);
    let next = gate.enter(now).expect("room");
    gate.leave(next, now + 50 * MS, Left::Answered(50 * MS));
    let Pace { usual, least, is_sure, .. } = gate.pace();
    assert_eq!((least, is_sure), (50 * MS, true));
    // It is soon enough for one that waits behind a single call.
    assert!(usual + least < 620 * MS, "{usual:?}");
}

/// Else the next lender would lend what they use, and take their ends for those of its own calls.
#[test]
fn calls_by_credits_are_like_all_others_once_nothing_is_lent_any_more() {
    let now = crate::test_start();
    let mut gate = gate(3, now);
    let link = NonZeroU64::MIN;
    let lent = [(); 2].map(|()| gate.enter_lent(now, link, || true).expect("room"));
    gate.set_own_limit(1);
    assert_eq!((gate.own().in_flight, gate.lent_to(&lent[0])), (0, Some(link)));
    gate.end_lending();
    gate.set_limit(3, 3.0);
    assert_eq!((gate.own().in_flight, gate.lent_to(&lent[0])), (2, None));
    let next = gate.enter_lent(now, link, || true).expect("room");
    assert_eq!((gate.enter(now), gate.lent_to(&next)), (None, Some(link)));
    lent.into_iter().for_each(|pass| gate.leave(pass, now, Left::Unknown));
    assert_eq!((gate.stats().in_flight, gate.own().in_flight), (1, 0));
    assert!(gate.enter(now).is_some());
}

#[test]
fn a_burst_may_wait_longer_than_a_queue_that_stays() {
    let start = crate::test_start();
    let mut now = start + 50 * MS;
    let mut gate = gate(10, start);
    let passes: Vec<Pass> = (0..10).map_while(|_| gate.enter(now)).collect();
    let mut n_waiting = 0;
    let far = now + 10_000 * MS;
    while gate.wait(now, arrival(1, far), 0).is_ok() {
        n_waiting += 1;
    }
    assert_eq!(n_waiting, 20, "there is room for one each 5 ms, for 100 ms");
    now += 101 * MS;
    for pass in passes {
        gate.leave(pass, now, Left::Unknown);
        let Some((_, pass)) = gate.poll_admitted(now) else { continue };
        gate.leave(pass, now, Left::Unknown);
        let Some((_, pass)) = gate.poll_admitted(now) else { continue };
        let _ = pass;
    }
    assert_eq!(gate.wait(now, arrival(1, far), 0).map_err(|(shed, _)| shed).err(), None);
}

proptest! {
    /// Whatever happens, no more calls are in the app than may be; each call ends once.
    #[test]
    fn never_over_the_limit_and_each_call_ends_once(
        steps in prop::collection::vec((0..11u8, 1..4u64, 0..120u32), 1..300),
        max_waiting in 0..20usize,
    ) {
        let start = crate::test_start();
        let mut now = start;
        let policy = LinePolicy { max_waiting, ..LinePolicy::default() };
        let mut gate = Gate::new(policy, 3, now);
        let (mut came, mut ended, mut inside, mut keys) = (0u32, Vec::new(), Vec::new(), Vec::new());
        let (mut limit, mut deadlines) = (3usize, Vec::new());
        for (step, caller, n) in steps {
            match step {
                0..=3 => {
                    let deadline = now + n * MS;
                    deadlines.push(deadline);
                    match gate.enter(now) {
                        Some(pass) => {
                            inside.push((came, pass));
                            prop_assert!(inside.len() <= limit);
                        }
                        None => match gate.wait(now, arrival(caller, deadline), came) {
                            Ok(key) => keys.push(key),
                            Err((_, item)) => ended.push(item),
                        },
                    }
                    came += 1;
                }
                4 | 5 => if let Some((item, pass)) = inside.pop() {
                    let answered = Left::Answered(pass.age(now));
                    let left = [answered, Left::Rejected, Left::Unanswered][n as usize % 3];
                    gate.leave(pass, now, left);
                    ended.push(item);
                },
                6 => {
                    limit = n as usize % 6;
                    gate.set_limit(n % 6, f64::from(n % 6));
                }
                7 => gate.set_own_limit(n % 6),
                8 => gate.end_lending(),
                9 => if let Some(pass) = gate.enter_lent(now, NonZeroU64::MIN, || 0 < n % 3) {
                    deadlines.push(now + 1000 * MS);
                    inside.push((came, pass));
                    came += 1;
                    prop_assert!(inside.len() <= limit);
                },
                _ => {
                    now += n * MS;
                    ended.extend(keys.pop().and_then(|key| gate.cancel(key)));
                }
            }
            while let Some((item, shed)) = gate.poll_shed(now) {
                prop_assert!(shed == Shed::Full || now <= deadlines[item as usize] + 120 * MS);
                ended.push(item);
            }
            while let Some((item, pass)) = gate.poll_admitted(now) {
                prop_assert!(now <= deadlines[item as usize]);
                inside.push((item, pass));
                prop_assert!(inside.len() <= limit);
            }
            prop_assert_eq!(gate.stats().in_flight as usize, inside.len());
            prop_assert!(gate.poll_timeout().is_none_or(|until| now <= until));
        }
        now += 1000 * MS;
        ended.extend(std::iter::from_fn(|| gate.poll_shed(now)).map(|(item, _)| item));
        for (item, pass) in inside {
            let latency = pass.age(now);
            gate.leave(pass, now, Left::Answered(latency));
            ended.push(item);
        }
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..came).collect::<Vec<u32>>());
        prop_assert_eq!(gate.stats().in_flight, 0);
    }
}
