//! etcd over TLS with client certificates.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use interop_harness::{Etcd, EtcdOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use registry::{EtcdConfig, EtcdTls, Freshness, Layout, Registry, RegistryConfig};
use tempfile::TempDir;

use support::{link, registration, service, shows, status_is};

/// Writes an authority, a server's and a client's certificate into `folder`.
fn make_certificates(folder: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), ca.pem()).unwrap();
    // etcd's own gateway is a client of itself, and shows the server's certificate.
    for (name, host) in [("server", "127.0.0.1"), ("client", "agent.test")] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &ca).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

fn options(file: impl Fn(&str) -> PathBuf) -> EtcdOptions {
    let tls = interop_harness::EtcdTls {
        cert_file: file("server.pem"),
        key_file: file("server.key"),
        ca_file: file("ca.pem"),
        require_client_cert: true,
        client_cert: Some((file("client.pem"), file("client.key"))),
    };
    EtcdOptions { tls: Some(tls), ..EtcdOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_show_certificates() {
    let folder = TempDir::new().unwrap();
    make_certificates(folder.path());
    let file = |name: &str| folder.path().join(name);
    let etcd = Etcd::start_with(options(file)).unwrap();
    let open = |tls: EtcdTls| {
        let mut config = EtcdConfig::new([etcd.client_url()], Layout::contest());
        config.tls = Some(tls);
        Registry::open(RegistryConfig::Etcd(config)).unwrap()
    };
    let good = EtcdTls {
        ca_file: Some(file("ca.pem")),
        cert_file: Some(file("client.pem")),
        key_file: Some(file("client.key")),
        server_name: None,
    };
    let registry = open(good.clone());
    let subscription = registry.subscribe(&service("a.B"));
    let registered = registry.register(&registration("a.B", link(1))).unwrap();
    shows(&subscription, Freshness::Current, &["link://10.0.0.1:1"]).await;
    registered.withdraw().await.unwrap();

    let strange = TempDir::new().unwrap();
    make_certificates(strange.path());
    let strange_ca = Some(strange.path().join("ca.pem"));
    for bad in [
        EtcdTls { ca_file: strange_ca, ..good.clone() },
        EtcdTls { cert_file: None, key_file: None, ..good.clone() },
        EtcdTls { server_name: Some("etcd.example".into()), ..good.clone() },
    ] {
        let registry = open(bad);
        status_is(&registry, "a refusal", |status| status.last_error.is_some()).await;
        assert!(!registry.status().borrow().connected);
    }
}
