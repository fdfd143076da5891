//! An endpoint whose connections, or whose network, carry only so much.

use super::*;
use crate::test_start;

const STEP: Duration = Duration::from_millis(100);

/// A closed loop of callers, whose replies are all the same length.
struct Pipe {
    /// Bytes a second that one connection carries.
    connection_rate: f64,
    /// Bytes a second that all of them carry.
    network_rate: f64,
    /// Bytes a second that the callers would take.
    wanted_rate: f64,
    in_flight: usize,
}

impl Pipe {
    fn activity(&self, n: usize) -> ConnectionUse {
        let n = u32::try_from(n).unwrap();
        // What one connection gets while all of them carry something.
        let rate = self.connection_rate.min(self.network_rate / f64::from(n));
        let carried = self.wanted_rate.min(rate * f64::from(n));
        let seconds = STEP.as_secs_f64();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let bytes = (carried * seconds) as u64;
        let busy = Duration::from_secs_f64(carried / rate * seconds);
        ConnectionUse { busy, bytes, in_flight: self.in_flight }
    }
}

/// A count that looks at a pipe, in steps.
struct WatchedPipe {
    count: ConnectionCount,
    now: Instant,
    n_opened: usize,
    n_closed: usize,
}

impl WatchedPipe {
    fn new(max: usize) -> Self {
        let now = test_start();
        Self { count: ConnectionCount::new(max, now), now, n_opened: 0, n_closed: 0 }
    }

    fn watch(&mut self, pipe: &Pipe, time: Duration) -> usize {
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            match self.count.look(self.now, pipe.activity(self.count.n())) {
                Advice::Stay => {}
                Advice::Open(n) => self.n_opened += n,
                Advice::Close(n) => self.n_closed += n,
            }
        }
        self.count.n()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn connections_are_opened_until_none_is_busy_for_half_of_the_time() {
    let pipe =
        Pipe { connection_rate: 40e6, network_rate: 1e9, wanted_rate: 100e6, in_flight: 800 };
    let mut watched = WatchedPipe::new(8);
    assert_eq!(watched.watch(&pipe, 10 * SECOND), 6, "100 of 240 MB/s, where 5 carry 200");
    assert_eq!(watched.n_closed, 0);
    assert_eq!(watched.watch(&pipe, 60 * SECOND), 6, "and that is where it stays");
}

#[test]
fn there_are_never_more_than_the_limit() {
    let pipe = Pipe { connection_rate: 1e6, network_rate: 1e9, wanted_rate: 1e9, in_flight: 800 };
    for max in [8, 13] {
        assert_eq!(WatchedPipe::new(max).watch(&pipe, 5 * SECOND), max, "twice as many each time");
    }
    assert_eq!(WatchedPipe::new(1).watch(&pipe, 60 * SECOND), 1);
}

#[test]
fn a_full_network_gets_no_more_connections() {
    for wanted_rate in [90e6, 1e9] {
        let pipe =
            Pipe { connection_rate: 100e6, network_rate: 100e6, wanted_rate, in_flight: 800 };
        let mut watched = WatchedPipe::new(8);
        watched.watch(&pipe, 300 * SECOND);
        assert_eq!(watched.n_opened, watched.n_closed, "none of them helped");
        assert!(watched.n_opened <= 5, "tried again ever more seldom: {}", watched.n_opened);
    }
}

#[test]
fn a_caller_on_its_own_gets_no_second_connection() {
    let pipe = Pipe { connection_rate: 40e6, network_rate: 1e9, wanted_rate: 40e6, in_flight: 1 };
    assert_eq!(WatchedPipe::new(8).watch(&pipe, 60 * SECOND), 1);
}

#[test]
fn a_light_load_gets_no_second_connection() {
    let pipe = Pipe { connection_rate: 40e6, network_rate: 1e9, wanted_rate: 19e6, in_flight: 800 };
    assert_eq!(WatchedPipe::new(8).watch(&pipe, 60 * SECOND), 1);
}

#[test]
fn one_long_message_is_no_trend() {
    let long = Pipe { connection_rate: 40e6, network_rate: 1e9, wanted_rate: 40e6, in_flight: 9 };
    let none = Pipe { wanted_rate: 0.0, ..long };
    let mut watched = WatchedPipe::new(8);
    for _ in 0..20 {
        watched.watch(&long, 2 * STEP);
        watched.watch(&none, 4 * STEP);
    }
    assert_eq!(watched.n_opened, 0);
}

#[test]
fn connections_that_nobody_needs_are_closed_one_by_one() {
    let busy =
        Pipe { connection_rate: 40e6, network_rate: 1e9, wanted_rate: 100e6, in_flight: 800 };
    let quiet = Pipe { wanted_rate: 1e6, in_flight: 2, ..busy };
    let mut watched = WatchedPipe::new(8);
    let n = watched.watch(&busy, 10 * SECOND);
    assert_eq!(watched.watch(&quiet, 29 * SECOND), n);
    assert_eq!(watched.watch(&quiet, 4 * SECOND), n - 1);
    assert_eq!(watched.watch(&quiet, 300 * SECOND), 1);
    assert!(1 < watched.watch(&busy, 10 * SECOND), "and opened again when they are needed");
}

/// A peer that takes nothing takes no more on two connections.
#[test]
fn nothing_on_more_connections_is_no_more_than_nothing() {
    let (mut count, mut now) = (ConnectionCount::new(8, test_start()), test_start());
    let mut most = 1;
    for _ in 0..50 {
        now += STEP;
        let busy = STEP * u32::try_from(count.n()).unwrap();
        let _ = count.look(now, ConnectionUse { busy, bytes: 0, in_flight: 800 });
        most = most.max(count.n());
    }
    assert_eq!((most, count.n()), (2, 1), "it was tried, and given up");
}
