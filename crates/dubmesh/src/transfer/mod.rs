//! `dubmesh transfer`: a file's lines over the link, one request a line.

mod fetch;
mod files;
mod meter;
mod serve;

use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use transfer::Source;

use crate::Exit;
use crate::output;
use fetch::FetchArgs;
use files::{GenerateArgs, LocalArgs, VerifyArgs};
use serve::ServeArgs;

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
Lines end with \\r\\n. With serve, generate, verify and local, use --lines lf if
they end with \\n, and --lines any if both occur. Each line needs a request of
its own, from a caller that has no other request at that time. docs/transfer.md
explains how every line arrives exactly once.

Examples:
  dubmesh transfer generate lines.txt --bytes 1GiB --seed 7
  dubmesh transfer serve lines.txt --listen 127.0.0.1:7700
  dubmesh transfer fetch 127.0.0.1:7700 --output copy.txt --process contest
  dubmesh transfer verify lines.txt copy.txt --process contest";

/// The arguments of `dubmesh transfer`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct TransferArgs {
    #[command(subcommand)]
    what: TransferCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum TransferCommand {
    /// Offer a file to any number of clients
    #[command(after_help = serve::HELP)]
    Serve(ServeArgs),
    /// Fetch the lines of a file that a server offers
    #[command(after_help = fetch::HELP)]
    Fetch(FetchArgs),
    /// Write a file of random lines of 0 to 200 bytes
    #[command(after_help = files::GENERATE_HELP)]
    Generate(GenerateArgs),
    /// Compare an output with its source, byte by byte
    #[command(after_help = files::VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Process a file without a network, on one thread: the best that a transfer can reach
    #[command(after_help = files::LOCAL_HELP)]
    Local(LocalArgs),
}

/// Does it.
pub(crate) fn transfer(args: &TransferArgs) -> Exit {
    match &args.what {
        TransferCommand::Serve(args) => serve::serve(args),
        TransferCommand::Fetch(args) => fetch::fetch(args),
        TransferCommand::Generate(args) => files::generate(args),
        TransferCommand::Verify(args) => files::verify(args),
        TransferCommand::Local(args) => files::local(args),
    }
}

/// What ends lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum LineEnds {
    Crlf,
    Lf,
    Any,
}

impl From<LineEnds> for transfer::LineEnds {
    fn from(ends: LineEnds) -> Self {
        match ends {
            LineEnds::Crlf => Self::Crlf,
            LineEnds::Lf => Self::Lf,
            LineEnds::Any => Self::Any,
        }
    }
}

/// Tells on standard error if the file's lines seem to end otherwise than was said. Whoever reads
/// all of the file says what keeps it from being read.
fn advise(command: &str, path: &Path, ends: LineEnds) {
    let advice = Source::open_with(path, ends.into()).and_then(|source| source.advice());
    if let Ok(Some(advice)) = advice {
        output::say(format_args!("dubmesh transfer {command}: {advice}"));
    }
}

/// Tells on standard error what went wrong.
fn failed(command: &str, message: &dyn std::fmt::Display) -> Exit {
    output::say(format_args!("dubmesh transfer {command}: {message}"));
    Exit::Failure
}
