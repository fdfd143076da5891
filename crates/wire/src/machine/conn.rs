//! A machine in the hands of its driver and of those who use it: on one thread ([`Conn`]) or on
//! many ([`SyncConn`]).
//!
//! Invariant: whoever changes a machine through `with` has its driver woken, once a turn.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// How a driver reaches its machine.
pub trait SharedMachine {
    /// The machine.
    type Machine;

    /// Changes the machine without telling its driver.
    fn lock<R>(&self, change: impl FnOnce(&mut Self::Machine) -> R) -> R;
    /// The driver is at work: until [`SharedMachine::rest`] nobody needs to wake it.
    fn attend(&self, driver: &Waker);
    /// The driver will look at what is to be written once more, and then sleep.
    fn rest(&self);
}

/// A connection that many tasks of one thread share.
pub struct Conn<M>(Rc<Local<M>>);

struct Local<M> {
    machine: RefCell<M>,
    driver: RefCell<Option<Waker>>,
    /// The driver is at work or was called: it will look at the machine before it sleeps.
    will_look: Cell<bool>,
}

impl<M> Clone for Conn<M> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<M> Conn<M> {
    /// A connection that [`drive`](super::drive) will run.
    pub fn new(machine: M) -> Self {
        let (driver, will_look) = (RefCell::new(None), Cell::new(false));
        Self(Rc::new(Local { machine: RefCell::new(machine), driver, will_look }))
    }

    /// Changes the machine; what that leaves to be sent goes out at the end of this turn.
    #[inline]
    pub fn with<R>(&self, change: impl FnOnce(&mut M) -> R) -> R {
        let result = change(&mut self.0.machine.borrow_mut());
        if !self.0.will_look.get() {
            self.wake();
        }
        result
    }

    fn wake(&self) {
        if let Some(driver) = self.0.driver.borrow().as_ref() {
            driver.wake_by_ref();
            self.0.will_look.set(true);
        }
    }

    /// Looks at the machine.
    #[inline]
    pub fn look<R>(&self, look: impl FnOnce(&M) -> R) -> R {
        look(&self.0.machine.borrow())
    }

    /// Whether both are handles of the same connection.
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl<M> SharedMachine for Conn<M> {
    type Machine = M;

    fn lock<R>(&self, change: impl FnOnce(&mut M) -> R) -> R {
        change(&mut self.0.machine.borrow_mut())
    }

    fn attend(&self, waker: &Waker) {
        self.0.will_look.set(true);
        keep(&mut self.0.driver.borrow_mut(), waker);
    }

    fn rest(&self) {
        self.0.will_look.set(false);
    }
}

/// A connection that tasks and threads share, in an `Arc`.
pub struct SyncConn<M>(Mutex<Attended<M>>);

struct Attended<M> {
    machine: M,
    driver: Option<Waker>,
    /// The driver is at work or was called: it will look at the machine before it sleeps.
    will_look: bool,
}

impl<M> SyncConn<M> {
    /// A connection that [`drive`](super::drive) will run.
    pub fn new(machine: M) -> Self {
        Self(Mutex::new(Attended { machine, driver: None, will_look: false }))
    }

    /// Changes the machine; what that leaves to be sent goes out when the driver gets its turn.
    #[inline]
    pub fn with<R>(&self, change: impl FnOnce(&mut M) -> R) -> R {
        let mut shared = self.guard();
        let result = change(&mut shared.machine);
        if shared.will_look {
            return result;
        }
        let driver = shared.driver.clone();
        shared.will_look = driver.is_some();
        drop(shared);
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }

    /// A panic elsewhere leaves a machine whole: machines do not call back.
    fn guard(&self) -> MutexGuard<'_, Attended<M>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> SharedMachine for SyncConn<M> {
    type Machine = M;

    #[inline]
    fn lock<R>(&self, change: impl FnOnce(&mut M) -> R) -> R {
        change(&mut self.guard().machine)
    }

    fn attend(&self, waker: &Waker) {
        let mut shared = self.guard();
        shared.will_look = true;
        keep(&mut shared.driver, waker);
    }

    fn rest(&self) {
        self.guard().will_look = false;
    }
}

fn keep(driver: &mut Option<Waker>, waker: &Waker) {
    match driver {
        Some(known) if known.will_wake(waker) => {}
        _ => *driver = Some(waker.clone()),
    }
}
