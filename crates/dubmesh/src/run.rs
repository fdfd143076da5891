//! `dubmesh run`: an agent from its configuration to its end, and the signals in between.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::config::{self, Config};
use agent::{Agent, DrainSummary};
use nix::sys::signal::Signal as SignalNumber;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};
use wire::file::FileWork;

use crate::Exit;
use crate::config_file::refuse;
use crate::logging::Logging;
use crate::output;

/// How long a reload waits for the file systems that have its files.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the agent that the file at `path` describes, until a signal ends it.
pub(crate) fn run(path: &Path) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ran = runtime.and_then(|runtime| runtime.block_on(load_and_supervise(path)));
    ran.unwrap_or_else(|error| {
        output::say(format_args!("dubmesh run: cannot watch for signals: {error}"));
        Exit::Failure
    })
}

async fn load_and_supervise(path: &Path) -> io::Result<Exit> {
    // Before the file is read: a SIGHUP that comes from now on is kept, and is a reload once the
    // agent has started. The other signals still end a start that takes long.
    let hang_up = signal(SignalKind::hangup())?;
    // A file that is as long as this process may make one refuses what is written, as a full disk
    // does. Unless the signal is caught, it ends the process.
    drop(signal(SignalKind::from_raw(SignalNumber::SIGXFSZ as i32))?);
    let config = match config::load(path) {
        Ok(config) => config,
        Err(errors) => return Ok(refuse(&errors)),
    };
    let logging = Logging::start(&config.log);
    warn_of(&config);
    raise_file_limit();
    // Before the agent, so that no signal finds the default action in place.
    let signals = Signals::watch(hang_up)?;
    Ok(supervise(path, config, &logging, signals).await)
}

/// Of what is not a mistake, but could be better.
fn warn_of(config: &Config) {
    for warning in &config.warnings {
        warn!(%warning, "configuration");
    }
}

/// Every connection takes a file descriptor, and the usual soft limit of 1,024 is soon used up.
fn raise_file_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        warn!(%error, "cannot raise the limit of open files; connections may be refused");
    }
}

/// The signals that an agent listens to.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// What a signal asks for.
enum SignalAction {
    Reload,
    /// With the name of the signal.
    End(&'static str),
}

impl Signals {
    fn watch(hang_up: Signal) -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up,
        })
    }

    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::End("SIGTERM"),
            _ = self.interrupt.recv() => SignalAction::End("SIGINT"),
            _ = self.hang_up.recv() => SignalAction::Reload,
        }
    }

    /// The name of the next signal that asks for the end. A SIGHUP that comes meanwhile is kept,
    /// however many come: [`next`](Self::next) gives it once.
    async fn end(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// The same where nothing is reloaded any more.
    async fn end_of_drain(&mut self) -> &'static str {
        loop {
            match self.next().await {
                SignalAction::End(signal) => return signal,
                SignalAction::Reload => info!("SIGHUP has no effect: the agent drains"),
            }
        }
    }
}

async fn supervise(path: &Path, config: Config, logging: &Logging, mut signals: Signals) -> Exit {
    let log_level = Arc::new(logging.filter());
    let agent = match Agent::start_logging(config, Some(log_level)) {
        Ok(agent) => agent,
        Err(error) => {
            error!(%error, "cannot start");
            return Exit::Failure;
        }
    };
    let addresses = agent.addresses();
    info!(
        http = ?addresses.http,
        dubbo = ?addresses.dubbo,
        dubbo_exports = addresses.dubbo_exports.map(tracing::field::display),
        link = addresses.link.map(tracing::field::display),
        admin = addresses.admin.map(tracing::field::display),
        version = env!("CARGO_PKG_VERSION"),
        "started"
    );
    let files = FileWork::default();
    let signal = loop {
        let asked = tokio::select! {
            asked = signals.next() => asked,
            () = agent.stopped() => return Exit::Failure,
        };
        match asked {
            SignalAction::End(signal) => break signal,
            // Its files may lie where nothing answers: the end does not wait for them. The file
            // may have changed since it was read: another SIGHUP has it read once more.
            SignalAction::Reload => tokio::select! {
                () = reload(path, &agent, logging, &files) => {}
                signal = signals.end() => break signal,
            },
        }
    };
    info!(signal, "draining; a second signal ends at once");
    tokio::select! {
        summary = agent.drain() => drained(summary),
        signal = signals.end_of_drain() => {
            warn!(signal, "ended at once; calls in flight were lost");
            Exit::Failure
        }
    }
}

/// Reads the file again. What is wrong with it is logged, and the agent goes on as before.
async fn reload(path: &Path, agent: &Agent, logging: &Logging, files: &FileWork) {
    let of_thread = path.to_owned();
    let config = match files.run(LOAD_TIMEOUT, move || config::load(&of_thread)).await {
        Ok(Ok(config)) => config,
        Err(error) => {
            warn!(%error, "the configuration was not read; nothing was changed; send SIGHUP again");
            return;
        }
        Ok(Err(errors)) => {
            for error in errors.as_slice() {
                warn!(%error, "configuration refused");
            }
            warn!("nothing was changed");
            return;
        }
    };
    warn_of(&config);
    let log = config.log.clone();
    let Some(plan) = agent.reload(config).await else {
        error!("the agent did not answer; nothing was changed");
        return;
    };
    logging.change(&log);
    if plan.is_empty() {
        info!("reloaded: the file has no changes");
    } else if !plan.changed.is_empty() || plan.failed.is_empty() {
        info!(changed = plan.changed.join(", "), "reloaded");
    }
    if !plan.failed.is_empty() {
        warn!(keys = plan.failed.join(", "), "these changes failed; the old values stay");
    }
    if !plan.needs_restart.is_empty() {
        warn!(keys = plan.needs_restart.join(", "), "these changes need a restart");
    }
}

fn drained(summary: Option<DrainSummary>) -> Exit {
    match summary {
        Some(DrainSummary { complete: true, took, .. }) => {
            info!(took_ms = took.as_millis(), "drained: every call was answered");
            Exit::Ok
        }
        Some(DrainSummary { complete: false, cut_off, took }) => {
            let took_ms = took.as_millis();
            warn!(took_ms, connections = cut_off, "drained, but calls were cut off");
            Exit::Failure
        }
        None => {
            error!("the agent ended before it was drained; please report this");
            Exit::Failure
        }
    }
}
