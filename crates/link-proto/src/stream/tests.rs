//! Tests of flow control: both ends of one direction, without frames.

use super::*;
use crate::Payload;

const FIRST: StreamFrame = StreamFrame { flags: flags::MORE, codec: 3, may_end: true };
const LAST: StreamFrame = StreamFrame { flags: 0, codec: 3, may_end: true };
const END: StreamFrame = StreamFrame { flags: flags::END, codec: 0, may_end: true };

fn frame(part: &ItemPart) -> StreamFrame {
    StreamFrame {
        flags: if part.is_last { 0 } else { flags::MORE },
        codec: part.codec,
        may_end: true,
    }
}

fn receive(
    receiving: &mut Receiving,
    frame: StreamFrame,
    part: &[u8],
) -> Result<Received, LinkError> {
    let mut budget = AssemblyBudget::new(1 << 20);
    assert!(budget.reserve(receiving.reserved()), "what earlier parts reserved");
    receiving.receive(frame, Payload::Slice(part), 1 << 20, &mut budget)
}

fn refused(receiving: &mut Receiving, frame: StreamFrame, part: &[u8]) -> &'static str {
    match receive(receiving, frame, part) {
        Err(LinkError::BadItem { rule }) => rule,
        other => panic!("{other:?}"),
    }
}

#[test]
fn short_items_use_the_window_and_overdraw_by_one_frame() {
    let (mut sending, mut receiving) = (Sending::new(1000, false), Receiving::new(1000));
    let mut n_sent = 0;
    while sending.takes_at_once(84) {
        sending.sent_whole(84);
        receive(&mut receiving, LAST, &[0; 84]).unwrap();
        n_sent += 1;
    }
    assert_eq!(n_sent, 10, "each costs 100");
    assert_eq!(refused(&mut receiving, LAST, b""), "sent without credit");
    for _ in 0..4 {
        receiving.take(84);
        assert_eq!(receiving.take_credit(), None, "less than half of the window");
    }
    receiving.take(84);
    assert_eq!(receiving.take_credit(), Some(500));
    assert!(!sending.can_take() && !sending.take_writable());
    sending.add_credit(500).unwrap();
    assert!(sending.take_writable() && !sending.take_writable(), "told once");
    sending.sent_whole(MAX_PART_LEN);
    assert!(!sending.can_take());
    receive(&mut receiving, LAST, &[0; MAX_PART_LEN]).unwrap();
    assert_eq!(refused(&mut receiving, LAST, b""), "sent without credit");
    sending.check_invariants();
    receiving.check_invariants();
}

#[test]
fn empty_items_cost_their_header() {
    let mut receiving = Receiving::new(160);
    for _ in 0..10 {
        assert!(matches!(receive(&mut receiving, LAST, b""), Ok(Received::Item { .. })));
    }
    assert_eq!(refused(&mut receiving, LAST, b""), "sent without credit");
}

/// A long item passes a small window, but the next waits until it was taken.
#[test]
fn parts_are_given_back_as_they_come_and_the_whole_is_taken_once() {
    let (mut sending, mut receiving) = (Sending::new(20_000, false), Receiving::new(20_000));
    let mut budget = AssemblyBudget::new(1 << 20);
    let item: Bytes = (0..300_000_u32).map(|i| i.to_be_bytes()[3]).collect();
    sending.keep(7, item.clone());
    let mut n_parts = 0;
    let seen = loop {
        let part = sending.next_part().expect("credit for the next part");
        n_parts += 1;
        let received = receiving.receive(
            frame(&part),
            Payload::Bytes(part.payload.clone()),
            1 << 20,
            &mut budget,
        );
        assert_eq!(budget.used(), receiving.reserved());
        if let Received::Item { codec: 7, payload } = received.unwrap() {
            break payload;
        }
        if let Some(len) = receiving.take_credit() {
            sending.add_credit(len).unwrap();
        }
    };
    assert_eq!((seen, n_parts), (item, 9));
    assert_eq!((budget.used(), receiving.take_credit()), (0, None));
    // The rest of the window, and one frame more.
    while sending.can_take() {
        sending.sent_whole(10_000);
        receive(&mut receiving, LAST, &[0; 10_000]).unwrap();
        receiving.take(10_000);
        assert_eq!(receiving.take_credit(), None, "the long item was not taken");
    }
    receiving.take(300_000);
    sending.add_credit(receiving.take_credit().unwrap()).unwrap();
    assert_eq!(sending.credit, 20_000, "all is back");
    let more = LinkError::CreditBeyondWindow { credit: 20_001, window: 20_000 };
    assert_eq!(sending.add_credit(1), Err(more));
}

#[test]
fn the_end_is_said_once_and_after_all_items() {
    let mut sending = Sending::new(1000, true);
    sending.keep(0, Bytes::from_static(b"last"));
    sending.end();
    assert!(!sending.take_end() && !sending.wants_turn(), "the request goes first");
    assert_eq!(sending.next_part(), None);
    sending.release();
    assert!(!sending.take_end() && sending.wants_turn(), "the item goes first");
    assert!(sending.next_part().unwrap().is_last);
    assert!(sending.wants_turn() && sending.take_end());
    sending.end();
    assert!(!sending.take_end() && !sending.wants_turn() && !sending.take_writable());
    sending.check_invariants();
}

#[test]
fn frames_that_break_the_rules_are_refused() {
    let mut receiving = Receiving::new(100_000);
    let by_server = StreamFrame { may_end: false, ..END };
    assert_eq!(refused(&mut receiving, by_server, b""), "only a client ends its items");
    let long_end = "the end has neither payload nor MORE";
    assert_eq!(refused(&mut receiving, END, b"x"), long_end);
    let more = StreamFrame { flags: flags::END | flags::MORE, ..END };
    assert_eq!(refused(&mut receiving, more, b""), long_end);
    assert_eq!(refused(&mut receiving, FIRST, b""), "a part that is not the last is empty");
    assert_eq!(receive(&mut receiving, FIRST, b"x"), Ok(Received::Part));
    assert_eq!(refused(&mut receiving, END, b""), "the last item is not whole");
    assert!(matches!(receive(&mut receiving, LAST, b""), Ok(Received::Item { .. })));
    assert_eq!(receive(&mut receiving, END, b""), Ok(Received::End));
    for after in [END, LAST, FIRST] {
        assert_eq!(refused(&mut receiving, after, b""), "nothing may follow the end");
    }
    receiving.take(1);
    assert!(!receiving.owes_credit(), "nobody needs credit after the end");
}

#[test]
fn too_long_items_and_full_budgets_end_the_call_only() {
    let mut budget = AssemblyBudget::new(100);
    let mut parts = |receiving: &mut Receiving, frame, len: usize| {
        receiving.receive(frame, vec![0; len].into(), 1000, &mut budget).unwrap()
    };
    let (mut one, mut other) = (Receiving::new(100_000), Receiving::new(100_000));
    let long = Received::Refused { len: 1001, max: Some(1000) };
    assert_eq!(parts(&mut one, LAST, 1001), long);
    assert_eq!(parts(&mut one, FIRST, 60), Received::Part);
    assert_eq!(parts(&mut other, FIRST, 41), Received::Refused { len: 41, max: None });
    assert_eq!(parts(&mut other, FIRST, 30), Received::Part);
    assert_eq!(parts(&mut other, FIRST, 11), Received::Refused { len: 41, max: None });
    assert_eq!(parts(&mut one, LAST, 941), long);
    assert!(
        matches!(parts(&mut one, LAST, 940), Received::Item { payload, .. } if payload.len() == 1000)
    );
}
