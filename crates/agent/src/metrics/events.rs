//! What happened to the calls of a service besides their attempts: further attempts by their
//! reasons, and what holds for some of its methods. All of it is rare, so that all threads share
//! it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::family::{MAX_LABEL_SETS, OTHER};

/// More codes than there are.
const MAX_CODES: usize = 64;

/// What happened to a call because of what holds for its method.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MethodEvent {
    /// Refused by `rate_limit`.
    RateLimited,
    /// Refused by `caller_rate_limit`.
    CallerRateLimited,
    /// A circuit opened.
    CircuitOpened,
    /// A circuit closed.
    CircuitClosed,
    /// Refused, because the circuits of all endpoints are open.
    CircuitOpen,
    /// The circuits of all endpoints are open, so that calls are sent whatever they say.
    CircuitsIgnored,
    /// A second endpoint was asked, because the first was slow.
    Hedged,
    /// The second one answered first.
    HedgeWon,
    /// Answered by a mock.
    Mocked,
    /// A failure was answered null, by `failsafe`.
    FailedSafe,
    /// A failure was answered null, and is made again later.
    FailbackQueued,
    /// Such a call was answered at last.
    FailbackDone,
    /// Such a call was given up.
    FailbackLost,
    /// Held up on purpose.
    DelayInjected,
    /// Failed on purpose.
    AbortInjected,
    /// Copied.
    Mirrored,
    /// Was to be copied, but too many copies were in flight.
    MirrorDropped,
    /// A copy was answered.
    MirrorAnswered,
    /// A copy failed.
    MirrorFailed,
}

impl MethodEvent {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 19] = [
        Self::RateLimited,
        Self::CallerRateLimited,
        Self::CircuitOpened,
        Self::CircuitClosed,
        Self::CircuitOpen,
        Self::CircuitsIgnored,
        Self::Hedged,
        Self::HedgeWon,
        Self::Mocked,
        Self::FailedSafe,
        Self::FailbackQueued,
        Self::FailbackDone,
        Self::FailbackLost,
        Self::DelayInjected,
        Self::AbortInjected,
        Self::Mirrored,
        Self::MirrorDropped,
        Self::MirrorAnswered,
        Self::MirrorFailed,
    ];

    /// The value of the label `event`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::CallerRateLimited => "caller_rate_limited",
            Self::CircuitOpened => "circuit_opened",
            Self::CircuitClosed => "circuit_closed",
            Self::CircuitOpen => "circuit_open",
            Self::CircuitsIgnored => "circuits_ignored",
            Self::Hedged => "hedged",
            Self::HedgeWon => "hedge_won",
            Self::Mocked => "mocked",
            Self::FailedSafe => "failed_safe",
            Self::FailbackQueued => "failback_queued",
            Self::FailbackDone => "failback_done",
            Self::FailbackLost => "failback_lost",
            Self::DelayInjected => "delay_injected",
            Self::AbortInjected => "abort_injected",
            Self::Mirrored => "mirrored",
            Self::MirrorDropped => "mirror_dropped",
            Self::MirrorAnswered => "mirror_answered",
            Self::MirrorFailed => "mirror_failed",
        }
    }
}

/// What happened to the calls of one service.
#[derive(Debug)]
pub struct ServiceEvents {
    retries: [AtomicU64; MAX_CODES],
    events: [AtomicU64; MethodEvent::ALL.len()],
}

impl Default for ServiceEvents {
    fn default() -> Self {
        Self {
            retries: std::array::from_fn(|_| AtomicU64::new(0)),
            events: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl ServiceEvents {
    /// Counts a further attempt after a failure of the code with that number.
    pub fn count_retry(&self, code: usize) {
        debug_assert!(code < MAX_CODES, "there are more codes than expected");
        if let Some(count) = self.retries.get(code) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts what happened to a call.
    pub fn count(&self, event: MethodEvent) {
        if let Some(count) = self.events.get(event as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// How many further attempts there were by the number of the code, without those that never
    /// were.
    pub(super) fn retries(&self) -> Vec<(usize, u64)> {
        let counts = self.retries.iter().map(|count| count.load(Relaxed)).enumerate();
        counts.filter(|(_, count)| *count != 0).collect()
    }

    /// How often what happened, without what never did.
    pub(super) fn events(&self) -> Vec<(MethodEvent, u64)> {
        let count =
            |event: MethodEvent| Some((event, self.events.get(event as usize)?.load(Relaxed)));
        MethodEvent::ALL.into_iter().filter_map(count).filter(|(_, count)| *count != 0).collect()
    }
}

/// What happened, by service. As in a [`Family`](super::Family), services that nobody calls any
/// more are forgotten to make room, and what comes beyond the limit shares one place.
#[derive(Debug)]
pub(super) struct EventsByService {
    max_services: usize,
    all: Mutex<BTreeMap<String, Arc<ServiceEvents>>>,
}

impl Default for EventsByService {
    fn default() -> Self {
        Self { max_services: MAX_LABEL_SETS, all: Mutex::default() }
    }
}

impl EventsByService {
    /// Where what happens to the calls of a service is counted, for as long as it is kept.
    pub(super) fn of(&self, service: &str) -> Arc<ServiceEvents> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |all: &BTreeMap<_, _>| self.max_services <= all.len();
        let mut label = service;
        if is_full(&all) && !all.contains_key(service) {
            all.retain(|name, events| name == OTHER || 1 < Arc::strong_count(events));
            if is_full(&all) {
                label = OTHER;
            }
        }
        Arc::clone(all.entry(label.to_owned()).or_default())
    }

    /// All, in the order of their names.
    pub(super) fn all(&self) -> Vec<(String, Arc<ServiceEvents>)> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, events)| (name.clone(), Arc::clone(events))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_that_nobody_calls_any_more_make_room() {
        let events = EventsByService { max_services: 3, ..EventsByService::default() };
        let names = || events.all().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let lasting: Vec<_> = ["a", "b", "c"].map(|name| events.of(name)).into();
        let beyond = events.of("d");
        assert!(Arc::ptr_eq(&beyond, &events.of("e")) && Arc::ptr_eq(&lasting[0], &events.of("a")));
        assert_eq!(names(), ["a", "b", "c", OTHER]);
        drop(lasting);
        for n in 0..1000 {
            events.of(&format!("s{n}")).count(MethodEvent::Mocked);
            assert!(names().len() <= 4, "{:?}", names());
        }
        assert!(Arc::ptr_eq(&beyond, &events.of(OTHER)), "who counts there stays");
    }

    #[test]
    fn events_are_numbered_in_their_order() {
        for (number, event) in MethodEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, number);
        }
    }
}
