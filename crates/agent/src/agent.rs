//! An agent as its owner sees it: start, reload, drain.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::admin::LogLevel;
use crate::config::{Config, ReloadPlan};
use crate::control::{self, BoundListeners, ControlCommand};
use crate::control::{DrainSummary, StartError};
use crate::listening::Addresses;
use crate::offload::Threads;

/// A running agent. Dropping it stops it at once; [`Agent::drain`] stops it in order.
pub struct Agent {
    addresses: Addresses,
    threads: Threads,
    commands: mpsc::UnboundedSender<ControlCommand>,
    control: Option<JoinHandle<()>>,
}

impl Agent {
    /// Binds the listeners and starts the threads. Registries may be away: what needs them waits.
    ///
    /// # Errors
    /// [`StartError`] with what to do about it.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::start_logging(config, None)
    }

    /// The same where the admin listener can tell and change what is logged.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_logging(
        config: Config,
        log_level: Option<Arc<dyn LogLevel>>,
    ) -> Result<Self, StartError> {
        let listeners = BoundListeners::bind(&config)?;
        let addresses = listeners.addresses.clone();
        let (commands, inbox) = mpsc::unbounded_channel();
        let (ready, started) = std::sync::mpsc::channel();
        let threads = Threads::one_per_core();
        let of_workers = threads.clone();
        let control = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            control::run(config, listeners, log_level, &of_workers, inbox, &ready);
        })?;
        started.recv().map_err(|_| StartError::Lost)??;
        Ok(Self { addresses, threads, commands, control: Some(control) })
    }

    /// Where the agent listens.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// What works on long messages.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Waits until the agent has stopped although nobody asked for it: by a defect of its own,
    /// which the log tells.
    pub async fn stopped(&self) {
        self.commands.closed().await;
    }

    /// Applies what can change while running, and says what cannot.
    pub async fn reload(&self, config: Config) -> Option<ReloadPlan> {
        let (reply, plan) = oneshot::channel();
        self.commands.send(ControlCommand::Reload(Box::new(config), reply)).ok()?;
        plan.await.ok()
    }

    /// Withdraws the registrations, takes no new calls, and lets those in flight finish within
    /// the configured time.
    pub async fn drain(mut self) -> Option<DrainSummary> {
        let (reply, summary) = oneshot::channel();
        self.commands.send(ControlCommand::Drain(reply)).ok()?;
        let summary = summary.await.ok();
        if let Some(control) = self.control.take() {
            // It has nothing left to do but to return.
            let _ = control.join();
        }
        summary
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(control) = self.control.take() {
            let _ = self.commands.send(ControlCommand::Stop);
            let _ = control.join();
        }
    }
}
