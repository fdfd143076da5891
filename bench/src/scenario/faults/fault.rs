//! What happens to one of three, and how it ends.

use std::time::Duration;

use super::estate::{Estate, Way};
use crate::cable::Weather;
use crate::error::BenchError;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    ProviderKilled,
    ProviderStopped,
    AgentKilled,
    AgentStopped,
    RegistryKilled,
    Dropped,
    Parted,
    Broken,
    Late,
    Lossy,
    Rolling,
}

/// How much may come of a fault.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// Calls that may fail in a run, of 1,000 a second.
    pub(super) n_failed: f64,
    /// Of calls that may run twice.
    pub(super) n_failed_idempotent: f64,
    /// Seconds until no call fails any more.
    pub(super) healthy_s: Option<f64>,
    pub(super) p90_ms: Option<f64>,
}

impl Fault {
    pub(super) const ALL: [Self; 11] = [
        Self::ProviderKilled,
        Self::ProviderStopped,
        Self::AgentKilled,
        Self::AgentStopped,
        Self::RegistryKilled,
        Self::Dropped,
        Self::Parted,
        Self::Broken,
        Self::Late,
        Self::Lossy,
        Self::Rolling,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ProviderKilled => "provider: kill -9",
            Self::ProviderStopped => "provider: SIGSTOP",
            Self::AgentKilled => "provider's agent: kill -9",
            Self::AgentStopped => "provider's agent: SIGSTOP",
            Self::RegistryKilled => "etcd: kill -9",
            Self::Dropped => "connections dropped, no FIN",
            Self::Parted => "partition",
            Self::Broken => "connections closed at once",
            Self::Late => "50 ms later each way",
            Self::Lossy => "5% lost",
            Self::Rolling => "rolling restart of all",
        }
    }

    /// Whether it can happen where there is no agent beside the provider.
    pub(super) fn happens(self, way: Way) -> bool {
        let needs_agents = [Self::AgentKilled, Self::AgentStopped, Self::RegistryKilled];
        way == Way::Agents || !needs_agents.contains(&self)
    }

    pub(super) fn is_of_network(self) -> bool {
        [Self::Dropped, Self::Parted, Self::Broken, Self::Late, Self::Lossy].contains(&self)
    }

    pub(super) fn bounds(self) -> Bounds {
        let (n_failed, healthy_s) = (20.0, Some(1.0));
        match self {
            Self::RegistryKilled | Self::Lossy | Self::Rolling => Bounds::default(),
            Self::Late => Bounds { p90_ms: Some(60.0), ..Bounds::default() },
            _ => Bounds { n_failed, healthy_s, ..Bounds::default() },
        }
    }

    pub(super) fn begin(self, estate: &mut Estate) -> Result<(), BenchError> {
        match self {
            Self::ProviderKilled => estate.providers[0].kill9(),
            Self::ProviderStopped => estate.providers[0].suspend(),
            Self::AgentKilled => estate.agents[0].child.kill9(),
            Self::AgentStopped => estate.agents[0].child.suspend(),
            Self::RegistryKilled => estate.etcd.kill9(),
            Self::Rolling => estate.restart_all()?,
            Self::Dropped | Self::Parted | Self::Broken | Self::Late | Self::Lossy => {
                let Some([cable, to_registry]) = &estate.cables else { return Ok(()) };
                cable.set(self.weather());
                if self == Self::Parted {
                    to_registry.set(self.weather());
                }
            }
        }
        Ok(())
    }

    fn weather(self) -> Weather {
        match self {
            Self::Dropped => Weather::Dropped,
            Self::Parted => Weather::Parted,
            Self::Broken => Weather::Broken,
            Self::Late => Weather::Late(Duration::from_millis(50)),
            Self::Lossy => Weather::Lossy(5),
            _ => Weather::Fine,
        }
    }

    pub(super) fn end(self, estate: &mut Estate) -> Result<(), BenchError> {
        match self {
            Self::ProviderKilled => estate.restart_provider(0)?,
            Self::ProviderStopped => estate.providers[0].resume(),
            Self::AgentKilled => estate.restart_agent(0)?,
            Self::AgentStopped => estate.agents[0].child.resume(),
            Self::RegistryKilled => estate.etcd.restart_keeping_data()?,
            Self::Rolling => {}
            Self::Dropped | Self::Parted | Self::Broken | Self::Late | Self::Lossy => {
                for cable in estate.cables.iter().flatten() {
                    cable.set(Weather::Fine);
                }
            }
        }
        Ok(())
    }
}
