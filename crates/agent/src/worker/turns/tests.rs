use std::net::IpAddr;

use super::*;
use crate::connections::SessionActivity;

fn here() -> Origin {
    IpAddr::from([127, 0, 0, 1]).into()
}

fn elsewhere() -> Origin {
    IpAddr::from([127, 0, 0, 2]).into()
}

/// A session that was answered, or never was.
struct AnsweredSession {
    is_known: bool,
}

impl Session for AnsweredSession {
    fn drain(&self) {}
    fn check_time(&self, _: Instant) {}
    fn is_known(&self) -> bool {
        self.is_known
    }
    fn activity(&self) -> SessionActivity {
        SessionActivity { doing: "calling", in_flight: 1, held_bytes: 0, peer_name: None }
    }
}

fn new_from(origin: Origin) -> Who {
    Who::new(origin, Rc::new(AnsweredSession { is_known: false }))
}

fn known() -> Who {
    let mut who = Who::new(here(), Rc::new(AnsweredSession { is_known: true }));
    who.note_turn();
    who
}

/// Uses the core for so long, however many others run on it.
fn use_core(time: Duration) {
    let start = CoreTime::of_thread();
    while CoreTime::of_thread().since(start) < time {
        std::hint::spin_loop();
    }
}

/// A task that is always ready, and busy for so long in each turn.
async fn busy(time: Duration, n_turns: &Cell<u32>) {
    loop {
        use_core(time);
        n_turns.set(n_turns.get() + 1);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_call_waits_for_one_long_turn_and_not_for_all() {
    let turns = Rc::new(SessionTurns::default());
    let n_long = Rc::new(Cell::new(0));
    let tasks = tokio::task::LocalSet::new();
    for _ in 0..20 {
        let n_long = Rc::clone(&n_long);
        let task = async move { busy(5 * TIME_PER_LOOK, &n_long).await };
        tasks.spawn_local(InTurn::new(task, &turns, known()));
    }
    let calling = {
        let turns = Rc::clone(&turns);
        tasks.spawn_local(async move { turns.call_each().await })
    };
    let mut most = 0;
    tasks
        .run_until(async {
            while n_long.get() < 20 {
                tokio::task::yield_now().await;
            }
            for _ in 0..50 {
                let before = n_long.get();
                tokio::task::yield_now().await;
                most = most.max(n_long.get() - before);
            }
        })
        .await;
    calling.abort();
    assert!((1..=3).contains(&most), "{most} long turns between two looks");
}

#[tokio::test]
async fn all_that_have_long_turns_get_theirs() {
    let turns = Rc::new(SessionTurns::default());
    let counts: Vec<Rc<Cell<u32>>> = (0..3).map(|_| Rc::default()).collect();
    let tasks = tokio::task::LocalSet::new();
    for count in &counts {
        let count = Rc::clone(count);
        let task = async move { busy(2 * TIME_PER_LOOK, &count).await };
        tasks.spawn_local(InTurn::new(task, &turns, known()));
    }
    let all_have = async {
        while counts.iter().any(|count| count.get() < 5) {
            tokio::task::yield_now().await;
        }
    };
    tasks
        .run_until(async {
            tokio::select! {
                () = turns.call_each() => {}
                () = all_have => {}
            }
        })
        .await;
    let most = counts.iter().map(|count| count.get()).max();
    assert!(most <= Some(7), "{counts:?}");
}

/// A task that wakes itself forever, with turns that cost nothing to speak of.
async fn short(n_turns: &Cell<u32>) {
    loop {
        n_turns.set(n_turns.get() + 1);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn first_calls_come_one_by_one_to_a_long_line_and_others_go_on() {
    let n_in_line = Rc::new(Cell::new(0));
    let turns = Rc::new(SessionTurns::new(Rc::clone(&n_in_line)));
    let (n_served, n_first) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let tasks = tokio::task::LocalSet::new();
    let calling = {
        let turns = Rc::clone(&turns);
        tasks.spawn_local(async move { turns.call_each().await })
    };
    let served = Rc::clone(&n_served);
    tasks.spawn_local(InTurn::new(async move { short(&served).await }, &turns, known()));
    let until = async |n: &Cell<u32>, least: u32| {
        let target = n.get() + least;
        while n.get() < target {
            tokio::task::yield_now().await;
        }
    };
    tasks.run_until(until(&n_served, 10)).await;
    n_in_line.set(LONG_LINE_LEN + 1);
    for _ in 0..20 {
        let first = Rc::clone(&n_first);
        let task = async move { first.set(first.get() + 1) };
        tasks.spawn_local(InTurn::new(task, &turns, new_from(here())));
    }
    let start = Instant::now();
    tasks.run_until(until(&n_first, 5)).await;
    assert!(4 * LONG_LINE_PAUSE <= start.elapsed(), "{:?}", start.elapsed());
    tasks.run_until(until(&n_served, 10)).await;
    n_in_line.set(0);
    tasks.run_until(until(&n_first, 20 - n_first.get())).await;
    calling.abort();
}

#[test]
fn what_was_used_is_forgiven_and_who_is_not_seen_is_forgotten() {
    let now = Instant::now();
    let usage = Usage::unknown(now);
    let proof = FORGIVEN_PARTS * UNKNOWN;
    let quick = FORGIVEN_PARTS * QUICK;
    assert!(!usage.is_quick(now) && !usage.is_quick(now + proof - quick));
    assert!(usage.is_quick(now + proof) && usage.is_quick(now + FORGET));
    assert!(!usage.is_quick(now + 2 * FORGET));
    // What it uses adds up, from when it had nothing to be forgiven.
    let later = now + FORGET / 2;
    let usage = usage.after(later, FREE + QUICK / 2);
    assert!(usage.is_quick(later) && usage.known_until == later + FORGET);
    let usage = usage.after(later, FREE + QUICK / 2);
    assert!(!usage.is_quick(later) && usage.is_quick(later + quick / 2));
    // Turns of a call count for nothing, however many they are.
    let calls = (0..100).fold(usage, |usage, _| usage.after(later, FREE));
    assert_eq!(calls.forgiven_at, usage.forgiven_at);
    // Who was forgotten begins anew.
    let again = later + 2 * FORGET;
    assert_eq!(usage.after(again, FREE + QUICK).forgiven_at, again + proof + quick);
}

#[tokio::test]
async fn who_has_been_quick_does_not_wait_for_those_who_have_just_come() {
    let turns = Rc::new(SessionTurns::default());
    let n_quick = Rc::new(Cell::new(0));
    let n_new = Rc::new(Cell::new(0));
    let tasks = tokio::task::LocalSet::new();
    let quick = Rc::clone(&n_quick);
    let mut task = InTurn::new(async move { short(&quick).await }, &turns, known());
    task.usage.forgiven_at = Instant::now();
    tasks.spawn_local(task);
    let calling = Rc::clone(&turns);
    tasks.spawn_local(async move { calling.call_each().await });
    tasks
        .run_until(async {
            for _ in 0..40 {
                let n_new = Rc::clone(&n_new);
                let first_turn = async move {
                    use_core(TIME_PER_LOOK);
                    n_new.set(n_new.get() + 1);
                };
                tokio::task::spawn_local(InTurn::new(first_turn, &turns, new_from(here())));
            }
            let before = n_quick.get();
            while n_new.get() < 40 {
                tokio::task::yield_now().await;
            }
            let n_quick = n_quick.get() - before;
            assert!(30 <= n_quick, "{n_quick} quick turns beside 40 first ones");
        })
        .await;
}

/// One who has read a request, and was never answered.
fn begun_from(origin: Origin) -> Who {
    Who { n_turns: FIRST_TURNS, ..new_from(origin) }
}

fn order(turns: &SessionTurns, has_to_rest: bool, wanted: &Rc<Ticket>) -> Vec<bool> {
    let mut waiting = turns.waiting.borrow_mut();
    let next = || waiting.pop(|_| has_to_rest);
    std::iter::from_fn(next).map(|ticket| Rc::ptr_eq(&ticket, wanted)).collect()
}

#[test]
fn who_has_just_come_does_not_wait_for_all_who_were_there() {
    let turns = SessionTurns::default();
    let three_and_one = || {
        (0..3).for_each(|_| drop(turns.add(Waker::noop(), &known())));
        turns.add(Waker::noop(), &begun_from(here()))
    };
    let new = three_and_one();
    assert_eq!(order(&turns, false, &new), [true, false, false, false]);
    // Who has to rest has no turn.
    let new = three_and_one();
    assert_eq!(order(&turns, true, &new), [false, false, false]);
}

#[test]
fn who_comes_from_elsewhere_does_not_wait_for_a_crowd() {
    let turns = SessionTurns::default();
    assert!(turns.has_time(&begun_from(here())));
    for nth in 0..MAX_NEW {
        assert!(!turns.is_full_from(here()), "{nth}");
        turns.add(Waker::noop(), &if nth == 0 { new_from(here()) } else { begun_from(here()) });
    }
    assert!(turns.is_full_from(here()) && !turns.is_full_from(elsewhere()));
    assert!(!turns.has_time(&begun_from(here())));
    assert!(turns.has_time(&begun_from(elsewhere())) && turns.has_time(&known()));
    turns.spend(Instant::now(), TIME_PER_LOOK, &known());
    assert!(!turns.has_time(&begun_from(elsewhere())) && !turns.has_time(&known()));
}

#[test]
fn who_was_never_answered_is_not_quick() {
    let turns = Rc::new(SessionTurns::default());
    turns.add(Waker::noop(), &begun_from(here()));
    let is_ready = |who| {
        let mut task = InTurn::new(std::future::ready(()), &turns, who);
        task.usage.forgiven_at = Instant::now();
        let task = std::pin::pin!(task);
        task.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    assert!(is_ready(known()));
    assert!(!is_ready(begun_from(here())));
}

#[tokio::test]
async fn who_has_used_the_time_of_the_new_rests_after_each_turn() {
    let turns = Rc::new(SessionTurns::default());
    let n_turns = Rc::new(Cell::new(0));
    let count = Rc::clone(&n_turns);
    let start = Instant::now();
    turns.spend(start, MUCH, &new_from(here()));
    turns.new_time.note_known(elsewhere(), start);
    let session = async move { busy(TIME_PER_LOOK, &count).await };
    let some_turns = async {
        while n_turns.get() < 6 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = InTurn::new(session, &turns, new_from(here())) => {}
        () = turns.call_each() => {}
        () = some_turns => {}
    }
    // One or two go on after each pause.
    let least = TIME_PER_LOOK * 6 + REST * 2;
    assert!(least <= start.elapsed(), "{:?}", start.elapsed());
}

/// A link counts as known before its first call: that is no first call later.
#[test]
fn who_is_known_does_not_come_one_by_one_to_a_long_line() {
    let turns = Rc::new(SessionTurns::new(Rc::new(Cell::new(LONG_LINE_LEN + 1))));
    let is_ready = |who| {
        let task = std::pin::pin!(InTurn::new(std::future::ready(()), &turns, who));
        task.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    assert!(is_ready(known()));
    assert!(!is_ready(new_from(here())));
}

/// Long before the rest of a test.
const MUCH: Duration = Duration::from_secs(60);

#[test]
fn those_who_have_used_their_time_rest_and_others_need_not() {
    let (turns, now) = (SessionTurns::default(), Instant::now());
    turns.add(Waker::noop(), &begun_from(here()));
    turns.spend(now, MUCH, &known());
    turns.new_time.note_known(elsewhere(), now);
    assert!(!turns.is_at_rest());
    turns.spend(now, MUCH, &begun_from(here()));
    assert!(turns.is_at_rest());
    for other in [begun_from(elsewhere()), new_from(elsewhere()), known()] {
        let other = turns.add(Waker::noop(), &other);
        assert!(!turns.is_at_rest());
        turns.rested_at.set(Some(now));
        turns.call_some(now);
        assert!(other.is_called.get() && turns.is_at_rest());
    }
}

#[test]
fn those_who_rest_have_a_turn_once_in_a_while_whoever_else_waits() {
    let (turns, now) = (SessionTurns::default(), Instant::now());
    turns.spend(now, MUCH, &begun_from(here()));
    turns.new_time.note_known(elsewhere(), now);
    turns.rested_at.set(Some(now));
    turns.average.set(TIME_PER_LOOK);
    for who in [new_from(here()), begun_from(here())] {
        let resting = turns.add(Waker::noop(), &who);
        let call = |nth: u32| {
            turns.add(Waker::noop(), &known());
            turns.call_some(now + REST * nth / 4);
        };
        (1..4).for_each(call);
        assert!(!resting.is_called.get());
        call(4);
        assert!(resting.is_called.get());
        let next = turns.add(Waker::noop(), &who);
        (5..8).for_each(call);
        assert!(!next.is_called.get());
        call(8);
        assert!(next.is_called.get());
        turns.rested_at.set(Some(now));
    }
}

#[tokio::test]
async fn one_alone_has_all_the_time() {
    let turns = Rc::new(SessionTurns::default());
    let n_turns = Rc::new(Cell::new(0));
    let count = Rc::clone(&n_turns);
    let task = async move { busy(2 * TIME_PER_LOOK, &count).await };
    let until = async {
        while n_turns.get() < 20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = InTurn::new(task, &turns, known()) => {}
        () = turns.call_each() => {}
        () = until => {}
    }
    // It waited for nobody but the sockets.
    let waiting = turns.waiting.borrow();
    assert!(waiting.known.len() <= 1 && waiting.new.is_empty());
}

/// A turn during which others run: the thread sleeps, as it does when it has to leave its core.
#[tokio::test]
async fn a_turn_counts_by_what_it_used_of_the_core() {
    let turns = SessionTurns::default();
    let at_start = CoreTime::of_thread();
    let start = Instant::now();
    std::thread::sleep(50 * LONG);
    let used = turns.used(start.elapsed(), Some(at_start));
    assert!(used < start.elapsed() / 2, "{used:?}");
    // Nobody looked before it began, and something came between since the last look.
    turns.n_interruptions.set(-1);
    assert_eq!(turns.used(LONG, None), Duration::ZERO);
    // A short one is taken as it is.
    assert_eq!(turns.used(LONG / 2, None), LONG / 2);
}

/// Timing is two system calls a turn.
#[test]
fn a_few_turns_are_timed_after_a_long_one() {
    let turns = Rc::new(SessionTurns::default());
    let is_long = Cell::new(true);
    let task = std::future::poll_fn(|_| {
        if is_long.get() {
            use_core(2 * LONG);
        }
        Poll::<()>::Pending
    });
    let mut task = InTurn::new(task, &turns, known());
    let cx = &mut Context::from_waker(Waker::noop());
    let mut take_turn = || {
        task.usage.forgiven_at = Instant::now();
        assert!(Pin::new(&mut task).poll(cx).is_pending());
        task.n_timed
    };
    assert_eq!((take_turn(), take_turn()), (TIMED_TURNS, TIMED_TURNS));
    is_long.set(false);
    let n_timed: Vec<_> = (0..TIMED_TURNS + 1).map(|_| take_turn()).collect();
    assert_eq!(n_timed.last(), Some(&0), "{n_timed:?}");
}
