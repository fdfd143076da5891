//! TLS that a listener asks for: settings, and the handshake of a connection that it has accepted.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use super::identity::Identity;
use super::records::HandshakeInput;
use super::server::{RefusedHandshake, ServerTls};
use crate::budget::{Account, OverBudget};
use crate::connection::Connection;

/// A client that has shaken hands, and who it is; or why it is not served.
type Accepted = Result<(Connection, Option<Identity>), RefusedHandshake>;

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
    /// Others need the memory.
    #[error("its TLS handshake is given up: {0}")]
    NoMemory(OverBudget),
}

impl Connection {
    /// Shakes hands by TLS if the listener that accepted the connection asks for it. Others are
    /// given back at once.
    ///
    /// # Errors
    /// Why the client is not served; it has been told.
    pub async fn secure(mut self) -> Result<Self, SecureError> {
        let Some(Secured { tls, timeout }) = self.take_awaited() else { return Ok(self) };
        within(timeout, async { Ok(tls.accept(self).await) }).await
    }

    /// The same, and the account holds meanwhile what the client makes this process keep.
    ///
    /// # Errors
    /// Why the client is not served. Without memory for its handshake, it is not told.
    pub async fn secure_by(mut self, account: &Rc<Account>) -> Result<Self, SecureError> {
        let Some(Secured { tls, timeout }) = self.take_awaited() else { return Ok(self) };
        let input = HandshakeInput::default();
        let mut accepting = pin!(tls.accept_noting(self, input.clone()));
        let mut hold = account.count(0);
        let accepting = poll_fn(|cx| match accepting.as_mut().poll(cx) {
            Poll::Ready(accepted) => Poll::Ready(Ok(accepted)),
            Poll::Pending => match hold.resize(input.held_len()) {
                Ok(()) => Poll::Pending,
                Err(refused) => Poll::Ready(Err(refused)),
            },
        });
        within(timeout, accepting).await
    }
}

async fn within(
    timeout: Duration,
    accepting: impl Future<Output = Result<Accepted, OverBudget>>,
) -> Result<Connection, SecureError> {
    match tokio::time::timeout(timeout, accepting).await {
        Ok(Ok(Ok((connection, _)))) => Ok(connection),
        Ok(Ok(Err(refused))) => Err(SecureError::Refused(refused.linger().await)),
        Ok(Err(refused)) => Err(SecureError::NoMemory(refused)),
        Err(_) => Err(SecureError::TooLate(timeout)),
    }
}
