//! The peers of the RPC benchmark: the same echo by bare sockets, tonic, tarpc and volo.
//!
//! Each is a server and a client, which the benchmark's runner starts as two processes. What is
//! measured, and how, is the same for all (`measure.rs`, `payload.rs`, `runtime.rs`); every peer
//! has its limits on calls in flight raised beyond the number of callers, and no delay in its
//! sockets.

mod error;
mod measure;
mod options;
mod payload;
mod raw;
mod raw_threads;
mod runtime;
mod tarpc_echo;
mod tonic_echo;
mod volo_echo;

use std::process::ExitCode;

use clap::Parser;

use crate::error::PeerError;
use crate::measure::Tally;
use crate::options::{ClientOptions, Options, Role};

fn main() -> ExitCode {
    match run(&Options::parse().role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rpc-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: &Role) -> Result<(), PeerError> {
    match role {
        Role::RawServer(options) => raw::serve(options),
        Role::TonicServer(options) => tonic_echo::serve(options),
        Role::TarpcServer(options) => tarpc_echo::serve(options),
        Role::VoloServer(options) => volo_echo::serve(options),
        Role::RawClient(options) => report("raw", options, raw::call),
        Role::RawThreadsClient(options) => report("raw-threads", options, raw_threads::call),
        Role::TonicClient(options) => report("tonic", options, tonic_echo::call),
        Role::TarpcClient(options) => report("tarpc", options, tarpc_echo::call),
        Role::VoloClient(options) => report("volo", options, volo_echo::call),
    }
}

/// Measures, and prints the result.
fn report(
    program: &str,
    options: &ClientOptions,
    call: fn(&ClientOptions) -> Result<Tally, PeerError>,
) -> Result<(), PeerError> {
    println!("{}", call(options)?.finish(program, options));
    Ok(())
}
