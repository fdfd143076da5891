//! Endpoints that take no calls because of how their calls ended, by service.
//!
//! Every worker ejects by the calls that it makes itself. An endpoint counts once, however many
//! workers have ejected it.
//!
//! Invariant: beside [`OTHER`], there are no more services than the limit. Those that have nothing
//! ejected are forgotten to make room.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use balance::EjectReason;

use super::family::{MAX_LABEL_SETS, OTHER};

/// One endpoint is told of at most once in this time.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// What all workers have ejected. Changes are rare, so they share it behind a lock.
#[derive(Clone, Debug)]
pub(super) struct ProcessEjections {
    max_services: usize,
    all: Arc<Mutex<EjectionsByService>>,
}

type EjectionsByService = BTreeMap<String, ServiceEjections>;

impl Default for ProcessEjections {
    fn default() -> Self {
        Self { max_services: MAX_LABEL_SETS, all: Arc::default() }
    }
}

#[derive(Debug, Default)]
struct ServiceEjections {
    /// Endpoints that are out, or were told of lately, by address.
    endpoints: BTreeMap<String, EndpointEjection>,
    counts: BTreeMap<EjectReason, u64>,
}

#[derive(Debug, Default)]
struct EndpointEjection {
    n_workers: usize,
    told_at: Option<Instant>,
}

/// An endpoint that one worker has ejected, until it is dropped.
#[derive(Debug)]
pub struct EjectedEndpoint {
    all: ProcessEjections,
    service: String,
    address: String,
}

impl ProcessEjections {
    fn lock(&self) -> MutexGuard<'_, EjectionsByService> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name under which a service counts.
    fn label<'a>(&self, all: &mut EjectionsByService, service: &'a str) -> &'a str {
        if all.len() < self.max_services || all.contains_key(service) {
            return service;
        }
        all.retain(|name, it| name == OTHER || it.is_any_out());
        if all.len() < self.max_services { service } else { OTHER }
    }

    pub(super) fn add(&self, service: &str, address: &str) -> EjectedEndpoint {
        let mut all = self.lock();
        let service = self.label(&mut all, service);
        let endpoints = &mut all.entry(service.to_owned()).or_default().endpoints;
        // What was told of long ago is forgotten here, so that addresses do not pile up.
        endpoints.retain(|_, out| out.n_workers != 0 || out.told_lately());
        endpoints.entry(address.to_owned()).or_default().n_workers += 1;
        let (service, address) = (service.to_owned(), address.to_owned());
        EjectedEndpoint { all: self.clone(), service, address }
    }

    pub(super) fn count(&self, service: &str, reason: EjectReason) {
        let mut all = self.lock();
        let service = self.label(&mut all, service);
        *all.entry(service.to_owned()).or_default().counts.entry(reason).or_default() += 1;
    }

    /// What is shown, by service.
    pub(super) fn counts(&self) -> Vec<EjectionCounts> {
        let all = self.lock();
        let n_out = |service: &ServiceEjections| {
            service.endpoints.values().filter(|out| out.n_workers != 0).count() as u64
        };
        let of_service = |(service, it): (&String, &ServiceEjections)| EjectionCounts {
            service: service.clone(),
            n_out: n_out(it),
            by_reason: it.counts.clone(),
        };
        all.iter().map(of_service).collect()
    }
}

/// The ejections of a service.
pub(super) struct EjectionCounts {
    pub(super) service: String,
    /// How many endpoints are out now.
    pub(super) n_out: u64,
    /// How often any was ejected.
    pub(super) by_reason: BTreeMap<EjectReason, u64>,
}

impl ServiceEjections {
    fn is_any_out(&self) -> bool {
        self.endpoints.values().any(|out| out.n_workers != 0)
    }
}

impl EndpointEjection {
    fn told_lately(&self) -> bool {
        self.told_at.is_some_and(|at| at.elapsed() < TOLD_EVERY)
    }
}

impl EjectedEndpoint {
    fn with<T>(&self, action: impl FnOnce(&mut EndpointEjection) -> T) -> Option<T> {
        let mut all = self.all.lock();
        all.get_mut(&self.service)?.endpoints.get_mut(&self.address).map(action)
    }

    /// Whether the operator is to be told of it now: once for all workers, and not again soon.
    pub fn is_to_be_told(&self) -> bool {
        let tell = |out: &mut EndpointEjection| {
            let is_news = !out.told_lately();
            if is_news {
                out.told_at = Some(Instant::now());
            }
            is_news
        };
        self.with(tell).unwrap_or_default()
    }

    /// Whether the operator was told of it, and no other worker has ejected it now.
    pub fn was_told(&self) -> bool {
        self.with(|out| out.n_workers == 1 && out.told_at.is_some()).unwrap_or_default()
    }
}

impl Drop for EjectedEndpoint {
    fn drop(&mut self) {
        self.with(|out| out.n_workers = out.n_workers.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_with_nothing_ejected_make_room() {
        let ejections = ProcessEjections { max_services: 3, ..ProcessEjections::default() };
        let out = |n: usize| {
            ejections.count(&format!("s{n}"), EjectReason::Failures);
            ejections.add(&format!("s{n}"), "h:1")
        };
        let lasting: Vec<_> = (0..5).map(out).collect();
        let names = || ejections.counts().into_iter().map(|it| it.service).collect::<Vec<_>>();
        assert_eq!(names(), [OTHER, "s0", "s1", "s2"]);
        assert!(lasting[4].is_to_be_told());
        drop(lasting);
        for n in 10..1000 {
            drop(out(n));
            assert!(names().len() <= 4, "{:?}", names());
        }
        assert_eq!(names().last().map(String::as_str), Some("s999"));
    }

    #[test]
    fn an_endpoint_counts_once_and_is_told_of_once() {
        let ejections = ProcessEjections::default();
        let of_two_workers = [ejections.add("a.B", "h:1"), ejections.add("a.B", "h:1")];
        ejections.count("a.B", EjectReason::Silent);
        ejections.count("a.B", EjectReason::Silent);
        let [EjectionCounts { service, n_out, by_reason }] = &ejections.counts()[..] else {
            panic!("one service")
        };
        assert_eq!((&**service, *n_out, by_reason[&EjectReason::Silent]), ("a.B", 1, 2));
        let [first, second] = of_two_workers;
        assert!(first.is_to_be_told() && !second.is_to_be_told());
        assert!(!first.was_told(), "the other worker has it ejected still");
        drop(first);
        assert!(second.was_told());
        drop(second);
        assert_eq!(ejections.counts()[0].n_out, 0);
        assert!(!ejections.add("a.B", "h:1").is_to_be_told(), "it was told of just now");
    }
}
