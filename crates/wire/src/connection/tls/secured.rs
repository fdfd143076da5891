//! TLS that a listener asks for: settings, and the handshake of a connection that it has accepted.

use std::io;
use std::time::Duration;

use super::server::ServerTls;
use crate::connection::Connection;

/// The TLS of a listener.
#[derive(Clone, Debug)]
pub struct Secured {
    /// What the listener shows, and which clients it takes.
    pub tls: ServerTls,
    /// How long a handshake may take.
    pub timeout: Duration,
}

/// Why an accepted connection could not be secured.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    /// The client was refused, or does not speak TLS.
    #[error("{0}")]
    Refused(io::Error),
    /// The client took too long.
    #[error("the client did not finish the TLS handshake within {} ms", .0.as_millis())]
    TooLate(Duration),
}

impl Connection {
    /// Shakes hands by TLS if the listener that accepted the connection asks for it. Others are
    /// given back at once.
    ///
    /// # Errors
    /// Why the client is not served; it has been told.
    pub async fn secure(mut self) -> Result<Self, SecureError> {
        let Some(Secured { tls, timeout }) = self.take_awaited() else { return Ok(self) };
        match tokio::time::timeout(timeout, tls.accept(self)).await {
            Ok(Ok((connection, _))) => Ok(connection),
            Ok(Err(refused)) => Err(SecureError::Refused(refused.linger().await)),
            Err(_) => Err(SecureError::TooLate(timeout)),
        }
    }
}
