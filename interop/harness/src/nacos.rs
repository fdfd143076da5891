//! A real server of Nacos' protocol in a temporary folder: rnacos, which is compatible with Nacos
//! 2. Nacos itself is not in the package registries that tests install from.
//!
//! Invariant: the ports never change, so that a client sees a restart as the same server.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::error::HarnessError;
use crate::net::free_port;
use crate::program::find_program;
use crate::server::{Server, start_somewhere};

/// A start takes about a second; this leaves room for a machine that is busy building.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Clients find the port of gRPC by this, unless they are told otherwise.
const GRPC_OFFSET: u16 = 1000;
/// It takes ten minutes and more to build, so that `make setup` does not do it.
const INSTALL: &str = "scripts/setup.sh nacos";

/// A running (or killed) server.
#[derive(Debug)]
pub struct Nacos {
    binary: PathBuf,
    server: Server,
    http: u16,
}

impl Nacos {
    /// Starts an empty server and waits until it answers.
    ///
    /// # Errors
    /// When rnacos is not installed or does not start; the error shows its last output.
    pub fn start() -> Result<Self, HarnessError> {
        let binary = find_program("rnacos", "RNACOS_BIN", INSTALL)?;
        let nacos = Self { binary, server: Server::new("rnacos")?, http: free_pair() };
        start_somewhere(nacos, Self::launch, |nacos| nacos.http = free_pair())
    }

    /// `HOST:PORT` of HTTP, as clients are told it.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.http).into()
    }

    /// The id of the process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Stops its clock: connections stay open, and nothing answers on them.
    pub fn suspend(&mut self) {
        self.server.suspend();
    }

    /// Lets a suspended server go on.
    pub fn resume(&mut self) {
        self.server.resume();
    }

    /// Kills it by SIGKILL. Its data stay for [`Nacos::restart_keeping_data`].
    pub fn kill9(&mut self) {
        self.server.kill9();
    }

    /// Kills it if it runs, and starts it on the same ports with its documents. What clients have
    /// registered ends with their connections.
    ///
    /// # Errors
    /// When it does not start again.
    pub fn restart_keeping_data(&mut self) -> Result<(), HarnessError> {
        self.launch()
    }

    fn launch(&mut self) -> Result<(), HarnessError> {
        let mut command = Command::new(&self.binary);
        command
            .current_dir(self.server.dir())
            .env("RUST_LOG", "warn")
            .env("RNACOS_DATA_DIR", self.server.data_dir())
            .env("RNACOS_HTTP_PORT", self.http.to_string())
            .env("RNACOS_GRPC_PORT", (self.http + GRPC_OFFSET).to_string())
            .env("RNACOS_HTTP_CONSOLE_PORT", "0")
            // It would connect to instances that stay, once in 60 s, and call those unhealthy
            // that refuse: nobody listens at most of the addresses of a long list.
            .env("RNACOS_NAMING_PERPETUAL_INSTANCE_PROBE_INTERVAL_SECOND", i32::MAX.to_string());
        self.server.spawn(&command)?;
        let ports = [self.http, self.http + GRPC_OFFSET];
        self.server.wait_ready(START_TIMEOUT, || ports.into_iter().all(is_open))
    }
}

/// A port that is free, as is the one for gRPC.
fn free_pair() -> u16 {
    loop {
        let http = free_port();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, http + GRPC_OFFSET)).is_ok() {
            return http;
        }
    }
}

fn is_open(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}
