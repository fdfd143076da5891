//! Certificates and private keys as PEM, in files or in memory.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use tokio_rustls::rustls::pki_types::pem::{Error, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, RootCertStore};

use super::error::TlsError;
use crate::file;

/// Where PEM text is.
#[derive(Clone)]
pub struct Pem(PemSource);

#[derive(Clone)]
enum PemSource {
    File(PathBuf),
    Bytes(Arc<[u8]>),
    System,
}

/// Names another file in the place of the system's, as OpenSSL has it.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";
/// Where systems keep the authorities that they trust: Debian, Alpine and Arch; Fedora and RHEL;
/// old RHEL; openSUSE; macOS and the BSDs.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The longest file that is read, in bytes: twenty times what systems have of authorities.
const MAX_FILE_LEN: u64 = 4 << 20;

/// A certificate and its private key.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate itself first, then those of the authorities between it and the root.
    pub chain: Pem,
    /// Its private key: PKCS #8, PKCS #1 or SEC 1.
    pub key: Pem,
}

impl Pem {
    /// In a file, which is read whenever the settings are (re)loaded.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(PemSource::File(path.into()))
    }

    /// In memory.
    pub fn bytes(text: impl AsRef<[u8]>) -> Self {
        Self(PemSource::Bytes(text.as_ref().into()))
    }

    /// The authorities that this system trusts: the file that `SSL_CERT_FILE` names, or else the
    /// one that the system's own programs use. Those among them that rustls cannot use are passed
    /// over.
    pub fn system() -> Self {
        Self(PemSource::System)
    }

    fn read(&self) -> Result<Cow<'_, [u8]>, TlsError> {
        let path = match &self.0 {
            PemSource::Bytes(text) => return Ok(Cow::Borrowed(text)),
            PemSource::File(path) => path.clone(),
            PemSource::System => system_file().ok_or(TlsError::NoSystemAuthorities)?,
        };
        let fail = |source| TlsError::Read { place: format!("'{}'", path.display()), source };
        read_file(&path).map(Cow::Owned).map_err(fail)
    }

    /// All certificates, in their order; at least one.
    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.read()?).collect();
        match found {
            Ok(found) if found.is_empty() => {
                Err(TlsError::NoCertificate { place: self.to_string() })
            }
            Ok(found) => Ok(found),
            Err(source) => Err(TlsError::Malformed { place: self.to_string(), source }),
        }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let place = || self.to_string();
        PrivateKeyDer::from_pem_slice(&self.read()?).map_err(|source| match source {
            Error::NoItemsFound => TlsError::NoKey { place: place() },
            source => TlsError::Malformed { place: place(), source },
        })
    }

    /// All certificates, as authorities to trust.
    pub(super) fn roots(&self) -> Result<Arc<RootCertStore>, TlsError> {
        let mut roots = RootCertStore::empty();
        if matches!(self.0, PemSource::System) {
            roots.add_parsable_certificates(self.certificates()?);
            return Ok(Arc::new(roots));
        }
        for certificate in self.certificates()? {
            let fail = |source| TlsError::BadAuthority { place: self.to_string(), source };
            roots.add(certificate).map_err(fail)?;
        }
        Ok(Arc::new(roots))
    }
}

/// Reads a file of PEM text, by blocking calls.
///
/// # Errors
/// As of [`file::read`]: it may be no pipe, since it is read again for each reload or connection.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    file::read(path, MAX_FILE_LEN)
}

fn system_file() -> Option<PathBuf> {
    let named = std::env::var_os(SYSTEM_VARIABLE).filter(|path| !path.is_empty());
    let known = || SYSTEM_FILES.iter().map(PathBuf::from).find(|path| path.is_file());
    named.map(PathBuf::from).or_else(known)
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PemSource::File(path) => write!(f, "'{}'", path.display()),
            PemSource::Bytes(_) => f.write_str("the PEM text in memory"),
            PemSource::System => f.write_str("the system's authorities"),
        }
    }
}

/// Says where the text is, and never what is in it: it may be a key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Certificate {
    /// Reads both; `set` puts them into a configuration, which finds out whether they fit.
    pub(super) fn load<T>(
        &self,
        set: impl FnOnce(
            Vec<CertificateDer<'static>>,
            PrivateKeyDer<'static>,
        ) -> Result<T, rustls::Error>,
    ) -> Result<T, TlsError> {
        set(self.chain.certificates()?, self.key.key()?).map_err(|source| {
            let (chain, key) = (self.chain.to_string(), self.key.to_string());
            match source {
                rustls::Error::InconsistentKeys(_) => TlsError::KeyMismatch { chain, key },
                rustls::Error::InvalidCertificate(_) => {
                    TlsError::BadCertificate { place: chain, source }
                }
                source => TlsError::BadKey { place: key, source },
            }
        })
    }
}
