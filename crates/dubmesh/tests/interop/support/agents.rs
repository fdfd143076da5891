//! Agents: the built program with a configuration of its own.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use interop_harness::{Child, Etcd, free_port};

use super::http::get;
use super::{HELLO, PATIENCE, TYPES, wait_until};

/// How services stand in etcd.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Layout {
    Contest,
    Dubbo,
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Self::Contest => "contest",
            Self::Dubbo => "dubbo",
        }
    }
}

/// A consumer's agent, still to be configured.
pub struct ConsumerAgent<'a> {
    pub etcd: &'a Etcd,
    pub layout: Layout,
    /// Further TOML.
    pub extra: &'a str,
}

impl ConsumerAgent<'_> {
    pub fn start(&self) -> Agent {
        Agent::start("consumer", &self.config())
    }

    pub fn config(&self) -> String {
        // A fixed port, so that a restarted agent is where its callers look for it.
        let port = free_port();
        format!(
            "{}\n[[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{port}\"\n{}\n",
            common("consumer", self.etcd, self.layout),
            self.extra
        )
    }
}

/// What a provider's agent offers.
pub struct Offer<'a> {
    pub etcd: &'a Etcd,
    pub layout: Layout,
    pub app: String,
    pub serialization: &'a str,
}

impl Offer<'_> {
    pub fn start(&self) -> Agent {
        Agent::start("provider", &self.config())
    }

    pub fn config(&self) -> String {
        let port = free_port();
        let mut text = common("provider", self.etcd, self.layout);
        let _ = writeln!(text, "[link]\nlisten = \"127.0.0.1:{port}\"");
        let variant = "group = \"blue\"\nversion = \"2.0.0\"";
        let exports = [(HELLO, ""), (TYPES, ""), (TYPES, variant)];
        let n_exports = if self.layout == Layout::Dubbo { 3 } else { 2 };
        for (interface, more) in &exports[..n_exports] {
            let (app, serialization) = (&self.app, self.serialization);
            let _ = writeln!(
                text,
                "[[export]]\ninterface = \"{interface}\"\n{more}\napp = \"{app}\"\n\
                 serialization = \"{serialization}\""
            );
        }
        text
    }
}

pub fn common(name: &str, etcd: &Etcd, layout: Layout) -> String {
    let (url, layout) = (etcd.client_url(), layout.name());
    format!(
        "[agent]\nname = \"{name}\"\nworkers = 2\ndrain_ms = 20000\n[log]\nformat = \"json\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[[registry]]\nkind = \"etcd\"\n\
         endpoints = [\"{url}\"]\nlayout = \"{layout}\"\nlease_ttl_s = 20\n\
         [defaults]\ntimeout_ms = 20000\n"
    )
}

/// A running (or killed) agent. Dropping it kills it.
pub struct Agent {
    name: String,
    child: Child,
    folder: tempfile::TempDir,
    started: serde_json::Value,
}

impl Agent {
    /// Starts an agent and waits until it is ready.
    pub fn start(name: &str, config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("agent.toml"), config).unwrap();
        let child = spawn(name, &folder);
        let started = serde_json::Value::Null;
        let mut agent = Self { name: name.to_owned(), child, folder, started };
        agent.wait_ready();
        agent
    }

    /// Starts it again, from the same file.
    pub fn restart(&mut self) {
        self.kill9();
        self.child = spawn(&self.name, &self.folder);
        self.wait_ready();
    }

    fn wait_ready(&mut self) {
        let child = &mut self.child;
        let mut started = None;
        wait_until("the agent's start", || {
            assert!(child.try_wait().is_none(), "the agent ended:\n{}", child.tail());
            let tail = child.tail();
            started =
                tail.lines().find(|line| line.contains("\"message\":\"started\"")).map(|line| {
                    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))
                });
            started.is_some()
        });
        self.started = started.unwrap_or_default();
        wait_until("the agent's readiness", || self.is_ready());
    }

    pub fn is_ready(&self) -> bool {
        get(self.admin(), "/readyz").is_some_and(|(status, _)| status == 200)
    }

    fn address(&self, name: &str) -> SocketAddr {
        let text = self.started[name].as_str().unwrap_or_else(|| panic!("{}", self.started));
        text.trim_matches(['[', ']']).parse().unwrap()
    }

    pub fn http(&self) -> SocketAddr {
        self.address("http")
    }

    pub fn dubbo(&self) -> SocketAddr {
        self.address("dubbo")
    }

    pub fn link(&self) -> SocketAddr {
        self.address("link")
    }

    pub fn admin(&self) -> SocketAddr {
        self.address("admin")
    }

    pub fn metrics(&self) -> String {
        let (status, text) = get(self.admin(), "/metrics").expect("the admin listener answers");
        assert_eq!(status, 200, "{text}");
        text
    }

    /// How many calls this agent has sent to `endpoint` that ended with `code`.
    pub fn n_calls(&self, endpoint: &str, code: &str) -> u64 {
        let (endpoint, code) = (format!("endpoint=\"{endpoint}\""), format!("code=\"{code}\""));
        self.metrics()
            .lines()
            .filter(|line| line.starts_with("dubmesh_upstream_calls_total{"))
            .filter(|line| line.contains(&endpoint) && line.contains(&code))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    /// How many calls of others to `service` went well.
    pub fn n_exported(&self, service: &str) -> u64 {
        let start = format!("dubmesh_export_calls_total{{service=\"{service}\",code=\"ok\"}} ");
        let metrics = self.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
        line.map_or(0, |count| count.parse().unwrap())
    }

    pub fn tail(&self) -> String {
        self.child.tail()
    }

    /// Waits for a log line that has all of `parts`.
    pub fn wait_for_log(&self, parts: &[&str]) {
        wait_until(&format!("a log line with {parts:?}"), || {
            self.tail().lines().any(|line| parts.iter().all(|part| line.contains(part)))
        });
    }

    pub fn config_path(&self) -> PathBuf {
        self.folder.path().join("agent.toml")
    }

    /// Writes another configuration and has it read.
    pub fn reload(&self, config: &str) {
        fs::write(self.config_path(), config).unwrap();
        let pid = self.child.pid().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }

    pub fn kill9(&mut self) {
        self.child.kill9();
    }

    pub fn terminate(&mut self) {
        self.child.terminate();
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().is_none()
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait(PATIENCE).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Who reads a failed test wants to know what the agent had to say.
        if std::thread::panicking() {
            println!("the {}'s agent at the end:\n{}", self.name, self.tail());
            // One that never started has no address.
            let metrics =
                (!self.started.is_null()).then(|| get(self.admin(), "/metrics")).flatten();
            if let Some((_, metrics)) = metrics {
                metrics
                    .lines()
                    .filter(|line| line.starts_with("dubmesh_upstream_calls"))
                    .for_each(|line| println!("{line}"));
            }
        }
    }
}

fn spawn(name: &str, folder: &tempfile::TempDir) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.args(["run", "--config"]).arg(folder.path().join("agent.toml"));
    Child::spawn(&format!("the {name}'s agent"), &command).unwrap()
}
