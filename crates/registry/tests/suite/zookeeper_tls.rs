//! ZooKeeper over TLS with client certificates.

use interop_harness::{ZooKeeper, ZooKeeperOptions, ZooKeeperTls, ZooKeeperVersion};
use registry::{Freshness, Registry, RegistryConfig, RegistryTls, ZooKeeperConfig};
use tempfile::TempDir;

use crate::support::{link, make_certificates, registration, service, shows, status_is};

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_show_certificates() {
    let folder = TempDir::new().unwrap();
    make_certificates(folder.path());
    let file = |name: &str| folder.path().join(name);
    for version in ZooKeeperVersion::ALL {
        let tls = ZooKeeperTls {
            key_and_cert_file: file("server-both.pem"),
            ca_file: file("ca.pem"),
            require_client_cert: true,
        };
        let options = ZooKeeperOptions { version, tls: Some(tls), ..ZooKeeperOptions::default() };
        let zookeeper = ZooKeeper::start_with(options).unwrap();
        let open = |tls: Option<RegistryTls>| {
            let config = ZooKeeperConfig::new([zookeeper.addr().to_string()]);
            Registry::open(RegistryConfig::ZooKeeper(ZooKeeperConfig { tls, ..config })).unwrap()
        };
        let good = RegistryTls {
            ca_file: Some(file("ca.pem")),
            cert_file: Some(file("client.pem")),
            key_file: Some(file("client.key")),
            server_name: None,
        };
        let registry = open(Some(good.clone()));
        let subscription = registry.subscribe(&service("a.B"));
        let registered = registry.register(&registration("a.B", link(1))).unwrap();
        shows(&subscription, Freshness::Current, &["link://10.0.0.1:1"]).await;
        registered.withdraw().await.unwrap();

        let strange = TempDir::new().unwrap();
        make_certificates(strange.path());
        let strange_ca = Some(strange.path().join("ca.pem"));
        let other_name = Some("zookeeper.example".into());
        for (bad, expected) in [
            (
                Some(RegistryTls { ca_file: strange_ca, ..good.clone() }),
                "the server's certificate does not come from a trusted authority",
            ),
            (
                Some(RegistryTls { server_name: other_name, ..good.clone() }),
                "the server's certificate is for another name",
            ),
            (None, "wants TLS"),
        ] {
            let registry = open(bad);
            status_is(&registry, expected, |status| {
                let said = status.last_error.as_deref().unwrap_or_default();
                said.contains(expected) && said.contains(&zookeeper.addr().to_string())
            })
            .await;
            assert!(!registry.status().borrow().connected);
        }
        let registry = open(Some(RegistryTls { cert_file: None, key_file: None, ..good }));
        status_is(&registry, "a refusal", |status| status.last_error.is_some()).await;
        assert!(!registry.status().borrow().connected);
    }
}
