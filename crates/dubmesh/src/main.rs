//! The command line of Dubmesh: it reads arguments and files, and wires the other crates up.
//!
//! `cli.rs` is the list of commands; each has a file of its own. Exit statuses are those of
//! [`Exit`], for every command.

mod check;
mod cli;
mod logging;
mod provider;
mod registry_url;
mod run;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

/// How a command ended, for the shell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Exit {
    /// All went well.
    Ok,
    /// What was asked for is right, but could not be done.
    Failure,
    /// The arguments or the configuration are wrong. clap exits with the same status.
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
        })
    }
}

fn main() -> ExitCode {
    let exit = match Cli::parse().command {
        Command::Run(file) => run::run(&file.config),
        Command::Check(file) => check::check(&file.config),
        Command::Provider(args) => provider::provider(&args),
    };
    exit.into()
}
