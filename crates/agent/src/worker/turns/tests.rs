use std::net::Ipv4Addr;

use super::*;
use crate::connections::Activity;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A session that was answered, or never was.
struct Caller {
    is_known: bool,
}

impl Session for Caller {
    fn drain(&self) {}
    fn check_time(&self, _: Instant) {}
    fn is_known(&self) -> bool {
        self.is_known
    }
    fn activity(&self) -> Activity {
        Activity { doing: "calling", in_flight: 1, held_bytes: 0, peer_name: None }
    }
}

fn new_from(address: IpAddr) -> Who {
    Who::new(address, Rc::new(Caller { is_known: false }))
}

fn known() -> Who {
    let mut who = Who::new(HERE, Rc::new(Caller { is_known: true }));
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
    let turns = Rc::new(Turns::default());
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
    let turns = Rc::new(Turns::default());
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
    let turns = Rc::new(Turns::new(Rc::clone(&n_in_line)));
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
        tasks.spawn_local(InTurn::new(task, &turns, new_from(HERE)));
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
    let turns = Rc::new(Turns::default());
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
                tokio::task::spawn_local(InTurn::new(first_turn, &turns, new_from(HERE)));
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
fn begun_from(address: IpAddr) -> Who {
    Who { n_turns: FIRST_TURNS, ..new_from(address) }
}

fn order(turns: &Turns, is_new_spent: bool, wanted: &Rc<Ticket>) -> Vec<bool> {
    let mut waiting = turns.waiting.borrow_mut();
    let next = || waiting.pop(is_new_spent);
    std::iter::from_fn(next).map(|ticket| Rc::ptr_eq(&ticket, wanted)).collect()
}

#[test]
fn who_has_just_come_does_not_wait_for_all_who_were_there() {
    let turns = Turns::default();
    let three_and_one = || {
        (0..3).for_each(|_| drop(turns.add(Waker::noop(), &known())));
        turns.add(Waker::noop(), &begun_from(HERE))
    };
    let new = three_and_one();
    assert_eq!(order(&turns, false, &new), [true, false, false, false]);
    // When they have used their time, those who are known come first.
    let new = three_and_one();
    assert_eq!(order(&turns, true, &new), [false, false, false, true]);
}

#[test]
fn who_comes_from_elsewhere_does_not_wait_for_a_crowd() {
    let turns = Turns::default();
    assert!(turns.has_time(&begun_from(HERE)));
    for nth in 0..MAX_NEW {
        assert!(!turns.is_full_from(HERE), "{nth}");
        turns.add(Waker::noop(), &if nth == 0 { new_from(HERE) } else { begun_from(HERE) });
    }
    assert!(turns.is_full_from(HERE) && !turns.is_full_from(ELSEWHERE));
    assert!(!turns.has_time(&begun_from(HERE)));
    assert!(turns.has_time(&begun_from(ELSEWHERE)) && turns.has_time(&known()));
    turns.spend(Instant::now(), TIME_PER_LOOK, true);
    assert!(!turns.has_time(&begun_from(ELSEWHERE)) && !turns.has_time(&known()));
}

#[test]
fn who_was_never_answered_is_not_quick() {
    let turns = Rc::new(Turns::default());
    turns.add(Waker::noop(), &begun_from(HERE));
    let is_ready = |who| {
        let mut task = InTurn::new(std::future::ready(()), &turns, who);
        task.usage.forgiven_at = Instant::now();
        let task = std::pin::pin!(task);
        task.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    assert!(is_ready(known()));
    assert!(!is_ready(begun_from(HERE)));
}

#[tokio::test]
async fn who_has_used_the_time_of_the_new_pauses_after_each_turn() {
    let turns = Rc::new(Turns::default());
    let n_turns = Rc::new(Cell::new(0));
    let count = Rc::clone(&n_turns);
    let start = Instant::now();
    turns.spend(start, NEW_TIME * 100, false);
    turns.known_at.set(Some(start));
    let some_turns = async {
        while n_turns.get() < 6 {
            // A turn takes all the time between two looks at the sockets.
            turns.average.set(TIME_PER_LOOK);
            turns.spent.set(TIME_PER_LOOK);
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = InTurn::new(async move { short(&count).await }, &turns, new_from(HERE)) => {}
        () = turns.call_each() => {}
        () = some_turns => {}
    }
    // One or two are called after each pause.
    assert!(NEW_PAUSE * 2 <= start.elapsed(), "{:?}", start.elapsed());
}

#[test]
fn those_who_were_never_answered_have_a_part_of_the_time() {
    let (turns, now) = (Turns::default(), Instant::now());
    turns.add(Waker::noop(), &begun_from(HERE));
    turns.spend(now, NEW_TIME * 100, true);
    assert!(!turns.has_to_pause());
    // Half of it was used long ago, and is their own again.
    turns.spend(now.checked_sub(NEW_TIME * NEW_PARTS).unwrap(), NEW_TIME, false);
    turns.spend(now, NEW_TIME, false);
    turns.known_at.set(Some(now));
    assert!(!turns.has_to_pause());
    turns.spend(now, NEW_TIME * 100, false);
    assert!(turns.has_to_pause());
    // Where nobody else calls, nobody has to be spared.
    turns.known_at.set(now.checked_sub(FORGET));
    assert!(!turns.has_to_pause());
    turns.known_at.set(Some(now));
    // Others need not wait for the pause.
    turns.add(Waker::noop(), &known());
    assert!(!turns.has_to_pause());
}

#[tokio::test]
async fn one_alone_has_all_the_time() {
    let turns = Rc::new(Turns::default());
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
    let turns = Turns::default();
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
