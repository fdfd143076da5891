//! A server of Nacos' protocol in a temporary folder: rnacos, which is compatible with Nacos 2, or
//! Nacos itself where `NACOS_HOME` says where a release of it is. That one is not in the package
//! registries that tests install from.
//!
//! Invariant: the ports never change, so that a client sees a restart as the same server.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::HarnessError;
use crate::java::find_java;
use crate::net::free_port;
use crate::program::find_program;
use crate::server::{Server, start_somewhere};

/// A start takes about a second, of Nacos itself twenty; this leaves room for a machine that is
/// busy building.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Clients find the port of gRPC by this, unless they are told otherwise.
const GRPC_OFFSET: u16 = 1000;
/// It takes ten minutes and more to build, so that `make setup` does not do it.
const INSTALL: &str = "scripts/setup.sh nacos";

/// The folder of a release of Nacos: `target/nacos-server.jar` and `conf`.
const HOME_VARIABLE: &str = "NACOS_HOME";
/// Tokens are signed with it; 32 bytes at least, in Base64.
const TOKEN_SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
/// What Nacos 3 calls its port.
const PORT_OF_3: &str = "nacos.server.main.port";
/// How far the port of Nacos' console is above that of HTTP.
const CONSOLE_OFFSET: u16 = 1003;

/// A running (or killed) server.
#[derive(Debug)]
pub struct Nacos {
    program: Program,
    server: Server,
    http: u16,
}

#[derive(Debug)]
enum Program {
    /// The binary.
    Rnacos(PathBuf),
    /// The virtual machine, and the folder of the release.
    Nacos { java: PathBuf, home: PathBuf },
}

impl Nacos {
    /// Starts an empty server and waits until it answers.
    ///
    /// # Errors
    /// When none is installed or it does not start; the error shows its last output.
    pub fn start() -> Result<Self, HarnessError> {
        let program = match env::var_os(HOME_VARIABLE) {
            Some(home) => Program::Nacos { java: find_java()?, home: home.into() },
            None => Program::Rnacos(find_program("rnacos", "RNACOS_BIN", INSTALL)?),
        };
        let nacos = Self { program, server: Server::new("nacos")?, http: free_pair() };
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
        let command = match &self.program {
            Program::Rnacos(binary) => self.rnacos(binary),
            Program::Nacos { java, home } => self.nacos(java, home)?,
        };
        self.server.spawn(&command)?;
        let ports = [self.http, self.http + GRPC_OFFSET];
        self.server.wait_ready(START_TIMEOUT, || ports.into_iter().all(is_open))
    }

    fn rnacos(&self, binary: &Path) -> Command {
        let mut command = Command::new(binary);
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
        command
    }

    /// As `bin/startup.sh -m standalone` has it, with what Nacos 3 wants to be told before it
    /// starts.
    fn nacos(&self, java: &Path, home: &Path) -> Result<Command, HarnessError> {
        let (conf, own) = (home.join("conf"), self.server.dir().join("conf"));
        if !own.exists() {
            symlink(&conf, &own).map_err(|source| HarnessError::File { path: own, source })?;
        }
        // Each version has its own name for the port. Nacos 3 that is told the other one as well
        // starts, but tells nobody of changes.
        let file = conf.join("application.properties");
        let known = fs::read_to_string(&file)
            .map_err(|source| HarnessError::File { path: file, source })?;
        let port = if known.contains(PORT_OF_3) { PORT_OF_3 } else { "server.port" };
        let properties = [
            "nacos.standalone=true".to_owned(),
            format!("nacos.home={}", self.server.dir().display()),
            "nacos.server.ip=127.0.0.1".to_owned(),
            format!("{port}={}", self.http),
            format!("nacos.console.port={}", self.http + CONSOLE_OFFSET),
            // Java's own providers of the tests have more methods than it lets them list.
            "nacos.core.param.check.enabled=false".to_owned(),
            "nacos.core.auth.server.identity.key=tests".to_owned(),
            "nacos.core.auth.server.identity.value=tests".to_owned(),
            format!("nacos.core.auth.plugin.nacos.token.secret.key={TOKEN_SECRET}"),
        ];
        let mut command = Command::new(java);
        command
            .current_dir(self.server.dir())
            .args(["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .args(properties.map(|property| format!("-D{property}")))
            .arg("-jar")
            .arg(home.join("target/nacos-server.jar"))
            .arg(format!("--spring.config.additional-location=file:{}/", conf.display()))
            .arg(format!("--logging.config={}", conf.join("nacos-logback.xml").display()));
        Ok(command)
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
