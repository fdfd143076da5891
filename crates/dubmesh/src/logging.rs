//! Log lines on standard error: as the configuration says, and changed by SIGHUP.

use std::io::{self, IsTerminal};

use agent::config::{LogConfig, LogFormat};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// Changes what is logged.
#[derive(Debug)]
pub(crate) struct Logging {
    filter: reload::Handle<EnvFilter, Registry>,
}

impl Logging {
    /// Starts to log. To be called once in a process; a second call changes nothing.
    pub(crate) fn start(config: &LogConfig) -> Self {
        let (filter, handle) = reload::Layer::new(EnvFilter::new(&config.filter));
        let lines = fmt::layer().with_writer(io::stderr);
        let lines = match config.format {
            LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
            // Flat, so that a field is found without knowing how we log.
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        if let Err(error) = tracing_subscriber::registry().with(filter).with(lines).try_init() {
            eprintln!("dubmesh: cannot log: {error}");
        }
        Self { filter: handle }
    }

    /// Takes over another filter. The format stays until a restart.
    pub(crate) fn change(&self, config: &LogConfig) {
        if let Err(error) = self.filter.reload(EnvFilter::new(&config.filter)) {
            tracing::warn!(%error, "cannot change what is logged");
        }
    }
}
