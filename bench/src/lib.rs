//! The benchmarks: starts real processes, loads them, and records what each call cost.
//!
//! A library only because `attack` starts, asks and accounts for processes in the same way: what
//! is public is for that program. The benchmarks themselves are [`run`].
//!
//! A scenario (`scenario/`) starts subjects (`estate.rs`); `check.rs` makes sure that they answer
//! rightly, `load.rs` drives wrk, `measure.rs` turns rounds into rows, `report.rs` prints them
//! beside their targets (`target.rs`) and writes `bench/results/NAME.json`. The RPC library brings
//! its own load, so that its scenario (`scenario/rpc.rs`) has its own rows, and so has
//! `scenario/transfer.rs`. README.md says how to read the figures.

pub mod agent;
mod bare_epoll;
mod cable;
pub mod check;
mod error;
mod estate;
mod floor;
pub mod http;
mod load;
pub mod machine;
mod measure;
mod open_load;
mod picture;
pub mod plan;
mod raw_bulk;
mod raw_dubbo;
mod raw_peer;
mod raw_transfer;
mod report;
mod scenario;
pub mod target;
pub mod usage;

pub use crate::error::BenchError;
pub use crate::load::INTERFACE;
pub use crate::measure::rounded;
use crate::plan::{Plan, Switches};
pub use crate::report::QUIET;

/// Runs what the command line asks for.
///
/// # Errors
/// [`BenchError::Usage`] if that cannot be understood, else why it could not be run.
pub fn run(args: &[&str]) -> Result<(), BenchError> {
    if args == ["bare-epoll"] {
        return bare_epoll::run();
    }
    match args {
        ["bridge"] => return scenario::bridge(),
        ["raw-dubbo-provide"] => return raw_dubbo::provide(),
        ["raw-dubbo-load", address, shape @ ..] => return raw_dubbo::load(address, shape),
        ["raw-bulk-serve", address] => return raw_bulk::serve(address),
        ["raw-bulk-fetch", address, shape @ ..] => return raw_bulk::fetch(address, shape),
        ["raw-transfer-serve", path] => return raw_transfer::serve(path),
        ["raw-transfer-fetch", address, output, shape @ ..] => {
            return raw_transfer::fetch(address, output, shape);
        }
        _ => {}
    }
    let (mut name, mut switches) = (None, Switches::default());
    for arg in args {
        match *arg {
            "--quick" => switches.is_quick = true,
            "--without-link" => switches.is_without_link = true,
            "--pinned" => switches.is_pinned = true,
            arg if name.is_none() => name = Some(arg),
            _ => return Err(BenchError::Usage),
        }
    }
    let name = name.ok_or(BenchError::Usage)?;
    let scenarios: Vec<_> =
        scenario::ALL.iter().filter(|(known, _)| name == "all" || name == *known).collect();
    if scenarios.is_empty() {
        return Err(BenchError::Usage);
    }
    let needs_dubmesh = name != "codec" && (name != "rpc" || !switches.is_without_link);
    let plan = Plan::new(switches, needs_dubmesh)?;
    for (_, scenario) in scenarios {
        scenario(&plan)?;
    }
    Ok(())
}
