use super::*;

fn flight(counted: CallCounter) -> Box<Flight> {
    let to = ReplyTo {
        id: 1,
        serialization: dubbo_proto::Serialization::Hessian2,
        takes_attachments: false,
    };
    Box::new(Flight {
        to,
        started: Instant::now(),
        deadline: Instant::now(),
        counted,
        sent: CallLocation::Nowhere,
        again: None,
        reply_len: None,
        entry: None,
    })
}

/// Whoever was given a number finds his own call there, or none.
#[test]
fn a_number_is_used_again_only_when_its_call_has_ended() {
    let mut flights = Flights::default();
    let (first, second) = (flights.reserve(), flights.reserve());
    assert_ne!(first, second);
    flights.put(first, flight(CallCounter::Elsewhere));
    assert!(flights.take(second).is_none(), "nothing was kept under it");
    assert_ne!(flights.reserve(), first, "its call has not ended");
    assert!(flights.take(first).is_some());
    assert!(flights.take(first).is_none(), "a call ends once");
    assert_eq!(flights.reserve(), first);
}

#[test]
fn numbers_of_calls_that_were_not_sent_are_free_again() {
    let mut flights = Flights::default();
    let number = flights.reserve();
    flights.release(number);
    assert_eq!(flights.reserve(), number);
    flights.release(u32::MAX);
    assert_eq!(flights.reserve(), number + 1, "what was never reserved is no number");
}

#[test]
fn all_calls_are_given_up_together() {
    let mut flights = Flights::default();
    for _ in 0..3 {
        let number = flights.reserve();
        flights.put(number, flight(CallCounter::Elsewhere));
    }
    let unsent = flights.reserve();
    assert_eq!(flights.take_all().len(), 3);
    assert!(flights.take(0).is_none() && flights.take(unsent).is_none());
}
