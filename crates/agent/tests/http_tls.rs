//! HTTP apps by TLS: which certificates are trusted, what is said when one is not, and apps below a path.

mod support;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::backend::{AppCall, HttpApp};
use agent::call::Outcome;
use agent::config::{self, AppConfig, HttpAppConfig};
use agent::upstream::Setup;
use dubbo_proto::{Serialization, ServiceKey};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Bytes, body::Incoming};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use support::{PATIENCE, SERVICE};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, RootCertStore, server::WebPkiClientVerifier};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(file: &Path) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, file.display().to_string());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(file, issuer.pem()).unwrap();
    issuer
}

/// A certificate and its key, as PEM.
fn certificate(authority: &Authority, host: &str, is_expired: bool) -> (String, String) {
    let mut params = CertificateParams::new([host.to_owned()]).unwrap();
    if is_expired {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

/// Answers every request with its path and whether its client showed a certificate; `None` speaks no TLS.
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

fn acceptor((chain, key): &(String, String), clients: Option<&Authority>) -> TlsAcceptor {
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

/// The export of an app at `url` with these further lines.
fn export(url: &str, lines: &str) -> (ServiceKey, Arc<HttpAppConfig>) {
    let text = format!(
        "[admin]\nenabled = false\n[[registry]]\nkind = 'etcd'\n[link]\nlisten = '127.0.0.1:0'\n\
         [[export]]\ninterface = '{SERVICE}'\napp = '{url}'\n{lines}"
    );
    let config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    let export = &config.exports[0];
    let AppConfig::Http(http) = &export.app else { panic!("no HTTP app") };
    (export.service.clone(), Arc::clone(http))
}

/// What a call of an app ends in.
async fn call((service, http): (ServiceKey, Arc<HttpAppConfig>)) -> Outcome {
    let setup = Setup {
        connect_timeout: Duration::from_secs(10),
        max_in_flight: 100,
        max_reply_len: 1 << 20,
    };
    let app = HttpApp::start(&service, http, setup);
    let now = Instant::now();
    let call = AppCall {
        method: "m",
        descriptor: "",
        serialization: Serialization::Hessian2,
        args: Default::default(),
        attachments: &[],
        takes_attachments: true,
        now,
        deadline: now + PATIENCE,
    };
    let (done, outcome) = tokio::sync::oneshot::channel();
    app.call(&call, move |outcome| drop(done.send(outcome)));
    let outcome = outcome.await.unwrap();
    drop::<Rc<HttpApp>>(app);
    outcome
}

#[test]
fn certificates_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let ours = authority(&file("ca.pem"));
    let other = authority(&file("other.pem"));
    let good = certificate(&ours, "127.0.0.1", false);
    let named = certificate(&ours, "users.internal", false);
    let old = certificate(&ours, "127.0.0.1", true);
    let client = certificate(&ours, "agent.internal", false);
    std::fs::write(file("client.pem"), &client.0).unwrap();
    std::fs::write(file("client.key"), &client.1).unwrap();
    let ca = format!("ca_file = '{}'\n", file("ca.pem").display());
    let shown = format!(
        "{ca}cert_file = '{}'\nkey_file = '{}'\n",
        file("client.pem").display(),
        file("client.key").display()
    );
    let name = format!("{ca}server_name = 'users.internal'\n");
    let strange = format!("ca_file = '{}'\n", file("other.pem").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let start = async |tls| {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            tokio::task::spawn_local(serve(listener, tls));
            addr
        };
        let said = async |addr, lines: &str| {
            let outcome = call(export(&format!("https://{addr}/base/"), lines)).await;
            match outcome.as_ref().map(|reply| agent::reply::json_of(reply).unwrap()) {
                Ok(json) => String::from_utf8(json).unwrap(),
                Err(error) => format!("{} {}", error.code.row().name, error.message),
            }
        };
        let path = format!("/base/{SERVICE}/m");
        let cannot = "unreachable cannot connect to the app: the server";
        for (tls, lines, expected) in [
            (Some(acceptor(&good, None)), &ca, format!("\"{path} false\"")),
            (Some(acceptor(&named, None)), &name, format!("\"{path} false\"")),
            (Some(acceptor(&good, Some(&ours))), &shown, format!("\"{path} true\"")),
            (
                Some(acceptor(&named, None)),
                &ca,
                format!("{cannot}'s certificate is for another name"),
            ),
            (
                Some(acceptor(&good, None)),
                &strange,
                format!("{cannot}'s certificate comes from none of the trusted authorities"),
            ),
            (
                // This system does not trust it either.
                Some(acceptor(&good, None)),
                &String::new(),
                format!("{cannot}'s certificate comes from none of the trusted authorities"),
            ),
            (Some(acceptor(&old, None)), &ca, format!("{cannot}'s certificate is out of date")),
            (None, &ca, format!("{cannot} does not speak TLS")),
            (Some(acceptor(&good, Some(&other))), &shown, "".into()),
            (Some(acceptor(&good, Some(&ours))), &ca, "".into()),
        ] {
            let addr = start(tls).await;
            let said = said(addr, lines).await;
            if expected.is_empty() {
                // TLS 1.3 tells a client only behind its handshake what is wrong with its certificate.
                assert!(said.starts_with("connection_broken"), "{said}");
                assert!(said.contains("certificate"), "{said}");
            } else {
                assert!(said.starts_with(&expected), "{said}\n{expected}");
            }
        }
        // Files that were renewed count once they were read again, as they are on a reload.
        let addr = start(Some(acceptor(&good, None))).await;
        let (service, old) = export(&format!("https://{addr}"), &strange);
        std::fs::write(file("other.pem"), ours.pem()).unwrap();
        assert!(call((service.clone(), Arc::clone(&old))).await.is_err());
        let (_, new) = export(&format!("https://{addr}"), &strange);
        old.origin.renew(&new.origin);
        assert!(call((service, old)).await.is_ok());
    });
}
