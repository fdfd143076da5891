//! What the faults happen to: three providers, an agent beside each or none, and two agents that
//! call them. For one of these, methods are idempotent.

use std::net::SocketAddr;
use std::time::Duration;

use interop_harness::{DubboVersion, Etcd, JavaProvider, ProviderOptions};
use tempfile::TempDir;

use crate::agent::{Agent, EmbeddedProvider};
use crate::cable::Cable;
use crate::error::BenchError;
use crate::estate::{start_agent, wait_for_first_answer, write_services};
use crate::load::{INTERFACE, Style};
use crate::plan::Plan;

pub(super) const N_PROVIDERS: usize = 3;
pub(super) const SLEEP: Duration = Duration::from_millis(50);
const N_THREADS: u32 = 200;
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// Who stands between caller and providers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Way {
    Agents,
    Straight,
}

/// Which providers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Peers {
    Embedded,
    Java,
}

pub(super) enum Provider {
    Embedded(EmbeddedProvider),
    Java(Box<JavaProvider>),
}

impl Provider {
    fn start(plan: &Plan, peers: Peers) -> Result<Self, BenchError> {
        if peers == Peers::Embedded {
            return Self::embedded(plan, "127.0.0.1:0");
        }
        let jvm_args = ["-XX:TieredStopAtLevel=4", "-Xmx256m"].map(Into::into).to_vec();
        let (threads, hash_sleep) = (N_THREADS, SLEEP);
        let options = ProviderOptions { threads, hash_sleep, jvm_args, ..Default::default() };
        Ok(Self::Java(Box::new(JavaProvider::start(DubboVersion::V3_3, options)?)))
    }

    fn embedded(plan: &Plan, listen: &str) -> Result<Self, BenchError> {
        let (threads, work) = (N_THREADS.to_string(), SLEEP.as_millis().to_string());
        let args = ["--listen", listen, "--threads", &threads, "--work-ms", &work];
        Ok(Self::Embedded(EmbeddedProvider::start(&plan.dubmesh, &args)?))
    }

    fn addr(&self) -> SocketAddr {
        match self {
            Self::Embedded(it) => it.addr,
            Self::Java(it) => it.addr(),
        }
    }

    pub(super) fn kill9(&mut self) {
        match self {
            Self::Embedded(it) => it.child.kill9(),
            Self::Java(it) => it.kill9(),
        }
    }

    pub(super) fn suspend(&mut self) {
        match self {
            Self::Embedded(it) => it.child.suspend(),
            Self::Java(it) => it.suspend(),
        }
    }

    pub(super) fn resume(&mut self) {
        match self {
            Self::Embedded(it) => it.child.resume(),
            Self::Java(it) => it.resume(),
        }
    }

    pub(super) fn stop_gracefully(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Embedded(it) => it.child.stop_gracefully(STOP_TIMEOUT)?,
            Self::Java(it) => it.stop_gracefully()?,
        };
        Ok(())
    }

    /// Starts it again at the same address.
    pub(super) fn restart(&mut self, plan: &Plan) -> Result<(), BenchError> {
        match self {
            Self::Java(it) => it.restart()?,
            Self::Embedded(it) => {
                it.child.kill9();
                *self = Self::embedded(plan, &it.addr.to_string())?;
            }
        }
        Ok(())
    }
}

pub(super) struct Estate {
    pub(super) way: Way,
    plan: Plan,
    pub(super) etcd: Etcd,
    pub(super) providers: Vec<Provider>,
    pub(super) agents: Vec<Agent>,
    /// Before the first provider or its agent, and between that agent and the registry.
    pub(super) cables: Option<[Cable; 2]>,
    /// The first one takes methods as they are, the other one as idempotent.
    consumers: Vec<Agent>,
    _dir: TempDir,
}

impl Estate {
    pub(super) fn start(
        plan: &Plan,
        way: Way,
        peers: Peers,
        has_cables: bool,
    ) -> Result<Self, BenchError> {
        let etcd = Etcd::start()?;
        let cables = match has_cables {
            true => Some([Cable::start()?, Cable::start()?]),
            false => None,
        };
        let dir = TempDir::with_prefix("bench-").map_err(BenchError::io("a temporary folder"))?;
        let providers = (0..N_PROVIDERS).map(|_| Provider::start(plan, peers));
        let providers = providers.collect::<Result<_, _>>()?;
        let (agents, consumers) = (Vec::new(), Vec::new());
        let plan = plan.clone();
        let mut estate = Self { way, plan, etcd, providers, agents, cables, consumers, _dir: dir };
        if let Some([first, to_etcd]) = &estate.cables {
            first.lead_to(estate.providers[0].addr());
            to_etcd.lead_to(estate.etcd.addr());
        }
        if way == Way::Agents {
            for index in 0..N_PROVIDERS {
                let agent = estate.start_provider_agent(index)?;
                estate.agents.push(agent);
            }
        }
        for idempotent in ["", "idempotent = [\"*\"]\n"] {
            let consumer = estate.start_consumer(idempotent)?;
            let addr = consumer.addr(consumer.ports.http);
            estate.consumers.push(consumer);
            wait_for_first_answer("a consumer's agent", addr, Style::Form)?;
        }
        Ok(estate)
    }

    /// Where calls go that may run once only, and those that may run twice.
    pub(super) fn consumers(&self) -> impl Iterator<Item = SocketAddr> {
        self.consumers.iter().map(|it| it.addr(it.ports.http))
    }

    fn start_provider_agent(&self, index: usize) -> Result<Agent, BenchError> {
        let cables = self.cables.as_ref().filter(|_| index == 0);
        let registry = match cables {
            Some([_, to_etcd]) => format!("http://{}", to_etcd.addr),
            None => self.etcd.client_url(),
        };
        let agent = start_agent(&self.plan, &format!("provider-{index}"), |ports| {
            let advertise = cables.map(|[it, _]| format!("advertise = \"{}\"\n", it.addr));
            format!(
                "[[registry]]\nkind = \"etcd\"\nendpoints = [\"{registry}\"]\n\
                 [link]\nlisten = \"127.0.0.1:{}\"\n{}[[export]]\n\
                 interface = \"{INTERFACE}\"\napp = \"dubbo://{}\"\ncapacity = {N_THREADS}\n",
                ports.link,
                advertise.unwrap_or_default(),
                self.providers[index].addr()
            )
        })?;
        if let Some([first, _]) = cables {
            first.lead_to(agent.addr(agent.ports.link));
        }
        Ok(agent)
    }

    fn start_consumer(&self, idempotent: &str) -> Result<Agent, BenchError> {
        let registry = match self.way {
            Way::Agents => {
                format!("kind = \"etcd\"\nendpoints = [\"{}\"]\n", self.etcd.client_url())
            }
            Way::Straight => {
                let list = self._dir.path().join("services.toml");
                let urls = self.providers.iter().enumerate().map(|(index, provider)| {
                    let cable = self.cables.as_ref().filter(|_| index == 0);
                    let addr = cable.map_or(provider.addr(), |[it, _]| it.addr);
                    format!("\"dubbo://{addr}?threads={N_THREADS}\"")
                });
                write_services(&list, &urls.collect::<Vec<_>>().join(", "))?;
                format!("kind = \"file\"\npath = \"{}\"\n", list.display())
            }
        };
        start_agent(&self.plan, "consumer", |ports| {
            format!(
                "[[registry]]\n{registry}[[ingress]]\nprotocol = \"http\"\n\
                 listen = \"127.0.0.1:{}\"\n[defaults]\n{idempotent}",
                ports.http
            )
        })
    }

    /// Starts the agent of a provider again; whoever was there before must have ended.
    pub(super) fn restart_agent(&mut self, index: usize) -> Result<(), BenchError> {
        self.agents[index] = self.start_provider_agent(index)?;
        Ok(())
    }

    /// One provider after the other, each with its agent, as an operator would.
    pub(super) fn restart_all(&mut self) -> Result<(), BenchError> {
        for index in 0..N_PROVIDERS {
            if let Some(agent) = self.agents.get_mut(index) {
                agent.child.stop_gracefully(STOP_TIMEOUT)?;
            }
            self.providers[index].stop_gracefully()?;
            self.providers[index].restart(&self.plan)?;
            if index < self.agents.len() {
                self.restart_agent(index)?;
            }
        }
        Ok(())
    }

    pub(super) fn restart_provider(&mut self, index: usize) -> Result<(), BenchError> {
        self.providers[index].restart(&self.plan)
    }
}
