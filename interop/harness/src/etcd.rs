//! A real etcd server of one member, in a temporary folder, on ports that stay its own.
//!
//! Invariant: the client port never changes, so that a client sees a restart as the same server.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::error::HarnessError;
use crate::net::free_port;
use crate::program::{find_program, run};
use crate::server::{Server, ask, start_somewhere};

/// A start takes about half a second; this leaves room for a machine that is busy building.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Shorter than etcd's own (100 ms and 1 s): one member elects itself at once, and leases of one
/// second become possible, since etcd's shortest lease is 1.5 election timeouts.
const HEARTBEAT_INTERVAL_MS: &str = "50";
const ELECTION_TIMEOUT_MS: &str = "250";
/// What brings etcd and etcdctl onto a Debian-like machine.
const INSTALL: &str = "apt-get install etcd-server etcd-client";

/// How an [`Etcd`] is started. The default is plain text without authentication.
#[derive(Clone, Debug, Default)]
pub struct EtcdOptions {
    /// Serves clients over TLS.
    pub tls: Option<EtcdTls>,
    /// Further command line arguments of etcd.
    pub extra_args: Vec<OsString>,
}

/// The files, in PEM, for clients over TLS.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    /// The server's certificate; it must be valid for 127.0.0.1.
    pub cert_file: PathBuf,
    /// The key of that certificate.
    pub key_file: PathBuf,
    /// The authority of the server's certificate, and of the clients' ones.
    pub ca_file: PathBuf,
    /// Refuses clients without a certificate of that authority.
    pub require_client_cert: bool,
    /// A client's certificate and its key, for [`Etcd::etcdctl`] when one is required.
    pub client_cert: Option<(PathBuf, PathBuf)>,
}

/// A running (or killed) etcd server.
#[derive(Debug)]
pub struct Etcd {
    binary: PathBuf,
    options: EtcdOptions,
    server: Server,
    ports: Ports,
    /// Name and password for [`Etcd::etcdctl`], once authentication is on.
    root_password: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    peer: u16,
    /// Serves `/health` without TLS or authentication, whatever the client port asks for.
    health: u16,
}

impl Etcd {
    /// Starts an empty etcd and waits until it is healthy.
    ///
    /// # Errors
    /// When etcd is not installed or does not start; the error shows its last output.
    pub fn start() -> Result<Self, HarnessError> {
        Self::start_with(EtcdOptions::default())
    }

    /// Starts an empty etcd with `options` and waits until it is healthy.
    ///
    /// # Errors
    /// When etcd is not installed or does not start; the error shows its last output.
    pub fn start_with(options: EtcdOptions) -> Result<Self, HarnessError> {
        let binary = find_program("etcd", "ETCD_BIN", INSTALL)?;
        let (server, ports) = (Server::new("etcd")?, Ports::free());
        let etcd = Self { binary, options, server, ports, root_password: None };
        start_somewhere(etcd, Self::launch, |etcd| etcd.ports = Ports::free())
    }

    /// The URL for clients: `http://127.0.0.1:PORT`, or `https://` with TLS.
    #[must_use]
    pub fn client_url(&self) -> String {
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.ports.client)
    }

    /// The address for clients.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.client).into()
    }

    /// The process id, or `None` while it is killed.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Kills it by SIGKILL. Its data stay for [`Etcd::restart_keeping_data`].
    pub fn kill9(&mut self) {
        self.server.kill9();
    }

    /// Stops it by SIGTERM, as an operator would.
    ///
    /// # Errors
    /// When it does not run, or still ran after ten seconds.
    pub fn stop_gracefully(&mut self) -> Result<Option<ExitStatus>, HarnessError> {
        self.server.stop_gracefully()
    }

    /// Stops its clock: connections stay open, and nothing answers on them.
    pub fn suspend(&mut self) {
        self.server.suspend();
    }

    /// Lets a suspended server go on.
    pub fn resume(&mut self) {
        self.server.resume();
    }

    /// Kills it if it runs, and starts it on the same port with the same keys and leases.
    ///
    /// # Errors
    /// When it does not start again.
    pub fn restart_keeping_data(&mut self) -> Result<(), HarnessError> {
        self.launch()
    }

    /// Kills it if it runs, and starts it on the same port without any key, lease, user or
    /// history: revisions begin anew.
    ///
    /// # Errors
    /// When its old data cannot be removed, or it does not start again.
    pub fn restart_empty(&mut self) -> Result<(), HarnessError> {
        self.root_password = None;
        self.server.forget()?;
        self.launch()
    }

    /// Runs `etcdctl` (API version 3) against this server and returns what it prints.
    ///
    /// # Errors
    /// When etcdctl is not installed or fails.
    pub fn etcdctl(&self, args: &[&str]) -> Result<String, HarnessError> {
        let mut command = Command::new(find_program("etcdctl", "ETCDCTL_BIN", INSTALL)?);
        command.env("ETCDCTL_API", "3");
        command.arg(format!("--endpoints={}", self.client_url())).arg("--command-timeout=10s");
        if let Some(password) = &self.root_password {
            command.arg(format!("--user=root:{password}"));
        }
        if let Some(tls) = &self.options.tls {
            command.arg("--cacert").arg(&tls.ca_file);
            if let Some((cert_file, key_file)) = &tls.client_cert {
                command.arg("--cert").arg(cert_file).arg("--key").arg(key_file);
            }
        }
        run(command.args(args))
    }

    /// All keys that begin with `prefix`, in order.
    ///
    /// # Errors
    /// When etcdctl is not installed or fails.
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>, HarnessError> {
        let output = self.etcdctl(&["get", "--prefix", "--keys-only", prefix])?;
        Ok(output.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    /// One of etcd's own figures by its name, such as `etcd_debugging_mvcc_watcher_total`, without
    /// TLS. `None` while it does not show it.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<u64> {
        let mut stream = TcpStream::connect(self.addr()).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok()?;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value?.parse().ok()
    }

    /// Turns authentication on, with the user `root` and `password`. From then on a client
    /// without a name and a password is refused.
    ///
    /// # Errors
    /// When etcdctl is not installed or fails.
    pub fn enable_auth(&mut self, password: &str) -> Result<(), HarnessError> {
        self.etcdctl(&["user", "add", &format!("root:{password}")])?;
        self.etcdctl(&["user", "grant-role", "root", "root"])?;
        self.etcdctl(&["auth", "enable"])?;
        self.root_password = Some(password.to_owned());
        Ok(())
    }

    fn launch(&mut self) -> Result<(), HarnessError> {
        self.server.spawn(&self.command())?;
        let health = self.ports.health;
        self.server.wait_ready(START_TIMEOUT, || is_healthy(health))
    }

    fn command(&self) -> Command {
        let client_url = self.client_url();
        let peer_url = format!("http://127.0.0.1:{}", self.ports.peer);
        let mut command = Command::new(&self.binary);
        command
            .current_dir(self.server.dir())
            .args(["--name", "test", "--logger", "zap", "--log-level", "warn"])
            .arg("--data-dir")
            .arg(self.server.data_dir())
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("test={peer_url}")])
            .args(["--listen-metrics-urls", &format!("http://127.0.0.1:{}", self.ports.health)])
            .args(["--heartbeat-interval", HEARTBEAT_INTERVAL_MS])
            .args(["--election-timeout", ELECTION_TIMEOUT_MS]);
        if let Some(tls) = &self.options.tls {
            command.arg("--cert-file").arg(&tls.cert_file).arg("--key-file").arg(&tls.key_file);
            command.arg("--trusted-ca-file").arg(&tls.ca_file);
            command.arg(format!("--client-cert-auth={}", tls.require_client_cert));
        }
        command.args(&self.options.extra_args);
        command
    }
}

impl Ports {
    fn free() -> Self {
        Self { client: free_port(), peer: free_port(), health: free_port() }
    }
}

/// Asks `/health` on the loopback port `port`. False for every kind of failure.
fn is_healthy(port: u16) -> bool {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let answer = ask(addr, "GET /health HTTP/1.0\r\nHost: etcd\r\n\r\n");
    answer.is_ok_and(|answer| answer.contains("\"true\""))
}
