//! `dubmesh bench rpc`: many callers, each with one call at a time, against an echo.
//!
//! `echo` is the service; `load` are the callers; `meter` counts and measures. Without `--connect`
//! the server is a process of its own, so that each side's CPU time is known.

mod echo;
mod load;
mod meter;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use link::{Client, ClientConfig, Connections, Failure, Server, ServerConfig, SetupError, Traffic};
use tokio::runtime::{Builder, Runtime};

use crate::Exit;

pub(super) const HELP: &str = "\
Each caller waits for its reply before it makes the next call (a closed loop).

Examples:
  dubmesh bench rpc --concurrency 100
  dubmesh bench rpc --concurrency 1000 --connections 4 --codec protobuf --json
  dubmesh bench rpc --concurrency 100 --blocking
  dubmesh bench rpc serve --listen 0.0.0.0:7000
  dubmesh bench rpc --connect server.example:7000";

/// A server that does not say where it listens is broken.
const MAX_LINE_LEN: u64 = 1024;

/// The arguments of `dubmesh bench rpc`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct RpcArgs {
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
    #[arg(long, value_enum, default_value = "raw")]
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
    Serve(ServeArgs),
}

/// The arguments of the server.
#[derive(Args, Debug)]
struct ServeArgs {
    /// Where to listen; port 0 means any free port, which is printed
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    listen: String,
    /// Threads of the runtime
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
}

/// The serializations that can be measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Codec {
    Raw,
    Protobuf,
    Postcard,
    Json,
    Hessian2,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error("{0}")]
    Setup(#[from] SetupError),
    #[error("cannot start the server: {0}")]
    Server(std::io::Error),
    #[error("the server did not say where it listens, but: {0:?}")]
    Silent(String),
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
    #[error("the server does not answer: {0}")]
    Probe(Failure),
    #[error("a caller panicked")]
    Caller,
}

/// Measures, or serves.
pub(super) fn rpc(args: &RpcArgs) -> Exit {
    let result = match &args.role {
        Some(Role::Serve(serve_args)) => serve(serve_args),
        None => measure(args),
    };
    match result {
        Ok(()) => Exit::Ok,
        Err(error) => {
            eprintln!("dubmesh bench rpc: {error}");
            Exit::Failure
        }
    }
}

fn serve(args: &ServeArgs) -> Result<(), BenchError> {
    let server = runtime(args.threads)?.block_on(async {
        let traffic = Arc::new(Traffic::default());
        let config =
            ServerConfig { traffic: Some(Arc::clone(&traffic)), ..ServerConfig::default() };
        let server = Server::with_config(config).offer(echo::service(traffic));
        let server = server.listen(args.listen.as_str()).await?;
        println!("listening {}", server.local_addr());
        let _ = std::io::stdout().flush();
        // Standard input ends with the process that started this one, however that ends.
        let (ended, end) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            drop(ended);
        });
        let _ = end.await;
        Ok::<_, BenchError>(server)
    })?;
    drop(server);
    Ok(())
}

fn measure(args: &RpcArgs) -> Result<(), BenchError> {
    let server = match &args.connect {
        Some(_) => None,
        None => Some(ServerProcess::start(args.threads)?),
    };
    let address = match (&args.connect, &server) {
        (Some(address), _) => address.clone(),
        (None, Some(server)) => server.address.clone(),
        (None, None) => String::new(),
    };
    let traffic = Arc::new(Traffic::default());
    let config = ClientConfig {
        connections: args.connections,
        max_calls: args.concurrency.max(1),
        timeout: Some(Duration::from_secs(30)),
        traffic: Some(Arc::clone(&traffic)),
        ..ClientConfig::default()
    };
    let row = match args.blocking {
        true => {
            let client = Client::connect_blocking(address.as_str(), config)?;
            load::run_threads(args, &client, &traffic)?
        }
        false => runtime(args.threads)?.block_on(async {
            let client = Client::connect_with(address.as_str(), config).await?;
            load::run_tasks(args, &client, &traffic).await
        })?,
    };
    match args.json {
        true => println!("{}", serde_json::Value::Array(vec![row.to_json(args)])),
        false => row.print(args),
    }
    Ok(())
}

fn runtime(n_threads: u32) -> Result<Runtime, BenchError> {
    let mut builder = match n_threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let n_threads = usize::try_from(n_threads).unwrap_or(1);
    builder.worker_threads(n_threads).enable_all().build().map_err(BenchError::Runtime)
}

/// A server in a process of its own, which ends with this one.
struct ServerProcess {
    child: Child,
    address: String,
    /// The server ends when this is closed.
    stdin: Option<ChildStdin>,
}

impl ServerProcess {
    fn start(n_threads: u32) -> Result<Self, BenchError> {
        let program = std::env::current_exe().map_err(BenchError::Server)?;
        let mut child = Command::new(program)
            .args(["bench", "rpc", "serve", "--threads", &n_threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(BenchError::Server)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let mut stdout = BufReader::new(stdout.take(MAX_LINE_LEN));
            stdout.read_line(&mut line).map_err(BenchError::Server)?;
        }
        let stdin = child.stdin.take();
        let address = line.trim_end().strip_prefix("listening ").map(str::to_owned);
        let mut server = Self { child, address: String::new(), stdin };
        server.address = address.ok_or(BenchError::Silent(line))?;
        Ok(server)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

fn connections(text: &str) -> Result<Connections, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(Connections::Auto { max: 4 }),
        (_, Ok(n @ 1..=64)) => Ok(Connections::Fixed(n)),
        _ => Err("neither a number from 1 to 64 nor \"auto\"".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse().ok();
    let duration = number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "not a number of seconds, such as 5s or 0.5s".to_owned())
}
