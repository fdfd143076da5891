//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::payload::{MIN_REQUEST_LEN, MIN_RESPONSE_LEN};

/// Payloads stay far below all the limits that the peers have.
const MAX_LEN: usize = 1 << 20;

/// Echo servers and closed-loop clients of several kinds, to measure an RPC library against.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) role: Role,
}

/// What this process is.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Bare sockets: a thread per connection that answers all that came in one read by one write
    RawServer(ServerOptions),
    /// Bare sockets: a thread per connection that has many requests in flight
    RawClient(ClientOptions),
    /// Bare sockets: a blocking thread per caller, all of which share the connections
    RawThreadsClient(ClientOptions),
    /// gRPC over plain TCP
    TonicServer(ServerOptions),
    /// gRPC over plain TCP
    TonicClient(ClientOptions),
    /// tarpc over TCP with bincode
    TarpcServer(ServerOptions),
    /// tarpc over TCP with bincode
    TarpcClient(ClientOptions),
    /// volo's Thrift, multiplexed
    VoloServer(ServerOptions),
    /// volo's Thrift, multiplexed
    VoloClient(ClientOptions),
}

/// Servers print `listening ADDRESS`, and end at SIGTERM or when standard input closes.
#[derive(Args, Debug)]
pub(crate) struct ServerOptions {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Threads of the runtime (bare sockets have one per connection)
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
}

/// Clients print one JSON object.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClientOptions {
    /// Address of the server
    #[arg(long)]
    pub(crate) connect: SocketAddr,
    /// Callers, each of which makes one call after the other
    #[arg(long, default_value_t = 100, value_parser = positive)]
    pub(crate) concurrency: usize,
    /// Connections that the callers share evenly
    #[arg(long, default_value_t = 1, value_parser = positive)]
    pub(crate) connections: usize,
    /// Length of a request's payload, at least 8
    #[arg(long, default_value_t = 100, value_parser = length::<MIN_REQUEST_LEN>)]
    pub(crate) request_bytes: usize,
    /// Length of an answer's payload, at least 4
    #[arg(long, default_value_t = 100, value_parser = length::<MIN_RESPONSE_LEN>)]
    pub(crate) response_bytes: usize,
    /// How long is measured, such as `5s` or `0.5s`
    #[arg(long, default_value = "5s", value_parser = seconds)]
    pub(crate) duration: Duration,
    /// How long calls are made before that
    #[arg(long, default_value = "1s", value_parser = seconds)]
    pub(crate) warmup: Duration,
    /// Threads of the runtime (bare sockets have one per connection)
    #[arg(long, default_value_t = 1, value_parser = positive)]
    pub(crate) threads: usize,
}

impl ClientOptions {
    /// The callers of one connection are those whose number leaves its own as the remainder.
    pub(crate) fn callers_of(&self, connection: usize) -> impl Iterator<Item = usize> + use<> {
        (connection..self.concurrency).step_by(self.connections)
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("not a whole number from 1 to 1000000".to_owned()),
    }
}

fn length<const MIN: usize>(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(len) if (MIN..=MAX_LEN).contains(&len) => Ok(len),
        _ => Err(format!("not a whole number from {MIN} to {MAX_LEN}")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok();
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "not a number of seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn durations_are_seconds() {
        assert_eq!(seconds("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("-1").is_err() && seconds("1m").is_err());
    }
}
