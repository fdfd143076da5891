//! The command line of the benchmarks.

use std::process::ExitCode;

use bench::BenchError;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match bench::run(&args) {
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
