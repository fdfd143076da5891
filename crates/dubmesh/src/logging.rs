//! Log lines on standard error: as the configuration says, and changed by SIGHUP and by the admin
//! listener.
//!
//! Invariants, whatever peers do and however slowly standard error is read:
//! - No thread that logs waits for standard error (`output`).
//! - Each place in the code that logs has a quota of lines; what is over it is counted, and one
//!   line tells the count (`flood`).
//! - A value in a line has a length limit and no control characters (`lines`).

mod flood;
mod lines;
mod output;

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::admin::LogLevel;
use agent::config::{LogConfig, LogFormat, check_log_filter};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use self::flood::{FloodLimit, Floods};
use self::output::Output;

/// Crates of others that log. Peers cause most of their lines, and nobody can act on them; notify
/// even logs each line that is written to a file in a watched folder. They log errors alone,
/// unless the configuration names them.
const FOREIGN: [&str; 9] =
    ["h2", "hyper", "hyper_util", "mio", "netlink_sys", "notify", "rustls", "tonic", "tower"];

/// How long a command that ends waits for standard error to take its last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Changes what is logged. Dropping it writes what is left.
#[derive(Debug)]
pub(crate) struct Logging {
    filter: LogFilter,
    floods: Arc<Floods>,
    output: Option<Output>,
}

/// What is logged. A clone is another handle to the same.
#[derive(Clone, Debug)]
pub(crate) struct LogFilter {
    handle: reload::Handle<EnvFilter, Registry>,
    /// As the configuration has it.
    level: Arc<Mutex<String>>,
}

impl LogLevel for LogFilter {
    fn current(&self) -> String {
        self.level.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, level: &str) -> Result<(), String> {
        check_log_filter(level)?;
        // Held until both are changed, so that two changes at once leave no other filter than is
        // told.
        let mut current = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        self.handle.reload(filter(level)).map_err(|error| error.to_string())?;
        level.clone_into(&mut current);
        Ok(())
    }
}

impl Logging {
    /// Starts to log. To be called once in a process; a second call changes nothing.
    pub(crate) fn start(config: &LogConfig) -> Self {
        let (filter, handle) = reload::Layer::new(filter(&config.filter));
        let floods = Arc::new(Floods::default());
        let reported = Arc::clone(&floods);
        let output = Output::start(io::stderr(), move || reported.report_due());
        let level = Arc::new(Mutex::new(config.filter.clone()));
        let mut logging = Self { filter: LogFilter { handle, level }, floods, output: None };
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                crate::output::say(format_args!("dubmesh: cannot log: {error}"));
                return logging;
            }
        };
        let layer = fmt::layer().with_writer(output.clone());
        let layer = match config.format {
            LogFormat::Text => layer
                .with_ansi(io::stderr().is_terminal())
                .fmt_fields(fmt::format::debug_fn(lines::text_field).delimited(" "))
                .boxed(),
            LogFormat::Json => layer.event_format(lines::JsonLines).boxed(),
        };
        let limit = FloodLimit(Arc::clone(&logging.floods));
        let lines = tracing_subscriber::registry().with(filter).with(limit).with(layer);
        match lines.try_init() {
            Ok(()) => logging.output = Some(output),
            Err(error) => crate::output::say(format_args!("dubmesh: cannot log: {error}")),
        }
        logging
    }

    /// Takes over another filter. The format stays until a restart.
    pub(crate) fn change(&self, config: &LogConfig) {
        if let Err(error) = self.filter.change(&config.filter) {
            tracing::warn!(%error, "cannot change what is logged");
        }
    }

    /// For those who tell and change what is logged while the agent runs.
    pub(crate) fn filter(&self) -> LogFilter {
        self.filter.clone()
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        if let Some(output) = &self.output {
            self.floods.report_all();
            output.flush(LAST_LINES);
        }
    }
}

/// The filter that `level` of the configuration means: about Dubmesh's own crates, unless it
/// names another one.
fn filter(level: &str) -> EnvFilter {
    EnvFilter::new(directives(level))
}

fn directives(level: &str) -> String {
    // What a bare level does not cover stays off.
    let bare = level.split(',').rfind(|directive| !directive.contains('='));
    if bare.is_none_or(|bare| bare == "off") {
        return level.to_owned();
    }
    // What comes later replaces what is said of the same crate before.
    let foreign: String = FOREIGN.iter().map(|name| format!("{name}=error,")).collect();
    format!("{foreign}{target}=warn,{level}", target = flood::TARGET)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_level_is_about_our_own_crates() {
        let trace = directives("trace");
        assert!(trace.contains("notify=error,") && trace.ends_with(",trace"), "{trace}");
        // Named crates keep what the configuration says, as it comes last.
        assert!(directives("info,h2=debug").ends_with("info,h2=debug"));
        assert_eq!(directives("off"), "off");
        assert_eq!(directives("agent=debug"), "agent=debug");
        for text in ["trace", "info,h2=debug", "error", "off", "agent=debug"] {
            assert!(EnvFilter::try_new(directives(text)).is_ok(), "{text}");
        }
        let named = EnvFilter::new(directives("info,h2=debug")).to_string();
        assert!(named.contains("h2=debug") && !named.contains("h2=error"), "{named}");
    }

    /// A new dependency that logs must not be forgotten.
    #[test]
    fn all_foreign_crates_that_log_are_known() {
        // Used by programs that build or test, or part of logging itself.
        const OTHERS: [&str; 7] = [
            "iana-time-zone",
            "prost-build",
            "tracing",
            "tracing-log",
            "tracing-serde",
            "tracing-subscriber",
            "tracing-core",
        ];
        let lock = include_str!("../../../Cargo.lock");
        let mut unknown = BTreeSet::new();
        for package in lock.split("[[package]]").filter(|package| package.contains("\nsource = ")) {
            let logs = package.lines().any(|line| [" \"tracing\",", " \"log\","].contains(&line));
            let name = package.split('"').nth(1).unwrap_or_default();
            let is_known = OTHERS.contains(&name) || FOREIGN.contains(&&*name.replace('-', "_"));
            if logs && !is_known {
                unknown.insert(name);
            }
        }
        assert!(unknown.is_empty(), "add to FOREIGN: {unknown:?}");
    }
}
