//! `dubmesh bench`: measures the performance of this machine, or of a connection between two. What
//! is measured is in [`lab`].

mod congestion;

use std::process::Command;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use lab::rpc::{self, Codec, RpcError, RpcPlan, RpcServer};
use link::Connections;

use crate::Exit;
use crate::duration::duration;
use crate::output;

const RPC_HELP: &str = "\
Each caller waits for its reply before it makes the next call (a closed loop).

Examples:
  dubmesh bench rpc --concurrency 100
  dubmesh bench rpc --concurrency 1000 --connections 4 --codec protobuf --json
  dubmesh bench rpc --concurrency 100 --blocking
  dubmesh bench rpc serve --listen 0.0.0.0:7000
  dubmesh bench rpc --connect server.example:7000";

/// The arguments of `dubmesh bench`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: Benchmark,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Measure calls through the RPC library: calls per second, latency, CPU time
    #[command(after_help = RPC_HELP)]
    Rpc(Box<RpcArgs>),
    /// Measure how long calls wait for each other, by connections and socket buffers
    #[command(after_help = congestion::HELP)]
    Congestion(Box<congestion::CongestionArgs>),
}

/// The arguments of `dubmesh bench rpc`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
struct RpcArgs {
    #[command(subcommand)]
    role: Option<Role>,
    /// Callers, each with one call at a time
    #[arg(long, short, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    concurrency: u32,
    /// Connections to the server: a number, or "auto"
    #[arg(long, default_value = "1", value_parser = connections)]
    connections: Connections,
    /// Length of a request's payload
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(12..=8_000_000))]
    request_bytes: u32,
    /// Length of a reply's payload
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(12..=8_000_000))]
    response_bytes: u32,
    /// Serialization of both
    #[arg(long, default_value = "raw", value_parser = codec())]
    codec: Codec,
    /// How long to measure
    #[arg(long, default_value = "5s", value_parser = seconds)]
    duration: Duration,
    /// How long to call before the measurement begins
    #[arg(long, default_value = "1s", value_parser = seconds)]
    warmup: Duration,
    /// Use a running server: HOST:PORT of a `dubmesh bench rpc serve`
    #[arg(long, value_name = "ADDR")]
    connect: Option<String>,
    /// Make each caller a blocking thread
    #[arg(long)]
    blocking: bool,
    /// Threads of the runtime on each side
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What else this command may be.
#[derive(Debug, Subcommand)]
enum Role {
    /// Run only the server; it ends when its standard input ends, or on a signal
    Serve(BenchServeArgs),
}

/// The arguments of the server.
#[derive(Args, Debug)]
struct BenchServeArgs {
    /// Where to listen; port 0 means any free port, which is printed
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    listen: String,
    /// Threads of the runtime
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
}

/// Measures, and prints the result.
pub(crate) fn bench(args: &BenchArgs) -> Exit {
    let (name, measured) = match &args.what {
        Benchmark::Rpc(args) => {
            let measured = match &args.role {
                Some(Role::Serve(args)) => {
                    rpc::serve(&args.listen, args.threads).map(|()| String::new())
                }
                None => measure(args),
            };
            ("bench rpc", measured.map_err(|error| error.to_string()))
        }
        Benchmark::Congestion(args) => {
            ("bench congestion", congestion::run(args).map(|()| String::new()))
        }
    };
    match measured {
        Ok(text) => output::print(name, &text, Exit::Ok),
        Err(error) => {
            output::say(format_args!("dubmesh {name}: {error}"));
            Exit::Failure
        }
    }
}

/// Measures, and tells the result.
fn measure(args: &RpcArgs) -> Result<String, RpcError> {
    let target = match &args.connect {
        Some(address) => RpcServer::Running(address.clone()),
        None => {
            let program = std::env::current_exe().map_err(RpcError::Server)?;
            let mut command = Command::new(program);
            command.args(["bench", "rpc", "serve", "--threads", &args.threads.to_string()]);
            RpcServer::Start(command)
        }
    };
    let plan = RpcPlan {
        concurrency: args.concurrency,
        connections: args.connections,
        request_bytes: args.request_bytes,
        response_bytes: args.response_bytes,
        codec: args.codec,
        duration: args.duration,
        warmup: args.warmup,
        blocking: args.blocking,
        threads: args.threads,
    };
    let measured = rpc::measure(plan, target)?;
    Ok(match args.json {
        true => format!("{}\n", serde_json::Value::Array(vec![measured.to_json()])),
        false => measured.to_text(),
    })
}

fn codec() -> impl TypedValueParser<Value = Codec> {
    PossibleValuesParser::new(Codec::ALL.map(Codec::name))
        .map(|name| Codec::of_name(&name).unwrap_or(Codec::Raw))
}

fn connections(text: &str) -> Result<Connections, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(Connections::Auto { max: 4 }),
        (_, Ok(n @ 1..=64)) => Ok(Connections::Fixed(n)),
        _ => Err("neither a number from 1 to 64 nor \"auto\"".to_owned()),
    }
}

/// A time: as elsewhere, or a fraction of a second such as `0.3s`, or none at all: `0s`.
fn seconds(text: &str) -> Result<Duration, String> {
    if let Ok(duration) = duration(text) {
        return Ok(duration);
    }
    let number = text.strip_suffix('s').unwrap_or(text).parse().ok();
    let duration = number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "write a time such as 5s, 500ms, 0.5s or 2m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_elsewhere_and_may_be_fractions_or_none() {
        let ms = Duration::from_millis;
        for (text, time) in
            [("500ms", 500), ("5s", 5000), ("2m", 120_000), ("0.3s", 300), ("0.3", 300), ("0s", 0)]
        {
            assert_eq!(seconds(text), Ok(ms(time)), "{text}");
        }
        for text in ["", "s", "-1s", "1d", "xms", "1e400"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
