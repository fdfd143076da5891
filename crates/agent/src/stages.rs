//! Where the time of calls goes: a clock for one call in so many, and what such clocks have shown.
//!
//! The journal chooses the calls. Whoever has a part in a call moves its clock on; when the last
//! of them lets go of it, the call has ended and is added to the [`StageTable`].
//!
//! Invariants:
//! - The stages of a call add up to the time from its begin until its answer is written.
//! - A call without a clock costs its parts one comparison each.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Services that have totals of their own; all others share [`OTHER`].
const MAX_SERVICES: usize = 256;
/// The name of the services that came too late.
pub const OTHER: &str = "other";

/// What a call is doing, in its order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Stage {
    /// The rest of the request comes.
    Read,
    /// It waits: for a route, for room at an endpoint, for a credit, or for a connection.
    Wait,
    /// The arguments are written in the endpoint's serialization.
    Encode,
    /// It waits until the kernel has taken the request.
    Write,
    /// On its way, there and back, and at work where nobody says how long that took.
    Network,
    /// The provider's own work, as its agent says.
    App,
    /// The reply has come, and is read and written again for the caller.
    Decode,
    /// It waits until the kernel has taken the answer.
    Answer,
}

/// How many stages there are.
pub const N_STAGES: usize = Stage::ALL.len();

impl Stage {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Wait,
        Self::Encode,
        Self::Write,
        Self::Network,
        Self::App,
        Self::Decode,
        Self::Answer,
    ];

    /// Its name on pages and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Wait => "wait",
            Self::Encode => "encode",
            Self::Write => "write",
            Self::Network => "network",
            Self::App => "app",
            Self::Decode => "decode",
            Self::Answer => "answer",
        }
    }
}

/// Which calls a total is of.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum CallSide {
    /// Those that local programs make.
    Ingress,
    /// Those that other agents send to the local app.
    Export,
}

impl CallSide {
    /// Its name on pages and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Export => "export",
        }
    }
}

/// How long a call was in each stage, by the number of the stage.
pub type Spent = [Duration; N_STAGES];

/// The clock of one call.
#[derive(Debug)]
pub struct StageClock {
    place: CallSide,
    service: OnceCell<Box<str>>,
    stage: Cell<Stage>,
    since: Cell<Instant>,
    spent: Cell<Spent>,
    table: StageTable,
}

impl StageClock {
    /// A clock that began at `now`, with the first stage of a call.
    pub fn new(place: CallSide, first: Stage, now: Instant, table: StageTable) -> Rc<Self> {
        Rc::new(Self {
            place,
            service: OnceCell::new(),
            stage: Cell::new(first),
            since: Cell::new(now),
            spent: Cell::default(),
            table,
        })
    }

    /// Says which service is called. Without a name the call counts nowhere.
    pub fn name(&self, service: &str) {
        let _ = self.service.set(service.into());
    }

    /// The call goes on to another stage, or back to one.
    #[cold]
    pub fn enter(&self, stage: Stage, now: Instant) {
        let mut spent = self.spent.get();
        spent[self.stage.get() as usize] += now.saturating_duration_since(self.since.get());
        self.spent.set(spent);
        self.stage.set(stage);
        self.since.set(now.max(self.since.get()));
    }

    /// The kernel has taken what waited to be written.
    #[cold]
    pub fn written(&self, now: Instant) {
        if self.stage.get() == Stage::Write {
            self.enter(Stage::Network, now);
        }
    }

    /// So much of the time on the network was the provider's own work.
    #[cold]
    pub fn app_took(&self, time: Duration) {
        let mut spent = self.spent.get();
        let time = time.min(spent[Stage::Network as usize]);
        spent[Stage::Network as usize] -= time;
        spent[Stage::App as usize] += time;
        self.spent.set(spent);
    }

    /// How long the call was in each stage so far.
    pub fn spent(&self) -> Spent {
        self.spent.get()
    }

    fn was_sent(&self) -> bool {
        let spent = self.spent.get();
        self.stage.get() >= Stage::Network || !spent[Stage::Network as usize].is_zero()
    }
}

/// The call has ended.
impl Drop for StageClock {
    fn drop(&mut self) {
        self.enter(self.stage.get(), Instant::now());
        if let Some(service) = self.service.get() {
            self.table.add(self.place, service, &self.spent.get(), self.was_sent());
        }
    }
}

/// Moves the clock of a call on, if it has one.
#[inline]
pub fn enter(clock: Option<&Rc<StageClock>>, stage: Stage) {
    if let Some(clock) = clock {
        clock.enter(stage, Instant::now());
    }
}

/// Where the time of a service's calls went.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServiceStages {
    /// On which side of a call.
    pub place: CallSide,
    /// The service key.
    pub service: String,
    /// What the clocks of its calls have shown.
    pub totals: StageTotals,
}

/// What the clocks of some calls have shown together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StageTotals {
    /// How many calls these are.
    pub n_calls: u64,
    /// How long they were in each stage.
    pub spent: Spent,
}

/// What all clocks have shown, by place and service. A clone is another handle to the same.
#[derive(Clone, Debug, Default)]
pub struct StageTable(Arc<Mutex<TotalsByService>>);

/// Of the sides of calls, in their order.
type TotalsByService = [BTreeMap<Box<str>, StageTotals>; 2];

impl StageTable {
    /// Callers make up names, so that a call that was never sent gets no place of its own.
    fn add(&self, place: CallSide, service: &str, spent: &Spent, was_sent: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n_services: usize = all.iter().map(BTreeMap::len).sum();
        let of_place = &mut all[place as usize];
        let may_be_new = was_sent && n_services < MAX_SERVICES;
        let name = if of_place.contains_key(service) || may_be_new { service } else { OTHER };
        if !of_place.contains_key(name) {
            of_place.insert(name.into(), StageTotals::default());
        }
        let Some(totals) = of_place.get_mut(name) else { return };
        totals.n_calls += 1;
        for (sum, time) in totals.spent.iter_mut().zip(spent) {
            *sum = sum.saturating_add(*time);
        }
    }

    /// All of it, in the order of places and names.
    #[must_use]
    pub fn all(&self) -> Vec<ServiceStages> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_place = |place: CallSide| {
            let of_place = all[place as usize].iter();
            of_place.map(move |(name, totals)| ServiceStages {
                place,
                service: name.to_string(),
                totals: *totals,
            })
        };
        [CallSide::Ingress, CallSide::Export].into_iter().flat_map(of_place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn ms(spent: &Spent) -> [u128; N_STAGES] {
        spent.map(|time| time.as_millis())
    }

    #[test]
    fn stages_add_up_to_the_call() {
        let (table, start) = (StageTable::default(), Instant::now());
        let clock = StageClock::new(CallSide::Ingress, Stage::Read, start, table);
        for (ms, stage) in
            [(1, Stage::Wait), (3, Stage::Encode), (6, Stage::Write), (50, Stage::Decode)]
        {
            if stage == Stage::Decode {
                clock.written(start + 10 * MS);
            }
            clock.enter(stage, start + ms * MS);
        }
        clock.app_took(30 * MS);
        // What was written is the answer; the stage stays.
        clock.written(start + 52 * MS);
        clock.enter(Stage::Answer, start + 55 * MS);
        assert_eq!(ms(&clock.spent()), [1, 2, 3, 4, 10, 30, 5, 0]);
        // A provider's clock may say anything.
        clock.app_took(Duration::MAX);
        assert_eq!(ms(&clock.spent()), [1, 2, 3, 4, 0, 40, 5, 0]);
        // Time does not go back.
        clock.enter(Stage::Answer, start);
        clock.enter(Stage::Answer, start + 56 * MS);
        assert_eq!(ms(&clock.spent()), [1, 2, 3, 4, 0, 40, 5, 1]);
    }

    #[test]
    fn a_call_counts_once_when_the_last_has_let_go_of_it() {
        let table = StageTable::default();
        let clock = StageClock::new(CallSide::Export, Stage::Wait, Instant::now(), table.clone());
        clock.name("a.B");
        clock.enter(Stage::Network, Instant::now());
        let other = Rc::clone(&clock);
        drop(clock);
        assert_eq!(table.all(), []);
        drop(other);
        let [timed] = &table.all()[..] else { panic!("{table:?}") };
        assert_eq!((timed.place, &*timed.service), (CallSide::Export, "a.B"));
        assert_eq!(timed.totals.n_calls, 1);
    }

    #[test]
    fn names_that_callers_make_up_take_no_room() {
        let table = StageTable::default();
        let call = |name: &str, was_sent| {
            table.add(CallSide::Ingress, name, &Spent::default(), was_sent);
        };
        for nth in 0..1000 {
            call(&format!("made.Up{nth}"), false);
        }
        assert_eq!(table.all().len(), 1);
        for nth in 0..1000 {
            call(&format!("real.R{nth}"), true);
        }
        let all = table.all();
        assert_eq!(all.len(), MAX_SERVICES);
        assert_eq!(all.iter().map(|timed| timed.totals.n_calls).sum::<u64>(), 2000);
        // A known service counts however its call has ended.
        call("real.R1", false);
        let known = table.all().into_iter().find(|timed| timed.service == "real.R1");
        assert_eq!(known.map(|timed| timed.totals.n_calls), Some(2));
    }
}
