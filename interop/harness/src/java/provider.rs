//! A real Dubbo provider as a child process.
//!
//! Invariant: a provider keeps its port over [`JavaProvider::restart`], so that clients see it
//! come back.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use super::{DubboVersion, build, java};
use crate::child::Child;
use crate::error::HarnessError;
use crate::net::free_port;

/// A start takes one to two seconds; this leaves room for a machine that is busy building.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than `dubbo.service.shutdown.wait` of the peers (3 s) and a call's longest sleep.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a start is tried when another process takes the port first.
const N_START_TRIES: usize = 3;

const READY: &str = "READY dubbo://";

/// How a [`JavaProvider`] is started.
#[derive(Clone, Debug)]
pub struct ProviderOptions {
    /// The port to listen on, or `None` for a free one.
    pub port: Option<u16>,
    /// Dubbo's name of the serialization; see [`DubboVersion::serializations`].
    pub serialization: String,
    /// Calls at once; Dubbo refuses those beyond. Its own default is 200.
    pub threads: u32,
    /// Calls that wait while all threads are busy. Dubbo's own default is none.
    pub queues: u32,
    /// How long `IHelloService.hash` sleeps. The contest's providers sleep 50 ms.
    pub hash_sleep: Duration,
    /// Where to register, as `etcd://`, `zookeeper://` or `nacos://HOST:PORT`, or `None` to
    /// register nowhere; not with 2.6.
    pub registry: Option<String>,
    /// The metadata center to report service definitions to, as `etcd://`,
    /// `zookeeper://` or `nacos://HOST:PORT`; not with 2.6.
    pub metadata: Option<String>,
    /// A folder to write the definition of `TypesService` to; not with 2.6.
    pub definitions: Option<PathBuf>,
    /// Telnet commands that 2.7 carries out on the Dubbo port, such as `ls`.
    pub telnet: Option<String>,
    /// How long the registration outlives a killed provider, rounded down to whole seconds.
    pub registry_session: Duration,
    /// The name under which it registers.
    pub application: String,
    /// How often Dubbo sends a heartbeat on an idle connection. Three missed ones close it.
    pub heartbeat: Duration,
    /// The weight that it registers.
    pub weight: u32,
    /// Further arguments of the virtual machine, after (so above) those of the build's
    /// `java.args`, for example `-XX:TieredStopAtLevel=4 -Xmx1g` in a benchmark.
    pub jvm_args: Vec<OsString>,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self {
            port: None,
            serialization: "hessian2".to_owned(),
            threads: 200,
            queues: 0,
            hash_sleep: Duration::from_millis(50),
            registry: None,
            metadata: None,
            definitions: None,
            telnet: None,
            registry_session: Duration::from_secs(5),
            application: "interop-provider".to_owned(),
            heartbeat: Duration::from_secs(60),
            weight: 100,
            jvm_args: Vec::new(),
        }
    }
}

/// A running (or killed) Dubbo provider on 127.0.0.1. Dropping it kills it.
///
/// It publishes `IHelloService`, `UserService` and `TypesService` (see interop/service-api), the
/// last also as group `blue`, version `2.0.0`.
#[derive(Debug)]
pub struct JavaProvider {
    version: DubboVersion,
    options: ProviderOptions,
    child: Child,
    addr: SocketAddr,
}

impl JavaProvider {
    /// Builds the provider if need be, starts it and waits until it serves and is registered.
    ///
    /// # Errors
    /// When Java or Maven is missing, the build fails, or the provider does not get ready; the
    /// error shows the last output.
    pub fn start(version: DubboVersion, options: ProviderOptions) -> Result<Self, HarnessError> {
        build(version)?;
        let mut n_tries_left = N_START_TRIES;
        loop {
            n_tries_left -= 1;
            let port = options.port.unwrap_or_else(free_port);
            match launch(version, &options, port) {
                // The port may have been taken between our look and the provider's bind.
                Err(HarnessError::Ended { tail, .. })
                    if n_tries_left > 0
                        && options.port.is_none()
                        && tail.contains("Address already in use") => {}
                Err(error) => return Err(error),
                Ok(child) => {
                    let addr = (Ipv4Addr::LOCALHOST, port).into();
                    return Ok(Self { version, options, child, addr });
                }
            }
        }
    }

    /// Which Dubbo it runs.
    #[must_use]
    pub fn version(&self) -> DubboVersion {
        self.version
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it listens, as `dubbo://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("dubbo://{}", self.addr)
    }

    /// The process id of the virtual machine.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The last lines that it wrote.
    #[must_use]
    pub fn tail(&self) -> String {
        self.child.tail()
    }

    /// Kills it by SIGKILL: no readonly event, and its registration stays until the lease ends.
    pub fn kill9(&mut self) {
        self.child.kill9();
    }

    /// Stops it by SIGTERM and waits: it withdraws its registration, sends the readonly event,
    /// finishes what it works on, and ends.
    ///
    /// # Errors
    /// When it still ran after 20 seconds; it is killed then.
    pub fn stop_gracefully(&mut self) -> Result<ExitStatus, HarnessError> {
        self.child.stop_gracefully(STOP_TIMEOUT)
    }

    /// Sends SIGTERM as [`JavaProvider::stop_gracefully`] does, without waiting for the end.
    pub fn begin_graceful_stop(&mut self) {
        self.child.terminate();
    }

    /// Stops its clock: connections stay open, and nothing answers on them.
    pub fn suspend(&mut self) {
        self.child.suspend();
    }

    /// Lets a suspended provider go on.
    pub fn resume(&mut self) {
        self.child.resume();
    }

    /// Kills it if it runs, and starts it again on the same port with the same options.
    ///
    /// # Errors
    /// As [`JavaProvider::start`].
    pub fn restart(&mut self) -> Result<(), HarnessError> {
        self.child.kill9();
        self.child = launch(self.version, &self.options, self.addr.port())?;
        Ok(())
    }
}

fn launch(
    version: DubboVersion,
    options: &ProviderOptions,
    port: u16,
) -> Result<Child, HarnessError> {
    let mut command = java(version, &options.jvm_args)?;
    command
        .args(["--port", &port.to_string(), "--serialization", &options.serialization])
        .args(["--threads", &options.threads.to_string()])
        .args(["--queues", &options.queues.to_string()])
        .args(["--sleep-ms", &options.hash_sleep.as_millis().to_string()])
        .args(["--registry", options.registry.as_deref().unwrap_or("none")])
        .args(["--metadata", options.metadata.as_deref().unwrap_or("none")])
        .args(["--telnet", options.telnet.as_deref().unwrap_or("none")])
        .args(["--session-ms", &options.registry_session.as_millis().to_string()])
        .args(["--application", &options.application])
        .args(["--heartbeat-ms", &options.heartbeat.as_millis().to_string()])
        .args(["--weight", &options.weight.to_string()]);
    if let Some(folder) = &options.definitions {
        command.arg("--definitions").arg(folder);
    }
    let name = format!("the Java {} on port {port}", version.module());
    let mut child = Child::spawn(&name, &command)?;
    child.wait_for_line(READY, START_TIMEOUT)?;
    Ok(child)
}
