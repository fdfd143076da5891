//! Reads an agent's pages.

use std::io::ErrorKind;
use std::time::Duration;

use agent::inspect::snapshot::{Page, ProcessSnapshot, VersionSnapshot};
use agent::terminal::is_unsafe;
use bytes::BytesMut;
use doctor::verdicts::AgentLook;
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;
use wire::address::unix_path;
use wire::{Connection, Destination, SocketOptions};

/// How long an agent may take for a page.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A page of as many things as there can be on one is shorter.
const MAX_PAGE_LEN: usize = 64 * 1024 * 1024;
/// More of what an agent says why it refuses a question is not shown, in characters.
const MAX_REASON_LEN: usize = 500;
/// A page that comes line by line ends, or has a line, within this time: an agent ends it after
/// 100 seconds.
const LINES_TIMEOUT: Duration = Duration::from_secs(130);
/// A line of a page that comes line by line is shorter.
const MAX_LINE_LEN: usize = 1024 * 1024;
/// How many things are asked for: as many as an agent shows.
const LIMIT: usize = agent::inspect::MAX_LIMIT;

/// Who the agent is.
pub(crate) async fn version(admin: &str) -> Result<VersionSnapshot, String> {
    page(admin, "/version").await
}

/// Its pages, now.
pub(crate) async fn look(admin: &str, at: Duration) -> Result<AgentLook, String> {
    // All at once: one look takes as long as the slowest page, and not as all of them.
    let upstream = format!("/connections?direction=upstream&limit={LIMIT}");
    let (services, endpoints, apps, connections, stages, methods, listeners, process) = tokio::join!(
        items(admin, "services"),
        items(admin, "endpoints"),
        items(admin, "apps"),
        // Those to endpoints: callers may be many more than a page shows.
        page::<Page<_>>(admin, &upstream),
        items(admin, "stages"),
        items(admin, "methods"),
        items(admin, "listeners"),
        page::<ProcessSnapshot>(admin, "/process"),
    );
    let process = process.ok();
    Ok(AgentLook {
        at,
        services: services?,
        endpoints: endpoints?,
        apps: apps?,
        connections: connections?.items,
        // An older agent has no such pages.
        stages: stages.unwrap_or_default(),
        methods: methods.unwrap_or_default(),
        listeners: listeners.unwrap_or_default(),
        lag_ms: process.as_ref().and_then(|it| it.lag_ms),
        usual_lag_ms: process.as_ref().and_then(|it| it.usual_lag_ms),
        process,
    })
}

/// Adds to a look how late the event loops of the agent's workers were of late, if an older agent
/// has not said so.
pub(crate) async fn add_lag(admin: &str, look: &mut AgentLook) {
    if look.process.is_some() {
        return;
    }
    let Ok(Ok(page)) = tokio::time::timeout(TIMEOUT, fetch(admin, "/metrics")).await else {
        return;
    };
    let page = String::from_utf8_lossy(&page);
    look.lag_ms = longest_ms(&page, "dubmesh_worker_lag_seconds{");
    look.usual_lag_ms = longest_ms(&page, "dubmesh_worker_usual_lag_seconds{");
}

/// Of all workers, in milliseconds.
fn longest_ms(metrics: &str, name: &str) -> Option<f64> {
    let times = metrics.lines().filter(|line| line.starts_with(name));
    let times = times.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    times.reduce(f64::max).map(|seconds| seconds * 1e3)
}

/// The things on a page of many.
pub(crate) async fn items<T: DeserializeOwned>(admin: &str, what: &str) -> Result<Vec<T>, String> {
    Ok(listed(admin, what).await?.items)
}

/// The same, with how many there are.
pub(crate) async fn listed<T: DeserializeOwned>(
    admin: &str,
    what: &str,
) -> Result<Page<T>, String> {
    page(admin, &format!("/{what}?limit={LIMIT}")).await
}

/// One page.
pub(crate) async fn page<T: DeserializeOwned>(admin: &str, path: &str) -> Result<T, String> {
    page_within(admin, path, TIMEOUT).await
}

/// The same, where an agent may take its time.
pub(crate) async fn page_within<T: DeserializeOwned>(
    admin: &str,
    path: &str,
    time: Duration,
) -> Result<T, String> {
    let body = tokio::time::timeout(time, fetch(admin, path))
        .await
        .map_err(|_| unanswered(admin, path, time))??;
    serde_json::from_slice(&body).map_err(|error| {
        format!(
            "{admin}{path} is not a page of a dubmesh agent of this version: {error}; write the \
             address of its admin listener after --admin"
        )
    })
}

/// A text that another program has chosen, as one line that moves no cursor.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) { ' ' } else { c }).collect()
}

/// The same, cut off where it says enough.
fn brief(text: &str) -> String {
    let text = plain(text.trim());
    match text.char_indices().nth(MAX_REASON_LEN) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}

/// What answers does not do so as an agent would.
const NO_AGENT: &str = "; write the address of an agent's admin listener after --admin";
/// What an admin listener with TLS answers is taken for no HTTP.
const NO_TLS: &str = "; one that speaks TLS ([admin.tls]) cannot be read by this program, but by \
                      curl";

fn unanswered(admin: &str, path: &str, time: Duration) -> String {
    format!(
        "{admin} has not answered {path} within {time:?}: the agent hangs, or it is another \
         program{NO_AGENT}"
    )
}

/// Why a question got no answer.
fn no_answer(error: &hyper::Error) -> String {
    match error.is_canceled() || error.is_incomplete_message() || error.is_closed() {
        true => format!("the connection was closed without an answer{NO_AGENT}"),
        false => {
            format!("the program at this address does not speak HTTP: {error}{NO_AGENT}{NO_TLS}")
        }
    }
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
    let mut response = asked.map_err(|_| unanswered(admin, path, TIMEOUT))??;
    if response.answer.status() != StatusCode::OK {
        let body = tokio::time::timeout(TIMEOUT, whole(&mut response)).await;
        let why = match body {
            Ok(Err(error)) => error,
            Ok(Ok(_)) | Err(_) => response.answer.status().to_string(),
        };
        return Err(format!("{admin}{path}: {why}"));
    }
    let mut rest = BytesMut::new();
    loop {
        let frame = tokio::time::timeout(LINES_TIMEOUT, response.answer.body_mut().frame()).await;
        let frame = frame
            .map_err(|_| format!("the agent at {admin} has said nothing for {LINES_TIMEOUT:?}"))?;
        let Some(frame) = frame else { break };
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
    let (destination, host) = match unix_path(admin) {
        Some(file) => (Destination::Unix(file.into()), "localhost"),
        None => {
            let wrong = |error| refused(std::io::Error::new(ErrorKind::InvalidInput, error));
            let (host, port) = wire::address::split(admin).map_err(wrong)?;
            let options = SocketOptions::default();
            (Destination::Tcp { host: host.to_owned(), port, options, tls: None }, admin)
        }
    };
    let connection = destination.connect("http", TIMEOUT).await.map_err(refused)?;
    get(connection, host, path).await.map_err(|error| format!("{admin}{path}: {error}"))
}

async fn get(stream: Connection, host: &str, path: &str) -> Result<Coming, String> {
    let text = |error: hyper::Error| no_answer(&error);
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
    let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => format!("the answer is longer than {MAX_PAGE_LEN} bytes"),
        None => error.to_string(),
    });
    let body = body?.to_bytes();
    match status {
        StatusCode::OK => Ok(body),
        _ => {
            // With these an agent says why it does not answer.
            let is_agent = matches!(status.as_u16(), 400 | 403 | 421 | 503);
            let advice = if is_agent { "" } else { NO_AGENT };
            let reason = brief(&String::from_utf8_lossy(&body));
            let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
            Err(format!("{status}{reason}{advice}"))
        }
    }
}
