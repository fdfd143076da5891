//! The gates before the apps behind our exports: which calls begin, wait, or are shed.
//!
//! [`flow`] decides. Here are the clock, the task that looks at a gate now and then, and what all
//! workers share of an app ([`SharedGate`]).
//!
//! A worker's gate has a task only while calls are in the app or wait. A call that finds room
//! costs neither a lock nor a wake-up.
//!
//! An endpoint that we call without an agent before it has such a gate as well ([`DirectGates`]).
//! There nobody waits at the gate: calls wait in the line of their cluster, which is told when
//! there is room.
//!
//! Invariant: whatever becomes of a call that was let in, its pass comes back: when its answer
//! came, when it is known that none will come, or after a time (`LONGEST_WORK`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::capacity::Allowance;
use flow::gate::{Arrival, Gate, Left, Pace, Pass, Shed};
use flow::lender::OwnDemand;
use flow::queue::{CallerId, Priority, WaitKey};
use tokio::sync::{Notify, oneshot};

pub use self::direct::{DirectGates, OwnGates};
pub use self::lending::Borrower;
use self::lending::Lending;
use self::pauses::AppPauses;
pub use self::pauses::LookForPause;
use self::settling::LentSettling;
pub use self::shared::{CapacitySource, GateFigures, SharedGate};
use crate::error::{CallError, Code};

mod direct;
mod lending;
mod pauses;
mod repeating;
mod settling;
mod shared;
mod upkeep;

/// A Dubbo provider goes on with a call that its caller has given up, and its answer says when it
/// has ended. One that has not answered for so long never will.
pub const LONGEST_WORK: Duration = Duration::from_secs(10);
/// The timers of a worker are kept to this precision.
const TIMER_STEP: Duration = Duration::from_millis(1);
/// The least and the longest that a caller is told to stay away.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(10)];

/// A call that is shed: nobody has begun it.
#[cold]
pub fn overloaded(message: String, retry_after: Duration) -> CallError {
    let [least, longest] = RETRY_AFTER;
    let retry_after = Some(retry_after.clamp(least, longest));
    CallError { retry_after, ..CallError::new(Code::Overloaded, message) }
}

/// What becomes of a call at the gate.
pub enum Admission {
    /// It may begin.
    In(Admitted),
    /// It waits.
    Waits(WaitingAtGate),
    /// It is shed.
    Shed(CallError),
}

/// Leave to have one call in the app. Dropped, it counts until the app has ended the call, or
/// nobody can tell.
#[must_use = "a call that is let in has to begin"]
pub struct Admitted {
    gate: Rc<AppGate>,
    pass: Option<Pass>,
}

/// A call that waits at the gate. Dropped, it does not.
pub struct WaitingAtGate {
    gate: Rc<AppGate>,
    key: WaitKey,
    outcome: oneshot::Receiver<Result<Admitted, CallError>>,
}

/// One worker's gate before an app.
pub struct AppGate {
    shared: Arc<SharedGate>,
    worker: usize,
    gate: RefCell<Gate<oneshot::Sender<Result<Admitted, CallError>>>>,
    /// A task looks after it.
    is_active: Cell<bool>,
    /// The app has rejected a call since the last report.
    is_rejected: Cell<bool>,
    lingering: RefCell<Lingering>,
    late_ends: RefCell<Option<LateEnds>>,
    /// All that other workers could spare was asked for, and was not enough.
    is_refused: Cell<bool>,
    /// Who waits elsewhere for room.
    elsewhere: RefCell<Vec<WaitsElsewhere>>,
    /// How many calls of this worker may be in the app.
    allowed: Cell<u32>,
    lending: RefCell<Option<Box<Lending>>>,
    is_lending: Cell<bool>,
    /// Calls by credits may have been answered a moment ago.
    settles_lent: Cell<bool>,
    /// What this worker has may be lent.
    may_be_lent: Cell<bool>,
    pauses: AppPauses,
}

/// Calls that wait for room in one app or another.
struct WaitsElsewhere {
    n_waiting: u32,
    room: Rc<Notify>,
}

/// How many calls of the app, that nobody waited for any more, have ended so far: by a late reply,
/// or with their connection. `None` when the app is given up: then all of them have.
pub type LateEnds = Box<dyn Fn() -> Option<u64>>;

/// Calls that are in the app, and whose answers nobody waits for.
#[derive(Default)]
struct Lingering {
    /// Those that were given up, and when they are forgotten.
    given_up: VecDeque<(Instant, Pass)>,
    /// Those that are never answered, and when they have ended as far as one can tell.
    one_way: VecDeque<(Instant, Pass)>,
    /// Those that were answered a moment ago, and when their threads are free.
    settling: VecDeque<(Instant, Pass)>,
    settling_lent: LentSettling,
    /// Given-up calls that had ended at the last look.
    n_late: u64,
}

impl AppGate {
    /// The gate of the worker with that number, before an app that stops when a call is given up.
    #[must_use]
    pub fn new(shared: &Arc<SharedGate>, worker: usize) -> Rc<Self> {
        let allowance = shared.allowance(worker);
        let mut gate = Gate::new(allowance.line, allowance.limit, Instant::now());
        gate.set_limit(allowance.limit, allowance.reach);
        Rc::new(Self {
            shared: Arc::clone(shared),
            worker,
            gate: RefCell::new(gate),
            is_active: Cell::new(false),
            is_rejected: Cell::new(false),
            lingering: RefCell::default(),
            late_ends: RefCell::new(None),
            is_refused: Cell::new(false),
            elsewhere: RefCell::default(),
            allowed: Cell::new(allowance.limit),
            lending: RefCell::default(),
            is_lending: Cell::new(false),
            settles_lent: Cell::new(false),
            may_be_lent: Cell::new(allowance.may_be_lent),
            pauses: AppPauses::default(),
        })
    }

    /// The app goes on with a call that is given up, and answers it late.
    pub fn set_late_ends(&self, late_ends: LateEnds) {
        let mut lingering = self.lingering.borrow_mut();
        if lingering.given_up.is_empty() {
            // What ended before is none of this gate's calls.
            lingering.n_late = late_ends().unwrap_or_default();
        }
        *self.late_ends.borrow_mut() = Some(late_ends);
    }

    /// Whether it is one of these gates.
    #[must_use]
    pub fn is_of(&self, shared: &Arc<SharedGate>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// What all workers share of it.
    #[must_use]
    pub fn shared(&self) -> &Arc<SharedGate> {
        &self.shared
    }

    /// Whether a call would be let in now.
    #[inline]
    pub fn has_room(self: &Rc<Self>, now: Instant) -> bool {
        !self.gate.borrow().is_full() || self.is_room_elsewhere(now)
    }

    /// Whether other workers can spare some room, which is ours then.
    #[cold]
    fn is_room_elsewhere(self: &Rc<Self>, now: Instant) -> bool {
        if self.is_refused.get() {
            return false;
        }
        // Who asks may call another app after all. The task gives back what is not used, and asks
        // again where there was nothing.
        if !self.is_active.get() {
            self.start();
        }
        let Some(allowance) = self.shared.ask(now, self.worker, || self.with_one_more()) else {
            return false;
        };
        self.allow(now, allowance);
        self.is_refused.set(self.gate.borrow().is_full());
        !self.is_refused.get()
    }

    /// Lets a call in if there is room.
    #[inline]
    pub fn enter(self: &Rc<Self>, now: Instant) -> Option<Admitted> {
        let pass = self.gate.borrow_mut().enter(now)?;
        Some(self.admitted(pass))
    }

    /// So many calls wait elsewhere for room here: `room` is notified once when there is some.
    pub fn want(self: &Rc<Self>, n_waiting: u32, room: &Rc<Notify>) {
        self.gate.borrow_mut().want(n_waiting);
        let mut elsewhere = self.elsewhere.borrow_mut();
        match elsewhere.iter_mut().find(|it| Rc::ptr_eq(&it.room, room)) {
            Some(it) => it.n_waiting = n_waiting,
            None => elsewhere.push(WaitsElsewhere { n_waiting, room: Rc::clone(room) }),
        }
        if !self.is_active.get() {
            self.start();
        }
    }

    /// How fast calls go through the app, as this worker has seen it.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.gate.borrow().pace()
    }

    /// Tells those who wait elsewhere that there is room, if there is.
    #[inline]
    fn tell_room(&self) {
        if !self.elsewhere.borrow().is_empty() && !self.gate.borrow().is_full() {
            self.elsewhere.take().iter().for_each(|it| it.room.notify_one());
        }
    }

    /// The capacity may be another one.
    pub fn look_again(&self) {
        self.set_allowance(Instant::now(), self.shared.allowance(self.worker));
    }

    fn set_allowance(&self, now: Instant, allowance: Allowance) {
        self.allow(now, allowance);
        self.is_refused.set(false);
        self.tell_room();
    }

    /// Lets a call in, has it wait, or sheds it. `priority` is asked for only if it has to wait.
    #[inline]
    pub fn admit(
        self: &Rc<Self>,
        now: Instant,
        caller: CallerId,
        deadline: Instant,
        priority: impl FnOnce() -> Priority,
    ) -> Admission {
        let lent = if self.is_lending.get() { self.enter_lent(now, caller.number) } else { None };
        let pass = lent.or_else(|| self.enter_own(now));
        match pass {
            Some(pass) => Admission::In(self.admitted(pass)),
            None => {
                let arrival = Arrival { caller, priority: priority(), deadline };
                self.admit_slowly(now, arrival)
            }
        }
    }

    /// Lets a call in that has no credit, if there is room, and a thread is free for certain.
    #[inline]
    fn enter_own(&self, now: Instant) -> Option<Pass> {
        if self.is_settled(now) { self.gate.borrow_mut().enter(now) } else { None }
    }

    #[inline]
    fn admitted(self: &Rc<Self>, pass: Pass) -> Admitted {
        if !self.is_active.get() {
            self.start();
        }
        Admitted { gate: Rc::clone(self), pass: Some(pass) }
    }

    #[cold]
    fn admit_slowly(self: &Rc<Self>, now: Instant, arrival: Arrival) -> Admission {
        let allowance = self.shared.ask(now, self.worker, || self.with_one_more());
        allowance.into_iter().for_each(|allowance| self.allow(now, allowance));
        if self.is_lending.get() {
            self.want_own(now);
        }
        if allowance.is_some() || self.is_lending.get() {
            let pass = self.enter_own(now);
            if let Some(pass) = pass {
                return Admission::In(self.admitted(pass));
            }
        }
        let (task, outcome) = oneshot::channel();
        let waits = self.gate.borrow_mut().wait(now, arrival, task);
        match waits {
            Ok(key) => {
                match self.is_active.get() {
                    // It may expire before the others, or have displaced one.
                    true => self.shared.wake(self.worker),
                    false => self.start(),
                }
                Admission::Waits(WaitingAtGate { gate: Rc::clone(self), key, outcome })
            }
            Err((shed, _)) => Admission::Shed(self.shed(shed)),
        }
    }

    /// Calls that are in the app or wait.
    fn demand(&self) -> u32 {
        let stats = self.gate.borrow().stats();
        stats.in_flight.saturating_add(u32::try_from(stats.n_waiting).unwrap_or(u32::MAX))
    }

    /// The same, and one more that wants to be let in.
    fn with_one_more(&self) -> OwnDemand {
        let in_flight = self.gate.borrow().stats().in_flight;
        OwnDemand { in_flight, demand: self.demand().saturating_add(1) }
    }

    /// Counts a call that is shed, and says why it is.
    #[cold]
    fn shed(&self, shed: Shed) -> CallError {
        self.shared.count_shed(self.worker);
        let (stats, retry_after) = {
            let gate = self.gate.borrow();
            (gate.stats(), gate.retry_after())
        };
        let (app, n_waiting) = (self.shared.app(), stats.n_waiting);
        let (capacity, source) = (self.shared.capacity(), self.shared.source().describe());
        let why = match shed {
            Shed::Late => "this one would not be answered before its deadline",
            Shed::Busy => "this one would wait too long",
            Shed::Full => "no more may wait",
        };
        let message = format!(
            "the app at {app} works on as many calls as it can take ({capacity}, {source}), \
             {n_waiting} more wait on this worker, and {why}"
        );
        overloaded(message, retry_after)
    }

    fn leave(&self, mut pass: Pass, now: Instant, left: Left) {
        let lent_to = self.gate.borrow().lent_to(&pass);
        if let Left::Answered(latency) = left
            && (lent_to.is_some() || self.gate.borrow().is_full())
        {
            match self.settle(pass, now, latency) {
                Some(free) => pass = free,
                None => return,
            }
        }
        let is_waited_for = {
            let mut gate = self.gate.borrow_mut();
            let is_full = gate.is_full();
            gate.leave(pass, now, left);
            gate.has_waiting() || is_full && (self.shared.is_dealt() || self.is_lending.get())
        };
        if let Some(link) = lent_to {
            self.left_lent(now, link);
        }
        if left == Left::Rejected {
            self.is_rejected.set(true);
        }
        if is_waited_for || left == Left::Rejected {
            self.shared.wake(self.worker);
        }
        self.tell_room();
    }

    /// Nobody waits for the call any more. The app may go on with it.
    fn give_up(&self, pass: Pass, now: Instant) {
        if self.late_ends.borrow().is_none() {
            return self.leave(pass, now, Left::Unanswered);
        }
        self.lingering.borrow_mut().given_up.push_back((now + LONGEST_WORK, pass));
    }
}

impl Admitted {
    /// How long the call has been in the app.
    #[inline]
    pub fn age(&self, now: Instant) -> Duration {
        self.pass.as_ref().map_or(Duration::ZERO, |pass| pass.age(now))
    }

    /// The app has answered.
    #[inline]
    pub fn answered(self, now: Instant) {
        let latency = self.age(now);
        self.answered_after(now, latency);
    }

    /// The same for who knows how long the call was in the app.
    #[inline]
    pub fn answered_after(mut self, now: Instant, latency: Duration) {
        debug_assert_eq!(latency, self.age(now));
        self.leave(now, Left::Answered(latency));
    }

    /// The call has failed.
    pub fn failed(mut self, now: Instant, error: &CallError) {
        match error.code {
            Code::ThreadPoolExhausted => self.leave(now, Left::Rejected),
            // Here, or at the caller: the app may go on with it.
            Code::Timeout | Code::Cancelled => {}
            _ => self.leave(now, Left::Unknown),
        }
    }

    /// The call has ended, well or not.
    #[inline]
    pub fn ended(self, now: Instant, error: Option<&CallError>) {
        match error {
            None => self.answered(now),
            Some(error) => self.failed(now, error),
        }
    }

    /// The call was not made after all.
    pub fn unused(mut self, now: Instant) {
        self.leave(now, Left::Unknown);
    }

    /// The call is with the app, which will not say when it has ended it.
    pub fn sent_one_way(mut self, now: Instant) {
        if let Some(pass) = self.pass.take() {
            let usual = Some(self.gate.gate.borrow().usual()).filter(|usual| !usual.is_zero());
            let until = now + usual.unwrap_or_else(|| self.gate.shared.usual());
            self.gate.lingering.borrow_mut().one_way.push_back((until, pass));
        }
    }

    #[inline]
    fn leave(&mut self, now: Instant, left: Left) {
        if let Some(pass) = self.pass.take() {
            self.gate.leave(pass, now, left);
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.gate.give_up(pass, Instant::now());
        }
    }
}

impl std::fmt::Debug for Admitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admitted").finish_non_exhaustive()
    }
}

impl WaitingAtGate {
    /// Waits until the call may begin.
    ///
    /// # Errors
    /// [`Code::Overloaded`] if it is shed instead.
    pub async fn admitted(mut self) -> Result<Admitted, CallError> {
        let outcome = (&mut self.outcome).await;
        outcome.unwrap_or_else(|_| {
            let message = "a call at the gate was forgotten; please report this";
            Err(CallError::new(Code::Internal, message))
        })
    }
}

impl Drop for WaitingAtGate {
    fn drop(&mut self) {
        // Without effect if it waits no longer.
        drop(self.gate.gate.borrow_mut().cancel(self.key));
        self.outcome.close();
        if let Ok(Ok(mut unused)) = self.outcome.try_recv() {
            unused.leave(Instant::now(), Left::Unknown);
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
