//! Reads an agent's pages.

use std::time::Duration;

use agent::inspect::snapshot::{Page, VersionSnapshot};
use bytes::BytesMut;
use doctor::verdicts::AgentLook;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;
use wire::address::unix_path;

/// How long an agent may take for a page.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A page of as many things as there can be on one is shorter.
const MAX_PAGE_LEN: usize = 64 * 1024 * 1024;
/// A line of a page that comes line by line is shorter.
const MAX_LINE_LEN: usize = 1024 * 1024;
/// How many things are asked for: as many as an agent shows.
const LIMIT: usize = agent::inspect::MAX_LIMIT;

/// Who the agent is.
pub(crate) async fn version(admin: &str) -> Result<VersionSnapshot, String> {
    page(admin, "/version").await
}

/// Its pages, now.
pub(crate) async fn look(admin: &str) -> Result<AgentLook, String> {
    Ok(AgentLook {
        endpoints: items(admin, "endpoints").await?,
        apps: items(admin, "apps").await?,
        connections: items(admin, "connections").await?,
        // An older agent has no such page.
        stages: items(admin, "stages").await.unwrap_or_default(),
    })
}

/// The things on a page of many.
pub(crate) async fn items<T: DeserializeOwned>(admin: &str, what: &str) -> Result<Vec<T>, String> {
    let page: Page<T> = page(admin, &format!("/{what}?limit={LIMIT}")).await?;
    Ok(page.items)
}

/// One page.
pub(crate) async fn page<T: DeserializeOwned>(admin: &str, path: &str) -> Result<T, String> {
    let body = tokio::time::timeout(TIMEOUT, fetch(admin, path)).await.map_err(|_| {
        format!("the agent at {admin} has not answered {path} within {TIMEOUT:?}")
    })??;
    serde_json::from_slice(&body).map_err(|error| {
        format!("{admin}{path} is not a page of a dubmesh agent of this version: {error}")
    })
}

async fn fetch(admin: &str, path: &str) -> Result<Bytes, String> {
    let mut response = ask(admin, path).await?;
    whole(&mut response).await.map_err(|error| format!("{admin}{path}: {error}"))
}

/// Hands each line of a page to `take`, as it comes, until that says that it has enough, or the
/// page ends.
pub(crate) async fn lines(
    admin: &str,
    path: &str,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<(), String> {
    let asked = tokio::time::timeout(TIMEOUT, ask(admin, path)).await;
    let mut response = asked.map_err(|_| {
        format!("the agent at {admin} has not answered {path} within {TIMEOUT:?}")
    })??;
    if response.answer.status() != StatusCode::OK {
        let refused = whole(&mut response).await.map(|_| String::new());
        return Err(refused.unwrap_or_else(|error| error));
    }
    let mut rest = BytesMut::new();
    while let Some(frame) = response.answer.body_mut().frame().await {
        let frame = frame
            .map_err(|error| format!("the connection to the agent at {admin} broke: {error}"))?;
        rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| &data[..]));
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            if take(&rest.split_to(end + 1)[..end]) {
                return Ok(());
            }
        }
        if MAX_LINE_LEN < rest.len() {
            return Err(format!("{admin}{path}: a line is longer than {MAX_LINE_LEN} bytes"));
        }
    }
    Ok(())
}

/// An answer whose body is still to come.
struct Coming {
    answer: Response<Incoming>,
    /// Of the connection.
    driver: AbortHandle,
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn ask(admin: &str, path: &str) -> Result<Coming, String> {
    let refused = |error: std::io::Error| {
        format!(
            "no agent answers at {admin}: {error}; write the address of its admin listener after \
             --admin"
        )
    };
    match unix_path(admin) {
        Some(file) => {
            let stream = UnixStream::connect(file).await.map_err(refused)?;
            get(stream, "localhost", path).await
        }
        None => {
            let stream = TcpStream::connect(admin).await.map_err(refused)?;
            get(stream, admin, path).await
        }
    }
    .map_err(|error| format!("{admin}{path}: {error}"))
}

async fn get(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    host: &str,
    path: &str,
) -> Result<Coming, String> {
    let text = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let driver = tokio::spawn(connection).abort_handle();
    let request = Request::get(path)
        .header(hyper::header::HOST, host)
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(text)?;
    Ok(Coming { answer, driver })
}

async fn whole(response: &mut Coming) -> Result<Bytes, String> {
    let status = response.answer.status();
    let body = Limited::new(response.answer.body_mut(), MAX_PAGE_LEN).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    match status {
        StatusCode::OK => Ok(body),
        _ => Err(format!("{status}: {}", String::from_utf8_lossy(&body).trim_end())),
    }
}
