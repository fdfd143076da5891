//! The list of stores.

use tokio::runtime::Handle;

use crate::config::{RegistryConfig, SeveralConfig};
use crate::error::RegistryError;
use crate::etcd::EtcdRegistry;
use crate::file::FileRegistry;
use crate::fixed::FixedRegistry;
use crate::kubernetes::KubernetesRegistry;
use crate::memory::MemoryRegistry;
use crate::nacos::NacosRegistry;
use crate::store::Store;
use crate::zookeeper::ZooKeeperRegistry;

/// Opens a registry's store. This is where stores are listed.
pub(crate) fn open(
    config: RegistryConfig,
    runtime: &Handle,
) -> Result<Box<dyn Store>, RegistryError> {
    Ok(match config {
        RegistryConfig::Memory(hub) => Box::new(MemoryRegistry::open(hub)),
        RegistryConfig::File { path } => Box::new(FileRegistry::open(path, runtime)),
        RegistryConfig::Static(services) => Box::new(FixedRegistry::open(&services)?),
        RegistryConfig::Etcd(config) => Box::new(EtcdRegistry::open(config, runtime)?),
        RegistryConfig::Kubernetes(config) => Box::new(KubernetesRegistry::open(config, runtime)?),
        RegistryConfig::ZooKeeper(config) => Box::new(ZooKeeperRegistry::open(config, runtime)?),
        RegistryConfig::Several(SeveralConfig { .. }) => return Err(RegistryError::NoMembers),
        RegistryConfig::Nacos(config) => Box::new(NacosRegistry::open(config, runtime)?),
    })
}
