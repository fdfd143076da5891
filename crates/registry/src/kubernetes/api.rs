//! Requests to the API server: one connection each, which ends with its answer.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::repeated::without_secret;

use super::settings::KubernetesSettings;

/// The longest page of a list.
const MAX_PAGE_LEN: usize = 64 << 20;

/// Of an answer that refuses, this much is read to say why.
const MAX_REASON_LEN: usize = 2_000;

/// The longest head of an answer.
const MAX_HEAD_LEN: usize = 64 << 10;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("the token contains characters that HTTP cannot carry")]
    BadToken,
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("it answered {status}: {reason}")]
    Refused { status: StatusCode, reason: String },
    #[error("a list is longer than {MAX_PAGE_LEN} bytes a page")]
    TooLong,
    #[error("{0}")]
    BadObject(#[from] super::objects::BadObject),
    /// The history is gone, and the list must be read again.
    #[error("the history is gone (410), also after the list was read")]
    Gone,
    #[error("the watch ended with {code}: {message}")]
    Ended { code: u16, message: String },
}

impl ApiError {
    pub(super) fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// Whether a newer token may help.
    pub(super) fn is_unauthorized(&self) -> bool {
        self.code() == Some(401)
    }

    /// Whether a watch that ended so may last only from another version. A version that the server
    /// has not reached, after it was restored, gives 504.
    pub(super) fn is_about_version(&self) -> bool {
        self.code().is_some_and(|code| match code {
            401 | 403 | 429 => false,
            code => (400..500).contains(&code) || code == 504,
        })
    }

    /// Whether the server failed, which may be because of the version.
    pub(super) fn is_failure_of_server(&self) -> bool {
        self.code().is_some_and(|code| 500 <= code)
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.as_u16()),
            Self::Ended { code, .. } => Some(*code),
            Self::Gone => Some(410),
            _ => None,
        }
    }
}

/// An answer that began well. Dropping it closes its connection.
pub(super) struct OpenResponse {
    body: Incoming,
    connection: AbortHandle,
}

impl Drop for OpenResponse {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl OpenResponse {
    /// The next piece of the body, `None` at its end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(piece) = frame?.into_data() {
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }

    async fn whole(&mut self, max_len: usize) -> Result<Vec<u8>, ApiError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.piece().await? {
            if max_len < whole.len() + piece.len() {
                return Err(ApiError::TooLong);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}

/// Asks, and waits until the answer begins. An answer that refuses is an error.
pub(super) async fn get(
    settings: &KubernetesSettings,
    path: &str,
) -> Result<OpenResponse, ApiError> {
    if let Some(tls) = &settings.tls {
        tls.renew(settings.connect_timeout).await;
    }
    let token = settings.token().await?;
    let deadline = Instant::now() + settings.request_timeout;
    let late = |_| ApiError::Late(settings.request_timeout);
    let stream = settings.destination.connect("kubernetes", settings.connect_timeout).await?;
    let handshake = http1::Builder::new()
        .max_buf_size(MAX_HEAD_LEN)
        .handshake::<_, Empty<Bytes>>(TokioIo::new(stream));
    let (mut sender, connection) = timeout_at(deadline, handshake).await.map_err(late)??;
    let connection = tokio::spawn(async {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the API server ended");
        }
    });
    let connection = connection.abort_handle();
    let mut request = Request::get(path)
        .header(HOST, &settings.host)
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, "dubmesh");
    if let Some(token) = &token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Empty::new()).map_err(|_| ApiError::BadToken)?;
    let answered = timeout_at(deadline, sender.send_request(request)).await;
    let answered: Response<Incoming> = answered.map_err(late)??;
    let status = answered.status();
    let mut answer = OpenResponse { body: answered.into_body(), connection };
    if status == StatusCode::OK {
        return Ok(answer);
    }
    let reason = reason(&mut answer, deadline, &token.unwrap_or_default()).await;
    Err(ApiError::Refused { status, reason })
}

/// What an answer that refuses says, but never the token.
async fn reason(answer: &mut OpenResponse, deadline: Instant, token: &str) -> String {
    // A token that begins in what is shown is read to its end, and then known.
    let max_len = MAX_REASON_LEN + token.len();
    let mut text = Vec::new();
    while let Ok(Ok(Some(piece))) = timeout_at(deadline, answer.piece()).await {
        text.extend_from_slice(&piece);
        if max_len <= text.len() {
            text.truncate(max_len);
            break;
        }
    }
    let status = serde_json::from_slice::<serde_json::Value>(&text).ok();
    let message = status.as_ref().and_then(|status| status.get("message")?.as_str());
    let shown = message.map_or_else(|| String::from_utf8_lossy(&text).into_owned(), str::to_owned);
    without_secret(&shown, token).chars().filter(|c| !c.is_control()).take(300).collect()
}

/// Asks, and reads the whole answer.
pub(super) async fn read(settings: &KubernetesSettings, path: &str) -> Result<Vec<u8>, ApiError> {
    let mut answer = get(settings, path).await?;
    let read = timeout(settings.request_timeout, answer.whole(MAX_PAGE_LEN)).await;
    read.unwrap_or(Err(ApiError::Late(settings.request_timeout)))
}
