//! Who gets memory, and who is refused.

use super::*;

const MIB: usize = 1 << 20;

struct BudgetFixture {
    budget: Budget,
    lease: Rc<Lease>,
    listener: Arc<Group>,
}

impl BudgetFixture {
    fn new(limit: usize) -> Self {
        let budget = Budget::new(limit);
        Self { lease: budget.lease(), budget, listener: Group::new() }
    }

    fn connection(&self, peer: [u8; 4]) -> Rc<Account> {
        Account::new(&self.lease, &self.listener, self.budget.peer(peer.into()))
    }
}

/// Takes as many pieces of `len` as it gets.
fn take_all(account: &Rc<Account>, len: usize) -> Vec<Hold> {
    std::iter::from_fn(|| account.take(len).ok()).collect()
}

#[test]
fn everything_comes_back() {
    let fixture = BudgetFixture::new(64 * MIB);
    let account = fixture.connection([10, 0, 0, 1]);
    let mut hold = account.take(1000).unwrap();
    hold.resize(3 * MIB).unwrap();
    hold.resize(MIB).unwrap();
    let counted = account.count(500);
    account.set(0, 2 * MIB).unwrap();
    account.set(2 * MIB, 100).unwrap();
    assert_eq!((account.held(), fixture.budget.used()), (MIB + 600, MIB + 600 - FREE_LEN));
    drop((hold, counted));
    assert_eq!((account.held(), fixture.budget.used()), (100, 0));
    let groups = [Arc::clone(&account.peer), Arc::clone(&fixture.listener)];
    drop(account);
    assert_eq!((fixture.budget.used(), groups.map(|group| group.held())), (0, [0, 0]));
    let BudgetFixture { budget, lease, .. } = fixture;
    drop(lease);
    assert_eq!(budget.0.leased.load(Relaxed), 0);
}

#[test]
fn one_connection_may_use_half_and_leaves_the_rest_to_others() {
    let fixture = BudgetFixture::new(64 * MIB);
    let greedy = fixture.connection([10, 0, 0, 1]);
    let held = take_all(&greedy, MIB);
    assert_eq!(held.len(), 32);
    let error = greedy.take(MIB).unwrap_err();
    assert_eq!((error.holder, error.held), (BudgetHolder::Connection, 32 * MIB - FREE_LEN));
    assert_eq!(fixture.budget.refused(), 2);
    let other = fixture.connection([10, 0, 0, 2]);
    assert_eq!(take_all(&other, MIB).len(), 16, "half of what is left");
}

#[test]
fn one_peer_cannot_spend_it_for_all() {
    let fixture = BudgetFixture::new(96 * MIB);
    let many: Vec<_> = (0..200).map(|_| fixture.connection([10, 0, 0, 1])).collect();
    let held: Vec<_> = many.iter().flat_map(|account| take_all(account, MIB / 2)).collect();
    let used = held.len() * MIB / 2;
    assert!(used <= 65 * MIB, "two thirds: {used}");
    let refused = many[0].take(8 * MIB).unwrap_err();
    assert!(matches!(refused.holder, BudgetHolder::Connection | BudgetHolder::Peer), "{refused}");
    let other = fixture.connection([10, 0, 0, 2]);
    assert!(other.take(8 * MIB).is_ok(), "another peer's longest body");
}

#[test]
fn one_listener_cannot_spend_it_for_all() {
    let fixture = BudgetFixture::new(100 * MIB);
    let mut held = Vec::new();
    for peer in 0..200 {
        let account = fixture.connection([10, 0, 0, peer]);
        held.extend(take_all(&account, MIB / 2));
    }
    assert!(fixture.budget.used() <= 88 * MIB, "{}", fixture.budget.used());
    let other =
        Account::new(&fixture.lease, &Group::new(), fixture.budget.peer([10, 0, 1, 1].into()));
    assert!(other.take(4 * MIB).is_ok());
}

/// All of them from one address, as of a sidecar's only caller.
#[test]
fn a_small_call_passes_whatever_others_hold() {
    let fixture = BudgetFixture::new(96 * MIB);
    let mut held = Vec::new();
    let connections: Vec<_> = (0..4000).map(|_| fixture.connection([127, 0, 0, 1])).collect();
    for len in [MIB, 64 << 10, 4096, 512] {
        for account in &connections {
            held.extend(take_all(account, len));
        }
        let far = fixture.connection([10, 0, 0, 1]);
        assert!(len == 512 || far.take(5 * MIB).is_ok(), "another peer's large call");
    }
    let used = fixture.budget.used();
    assert!(used <= 80 * MIB, "{used}");
    let caller = fixture.connection([127, 0, 0, 1]);
    for len in [100, 1000, FREE_LEN] {
        assert!(caller.take(len).is_ok(), "{len}, beside {used}");
    }
}

#[test]
fn a_small_message_to_an_endpoint_is_not_refused_for_large_ones() {
    let fixture = BudgetFixture::new(32 * MIB);
    let endpoint = Account::shared(&fixture.lease, &Group::new(), &Group::new());
    let held = take_all(&endpoint, 4 * MIB);
    assert!((4..8).contains(&held.len()), "{}", held.len());
    assert!(endpoint.take(FREE_LEN).is_ok());
    assert!(endpoint.take(MIB).is_ok());
}

#[test]
fn what_is_there_is_counted_even_where_it_is_refused() {
    let fixture = BudgetFixture::new(4 * MIB);
    let account = fixture.connection([10, 0, 0, 1]);
    let refused = account.set(0, 3 * MIB).unwrap_err();
    assert_eq!((refused.wanted, refused.free, refused.limit), (3 * MIB, 4 * MIB, 4 * MIB));
    assert_eq!(fixture.budget.used(), 3 * MIB - FREE_LEN);
    assert!(account.set(3 * MIB, 10 * MIB).is_err(), "more than there is");
    assert_eq!(fixture.budget.used(), 10 * MIB - FREE_LEN);
    account.set(10 * MIB, 0).unwrap();
    assert_eq!(fixture.budget.used(), 0);
    assert!(account.take(MIB).is_ok());
}

#[test]
fn workers_share_one_budget_and_keep_little_of_it() {
    let fixture = BudgetFixture::new(64 * MIB);
    let other_worker = fixture.budget.lease();
    let here = fixture.connection([10, 0, 0, 1]);
    drop(take_all(&here, MIB));
    assert!(fixture.budget.0.leased.load(Relaxed) <= 2 * CHUNK_LEN);
    let peer = fixture.budget.peer([10, 0, 0, 2].into());
    let there = Account::new(&other_worker, &fixture.listener, peer);
    assert!(31 <= take_all(&there, MIB).len());
}

#[test]
fn a_peer_is_its_network_and_is_forgotten() {
    let budget = Budget::new(MIB);
    let peer = |text: &str| budget.peer(text.parse().unwrap());
    let first = peer("2001:db8:1:2::3");
    assert!(Arc::ptr_eq(&first, &peer("2001:db8:1:2:ffff::1")));
    assert!(!Arc::ptr_eq(&first, &peer("2001:db8:1:3::3")));
    assert!(Arc::ptr_eq(&peer("::ffff:10.0.0.1"), &peer("10.0.0.1")) || budget.refused() == 0);
    for n in 0..10_000_u32 {
        drop(budget.peer(IpAddr::from(n.to_be_bytes())));
    }
    assert!(budget.0.peers.lock().unwrap().groups.len() <= 2 * MIN_PEERS);
    assert!(Arc::ptr_eq(&first, &peer("2001:db8:1:2::3")), "those with a connection are kept");
}

#[test]
fn a_refusal_says_what_to_do() {
    let refused =
        OverBudget { wanted: 10, free: 5, limit: 100, held: 7, holder: BudgetHolder::Peer }
            .to_string();
    assert_eq!(
        refused,
        "no memory for 10 more bytes: 5 of 100 are free, and 7 are held already by this peer \
         (memory_bytes of [agent]); try again later, or raise it"
    );
}

/// What another thread makes of a message counts for all while it grows, and no longer.
#[test]
fn what_grows_elsewhere_draws_from_the_same_budget() {
    let budget = Budget::new(1 << 20);
    let (lease, listener) = (budget.lease(), Group::new());
    let account = Account::new(&lease, &listener, budget.peer(IpAddr::from([10, 0, 0, 1])));
    let growth = account.growth();
    growth.grow_to(100_000).unwrap();
    growth.grow_to(50_000).unwrap();
    assert_eq!((growth.len(), budget.used(), listener.held()), (100_000, 100_000, 100_000));
    // Half is the share of one connection, whoever grows.
    let refused = growth.grow_to((512 << 10) + 1).unwrap_err();
    assert_eq!((refused.holder, refused.held), (BudgetHolder::Connection, 100_000));
    assert!(!refused.is_final() && budget.refused() == 1, "{refused}");
    growth.grow_to(400_000).unwrap();
    let other = account.growth();
    assert!(other.grow_to(400_000).is_err(), "less than that is left");
    std::thread::spawn(move || drop((growth, other))).join().unwrap();
    assert_eq!((budget.used(), listener.held()), (0, 0));
}

/// More than a connection ever gets is refused for good, and the text does not say to try again.
#[test]
fn what_can_never_be_held_is_a_final_refusal() {
    let budget = Budget::new(1 << 20);
    let (lease, all) = (budget.lease(), Group::new());
    let to = |endpoint| Account::shared(&lease, &all, endpoint);
    let (account, other) = (to(&Group::new()), to(&Group::new()));
    let never = account.check((512 << 10) + 1).unwrap_err();
    assert!(never.is_final(), "{never}");
    let text = never.to_string();
    assert!(text.contains("524288 at most") && !text.contains("try again"), "{text}");
    let _held = account.take(400_000).unwrap();
    let _more = other.take(300_000).unwrap();
    let now = account.check(400_000).unwrap_err();
    assert!(!now.is_final() && now.to_string().contains("try again later"), "{now}");
}

/// An endpoint that does not read takes no memory from the others, and the message names it.
#[test]
fn an_endpoint_that_holds_much_is_short_before_others() {
    let fixture = BudgetFixture::new(32 * MIB);
    let (all, greedy) = (Group::new(), Group::new());
    let to = |endpoint| Account::shared(&fixture.lease, &all, endpoint);
    let (one, other) = (to(&greedy), to(&greedy));
    let _held = [one.count(10 * MIB), other.count(11 * MIB)];
    let refused = other.take(MIB).unwrap_err();
    assert_eq!((refused.holder, refused.held), (BudgetHolder::Endpoint, 21 * MIB - 2 * FREE_LEN));
    assert!(refused.to_string().contains("held already by the connections to this endpoint"));
    assert!(to(&Group::new()).take(3 * MIB).is_ok());
}
