//! The registrations of this process in a store with sessions: kept alive, and written again
//! whenever they get lost.
//!
//! Invariants:
//! - An entry counts as established only between a write that the store has confirmed and the loss
//!   of its session.
//! - What two registrations have in common is removed with the last of them.
//! - When the last handle is gone, or one of them says so, the session is closed, and with it
//!   everything that is left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;
use wire::Backoff;

use crate::follow::new_backoff;
use crate::layout::Placed;
use crate::store::{StoreError, StoreSession, Withdraw};

/// The handle on the task that holds the session.
#[derive(Clone, Debug)]
pub(crate) struct Registrar {
    commands: mpsc::UnboundedSender<RegistrarCommand>,
    next_id: Arc<AtomicU64>,
}

#[derive(Debug)]
enum RegistrarCommand {
    Add {
        id: u64,
        entry: PlacedRegistration,
    },
    Remove {
        id: u64,
        done: oneshot::Sender<()>,
    },
    /// Dropped when the session is closed.
    Close {
        open: oneshot::Sender<()>,
    },
}

#[derive(Debug)]
struct PlacedRegistration {
    placed: Placed,
    /// Whether the store has it, in our session.
    established: watch::Sender<bool>,
}

impl Registrar {
    pub(crate) fn start(session: Box<dyn StoreSession>, runtime: &Handle) -> Self {
        // Unbounded, because dropping a registration cannot wait; its callers bound it.
        let (commands, receiver) = mpsc::unbounded_channel();
        let ledger = Ledger::default();
        let keeper = RegistrationKeeper { session, commands: receiver, ledger, open: None };
        runtime.spawn(keeper.run());
        Self { commands, next_id: Arc::default() }
    }

    /// Registers an entry; returns whether it is there, and how to remove it.
    pub(crate) fn add(&self, placed: Placed) -> (watch::Receiver<bool>, Withdraw) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (established, receiver) = watch::channel(false);
        let entry = PlacedRegistration { placed, established };
        // If the task is gone, so is the runtime, and with it everybody who could care.
        let _ = self.commands.send(RegistrarCommand::Add { id, entry });
        let commands = self.commands.clone();
        let withdraw = move |done| {
            let _ = commands.send(RegistrarCommand::Remove { id, done });
        };
        (receiver, Box::new(withdraw))
    }

    /// Closes the session, and waits until it is closed. Nothing is registered from then on.
    pub(crate) async fn close(&self) {
        let (open, closed) = oneshot::channel();
        let _ = self.commands.send(RegistrarCommand::Close { open });
        // Whoever else has closed it has dropped the sender, too.
        let _ = closed.await;
    }
}

/// What should be in the store, and what is. Nothing here waits.
#[derive(Debug, Default)]
struct Ledger {
    entries: BTreeMap<u64, PlacedRegistration>,
    /// Entries to remove, and who waits for that.
    removals: Vec<(Placed, oneshot::Sender<()>)>,
}

impl Ledger {
    fn remove(&mut self, id: u64, done: oneshot::Sender<()>) {
        let Some(entry) = self.entries.remove(&id) else { return };
        entry.established.send_replace(false);
        let path = &entry.placed.path;
        if self.entries.values().any(|other| other.placed.path == *path) {
            let _ = done.send(());
            return;
        }
        self.removals.push((entry.placed, done));
    }

    fn held(&self) -> Vec<Placed> {
        let held = self.entries.values().filter(|entry| *entry.established.borrow());
        held.map(|entry| entry.placed.clone()).collect()
    }

    fn missing(&self) -> impl Iterator<Item = &PlacedRegistration> {
        self.entries.values().filter(|entry| !*entry.established.borrow())
    }

    fn handle_missing(&self, placed: &Placed) {
        tracing::warn!(
            path = placed.path,
            "a registration is missing in the registry; writing it again"
        );
        for entry in self.entries.values().filter(|entry| entry.placed == *placed) {
            entry.established.send_replace(false);
        }
    }

    fn handle_session_lost(&self) {
        if !self.entries.is_empty() {
            tracing::warn!(registrations = self.entries.len(), "session lost, registering again");
        }
        for entry in self.entries.values() {
            entry.established.send_replace(false);
        }
    }
}

struct RegistrationKeeper {
    session: Box<dyn StoreSession>,
    commands: mpsc::UnboundedReceiver<RegistrarCommand>,
    ledger: Ledger,
    /// Dropped, it tells whoever has the session closed that it is.
    open: Option<oneshot::Sender<()>>,
}

impl RegistrationKeeper {
    async fn run(mut self) {
        let mut backoff = new_backoff();
        loop {
            let is_ready = tokio::select! {
                is_ready = self.session.ready() => is_ready,
                command = self.commands.recv() => match self.take(command) {
                    true => continue,
                    false => break,
                },
            };
            // With the last handle the store's connection ends, too.
            if !is_ready {
                break;
            }
            match self.serve(&mut backoff).await {
                Ok(()) => break,
                Err(StoreError::Away | StoreError::Gap) => {}
                Err(StoreError::SessionLost) => self.ledger.handle_session_lost(),
                Err(StoreError::Failed(error)) => {
                    if self.session.report(&format!("registering: {error}")) {
                        tracing::warn!(%error, "registration failed, trying again");
                    }
                }
            }
            // Who withdraws something does not wait for what cannot be written.
            tokio::select! {
                () = tokio::time::sleep(backoff.next_wait()) => {}
                command = self.commands.recv() => if !self.take(command) { break },
            }
        }
        self.session.close().await;
    }

    /// Takes what a handle says, or that all of them are gone. False if the session is to end.
    fn take(&mut self, command: Option<RegistrarCommand>) -> bool {
        match command {
            Some(RegistrarCommand::Add { id, entry }) => {
                self.ledger.entries.insert(id, entry);
                true
            }
            Some(RegistrarCommand::Remove { id, done }) => {
                self.ledger.remove(id, done);
                true
            }
            Some(RegistrarCommand::Close { open }) => {
                self.open = Some(open);
                false
            }
            None => false,
        }
    }

    /// Keeps everything registered. Ends well only when the session is to end.
    async fn serve(&mut self, backoff: &mut Backoff) -> Result<(), StoreError> {
        let mut ticks = tokio::time::interval(self.session.keep_interval());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                command = self.commands.recv() => if !self.take(command) { return Ok(()) },
                // The first tick comes at once: what a new connection finds may be anything.
                _ = ticks.tick() => self.keep().await?,
                () = self.session.lost() => return Err(StoreError::Away),
            }
            self.write().await?;
            backoff.reset();
        }
    }

    async fn keep(&mut self) -> Result<(), StoreError> {
        match self.session.keep(&self.ledger.held()).await {
            Ok(missing) => missing.iter().for_each(|placed| self.ledger.handle_missing(placed)),
            // No reason to wait: a new session is made with the next write.
            Err(StoreError::SessionLost) => self.ledger.handle_session_lost(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Brings the store to what it should be: removals, then what is missing.
    async fn write(&mut self) -> Result<(), StoreError> {
        while let Some((placed, _)) = self.ledger.removals.last() {
            self.session.remove(placed).await?;
            if let Some((_, done)) = self.ledger.removals.pop() {
                let _ = done.send(());
            }
        }
        // What one entry is refused, another one may be granted.
        let mut refused = Ok(());
        for entry in self.ledger.missing() {
            match self.session.put(&entry.placed).await {
                Ok(()) => drop(entry.established.send_replace(true)),
                Err(StoreError::Failed(error)) if refused.is_ok() => {
                    refused = Err(StoreError::Failed(error));
                }
                Err(StoreError::Failed(_)) => {}
                Err(error) => return Err(error),
            }
        }
        refused
    }
}

#[cfg(test)]
mod tests;
