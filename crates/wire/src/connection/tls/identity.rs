//! Who a client is, by the certificate that it showed.

use tokio_rustls::rustls::pki_types::CertificateDer;

/// Who a client is: what its certificate says, which an authority that the server trusts has
/// signed and whose private key the client has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    dns_names: Vec<String>,
    uris: Vec<String>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Identity {
    /// Of a chain that was verified. `None` if it is empty.
    pub(super) fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let certificate = webpki::EndEntityCert::try_from(chain.first()?);
        // A ready-made configuration may trust what is not X.509; then there are no names.
        let (dns_names, uris) = certificate.map_or_else(
            |_| Default::default(),
            |certificate| {
                let dns_names = certificate.valid_dns_names().map(str::to_owned).collect();
                (dns_names, certificate.valid_uri_names().map(str::to_owned).collect())
            },
        );
        let certificates = chain.iter().cloned().map(CertificateDer::into_owned).collect();
        Some(Self { dns_names, uris, certificates })
    }

    /// The DNS names among the subject's alternative names; one with a wildcard is a pattern.
    pub fn dns_names(&self) -> &[String] {
        &self.dns_names
    }

    /// The URIs among the subject's alternative names, such as a SPIFFE ID.
    pub fn uris(&self) -> &[String] {
        &self.uris
    }

    /// The certificates that the client showed, as DER: its own first.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }
}
