//! What a registration gives whoever made it.

use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::Registry;
use super::reporting::DefinitionReport;
use crate::endpoint::EndpointKey;
use crate::error::RegistryError;
use crate::store::Withdraw;

/// How long a withdrawal waits for its confirmation: a drain must not hang on a registry that is
/// away.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(3);

/// A registration. Dropping it withdraws it without waiting.
#[must_use = "dropping a registration withdraws it"]
pub struct Registered {
    pub(super) endpoint: EndpointKey,
    pub(super) established: watch::Receiver<bool>,
    pub(super) withdraw: Option<Withdraw>,
    /// What the service looks like, in the metadata report.
    pub(super) _report: Option<DefinitionReport>,
    pub(super) _registry: Registry,
}

impl Registered {
    /// The endpoint that is registered.
    #[must_use]
    pub fn endpoint(&self) -> &EndpointKey {
        &self.endpoint
    }

    /// Whether the registry holds the registration, and every change of that.
    pub(crate) fn is_there(&self) -> watch::Receiver<bool> {
        self.established.clone()
    }

    /// Whether the registry holds the registration, as far as we know now.
    #[must_use]
    pub fn is_established(&self) -> bool {
        *self.established.borrow()
    }

    /// Waits until the registry holds the registration: for ever, if it never comes.
    pub async fn established(&self) {
        let mut established = self.established.clone();
        let gone = established.wait_for(|is| *is).await.is_err();
        if gone {
            // The runtime is shutting down: nothing will ever be established.
            std::future::pending::<()>().await;
        }
    }

    /// Ends the registration and waits, within 3 seconds, until the registry has confirmed it.
    ///
    /// # Errors
    /// When the registry does not confirm in time. The registration then ends with its lease.
    pub async fn withdraw(mut self) -> Result<(), RegistryError> {
        let (done, confirmed) = oneshot::channel();
        if let Some(withdraw) = self.withdraw.take() {
            withdraw(done);
        }
        match tokio::time::timeout(WITHDRAW_TIMEOUT, confirmed).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(RegistryError::WithdrawTimeout {
                address: self.endpoint.to_string(),
                after: WITHDRAW_TIMEOUT,
            }),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(withdraw) = self.withdraw.take() {
            let (done, _nobody_waits) = oneshot::channel();
            withdraw(done);
        }
    }
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registered")
            .field("endpoint", &self.endpoint)
            .field("established", &self.is_established())
            .finish_non_exhaustive()
    }
}
