//! What the commands have in common that read a configuration.

use std::path::PathBuf;

use agent::config::ConfigErrors;
use clap::Args;

use crate::Exit;
use crate::output;

/// The arguments of commands that read a configuration.
#[derive(Args, Debug)]
pub(crate) struct ConfigFile {
    /// The configuration file, in TOML; docs/configuration.md lists all keys
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// Prints the mistakes in a configuration, one per line.
pub(crate) fn refuse(errors: &ConfigErrors) -> Exit {
    output::say(format_args!("{errors}"));
    Exit::Usage
}
