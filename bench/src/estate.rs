//! What is loaded: agents, providers and registries as child processes, which end with their
//! owner.

use std::any::Any;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use interop_harness::{Child, DubboVersion, Etcd, JavaProvider, ProviderOptions};
use tempfile::TempDir;

use crate::agent::{Agent, EmbeddedProvider, Launch, Ports};
use crate::check::{self, Problem};
use crate::error::BenchError;
use crate::http::Client;
use crate::load::{INTERFACE, Style};
use crate::plan::Plan;
use crate::usage::Process;

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// What an agent says costs nothing here: it says nothing.
const LOG_LEVEL: &str = "warn";
/// Discovery and the first connections have to come up before the first right answer.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
const N_PROVIDERS: usize = 3;
/// What the contest gives each provider, and Dubbo's default.
const N_THREADS: u32 = 200;

/// The groups of the CPU column.
pub(crate) const CONSUMER_AGENT: &str = "consumer-agent";
pub(crate) const PROVIDER_AGENTS: &str = "provider-agents";
pub(crate) const PROVIDERS: &str = "providers";
pub(crate) const REGISTRY: &str = "registry";
pub(crate) const SERVER: &str = "server";

/// Something that answers HTTP requests, with all the processes behind it.
pub(crate) struct Subject {
    /// Its name in the rows.
    pub(crate) program: &'static str,
    /// The serialization that is spoken to the providers.
    pub(crate) codec: &'static str,
    pub(crate) addr: SocketAddr,
    pub(crate) style: Style,
    pub(crate) processes: Vec<Process>,
    /// Whether it must be warmed up for longer.
    pub(crate) has_java: bool,
    /// Whether its answers are hashes.
    pub(crate) is_checked: bool,
    /// Keeps the processes alive.
    _owned: Vec<Box<dyn Any>>,
}

/// Which providers are behind the agents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Providers {
    /// Dubbo 2.7 with this sleep, which speaks fastjson.
    Java(Duration),
    /// `dubmesh provider`, without any work.
    Embedded,
}

/// One Dubbo provider, of either kind.
struct Provider {
    addr: SocketAddr,
    pid: u32,
    owned: Box<dyn Any>,
}

impl Provider {
    fn start(plan: &Plan, kind: Providers) -> Result<Self, BenchError> {
        match kind {
            Providers::Java(hash_sleep) => Self::start_java(hash_sleep),
            Providers::Embedded => Self::start_embedded(plan),
        }
    }

    fn start_java(hash_sleep: Duration) -> Result<Self, BenchError> {
        // The tests' providers start fast; these run fast: the second compiler, and a heap that
        // was touched before, since fresh memory is slow on virtual machines.
        let jvm_args = ["-XX:TieredStopAtLevel=4", "-Xms512m", "-Xmx512m", "-Xmn256m"];
        let provider = JavaProvider::start(
            DubboVersion::V2_7,
            ProviderOptions {
                serialization: "fastjson".to_owned(),
                threads: N_THREADS,
                hash_sleep,
                jvm_args: jvm_args
                    .map(Into::into)
                    .into_iter()
                    .chain(["-XX:+AlwaysPreTouch".into()])
                    .collect(),
                ..ProviderOptions::default()
            },
        )?;
        Ok(Self { addr: provider.addr(), pid: provider.pid(), owned: Box::new(provider) })
    }

    fn start_embedded(plan: &Plan) -> Result<Self, BenchError> {
        let threads = N_THREADS.to_string();
        let args = ["--listen", "127.0.0.1:0", "--work-ms", "0", "--threads", &threads];
        let provider = EmbeddedProvider::start(&plan.dubmesh, &args)?;
        let (addr, pid) = (provider.addr, provider.child.pid());
        Ok(Self { addr, pid, owned: Box::new(provider) })
    }
}

/// The contest: etcd, three providers that know nothing of it, an agent beside each that registers
/// it, and the agent that is called.
pub(crate) fn two_agents(
    plan: &Plan,
    program: &'static str,
    kind: Providers,
) -> Result<Subject, BenchError> {
    let codec = "fastjson";
    let etcd = Etcd::start()?;
    let registry = format!(
        "[[registry]]\nkind = \"etcd\"\nlayout = \"contest\"\nendpoints = [\"{}\"]\n",
        etcd.client_url()
    );
    let mut processes = Vec::new();
    let mut owned: Vec<Box<dyn Any>> = Vec::new();
    for number in 1..=N_PROVIDERS {
        let provider = Provider::start(plan, kind)?;
        let name = format!("provider-agent-{number}");
        let agent = start_agent(plan, &name, |ports| {
            format!(
                "{registry}[link]\nlisten = \"127.0.0.1:{}\"\n[[export]]\n\
                 interface = \"{INTERFACE}\"\napp = \"dubbo://{}\"\nserialization = \"{codec}\"\n",
                ports.link, provider.addr
            )
        })?;
        processes.push(process(&agent, &name, PROVIDER_AGENTS));
        let name = format!("provider-{number}");
        processes.push(Process { name, group: PROVIDERS, pid: provider.pid });
        owned.extend([Box::new(agent) as Box<dyn Any>, provider.owned]);
    }
    let consumer = start_agent(plan, "consumer", |ports| {
        format!("{registry}{}[defaults]\nserialization = \"{codec}\"\n", http_ingress(ports.http))
    })?;
    processes.insert(0, process(&consumer, "consumer-agent", CONSUMER_AGENT));
    if let Some(pid) = etcd.pid() {
        processes.push(Process { name: "etcd".to_owned(), group: REGISTRY, pid });
    }
    let addr = consumer.addr(consumer.ports.http);
    owned.extend([Box::new(consumer) as Box<dyn Any>, Box::new(etcd)]);
    let has_java = kind != Providers::Embedded;
    let style = Style::Form;
    let subject = Subject {
        program,
        codec,
        addr,
        style,
        processes,
        has_java,
        is_checked: true,
        _owned: owned,
    };
    subject.wait_for_first_answer()?;
    Ok(subject)
}

/// JSON straight to embedded providers: one agent, hessian2, endpoints from a file.
pub(crate) fn one_agent(plan: &Plan, program: &'static str) -> Result<Subject, BenchError> {
    let codec = "hessian2";
    let mut processes = Vec::new();
    let mut owned: Vec<Box<dyn Any>> = Vec::new();
    let mut endpoints = Vec::new();
    for number in 1..=N_PROVIDERS {
        let provider = Provider::start(plan, Providers::Embedded)?;
        endpoints.push(format!("\"dubbo://{}?serialization={codec}\"", provider.addr));
        let name = format!("provider-{number}");
        processes.push(Process { name, group: PROVIDERS, pid: provider.pid });
        owned.push(provider.owned);
    }
    let dir = TempDir::with_prefix("bench-").map_err(BenchError::io("a temporary folder"))?;
    let list = dir.path().join("services.toml");
    write_services(&list, &endpoints.join(", "))?;
    let consumer = file_registry_agent(plan, &list)?;
    processes.insert(0, process(&consumer, "consumer-agent", CONSUMER_AGENT));
    let addr = consumer.addr(consumer.ports.http);
    owned.extend([Box::new(consumer) as Box<dyn Any>, Box::new(dir)]);
    let style = Style::Json;
    let subject = Subject {
        program,
        codec,
        addr,
        style,
        processes,
        has_java: false,
        is_checked: true,
        _owned: owned,
    };
    subject.wait_for_first_answer()?;
    Ok(subject)
}

/// Writes a registry file that lists `endpoints` (quoted URLs with commas between) for the
/// service.
pub(crate) fn write_services(path: &Path, endpoints: &str) -> Result<(), BenchError> {
    let text = format!("[[service]]\ninterface = \"{INTERFACE}\"\nendpoints = [{endpoints}]\n");
    fs::write(path, text).map_err(BenchError::file(path))
}

/// An agent that takes HTTP calls and finds providers in the file at `services`.
pub(crate) fn file_registry_agent(plan: &Plan, services: &Path) -> Result<Agent, BenchError> {
    start_agent(plan, "consumer", |ports| {
        let services = services.display();
        let ingress = http_ingress(ports.http);
        format!("[[registry]]\nkind = \"file\"\npath = \"{services}\"\n{ingress}")
    })
}

/// Starts an agent as all scenarios have it.
pub(crate) fn start_agent(
    plan: &Plan,
    name: &str,
    config: impl Fn(Ports) -> String,
) -> Result<Agent, BenchError> {
    let launch = Launch { dubmesh: &plan.dubmesh, name, log_level: LOG_LEVEL, max_files: None };
    Agent::start(&launch, config)
}

fn process(agent: &Agent, name: &str, group: &'static str) -> Process {
    Process { name: name.to_owned(), group, pid: agent.child.pid() }
}

fn http_ingress(port: u16) -> String {
    format!("[[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{port}\"\n")
}

/// The floor: a server that answers at once.
pub(crate) fn bare_epoll(program: &'static str, style: Style) -> Result<Subject, BenchError> {
    let this = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
    let mut command = Command::new(this);
    command.arg("bare-epoll");
    let mut child = Child::spawn(program, &command)?;
    let line = child.wait_for_line("READY ", START_TIMEOUT)?;
    let addr = line.trim_start_matches("READY ").parse();
    let addr = addr.map_err(|_| BenchError::NoResult { output: line })?;
    let processes =
        vec![Process { name: "bare-epoll".to_owned(), group: SERVER, pid: child.pid() }];
    let _owned: Vec<Box<dyn Any>> = vec![Box::new(child)];
    Ok(Subject {
        program,
        codec: "none",
        addr,
        style,
        processes,
        has_java: false,
        is_checked: false,
        _owned,
    })
}

impl Subject {
    fn wait_for_first_answer(&self) -> Result<(), BenchError> {
        wait_for_first_answer(self.program, self.addr, self.style)
    }
}

/// Asks until the first right answer.
pub(crate) fn wait_for_first_answer(
    program: &str,
    addr: SocketAddr,
    style: Style,
) -> Result<(), BenchError> {
    let deadline = Instant::now() + FIRST_ANSWER_TIMEOUT;
    loop {
        let answer = Client::connect(addr)
            .map_err(Problem::from)
            .and_then(|mut client| check::call(&mut client, style, "hello"));
        match answer {
            Ok(()) => return Ok(()),
            Err(problem) if deadline < Instant::now() => {
                let (program, problem) = (program.to_owned(), problem.to_string());
                return Err(BenchError::WrongAnswer { program, problem });
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}
