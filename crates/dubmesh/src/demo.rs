//! `dubmesh demo`: the arguments of [`lab::demo`].

use std::num::NonZeroU32;
use std::time::Duration;

use agent::config::{LogConfig, LogFormat};
use clap::Args;
use lab::demo::{CallPace, DemoPlan};

use crate::Exit;
use crate::duration::duration;
use crate::from_one::from_one;
use crate::logging::Logging;
use crate::output;

/// What is below the options in `--help`.
pub(crate) const HELP: &str = "\
Everything runs in this process, on free ports of 127.0.0.1: three Dubbo
providers of different sizes, an agent beside each, and one agent that takes
HTTP calls. The demo writes no files.

Examples:
  dubmesh demo
  dubmesh demo --for 10s --plain
  dubmesh demo --concurrency 400
  dubmesh demo --rate 1000

Exit status:
  0  ended by --for, SIGINT (Ctrl-C) or SIGTERM, and calls were answered
  1  could not start, or no call was answered
  2  the arguments are wrong";

/// The arguments of `dubmesh demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// How long to run, such as 10s, 500ms or 2m; by default until Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Calls per second, no matter how long they take
    #[arg(long, value_name = "N", value_parser = from_one::<NonZeroU32>)]
    #[arg(conflicts_with = "concurrency")]
    rate: Option<NonZeroU32>,
    /// Callers that call without a pause; 200 by default
    #[arg(long, value_name = "N", value_parser = from_one::<NonZeroU32>)]
    concurrency: Option<NonZeroU32>,
    /// Print one line per second, even on a terminal
    #[arg(long)]
    plain: bool,
}

/// Runs the demo to its end.
pub(crate) fn demo(args: &DemoArgs) -> Exit {
    // Lines in between would tear the picture; what goes wrong shows among the errors.
    let _logging =
        Logging::start(&LogConfig { filter: "error".to_owned(), format: LogFormat::Text });
    let pace = match (args.rate, args.concurrency) {
        (Some(rate), _) => Some(CallPace::PerSecond(rate)),
        (None, callers) => callers.map(CallPace::Callers),
    };
    let plan = DemoPlan { duration: args.duration, pace, plain: args.plain };
    match lab::demo::demo(&plan) {
        Ok(true) => Exit::Ok,
        Ok(false) => {
            output::say(format_args!("dubmesh demo: not one call was answered"));
            Exit::Failure
        }
        Err(message) => {
            output::say(format_args!("dubmesh demo: {message}"));
            Exit::Failure
        }
    }
}
