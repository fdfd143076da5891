//! A real Dubbo consumer as a child process: it checks calls, or makes load.

use std::ffi::OsString;
use std::time::Duration;

use super::{DubboVersion, build, java};
use crate::child::Child;
use crate::error::HarnessError;

/// How many wrong calls an error shows.
const MAX_SHOWN: usize = 12;

/// How a [`JavaConsumer`] is started.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// What it calls, as `dubbo://HOST:PORT`, with parameters if there are any; or the registry
    /// where it looks for it, as `etcd://`, `zookeeper://` or `nacos://HOST:PORT`.
    pub url: String,
    /// Dubbo's name of the serialization of its requests. Found in a registry, the provider says.
    pub serialization: String,
    /// Names of the calls it makes, from interop/peer's `Calls`. Empty for all of them;
    /// `recordable` for those that send one small request each.
    pub calls: Vec<String>,
    /// Names of calls that it does not make, for example [`DubboVersion::wrong_calls`].
    pub except: Vec<String>,
    /// The timeout of each call but the one that is to run into it.
    pub timeout: Duration,
    /// How many connections of its own each of its references has; 0 for a shared one.
    pub connections: u32,
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
            except: Vec::new(),
            timeout: Duration::from_secs(15),
            connections: 0,
            heartbeat: Duration::from_secs(60),
            linger: Duration::ZERO,
            jvm_args: Vec::new(),
        }
    }

    /// A consumer that makes every call to `url` that a consumer of `version` can make to a
    /// provider of `provider` with nobody between them.
    #[must_use]
    pub fn between(
        version: DubboVersion,
        provider: DubboVersion,
        serialization: &str,
        url: &str,
    ) -> Self {
        let except = version.wrong_calls(provider, serialization);
        Self {
            serialization: serialization.to_owned(),
            except: except.into_iter().map(str::to_owned).collect(),
            ..Self::new(url)
        }
    }
}

/// How a [`JavaConsumer`] makes load: asynchronous calls of `TypesService.text` in a closed loop.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// How many calls wait for their answers at any time.
    pub in_flight: u32,
    /// How long it calls before it counts.
    pub warm_up: Duration,
    /// How long it counts; whole seconds.
    pub time: Duration,
}

/// A Dubbo consumer that makes its calls one after the other on one connection, and checks each
/// result. Dropping it kills it.
#[derive(Debug)]
pub struct JavaConsumer {
    name: String,
    child: Child,
}

impl JavaConsumer {
    /// Builds the consumer if need be and starts it.
    ///
    /// # Errors
    /// When Java or Maven is missing, or the build fails.
    pub fn start(version: DubboVersion, options: &ConsumerOptions) -> Result<Self, HarnessError> {
        Self::start_with(version, options, &[])
    }

    /// Builds the consumer if need be and starts it, to make load; see [`JavaConsumer::report`].
    ///
    /// # Errors
    /// When Java or Maven is missing, or the build fails.
    pub fn start_load(
        version: DubboVersion,
        options: &ConsumerOptions,
        load: &LoadOptions,
    ) -> Result<Self, HarnessError> {
        let [in_flight, warm_up, seconds] =
            [u64::from(load.in_flight), load.warm_up.as_secs(), load.time.as_secs()]
                .map(|number| number.to_string());
        let args = ["--load", "--in-flight", &in_flight, "--warm-up-seconds", &warm_up];
        Self::start_with(version, options, &[&args[..], &["--seconds", &seconds]].concat())
    }

    fn start_with(
        version: DubboVersion,
        options: &ConsumerOptions,
        more: &[&str],
    ) -> Result<Self, HarnessError> {
        build(version)?;
        let mut command = java(version, &options.jvm_args)?;
        let or = |names: &[String], default: &str| match names {
            [] => default.to_owned(),
            names => names.join(","),
        };
        let is_registry =
            ["etcd:", "zookeeper:", "nacos:"].iter().any(|it| options.url.starts_with(it));
        command
            .args([if is_registry { "--consume-registry" } else { "--consume" }, &options.url])
            .args(["--serialization", &options.serialization])
            .args(["--calls", &or(&options.calls, "all")])
            .args(["--except", &or(&options.except, "none")])
            .args(["--timeout-ms", &options.timeout.as_millis().to_string()])
            .args(["--connections", &options.connections.to_string()])
            .args(["--heartbeat-ms", &options.heartbeat.as_millis().to_string()])
            .args(["--linger-ms", &options.linger.as_millis().to_string()])
            .args(more);
        let name = format!("the Java consumer of {}", version.number());
        Ok(Self { child: Child::spawn(&name, &command)?, name })
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
        let ended = self.child.finish(timeout);
        let stdout = self.child.stdout();
        let wrong: Vec<&str> = stdout.lines().filter(|line| line.contains(" FAILED: ")).collect();
        if wrong.is_empty() {
            return ended;
        }
        // What goes wrong everywhere goes wrong for one reason; Dubbo's texts name it last.
        let shown = wrong.iter().take(MAX_SHOWN).map(|line| shortened(line));
        let calls = shown.collect::<Vec<_>>().join("\n");
        Err(HarnessError::WrongCalls { name: self.name.clone(), n_calls: wrong.len(), calls })
    }

    /// Waits for the end of its load, and returns what it saw: one line of JSON with
    /// `calls_per_s`, `p50_ms`, `p99_ms`, `p999_ms`, `errors`, `calls`, `seconds` and `in_flight`.
    ///
    /// # Errors
    /// When it ended otherwise, or still ran after `timeout`.
    pub fn report(mut self, timeout: Duration) -> Result<String, HarnessError> {
        let line = self.child.wait_for_line("{", timeout)?;
        self.child.finish(timeout)?;
        Ok(line)
    }
}

/// The beginning and the end of a long line.
fn shortened(line: &str) -> String {
    let (head, tail) =
        (line.floor_char_boundary(150), line.ceil_char_boundary(line.len().saturating_sub(400)));
    if tail <= head { line.to_owned() } else { format!("{} ... {}", &line[..head], &line[tail..]) }
}
