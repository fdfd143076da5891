//! Hostile peers against a running agent, beside a well-behaved caller.
//!
//! For each attack (`attacks/`) the `runner` starts a fresh `estate`, measures a well-behaved
//! caller (`callers/`) undisturbed, then beside the attack, and compares what the agent used with
//! the limits. The hostile peer is a process of its own (`peer.rs`): this program again.
//! `h2spec.rs` is the one that is not of our making. docs/attack.md says how to read the figures.

mod attacks;
mod callers;
mod dubbo;
mod error;
mod estate;
mod h2spec;
mod peer;
mod plan;
mod report;
mod runner;

use std::process::ExitCode;

use crate::error::AttackError;
use crate::plan::{Command, Plan};
use crate::runner::Row;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error @ AttackError::Usage) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("attack: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether every limit held.
fn run(args: &[String]) -> Result<bool, AttackError> {
    match Command::parse(args)? {
        Command::List => {
            for attack in attacks::all() {
                println!("{:<24} {}", attack.name, attack.about);
            }
            Ok(true)
        }
        Command::Peer(orders) => peer::run(&orders).map(|()| true),
        Command::Attack(choice) => {
            let plan = Plan::new(choice)?;
            let rows = runner::run(&plan);
            report::report(&plan, &rows.made)?;
            if rows.n_not_made != 0 {
                eprintln!("{} could not be made; the reasons are above", rows.n_not_made);
            }
            Ok(rows.n_not_made == 0 && rows.made.iter().all(Row::is_good))
        }
    }
}
