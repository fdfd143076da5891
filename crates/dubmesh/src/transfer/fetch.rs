//! `dubmesh transfer fetch`: the client.

use std::fmt::{self, Write as _};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use transfer::{
    Compression, FetchOptions, FetchProgress, Fetched, LineStep, OutputOptions, TrafficTotals,
    TransferError,
};
use wire::ProcessUsage;

use super::failed;
use super::meter::{ProgressLine, bytes};
use crate::Exit;
use crate::duration::duration;
use crate::output;
use crate::service_location::server_address;

/// What stands below the options in `--help`.
pub(super) const HELP: &str = "\
The output is written to FILE.partial. It gets its name when it is complete and
its number of lines, length and checksum match those of the server. After an
interrupted transfer there is the partial file, and a journal of what is safely
on the disk; --resume continues from there. If the server goes away, the client
waits for it. On a terminal, standard error shows the progress.

On SIGTERM and SIGINT it keeps what has arrived for --resume, and ends. If all
lines have arrived, it waits for the disk first; a second signal ends that.

Examples:
  dubmesh transfer fetch 127.0.0.1:7700 --output copy.txt
  dubmesh transfer fetch server.example:7700 --output moved.txt \\
      --process contest --resume
  dubmesh transfer fetch 127.0.0.1:7700 --output copy.txt --connections 4 \\
      --callers 50 --json

Exit status:
  0  the output is complete and checked
  1  it is not; the part that arrived is in FILE.partial
  2  the arguments are wrong";

/// The arguments of `dubmesh transfer fetch`.
#[derive(Args, Debug)]
pub(super) struct FetchArgs {
    /// The server
    #[arg(value_name = "HOST:PORT", value_parser = server_address)]
    address: String,
    /// Where the lines go
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Connections to the server
    #[arg(long, value_name = "N", default_value = "12", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
    /// Callers on each connection, each with one request at a time
    #[arg(long, value_name = "N", default_value = "500", value_parser = clap::value_parser!(u32).range(1..=4096))]
    callers: u32,
    /// What is done to each line: contest or none
    #[arg(long, value_name = "STEP", default_value = "none")]
    process: LineStep,
    /// Who does it
    #[arg(long, value_enum, default_value = "server")]
    process_at: TransferSide,
    /// How to compress lines on their way; helps if the network is slow and lines are alike
    #[arg(long, value_enum, value_name = "HOW", default_value = "none")]
    compress: Compress,
    /// Continue from a partial output, if there is one
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Replace an existing output, and begin again
    #[arg(long)]
    force: bool,
    /// Do not wait until the output is safely on the disk, and write no journal for --resume
    #[arg(long, conflicts_with = "resume")]
    no_sync: bool,
    /// How long to wait for a server that does not answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    patience: Duration,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A file has become longer than the process may make it (RLIMIT_FSIZE); this number on all
/// systems.
const SIGXFSZ: i32 = 25;

/// The sides of a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum TransferSide {
    Server,
    Client,
}

/// The ways to compress.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Compress {
    None,
    Lz4,
}

impl FetchArgs {
    fn options(&self) -> FetchOptions {
        let mut output = OutputOptions::new(self.output.clone());
        (output.force, output.resume) = (self.force, self.resume);
        if self.no_sync {
            (output.sync, output.checkpoint) = (false, None);
        }
        FetchOptions {
            connections: usize::from(self.connections),
            callers: self.callers,
            step: self.process,
            side: match self.process_at {
                TransferSide::Server => transfer::StepSide::Server,
                TransferSide::Client => transfer::StepSide::Client,
            },
            compression: match self.compress {
                Compress::None => Compression::None,
                Compress::Lz4 => Compression::Lz4,
            },
            patience: self.patience,
            ..FetchOptions::new(&self.address, output)
        }
    }
}

/// Fetches a file.
pub(super) fn fetch(args: &FetchArgs) -> Exit {
    let mut line = ProgressLine::new(false);
    let mut show = |progress: &FetchProgress| match &progress.trouble {
        Some((since, reason)) => {
            let (since, patience) = (since.as_secs(), args.patience.as_secs());
            line.warn(&format!("no answer for {since} s of {patience} s: {reason}"));
        }
        None => {
            let what = format!(", {} lines", progress.lines);
            line.update(progress.offset, progress.source_len, &what);
        }
    };
    let mut signals = None;
    let fetched = transfer::fetch(&args.options(), async || stopped(&mut signals).await, &mut show);
    drop(line);
    match fetched {
        Ok(fetched) => {
            let text = match args.json {
                true => format!("{}\n", to_json(args, &fetched)),
                false => text(args, &fetched),
            };
            output::print("transfer fetch", &text, Exit::Ok)
        }
        Err(error) => failed("fetch", &explained(args, &error)),
    }
}

/// The error, and what is left of the output.
fn explained(args: &FetchArgs, error: &TransferError) -> String {
    let partial = args.output.with_added_extension("partial");
    match error.is_resumable() && partial.with_added_extension("journal").exists() {
        true => {
            format!("{error}; what has arrived is in {}; continue with --resume", partial.display())
        }
        false => error.to_string(),
    }
}

/// The signals that ask the process to end.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// Watched, it kills nobody, and a file over the limit is an error of the write.
    _too_long: Signal,
}

impl StopSignals {
    fn watch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _too_long: signal(SignalKind::from_raw(SIGXFSZ))?,
        })
    }

    /// Ready with the next one.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Ready with the next signal. They are watched from the first call on, which comes on a runtime.
async fn stopped(signals: &mut Option<io::Result<StopSignals>>) {
    let is_first = signals.is_none();
    match signals.get_or_insert_with(StopSignals::watch) {
        Ok(signals) => signals.next().await,
        Err(error) => {
            // A signal then ends the process at once, as it does by itself.
            if is_first {
                output::say(format_args!(
                    "dubmesh transfer fetch: cannot watch for signals: {error}"
                ));
            }
            std::future::pending::<()>().await;
        }
    }
}

fn text(args: &FetchArgs, fetched: &Fetched) -> String {
    let mut text = String::new();
    let Fetched { written, resumed, restarts, took, traffic } = fetched;
    let seconds = took.as_secs_f64();
    let rows = written.totals.lines;
    let _ = writeln!(
        text,
        "{rows} lines, {} of output, complete and checked, in {seconds:.2} s: {:.0} lines/s",
        bytes(written.len as f64),
        (rows - resumed) as f64 / seconds
    );
    let _ = writeln!(text, "  checksum   xxh3 {:016x}", written.digest);
    let _ = writeln!(
        text,
        "  sync       {:.2} s of these to sync it to the disk",
        written.sync.as_secs_f64()
    );
    if 0 < *resumed {
        let _ = writeln!(text, "  resumed    {resumed} lines were already there");
    }
    if 0 < *restarts || 0 < written.duplicates {
        let _ = writeln!(
            text,
            "  repeated   {} lines came twice and were dropped; the server forgot the transfer {restarts} time(s)",
            written.duplicates
        );
    }
    let _ = writeln!(
        text,
        "  packets    {} received by {:.0} bytes a read, {:.0} a segment; {} sent by {:.0} bytes a write, {:.0} a segment",
        bytes(traffic.read_bytes as f64),
        each(traffic.read_bytes, traffic.n_reads),
        each(traffic.read_bytes, traffic.n_segments_in),
        bytes(traffic.written_bytes as f64),
        each(traffic.written_bytes, traffic.n_writes),
        each(traffic.written_bytes, traffic.n_segments_out),
    );
    if args.compress == Compress::Lz4 {
        let _ = writeln!(text, "  compressed {}", Gain::of(traffic));
    }
    let used = ProcessUsage::own();
    let (cpu_s, peak_rss_mb) = (used.cpu_s(), used.peak_resident_mb());
    let _ = writeln!(text, "  used       {cpu_s:.2} s of CPU time, {peak_rss_mb:.0} MB of memory");
    text
}

/// What compression was good for.
struct Gain {
    n_compressing: u64,
    received: Direction,
    sent: Direction,
    cpu: Duration,
}

/// What would have gone through the connections in one direction without compression, and what
/// did.
#[derive(Clone, Copy)]
struct Direction {
    raw: u64,
    wire: u64,
}

impl Direction {
    fn ratio(self) -> f64 {
        self.raw as f64 / self.wire.max(1) as f64
    }

    fn saved(self) -> u64 {
        self.raw.saturating_sub(self.wire)
    }
}

impl Gain {
    fn of(traffic: &TrafficTotals) -> Self {
        let direction = |wire: u64, raw_bytes: u64, packed_bytes: u64| Direction {
            raw: wire.saturating_sub(packed_bytes) + raw_bytes,
            wire,
        };
        Self {
            n_compressing: traffic.n_compressing,
            received: direction(traffic.read_bytes, traffic.raw_in_bytes, traffic.packed_in_bytes),
            sent: direction(traffic.written_bytes, traffic.raw_out_bytes, traffic.packed_out_bytes),
            cpu: traffic.compression_cpu,
        }
    }
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n_compressing, received, sent, cpu } = self;
        if *n_compressing == 0 {
            return write!(f, "nothing: the server does not compress");
        }
        let saved = |direction: &Direction| bytes(direction.saved() as f64);
        // A hundredth: the answers that tell of the end are alike, whatever the lines.
        match received.ratio() {
            ratio if ratio < 1.01 => write!(f, "no lines: they do not get smaller")?,
            ratio => write!(f, "lines {ratio:.2} : 1, {} saved", saved(received))?,
        }
        let (ratio, saved, cpu) = (sent.ratio(), saved(sent), cpu.as_secs_f64());
        write!(f, "; requests {ratio:.2} : 1, {saved} saved; {cpu:.2} s of CPU time here for that")
    }
}

fn each(bytes: u64, n: u64) -> f64 {
    bytes as f64 / n.max(1) as f64
}

fn to_json(args: &FetchArgs, fetched: &Fetched) -> serde_json::Value {
    let Fetched { written, resumed, restarts, took, traffic } = fetched;
    let (seconds, rows) = (took.as_secs_f64(), written.totals.lines);
    let used = ProcessUsage::own();
    let (cpu_s, peak_rss_mb) = (used.cpu_s(), used.peak_resident_mb());
    let gain = Gain::of(traffic);
    json!({
        "connections": args.connections,
        "callers": u32::from(args.connections) * args.callers,
        "process": args.process.to_string(),
        "process_at": match args.process_at {
            TransferSide::Server => "server",
            TransferSide::Client => "client",
        },
        "rows": rows,
        "bytes": written.len,
        "sent_bytes": written.totals.bytes,
        "seconds": seconds,
        "rows_per_s": (rows - resumed) as f64 / seconds,
        "sync_seconds": written.sync.as_secs_f64(),
        "xxh3": format!("{:016x}", written.digest),
        "duplicates": written.duplicates,
        "resumed_rows": resumed,
        "restarts": restarts,
        "wire": {
            "written_bytes": traffic.written_bytes,
            "bytes_per_write": each(traffic.written_bytes, traffic.n_writes),
            "bytes_per_segment_out": each(traffic.written_bytes, traffic.n_segments_out),
            "read_bytes": traffic.read_bytes,
            "bytes_per_read": each(traffic.read_bytes, traffic.n_reads),
            "bytes_per_segment_in": each(traffic.read_bytes, traffic.n_segments_in),
        },
        "compression": {
            "asked": args.compress == Compress::Lz4,
            "used": gain.n_compressing != 0,
            "ratio_in": gain.received.ratio(),
            "saved_in_bytes": gain.received.saved(),
            "ratio_out": gain.sent.ratio(),
            "saved_out_bytes": gain.sent.saved(),
            "raw_in_bytes": traffic.raw_in_bytes,
            "packed_in_bytes": traffic.packed_in_bytes,
            "raw_out_bytes": traffic.raw_out_bytes,
            "packed_out_bytes": traffic.packed_out_bytes,
            "cpu_s": gain.cpu.as_secs_f64(),
        },
        "cpu_s": cpu_s,
        "peak_rss_mb": peak_rss_mb,
    })
}
