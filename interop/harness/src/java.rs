//! The Java peers: real Dubbo providers and consumers as child processes.
//!
//! Invariants:
//! - The Maven build runs at most once at a time on a machine, and only when a jar is missing or
//!   older than a source.
//! - A provider keeps its port over [`JavaProvider::restart`], so that clients see it come back.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use crate::child::Child;
use crate::error::HarnessError;
use crate::net::free_port;
use crate::program::{find_program, run};

/// A start takes one to two seconds; this leaves room for a machine that is busy building.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than `dubbo.service.shutdown.wait` of the peers (3 s) and a call's longest sleep.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a start is tried when another process takes the port first.
const N_START_TRIES: usize = 3;

const MAIN_CLASS: &str = "org.dubmesh.interop.peer.Main";
const READY: &str = "READY dubbo://";

/// Which Dubbo a Java peer runs; interop/README.md has the exact versions.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DubboVersion {
    /// The last release of 2.7: hessian2, and fastjson as serialization 6, one text a line.
    V2_7,
    /// The current 3.3: hessian2 and fastjson2, and fastjson as serialization 6 by an extension,
    /// each text behind its length.
    V3_3,
}

impl DubboVersion {
    /// Both versions, for tests that hold for each.
    pub const ALL: [Self; 2] = [Self::V2_7, Self::V3_3];

    /// The folder of its Maven module.
    fn module(self) -> &'static str {
        match self {
            Self::V2_7 => "provider-2.7",
            Self::V3_3 => "provider-3.3",
        }
    }
}

/// How a [`JavaProvider`] is started.
#[derive(Clone, Debug)]
pub struct ProviderOptions {
    /// The port to listen on, or `None` for a free one.
    pub port: Option<u16>,
    /// Dubbo's name of the serialization: `hessian2`, `fastjson`, `fastjson2` (3.3 only).
    pub serialization: String,
    /// Calls at once; Dubbo refuses those beyond. Its own default is 200.
    pub threads: u32,
    /// How long `IHelloService.hash` sleeps. The contest's providers sleep 50 ms.
    pub hash_sleep: Duration,
    /// The etcd to register in, as `etcd://HOST:PORT`, or `None` to register nowhere.
    pub registry: Option<String>,
    /// The metadata center to report service definitions to, as `etcd://HOST:PORT`; 2.7 only.
    pub metadata: Option<String>,
    /// A folder to write the definition of `TypesService` to.
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
    /// Further arguments of the virtual machine, after (so above) those of the build's `java.args`,
    /// for example `-XX:TieredStopAtLevel=4 -Xmx1g` in a benchmark.
    pub jvm_args: Vec<OsString>,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self {
            port: None,
            serialization: "hessian2".to_owned(),
            threads: 200,
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
/// It publishes `IHelloService` and `TypesService` (see interop/service-api), the latter also as
/// group `blue`, version `2.0.0`.
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

/// How a [`JavaConsumer`] is started.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// What it calls, as `dubbo://HOST:PORT`.
    pub url: String,
    /// Dubbo's name of the serialization of its requests.
    pub serialization: String,
    /// Names of the calls it makes, from interop/peer's `Calls`; empty for all of them.
    pub calls: Vec<String>,
    /// How often it sends a heartbeat on an idle connection.
    pub heartbeat: Duration,
    /// How long it stays, idle, after its last call.
    pub linger: Duration,
    /// Further arguments of the virtual machine.
    pub jvm_args: Vec<OsString>,
}

impl ConsumerOptions {
    /// A consumer that makes every call to `url` by hessian2, and ends.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            serialization: "hessian2".to_owned(),
            calls: Vec::new(),
            heartbeat: Duration::from_secs(60),
            linger: Duration::ZERO,
            jvm_args: Vec::new(),
        }
    }
}

/// A Dubbo consumer that makes its calls one after the other on one connection, and checks each
/// result. Dropping it kills it.
#[derive(Debug)]
pub struct JavaConsumer {
    child: Child,
}

impl JavaConsumer {
    /// Builds the consumer if need be and starts it.
    ///
    /// # Errors
    /// When Java or Maven is missing, or the build fails.
    pub fn start(version: DubboVersion, options: &ConsumerOptions) -> Result<Self, HarnessError> {
        build(version)?;
        let mut command = java(version, &options.jvm_args)?;
        let calls = options.calls.join(",");
        command
            .args(["--consume", &options.url, "--serialization", &options.serialization])
            .args(["--calls", if calls.is_empty() { "all" } else { &calls }])
            .args(["--heartbeat-ms", &options.heartbeat.as_millis().to_string()])
            .args(["--linger-ms", &options.linger.as_millis().to_string()]);
        let name = format!("the Java consumer of {}", version.module());
        Ok(Self { child: Child::spawn(&name, &command)? })
    }

    /// Waits until every call was made. The consumer then lingers as long as its options say.
    ///
    /// # Errors
    /// When it ends or `timeout` passes before that.
    pub fn wait_done(&mut self, timeout: Duration) -> Result<(), HarnessError> {
        self.child.wait_for_line("DONE", timeout).map(|_| ())
    }

    /// What it printed so far: a line `NAME = RESULT` for each call that returned what it should,
    /// `NAME FAILED: ...` for each other one, and `DONE` at the end.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.child.stdout()
    }

    /// Waits for its end, and returns what it printed (see [`JavaConsumer::stdout`]).
    ///
    /// # Errors
    /// When a call failed or did not return what it should, or when it still ran after `timeout`.
    pub fn finish(mut self, timeout: Duration) -> Result<String, HarnessError> {
        self.child.finish(timeout)
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

/// A command that runs the peer's main class, still without its own arguments.
fn java(version: DubboVersion, jvm_args: &[OsString]) -> Result<Command, HarnessError> {
    let args_file = interop_dir().join(version.module()).join("target/java.args");
    let mut command =
        Command::new(find_program("java", "JAVA_BIN", "apt-get install openjdk-17-jdk-headless")?);
    let mut at_file = OsString::from("@");
    at_file.push(args_file);
    command.arg(at_file).args(jvm_args).arg(MAIN_CLASS);
    Ok(command)
}

/// Builds the Maven projects if a jar of `version` is missing or older than a source.
fn build(version: DubboVersion) -> Result<(), HarnessError> {
    /// Keeps the threads of this process apart; the file lock does it for processes.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _one_thread = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = interop_dir();
    if is_built(&dir, version) {
        return Ok(());
    }
    let target = dir.join("target");
    let lock_path = target.join("build.lock");
    let file_error = |source| HarnessError::File { path: lock_path.clone(), source };
    fs::create_dir_all(&target).map_err(file_error)?;
    let lock = File::create(&lock_path).map_err(file_error)?;
    lock.lock().map_err(file_error)?;
    if is_built(&dir, version) {
        return Ok(());
    }
    eprintln!("building the Java peers with Maven (once; the first time it downloads about 85 MB)");
    let mut maven = Command::new(find_program("mvn", "MVN_BIN", "apt-get install maven")?);
    maven.args(["-q", "-B", "package"]).current_dir(&dir);
    run(&mut maven).map(|_| ())
}

fn is_built(dir: &Path, version: DubboVersion) -> bool {
    let target = dir.join(version.module()).join("target");
    let jar = target.join("provider.jar");
    let Some(built) = modified(&jar) else { return false };
    // The arguments hold absolute paths: they are stale when the checkout has moved.
    let names_this_jar = fs::read_to_string(target.join("java.args"))
        .is_ok_and(|args| args.contains(&*jar.to_string_lossy()));
    let sources = ["pom.xml", "service-api/pom.xml", "service-api/src", "peer/src"];
    let module_pom = dir.join(version.module()).join("pom.xml");
    names_this_jar
        && sources
            .iter()
            .map(|name| dir.join(name))
            .chain([module_pom])
            .all(|source| newest(&source).is_some_and(|changed| changed <= built))
}

/// When the newest file at or below `path` was changed.
fn newest(path: &Path) -> Option<SystemTime> {
    if !path.is_dir() {
        return modified(path);
    }
    let entries = fs::read_dir(path).ok()?;
    entries.filter_map(|entry| newest(&entry.ok()?.path())).max()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// The folder of the Maven projects, without `..` in it so that it equals Maven's own paths.
fn interop_dir() -> PathBuf {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR"));
    harness.parent().unwrap_or(harness).to_path_buf()
}
