//! Which connections there are, which of them calls take, and what they say of their endpoint.

use std::num::NonZeroUsize;

use flow::Standing;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::upstream::testing::{PATIENCE, ScriptedPeer, TestServer, on_local_runtime, until};

/// A group, and where its connections end.
struct LaneGroupFixture {
    group: LaneGroup<ScriptedPeer>,
    place: TestServer,
    now: Instant,
}

impl LaneGroupFixture {
    /// One that decides itself.
    async fn start() -> Self {
        let max = NonZeroUsize::new(4).unwrap();
        let mut fixture = Self::start_with(ConnectionLimit::Auto { max }, &[]).await;
        fixture.settle(1).await;
        fixture
    }

    /// Some connections of it are not ready.
    async fn start_with(limit: ConnectionLimit, unready: &[usize]) -> Self {
        let place = TestServer::new().await;
        place.script.unready.replace(unready.to_vec());
        let now = Instant::now();
        let group = LaneGroup::start(limit, Arc::default(), Rc::new(place.start()), now);
        Self { group, place, now }
    }

    /// Two connections, as configured.
    async fn of_two() -> Self {
        let mut fixture = Self::of_two_with(&[]).await;
        fixture.settle(2).await;
        fixture
    }

    /// Two connections, of which some are not ready.
    async fn of_two_with(unready: &[usize]) -> Self {
        let limit = ConnectionLimit::Fixed(NonZeroUsize::new(2).unwrap());
        let mut fixture = Self::start_with(limit, unready).await;
        fixture.place.accept(2).await;
        let n_unready = unready.len();
        until("connections", || fixture.n_standing(Standing::Ready) == 2 - n_unready).await;
        fixture
    }

    fn n_standing(&self, standing: Standing) -> usize {
        self.group.all().iter().filter(|lane| lane.standing() == standing).count()
    }

    /// Which connection a call takes, by its number.
    fn picked(&self) -> usize {
        let picked = self.group.pick(|_| true);
        self.group.all().iter().position(|lane| Rc::ptr_eq(lane, &picked)).unwrap()
    }

    /// Ends one of the connections for good.
    async fn lose(&mut self, index: usize) {
        let lane = Rc::clone(&self.group.all()[index]);
        lane.close().await;
        assert_eq!(lane.standing(), Standing::Down);
    }

    /// Waits until there are so many connections, all of them ready.
    async fn settle(&mut self, n: usize) {
        self.place.accept(n).await;
        until("connections", || self.n_standing(Standing::Ready) == self.group.all().len()).await;
        assert_eq!(self.group.all().len(), n);
    }

    /// Time goes by. Each connection is in the midst of messages for so many percent of it.
    fn pass(&mut self, time: Duration, percent: u32) {
        let step = Duration::from_millis(100);
        let end = self.now + time;
        while self.now < end {
            self.now += step;
            self.place.script.waited.set(self.place.script.waited.get() + step * percent / 100);
            self.group.tend(self.now, self.group.limit.get());
        }
    }
}

#[test]
fn further_connections_are_given_back_when_they_are_idle() {
    on_local_runtime(async {
        let mut fixture = LaneGroupFixture::start().await;
        fixture.place.script.in_flight.set(8);
        fixture.pass(Duration::from_millis(400), 60);
        fixture.settle(2).await;
        // Twice as many connections halve the load: that helped.
        fixture.pass(Duration::from_secs(5), 30);
        fixture.settle(2).await;
        fixture.place.script.in_flight.set(0);
        fixture.pass(Duration::from_secs(29), 0);
        assert_eq!(fixture.group.all().len(), 2, "it may still be needed");
        fixture.pass(Duration::from_secs(2), 0);
        fixture.pass(Duration::from_millis(100), 0);
        assert_eq!((fixture.group.all().len(), fixture.place.script.n_retired.get()), (1, 1));
        let mut byte = [0];
        let ended = fixture.place.accepted[1].read(&mut byte);
        let ended = tokio::time::timeout(PATIENCE, ended).await.expect("it is closed");
        assert_eq!(ended.unwrap(), 0);
        assert_eq!(fixture.group.first().standing(), Standing::Ready);
    });
}

/// What more one worker gets of a network that is full, another one loses: that does not help.
#[test]
fn what_other_workers_lose_is_not_won() {
    on_local_runtime(async {
        let mut fixture = LaneGroupFixture::start().await;
        fixture.place.script.in_flight.set(8);
        let others = Arc::clone(&fixture.group.traffic);
        // The other workers carry all that this one does not.
        for (own, n_looks, n_left) in [(10_000, 4, 2), (20_000, 8, 1)] {
            for _ in 0..n_looks {
                others.fetch_add(100_000 - own, Relaxed);
                let wanted = fixture.group.first().n_bytes() + own;
                let bytes = vec![0; usize::try_from(own).unwrap()];
                fixture.place.accepted[0].write_all(&bytes).await.unwrap();
                until("bytes", || wanted <= fixture.group.first().n_bytes()).await;
                fixture.pass(Duration::from_millis(100), 100);
            }
            assert_eq!(fixture.group.all().len(), n_left);
            fixture.settle(n_left).await;
        }
    });
}

/// Closing it at once would break its calls.
#[test]
fn a_connection_that_is_one_too_many_answers_its_calls_first() {
    on_local_runtime(async {
        let mut fixture = LaneGroupFixture::start().await;
        fixture.place.script.in_flight.set(8);
        fixture.place.accepted[0].write_all(&[0; 1000]).await.unwrap();
        while fixture.group.first().n_bytes() < 1000 {
            tokio::task::yield_now().await;
        }
        fixture.pass(Duration::from_millis(400), 60);
        fixture.settle(2).await;
        // Two are as busy as one was, and no more goes through them: that did not help.
        fixture.pass(Duration::from_secs(2), 60);
        assert_eq!(fixture.group.all().len(), 1);
        assert!(fixture.group.has_calls());
        // More turns than it takes to close a connection.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let mut byte = [0];
        let nothing = fixture.place.accepted[1].try_read(&mut byte).unwrap_err();
        assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock, "its calls are in flight");
        fixture.place.script.in_flight.set(0);
        fixture.pass(Duration::from_millis(100), 0);
        let ended = tokio::time::timeout(PATIENCE, fixture.place.accepted[1].read(&mut byte)).await;
        assert_eq!(ended.expect("it is closed").unwrap(), 0);
    });
}

#[test]
fn a_connection_that_is_not_held_up_stays_alone() {
    on_local_runtime(async {
        let mut fixture = LaneGroupFixture::start().await;
        fixture.place.script.in_flight.set(8);
        fixture.pass(Duration::from_secs(60), 45);
        assert_eq!(fixture.group.all().len(), 1);
    });
}

/// A network may lose any of them, and calls go by the others.
#[test]
fn an_endpoint_is_ready_while_any_connection_is() {
    on_local_runtime(async {
        for lost in [0, 1] {
            let mut fixture = LaneGroupFixture::of_two().await;
            fixture.lose(lost).await;
            assert_eq!(fixture.group.standing(), Standing::Ready, "without {lost}");
            assert_eq!(fixture.group.trouble(), None, "without {lost}");
            assert_eq!(fixture.group.evidence(Instant::now()), Evidence::Answers);
            assert_eq!(fixture.group.unwell(Instant::now()).n_down, 1);
            fixture.lose(1 - lost).await;
            assert_eq!(fixture.group.standing(), Standing::Down);
            assert!(fixture.group.trouble().is_some());
            assert_eq!(fixture.group.evidence(Instant::now()), Evidence::Gone);
        }
    });
}

#[test]
fn an_endpoint_answers_while_any_connection_does() {
    on_local_runtime(async {
        let fixture = LaneGroupFixture::of_two().await;
        let later = || Instant::now() + Duration::from_secs(60);
        assert_eq!(fixture.group.unwell(later()).explain(), None);
        for silent in [0, 1] {
            fixture.place.script.silent.replace(vec![silent]);
            assert_eq!(fixture.group.evidence(later()), Evidence::Answers, "without {silent}");
            let shown = fixture.group.unwell(later()).explain();
            assert_eq!(shown.as_deref(), Some("1 of 2 connections silent"), "without {silent}");
        }
        fixture.place.script.silent.replace(vec![0, 1]);
        assert_eq!(fixture.group.evidence(later()), Evidence::Silent);
    });
}

/// Somebody looks at an endpoint, and nothing changes by that.
#[test]
fn to_show_how_connections_are_asks_nobody() {
    on_local_runtime(async {
        let fixture = LaneGroupFixture::of_two().await;
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(fixture.group.unwell(later).explain(), None);
        assert_eq!(fixture.place.script.n_asked.get(), 0);
        fixture.group.evidence(later);
        assert_eq!(fixture.place.script.n_asked.get(), 2, "who has to know asks");
    });
}

#[test]
fn a_call_waits_for_a_connection_that_still_connects_if_none_is_ready() {
    on_local_runtime(async {
        let mut fixture = LaneGroupFixture::of_two_with(&[0, 1]).await;
        assert_eq!(fixture.group.standing(), Standing::Connecting);
        assert!(fixture.group.find(|_| true).is_none());
        assert_eq!(fixture.picked(), 0);
        // The first one is down, and the other one may still come up.
        fixture.lose(0).await;
        assert_eq!((fixture.group.standing(), fixture.picked()), (Standing::Connecting, 1));
        fixture.place.script.unready.take();
        for accepted in &mut fixture.place.accepted {
            // One of them is closed.
            let _ = accepted.write_all(&[0]).await;
        }
        until("the other", || fixture.group.standing() == Standing::Ready).await;
        assert_eq!(fixture.picked(), 1);
        fixture.lose(1).await;
        assert_eq!((fixture.group.standing(), fixture.picked()), (Standing::Down, 0));
    });
}

#[test]
fn a_call_goes_at_once_by_a_connection_that_is_ready() {
    on_local_runtime(async {
        for unready in [0, 1] {
            let fixture = LaneGroupFixture::of_two_with(&[unready]).await;
            assert_eq!(fixture.group.standing(), Standing::Ready);
            assert_eq!(fixture.picked(), 1 - unready);
            // No connection that takes it is wanted.
            assert!(fixture.group.find(|_| false).is_none());
        }
    });
}

/// An endpoint pauses if all connections say so that are up, whether the first one is or not.
#[test]
fn calls_pass_by_what_gives_no_sign_of_life() {
    on_local_runtime(async {
        for silent in [0, 1] {
            let mut fixture = LaneGroupFixture::of_two().await;
            fixture.place.script.silent.replace(vec![silent]);
            let later = Instant::now() + Duration::from_secs(60);
            assert_eq!(
                fixture.group.look_for_pause(later, QUIET).since,
                None,
                "the other one lives"
            );
            assert_eq!(fixture.picked(), 1 - silent);
            fixture.lose(1 - silent).await;
            let look = fixture.group.look_for_pause(later, QUIET);
            assert!(look.since.is_some(), "without {}", 1 - silent);
        }
    });
}

/// Whoever waits for a change learns of it, whichever connection has changed.
#[test]
fn a_change_of_any_connection_is_told() {
    on_local_runtime(async {
        for lost in [0, 1] {
            let mut fixture = LaneGroupFixture::of_two().await;
            let changed = fixture.group.changed();
            fixture.lose(lost).await;
            tokio::time::timeout(PATIENCE, changed).await.expect("it is told");
        }
    });
}

/// A reload, or another service at the same address, may want another number of connections.
#[test]
fn another_limit_opens_and_closes_connections() {
    on_local_runtime(async {
        let mut fixture = LaneGroupFixture::start().await;
        let fixed = |n| ConnectionLimit::Fixed(NonZeroUsize::new(n).unwrap());
        fixture.group.tend(fixture.now, fixed(3));
        fixture.settle(3).await;
        fixture.group.tend(fixture.now, fixed(2));
        assert_eq!((fixture.group.all().len(), fixture.place.script.n_retired.get()), (2, 1));
        let max = NonZeroUsize::new(4).unwrap();
        fixture.group.tend(fixture.now, ConnectionLimit::Auto { max });
        assert_eq!((fixture.group.all().len(), fixture.group.has_further()), (1, false));
        assert_eq!(fixture.group.first().standing(), Standing::Ready);
    });
}
