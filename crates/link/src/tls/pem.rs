//! Certificates and private keys as PEM, in files or in memory.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::pem::{Error, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, RootCertStore};

use super::error::TlsError;

/// Where PEM text is.
#[derive(Clone)]
pub struct Pem(Place);

#[derive(Clone)]
enum Place {
    File(PathBuf),
    Bytes(Arc<[u8]>),
}

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
        Self(Place::File(path.into()))
    }

    /// In memory.
    pub fn bytes(text: impl AsRef<[u8]>) -> Self {
        Self(Place::Bytes(text.as_ref().into()))
    }

    fn read(&self) -> Result<Cow<'_, [u8]>, TlsError> {
        match &self.0 {
            Place::Bytes(text) => Ok(Cow::Borrowed(text)),
            Place::File(path) => {
                let fail = |source| TlsError::Read { place: self.to_string(), source };
                std::fs::read(path).map(Cow::Owned).map_err(fail)
            }
        }
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
        for certificate in self.certificates()? {
            let fail = |source| TlsError::BadAuthority { place: self.to_string(), source };
            roots.add(certificate).map_err(fail)?;
        }
        Ok(Arc::new(roots))
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::File(path) => write!(f, "'{}'", path.display()),
            Place::Bytes(_) => f.write_str("the PEM text in memory"),
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
