//! What `congestion` and `mixed` have in common: the network, the providers at its far end, and an
//! agent beside them.

use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use interop_harness::network::{Bridge, Network, NetworkSide, Shape};
use interop_harness::{Child, DubboVersion, peer_command};
use tempfile::TempDir;

use crate::error::BenchError;
use crate::plan::Plan;

const SHAPE: Shape = Shape { round_trip: Duration::from_millis(1), bytes_per_s: 125_000_000 };
pub(super) const JAVA: DubboVersion = DubboVersion::V3_3;
/// The service of the Java provider, and its port.
pub(super) const SERVICE: &str = "org.dubmesh.interop.StudyService";
pub(super) const PORT: &str = "20880";
/// Those of the embedded provider.
pub(super) const HELLO: &str = "com.alibaba.dubbo.performance.demo.provider.IHelloService";
pub(super) const EMBEDDED_PORT: &str = "20881";
pub(super) const LINK_PORT: &str = "20990";
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// What a load may take longer than its time.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// The network between callers and providers, carried by a process of this program.
pub(super) fn start_network() -> Result<Network, BenchError> {
    let this = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
    Ok(Network::start(Command::new(this).arg("bridge"))?)
}

/// The process that carries it, in a namespace of its own.
///
/// # Errors
/// What is missing.
pub(crate) fn bridge() -> Result<(), BenchError> {
    let run = || {
        let mut bridge = Bridge::new(SHAPE)?;
        bridge.announce()?;
        bridge.carry_while(|| true)
    };
    run().map_err(BenchError::io("a network between namespaces (needs root or user namespaces)"))
}

/// A Java provider that works on each call for `longest_ms` at most.
pub(super) fn start_java(network: &Network, longest_ms: &str) -> Result<Child, BenchError> {
    let args = ["--port", PORT, "--threads", "1000", "--study-ms", longest_ms];
    let bind = format!("-DDUBBO_IP_TO_BIND={}", Network::address(NetworkSide::Provider));
    let jvm: [OsString; 3] = ["-XX:TieredStopAtLevel=4", "-Xmx1g", &bind].map(Into::into);
    let command = network.on(NetworkSide::Provider, &peer_command(JAVA, &jvm, &args)?);
    let mut provider = Child::spawn("the Java provider of the study", &command)?;
    provider.wait_for_line("READY ", START_TIMEOUT)?;
    Ok(provider)
}

/// An embedded provider that answers at once.
pub(super) fn start_embedded(plan: &Plan, network: &Network) -> Result<Child, BenchError> {
    let listen = format!("{}:{EMBEDDED_PORT}", Network::address(NetworkSide::Provider));
    let mut command = Command::new(&plan.dubmesh);
    command.args(["provider", "--listen", &listen, "--work-ms", "0", "--threads", "1000"]);
    let mut child =
        Child::spawn("the embedded provider", &network.on(NetworkSide::Provider, &command))?;
    child.wait_for_line("READY ", START_TIMEOUT)?;
    Ok(child)
}

/// An agent beside providers, given by their services and ports. Its registry is its own: nobody
/// has to find it.
pub(super) fn start_agent(
    plan: &Plan,
    network: &Network,
    providers: &[(&str, &str)],
) -> Result<(Child, TempDir), BenchError> {
    let folder = TempDir::with_prefix("bench-").map_err(BenchError::io("a temporary folder"))?;
    let host = Network::address(NetworkSide::Provider);
    let export = |(interface, port): &(&str, &str)| {
        format!(
            "[[export]]\ninterface = \"{interface}\"\napp = \"dubbo://{host}:{port}\"\n\
             capacity = 1000\n"
        )
    };
    let exports: String = providers.iter().map(export).collect();
    let config = format!(
        "[admin]\nenabled = false\n\
         [[registry]]\nname = \"own\"\nkind = \"memory\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
         [link]\nlisten = \"{host}:{LINK_PORT}\"\n{exports}",
    );
    let path = folder.path().join("agent.toml");
    fs::write(&path, config).map_err(BenchError::file(&path))?;
    let mut command = Command::new(&plan.dubmesh);
    command.args(["run", "--config"]).arg(&path);
    let mut agent =
        Child::spawn("the providers' agent", &network.on(NetworkSide::Provider, &command))?;
    // Its log says when it serves.
    let deadline = Instant::now() + START_TIMEOUT;
    while agent.tail().matches("registered service=").count() < providers.len() {
        if agent.try_wait().is_some() || deadline < Instant::now() {
            agent.wait_ready(Duration::ZERO, || false)?;
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok((agent, folder))
}
