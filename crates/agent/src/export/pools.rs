//! The pools of credits of one link: one for each app that its routes lead to.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use link_proto::header::MAX_POOLS;
use link_proto::{Credits, PoolId};
use wire::Conn;

use crate::call::LinkServer;
use crate::gate::{AppGate, Borrower};

/// The pools of a link, by number; clones are the same.
#[derive(Clone, Default)]
pub(super) struct Pools(Rc<RefCell<Vec<Rc<CreditPool>>>>);

/// What a link needs credits of.
pub(super) struct CreditPool {
    pub(super) id: PoolId,
    /// Before its app.
    pub(super) gate: Rc<AppGate>,
    conn: Conn<LinkServer>,
    n_told: Cell<u32>,
}

impl Pools {
    pub(super) fn get(&self, pool: PoolId) -> Option<Rc<CreditPool>> {
        self.0.borrow().get(pool.index()).cloned()
    }

    /// The pool of a gate. `None` if there are too many.
    pub(super) fn of(&self, conn: &Conn<LinkServer>, gate: &Rc<AppGate>) -> Option<Rc<CreditPool>> {
        let mut pools = self.0.borrow_mut();
        if let Some(known) = pools.iter().find(|pool| Rc::ptr_eq(&pool.gate, gate)) {
            return Some(Rc::clone(known));
        }
        let id = u32::try_from(pools.len()).ok().filter(|number| *number < MAX_POOLS)?;
        let (conn, gate, n_told) = (conn.clone(), Rc::clone(gate), Cell::default());
        let pool = Rc::new(CreditPool { id: PoolId(id), gate, conn, n_told });
        pools.push(Rc::clone(&pool));
        pool.gate.listen(&(Rc::clone(&pool) as Rc<dyn Borrower>));
        Some(pool)
    }

    /// What the link `number` holds is free once this is dropped.
    pub(super) fn return_at_end(&self, number: u64) -> ReturnsCredits {
        ReturnsCredits { pools: self.clone(), number }
    }
}

pub(super) struct ReturnsCredits {
    pools: Pools,
    number: u64,
}

impl Drop for ReturnsCredits {
    fn drop(&mut self) {
        let pools = self.pools.0.take();
        pools.iter().for_each(|pool| pool.gate.lost(Instant::now(), self.number));
    }
}

impl Borrower for CreditPool {
    fn n_told(&self) -> u32 {
        self.n_told.get()
    }

    fn tell(&self, credits: Credits) {
        if self.conn.with(|link| link.grant(self.id, credits)) {
            self.n_told.set(self.n_told.get().wrapping_add(1));
        }
    }

    fn tell_pause(&self, pauses: bool) {
        self.conn.with(|link| link.tell_pause(self.id, pauses));
    }
}
