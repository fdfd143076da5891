//! Gates before an app that no test calls: a test says itself what has become of a call.

use std::time::Duration;

use flow::lender::Demand;
use proptest::prelude::*;

use super::testing::TestBorrower;
use super::*;
use crate::config::AppCapacity;
use crate::testing::on_worker;

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(20);

fn shared(capacity: u32, n_workers: usize) -> Arc<SharedGate> {
    Arc::new(SharedGate::new("10.0.0.9:20880".to_owned(), AppCapacity::Known(capacity), n_workers))
}

fn ask(gate: &Rc<AppGate>) -> Admission {
    let now = Instant::now();
    gate.admit(now, CallerId::known(1), now + PATIENCE, || Priority::Normal)
}

fn let_in(gate: &Rc<AppGate>) -> Admitted {
    match ask(gate) {
        Admission::In(admitted) => admitted,
        Admission::Waits(_) => panic!("it waits"),
        Admission::Shed(error) => panic!("{error}"),
    }
}

fn waits(gate: &Rc<AppGate>) -> WaitingAtGate {
    match ask(gate) {
        Admission::Waits(waiting) => waiting,
        Admission::In(_) | Admission::Shed(_) => panic!("it does not wait"),
    }
}

/// There is one for each worker and each endpoint that is called without an agent there.
#[test]
fn a_gate_is_small() {
    let [gate, shared] = [size_of::<AppGate>(), size_of::<SharedGate>()];
    assert!(gate <= 768 && shared <= 664, "{gate} and {shared} bytes");
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

/// Waits until the gate has room: its task looks at it every few milliseconds.
async fn room(gate: &Rc<AppGate>) {
    let has_room = async {
        while !gate.has_room(Instant::now()) {
            tokio::task::yield_now().await;
        }
    };
    soon(has_room).await;
}

/// A worker that only looks takes room from the others for a moment, and gives it back.
#[test]
fn who_looks_and_does_not_call_gives_the_room_back() {
    on_worker(async || {
        let shared = shared(1, 2);
        let gates = [0, 1].map(|worker| AppGate::new(&shared, worker));
        for _ in 0..3 {
            for gate in &gates {
                room(gate).await;
            }
        }
        room(&gates[0]).await;
        let_in(&gates[0]).answered(Instant::now());
        room(&gates[1]).await;
    });
}

/// A drain ends one worker after the other. Nobody tells a gate of it.
#[test]
fn a_worker_that_ends_leaves_its_room_to_the_others() {
    for capacity in [1, 10] {
        let shared = shared(capacity, 2);
        on_worker(async || {
            let gate = AppGate::new(&shared, 0);
            let calls: Vec<_> = (0..capacity).map(|_| let_in(&gate)).collect();
            tokio::task::yield_now().await;
            calls.into_iter().for_each(|call| call.answered(Instant::now()));
        });
        on_worker(async || {
            let gate = AppGate::new(&shared, 1);
            let n = (0..capacity).take_while(|_| gate.has_room(Instant::now()));
            let calls: Vec<_> = n.map(|_| let_in(&gate)).collect();
            assert_eq!(calls.len(), capacity as usize);
        });
    }
}

#[test]
fn a_call_waits_until_one_before_it_is_answered() {
    on_worker(async || {
        let shared = shared(1, 1);
        let gate = AppGate::new(&shared, 0);
        let first = let_in(&gate);
        let second = waits(&gate);
        first.answered(Instant::now());
        let second = soon(second.admitted()).await.unwrap();
        assert!(!gate.has_room(Instant::now()), "the app has one call");
        second.answered(Instant::now());
        room(&gate).await;
        assert_eq!(shared.figures().shed, 0);
    });
}

#[test]
fn one_that_waits_is_forgotten_with_its_caller() {
    on_worker(async || {
        let gate = AppGate::new(&shared(1, 1), 0);
        let first = let_in(&gate);
        let (second, third) = (waits(&gate), waits(&gate));
        drop(second);
        first.answered(Instant::now());
        // The one behind it is next.
        let third = soon(third.admitted()).await.unwrap();
        // One that was let in, and whose caller never hears of it.
        let fourth = waits(&gate);
        third.answered(Instant::now());
        tokio::task::yield_now().await;
        drop(fourth);
        room(&gate).await;
    });
}

#[test]
fn a_call_that_would_come_too_late_is_shed_and_the_message_says_why() {
    on_worker(async || {
        let shared = shared(1, 1);
        let gate = AppGate::new(&shared, 0);
        // The app usually takes a second.
        let began = Instant::now();
        let_in(&gate).answered(began + Duration::from_secs(1));
        let _in_the_app = let_in(&gate);
        let now = Instant::now();
        let deadline = now + Duration::from_millis(1);
        let admission = gate.admit(now, CallerId::known(1), deadline, || Priority::Normal);
        let Admission::Shed(error) = admission else { panic!("it was not shed") };
        assert_eq!(error.code, Code::Overloaded);
        let [least, longest] = RETRY_AFTER;
        assert!((least..=longest).contains(&error.retry_after.unwrap()));
        assert_eq!(
            &*error.message,
            "the app at 10.0.0.9:20880 works on as many calls as it can take (1, configured), 0 \
             more wait on this worker, and this one would not be answered before its deadline"
        );
        assert_eq!(shared.figures().shed, 1);
    });
}

#[test]
fn a_call_that_was_given_up_counts_until_the_app_answers_it_late() {
    on_worker(async || {
        let gate = AppGate::new(&shared(1, 1), 0);
        let n_late = Rc::new(Cell::new(0));
        let told = Rc::clone(&n_late);
        gate.set_late_ends(Box::new(move || Some(told.get())));
        drop(let_in(&gate));
        let next = waits(&gate);
        // However often its task has looked meanwhile.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!gate.has_room(Instant::now()));
        n_late.set(1);
        soon(next.admitted()).await.unwrap().answered(Instant::now());
    });
}

#[test]
fn a_call_that_was_given_up_has_ended_with_the_connection_or_where_the_app_stops() {
    on_worker(async || {
        // An HTTP app stops when its connection ends.
        let gate = AppGate::new(&shared(1, 1), 0);
        drop(let_in(&gate));
        assert!(gate.has_room(Instant::now()));
        // A Dubbo app without its connection answers nobody.
        let gate = AppGate::new(&shared(1, 1), 0);
        gate.set_late_ends(Box::new(|| None));
        drop(let_in(&gate));
        assert!(!gate.has_room(Instant::now()));
        room(&gate).await;
    });
}

#[test]
fn who_waits_elsewhere_hears_of_room_once() {
    on_worker(async || {
        let gate = AppGate::new(&shared(1, 1), 0);
        let first = gate.enter(Instant::now()).unwrap();
        assert!(gate.enter(Instant::now()).is_none());
        let room = Rc::new(Notify::new());
        gate.want(2, &room);
        gate.want(3, &room);
        first.unused(Instant::now());
        soon(room.notified()).await;
        gate.enter(Instant::now()).unwrap().unused(Instant::now());
        let more = tokio::time::timeout(Duration::ZERO, room.notified()).await;
        assert!(more.is_err(), "it was told twice");
    });
}

#[test]
fn workers_share_the_capacity_and_never_have_more() {
    on_worker(async || {
        let shared = shared(2, 2);
        let gates = [AppGate::new(&shared, 0), AppGate::new(&shared, 1)];
        let one = let_in(&gates[0]);
        // The other worker has none, so this one gets all.
        room(&gates[0]).await;
        let two = let_in(&gates[0]);
        let third = waits(&gates[1]);
        one.answered(Instant::now());
        let third = soon(third.admitted()).await.unwrap();
        let n_calls = gates.iter().map(|gate| gate.gate.borrow().stats().in_flight).sum::<u32>();
        assert_eq!(n_calls, 2);
        two.answered(Instant::now());
        third.answered(Instant::now());
        for gate in &gates {
            room(gate).await;
        }
    });
}

#[test]
fn the_configuration_counts_before_what_an_app_registers() {
    let gate = SharedGate::new("app".to_owned(), AppCapacity::Registered, 1);
    assert_eq!(gate.source(), CapacitySource::Found);
    assert!(gate.set_registered(7));
    assert!(!gate.set_registered(7), "nothing new");
    assert_eq!((gate.source(), gate.capacity()), (CapacitySource::Registered, 7));
    gate.configure(AppCapacity::Known(3));
    assert_eq!((gate.source(), gate.capacity()), (CapacitySource::Configured, 3));
    assert!(!gate.set_registered(9), "the configuration counts");
    gate.configure(AppCapacity::Adaptive);
    assert_eq!(gate.source(), CapacitySource::Found);
    gate.configure(AppCapacity::Registered);
    assert_eq!((gate.source(), gate.capacity()), (CapacitySource::Registered, 9));
    // An app that registers no threads still takes a call.
    gate.set_registered(0);
    assert_eq!(gate.capacity(), 1);
}

/// The calls of a few links and of others at one gate.
struct CallsAtGate {
    gate: Rc<AppGate>,
    /// By their numbers, from 1 on.
    links: Vec<Rc<TestBorrower>>,
    inside: Vec<Admitted>,
    waiting: Vec<WaitingAtGate>,
    now: Instant,
}

impl CallsAtGate {
    fn new(capacity: u32) -> Self {
        let gate = AppGate::new(&shared(capacity, 1), 0);
        let links = [(); 3].map(|()| Rc::default()).into();
        Self { gate, links, inside: Vec::new(), waiting: Vec::new(), now: Instant::now() }
    }

    /// A call is let in: there is room for it.
    fn has_begun(&mut self, call: Admitted) {
        self.inside.push(call);
        let (n_calls, capacity) = (self.inside.len(), self.gate.allowed.get());
        assert!(n_calls <= capacity as usize, "{n_calls} calls, and a capacity of {capacity}");
    }

    fn call(&mut self, caller: u64) {
        let deadline = self.now + PATIENCE;
        match self.gate.admit(self.now, CallerId::known(caller), deadline, Priority::default) {
            Admission::In(admitted) => self.has_begun(admitted),
            Admission::Waits(waiting) => self.waiting.push(waiting),
            Admission::Shed(_) => {}
        }
    }

    fn end(&mut self, n: u32) {
        let Some(last) = self.inside.len().checked_sub(1) else { return };
        let call = self.inside.swap_remove(n as usize % (last + 1));
        match n % 4 {
            0 => call.unused(self.now),
            1 => call.failed(self.now, &CallError::new(Code::ThreadPoolExhausted, "")),
            _ => call.answered(self.now),
        }
    }

    fn step(&mut self, step: u8, caller: u64, n: u32) {
        let (gate, now) = (Rc::clone(&self.gate), self.now);
        let link = usize::try_from(caller).ok().and_then(|it| self.links.get(it - 1)).cloned();
        match (step, link) {
            (0..=4, _) => self.call(caller),
            (5..=6, _) => self.end(n),
            (7, Some(link)) => gate.lend(now, caller, &(link as Rc<dyn Borrower>)),
            (8, Some(link)) => {
                let n_seen = link.n_told() - n.min(link.n_told()) % 2;
                gate.demanded(now, caller, Demand { n_waiting: n % 6, n_seen });
            }
            (9, Some(_)) => gate.lost(now, caller),
            (10, _) => {
                gate.shared.configure(AppCapacity::Known(1 + n % 8));
                gate.look_again();
            }
            (11, _) => gate.look_at_lending(now, n.is_multiple_of(2)),
            (12, _) => drop((!self.waiting.is_empty()).then(|| self.waiting.remove(0))),
            _ => self.now += n * Duration::from_millis(3),
        }
        gate.report(self.now);
        gate.poll(self.now);
        for mut waiting in std::mem::take(&mut self.waiting) {
            match waiting.outcome.try_recv() {
                Ok(Ok(admitted)) => self.has_begun(admitted),
                Err(oneshot::error::TryRecvError::Empty) => self.waiting.push(waiting),
                Ok(Err(_)) | Err(oneshot::error::TryRecvError::Closed) => {}
            }
        }
        assert_eq!(self.gate.gate.borrow().stats().in_flight as usize, self.inside.len());
    }
}

proptest! {
    /// Whatever is lent meanwhile, and however often the capacity changes, no call begins while
    /// the app has as many as it can take. All calls are forgotten with their ends.
    #[test]
    fn the_app_never_gets_more_calls_than_it_can_take(
        capacity in 1..8u32,
        steps in prop::collection::vec((0..14u8, 1..6u64, 0..60u32), 1..200),
    ) {
        on_worker(async || {
            let mut calls = CallsAtGate::new(capacity);
            for (step, caller, n) in steps {
                calls.step(step, caller, n);
            }
            calls.waiting.clear();
            calls.inside.drain(..).for_each(|call| call.unused(calls.now));
            calls.gate.look_at_lending(calls.now, true);
            assert!(calls.gate.has_room(calls.now));
        });
    }
}
