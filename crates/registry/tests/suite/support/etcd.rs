//! What the tests of etcd share.

use std::time::Duration;

use interop_harness::Etcd;
use registry::{EtcdConfig, Layout, Presence, Registry, RegistryConfig};
use tokio::time::timeout;

use super::{LONG, service};

pub(crate) const HERE: &str = "link://10.0.0.1:1";
pub(crate) const KEY: &str = "/dubbomesh/a.IFoo/10.0.0.1:1";

pub(crate) fn config(url: &str, layout: Layout) -> EtcdConfig {
    let mut config = EtcdConfig::new([url], layout);
    config.lease_ttl = Duration::from_secs(2);
    config.connect_timeout = Duration::from_secs(5);
    config.request_timeout = Duration::from_secs(2);
    config
}

pub(crate) fn open(config: EtcdConfig) -> Registry {
    Registry::open(RegistryConfig::Etcd(config)).unwrap()
}

pub(crate) fn contest(etcd: &Etcd) -> Registry {
    open(config(&etcd.client_url(), Layout::contest()))
}

pub(crate) fn dubbo(etcd: &Etcd) -> Registry {
    open(config(&etcd.client_url(), Layout::dubbo()))
}

/// The number of the lease that a key hangs on, as etcdctl writes leases.
pub(crate) fn lease_of(etcd: &Etcd, key: &str) -> String {
    let json = etcd.etcdctl(&["get", key, "-w", "json"]).unwrap();
    let (_, rest) = json.split_once("\"lease\":").expect("a key with a lease");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    format!("{:x}", digits.parse::<i64>().unwrap())
}

/// What is known of a service once etcd has been asked.
pub(crate) async fn presence(registry: &Registry, text: &str) -> Presence {
    match registry.presence(&service(text)) {
        Presence::Asking => {
            timeout(LONG, registry.settled()).await.expect("etcd's answer");
            registry.presence(&service(text))
        }
        known => known,
    }
}

/// How many watches etcd has.
pub(crate) fn n_watches(etcd: &Etcd) -> u64 {
    etcd.metric("etcd_debugging_mvcc_watcher_total").expect("a count of watches")
}
