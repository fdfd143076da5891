//! A task that runs while somebody asks for what it keeps up to date.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::directory::Presence;

/// Without a question for so long, nothing is read or watched any more.
const IDLE: Duration = Duration::from_secs(60);

/// A handle on the task, which ends with it.
#[derive(Debug, Default)]
pub(crate) struct OnDemand {
    asked: Arc<LastAsked>,
    running: Mutex<Option<JoinHandle<()>>>,
}

/// When somebody asked last.
#[derive(Debug)]
pub(crate) struct LastAsked(Mutex<Instant>);

/// How far what the task reads can be trusted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Progress {
    /// Not read yet.
    #[default]
    Reading,
    /// As the store has it.
    Current,
    /// As the store had it before it went away, or refused.
    Stale,
}

impl Progress {
    /// What it means that the store is not known to have something.
    pub(crate) fn denied(self) -> Presence {
        match self {
            Self::Reading => Presence::Asking,
            Self::Current => Presence::Absent,
            Self::Stale => Presence::Unknown,
        }
    }
}

impl OnDemand {
    /// Somebody asks: starts the task if it does not run.
    pub(crate) fn keep_running<F>(&self, runtime: &Handle, start: impl FnOnce(Arc<LastAsked>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        self.asked.note();
        if running.as_ref().is_none_or(JoinHandle::is_finished) {
            *running = Some(runtime.spawn(start(Arc::clone(&self.asked))));
        }
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running {
            running.abort();
        }
    }
}

impl Default for LastAsked {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl LastAsked {
    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle_at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) + IDLE
    }

    /// Waits until nobody has asked for a while.
    pub(crate) async fn idle(&self) {
        while Instant::now() < self.idle_at() {
            tokio::time::sleep_until(self.idle_at()).await;
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle_at() <= Instant::now()
    }
}
