//! The arguments of all commands.

use clap::{Parser, Subcommand};

#[cfg(feature = "lab")]
use crate::bench::BenchArgs;
use crate::call::{self, CallArgs};
use crate::check::CheckArgs;
use crate::completions::{self, CompletionsArgs};
use crate::config_file::ConfigFile;
#[cfg(feature = "lab")]
use crate::demo::{self, DemoArgs};
use crate::describe::{self, DescribeArgs};
#[cfg(target_os = "linux")]
use crate::doctor::{self, DoctorArgs};
use crate::explain::{self, ExplainArgs};
use crate::list::{self, ListArgs};
#[cfg(feature = "lab")]
use crate::provider::{self, ProviderArgs};
use crate::reload;
#[cfg(target_os = "linux")]
use crate::tap::{self, TapArgs};
#[cfg(target_os = "linux")]
use crate::top::{self, TopArgs};
use crate::transfer::{self, TransferArgs};

const EXIT_STATUS: &str = "\
Exit status:
  0  success
  1  failure
  2  the arguments or the configuration are wrong";

const RUN_HELP: &str = "\
Signals:
  SIGTERM, SIGINT  drain: withdraw the registrations, finish the calls in
                   flight, and end; a second signal ends at once
  SIGHUP           read the file again and apply what can change without a
                   restart; a file with mistakes is refused as a whole

Examples:
  dubmesh run --config consumer.toml
  dubmesh reload --config consumer.toml
  curl http://127.0.0.1:9700/readyz

Exit status:
  0  drained after a signal; every call in flight was answered
  1  could not start, or calls were cut off
  2  the arguments or the configuration are wrong";

const CHECK_HELP: &str = "\
Examples:
  dubmesh check --config consumer.toml
  dubmesh check --config consumer.toml --connect
      are its registries and apps there, and its addresses free?
  dubmesh check --config new.toml && mv new.toml agent.toml

Exit status:
  0  the file is good; one line shows what it does
  1  with --connect: something is not there; one line for each
  2  the file has mistakes; one line per mistake:
     FILE:LINE: KEY: what is wrong; what to write instead";

const HELP: &str = "\
Examples:
  dubmesh check --config agent.toml    show the mistakes in a file
  dubmesh run --config agent.toml      run an agent with this file
  dubmesh call com.acme.Orders find 42 --url dubbo://127.0.0.1:20880
                                       call a service
  dubmesh list --registry zookeeper://127.0.0.1:2181
                                       list all services of a registry
  dubmesh describe com.acme.Orders --registry etcd://127.0.0.1:2379
                                       show its methods and its endpoints
  dubmesh doctor --port 20880          find out why calls to a port are slow
  dubmesh transfer serve lines.txt     offer the lines of a file";

#[cfg(feature = "lab")]
const LAB_HELP: &str = "
  dubmesh demo                         see a whole mesh at work
  dubmesh provider                     run a small Dubbo provider
  dubmesh bench rpc                    measure calls through one connection";

#[cfg(not(feature = "lab"))]
const LAB_HELP: &str = "";

/// Lets any program call Apache Dubbo services over HTTP, and offers local ones to others.
#[derive(Debug, Parser)]
#[command(name = "dubmesh", version, after_help = format!("{HELP}{LAB_HELP}\n\n{EXIT_STATUS}"))]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent
    #[command(after_help = RUN_HELP)]
    Run(ConfigFile),
    /// Check a configuration file, and show what the agent would do
    #[command(after_help = CHECK_HELP)]
    Check(CheckArgs),
    /// Make the agents that run with a file read it again
    #[command(after_help = reload::HELP)]
    Reload(ConfigFile),
    /// Run a whole mesh with load on it, and show it live
    #[cfg(feature = "lab")]
    #[command(after_help = demo::HELP)]
    Demo(DemoArgs),
    /// Call a Dubbo service, and print the result as JSON
    #[command(after_help = call::HELP)]
    Call(Box<CallArgs>),
    /// Show the methods of a Dubbo service with their types, and who offers it
    #[command(after_help = describe::HELP)]
    Describe(Box<DescribeArgs>),
    /// List the services of a registry, their endpoints, and who has registered them
    #[command(after_help = list::HELP)]
    List(Box<ListArgs>),
    /// Show which endpoints Dubbo's routing rules leave for a call, and why
    #[command(after_help = explain::HELP)]
    Explain(Box<ExplainArgs>),
    /// Find out why calls are slow: which connection, buffer or thread pool is full
    #[cfg(target_os = "linux")]
    #[command(after_help = doctor::HELP)]
    Doctor(Box<DoctorArgs>),
    /// Show services, endpoints and connections of a running agent, live
    #[cfg(target_os = "linux")]
    #[command(after_help = top::HELP)]
    Top(Box<TopArgs>),
    /// Show the calls of a running agent as they end
    #[cfg(target_os = "linux")]
    #[command(after_help = tap::HELP)]
    Tap(Box<TapArgs>),
    /// Run a small Dubbo provider for trials and measurements
    #[cfg(feature = "lab")]
    #[command(after_help = provider::HELP)]
    Provider(Box<ProviderArgs>),
    /// Measure the performance of this machine, or of a connection between two
    #[cfg(feature = "lab")]
    Bench(BenchArgs),
    /// Transfer the lines of a file, one request per line, processed and in order
    #[command(after_help = transfer::HELP)]
    Transfer(Box<TransferArgs>),
    /// Print a script that completes commands and options in a shell
    #[command(after_help = completions::HELP)]
    Completions(CompletionsArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_are_consistent() {
        Cli::command().debug_assert();
    }

    fn all(command: &clap::Command, found: &mut Vec<clap::Command>) {
        found.push(command.clone());
        command.get_subcommands().for_each(|command| all(command, found));
    }

    /// A terminal has 80 columns, and whoever copies an example copies whole lines.
    #[test]
    fn help_fits_a_terminal_and_no_line_of_its_text_is_wrapped() {
        let mut command = Cli::command().term_width(80);
        command.build();
        let mut commands = Vec::new();
        all(&command, &mut commands);
        assert!(8 < commands.len());
        let mut wrong = Vec::new();
        for mut command in commands {
            let (name, help) = (command.get_name().to_owned(), command.render_long_help());
            let help = help.to_string();
            let too_long = help.lines().filter(|line| 80 < line.chars().count());
            wrong.extend(too_long.map(|line| format!("{name}: {line}")));
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let is_shown = |line: &&str| help.lines().any(|shown| shown == line.trim_end());
            let wrapped = text.lines().filter(|line| !is_shown(line));
            wrong.extend(wrapped.map(|line| format!("{name}: {line}")));
            assert!(!text.contains("pidof"), "{name}");
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
