//! The protocol's state machine, as `wire` drives it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::BytesMut;
use tokio::sync::{Notify, oneshot};
use wire::Machine;
use zookeeper_proto::{Answer, Broken, Connection, Event, Refusal, Watcher};

/// Where an answer goes.
pub(super) type AnswerSender = oneshot::Sender<Result<Answer, Refusal>>;

/// One connection.
pub(super) struct ClientMachine(pub(super) Connection<AnswerSender, ChangedWatcher>);

/// Who is told that a folder may have changed. Who drops it does not want to know any more.
#[derive(Debug)]
pub(super) struct Changed {
    is_due: AtomicBool,
    wake: Arc<Notify>,
}

impl Changed {
    /// `wake` is called when this, or another one with the same, is due.
    pub(super) fn new(wake: &Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { is_due: AtomicBool::new(false), wake: Arc::clone(wake) })
    }

    /// Whether there was a change since this was asked last.
    pub(super) fn take(&self) -> bool {
        self.is_due.swap(false, Ordering::AcqRel)
    }
}

/// The connection's side of it.
#[derive(Debug)]
pub(super) struct ChangedWatcher(Weak<Changed>);

impl ChangedWatcher {
    pub(super) fn new(changed: &Arc<Changed>) -> Self {
        Self(Arc::downgrade(changed))
    }

    pub(super) fn fire(&self) {
        if let Some(changed) = self.0.upgrade() {
            changed.is_due.store(true, Ordering::Release);
            changed.wake.notify_one();
        }
    }
}

impl Watcher for ChangedWatcher {
    fn is_wanted(&self) -> bool {
        0 < self.0.strong_count()
    }
}

impl Machine for ClientMachine {
    type Event = Event<AnswerSender, ChangedWatcher>;
    type Error = Broken;

    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), Broken> {
        self.0.handle_bytes(now, input)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.0.poll_event()
    }

    fn transmit(&mut self) -> &mut BytesMut {
        self.0.transmit()
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    fn is_broken(&self) -> bool {
        self.0.broken().is_some()
    }
}
