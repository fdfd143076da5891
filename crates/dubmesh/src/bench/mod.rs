//! `dubmesh bench`: measures what this machine, or a connection between two, gives.

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

/// What there is to measure.
#[derive(Debug, Subcommand)]
enum What {
    /// Calls through the RPC library: how many a second, how long one takes, what it costs
    #[command(after_help = rpc::HELP)]
    Rpc(Box<RpcArgs>),
}

/// Measures, and prints the result.
pub(crate) fn bench(args: &BenchArgs) -> Exit {
    match &args.what {
        What::Rpc(args) => rpc::rpc(args),
    }
}
