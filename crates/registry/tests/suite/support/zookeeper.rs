//! What the tests of ZooKeeper share.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use dubbo_proto::url::encode_key;
use interop_harness::{ZooKeeper, ZooKeeperClient};
use registry::{Endpoint, Presence, Protocol, Registry, RegistryConfig, ZooKeeperConfig};
use tokio::time::timeout;

use super::{LONG, service};

pub(crate) const HERE: &str = "link://10.0.0.1:1";
pub(crate) const AGENTS: &str = "/dubbo/a.B/agents";
pub(crate) const PROVIDERS: &str = "/dubbo/a.B/providers";

pub(crate) fn config(address: SocketAddr) -> ZooKeeperConfig {
    ZooKeeperConfig {
        session_timeout: Duration::from_secs(2),
        request_timeout: Duration::from_secs(5),
        ..ZooKeeperConfig::new([address.to_string()])
    }
}

pub(crate) fn open(config: ZooKeeperConfig) -> Registry {
    Registry::open(RegistryConfig::ZooKeeper(config)).unwrap()
}

pub(crate) fn plain(zookeeper: &ZooKeeper) -> Registry {
    open(config(zookeeper.addr()))
}

/// The path of a provider's node.
pub(crate) fn provider(url: &str) -> String {
    format!("{PROVIDERS}/{}", encode_key(url))
}

pub(crate) fn dubbo(port: u16) -> Endpoint {
    Endpoint::new(Protocol::Dubbo, "10.0.0.1", port)
}

/// The session that the one node in a folder belongs to.
pub(crate) fn owner(client: &mut ZooKeeperClient, folder: &str) -> i64 {
    let names = client.children(folder).unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    let stat = client.stat(&format!("{folder}/{}", names[0])).unwrap();
    stat.expect("a node").owner
}

/// How many watches ZooKeeper has.
pub(crate) fn n_watches(zookeeper: &ZooKeeper) -> u64 {
    let mut stream = std::net::TcpStream::connect(zookeeper.addr()).unwrap();
    stream.write_all(b"mntr").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let line = answer.lines().find_map(|line| line.strip_prefix("zk_watch_count\t"));
    line.and_then(|count| count.parse().ok()).expect("a count of watches")
}

/// What is known of a service once ZooKeeper has been asked.
pub(crate) async fn presence(registry: &Registry, text: &str) -> Presence {
    loop {
        match registry.presence(&service(text)) {
            Presence::Asking => {
                timeout(LONG, registry.settled()).await.expect("ZooKeeper's answer");
            }
            known => return known,
        }
    }
}
