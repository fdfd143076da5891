//! The demo's load: real HTTP/1.1 calls, in the contest's form, over keep-alive connections.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use wire::{Backoff, socket};

use super::tally::Tally;
use crate::provider::{HELLO, java_hash};

/// After a connection failed: when to open the next. The agent is on this machine.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);
/// How long connecting to the agent may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Calls of a fixed rate that may wait for their answer; more are not sent, and counted so.
const MAX_IN_FLIGHT: usize = 2000;
/// An answer is a number, or a short error.
const MAX_ANSWER_LEN: usize = 64 * 1024;

/// How calls follow one another.
#[derive(Clone, Copy, Debug)]
pub enum CallPace {
    /// So many callers, each of which calls again as soon as it has its answer.
    Callers(NonZeroU32),
    /// So many calls a second, whatever becomes of those before.
    PerSecond(NonZeroU32),
}

/// Load on one agent; lives on a local runtime.
#[derive(Clone)]
pub(super) struct LoadGenerator(Rc<SharedLoad>);

struct SharedLoad {
    target: SocketAddr,
    tally: RefCell<Tally>,
    n_sent: Cell<u64>,
    stopped: Cell<bool>,
}

impl LoadGenerator {
    pub(super) fn new(target: SocketAddr) -> Self {
        Self(Rc::new(SharedLoad {
            target,
            tally: RefCell::default(),
            n_sent: Cell::new(0),
            stopped: Cell::new(false),
        }))
    }

    /// What came of the calls since the last time it was asked.
    pub(super) fn take(&self) -> Tally {
        self.0.tally.take()
    }

    /// No further calls; [`LoadGenerator::run`] ends when those in flight are answered.
    pub(super) fn stop(&self) {
        self.0.stopped.set(true);
    }

    /// Calls until it is stopped.
    pub(super) async fn run(&self, pace: CallPace) {
        let mut tasks = JoinSet::new();
        match pace {
            CallPace::Callers(n) => {
                for _ in 0..n.get() {
                    let state = Rc::clone(&self.0);
                    tasks.spawn_local(async move { state.call_without_pause().await });
                }
            }
            CallPace::PerSecond(rate) => self.0.clone().call_at(rate, &mut tasks).await,
        }
        while tasks.join_next().await.is_some() {}
    }
}

impl SharedLoad {
    async fn call_without_pause(&self) {
        let mut caller = HttpCaller::default();
        // It stays short: the demo shows how soon calls succeed again.
        let mut backoff = Backoff::new(RECONNECT_PAUSE, RECONNECT_PAUSE);
        while !self.stopped.get() {
            let is_connected = self.call(&mut caller, Instant::now()).await;
            if !is_connected {
                tokio::time::sleep(backoff.next_wait()).await;
            } else {
                backoff.reset();
            }
        }
    }

    /// Latencies count from when a call was due, so that a slow answer delays no other call.
    async fn call_at(self: Rc<Self>, rate: NonZeroU32, tasks: &mut JoinSet<()>) {
        let idle = Rc::<RefCell<Vec<HttpCaller>>>::default();
        let (started, mut n_due) = (Instant::now(), 0_u32);
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        while !self.stopped.get() {
            tick.tick().await;
            while tasks.try_join_next().is_some() {}
            loop {
                let due = started + Duration::from_secs(1) / rate.get() * n_due;
                if Instant::now() < due {
                    break;
                }
                n_due = n_due.saturating_add(1);
                if MAX_IN_FLIGHT <= tasks.len() {
                    self.tally.borrow_mut().record(Duration::ZERO, Err("not_sent".to_owned()));
                    continue;
                }
                let (state, idle) = (Rc::clone(&self), Rc::clone(&idle));
                tasks.spawn_local(async move {
                    let mut caller = idle.borrow_mut().pop().unwrap_or_default();
                    state.call(&mut caller, due).await;
                    idle.borrow_mut().push(caller);
                });
            }
        }
    }

    /// Makes one call and counts it; `false` if the connection failed.
    async fn call(&self, caller: &mut HttpCaller, since: Instant) -> bool {
        let n = self.n_sent.get();
        self.n_sent.set(n + 1);
        let word = format!("dubmesh-{n}");
        let outcome = caller.call(self.target, &word).await;
        let is_connected = outcome.is_ok();
        let outcome = outcome.unwrap_or_else(|_| Err("connection_failed".to_owned()));
        self.tally.borrow_mut().record(since.elapsed(), outcome);
        is_connected
    }
}

/// One keep-alive connection.
#[derive(Default)]
struct HttpCaller {
    stream: Option<TcpStream>,
    buf: Vec<u8>,
}

impl HttpCaller {
    /// Calls `hash(word)`: `Ok(Err)` is an answer that is an error, or the wrong one.
    async fn call(&mut self, target: SocketAddr, word: &str) -> io::Result<Result<(), String>> {
        // Comes back only if the connection can be used again.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let host = target.ip().to_string();
                socket::connect(&host, target.port(), CONNECT_TIMEOUT).await?
            }
        };
        let body = form(word);
        let request = format!(
            "POST / HTTP/1.1\r\nhost: {target}\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        self.buf.clear();
        let answer = loop {
            if let Some(answer) = ParsedResponse::read(&self.buf)? {
                break answer;
            }
            if MAX_ANSWER_LEN < self.buf.len() || stream.read_buf(&mut self.buf).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let outcome = answer.outcome(java_hash(word));
        self.stream = Some(stream);
        Ok(outcome)
    }
}

/// The body of a call of `hash(word)`; nothing in it needs to be percent-encoded.
pub(super) fn form(word: &str) -> String {
    format!(
        "interface={HELLO}&method=hash&parameterTypesString=Ljava/lang/String;&parameter={word}"
    )
}

/// A whole answer.
#[derive(Debug, Eq, PartialEq)]
struct ParsedResponse<'a> {
    status: u16,
    body: &'a [u8],
}

impl<'a> ParsedResponse<'a> {
    /// `None` until it is there whole.
    fn read(bytes: &'a [u8]) -> io::Result<Option<Self>> {
        let Some(head_len) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let (head, rest) = bytes.split_at(head_len);
        let head = std::str::from_utf8(head).map_err(io::Error::other)?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let len = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let (Some(status), Some(len)) = (status, len) else {
            return Err(io::Error::other("not an answer with a length"));
        };
        Ok(rest.get(4..).and_then(|rest| rest.get(..len)).map(|body| Self { status, body }))
    }

    /// Whether it is the right one, or else a code for what it is.
    fn outcome(&self, expected: i32) -> Result<(), String> {
        if self.status == 200 {
            let is_right = self.body == expected.to_string().as_bytes();
            return if is_right { Ok(()) } else { Err("wrong_answer".to_owned()) };
        }
        let error: serde_json::Value = serde_json::from_slice(self.body).unwrap_or_default();
        let code = error.get("code").and_then(serde_json::Value::as_str);
        Err(code.map_or_else(|| format!("http_{}", self.status), str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_when_they_are_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx: y\r\n\r\n42";
        for len in 0..whole.len() {
            assert_eq!(ParsedResponse::read(&whole[..len]).unwrap(), None, "{len}");
        }
        let answer = ParsedResponse::read(whole).unwrap().unwrap();
        assert_eq!(answer, ParsedResponse { status: 200, body: b"42" });
        assert_eq!(answer.outcome(42), Ok(()));
        assert_eq!(answer.outcome(43), Err("wrong_answer".to_owned()));
        let shed = ParsedResponse { status: 503, body: b"{\"code\":\"overloaded\"}" };
        assert_eq!(shed.outcome(0), Err("overloaded".to_owned()));
        assert_eq!(
            ParsedResponse { status: 500, body: b"" }.outcome(0),
            Err("http_500".to_owned())
        );
        assert!(ParsedResponse::read(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
