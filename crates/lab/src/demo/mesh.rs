//! What the demo runs: three providers of different size, an agent beside each, and the consumer's
//! agent, all in this process. They know each other by a registry in memory.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use agent::config::{self, Config};
use agent::{Agent, StartError};
use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, ServiceKey};
use registry::{MemoryHub, Registry, RegistryConfig};

use crate::provider::{HELLO, Provider, ProviderConfig, ProviderError};

/// How long each call takes its provider.
pub(super) const WORK: Duration = Duration::from_millis(50);
/// The providers' names, and how many calls each works on at once.
const SIZES: [(&str, usize); 3] = [("small", 50), ("medium", 100), ("large", 150)];
/// Everything is on this machine, so what has not registered by now never will.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A provider and the agent beside it.
pub(super) struct MeshMember {
    pub(super) name: &'static str,
    pub(super) threads: usize,
    pub(super) provider: Provider,
    agent: Agent,
}

impl MeshMember {
    /// Where its agent takes calls from other agents.
    pub(super) fn link(&self) -> Option<SocketAddr> {
        self.agent.addresses().link
    }
}

/// Everything that runs.
pub(super) struct Mesh {
    pub(super) members: Vec<MeshMember>,
    consumer: Agent,
}

/// Why the demo did not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum MeshError {
    #[error("cannot start a provider: {0}")]
    Provider(#[from] ProviderError),
    #[error("cannot start an agent: {0}")]
    Agent(#[from] StartError),
    #[error("a part of the demo does not fit: {0}; please report this")]
    Config(String),
    #[error("the providers' agents did not register within {START_TIMEOUT:?}")]
    NotRegistered,
}

impl Mesh {
    /// Starts everything and waits until the consumer's agent can find all providers.
    pub(super) async fn start() -> Result<Self, MeshError> {
        let hub = MemoryHub::new();
        let members: Result<Vec<MeshMember>, MeshError> =
            SIZES.iter().map(|(name, threads)| member(name, *threads, &hub)).collect();
        let members = members?;
        let consumer = Agent::start(config(CONSUMER, &hub)?)?;
        let mesh = Self { members, consumer };
        mesh.until_registered(hub).await?;
        Ok(mesh)
    }

    /// Where the consumer's agent takes HTTP calls.
    pub(super) fn http(&self) -> Option<SocketAddr> {
        self.consumer.addresses().http.first().copied()
    }

    /// Where the consumer's agent shows its metrics.
    pub(super) fn admin(&self) -> Option<SocketAddr> {
        self.consumer.addresses().admin
    }

    /// Calls a second that all providers together can answer.
    pub(super) fn capacity(&self) -> u128 {
        let threads: usize = self.members.iter().map(|member| member.threads).sum();
        threads as u128 * 1000 / WORK.as_millis()
    }

    async fn until_registered(&self, hub: MemoryHub) -> Result<(), MeshError> {
        let wrong = |error: &dyn std::fmt::Display| MeshError::Config(error.to_string());
        let registry = Registry::open(RegistryConfig::Memory(hub)).map_err(|e| wrong(&e))?;
        let service = hello()?;
        let subscription = registry.subscribe(&service);
        let mut snapshots = subscription.snapshots();
        let all = snapshots.wait_for(|known| known.endpoints.len() == self.members.len());
        match tokio::time::timeout(START_TIMEOUT, all).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(MeshError::NotRegistered),
        }
    }

    /// Ends everything in order, callers first; `true` if no call was cut off.
    pub(super) async fn stop(self) -> bool {
        let mut complete = is_complete(self.consumer.drain().await);
        for member in self.members {
            complete &= is_complete(member.agent.drain().await);
            complete &= member.provider.drain().await;
        }
        complete
    }
}

fn is_complete(summary: Option<agent::DrainSummary>) -> bool {
    summary.is_some_and(|summary| summary.complete)
}

fn hello() -> Result<ServiceKey, MeshError> {
    HELLO.parse().map_err(|error: dubbo_proto::ProtoError| MeshError::Config(error.to_string()))
}

fn member(name: &'static str, threads: usize, hub: &MemoryHub) -> Result<MeshMember, MeshError> {
    let provider = Provider::start(&ProviderConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        service: hello()?,
        threads: NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN),
        work: WORK..=WORK,
        workers: NonZeroUsize::MIN,
        payload_limit: DEFAULT_PAYLOAD_LIMIT,
    })?;
    let app = provider.addr();
    // The weight is what a person would set who knows the sizes.
    let text = format!(
        "[agent]\nname = \"{name}\"\nworkers = 1\n\
         [admin]\nenabled = false\n\
         [[registry]]\nkind = \"etcd\"\n\
         [link]\nlisten = \"127.0.0.1:0\"\n\
         [[export]]\ninterface = \"{HELLO}\"\napp = \"dubbo://{app}\"\nweight = {threads}\n"
    );
    let agent = Agent::start(config(&text, hub)?)?;
    Ok(MeshMember { name, threads, provider, agent })
}

const CONSUMER: &str = "[agent]\nname = \"consumer\"\nworkers = 1\n\
    [admin]\nlisten = \"127.0.0.1:0\"\n\
    [[registry]]\nkind = \"etcd\"\n\
    [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";

/// A configuration as somebody would write it for agents on different machines, but for the
/// registry: in place of etcd, the agents of this process meet in `hub`.
fn config(text: &str, hub: &MemoryHub) -> Result<Config, MeshError> {
    let parsed = config::parse(text, "demo.toml");
    let mut config = parsed.map_err(|errors| MeshError::Config(errors.to_string()))?;
    for entry in &mut config.registries {
        entry.config = RegistryConfig::Memory(hub.clone());
    }
    Ok(config)
}
