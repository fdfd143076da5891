use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::test_start;

const MS: Duration = Duration::from_millis(1);

/// Links as their agents behave: each wants so many calls, and takes what it is told.
struct LenderFixture {
    lender: Lender,
    now: Instant,
    links: BTreeMap<u64, FakeLink>,
    own: OwnDemand,
    n_frames: u64,
    /// So many calls of that link never end.
    slow: Option<(u64, u32)>,
}

#[derive(Default)]
struct FakeLink {
    wanted: u32,
    credits: u32,
    in_flight: u32,
    n_seen: u32,
    n_served: u64,
}

impl LenderFixture {
    fn new(capacity: u32, wanted: &[u32]) -> Self {
        let now = test_start();
        let (own, n_frames) = (OwnDemand::default(), 0);
        let mut lender = Lender::new(capacity, own, now);
        let links = (0..).zip(wanted).map(|(link, wanted)| {
            lender.join(now, link, 0);
            (link, FakeLink { wanted: *wanted, ..FakeLink::default() })
        });
        let links = links.collect();
        Self { lender, now, links, own, n_frames, slow: None }
    }

    /// Calls of 20 ms each, for so many steps of 20 ms.
    fn run(&mut self, n_steps: u32) {
        for _ in 0..n_steps {
            self.step();
        }
    }

    fn step(&mut self) {
        self.now += 20 * MS;
        for (link, peer) in &mut self.links {
            let n_slow = self.slow.filter(|(slow, _)| slow == link).map_or(0, |(_, n)| n);
            let left = peer.in_flight.min(n_slow);
            for _ in left..std::mem::replace(&mut peer.in_flight, left) {
                self.lender.ended(self.now, *link);
            }
        }
        self.lender.look(self.now, self.own);
        self.hear();
        for (link, peer) in &mut self.links {
            while peer.in_flight < peer.credits.min(peer.wanted) {
                assert!(self.lender.begin(*link), "a credit is good for a call");
                peer.in_flight += 1;
                peer.n_served += 1;
            }
            let n_waiting = peer.wanted - peer.in_flight.min(peer.wanted);
            let demand = Demand { n_waiting, n_seen: peer.n_seen };
            self.lender.demand(self.now, *link, demand);
        }
        self.hear();
    }

    fn hear(&mut self) {
        while let Some(told) = self.lender.poll_told() {
            self.n_frames += 1;
            let peer = self.links.get_mut(&told.link).expect("a link that is there");
            peer.credits = told.credits;
            peer.n_seen += 1;
        }
        let granted: u32 = self.links.values().map(|peer| peer.credits).sum();
        assert!(granted + self.lender.own_limit() <= self.lender.allocator.capacity());
    }

    fn credits(&self) -> Vec<u32> {
        self.links.values().map(|peer| peer.credits).collect()
    }
}

/// Whoever is not told that it needs credits never says how many calls wait.
#[test]
fn who_joins_is_told_also_if_there_is_nothing_for_it() {
    let now = test_start();
    let mut lender = Lender::new(1, OwnDemand { in_flight: 1, demand: 1 }, now);
    for (link, n_told) in [(1, 0), (2, u32::MAX)] {
        lender.join(now, link, n_told);
        assert_eq!(lender.poll_told(), Some(CreditNotice { link, credits: 0 }));
        assert_eq!(
            (lender.poll_told(), lender.links[&link].n_told),
            (None, n_told.wrapping_add(1))
        );
        lender.join(now, link, n_told);
        assert_eq!(lender.poll_told(), None, "it knows");
    }
}

#[test]
fn capacity_goes_where_it_is_wanted() {
    let mut fixture = LenderFixture::new(200, &[10, 500, 500]);
    fixture.run(25);
    let credits = fixture.credits();
    assert!(10 <= credits[0] && 90 <= credits[1] && 90 <= credits[2], "{credits:?}");
    fixture.links.get_mut(&1).unwrap().wanted = 0;
    fixture.run(25);
    let credits = fixture.credits();
    assert!(credits[1] == 0 && 180 <= credits[2], "{credits:?}");
}

#[test]
fn while_nothing_changes_nobody_is_told_anything() {
    let mut fixture = LenderFixture::new(200, &[100; 8]);
    fixture.run(50);
    fixture.n_frames = 0;
    fixture.run(500);
    assert_eq!((fixture.n_frames, fixture.credits()), (0, vec![25; 8]));
}

#[test]
fn credits_go_round_among_a_thousand_links_of_eight_workers() {
    let mut fixture = LenderFixture::new(200 / 8, &[4; 1000]);
    fixture.run(5 * 40 * 3);
    let least = fixture.links.values().map(|peer| peer.n_served).min();
    assert!(least.is_some_and(|least| 5 <= least), "{least:?}");
}

/// Each link wants two calls, and one call of the first link does not end.
#[test]
fn a_slow_call_leaves_its_link_a_turn() {
    for (capacity, n_links) in [(2, 2), (3, 2), (4, 4), (4, 8), (3, 1)] {
        let mut fixture = LenderFixture::new(capacity, &vec![2; n_links]);
        fixture.run(5);
        fixture.slow = Some((0, 1));
        fixture.run(5);
        fixture.links.values_mut().for_each(|peer| peer.n_served = 0);
        fixture.run(1000);
        let served: Vec<u64> = fixture.links.values().map(|peer| peer.n_served).collect();
        let fair = 1000 * u64::from(capacity - 1) / u64::try_from(n_links).unwrap();
        let fair = fair.min(1000);
        let is_fair = |n: &u64| fair / 3 <= *n;
        assert!(served.iter().all(is_fair), "{capacity} credits: {served:?}, fair is {fair}");
    }
}

/// All calls of the first link are slow, and it wants many: the others keep their share, but for
/// one call.
#[test]
fn slow_calls_do_not_take_everything() {
    let mut fixture = LenderFixture::new(8, &[50, 4, 4]);
    fixture.run(25);
    fixture.slow = Some((0, u32::MAX));
    fixture.run(500);
    let held = fixture.links[&0].in_flight;
    assert!(held <= 4, "{held} of 8");
    fixture.links.values_mut().for_each(|peer| peer.n_served = 0);
    fixture.run(100);
    assert!(fixture.links.values().skip(1).all(|peer| 150 <= peer.n_served));
}

#[test]
fn those_without_credits_have_their_share() {
    let mut fixture = LenderFixture::new(30, &[100, 100]);
    fixture.own = OwnDemand { in_flight: 0, demand: 50 };
    fixture.run(25);
    assert_eq!((fixture.credits(), fixture.lender.own_limit()), (vec![10, 10], 10));
}

#[test]
fn what_the_lost_and_the_silent_held_is_free_again() {
    let mut fixture = LenderFixture::new(20, &[100, 100]);
    fixture.run(25);
    assert_eq!(fixture.credits(), [10, 10]);
    let gone = fixture.links.remove(&0).unwrap();
    fixture.lender.lost(fixture.now, 0);
    fixture.run(10);
    assert_eq!(gone.in_flight, 10);
    assert_eq!(fixture.credits(), [10], "the app still works on the calls of the lost one");
    for _ in 0..gone.in_flight {
        fixture.lender.ended(fixture.now, 0);
    }
    fixture.run(10);
    assert_eq!(fixture.credits(), [20]);
    // One that hangs, with all credits, and another that wants some.
    let hung = fixture.links.remove(&1).unwrap();
    fixture.lender.join(fixture.now, 7, 0);
    fixture.links.insert(7, FakeLink { wanted: 5, ..FakeLink::default() });
    let mut n_steps = 0;
    while fixture.links[&7].credits < 5 {
        n_steps += 1;
        assert!(n_steps < 100, "{:?}", fixture.lender);
        fixture.now += 20 * MS;
        for _ in 0..hung.in_flight {
            fixture.lender.ended(fixture.now, 1);
        }
        fixture.lender.look(fixture.now, fixture.own);
        let demand = Demand { n_waiting: 5, n_seen: fixture.links[&7].n_seen };
        fixture.lender.demand(fixture.now, 7, demand);
        while let Some(told) = fixture.lender.poll_told() {
            if let Some(peer) = fixture.links.get_mut(&told.link) {
                peer.credits = told.credits;
                peer.n_seen += 1;
            }
        }
    }
}

#[test]
fn it_is_calm_when_nobody_has_waited_for_a_second() {
    let mut fixture = LenderFixture::new(20, &[100, 100]);
    fixture.run(25);
    assert!(!fixture.lender.is_calm(fixture.now));
    fixture.links.values_mut().for_each(|peer| peer.wanted = 5);
    fixture.run(40);
    assert!(!fixture.lender.is_calm(fixture.now));
    fixture.run(40);
    assert!(fixture.lender.is_calm(fixture.now));
    assert_eq!(fixture.lender.end().collect::<Vec<_>>(), [0, 1]);
}

proptest! {
    /// What links may use never adds up to more than the capacity, however late they confirm what
    /// was taken back, whatever they say, and whoever is lost.
    #[test]
    fn never_more_than_the_capacity(
        steps in prop::collection::vec((0..8u8, 0..6u64, 0..40u32), 1..300),
        capacity in 1..50u32,
    ) {
        let mut now = test_start();
        let mut lender = Lender::new(capacity, OwnDemand::default(), now);
        let mut peers = BTreeMap::<u64, FakeLink>::new();
        // Calls of lost links that are still in the app.
        let mut left = BTreeMap::<u64, u32>::new();
        for (step, link, n) in steps {
            now += MS;
            match step {
                0 => {
                    peers.entry(link).or_insert_with(|| {
                        lender.join(now, link, 0);
                        FakeLink::default()
                    });
                }
                1 | 2 => {
                    if let Some(peer) = peers.get_mut(&link) {
                        let demand = Demand { n_waiting: n, n_seen: peer.n_seen };
                        lender.demand(now, link, demand);
                    }
                }
                3 => {
                    let lost = peers.remove(&link).map_or(0, |peer| peer.in_flight);
                    *left.entry(link).or_default() += lost;
                    lender.lost(now, link);
                }
                4 => {
                    if lender.begin(link) {
                        peers.get_mut(&link).unwrap().in_flight += 1;
                    }
                }
                5 => {
                    if let Some(left) = left.get_mut(&link).filter(|it| 0 < **it) {
                        *left -= 1;
                        lender.ended(now, link);
                    } else if let Some(peer) = peers.get_mut(&link).filter(|it| 0 < it.in_flight) {
                        peer.in_flight -= 1;
                        lender.ended(now, link);
                    }
                }
                6 => lender.deal(now, OwnDemand { in_flight: 0, demand: n }),
                _ => lender.look(now, OwnDemand::default()),
            }
            while let Some(told) = lender.poll_told() {
                let peer = peers.get_mut(&told.link).unwrap();
                peer.credits = told.credits;
                peer.n_seen += 1;
            }
            // Confirmed or not, the lender counts no less than what was told last.
            let of = |link: &u64| left.get(link).copied().unwrap_or_default();
            let granted: u32 =
                peers.iter().map(|(link, it)| it.credits.max(it.in_flight + of(link))).sum();
            let lost = left.iter().filter(|(link, _)| !peers.contains_key(link));
            let granted = granted + lost.map(|(_, n)| n).sum::<u32>();
            prop_assert!(granted + lender.own_limit() <= capacity);
            prop_assert!(lender.n_held() <= capacity);
            prop_assert!(granted <= lender.n_held());
        }
    }
}

/// Lending begins while the gate has calls of links that needed no credits. Their callers call
/// again, and find credits as those calls end.
#[test]
fn what_the_gate_has_at_first_goes_to_links_as_its_calls_end() {
    let start = test_start();
    let own = |n| OwnDemand { in_flight: n, demand: n };
    let mut lender = Lender::new(180, own(170), start);
    lender.join(start, 1, 0);
    lender.deal(start, own(170));
    let (mut credits, mut n_told) = (0, 0);
    for (step, left) in (1_u32..).zip([110, 50, 0]) {
        let now = start + 20 * MS * step;
        let demand = Demand { n_waiting: 170 - left, n_seen: n_told };
        lender.demand(now, 1, demand);
        lender.look(now, own(left));
        while let Some(told) = lender.poll_told() {
            (credits, n_told) = (told.credits, n_told + 1);
        }
        assert!(170 - left <= credits, "after {step} steps: {credits}");
        assert!(credits + lender.own_limit().max(left) <= 180);
    }
}
