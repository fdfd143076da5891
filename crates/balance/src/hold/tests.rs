//! Lists that shrink, as a registry and its connections may show them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::test_start;

const SECOND: Duration = Duration::from_secs(1);
const POLICY: HoldPolicy = HoldPolicy { time: Duration::from_secs(60), percent: 50 };

fn spec(key: u8) -> EndpointSpec<u8> {
    EndpointSpec { key, weight: 1, warm_up: None }
}

fn held(holder: &Holder<u8>) -> Vec<u8> {
    holder.held().map(|spec| spec.key).collect()
}

fn answers(_: &u8) -> Evidence {
    Evidence::Answers
}

#[test]
fn an_empty_list_is_not_believed_while_connections_answer() {
    let (mut holder, now) = (Holder::new(POLICY), test_start());
    holder.vanished(now, [1, 2, 3].map(spec));
    assert!(holder.decide(now, 0, answers));
    assert_eq!(held(&holder), [1, 2, 3]);
    assert_eq!(holder.holding_since(), Some(now));
    let last = now + POLICY.time - Duration::from_nanos(1);
    assert!(!holder.decide(last, 0, answers));
    assert_eq!(held(&holder), [1, 2, 3]);
    assert!(holder.decide(now + POLICY.time, 0, answers), "the time is over");
    assert!(holder.is_empty() && holder.holding_since().is_none());
}

#[test]
fn a_share_that_is_not_exceeded_is_believed() {
    let (mut holder, now) = (Holder::new(POLICY), test_start());
    holder.vanished(now, [1, 2].map(spec));
    assert!(!holder.decide(now, 2, answers), "half of four is not more than half");
    assert_eq!(held(&holder), [0_u8; 0]);
    assert!(!holder.is_empty(), "their connections stay a while: more may follow");
    holder.decide(now + AT_ONCE, 2, answers);
    assert!(holder.is_empty());
}

#[test]
fn leases_that_end_one_after_the_other_count_together() {
    let (mut holder, now) = (Holder::new(POLICY), test_start());
    for (key, n_alive, expected) in [(1, 2, &[][..]), (2, 1, &[1, 2]), (3, 0, &[1, 2, 3])] {
        let now = now + u32::from(key) * SECOND;
        holder.vanished(now, [spec(key)]);
        assert_eq!(holder.decide(now, n_alive, answers), key != 1);
        assert_eq!(held(&holder), expected);
    }
}

#[test]
fn who_said_goodbye_or_is_down_goes_at_once() {
    let (mut holder, now) = (Holder::new(POLICY), test_start());
    let evidence = |key: &u8| if *key == 1 { Evidence::Gone } else { Evidence::Answers };
    holder.vanished(now, [1, 2].map(spec));
    holder.decide(now, 0, evidence);
    assert_eq!(held(&holder), [2]);
    assert!(holder.decide(now + SECOND, 0, |_| Evidence::Gone));
    assert!(holder.is_empty());
    assert_eq!(held(&holder), [0_u8; 0]);
}

/// One that left in order does not make the others look as if too many had vanished.
#[test]
fn goodbyes_do_not_count() {
    let (mut holder, now) = (Holder::new(POLICY), test_start());
    holder.vanished(now, [1, 2, 3, 4].map(spec));
    let evidence = |key: &u8| if *key < 4 { Evidence::Gone } else { Evidence::Answers };
    holder.decide(now, 1, evidence);
    assert_eq!(held(&holder), [0_u8; 0]);
}

#[test]
fn a_silent_one_is_not_used_until_it_answers() {
    let (mut holder, now) = (Holder::new(POLICY), test_start());
    holder.vanished(now, [1, 2].map(spec));
    let evidence = |key: &u8| if *key == 1 { Evidence::Silent } else { Evidence::Answers };
    holder.decide(now, 0, evidence);
    assert_eq!(held(&holder), [2]);
    assert!(holder.decide(now + SECOND, 0, answers));
    assert_eq!(held(&holder), [1, 2]);
}

#[test]
fn what_is_listed_again_is_not_held() {
    let (mut holder, now) = (Holder::new(POLICY), test_start());
    holder.vanished(now, [1, 2, 3].map(spec));
    holder.decide(now, 0, answers);
    holder.listed(|key| *key == 1);
    holder.decide(now + SECOND, 1, answers);
    assert_eq!(held(&holder), [2, 3]);
    holder.listed(|key| *key <= 2);
    holder.decide(now + SECOND, 2, answers);
    assert_eq!(held(&holder), [0_u8; 0], "the registry is right again");
    holder.decide(now + SECOND + AT_ONCE, 2, answers);
    assert!(holder.is_empty());
}

#[test]
fn no_time_is_off() {
    let policy = HoldPolicy { time: Duration::ZERO, ..POLICY };
    let (mut holder, now) = (Holder::new(policy), test_start());
    holder.vanished(now, [spec(1)]);
    assert!(!holder.decide(now, 0, answers));
    assert!(holder.is_empty());
    // Turned off while something is held.
    holder.set_policy(POLICY);
    holder.vanished(now, [spec(1)]);
    holder.decide(now, 0, answers);
    holder.set_policy(policy);
    assert!(holder.decide(now, 0, answers));
    assert!(holder.is_empty());
}

#[derive(Clone, Debug)]
enum HoldEvent {
    Wait(u16),
    List(BTreeSet<u8>),
    Show(u8, u8),
}

fn step() -> impl Strategy<Value = HoldEvent> {
    prop_oneof![
        (1..20_000_u16).prop_map(HoldEvent::Wait),
        proptest::collection::btree_set(0..6_u8, 0..6).prop_map(HoldEvent::List),
        (0..6_u8, 0..3_u8).prop_map(|(key, evidence)| HoldEvent::Show(key, evidence)),
    ]
}

proptest! {
    /// Whatever registry and connections do: only what answers is held, never longer than
    /// configured, and never what is listed.
    #[test]
    fn holds_only_what_answers_and_not_for_ever(steps in vec(step(), 1..60), percent in 0..100_u8) {
        let policy = HoldPolicy { percent, ..POLICY };
        let (mut holder, mut now) = (Holder::new(policy), test_start());
        let mut listed: BTreeSet<u8> = (0..6).collect();
        let mut vanished_at = BTreeMap::new();
        let (mut shown, mut before) = ([Evidence::Answers; 6], Vec::new());
        for step in steps {
            match step {
                HoldEvent::Wait(ms) => now += Duration::from_millis(ms.into()),
                HoldEvent::Show(key, evidence) => {
                    shown[usize::from(key)] =
                        [Evidence::Answers, Evidence::Silent, Evidence::Gone][usize::from(evidence)];
                }
                HoldEvent::List(list) => {
                    holder.listed(|key| list.contains(key));
                    let gone: Vec<u8> = listed.difference(&list).copied().collect();
                    for key in &list {
                        vanished_at.remove(key);
                    }
                    for key in &gone {
                        vanished_at.insert(*key, now);
                    }
                    holder.vanished(now, gone.into_iter().map(spec));
                    listed = list;
                }
            }
            let evidence = |key: &u8| shown[usize::from(*key)];
            let n_alive = listed.iter().filter(|key| evidence(key) == Evidence::Answers).count();
            let has_changed = holder.decide(now, n_alive, evidence);
            let held = held(&holder);
            prop_assert!(has_changed || before == held);
            before.clone_from(&held);
            for key in &held {
                prop_assert_eq!(evidence(key), Evidence::Answers);
                prop_assert!(now - vanished_at[key] < policy.time);
                prop_assert!(!listed.contains(key));
            }
            prop_assert_eq!(holder.holding_since().is_some(), !held.is_empty());
            let n_unlisted = held.len() * 100;
            let share = usize::from(percent) * (held.len() + n_alive);
            prop_assert!(held.is_empty() || share < n_unlisted);
        }
    }
}
