//! The command line of Dubmesh: it reads arguments and files, and wires the other crates up.
//!
//! `cli.rs` is the list of commands; each has a file of its own. Exit statuses are those of
//! [`Exit`], for every command.

// They panic where nothing can be written; `output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(target_os = "linux")]
mod admin_pages;
mod allocator;
#[cfg(feature = "lab")]
mod bench;
mod call;
mod check;
mod cli;
mod completions;
mod config_file;
#[cfg(feature = "lab")]
mod demo;
mod describe;
#[cfg(target_os = "linux")]
mod doctor;
mod duration;
mod exit;
mod explain;
mod from_one;
mod list;
mod logging;
mod output;
#[cfg(feature = "lab")]
mod provider;
mod registry_url;
mod reload;
mod run;
mod service_location;
#[cfg(target_os = "linux")]
mod tap;
#[cfg(target_os = "linux")]
mod top;
mod transfer;
mod usage_error;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
use crate::exit::Exit;

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => run_command(cli.command),
        Err(error) => usage_error::show(&error),
    }
    .into()
}

fn run_command(command: Command) -> Exit {
    match command {
        #[cfg(feature = "lab")]
        Command::Bench(args) => bench::bench(&args),
        Command::Run(file) => run::run(&file.config),
        Command::Check(args) => check::check(&args, config_of_agent),
        Command::Reload(file) => reload::reload(&file.config, config_of_agent),
        Command::Call(args) => call::call(&args),
        Command::Describe(args) => describe::describe(&args),
        Command::List(args) => list::list(&args),
        Command::Explain(args) => explain::explain(&args),
        #[cfg(target_os = "linux")]
        Command::Doctor(args) => doctor::doctor(&args),
        #[cfg(target_os = "linux")]
        Command::Top(args) => top::top(&args),
        #[cfg(target_os = "linux")]
        Command::Tap(args) => tap::tap(&args),
        #[cfg(feature = "lab")]
        Command::Demo(args) => demo::demo(&args),
        #[cfg(feature = "lab")]
        Command::Provider(args) => provider::provider(&args),
        Command::Transfer(args) => transfer::transfer(&args),
        Command::Completions(args) => completions::completions(&args, Cli::command()),
    }
}

/// The configuration file of an agent that was started with these arguments.
fn config_of_agent(arguments: Vec<OsString>) -> Option<PathBuf> {
    match Cli::try_parse_from(arguments).ok()?.command {
        Command::Run(file) => Some(file.config),
        _ => None,
    }
}
