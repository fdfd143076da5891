//! The TLS of a registry, from its files.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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

/// TLS whose certificates are read again for each connection, since they are renewed.
#[derive(Debug)]
pub(crate) struct RenewedTls {
    pub(crate) client: ClientTls,
    /// Who is connected to.
    store: &'static str,
    /// What was last wrong with the files.
    problem: Mutex<Option<String>>,
}

impl RenewedTls {
    pub(crate) fn new(client: ClientTls, store: &'static str) -> Self {
        Self { client, store, problem: Mutex::default() }
    }

    /// Reads the certificates again, in a part of the time for a new connection. If that fails,
    /// those that were read before stay in use.
    pub(crate) async fn renew(&self, connect_timeout: Duration) {
        let renewed = self.client.reload_within(connect_timeout / 2).await;
        if let Some(error) = self.new_problem(renewed.err().map(|error| error.to_string())) {
            tracing::warn!(%error, "cannot read the certificates for {} again", self.store);
        }
    }

    /// What is to be said. A registry that is away is tried every few seconds: it is said once.
    fn new_problem(&self, found: Option<String>) -> Option<String> {
        let mut known = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *known != found;
        known.clone_from(&found);
        found.filter(|_| is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_with_the_files_is_said_once() {
        let tls = RenewedTls::new(RegistryTls::default().load(&[]).unwrap(), "the test");
        let said = |problem: Option<&str>| tls.new_problem(problem.map(str::to_owned)).is_some();
        assert!(!said(None));
        assert!(said(Some("gone")) && !said(Some("gone")) && !said(Some("gone")));
        assert!(said(Some("not PEM")) && !said(Some("not PEM")));
        assert!(!said(None));
        assert!(said(Some("not PEM")), "it was good in between");
    }
}
