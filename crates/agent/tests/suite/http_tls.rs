//! HTTP apps by TLS: which certificates are trusted, what is said when one is not, and apps below
//! a path.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::support::SERVICE;
use crate::support::backend::{BackendCall, Export, name, on_worker};
use agent::call::Outcome;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Bytes, body::Incoming};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, RootCertStore, server::WebPkiClientVerifier};

type Authority = CertifiedIssuer<'static, KeyPair>;
/// A certificate and its key, as PEM.
type Certificate = (String, String);

fn authority(file: &Path) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, file.display().to_string());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(file, issuer.pem()).unwrap();
    issuer
}

fn certificate(authority: &Authority, host: &str, is_expired: bool) -> Certificate {
    let mut params = CertificateParams::new([host.to_owned()]).unwrap();
    if is_expired {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

/// Answers every request with its path and whether its client showed a certificate; `None` speaks
/// no TLS.
async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>) {
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        tokio::task::spawn_local(async move {
            let Some(tls) = tls else { return answer(stream, false).await };
            if let Ok(stream) = tls.accept(stream).await {
                let is_known = stream.get_ref().1.peer_certificates().is_some();
                answer(stream, is_known).await;
            }
        });
    }
}

async fn answer(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
    is_known: bool,
) {
    let service = service_fn(|request: Request<Incoming>| async move {
        let text = format!("\"{} {is_known}\"", request.uri().path());
        Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(text))))
    });
    let served = hyper::server::conn::http1::Builder::new();
    let _ = served.serve_connection(TokioIo::new(stream), service).await;
}

fn acceptor((chain, key): &Certificate, clients: Option<&Authority>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der().clone()).unwrap();
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let mut config = builder.with_single_cert(chain, key).unwrap();
    // As most servers do: an agent that offered something else would be refused.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// A server that speaks TLS as told, or none.
async fn start(tls: Option<TlsAcceptor>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::task::spawn_local(serve(listener, tls));
    addr
}

async fn call(export: &Export) -> Outcome {
    BackendCall::new("m", "", &[]).make(&export.start()).await
}

/// The answer of the app at `addr` to a call, as JSON, or the name and the text of the error.
async fn said(addr: SocketAddr, lines: &str) -> String {
    let outcome = call(&Export::new(&format!("https://{addr}/base/"), lines)).await;
    match outcome.as_ref().map(|reply| agent::reply::json_of(reply).unwrap()) {
        Ok(json) => String::from_utf8(json).unwrap(),
        Err(error) => format!("{} {}", name(error), error.message),
    }
}

/// Authorities and certificates, and the lines of configuration that name them.
struct HttpsCertificates {
    folder: tempfile::TempDir,
    ours: Authority,
    other: Authority,
    /// For the address of the tests' servers.
    good: Certificate,
    /// For another name.
    named: Certificate,
    expired: Certificate,
    /// Trusts [`Self::ours`].
    ca: String,
    /// Trusts [`Self::other`].
    other_ca: String,
    /// [`Self::ca`], and the agent has a certificate of its own.
    shown: String,
}

impl HttpsCertificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let (ours, other) = (authority(&file("ca.pem")), authority(&file("other.pem")));
        let (chain, key) = certificate(&ours, "agent.internal", false);
        std::fs::write(file("client.pem"), chain).unwrap();
        std::fs::write(file("client.key"), key).unwrap();
        let line = |key: &str, name: &str| format!("{key} = '{}'\n", file(name).display());
        let ca = line("ca_file", "ca.pem");
        Self {
            good: certificate(&ours, "127.0.0.1", false),
            named: certificate(&ours, "users.internal", false),
            expired: certificate(&ours, "127.0.0.1", true),
            other_ca: line("ca_file", "other.pem"),
            shown: ca.clone() + &line("cert_file", "client.pem") + &line("key_file", "client.key"),
            ca,
            ours,
            other,
            folder,
        }
    }
}

#[test]
fn trusted_apps_are_called_below_their_path() {
    let it = HttpsCertificates::new();
    let named_too = format!("{}server_name = 'users.internal'\n", it.ca);
    let path = format!("/base/{SERVICE}/m");
    on_worker(async {
        for (tls, lines, is_known) in [
            (acceptor(&it.good, None), &it.ca, false),
            (acceptor(&it.named, None), &named_too, false),
            (acceptor(&it.good, Some(&it.ours)), &it.shown, true),
        ] {
            let addr = start(Some(tls)).await;
            assert_eq!(said(addr, lines).await, format!("\"{path} {is_known}\""));
        }
    });
}

#[test]
fn what_is_wrong_with_a_server_is_told() {
    let it = HttpsCertificates::new();
    let stranger = "'s certificate does not come from a trusted authority";
    on_worker(async {
        for (tls, lines, expected) in [
            (Some(acceptor(&it.named, None)), &*it.ca, "'s certificate is for another name"),
            (Some(acceptor(&it.good, None)), &it.other_ca, stranger),
            // This system does not trust it either.
            (Some(acceptor(&it.good, None)), "", stranger),
            (Some(acceptor(&it.expired, None)), &it.ca, "'s certificate is out of date"),
            (None, &it.ca, " does not speak TLS"),
        ] {
            let said = said(start(tls).await, lines).await;
            let expected = format!("unreachable cannot connect to the app: the server{expected}");
            assert!(said.starts_with(&expected), "{said}\n{expected}");
        }
    });
}

#[test]
fn an_agent_that_the_app_does_not_know_is_told_so() {
    let it = HttpsCertificates::new();
    on_worker(async {
        for (clients, lines) in [(&it.other, &it.shown), (&it.ours, &it.ca)] {
            // TLS 1.3 tells a client only behind its handshake what is wrong with its certificate.
            let said = said(start(Some(acceptor(&it.good, Some(clients)))).await, lines).await;
            assert!(said.starts_with("connection_broken"), "{said}");
            assert!(said.contains("certificate"), "{said}");
        }
    });
}

/// Files count once they were read again, as they are on a reload.
#[test]
fn renewed_files_count() {
    let it = HttpsCertificates::new();
    on_worker(async {
        let url = format!("https://{}", start(Some(acceptor(&it.good, None))).await);
        let export = Export::new(&url, &it.other_ca);
        std::fs::write(it.folder.path().join("other.pem"), it.ours.pem()).unwrap();
        assert!(call(&export).await.is_err());
        export.http.origin.renew(&Export::new(&url, &it.other_ca).http.origin);
        assert!(call(&export).await.is_ok());
    });
}
