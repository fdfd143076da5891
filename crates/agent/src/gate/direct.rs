//! The gates before endpoints that are called without an agent there: one for each address, shared
//! by all workers and by all services of the address.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};

use super::{AppGate, GateFigures, LateEnds, SharedGate};
use crate::config::AppCapacity;
use crate::swept::Swept;

/// The gates of a process before the endpoints that it calls, by address.
#[derive(Debug)]
pub struct DirectGates {
    n_workers: usize,
    by_address: Mutex<Swept<std::sync::Weak<SharedGate>>>,
}

/// One worker's gates before endpoints.
pub struct OwnGates {
    shared: Arc<DirectGates>,
    worker: usize,
    by_address: RefCell<Swept<Weak<AppGate>>>,
}

impl DirectGates {
    /// None yet.
    #[must_use]
    pub fn new(n_workers: usize) -> Self {
        Self { n_workers, by_address: Mutex::default() }
    }

    fn gate(&self, address: &str, capacity: AppCapacity) -> Arc<SharedGate> {
        let mut gates = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(address).and_then(std::sync::Weak::upgrade) {
            return gate;
        }
        let gate = Arc::new(SharedGate::direct(address.to_owned(), capacity, self.n_workers));
        gates.insert(address.to_owned(), Arc::downgrade(&gate), |it| 0 < it.strong_count());
        gate
    }

    /// How they stand, by address.
    #[must_use]
    pub fn figures(&self) -> Vec<GateFigures> {
        let gates = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let gates: Vec<_> = gates.values().filter_map(std::sync::Weak::upgrade).collect();
        let mut figures: Vec<_> = gates.iter().map(|gate| gate.figures()).collect();
        figures.sort_by(|a, b| a.app.cmp(&b.app));
        figures
    }
}

impl OwnGates {
    /// Those of the worker with that number.
    #[must_use]
    pub fn new(shared: Arc<DirectGates>, worker: usize) -> Self {
        Self { shared, worker, by_address: RefCell::default() }
    }

    /// The gate before the endpoint at an address. The last caller's `capacity` counts, and the
    /// `threads` that the endpoint has registered. A new gate is told of late replies.
    pub fn before(
        &self,
        address: &str,
        capacity: AppCapacity,
        threads: Option<u32>,
        late_ends: impl FnOnce() -> LateEnds,
    ) -> Rc<AppGate> {
        let mut gates = self.by_address.borrow_mut();
        let gate = gates.get(address).and_then(Weak::upgrade).unwrap_or_else(|| {
            let gate = AppGate::new(&self.shared.gate(address, capacity), self.worker);
            gates.insert(address.to_owned(), Rc::downgrade(&gate), |it| 0 < it.strong_count());
            gate.set_late_ends(late_ends());
            gate
        });
        gate.shared().configure(capacity);
        if let Some(threads) = threads {
            gate.shared().set_registered(threads);
        }
        gate.look_again();
        gate
    }
}
