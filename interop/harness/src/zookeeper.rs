//! A real ZooKeeper server, alone or one of an ensemble, in a temporary folder, on a port that
//! stays its own.
//!
//! Invariant: the client port never changes, so that a client sees a restart as the same server.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::error::HarnessError;
use crate::java::{build_module, interop_dir, java_program};
use crate::net::free_port;
use crate::program::run;
use crate::server::{Server, ask, start_somewhere};

mod client;

pub use client::ZooKeeperClient;

/// A start takes about a second; this leaves room for a machine that is busy building.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const SERVER_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
const CLI_CLASS: &str = "org.apache.zookeeper.ZooKeeperMain";

/// A line of ZooKeeper; interop/README.md has the exact versions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ZooKeeperVersion {
    /// The oldest line that is supported.
    V3_5,
    /// The current line.
    #[default]
    V3_9,
}

impl ZooKeeperVersion {
    /// Both, for tests that hold for each.
    pub const ALL: [Self; 2] = [Self::V3_5, Self::V3_9];

    fn module(self) -> &'static str {
        match self {
            Self::V3_5 => "zookeeper-3.5",
            Self::V3_9 => "zookeeper-3.9",
        }
    }
}

/// How a [`ZooKeeper`] is started. The default is plain text, and everybody may do everything.
#[derive(Clone, Debug, Default)]
pub struct ZooKeeperOptions {
    /// Which line it is of.
    pub version: ZooKeeperVersion,
    /// Serves clients over TLS alone.
    pub tls: Option<ZooKeeperTls>,
    /// Further lines of its configuration file.
    pub settings: Vec<String>,
    /// How many bytes a node may have (`jute.maxbuffer`); 1 MiB without it.
    pub max_node_len: Option<usize>,
}

/// The files, in PEM, for clients over TLS.
#[derive(Clone, Debug)]
pub struct ZooKeeperTls {
    /// The server's key and its certificate, in one file; it must be valid for 127.0.0.1.
    pub key_and_cert_file: PathBuf,
    /// The authority of the clients' certificates.
    pub ca_file: PathBuf,
    /// Refuses clients without a certificate of that authority.
    pub require_client_cert: bool,
}

/// A running (or killed) ZooKeeper server.
#[derive(Debug)]
pub struct ZooKeeper {
    options: ZooKeeperOptions,
    server: Server,
    port: u16,
    /// Its number in its ensemble, if it is of one.
    id: Option<usize>,
}

impl ZooKeeper {
    /// Starts an empty server and waits until it serves.
    ///
    /// # Errors
    /// When Java or Maven is missing, or it does not start; the error shows its last output.
    pub fn start() -> Result<Self, HarnessError> {
        Self::start_with(ZooKeeperOptions::default())
    }

    /// The same with `options`.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(options: ZooKeeperOptions) -> Result<Self, HarnessError> {
        build_module(options.version.module(), "lib")?;
        let server = Server::new("ZooKeeper")?;
        let zookeeper = Self { options, server, port: free_port(), id: None };
        start_somewhere(zookeeper, Self::launch, |zookeeper| zookeeper.port = free_port())
    }

    /// Starts an ensemble of so many empty servers, and waits until all serve.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_ensemble(n_servers: usize) -> Result<Vec<Self>, HarnessError> {
        build_module(ZooKeeperVersion::default().module(), "lib")?;
        let mut settings = vec!["initLimit=20".to_owned(), "syncLimit=4".to_owned()];
        for id in 1..=n_servers {
            settings.push(format!("server.{id}=127.0.0.1:{}:{}", free_port(), free_port()));
        }
        let mut servers = Vec::new();
        for id in 1..=n_servers {
            let options = ZooKeeperOptions { settings: settings.clone(), ..Default::default() };
            let server = Server::new("ZooKeeper")?;
            let mut server = Self { options, server, port: free_port(), id: Some(id) };
            server.spawn()?;
            servers.push(server);
        }
        for server in &mut servers {
            server.wait_ready()?;
        }
        Ok(servers)
    }

    /// The address for clients.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The process id, or `None` while it is killed.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Kills it by SIGKILL. Its data stay for [`Self::restart_keeping_data`].
    pub fn kill9(&mut self) {
        self.server.kill9();
    }

    /// Stops its clock: connections stay open, and nothing answers on them.
    pub fn suspend(&mut self) {
        self.server.suspend();
    }

    /// Lets a suspended server go on.
    pub fn resume(&mut self) {
        self.server.resume();
    }

    /// Kills it if it runs, and starts it on the same port with the same nodes and sessions.
    ///
    /// # Errors
    /// When it does not start again.
    pub fn restart_keeping_data(&mut self) -> Result<(), HarnessError> {
        self.launch()
    }

    /// Kills it if it runs, and starts it on the same port without any node, session or history:
    /// the numbers of changes begin anew.
    ///
    /// # Errors
    /// When its old data cannot be removed, or it does not start again.
    pub fn restart_empty(&mut self) -> Result<(), HarnessError> {
        self.server.forget()?;
        self.launch()
    }

    /// A session of a client that talks to this server, without TLS.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn client(&self) -> Result<ZooKeeperClient, HarnessError> {
        ZooKeeperClient::connect(self.addr(), None)
    }

    /// The same with a user and a password.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn client_of(&self, user: &str, password: &str) -> Result<ZooKeeperClient, HarnessError> {
        ZooKeeperClient::connect(self.addr(), Some(format!("{user}:{password}")))
    }

    /// Runs a command of Java's own client, such as `ls /`, and returns what it prints.
    ///
    /// # Errors
    /// When it fails.
    pub fn java_client(&self, args: &[&str]) -> Result<String, HarnessError> {
        let mut command = self.java(&[])?;
        command.arg(CLI_CLASS).args(["-server", &self.addr().to_string()]).args(args);
        run(&mut command)
    }

    fn java(&self, jvm_args: &[OsString]) -> Result<Command, HarnessError> {
        let mut command = java_program()?;
        let libraries = interop_dir().join(self.options.version.module()).join("target/lib/*");
        command.args(["-XX:TieredStopAtLevel=1", "-Xmx256m"]).args(jvm_args);
        command.arg("-cp").arg(libraries);
        Ok(command)
    }

    fn launch(&mut self) -> Result<(), HarnessError> {
        self.spawn()?;
        self.wait_ready()
    }

    fn wait_ready(&mut self) -> Result<(), HarnessError> {
        let (addr, is_tls) = (self.addr(), self.options.tls.is_some());
        self.server.wait_ready(START_TIMEOUT, || serves(addr, is_tls))
    }

    fn spawn(&mut self) -> Result<(), HarnessError> {
        // Before its files are written anew.
        self.kill9();
        let (path, data) = (self.server.dir().join("zoo.cfg"), self.server.data_dir());
        let written = fs::create_dir_all(&data)
            .and_then(|()| fs::write(&path, self.settings()))
            .and_then(|()| match self.id {
                Some(id) => fs::write(data.join("myid"), id.to_string()),
                None => Ok(()),
            });
        written.map_err(|source| HarnessError::File { path: path.clone(), source })?;
        let mut jvm_args = vec!["-Dzookeeper.forceSync=no".into()];
        if let Some(max_len) = self.options.max_node_len {
            jvm_args.push(format!("-Djute.maxbuffer={max_len}").into());
        }
        if self.options.tls.is_some() {
            let factory = "org.apache.zookeeper.server.NettyServerCnxnFactory";
            jvm_args.push(format!("-Dzookeeper.serverCnxnFactory={factory}").into());
        }
        let mut command = self.java(&jvm_args)?;
        command.current_dir(self.server.dir()).arg(SERVER_CLASS).arg(&path);
        self.server.spawn(&command)
    }

    /// A tick is the shortest that tests need: sessions of one second become possible.
    fn settings(&self) -> String {
        let data = self.server.data_dir();
        let mut lines = vec![
            "tickTime=500".to_owned(),
            format!("dataDir={}", data.display()),
            "maxSessionTimeout=60000".to_owned(),
            "maxClientCnxns=0".to_owned(),
            "admin.enableServer=false".to_owned(),
            "4lw.commands.whitelist=*".to_owned(),
        ];
        let port = self.port;
        match &self.options.tls {
            None => {
                lines.push("clientPortAddress=127.0.0.1".to_owned());
                lines.push(format!("clientPort={port}"));
            }
            Some(tls) => {
                let auth = if tls.require_client_cert { "need" } else { "none" };
                lines.push("secureClientPortAddress=127.0.0.1".to_owned());
                lines.push(format!("secureClientPort={port}"));
                lines.push(format!("ssl.keyStore.location={}", tls.key_and_cert_file.display()));
                lines.push(format!("ssl.trustStore.location={}", tls.ca_file.display()));
                lines.push(format!("ssl.clientAuth={auth}"));
                lines.push("ssl.hostnameVerification=false".to_owned());
            }
        }
        lines.extend(self.options.settings.iter().cloned());
        lines.join("\n") + "\n"
    }
}

/// Asks whether the server serves. False for every kind of failure. By TLS only whether it
/// listens.
fn serves(addr: SocketAddr, is_tls: bool) -> bool {
    if is_tls {
        return TcpStream::connect_timeout(&addr, Duration::from_secs(1)).is_ok();
    }
    ask(addr, "srvr").is_ok_and(|answer| answer.contains("Mode"))
}
