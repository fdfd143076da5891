//! How many calls the RPC library makes: many callers, each with one call at a time, against an
//! echo.
//!
//! `echo` is the service; `load` are the callers; `meter` counts and measures. The server is a
//! process of its own, so that each side's CPU time is known.

mod echo;
mod load;
mod meter;
mod plan;
mod server_process;

use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;

use link::{Client, ClientConfig, Server, ServerConfig, Traffic};
use tokio::runtime::{Builder, Runtime};

pub use self::meter::Measured;
use self::plan::CALL_TIMEOUT;
pub use self::plan::{Codec, RpcError, RpcPlan};
use self::server_process::ServerProcess;

/// Most calls that a client may have in flight on one connection.
const MAX_CALLS: u32 = 65_536;

/// The server that is called.
#[derive(Debug)]
pub enum RpcServer {
    /// One that runs at HOST:PORT.
    Running(String),
    /// One that this command starts: a program that calls [`serve`]. It ends with this process.
    Start(Command),
}

/// Serves on `listen` until standard input ends. Prints one line, `listening ADDRESS`.
///
/// # Errors
/// Why it cannot serve.
pub fn serve(listen: &str, n_threads: u32) -> Result<(), RpcError> {
    let server = runtime(n_threads)?.block_on(async {
        let traffic = Arc::new(Traffic::default());
        let config =
            ServerConfig { traffic: Some(Arc::clone(&traffic)), ..ServerConfig::default() };
        let server = Server::with_config(config).offer(echo::service(traffic));
        let server = server.listen(listen).await?;
        println!("listening {}", server.local_addr());
        let _ = std::io::stdout().flush();
        // Standard input ends with the process that started this one, however that ends.
        let (ended, end) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn(move || {
            let mut input = std::io::stdin();
            while let Ok(1..) = input.read(&mut [0; 64]) {}
            drop(ended);
        });
        let _ = end.await;
        Ok::<_, RpcError>(server)
    })?;
    drop(server);
    Ok(())
}

/// Makes calls by the plan.
///
/// # Errors
/// Why nothing was measured.
pub fn measure(plan: RpcPlan, target: RpcServer) -> Result<Measured, RpcError> {
    let (address, _server) = match target {
        RpcServer::Running(address) => (address, None),
        RpcServer::Start(command) => {
            let server = ServerProcess::start(command)?;
            (server.address().to_owned(), Some(server))
        }
    };
    let traffic = Arc::new(Traffic::default());
    let config = ClientConfig {
        connections: plan.connections,
        max_calls: plan.concurrency.clamp(1, MAX_CALLS),
        timeout: Some(CALL_TIMEOUT),
        traffic: Some(Arc::clone(&traffic)),
        ..ClientConfig::default()
    };
    if plan.blocking {
        let client = Client::connect_blocking(address.as_str(), config)?;
        return load::run_threads(plan, &client, &traffic);
    }
    runtime(plan.threads)?.block_on(async {
        let client = Client::connect_with(address.as_str(), config).await?;
        load::run_tasks(plan, &client, &traffic).await
    })
}

fn runtime(n_threads: u32) -> Result<Runtime, RpcError> {
    let mut builder = match n_threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let n_threads = usize::try_from(n_threads).unwrap_or(1);
    builder.worker_threads(n_threads).enable_all().build().map_err(RpcError::Runtime)
}
