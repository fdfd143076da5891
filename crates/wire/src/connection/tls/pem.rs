//! Certificates and private keys as PEM, in files or in memory.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use tokio_rustls::rustls::pki_types::pem::{Error, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, RootCertStore};

use super::error::TlsError;
use super::pem_items::{PemFault, PemItem, pem_items};
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

const CERTIFICATE: &[u8] = b"CERTIFICATE";
/// How labels of all forms of keys end.
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY";
/// Of PKCS #8.
const ENCRYPTED_KEY: &[u8] = b"ENCRYPTED PRIVATE KEY";
/// In the first line of older forms.
const ENCRYPTED: &[u8] = b"Proc-Type: 4,ENCRYPTED";

/// A certificate and its private key.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate itself first, then those of the authorities between it and the root.
    pub chain: Pem,
    /// Its private key: PKCS #8, PKCS #1 or SEC 1. RSA of 2048 to 4096 bits, ECDSA on P-256 or
    /// P-384, or Ed25519.
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
        let text = self.read()?;
        let items = self.items(&text)?;
        let items = items.iter().filter(|item| item.label == CERTIFICATE);
        let found: Vec<_> = items.map(|item| self.parse(item)).collect::<Result<_, _>>()?;
        if found.is_empty() {
            return Err(TlsError::NoCertificate { place: self.to_string() });
        }
        Ok(found)
    }

    /// The first private key.
    fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let text = self.read()?;
        let place = || self.to_string();
        let items = self.items(&text)?;
        let key = items.iter().find(|item| item.label.ends_with(PRIVATE_KEY));
        let item = key.ok_or_else(|| TlsError::NoKey { place: place() })?;
        let is_old_form = item.text.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED);
        if item.label == ENCRYPTED_KEY || is_old_form {
            return Err(TlsError::KeyHasPassphrase { place: place() });
        }
        self.parse(item)
    }

    fn items<'a>(&self, text: &'a [u8]) -> Result<Vec<PemItem<'a>>, TlsError> {
        pem_items(text).map_err(|(line, fault)| self.malformed(line, fault))
    }

    fn parse<T: PemObject>(&self, item: &PemItem<'_>) -> Result<T, TlsError> {
        T::from_pem_slice(item.text).map_err(|error| match error {
            Error::NoItemsFound => TlsError::BadKey { place: self.to_string() },
            _ => self.malformed(item.line, PemFault::NotBase64),
        })
    }

    fn malformed(&self, line: usize, fault: PemFault) -> TlsError {
        TlsError::Malformed { place: self.to_string(), line, fault }
    }

    /// All certificates, as authorities to trust.
    pub(super) fn roots(&self) -> Result<Arc<RootCertStore>, TlsError> {
        let mut roots = RootCertStore::empty();
        if matches!(self.0, PemSource::System) {
            let text = self.read()?;
            roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).flatten());
            if roots.is_empty() {
                return Err(TlsError::NoCertificate { place: self.to_string() });
            }
            return Ok(Arc::new(roots));
        }
        for certificate in self.certificates()? {
            let fail = |source| TlsError::BadAuthority { place: self.to_string(), source };
            roots.add(certificate).map_err(fail)?;
        }
        Ok(Arc::new(roots))
    }
}

/// Reads a file of PEM text, by blocking calls, without a mark of its byte order.
///
/// # Errors
/// As of [`file::read`]: it may be no pipe, since it is read again for each reload or connection.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = file::read(path, MAX_FILE_LEN)?;
    let mark_len = text.len() - file::without_mark(&text).len();
    text.drain(..mark_len);
    Ok(text)
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
                _ => TlsError::BadKey { place: key },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificates(text: impl AsRef<[u8]>) -> Result<usize, String> {
        let found = Pem::bytes(text).certificates().map_err(|error| error.to_string())?;
        Ok(found.len())
    }

    fn key(text: &str) -> String {
        Pem::bytes(text).key().map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn every_certificate_counts_or_is_said_to_be_unreadable() {
        let one = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(certificates(one.repeat(3)), Ok(3));
        assert_eq!(certificates(format!("\u{feff}{one}{one}")), Ok(2));
        let joined = certificates(format!("{}{one}", one.trim_end())).unwrap_err();
        assert!(joined.contains("memory, line 3: -----BEGIN must be at the start"), "{joined}");
        let garbled = certificates(format!("{one}{}", one.replace("AAAA", "A-A"))).unwrap_err();
        assert!(garbled.ends_with("line 4: what begins here is not base64"), "{garbled}");
        assert!(certificates("").unwrap_err().contains("there is no certificate in"));
    }

    #[test]
    fn a_key_with_a_passphrase_is_said_to_have_one() {
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
                   DEK-Info: AES-128-CBC,41\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        let new =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----";
        for text in [old, new] {
            let said = key(text);
            assert!(said.contains("has a passphrase") && said.contains("openssl pkey"), "{said}");
        }
        let cut = key("-----BEGIN PRIVATE KEY-----\nAAAA");
        assert!(cut.contains("line 1: what begins here has no -----END"), "{cut}");
        assert!(key("").contains("there is no private key in"));
        let foreign = "-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n";
        assert!(key(foreign).contains("keys that work are RSA of 2048 to 4096 bits"));
    }

    #[test]
    fn a_file_is_read_without_the_mark_of_its_byte_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\u{feff}text").unwrap();
        assert_eq!(read_file(file.path()).unwrap(), b"text");
    }
}
