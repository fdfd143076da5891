//! `generate`, `verify` and `local`: what is done with files, without a network.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use transfer::generate::{Lines, parse_len};
use transfer::{LineStep, TransferError};
use wire::ProcessUsage;

use super::meter::{ProgressLine, bytes};
use super::{LineEnds, advise, failed};
use crate::Exit;
use crate::output;

pub(super) const GENERATE_HELP: &str = "\
The same length and seed always give the same bytes.

Examples:
  dubmesh transfer generate lines.txt --bytes 1GiB --seed 7
  dubmesh transfer generate small.txt --bytes 10MB --force
  dubmesh transfer generate unix.txt --bytes 10MB --lines lf

Exit status:
  0  written
  1  the file exists already, or cannot be written
  2  the arguments are wrong";

pub(super) const VERIFY_HELP: &str = "\
Examples:
  dubmesh transfer verify lines.txt copy.txt
  dubmesh transfer verify lines.txt moved.txt --process contest
  dubmesh transfer verify unix.txt moved.txt --process contest --lines lf

Exit status:
  0  the output is correct
  1  it is not (the first difference is shown), or a file cannot be read
  2  the arguments are wrong";

pub(super) const LOCAL_HELP: &str = "\
Examples:
  dubmesh transfer local lines.txt moved.txt --process contest

Exit status:
  0  written
  1  a file cannot be read or written
  2  the arguments are wrong";

/// The arguments of `dubmesh transfer generate`.
#[derive(Args, Debug)]
pub(super) struct GenerateArgs {
    /// The file to write
    file: PathBuf,
    /// Its length: 1000, 64KiB, 1GiB, 1GB
    #[arg(long, value_name = "LENGTH", value_parser = parse_len)]
    bytes: u64,
    /// The seed of the random lines
    #[arg(long, value_name = "N", default_value = "7")]
    seed: u64,
    /// What ends a line: crlf is \r\n, lf is \n, any is one or the other at random
    #[arg(long, value_enum, value_name = "ENDS", default_value = "crlf")]
    lines: LineEnds,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// The arguments of `dubmesh transfer verify`.
#[derive(Args, Debug)]
pub(super) struct VerifyArgs {
    /// The server's file
    source: PathBuf,
    /// The output to check
    output: PathBuf,
    /// What was done to each line: contest or none
    #[arg(long, value_name = "STEP", default_value = "none")]
    process: LineStep,
    /// What ends the source's lines: crlf is \r\n alone, lf is \n alone, any is either
    #[arg(long, value_enum, value_name = "ENDS", default_value = "crlf")]
    lines: LineEnds,
}

/// The arguments of `dubmesh transfer local`.
#[derive(Args, Debug)]
pub(super) struct LocalArgs {
    /// The file to read
    source: PathBuf,
    /// The file to write; it is replaced
    output: PathBuf,
    /// What is done to each line: contest or none
    #[arg(long, value_name = "STEP", default_value = "none")]
    process: LineStep,
    /// What ends the source's lines: crlf is \r\n alone, lf is \n alone, any is either
    #[arg(long, value_enum, value_name = "ENDS", default_value = "crlf")]
    lines: LineEnds,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Writes a file of random lines.
pub(super) fn generate(args: &GenerateArgs) -> Exit {
    let mut line = ProgressLine::new(false);
    let mut progress = |written| line.update(written, args.bytes, "");
    let lines = Lines::with_ends(args.bytes, args.seed, args.lines.into());
    let written = lines.write_to(&args.file, args.force, &mut progress);
    drop(line);
    end("generate", written.map(|count| format!("{count} lines, {} bytes", args.bytes)))
}

/// Compares two files.
pub(super) fn verify(args: &VerifyArgs) -> Exit {
    advise("verify", &args.source, args.lines);
    let whole = std::fs::metadata(&args.output).map_or(0, |metadata| metadata.len());
    let mut line = ProgressLine::new(false);
    let mut progress = |compared| line.update(compared, whole, "");
    let (step, ends) = (args.process.process(), args.lines.into());
    let verified = transfer::verify::verify(&args.source, &args.output, ends, step, &mut progress);
    drop(line);
    let told = verified
        .map(|it| format!("the same: {} lines, {} bytes of output", it.lines, it.output_len));
    end("verify", told)
}

/// Processes a file.
pub(super) fn local(args: &LocalArgs) -> Exit {
    advise("local", &args.source, args.lines);
    let start = Instant::now();
    let (step, ends) = (args.process.process(), args.lines.into());
    let count = transfer::local_transfer::local(&args.source, &args.output, ends, step);
    let took = start.elapsed().as_secs_f64();
    let told = count.map(|rows| {
        let rate = rows as f64 / took;
        if args.json {
            let used = ProcessUsage::own();
            let (cpu_s, peak_rss_mb) = (used.cpu_s(), used.peak_resident_mb());
            let row = serde_json::json!({
                "rows": rows, "seconds": took, "rows_per_s": rate,
                "cpu_s": cpu_s, "peak_rss_mb": peak_rss_mb,
            });
            return row.to_string();
        }
        let len = std::fs::metadata(&args.output).map_or(0, |metadata| metadata.len());
        format!("{rows} lines, {} of output in {took:.2} s, {rate:.0} lines/s", bytes(len as f64))
    });
    if let Err(error @ TransferError::OutputIsSource { .. }) = &told {
        failed("local", error);
        return Exit::Usage;
    }
    end("local", told)
}

fn end(command: &str, told: Result<String, TransferError>) -> Exit {
    match told {
        Ok(text) => output::print(&format!("transfer {command}"), &(text + "\n"), Exit::Ok),
        Err(error) => failed(command, &error),
    }
}
