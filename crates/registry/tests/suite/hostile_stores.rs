//! What all stores with a connection do alike when their server is none, or not well.

use std::net::SocketAddr;
use std::time::Duration;

use interop_harness::Etcd;
use registry::{
    EtcdConfig, Freshness, Layout, NacosConfig, Registry, RegistryConfig, ZooKeeperConfig,
};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::etcd::{HERE, config, open};
use crate::support::{LONG, link, registration, service, shows, status_is};

const TIMEOUT: Duration = Duration::from_millis(100);

/// Each kind of store, at that address.
fn all(address: SocketAddr) -> [(&'static str, RegistryConfig); 3] {
    let mut etcd = EtcdConfig::new([format!("http://{address}")], Layout::dubbo());
    (etcd.connect_timeout, etcd.request_timeout) = (TIMEOUT, TIMEOUT);
    let zookeeper = ZooKeeperConfig {
        connect_timeout: TIMEOUT,
        request_timeout: TIMEOUT,
        ..ZooKeeperConfig::new([address.to_string()])
    };
    let mut nacos = NacosConfig::new([address.to_string()]);
    nacos.grpc_port_offset = 0;
    (nacos.connect_timeout, nacos.request_timeout) = (TIMEOUT, TIMEOUT);
    [
        ("etcd", RegistryConfig::Etcd(etcd)),
        ("ZooKeeper", RegistryConfig::ZooKeeper(zookeeper)),
        ("Nacos", RegistryConfig::Nacos(nacos)),
    ]
}

/// A server that accepts, and then says nothing or hangs up at once.
async fn mute(hangs_up: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            if !hangs_up {
                kept.push(stream);
            }
        }
    });
    address
}

/// Nobody waits for ever, and everybody is told which server it is and what is wrong with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_or_hangs_up_is_named() {
    for hangs_up in [false, true] {
        let address = mute(hangs_up).await;
        for (store, config) in all(address) {
            let registry = Registry::open(config).unwrap();
            let subscription = registry.subscribe(&service("a.B"));
            let registered = registry.register(&registration("a.B", link(1))).unwrap();
            let begin = format!("{store} at ");
            let is_said =
                |text: &str| text.starts_with(&begin) && text.contains(&address.to_string());
            status_is(&registry, "the reason", |status| {
                !status.connected && status.last_error.as_deref().is_some_and(is_said)
            })
            .await;
            let listed = timeout(LONG, registry.catalogue(|_| true)).await.expect("an answer");
            let said = listed.unwrap_err().to_string();
            assert!(said.contains(&begin), "{said}");
            assert_eq!(subscription.current().status, Freshness::Pending);
            assert!(!registered.is_established());
            timeout(LONG, registry.close()).await.expect("the end");
        }
    }
}

/// Somebody else has the user now, and then it is ours again.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_becomes_wrong_leaves_the_last_list() {
    let mut etcd = Etcd::start().unwrap();
    let set_password = |etcd: &Etcd, password: &str| {
        etcd.etcdctl(&["user", "add", &format!("agent:{password}")]).unwrap();
        etcd.etcdctl(&["user", "grant-role", "agent", "mesh"]).unwrap();
    };
    etcd.etcdctl(&["role", "add", "mesh"]).unwrap();
    let grant = ["role", "grant-permission", "mesh", "--prefix=true", "readwrite", "/dubbomesh/"];
    etcd.etcdctl(&grant).unwrap();
    set_password(&etcd, "first");
    etcd.enable_auth("secret").unwrap();
    let mut config = config(&etcd.client_url(), Layout::contest());
    (config.user, config.password) = (Some("agent".into()), Some("first".into()));
    let registry = open(config);
    let subscription = registry.subscribe(&service("a.IFoo"));
    let registered = registry.register(&registration("a.IFoo", link(1))).unwrap();
    registered.established().await;
    shows(&subscription, Freshness::Current, &[HERE]).await;

    etcd.etcdctl(&["user", "delete", "agent"]).unwrap();
    set_password(&etcd, "second");
    status_is(&registry, "the refusal", |status| {
        let error = status.last_error.as_deref();
        !status.connected && error.is_some_and(|error| error.contains("authentication failed"))
    })
    .await;
    shows(&subscription, Freshness::Stale, &[HERE]).await;

    etcd.etcdctl(&["user", "delete", "agent"]).unwrap();
    set_password(&etcd, "first");
    timeout(LONG, registered.established()).await.unwrap();
    shows(&subscription, Freshness::Current, &[HERE]).await;
}
