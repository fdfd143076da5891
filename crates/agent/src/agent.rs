//! An agent as its owner sees it: start, reload, drain.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use wire::ListenError;

use crate::config::{Config, ReloadPlan};
use crate::control::{self, Command, Listeners};

/// Why an agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The file descriptors that are reserved leave none for callers.
    #[error(
        "agent.reserved_files = {reserved} leaves no file descriptor for callers: the process may \
         have {limit}; lower it, or raise the limit (ulimit -n, or LimitNOFILE of systemd)"
    )]
    Files {
        /// All that the process may have.
        limit: u64,
        /// How many are reserved.
        reserved: u64,
    },
    /// A registry's settings cannot be right.
    #[error("registry {name:?}: {source}")]
    Registry {
        /// Its name.
        name: String,
        /// What is wrong.
        source: registry::RegistryError,
    },
    /// A thread or an event loop could not be made.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// The control thread ended before it was ready.
    #[error("the control thread ended before it was ready; please report this")]
    Lost,
}

/// Where an agent listens; a port 0 of the configuration is told here.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Addresses {
    /// HTTP listeners, in the order of the configuration.
    pub http: Vec<SocketAddr>,
    /// Dubbo listeners for calls to services of a registry, in the order of the configuration.
    pub dubbo: Vec<SocketAddr>,
    /// The listener for other agents.
    pub link: Option<SocketAddr>,
    /// The listener for Dubbo's own consumers of what is exported.
    pub dubbo_exports: Option<SocketAddr>,
    /// Metrics and health.
    pub admin: Option<SocketAddr>,
}

/// How a drain went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DrainSummary {
    /// Whether every call in flight was answered in time.
    pub complete: bool,
    /// Connections of callers that were still open when the time was over, and were cut off.
    pub cut_off: u64,
    /// How long it took.
    pub took: Duration,
}

/// A running agent. Dropping it stops it at once; [`Agent::drain`] stops it in order.
pub struct Agent {
    addresses: Addresses,
    commands: mpsc::UnboundedSender<Command>,
    control: Option<JoinHandle<()>>,
}

impl Agent {
    /// Binds the listeners and starts the threads. Registries may be away: what needs them waits.
    ///
    /// # Errors
    /// [`StartError`] with what to do about it.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let listeners = bind(&config)?;
        let addresses = listeners.addresses()?;
        let (commands, inbox) = mpsc::unbounded_channel();
        let (ready, started) = std::sync::mpsc::channel();
        let control = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || control::run(config, listeners, inbox, &ready))?;
        started.recv().map_err(|_| StartError::Lost)??;
        Ok(Self { addresses, commands, control: Some(control) })
    }

    /// Where the agent listens.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Applies what can change while running, and says what cannot.
    pub async fn reload(&self, config: Config) -> Option<ReloadPlan> {
        let (reply, plan) = oneshot::channel();
        self.commands.send(Command::Reload(Box::new(config), reply)).ok()?;
        plan.await.ok()
    }

    /// Withdraws the registrations, takes no new calls, and lets those in flight finish within
    /// the configured time.
    pub async fn drain(mut self) -> Option<DrainSummary> {
        let (reply, summary) = oneshot::channel();
        self.commands.send(Command::Drain(reply)).ok()?;
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
            let _ = self.commands.send(Command::Stop);
            let _ = control.join();
        }
    }
}

fn bind(config: &Config) -> Result<Listeners, StartError> {
    let http = config.http.iter().map(|http| wire::listen(http.listen, "ingress.listen"));
    let dubbo = config.dubbo.iter().map(|dubbo| wire::listen(dubbo.listen, "ingress.listen"));
    let dubbo_exports = config.dubbo_exports.as_ref();
    Ok(Listeners {
        http: http.collect::<Result<_, _>>()?,
        dubbo: dubbo.collect::<Result<_, _>>()?,
        dubbo_exports: dubbo_exports
            .map(|dubbo| wire::listen(dubbo.listen, "dubbo.listen"))
            .transpose()?,
        link: config
            .link
            .as_ref()
            .map(|link| wire::listen(link.listen, "link.listen"))
            .transpose()?,
        admin: config
            .admin
            .as_ref()
            .map(|admin| wire::listen(admin.listen, "admin.listen"))
            .transpose()?,
    })
}

impl Listeners {
    fn addresses(&self) -> io::Result<Addresses> {
        let all = |listeners: &[TcpListener]| {
            listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()
        };
        Ok(Addresses {
            http: all(&self.http)?,
            dubbo: all(&self.dubbo)?,
            dubbo_exports: self.dubbo_exports.as_ref().map(TcpListener::local_addr).transpose()?,
            link: self.link.as_ref().map(TcpListener::local_addr).transpose()?,
            admin: self.admin.as_ref().map(TcpListener::local_addr).transpose()?,
        })
    }
}
