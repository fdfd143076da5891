//! What can be wrong with TLS: settings when they are loaded, peers when they shake hands.

use std::io;

use tokio_rustls::rustls::{
    self, AlertDescription, CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible,
};

use super::pem_items::PemFault;

/// The keys whose certificates can be checked.
const KEYS_THAT_WORK: &str = "keys that work are RSA of 2048 bits or more, ECDSA on P-256 or \
                              P-384, and Ed25519";

/// Why TLS settings were refused. Whether certificates are out of date shows in the handshake.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("cannot read {place}: {source}")]
    Read {
        /// The file.
        place: String,
        /// Why not.
        source: io::Error,
    },
    /// The files were not read in time.
    #[error("cannot read the files again: {0}")]
    NotRead(io::Error),
    /// The text is cut off or garbled.
    #[error("{place}, line {line}: {fault}")]
    Malformed {
        /// The file.
        place: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        fault: PemFault,
    },
    /// The text holds something else, or nothing.
    #[error("there is no certificate in {place}")]
    NoCertificate {
        /// The file.
        place: String,
    },
    /// The text holds something else, or nothing.
    #[error("there is no private key in {place}")]
    NoKey {
        /// The file.
        place: String,
    },
    /// The key is encrypted, and there is nobody to ask for its passphrase.
    #[error(
        "the private key in {place} has a passphrase, and cannot be read; write it without one: \
         openssl pkey -in OLD -out NEW"
    )]
    KeyHasPassphrase {
        /// The file.
        place: String,
    },
    /// The system keeps its authorities at none of the usual places.
    #[error("this system has no trusted authorities; name their file in SSL_CERT_FILE")]
    NoSystemAuthorities,
    /// A certificate cannot be understood.
    #[error("the certificate in {place} cannot be used: {source}")]
    BadCertificate {
        /// The file.
        place: String,
        /// What is wrong.
        source: Error,
    },
    /// An authority's certificate cannot be understood.
    #[error("an authority in {place} cannot be used: {source}")]
    BadAuthority {
        /// The file.
        place: String,
        /// What is wrong.
        source: Error,
    },
    /// A private key is of an unknown kind.
    #[error(
        "the private key in {place} cannot be used; keys that work are RSA of 2048 to 4096 bits, \
         ECDSA on P-256 or P-384, and Ed25519"
    )]
    BadKey {
        /// The file.
        place: String,
    },
    /// Certificate and key are not a pair.
    #[error("the private key in {key} does not belong to the certificate in {chain}")]
    KeyMismatch {
        /// The certificate's file.
        chain: String,
        /// The key's file.
        key: String,
    },
    /// Clients' certificates cannot be checked with these authorities.
    #[error("clients cannot be checked with {place}: {source}")]
    Verifier {
        /// The authorities' file.
        place: String,
        /// Why not.
        source: rustls::server::VerifierBuilderError,
    },
    /// No certificate can be for this name.
    #[error("'{0}' is neither a DNS name nor an IP address that a certificate can be for")]
    ServerName(String),
    /// A ready-made configuration has no files to read again.
    #[error("made from a ready configuration, which can be replaced but not reloaded")]
    NotReloadable,
    /// The cryptography does not speak the versions of TLS that are wanted.
    #[error("TLS cannot be set up: {0}")]
    Provider(Error),
}

/// The same error, in words for those who have to mend it. `peer` is "server" or "client".
pub(crate) fn explain(error: io::Error, peer: &'static str) -> io::Error {
    let kind = error.kind();
    if kind == io::ErrorKind::UnexpectedEof {
        return io::Error::new(kind, closed_in_handshake(peer));
    }
    match words(&error, peer) {
        Some(text) => io::Error::new(kind, text),
        None => error,
    }
}

fn closed_in_handshake(peer: &str) -> String {
    format!(
        "the {peer} closed the connection during the TLS handshake; perhaps it does not speak TLS"
    )
}

/// An error of TLS in words for those who have to mend it; nothing if it is none. `peer` is what
/// the other side is to be called.
pub fn words(error: &io::Error, peer: &str) -> Option<String> {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    tls.map(|tls| in_words(tls, peer))
}

/// The same for an error that TLS has caused, or caused an error that caused it, and so on.
pub fn words_of_cause(error: &(dyn std::error::Error + 'static), peer: &str) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        let direct = error.downcast_ref::<Error>().map(|tls| in_words(tls, peer));
        let wrapped = || {
            let error = error.downcast_ref::<io::Error>()?;
            // In the words of tokio-rustls.
            let is_cut_off = error.to_string() == "tls handshake eof";
            if is_cut_off { Some(closed_in_handshake(peer)) } else { words(error, peer) }
        };
        if let Some(words) = direct.or_else(wrapped) {
            return Some(words);
        }
        next = error.source();
    }
    None
}

/// Whether a certificate was refused because authorities alone have such ones.
fn is_authority(error: &OtherError) -> bool {
    let error = error.0.downcast_ref::<webpki::Error>();
    error.is_some_and(|error| *error == webpki::Error::CaUsedAsEndEntity)
}

/// Whether a peer speaks no version of TLS that is spoken here.
fn is_old(incompatible: &PeerIncompatible) -> bool {
    use PeerIncompatible as Peer;

    matches!(
        incompatible,
        Peer::ServerDoesNotSupportTls12Or13
            | Peer::ServerTlsVersionIsDisabledByOurConfig
            // TLS 1.1 does not have the extension.
            | Peer::SignatureAlgorithmsExtensionRequired
            | Peer::SupportedVersionsExtensionRequired
            | Peer::Tls12NotOffered
            | Peer::Tls12NotOfferedOrEnabled
    )
}

fn in_words(error: &Error, peer: &str) -> String {
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            format!("the {peer} does not speak TLS")
        }
        Error::NoCertificatesPresented => format!("the {peer} showed no certificate"),
        Error::InvalidCertificate(bad) => certificate_in_words(bad, peer),
        Error::AlertReceived(alert) => alert_in_words(*alert, peer),
        Error::NoApplicationProtocol => no_protocol(peer),
        Error::PeerIncompatible(old) if is_old(old) => {
            format!("the {peer} does not speak TLS 1.2 or 1.3 ({old:?}); it needs a newer version")
        }
        Error::PeerIncompatible(other) => format!(
            "the {peer} speaks TLS, but takes none of the ciphers or keys of this side ({other:?})"
        ),
        error => unexplained(error),
    }
}

/// What is wrong with the certificate of a peer.
fn certificate_in_words(bad: &CertificateError, peer: &str) -> String {
    use CertificateError as Bad;

    let error = || Error::InvalidCertificate(bad.clone());
    match bad {
        Bad::UnknownIssuer => format!(
            "the {peer}'s certificate does not come from a trusted authority; trust the one that \
             signed it (ca_file), and have the {peer} show those between the two"
        ),
        // The true authority may have the same name as a trusted one, such as itself before its
        // key was renewed. And a short key makes no signature that counts.
        Bad::BadSignature => format!(
            "the {peer}'s certificate does not come from a trusted authority, or a key is too \
             short; trust the one that signed it (ca_file), and let RSA keys have 2048 bits or more"
        ),
        Bad::UnsupportedSignatureAlgorithmContext { .. }
        | Bad::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => format!(
            "the {peer}'s certificate, or its authority's, has a key of a kind that cannot be \
             checked; {KEYS_THAT_WORK}"
        ),
        Bad::Expired
        | Bad::ExpiredContext { .. }
        | Bad::NotValidYet
        | Bad::NotValidYetContext { .. } => format!(
            "the {peer}'s certificate is out of date ({}); have a new one made, and check the \
             clocks",
            error()
        ),
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => format!(
            "the {peer}'s certificate is for another name ({}); have one made with this name in \
             its subjectAltName",
            error()
        ),
        Bad::Other(other) if is_authority(other) => format!(
            "the {peer}'s certificate belongs to an authority (CA:TRUE), like those that openssl \
             req -x509 makes; have the authority sign one for the {peer}, as docs/certificates.md \
             shows"
        ),
        _ => unexplained(&error()),
    }
}

/// What a peer says before it ends a handshake.
fn alert_in_words(alert: AlertDescription, peer: &str) -> String {
    use AlertDescription as Alert;

    match alert {
        Alert::CertificateRequired => format!(
            "the {peer} requires a certificate, but none was shown; set cert_file and key_file"
        ),
        // So say Go's servers, etcd among them, in both cases.
        Alert::BadCertificate => format!(
            "the {peer} refused our certificate, or requires one, but none was shown \
             (BadCertificate)"
        ),
        Alert::UnknownCA
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::DecryptError
        | Alert::AccessDenied => {
            format!("the {peer} refused our certificate ({alert:?}); its log says why")
        }
        Alert::NoApplicationProtocol => no_protocol(peer),
        Alert::ProtocolVersion => format!(
            "the {peer} does not speak TLS 1.2 or 1.3 (ProtocolVersion); it needs a newer version"
        ),
        Alert::HandshakeFailure => format!(
            "the {peer} speaks TLS, but takes none of the ciphers of this side, or its key is of \
             a kind that does not work here (HandshakeFailure); {KEYS_THAT_WORK}"
        ),
        other => unexplained(&Error::AlertReceived(other)),
    }
}

fn no_protocol(peer: &str) -> String {
    format!("the {peer} speaks TLS, but not this protocol over it (ALPN)")
}

fn unexplained(error: &Error) -> String {
    format!("TLS failed: {error}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_rustls::rustls::pki_types::UnixTime;

    use super::*;

    #[test]
    fn what_an_operator_can_mend_is_in_words() {
        use AlertDescription as Alert;
        use CertificateError as Bad;
        use PeerIncompatible as Peer;

        let at = |s| UnixTime::since_unix_epoch(Duration::from_secs(s));
        let of_kind = Bad::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id: Vec::new(),
            public_key_algorithm_id: Vec::new(),
        };
        let not_yet = Bad::NotValidYetContext { time: at(1), not_before: at(2) };
        for (error, words) in [
            (Bad::UnknownIssuer.into(), "show those between the two"),
            (Bad::BadSignature.into(), "or a key is too short"),
            (of_kind.into(), "keys that work are RSA of 2048 bits"),
            (Bad::NotValidYet.into(), "the client's certificate is out of date ("),
            (not_yet.into(), "the client's certificate is out of date ("),
            (Peer::SignatureAlgorithmsExtensionRequired.into(), "does not speak TLS 1.2 or 1.3"),
            (Peer::ServerDoesNotSupportTls12Or13.into(), "does not speak TLS 1.2 or 1.3"),
            (Error::AlertReceived(Alert::ProtocolVersion), "does not speak TLS 1.2 or 1.3"),
            (Peer::NoCipherSuitesInCommon.into(), "takes none of the ciphers or keys"),
            (Error::AlertReceived(Alert::HandshakeFailure), "keys that work are RSA of 2048"),
        ] {
            let said = in_words(&error, "client");
            assert!(said.starts_with("the client") && said.contains(words), "{error:?}: {said}");
        }
    }
}
