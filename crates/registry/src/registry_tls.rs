//! The TLS of a registry, from its files.

use wire::tls::{Certificate, ClientTls, ClientTlsConfig, Pem, Protocols};

use crate::config::RegistryTls;
use crate::error::RegistryError;

impl RegistryTls {
    /// Reads and checks the files, by blocking calls. `protocols` go out by ALPN.
    pub(crate) fn load(&self, protocols: Protocols) -> Result<ClientTls, RegistryError> {
        let certificate = match (&self.cert_file, &self.key_file) {
            (Some(chain), Some(key)) => {
                Some(Certificate { chain: Pem::file(chain), key: Pem::file(key) })
            }
            (None, None) => None,
            _ => return Err(RegistryError::HalfIdentity),
        };
        let config = ClientTlsConfig {
            ca: self.ca_file.as_ref().map_or_else(Pem::system, Pem::file),
            certificate,
            server_name: self.server_name.clone(),
        };
        ClientTls::new(config, protocols).map_err(RegistryError::Tls)
    }
}
