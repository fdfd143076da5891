//! The admin listener: metrics and health over HTTP/1.1, for operators and orchestrators.
//!
//! Not the data plane: it runs on the control thread, and is slow compared to it. Invariants:
//! - It holds at most `MAX_CONNECTIONS` connections, none of them longer than
//!   `MAX_CONNECTION_AGE`, so that nobody who reaches it can use up the agent's memory.
//! - A new connection is always served: if there are as many as may be, the one that has been
//!   silent longest makes room. So nobody can keep health checks out by being silent.
//! - It changes nothing: all routes are read by GET.
//! - It answers only who calls it by a name that nobody else can give to this machine.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use wire::{Connection, Files, Limits, Listener};

use crate::error::clip;
use crate::ingress::http::{head, site};
use crate::metrics::{self, Hub};

/// A few scrapers and people; an agent is asked by no more.
const MAX_CONNECTIONS: usize = 64;

/// A request head is one packet, and the address is a local one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest request head in bytes; hyper's own lower bound.
const MAX_HEAD_LEN: usize = 8 * 1024;

/// After this a connection ends with its current answer, so that one who reads slowly or never
/// does not keep a place for ever.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(120);

/// How long that last answer may take.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

const TEXT: &str = "text/plain; charset=utf-8";

const ROUTES: &str = "\
/metrics  what was counted, for Prometheus
/healthz  200 while the process is alive
/readyz   200 while calls are taken; otherwise 503 and the reasons, one a line
";

/// What the admin listener shows.
#[derive(Clone, Debug)]
pub struct AdminState {
    /// What `/metrics` renders.
    pub hub: Hub,
    /// What `/readyz` tells.
    pub readiness: Readiness,
    /// Names by which it may be called, beside addresses and the names of this machine for itself.
    pub hosts: Arc<[String]>,
}

/// Whether the agent can take calls, and if not, why. A clone is another handle to the same.
///
/// It is ready when nothing stands against it. Each part of the agent that has to come up first
/// says so by [`block`](Self::block), and later [`clear`](Self::clear)s it.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_draining: bool,
    /// By the part that is not ready.
    reasons: BTreeMap<String, String>,
}

impl Readiness {
    /// Ready, as nothing is known against it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Not ready while `part` is not; a former reason of the same part is replaced.
    pub fn block(&self, part: &str, reason: impl Into<String>) {
        self.state().reasons.insert(part.to_owned(), reason.into());
    }

    /// Nothing of `part` stands against it any more.
    pub fn clear(&self, part: &str) {
        self.state().reasons.remove(part);
    }

    /// Not ready from now on, until the end of the process.
    pub fn drain(&self) {
        self.state().is_draining = true;
    }

    /// Whether nothing stands against it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let state = self.state();
        !state.is_draining && state.reasons.is_empty()
    }

    /// What stands against it, one line each, `PART: REASON`; empty when ready.
    #[must_use]
    pub fn reasons(&self) -> String {
        let state = self.state();
        let mut text = String::new();
        if state.is_draining {
            text.push_str("agent: draining\n");
        }
        for (part, reason) in &state.reasons {
            // Writing to a `String` never fails.
            let _ = writeln!(text, "{part}: {reason}");
        }
        text
    }

    /// No code that can panic runs under the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The listener to [`serve`]. It takes connections when those for calls are out of descriptors.
///
/// # Errors
/// What the operating system says.
pub fn listener(
    socket: std::net::TcpListener,
    files: Files,
    hub: &Hub,
) -> std::io::Result<Listener> {
    let counts = hub.connections(&socket.local_addr()?.to_string());
    // Room for the one that another has to leave for.
    let limits = Limits { max_connections: MAX_CONNECTIONS + 1, key: "the admin listener", files };
    Listener::new(socket, "admin", limits, counts)
}

/// Answers on `listener` until the future is dropped, which closes all connections.
pub async fn serve(mut listener: Listener, state: AdminState) {
    let mut tasks = JoinSet::new();
    let mut seats: Vec<Seat> = Vec::new();
    loop {
        let stream = listener.accept().await;
        while tasks.try_join_next().is_some() {}
        seats.retain(|seat| !seat.task.is_finished());
        while MAX_CONNECTIONS <= tasks.len() {
            leave_longest_silent(&mut seats);
            // It has nothing to wait for, so this is soon.
            tasks.join_next().await;
        }
        let active = LastActive::new();
        let task = tasks.spawn(connection(stream, state.clone(), active.clone()));
        seats.push(Seat { active, task });
    }
}

/// A connection that is being served.
struct Seat {
    active: LastActive,
    task: AbortHandle,
}

/// When a connection was accepted, or brought its last request.
#[derive(Clone)]
struct LastActive(Arc<Mutex<Instant>>);

impl LastActive {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn note_request(&self) {
        *self.lock() = Instant::now();
    }

    fn at(&self) -> Instant {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the connection that has asked nothing for the longest time.
fn leave_longest_silent(seats: &mut Vec<Seat>) {
    let oldest = seats.iter().enumerate().min_by_key(|(_, seat)| seat.active.at());
    if let Some((index, _)) = oldest {
        seats.swap_remove(index).task.abort();
        tracing::debug!(
            "admin: {MAX_CONNECTIONS} connections are open; the longest silent one ends"
        );
    }
}

async fn connection(stream: Connection, state: AdminState, active: LastActive) {
    let service = service_fn(|request| {
        active.note_request();
        let response = answer(&state, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_LEN)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = match timeout(MAX_CONNECTION_AGE, connection.as_mut()).await {
        Ok(ended) => ended,
        Err(_) => {
            connection.as_mut().graceful_shutdown();
            end(connection).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "admin: connection failed");
    }
}

/// Waits for the last answer of a connection, but not for ever.
async fn end(
    connection: impl Future<Output = Result<(), hyper::Error>>,
) -> Result<(), hyper::Error> {
    timeout(LAST_ANSWER_TIMEOUT, connection).await.unwrap_or(Ok(()))
}

fn answer(state: &AdminState, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if let Err(host) = known_host(request, &state.hosts) {
        let message = format!(
            "{:?} is not known as a name of this agent; ask by an address, or list the name in hosts of [admin]\n",
            clip(&host)
        );
        return text(StatusCode::MISDIRECTED_REQUEST, message);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response =
            text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/" => text(StatusCode::OK, ROUTES.to_owned()),
        "/healthz" => text(StatusCode::OK, "alive\n".to_owned()),
        "/readyz" => match state.readiness.reasons() {
            reasons if reasons.is_empty() => text(StatusCode::OK, "ready\n".to_owned()),
            reasons => text(StatusCode::SERVICE_UNAVAILABLE, reasons),
        },
        "/metrics" => {
            let mut response = text(StatusCode::OK, state.hub.render());
            let media_type = HeaderValue::from_static(metrics::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            response
        }
        _ => text(StatusCode::NOT_FOUND, format!("there is no such page; there are\n{ROUTES}")),
    }
}

/// Refuses a name that somebody else may have given to this machine's address, so that a web page could read
/// what is here (DNS rebinding). A browser always sends the name.
fn known_host(request: &Request<Incoming>, hosts: &[String]) -> Result<(), String> {
    let mut names = request.headers().get_all(HOST).iter();
    let Some(name) = names.next() else {
        return match request.version() {
            Version::HTTP_11 => Err(String::new()),
            _ => Ok(()),
        };
    };
    let name = name.to_str().unwrap_or_default();
    let is_known = head::is_host(name) && site::is_known_host(name, hosts);
    if is_known && names.next().is_none() { Ok(()) } else { Err(name.to_owned()) }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    // A proxy that keeps yesterday's health is worse than none.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use super::*;

    const NAMES: &[&str] = &["timeout"];

    /// Runs `client` against a server; both are gone afterwards.
    fn with_server(client: impl FnOnce(SocketAddr, &AdminState) + Send + 'static) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let hosts = ["mesh.example".to_owned()].into();
            let state = AdminState { hub: Hub::new(NAMES), readiness: Readiness::new(), hosts };
            let socket = wire::listen("127.0.0.1:0".parse().unwrap(), "admin.listen").unwrap();
            let listener = listener(socket, Files::of_process(), &state.hub).unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(serve(listener, state.clone()));
            let client = tokio::task::spawn_blocking(move || client(address, &state));
            client.await.unwrap();
            server.abort();
        });
    }

    /// Sends `bytes` and reads until the server closes.
    fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    fn get(address: SocketAddr, path: &str) -> String {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        exchange(address, request.as_bytes())
    }

    #[test]
    fn every_route_answers() {
        with_server(|address, state| {
            let root = get(address, "/");
            assert!(root.starts_with("HTTP/1.1 200 OK\r\n") && root.ends_with(ROUTES), "{root}");
            assert!(get(address, "/healthz").ends_with("\r\n\r\nalive\n"));
            let _stats = state.hub.ingress("127.0.0.1:1");
            let reply = get(address, "/metrics");
            assert!(reply.contains(&format!("content-type: {}\r\n", metrics::CONTENT_TYPE)));
            assert!(reply.contains("dubmesh_ingress_in_flight{listener=\"127.0.0.1:1\"} 0\n"));
            let reply = get(address, "/nothing");
            assert!(reply.starts_with("HTTP/1.1 404 ") && reply.ends_with(ROUTES), "{reply}");
        });
    }

    #[test]
    fn readiness_tells_what_is_missing() {
        with_server(|address, state| {
            assert!(get(address, "/readyz").starts_with("HTTP/1.1 200 "));
            state.readiness.block("registry main", "not connected");
            state.readiness.block("link", "cannot listen");
            state.readiness.block("link", "starting");
            let reply = get(address, "/readyz");
            assert!(reply.starts_with("HTTP/1.1 503 "), "{reply}");
            assert!(reply.ends_with("\r\n\r\nlink: starting\nregistry main: not connected\n"));
            state.readiness.clear("registry main");
            state.readiness.clear("link");
            assert!(state.readiness.is_ready());
            assert!(get(address, "/readyz").ends_with("\r\n\r\nready\n"));
            state.readiness.drain();
            assert!(get(address, "/readyz").ends_with("\r\n\r\nagent: draining\n"));
            assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 "));
        });
    }

    #[test]
    fn bad_requests_are_refused() {
        with_server(|address, _| {
            let post = b"POST /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            let reply = exchange(address, post);
            assert!(reply.starts_with("HTTP/1.1 405 ") && reply.contains("allow: GET, HEAD\r\n"));
            assert!(exchange(address, b"nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
            let mut long = b"GET / HTTP/1.1\r\nx: ".to_vec();
            // No more than is read, or the close would overtake the answer.
            long.resize(MAX_HEAD_LEN, b'a');
            assert!(exchange(address, &long).starts_with("HTTP/1.1 431 "));
        });
    }

    #[test]
    fn a_name_that_somebody_else_has_given_is_refused() {
        with_server(|address, _| {
            let get = |hosts: &str| {
                let request = format!("GET /metrics HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
                exchange(address, request.as_bytes())
            };
            for good in
                ["localhost:9700", "127.0.0.1", "[::1]:9700", "10.1.2.3:9700", "Mesh.Example"]
            {
                let reply = get(&format!("host: {good}\r\n"));
                assert!(reply.starts_with("HTTP/1.1 200 "), "{good}: {reply}");
            }
            for bad in [
                "host: evil.example:9700\r\n",
                "host: a b\r\n",
                "host:\r\n",
                "",
                "host: localhost\r\nhost: localhost\r\n",
            ] {
                let reply = get(bad);
                assert!(reply.starts_with("HTTP/1.1 421 "), "{bad}: {reply}");
                assert!(reply.contains("hosts of [admin]"), "{reply}");
            }
        });
    }

    #[test]
    fn head_has_no_body_and_the_connection_stays() {
        with_server(|address, _| {
            let two = b"HEAD /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n\
                        GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            let reply = exchange(address, two);
            assert_eq!(reply.matches("HTTP/1.1 200 OK\r\n").count(), 2);
            assert_eq!(reply.matches("alive\n").count(), 1);
        });
    }

    /// Asks and leaves the connection open.
    fn ask(stream: &mut TcpStream) {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut reply = Vec::new();
        while !reply.ends_with(b"alive\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            reply.push(byte[0]);
        }
    }

    fn is_open(stream: &TcpStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        let read = (&*stream).read(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    #[test]
    fn silent_connections_make_room_for_new_ones() {
        with_server(|address, state| {
            let start = Instant::now();
            let mut asking = TcpStream::connect(address).unwrap();
            ask(&mut asking);
            let silent: Vec<_> =
                (1..MAX_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
            let counts = state.hub.connections(&address.to_string());
            while counts.n_open() < MAX_CONNECTIONS as u64 {
                std::thread::yield_now();
            }
            // All places are taken. Whoever asks is active, so the silent ones go first.
            ask(&mut asking);
            for n in 1..=3 {
                assert!(get(address, "/healthz").ends_with("alive\n"), "{n}");
            }
            assert!(start.elapsed() < HEAD_TIMEOUT, "it was not their own timeout that made room");
            assert!(silent.iter().any(|stream| !is_open(stream)));
            ask(&mut asking);
            assert!(counts.n_open() <= MAX_CONNECTIONS as u64);
            drop((silent, asking));
            while counts.n_open() != 0 {
                std::thread::yield_now();
            }
        });
    }
}
