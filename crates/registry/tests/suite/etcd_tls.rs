//! etcd over TLS with client certificates.

use std::fs;
use std::path::{Path, PathBuf};

use interop_harness::{Etcd, EtcdOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use registry::{EtcdConfig, Freshness, Layout, Registry, RegistryConfig, RegistryTls};
use tempfile::TempDir;
use tokio::net::TcpListener;
use wire::Connection;
use wire::tls::{Certificate, Clients, Pem, ServerTls, ServerTlsConfig};

use crate::support::{link, registration, service, shows, status_is};

/// Writes an authority, a server's and a client's certificate into `folder`.
fn make_certificates(folder: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), ca.pem()).unwrap();
    // etcd's own gateway is a client of itself, and shows the server's certificate.
    for (name, host) in
        [("server", "127.0.0.1"), ("client", "agent.test"), ("expired", "127.0.0.1")]
    {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        if name == "expired" {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
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
    let open = |tls: RegistryTls| {
        let mut config = EtcdConfig::new([etcd.client_url()], Layout::contest());
        config.tls = Some(tls);
        Registry::open(RegistryConfig::Etcd(config)).unwrap()
    };
    let good = RegistryTls {
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
    for (bad, expected) in [
        (
            RegistryTls { ca_file: strange_ca, ..good.clone() },
            "the server's certificate does not come from a trusted authority",
        ),
        (
            RegistryTls { cert_file: None, key_file: None, ..good.clone() },
            "requires one, but none was shown",
        ),
        (
            RegistryTls { server_name: Some("etcd.example".into()), ..good.clone() },
            "the server's certificate is for another name",
        ),
    ] {
        refuses(&etcd.client_url(), bad, expected).await;
    }
    let plain = Etcd::start().unwrap();
    let url = format!("https://{}", plain.addr());
    refuses(&url, good.clone(), "perhaps it does not speak TLS").await;
    let url = serve(folder.path(), "expired").await;
    refuses(&url, good.clone(), "the server's certificate is out of date").await;
    // What a server says of a missing certificate may be overtaken by the end of the connection.
    let url = serve(folder.path(), "server").await;
    let nothing = RegistryTls { cert_file: None, key_file: None, ..good };
    refuses(&url, nothing, "perhaps the server requires a certificate, and none is shown").await;
}

/// The status of a registry there shows this reason, after the address.
async fn refuses(url: &str, tls: RegistryTls, expected: &str) {
    let mut config = EtcdConfig::new([url], Layout::contest());
    config.tls = Some(tls);
    let registry = Registry::open(RegistryConfig::Etcd(config)).unwrap();
    // Of an attempt in which etcd's alert is overtaken by the end of the connection, only that end
    // is known. Another attempt follows.
    status_is(&registry, expected, |status| {
        let said = status.last_error.as_deref().unwrap_or_default();
        said.contains(expected) && said.contains(url)
    })
    .await;
    assert!(!registry.status().borrow().connected);
}

/// A server that shows a certificate in `folder`, and closes each connection after its handshake.
/// Gives its URL.
async fn serve(folder: &Path, name: &str) -> String {
    let tls = ServerTlsConfig {
        certificate: Certificate {
            chain: Pem::file(folder.join(format!("{name}.pem"))),
            key: Pem::file(folder.join(format!("{name}.key"))),
        },
        clients: Clients::Unknown,
    };
    let tls = ServerTls::new(tls, &[b"h2"]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let connection = Connection::outgoing(stream, "etcd").unwrap();
            let _ = tls.accept(connection).await;
        }
    });
    url
}
