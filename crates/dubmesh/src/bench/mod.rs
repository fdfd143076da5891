//! `dubmesh bench`: measures the performance of this machine, or of a connection between two.

mod rpc;

use clap::{Args, Subcommand};

use crate::Exit;
use rpc::RpcArgs;

/// The arguments of `dubmesh bench`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
enum What {
    /// Measure calls through the RPC library: calls per second, latency, CPU time
    #[command(after_help = rpc::HELP)]
    Rpc(Box<RpcArgs>),
}

/// Measures, and prints the result.
pub(crate) fn bench(args: &BenchArgs) -> Exit {
    match &args.what {
        What::Rpc(args) => rpc::rpc(args),
    }
}
