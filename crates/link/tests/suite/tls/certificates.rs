//! Authorities and certificates for tests, and an echo service.

use std::path::Path;

use link::codec::Raw;
use link::tls::rustls::RootCertStore;
use link::tls::rustls::pki_types::pem::PemObject;
use link::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use link::tls::{
    Certificate, ClientTls, ClientTlsConfig, Clients, Pem, ServerTls, ServerTlsConfig,
};
use link::{Client, ClientConfig, Connections, Listening, Method, Server, ServerConfig, Service};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType,
};

/// Gives back what it gets.
pub(crate) const ECHO: Method<Vec<u8>, Vec<u8>> = Method::new::<(Raw,)>("test.Echo", "echo");
/// Who calls, as the handler sees it: names, URIs and the number of certificates.
pub(crate) const WHO: Method<Vec<u8>, Vec<u8>> = Method::new::<(Raw,)>("test.Echo", "who");

/// An authority that signs what a test wants.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What is to be in a certificate.
#[derive(Clone, Copy, Default)]
pub(crate) struct Subject<'a> {
    pub(crate) names: &'a [&'a str],
    pub(crate) uri: Option<&'a str>,
    pub(crate) is_expired: bool,
}

/// A certificate and its key as PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("Test Authority")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn ca(&self) -> Pem {
        Pem::bytes(self.0.pem())
    }

    pub(crate) fn ca_text(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }

    pub(crate) fn sign(&self, subject: Subject<'_>) -> Pair {
        let names: Vec<_> = subject.names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        let uri = subject.uri.map(|uri| SanType::URI(Ia5String::try_from(uri).unwrap()));
        params.subject_alt_names.extend(uri);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        if subject.is_expired {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair { chain: certificate.pem(), key: key.serialize_pem() }
    }

    /// What servers of this authority show.
    pub(crate) fn localhost(&self) -> Pair {
        self.sign(Subject { names: &["localhost", "127.0.0.1"], ..Subject::default() })
    }
}

impl Pair {
    pub(crate) fn certificate(&self) -> Certificate {
        Certificate { chain: Pem::bytes(&self.chain), key: Pem::bytes(&self.key) }
    }

    /// As rustls takes them.
    pub(crate) fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        (chain.map(Result::unwrap).collect(), key)
    }

    /// Writes both into a folder, and refers to the files.
    pub(crate) fn write(&self, folder: &Path) -> Certificate {
        let (chain, key) = (folder.join("cert.pem"), folder.join("cert.key"));
        std::fs::write(&chain, &self.chain).unwrap();
        std::fs::write(&key, &self.key).unwrap();
        Certificate { chain: Pem::file(chain), key: Pem::file(key) }
    }
}

pub(crate) fn echo() -> Service {
    let identity_text = |context: &link::Context| match context.peer().identity() {
        None => "nobody".to_owned(),
        Some(who) => {
            format!("{:?} {:?} {}", who.dns_names(), who.uris(), who.certificates().len())
        }
    };
    Service::new("test.Echo").method(&ECHO, |_, bytes| async move { bytes }).method(
        &WHO,
        move |context, _| {
            let text = identity_text(&context);
            async move { text.into_bytes() }
        },
    )
}

pub(crate) fn server_tls(certificate: Certificate, clients: Clients) -> ServerTls {
    ServerTls::new(ServerTlsConfig { certificate, clients }).unwrap()
}

pub(crate) fn client_tls(ca: Pem, certificate: Option<Certificate>) -> ClientTls {
    ClientTls::new(ClientTlsConfig { certificate, ..ClientTlsConfig::with_ca(ca) }).unwrap()
}

pub(crate) async fn serve(tls: Option<ServerTls>) -> Listening {
    let config = ServerConfig { tls, ..ServerConfig::default() };
    Server::with_config(config).offer(echo()).listen("127.0.0.1:0").await.unwrap()
}

pub(crate) async fn connect(
    server: &Listening,
    tls: Option<ClientTls>,
) -> Result<Client, link::SetupError> {
    let connections = Connections::Fixed(1);
    let config = ClientConfig { tls, connections, ..ClientConfig::default() };
    Client::connect_with(server.local_addr(), config).await
}

/// Connects, and expects to be told `why` that fails.
#[track_caller]
pub(crate) fn fails_because(result: Result<Client, link::SetupError>, why: &str) {
    let text = match result {
        Ok(_) => panic!("connected, which should fail because '{why}'"),
        Err(error) => error.to_string(),
    };
    assert!(text.contains(why), "{text}");
}
