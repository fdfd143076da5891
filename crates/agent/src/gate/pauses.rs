//! The app gives no sign of life while it has calls: the links that call it are told, so that
//! their agents offer it none while others take them.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use flow::pause::{self, PauseLook, PauseWatch};

use super::{AppGate, Borrower};

/// Looks whether an app pauses. It is asked for a sign of life if nothing has come for so long.
pub type LookForPause = Box<dyn Fn(Instant, Duration) -> PauseLook>;

/// What a gate knows of its app's pauses, and who hears of them.
#[derive(Default)]
pub(super) struct AppPauses {
    watch: Cell<PauseWatch>,
    look: RefCell<Option<LookForPause>>,
    listeners: RefCell<Vec<Weak<dyn Borrower>>>,
}

impl AppGate {
    /// How the app is asked for signs of life.
    pub fn set_pause_look(&self, look: LookForPause) {
        *self.pauses.look.borrow_mut() = Some(look);
    }

    /// A link hears of pauses from now on, and at once of one that has begun.
    pub fn listen(&self, link: &Rc<dyn Borrower>) {
        let mut listeners = self.pauses.listeners.borrow_mut();
        listeners.retain(|it| it.strong_count() != 0);
        listeners.push(Rc::downgrade(link));
        if self.is_paused() {
            link.tell_pause(true);
        }
    }

    /// When to look whether the app pauses: `at` if nobody has looked. `None` if nobody wants to
    /// know, and nobody was told that it does.
    pub(super) fn pauses_due(&self, at: Instant) -> Option<Instant> {
        let is_wanted = self.is_paused() || !self.pauses.listeners.borrow().is_empty();
        is_wanted.then(|| self.pauses.watch.get().due().unwrap_or(at))
    }

    /// Whether links think that the app pauses: then somebody has to look until it does not.
    pub(super) fn is_paused(&self) -> bool {
        self.pauses.watch.get().is_paused()
    }

    /// Looks whether the app pauses, and says so if that is news.
    pub(super) fn look_at_pauses(&self, now: Instant) {
        let (in_flight, usual) = {
            let gate = self.gate.borrow();
            (gate.stats().in_flight, gate.usual())
        };
        let mut watch = self.pauses.watch.get();
        // One that pauses may have no calls any more when they have been given up.
        let has_calls = in_flight != 0 || watch.is_paused();
        let look = match &*self.pauses.look.borrow() {
            Some(look) if has_calls => look(now, pause::patience(usual, in_flight)),
            _ => PauseLook::works(now),
        };
        // Links may have ended without another one.
        self.pauses.listeners.borrow_mut().retain(|it| it.strong_count() != 0);
        let news = watch.look(look);
        self.pauses.watch.set(watch);
        let Some(pauses) = news else { return };
        let listeners = self.pauses.listeners.borrow();
        listeners.iter().filter_map(Weak::upgrade).for_each(|link| link.tell_pause(pauses));
    }
}
