//! A registry in Kubernetes, against an API server that speaks TLS and asks for certificates.

use std::net::SocketAddr;
use std::path::Path;

use registry::Freshness;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use wire::Connection;
use wire::tls::{Certificate, Clients, Pem, ServerTls, ServerTlsConfig};

use crate::kubernetes::{A, Api, ready, slice};
use crate::support::{make_certificates, shows, status_is};

fn server_tls(folder: &Path) -> ServerTls {
    let file = |name: &str| Pem::file(folder.join(name));
    let certificate = Certificate { chain: file("server.pem"), key: file("server.key") };
    let clients = Clients::Require { ca: file("ca.pem") };
    ServerTls::new(ServerTlsConfig { certificate, clients }, &[]).unwrap()
}

/// Speaks TLS before `api`. Gives its address.
async fn serve(tls: ServerTls, api: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                let connection = Connection::outgoing(stream, "kubernetes").unwrap();
                let Ok((mut client, _)) = tls.accept(connection).await else { return };
                let mut plain = TcpStream::connect(api).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut plain).await;
            });
        }
    });
    addr
}

/// An authority that is replaced, with all certificates that come from it, as in a cluster.
#[tokio::test(flavor = "multi_thread")]
async fn new_certificates_are_used_from_the_next_connection_on() {
    let folder = TempDir::new().unwrap();
    make_certificates(folder.path());
    let file = |name: &str| Some(folder.path().join(name));
    let (api, tls) = (Api::start(), server_tls(folder.path()));
    let addr = serve(tls.clone(), api.addr).await;
    let (registry, orders) = api.open(|config| {
        config.server = Some(format!("https://{addr}"));
        config.tls.ca_file = file("ca.pem");
        (config.tls.cert_file, config.tls.key_file) = (file("client.pem"), file("client.key"));
    });
    api.list(&[slice("s1", 3, &[ready("10.0.0.1")])], 5);
    let watch = api.watch(5);
    shows(&orders, Freshness::Current, &[A]).await;

    make_certificates(folder.path());
    tls.reload().unwrap();
    drop(watch);
    let watch = api.watch(5);
    shows(&orders, Freshness::Current, &[A]).await;

    // What cannot be read leaves those in use that were read before.
    std::fs::write(file("ca.pem").unwrap(), "half of it").unwrap();
    drop(watch);
    let watch = api.watch(5);

    make_certificates(folder.path());
    drop(watch);
    status_is(&registry, "a server of another authority", |status| {
        let said = status.last_error.as_deref().unwrap_or_default();
        said.contains("the server's certificate does not come from a trusted authority")
    })
    .await;
    tls.reload().unwrap();
    let _watch = api.watch(5);
    shows(&orders, Freshness::Current, &[A]).await;
}
