//! Why something that was asked of Nacos failed.

use std::error::Error as _;
use std::time::Duration;

use nacos_proto::{BadPayload, Refusal};

use crate::grpc_words::words_of;
use crate::lent::Lost;
use crate::store::StoreError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NacosError {
    #[error("{what} {subject}: {refusal}")]
    Refused { what: &'static str, subject: String, refusal: Refusal },
    #[error("{what}: {source}")]
    Bad { what: &'static str, source: BadPayload },
    #[error("{what}: {words}")]
    Grpc { what: &'static str, words: String },
    #[error("{what} {subject}: the answer is longer than max_message_bytes")]
    TooLong { what: &'static str, subject: String },
    #[error("{what}: no answer within {after:?}")]
    Timeout { what: &'static str, after: Duration },
    #[error("{0}")]
    Connect(String),
    #[error("the server asks for a new connection")]
    SentAway,
    /// The connection was given up while we used it; the reason is in the status.
    #[error("the connection was lost")]
    Lost,
    #[error("the server does not keep what is registered on the connection")]
    Forgetful,
    /// An entry is not written; others may be.
    #[error("{0}")]
    Unwritten(String),
    /// A document changes while it is written.
    #[error("{0} changes too quickly")]
    Unsteady(String),
}

impl From<Lost> for NacosError {
    fn from(Lost: Lost) -> Self {
        Self::Lost
    }
}

/// What an error means for users of the store.
impl From<NacosError> for StoreError {
    fn from(error: NacosError) -> Self {
        match error {
            NacosError::Lost => Self::Away,
            NacosError::Refused { refusal, .. } if refusal.is_unregistered() => Self::Away,
            error => Self::Failed(error.to_string()),
        }
    }
}

/// What a status of gRPC says, with what caused it.
pub(super) fn words_of_status(status: &tonic::Status) -> String {
    let code = status.code();
    match (status.source(), status.message()) {
        (Some(source), _) => words_of(source),
        (None, "") => format!("{code:?}"),
        (None, message) => format!("{message} ({code:?})"),
    }
}
