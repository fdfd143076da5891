//! The benchmarks: starts real processes, loads them with wrk, and records what each call cost.
//!
//! A scenario (`scenario/`) starts subjects (`estate.rs`); `check.rs` makes sure that they answer
//! rightly, `load.rs` drives wrk, `measure.rs` turns rounds into rows, `report.rs` prints them
//! beside their targets (`target.rs`) and writes `bench/results/NAME.json`. README.md tells how to
//! read the figures.

mod bare_epoll;
mod check;
mod error;
mod estate;
mod http;
mod load;
mod machine;
mod measure;
mod plan;
mod report;
mod scenario;
mod target;
mod usage;

use std::process::ExitCode;

use crate::error::BenchError;
use crate::plan::Plan;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ BenchError::Usage) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<(), BenchError> {
    let (name, is_quick) = match args {
        ["bare-epoll"] => return bare_epoll::run(),
        [name] => (*name, false),
        [name, "--quick"] | ["--quick", name] => (*name, true),
        _ => return Err(BenchError::Usage),
    };
    let scenarios: Vec<_> =
        scenario::ALL.iter().filter(|(known, _)| name == "all" || name == *known).collect();
    if scenarios.is_empty() {
        return Err(BenchError::Usage);
    }
    let plan = Plan::new(is_quick)?;
    for (_, scenario) in scenarios {
        scenario(&plan)?;
    }
    Ok(())
}
