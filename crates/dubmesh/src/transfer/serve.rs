//! `dubmesh transfer serve`: offers a file until a signal ends it.

use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use agent::config::{LogConfig, LogFormat};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use transfer::{ServeOptions, Serving};

use super::{LineEnds, advise, failed};
use crate::Exit;
use crate::from_one::from_one;
use crate::logging::Logging;
use crate::output;

/// How long clients that are being answered are waited for.
const GRACE: Duration = Duration::from_secs(5);

/// What stands below the options in `--help`.
pub(super) const HELP: &str = "\
Every client gets the whole file, from the line it asks for. Once the server
listens, it prints one line on standard output: READY HOST:PORT. If the server
is restarted, its clients wait and then continue. The file must not change
meanwhile; if it does, the transfers end with an error.

On SIGTERM and SIGINT it answers the requests in flight, and ends.

Examples:
  dubmesh transfer serve lines.txt
  dubmesh transfer serve unix.txt --lines lf
  dubmesh transfer serve lines.txt --listen 0.0.0.0:7700 --max-transfers 10

Exit status:
  0  ended by a signal
  1  the file cannot be read, or the address cannot be used
  2  the arguments are wrong";

/// The arguments of `dubmesh transfer serve`.
#[derive(Args, Debug)]
pub(super) struct ServeArgs {
    /// The file
    file: PathBuf,
    /// What ends a line: crlf is only \r\n, lf is only \n, any is either
    #[arg(long, value_enum, value_name = "ENDS", default_value = "crlf")]
    lines: LineEnds,
    /// Where to listen; port 0 means any free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7700")]
    listen: String,
    /// Transfers at the same time; further ones are refused
    #[arg(long, value_name = "N", default_value = "2048", value_parser = from_one::<NonZeroU32>)]
    max_transfers: NonZeroU32,
}

/// Serves until a signal.
pub(super) fn serve(args: &ServeArgs) -> Exit {
    let _logging =
        Logging::start(&LogConfig { filter: "warn".to_owned(), format: LogFormat::Text });
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        output::say(format_args!(
            "dubmesh transfer serve: cannot raise the limit of open files: {error}"
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(run(args)))
    {
        Ok(()) => Exit::Ok,
        Err(message) => failed("serve", &message),
    }
}

async fn run(args: &ServeArgs) -> Result<(), String> {
    let no_signals = |error: io::Error| format!("cannot watch for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let max_transfers = usize::try_from(args.max_transfers.get()).unwrap_or(usize::MAX);
    let options =
        ServeOptions { max_transfers, ends: args.lines.into(), ..ServeOptions::default() };
    advise("serve", &args.file, args.lines);
    let serving = Serving::start(&args.file, &args.listen, options)
        .await
        .map_err(|error| error.to_string())?;
    output::write(format!("READY {}\n", serving.local_addr()).as_bytes())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    serving.shutdown(GRACE).await;
    Ok(())
}
