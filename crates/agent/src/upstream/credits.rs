//! The credits that a link holds toward the apps behind a provider's agent.
//!
//! [`flow::purse`] decides. Here its words reach the peer, and those who wait hear of room.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use flow::line::Pace;
use flow::purse::{Coin, Purse};
use link_proto::{Credits, PoolId};
use tokio::sync::Notify;
use wire::Conn;

use super::link::LinkClient;
use crate::error::CallError;

/// All credits of the connection that is up.
#[derive(Default)]
pub(super) struct LinkCredits {
    /// Which pool the calls of a service need credits of, where that is known.
    services: RefCell<Vec<(Box<str>, PoolId)>>,
    purses: RefCell<Vec<Rc<LinkPurse>>>,
    /// Some pool has not enough for all. The path of a call looks at nothing else.
    is_lent: Cell<bool>,
    /// The pools whose apps give no sign of life, and since when that is known.
    paused: RefCell<Vec<(PoolId, Instant)>>,
}

/// The credits of one pool.
pub struct LinkPurse {
    pool: PoolId,
    conn: RefCell<Option<Conn<LinkClient>>>,
    purse: RefCell<Purse>,
    /// The peer measures how many calls the app can take.
    is_measured: Cell<bool>,
    elsewhere: RefCell<Vec<Waits>>,
}

/// Calls that wait for a credit.
struct Waits {
    n_waiting: u32,
    room: Rc<Notify>,
}

/// A credit that a call has. Dropped, it is free again.
pub struct Credit {
    purse: Rc<LinkPurse>,
    coin: Option<Coin>,
}

impl LinkCredits {
    /// Calls of a service need credits of that pool, once there are any.
    pub(super) fn note(&self, service: &str, pool: Option<PoolId>) {
        let mut services = self.services.borrow_mut();
        services.retain(|(known, _)| **known != *service);
        services.extend(pool.map(|pool| (service.into(), pool)));
    }

    /// What the peer says of a pool.
    pub(super) fn set(&self, conn: Option<&Conn<LinkClient>>, pool: PoolId, credits: Credits) {
        let known = self.purses.borrow().iter().find(|purse| purse.pool == pool).cloned();
        let purse = known.unwrap_or_else(|| {
            let purse = Purse::new(Instant::now()).into();
            let (conn, elsewhere) = (conn.cloned().into(), RefCell::default());
            let is_measured = Cell::default();
            let purse = Rc::new(LinkPurse { pool, conn, purse, is_measured, elsewhere });
            self.purses.borrow_mut().push(Rc::clone(&purse));
            purse
        });
        purse.is_measured.set(matches!(credits, Credits::Measured(_)));
        let credits = match credits {
            Credits::Open => None,
            Credits::Limited(n) | Credits::Measured(n) => Some(n),
        };
        purse.purse.borrow_mut().set_credits(credits);
        purse.tell(Instant::now());
        purse.tell_room();
        let is_lent = self.purses.borrow().iter().any(|it| it.purse.borrow().is_lent());
        self.is_lent.set(is_lent);
    }

    /// The app of a pool gives no sign of life from now on, or gives some again.
    pub(super) fn set_paused(&self, pool: PoolId, pauses: bool) {
        let mut paused = self.paused.borrow_mut();
        paused.retain(|(known, _)| *known != pool);
        paused.extend(pauses.then(|| (pool, Instant::now())));
    }

    /// Since when the app of a service gives no sign of life.
    pub(super) fn pauses_since(&self, service: &str) -> Option<Instant> {
        let (paused, services) = (self.paused.borrow(), self.services.borrow());
        let (_, pool) = match paused.is_empty() {
            true => None,
            false => services.iter().find(|(known, _)| **known == *service),
        }?;
        paused.iter().find(|(paused, _)| paused == pool).map(|(_, since)| *since)
    }

    /// The purse that calls of a service need a credit from now.
    #[inline]
    pub(super) fn of(&self, service: &str) -> Option<Rc<LinkPurse>> {
        if self.is_lent.get() { self.find(service) } else { None }
    }

    #[cold]
    fn find(&self, service: &str) -> Option<Rc<LinkPurse>> {
        let services = self.services.borrow();
        let (_, pool) = services.iter().find(|(known, _)| **known == *service)?;
        let purses = self.purses.borrow();
        let purse = purses.iter().find(|purse| purse.pool == *pool)?;
        purse.purse.borrow().is_lent().then(|| Rc::clone(purse))
    }

    /// Whether a credit is of this link.
    pub(super) fn has_lent(&self, credit: &Credit) -> bool {
        self.purses.borrow().iter().any(|purse| Rc::ptr_eq(purse, &credit.purse))
    }

    /// No further calls come here: nobody waits for these credits any more.
    pub(super) fn retire(&self, now: Instant) {
        for purse in &*self.purses.borrow() {
            purse.retire(now);
        }
    }

    /// The connection has ended: nothing is held any more.
    pub(super) fn clear(&self) {
        self.is_lent.set(false);
        self.services.borrow_mut().clear();
        self.paused.borrow_mut().clear();
        for purse in self.purses.take() {
            *purse.conn.borrow_mut() = None;
            purse.elsewhere.take().iter().for_each(|it| it.room.notify_one());
        }
    }
}

impl LinkPurse {
    /// Whether a call may begin.
    pub fn has_room(&self) -> bool {
        self.purse.borrow().has_room()
    }

    /// How many calls may be in flight; `None` while nobody needs credits.
    pub fn credits(&self) -> Option<u32> {
        self.purse.borrow().credits()
    }

    /// Whether nobody knows how many calls the app can take: the peer measures it.
    pub fn is_measured(&self) -> bool {
        self.is_measured.get()
    }

    /// Takes a credit for a call, if there is one.
    pub fn take(self: &Rc<Self>, now: Instant) -> Option<Credit> {
        let coin = self.purse.borrow_mut().begin(now)?;
        Some(Credit { purse: Rc::clone(self), coin: Some(coin) })
    }

    /// So many calls wait elsewhere for a credit: `room` is notified once when there may be one.
    pub fn want(&self, now: Instant, n_waiting: u32, room: &Rc<Notify>) {
        {
            let mut elsewhere = self.elsewhere.borrow_mut();
            elsewhere.retain(|it| !Rc::ptr_eq(&it.room, room));
            if 0 < n_waiting {
                elsewhere.push(Waits { n_waiting, room: Rc::clone(room) });
            }
            let sum = elsewhere.iter().fold(0_u32, |sum, it| sum.saturating_add(it.n_waiting));
            self.purse.borrow_mut().want(sum);
        }
        self.tell(now);
    }

    fn retire(&self, now: Instant) {
        self.purse.borrow_mut().want(0);
        self.tell(now);
        // They wait for the credits of others from now on.
        self.elsewhere.take().iter().for_each(|it| it.room.notify_one());
    }

    /// How fast calls go on by these credits.
    pub fn pace(&self) -> Pace {
        self.purse.borrow().pace()
    }

    fn tell(&self, now: Instant) {
        let demand = self.purse.borrow_mut().poll_demand(now);
        let (Some(demand), Some(conn)) = (demand, &*self.conn.borrow()) else { return };
        conn.with(|link| link.demand(self.pool, demand.n_waiting, demand.n_seen));
    }

    fn tell_room(&self) {
        if self.has_room() {
            self.elsewhere.take().iter().for_each(|it| it.room.notify_one());
        }
    }

    fn ended(&self, coin: Coin, now: Instant, is_answered: bool) {
        self.purse.borrow_mut().ended(coin, now, is_answered);
        self.tell_room();
    }
}

impl Credit {
    /// The call has ended, well or not.
    pub fn ended(mut self, now: Instant, error: Option<&CallError>) {
        let is_answered = error.is_none();
        if let Some(coin) = self.coin.take() {
            self.purse.ended(coin, now, is_answered);
        }
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        if let Some(coin) = self.coin.take() {
            self.purse.ended(coin, Instant::now(), false);
        }
    }
}

#[cfg(test)]
mod tests;
