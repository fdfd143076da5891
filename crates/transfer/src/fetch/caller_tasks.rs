//! Runs the callers of one connection: tasks that wait for nearly nothing but answers on it.
//!
//! A caller is polled right where its answer came in, so that its next request joins those of the
//! callers before it; that costs no wake-up, no queue and no count that threads share. Whatever
//! else a caller waits for, room or a pause, wakes it as any task.
//!
//! Invariant: a caller that has ended is not polled again, and is counted once.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::TransferError;

/// See the module. `F` is what each caller does.
pub(super) struct Crew<F> {
    callers: RefCell<Vec<Option<Pin<Box<F>>>>>,
    wakers: Vec<Waker>,
    woken: Arc<Woken>,
    n_working: Cell<usize>,
    failure: RefCell<Option<TransferError>>,
}

/// Callers that were woken, from whatever thread, and the task that polls them.
#[derive(Default)]
struct Woken(Mutex<Ring>);

#[derive(Default)]
struct Ring {
    callers: Vec<usize>,
    task: Option<Waker>,
}

impl<F: Future<Output = Result<(), TransferError>>> Crew<F> {
    pub(super) fn new(callers: impl Iterator<Item = F>) -> Self {
        let callers: Vec<_> = callers.map(|caller| Some(Box::pin(caller))).collect();
        let woken = Arc::new(Woken::default());
        let waker =
            |caller| Waker::from(Arc::new(CallerWaker { caller, woken: Arc::clone(&woken) }));
        Self {
            wakers: (0..callers.len()).map(waker).collect(),
            n_working: Cell::new(callers.len()),
            callers: RefCell::new(callers),
            failure: RefCell::default(),
            woken,
        }
    }

    /// Lets a caller work until it waits again. Not to be called by a caller.
    #[inline]
    pub(super) fn poll(&self, caller: usize) {
        let mut callers = self.callers.borrow_mut();
        let (Some(place), Some(waker)) = (callers.get_mut(caller), self.wakers.get(caller)) else {
            return;
        };
        let Some(task) = place else { return };
        let Poll::Ready(ended) = task.as_mut().poll(&mut Context::from_waker(waker)) else {
            return;
        };
        *place = None;
        self.n_working.set(self.n_working.get() - 1);
        if let Err(error) = ended {
            self.failure.borrow_mut().get_or_insert(error);
        }
    }

    /// Lets everybody begin.
    pub(super) fn poll_all(&self) {
        (0..self.wakers.len()).for_each(|caller| self.poll(caller));
    }

    /// Polls those who were woken; whoever is woken from now on wakes the task of `cx`.
    pub(super) fn poll_woken(&self, cx: &Context<'_>) {
        loop {
            let woken = {
                let mut ring = self.woken.0.lock().unwrap_or_else(PoisonError::into_inner);
                if !ring.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                    ring.task = Some(cx.waker().clone());
                }
                std::mem::take(&mut ring.callers)
            };
            if woken.is_empty() {
                break;
            }
            woken.into_iter().for_each(|caller| self.poll(caller));
        }
    }

    /// How it ended: when all have, or the first one with an error.
    pub(super) fn ended(&self) -> Option<Result<(), TransferError>> {
        if let Some(error) = self.failure.borrow_mut().take() {
            return Some(Err(error));
        }
        (self.n_working.get() == 0).then_some(Ok(()))
    }
}

/// Wakes one caller.
struct CallerWaker {
    caller: usize,
    woken: Arc<Woken>,
}

impl Wake for CallerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = {
            let mut ring = self.woken.0.lock().unwrap_or_else(PoisonError::into_inner);
            ring.callers.push(self.caller);
            if ring.callers.len() == 1 { ring.task.clone() } else { None }
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::rc::Rc;

    /// Callers that count their polls and end when they are told to.
    fn crew(
        n: usize,
        polls: &Rc<Cell<usize>>,
        end: &Rc<Cell<bool>>,
    ) -> Crew<impl Future<Output = Result<(), TransferError>> + use<>> {
        let (polls, end) = (Rc::clone(polls), Rc::clone(end));
        Crew::new((0..n).map(move |_| {
            let (polls, end) = (Rc::clone(&polls), Rc::clone(&end));
            poll_fn(move |_| {
                polls.set(polls.get() + 1);
                if end.get() { Poll::Ready(Ok(())) } else { Poll::Pending }
            })
        }))
    }

    #[test]
    fn a_caller_that_was_woken_is_polled_and_one_that_has_ended_is_not() {
        let (polls, end) = (Rc::default(), Rc::default());
        let crew = crew(3, &polls, &end);
        let cx = Context::from_waker(Waker::noop());
        crew.poll_all();
        assert_eq!(polls.get(), 3);
        crew.poll_woken(&cx);
        assert!(crew.ended().is_none());
        crew.wakers[1].wake_by_ref();
        crew.poll_woken(&cx);
        assert!(crew.ended().is_none());
        assert_eq!(polls.get(), 4);
        end.set(true);
        crew.poll(1);
        crew.poll(1);
        crew.wakers[1].wake_by_ref();
        crew.poll_woken(&cx);
        assert!(crew.ended().is_none());
        assert_eq!(polls.get(), 5);
        crew.poll_all();
        assert!(matches!(crew.ended(), Some(Ok(()))));
        assert_eq!(polls.get(), 7);
    }

    #[test]
    fn the_first_error_ends_all() {
        let crew = Crew::new((0..2).map(async |caller| match caller {
            0 => std::future::pending().await,
            _ => Err(TransferError::WriterStopped),
        }));
        crew.poll_all();
        assert!(matches!(crew.ended(), Some(Err(TransferError::WriterStopped))));
    }

    #[test]
    fn waking_from_another_thread_wakes_the_task() {
        struct Flag(std::sync::atomic::AtomicBool);
        impl Wake for Flag {
            fn wake(self: Arc<Self>) {
                self.0.store(true, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let flag = Arc::new(Flag(false.into()));
        let waker = Waker::from(Arc::clone(&flag));
        let (polls, end) = (Rc::default(), Rc::default());
        let crew = crew(2, &polls, &end);
        crew.poll_woken(&Context::from_waker(&waker));
        let caller = crew.wakers[0].clone();
        std::thread::spawn(move || caller.wake()).join().unwrap();
        assert!(flag.0.load(std::sync::atomic::Ordering::SeqCst));
    }
}
