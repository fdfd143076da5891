//! What stands around an attack: agents of the release binary, and embedded providers that answer
//! at once.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use bench::INTERFACE;
use bench::agent::{Agent, EmbeddedProvider, Launch, Ports};
use interop_harness::wait_until;
use tempfile::TempDir;

use crate::attacks::{Door, Scene};
use crate::callers::{Addresses, floor};
use crate::error::AttackError;

/// The service that nobody has called before the attack.
pub(crate) const LATE_INTERFACE: &str = "com.late.LateService";
/// The service that attackers call who have much come back: what the caller notices of them is to
/// be the agent's doing, not that of a provider which both share.
pub(crate) const BULK_INTERFACE: &str = "com.bulk.BulkService";
/// The service of an HTTP app that attackers call.
pub(crate) const APP_INTERFACE: &str = "com.app.AppService";
/// As every agent has it that nobody has configured.
const LOG_LEVEL: &str = "info";

pub(crate) struct Estate {
    /// The agent that is attacked.
    pub(crate) attacked: Agent,
    /// The one whose callers reach it over a link, if there is one.
    consumer: Option<Agent>,
    provider: EmbeddedProvider,
    others: [EmbeddedProvider; 2],
    /// A server that echoes.
    floor: SocketAddr,
    _folder: TempDir,
}

/// When the provider was not there.
#[derive(Clone, Copy)]
pub(crate) struct Outage {
    pub(crate) killed: Instant,
    /// When it was there again.
    pub(crate) back: Instant,
}

impl Estate {
    pub(crate) fn start(dubmesh: &Path, scene: &Scene) -> Result<Self, AttackError> {
        let folder =
            TempDir::with_prefix("attack-").map_err(AttackError::io("a temporary folder"))?;
        let start = |interface| start_provider(dubmesh, (Ipv4Addr::LOCALHOST, 0).into(), interface);
        let (provider, others) =
            (start(INTERFACE)?, [start(LATE_INTERFACE)?, start(BULK_INTERFACE)?]);
        let floor = floor::start().map_err(AttackError::io("a server that echoes"))?;
        let http_app = scene.has_http_app.then_some(floor);
        let services = folder.path().join("services.toml");
        let launch =
            Launch { dubmesh, name: "attacked", log_level: LOG_LEVEL, max_files: scene.max_files };
        let write = |endpoint: String| {
            let [late, bulk] = others.each_ref().map(|other| format!("dubbo://{}", other.addr));
            let all = [(INTERFACE, endpoint), (LATE_INTERFACE, late), (BULK_INTERFACE, bulk)];
            let text = all.map(|(name, endpoint)| {
                format!("[[service]]\ninterface = \"{name}\"\nendpoints = [\"{endpoint}\"]\n")
            });
            fs::write(&services, text.concat()).map_err(AttackError::io("the list of services"))
        };
        let ingress = |ports: Ports| ingress(&services, ports, scene.max_connections);
        let (attacked, consumer) = if scene.has_link {
            let attacked = Agent::start(&launch, |ports| export(ports, provider.addr, http_app))?;
            write(format!("link://{}", attacked.addr(attacked.ports.link)))?;
            let launch = Launch { name: "consumer", ..launch };
            (attacked, Some(Agent::start(&launch, ingress)?))
        } else {
            write(format!("dubbo://{}", provider.addr))?;
            (Agent::start(&launch, ingress)?, None)
        };
        Ok(Self { attacked, consumer, provider, others, floor, _folder: folder })
    }

    /// Where well-behaved callers call.
    pub(crate) fn addresses(&self) -> Addresses {
        let agent = self.consumer.as_ref().unwrap_or(&self.attacked);
        let Ports { http, dubbo, .. } = agent.ports;
        let admin = self.door(Door::Admin);
        Addresses { http: agent.addr(http), dubbo: agent.addr(dubbo), admin, floor: self.floor }
    }

    /// Where the attacked agent is attacked.
    pub(crate) fn door(&self, door: Door) -> SocketAddr {
        let Ports { http, dubbo, link, admin } = self.attacked.ports;
        self.attacked.addr(match door {
            Door::Http => http,
            Door::Dubbo => dubbo,
            Door::Link => link,
            Door::Admin => admin,
        })
    }

    /// Every process that was started.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let agents = self.consumer.iter().chain([&self.attacked]).map(|agent| agent.child.pid());
        let providers = self.others.iter().chain([&self.provider]);
        agents.chain(providers.map(|provider| provider.child.pid())).collect()
    }

    /// Kills the provider and starts it again at the same address.
    pub(crate) fn restart_provider(&mut self, dubmesh: &Path) -> Result<Outage, AttackError> {
        let (addr, killed) = (self.provider.addr, Instant::now());
        self.provider.child.kill9();
        wait_until("the end of the provider's listener", Duration::from_secs(5), || {
            std::net::TcpStream::connect(addr).is_err()
        });
        self.provider = start_provider(dubmesh, addr, INTERFACE)?;
        Ok(Outage { killed, back: Instant::now() })
    }
}

fn start_provider(
    dubmesh: &Path,
    addr: SocketAddr,
    interface: &str,
) -> Result<EmbeddedProvider, AttackError> {
    let addr = addr.to_string();
    let args = ["--listen", &addr, "--work-ms", "0", "--interface", interface];
    Ok(EmbeddedProvider::start(dubmesh, &args)?)
}

/// Takes calls by HTTP and Dubbo.
fn ingress(services: &Path, ports: Ports, max_connections: Option<u32>) -> String {
    let max = max_connections.map_or(String::new(), |max| format!("max_connections = {max}\n"));
    let listener = |protocol: &str, port: u16| {
        format!("[[ingress]]\nprotocol = \"{protocol}\"\nlisten = \"127.0.0.1:{port}\"\n{max}")
    };
    let services = services.display();
    format!("[[registry]]\nkind = \"file\"\npath = \"{services}\"\n")
        + &listener("http", ports.http)
        + &listener("dubbo", ports.dubbo)
}

/// Offers what the provider has to other agents. Its registry is its own: the other agent has a
/// list.
fn export(ports: Ports, provider: SocketAddr, http_app: Option<SocketAddr>) -> String {
    let http_app = http_app.map_or(String::new(), |app| {
        format!("[[export]]\ninterface = \"{APP_INTERFACE}\"\napp = \"http://{app}\"\n")
    });
    format!(
        "[[registry]]\nkind = \"memory\"\n[link]\nlisten = \"127.0.0.1:{}\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{}\"\n\
         [[export]]\ninterface = \"{INTERFACE}\"\napp = \"dubbo://{provider}\"\n{http_app}",
        ports.link, ports.http
    )
}
