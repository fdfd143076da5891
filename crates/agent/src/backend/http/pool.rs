//! Connections of one worker to one HTTP app: kept alive, and bounded in number and in time.
//!
//! Invariants:
//! - A connection carries one request at a time; a call whose time is up takes its connection with
//!   it, which tells the app that nobody waits any more.
//! - A request of which a byte was sent is sent once more at most, and on a new connection: if it
//!   is idempotent, and the app closed a connection that it had kept, without a byte of an answer.
//! - An app may send few interim answers (1xx) to a request (`interim`).
//! - Calls that run and calls that wait for a connection are bounded together.

use std::cell::{Cell, RefCell};
use std::error::Error as _;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use tokio::sync::Semaphore;
use tracing::debug;
use wire::{Account, Hold, Meter, OverBudget};

use super::interim::{AppStream, InterimCount, TooManyInterimAnswers};
use crate::config::http_app::origin::AppOrigin;
use crate::connections::{Connections, Direction, Session, SessionActivity};
use crate::error::{CallError, Code};
use crate::memory::no_room_for_reply;
use crate::offload::Threads;

/// Longest head of an answer; attachments travel in it.
const MAX_HEAD_LEN: usize = 64 * 1024;
/// Most fields in it.
const MAX_HEADERS: usize = 100;

/// Bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Connections at once.
    pub max_connections: usize,
    /// Calls at once, those that wait for a connection among them.
    pub max_in_flight: usize,
    /// Longest wait for a new connection.
    pub connect_timeout: Duration,
    /// How long a connection may be idle and still be used: shorter than the app keeps it, so that
    /// no request meets a connection that is just being closed.
    pub idle_timeout: Duration,
    /// Longest body of an answer, in bytes.
    pub max_answer_len: usize,
}

/// The connections.
pub struct HttpPool {
    origin: AppOrigin,
    address: Rc<str>,
    limits: PoolLimits,
    /// The worker that it belongs to; `None` for health checks.
    pub(super) worker: Option<WorkerResources>,
    /// The one that was used last is at the end, and is used first.
    idle: RefCell<Vec<Idle>>,
    places: Semaphore,
    n_calls: Cell<usize>,
}

/// What a pool has of the worker that it belongs to.
pub struct WorkerResources {
    /// What requests and answers draw from.
    pub account: Rc<Account>,
    /// The table of the worker's connections.
    pub connections: Connections,
    /// What writes long requests.
    pub threads: Threads,
}

struct Idle {
    kept: KeptConnection,
    since: Instant,
}

/// A connection that may carry the next request.
struct KeptConnection {
    sender: SendRequest<Full<Bytes>>,
    /// What the table of connections knows of it. It ends with the connection.
    listed: Weak<PooledConnection>,
    /// Counts its bytes.
    meter: Arc<Meter>,
    interim: InterimCount,
}

/// A connection as the table shows it.
#[derive(Default)]
struct PooledConnection {
    is_calling: Cell<bool>,
    /// What the request takes of the budget.
    request_bytes: Cell<usize>,
    /// What has come of the answer takes so much of it.
    answer_bytes: Cell<usize>,
}

impl Session for PooledConnection {
    /// A connection without a call holds nobody up, and a call ends by itself.
    fn drain(&self) {}

    /// A call has a deadline of its own.
    fn check_time(&self, _: Instant) {}

    fn activity(&self) -> SessionActivity {
        let is_calling = self.is_calling.get();
        SessionActivity {
            doing: if is_calling { "calling" } else { "idle" },
            in_flight: usize::from(is_calling),
            held_bytes: self.request_bytes.get() + self.answer_bytes.get(),
            peer_name: None,
        }
    }
}

impl KeptConnection {
    /// A call begins whose request takes so much of the budget.
    fn begin(&self, request_bytes: usize) {
        self.note(|listed| {
            listed.is_calling.set(true);
            listed.request_bytes.set(request_bytes);
        });
    }

    /// The answer takes so much of the budget by now.
    fn hold(&self, answer_bytes: usize) {
        self.note(|listed| listed.answer_bytes.set(answer_bytes));
    }

    /// The call has ended.
    fn end(&self) {
        self.note(|listed| {
            listed.is_calling.set(false);
            listed.request_bytes.set(0);
            listed.answer_bytes.set(0);
        });
    }

    fn note(&self, note: impl FnOnce(&PooledConnection)) {
        if let Some(listed) = self.listed.upgrade() {
            note(&listed);
        }
    }
}

/// An answer, whole.
#[derive(Debug)]
pub struct WholeResponse {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// What that takes of the budget.
    pub hold: Option<Hold>,
}

/// How a request failed on one connection.
enum FailedExchange {
    /// Not one byte of the request was sent.
    Unsent(Box<Request<Full<Bytes>>>, CallError),
    /// The connection ended before a byte of an answer.
    Unanswered(CallError),
    /// It ended later, or the answer cannot be read.
    Broken(CallError),
}

impl FailedExchange {
    fn into_error(self) -> CallError {
        match self {
            Self::Unsent(_, error) | Self::Unanswered(error) | Self::Broken(error) => error,
        }
    }
}

/// Counts a call while it runs or waits.
struct CallCountGuard<'a>(&'a Cell<usize>);

impl Drop for CallCountGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl HttpPool {
    /// A pool without a connection.
    pub fn new(origin: AppOrigin, limits: PoolLimits, worker: Option<WorkerResources>) -> Self {
        Self {
            address: origin.address().into(),
            origin,
            limits,
            worker,
            idle: RefCell::default(),
            places: Semaphore::new(limits.max_connections),
            n_calls: Cell::new(0),
        }
    }

    /// Where the app is, as messages say it.
    pub fn address(&self) -> &Rc<str> {
        &self.address
    }

    /// Takes room for a request of so many bytes.
    ///
    /// # Errors
    /// [`OverBudget`].
    pub fn hold(&self, len: usize) -> Result<Option<Hold>, OverBudget> {
        self.worker.as_ref().map(|worker| worker.account.take(len)).transpose()
    }

    /// Sends a request, for which `hold` has the room, and waits for the whole answer, until
    /// `deadline`.
    ///
    /// # Errors
    /// [`Code::Overloaded`] if there is no connection or no memory for it, [`Code::Unreachable`]
    /// if the app cannot be connected to, and what can go wrong on a connection.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        hold: Option<Hold>,
        deadline: Instant,
    ) -> Result<WholeResponse, CallError> {
        let n_calls = self.n_calls.get();
        if self.limits.max_in_flight <= n_calls {
            return Err(self.error(
                Code::Overloaded,
                format!("{n_calls} calls are in flight, which is the limit (max_in_flight)"),
            ));
        }
        let held = hold.as_ref().map_or(0, Hold::len);
        self.n_calls.set(n_calls + 1);
        let _counted = CallCountGuard(&self.n_calls);
        let place = tokio::time::timeout_at(deadline.into(), self.places.acquire()).await;
        // Who gives up frees its place for one who has to give up as well.
        let place = place.ok().and_then(Result::ok).filter(|_| Instant::now() < deadline);
        let Some(_place) = place else {
            let max = self.limits.max_connections;
            let message =
                format!("all {max} connections (max_connections) were busy until the deadline");
            return Err(self.error(Code::Overloaded, message));
        };
        let exchange = self.exchange(request, held, deadline);
        match tokio::time::timeout_at(deadline.into(), exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(self.error(Code::Timeout, "no answer before the deadline")),
        }
    }

    async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        request_bytes: usize,
        deadline: Instant,
    ) -> Result<WholeResponse, CallError> {
        // Kept connections end at any time, also while a request is on its way.
        while let Some(kept) = self.take_idle().await {
            let again = request.method().is_idempotent().then(|| request.clone());
            match (self.exchange_on(kept, request, request_bytes).await, again) {
                (Ok(answer), _) => return Ok(answer),
                (Err(FailedExchange::Unsent(unsent, _)), _) => request = *unsent,
                (Err(FailedExchange::Unanswered(_)), Some(again)) => {
                    // An app that has closed one of the connections may have closed all.
                    let repeated = self.exchange_anew(again, request_bytes, deadline).await;
                    return repeated.map_err(|error| self.sent_before(error));
                }
                (Err(failed), _) => return Err(failed.into_error()),
            }
        }
        self.exchange_anew(request, request_bytes, deadline).await
    }

    async fn exchange_anew(
        &self,
        request: Request<Full<Bytes>>,
        request_bytes: usize,
        deadline: Instant,
    ) -> Result<WholeResponse, CallError> {
        let new = self.connect(deadline).await?;
        self.exchange_on(new, request, request_bytes).await.map_err(FailedExchange::into_error)
    }

    /// The failure of a request that was sent before, and may have been carried out then.
    fn sent_before(&self, error: CallError) -> CallError {
        if error.code != Code::Unreachable {
            return error;
        }
        let then = &error.message;
        let message = format!("the app closed the connection without an answer; then: {then}");
        self.error(Code::ConnectionBroken, message)
    }

    async fn exchange_on(
        &self,
        mut kept: KeptConnection,
        mut request: Request<Full<Bytes>>,
        request_bytes: usize,
    ) -> Result<WholeResponse, FailedExchange> {
        kept.begin(request_bytes);
        kept.interim.begin(&mut request);
        let n_read = kept.meter.bytes_read();
        let mut error = match kept.sender.try_send_request(request).await {
            Ok(response) => {
                let answer = self.whole(response, &kept).await.map_err(FailedExchange::Broken)?;
                kept.end();
                self.idle.borrow_mut().push(Idle { kept, since: Instant::now() });
                return Ok(answer);
            }
            Err(error) => error,
        };
        let unsent = error.take_message();
        let error = error.into_error();
        Err(match unsent {
            Some(unsent) => {
                let error = self.error(Code::Unreachable, self.said(&error));
                FailedExchange::Unsent(Box::new(unsent), error)
            }
            None if kept.meter.bytes_read() == n_read => {
                FailedExchange::Unanswered(self.broken(&error))
            }
            None => FailedExchange::Broken(self.broken(&error)),
        })
    }

    async fn whole(
        &self,
        response: Response<Incoming>,
        kept: &KeptConnection,
    ) -> Result<WholeResponse, CallError> {
        kept.interim.check().map_err(|error| self.error(Code::BadReply, error.to_string()))?;
        let (head, body) = response.into_parts();
        let (body, hold) = self.collect(body, kept).await?;
        Ok(WholeResponse { status: head.status, headers: head.headers, body, hold })
    }

    /// A connection that is there already and, as far as is known, still good.
    async fn take_idle(&self) -> Option<KeptConnection> {
        loop {
            let Idle { mut kept, since } = self.idle.borrow_mut().pop()?;
            if self.limits.idle_timeout <= since.elapsed() {
                // Those below were used even longer ago.
                self.idle.borrow_mut().clear();
                return None;
            }
            // The driver of the connection may not have run yet since the last answer's end.
            if kept.sender.ready().await.is_ok() {
                return Some(kept);
            }
        }
    }

    async fn connect(&self, deadline: Instant) -> Result<KeptConnection, CallError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = self.limits.connect_timeout.min(left);
        let stream = self.origin.connect(timeout).await.map_err(|error| {
            self.error(Code::Unreachable, format!("cannot connect to the app: {error}"))
        })?;
        let (facts, meter) = (stream.facts(), stream.meter());
        let interim = InterimCount::default();
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_LEN)
            .max_headers(MAX_HEADERS)
            .handshake(AppStream::new(stream, interim.clone()))
            .await
            .map_err(|error| self.error(Code::Unreachable, self.said(&error)))?;
        let listed = Rc::new(PooledConnection::default());
        if let Some(worker) = &self.worker {
            worker.connections.add(facts, Arc::clone(&meter), Direction::Upstream, &listed);
        }
        let kept = KeptConnection { sender, listed: Rc::downgrade(&listed), meter, interim };
        let address = Rc::clone(&self.address);
        tokio::task::spawn_local(async move {
            if let Err(error) = connection.await {
                debug!(app = %address, %error, "{facts} ended");
            }
            drop(listed);
        });
        Ok(kept)
    }

    /// All data of a body; the usual one piece is not copied.
    async fn collect(
        &self,
        mut body: Incoming,
        kept: &KeptConnection,
    ) -> Result<(Bytes, Option<Hold>), CallError> {
        let max_len = self.limits.max_answer_len;
        let too_long = || {
            let message =
                format!("the answer is over the limit of {max_len} bytes (max_answer_bytes)");
            Err(self.error(Code::ReplyTooLarge, message))
        };
        if usize::try_from(body.size_hint().lower()).map_or(true, |len| max_len < len) {
            return too_long();
        }
        let mut first = Bytes::new();
        let mut pieces: Option<BytesMut> = None;
        let no_room = |len, refused| {
            let error = no_room_for_reply(len, &refused);
            error.at(&self.address)
        };
        let mut hold = self.hold(0).map_err(|refused| no_room(0, refused))?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.broken(&error))?;
            let Ok(data) = frame.into_data() else { continue };
            let len = pieces.as_ref().map_or(first.len(), BytesMut::len);
            if max_len < len + data.len() {
                return too_long();
            }
            let arrived_len = len + data.len();
            if let Some(hold) = &mut hold
                && hold.len() < arrived_len
            {
                let wanted = buffer_len(len, arrived_len, pieces.is_some());
                hold.resize(wanted).map_err(|refused| no_room(arrived_len, refused))?;
                kept.hold(hold.len());
            }
            match &mut pieces {
                None if first.is_empty() => first = data,
                None => pieces.insert(BytesMut::from(&first[..])).extend_from_slice(&data),
                Some(pieces) => pieces.extend_from_slice(&data),
            }
        }
        Ok((pieces.map_or(first, BytesMut::freeze), hold))
    }

    /// What went wrong after the request was sent.
    fn broken(&self, error: &hyper::Error) -> CallError {
        let code = match is_bad_answer(error) {
            true => Code::BadReply,
            false => Code::ConnectionBroken,
        };
        self.error(code, self.said(error))
    }

    /// An error of the connection with what is behind it.
    fn said(&self, error: &hyper::Error) -> String {
        let Some(source) = error.source() else {
            if error.is_parse_too_large() {
                return format!(
                    "the head of the app's answer has more than {MAX_HEAD_LEN} bytes, or more than \
                     {MAX_HEADERS} fields"
                );
            }
            let what = if is_bad_answer(error) { "the app's answer is not HTTP: " } else { "" };
            return format!("{what}{error}");
        };
        let broken = source.downcast_ref::<std::io::Error>();
        let inner = broken.and_then(std::io::Error::get_ref);
        if let Some(too_many) =
            inner.and_then(|inner| inner.downcast_ref::<TooManyInterimAnswers>())
        {
            return too_many.to_string();
        }
        match broken.map(|broken| (broken.kind(), wire::tls::words(broken, "app"))) {
            Some((_, Some(words))) => words,
            Some((std::io::ErrorKind::UnexpectedEof, None)) if self.origin.has_tls() => {
                "the app closed the connection during the TLS handshake; it may have refused our \
                 certificate, or may require one"
                    .to_owned()
            }
            Some((std::io::ErrorKind::UnexpectedEof, None)) => {
                "the app closed the connection before the end of its answer".to_owned()
            }
            Some((std::io::ErrorKind::InvalidData, None)) => {
                format!("the chunks of the app's answer cannot be read: {source}")
            }
            _ if is_bad_answer(error) => format!("the app's answer is not HTTP: {source}"),
            _ => format!("{error}: {source}"),
        }
    }

    fn error(&self, code: Code, message: impl Into<Box<str>>) -> CallError {
        CallError::new(code, message).at(&self.address)
    }
}

/// How long the buffer becomes that held `len` bytes of an answer and takes more, up to
/// `arrived_len`. It doubles as soon as it has to be copied.
fn buffer_len(len: usize, arrived_len: usize, is_copied: bool) -> usize {
    if is_copied { arrived_len.max(2 * len) } else { arrived_len }
}

/// Whether the app answered, and not by HTTP.
fn is_bad_answer(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    // hyper says so of chunks and trailers that are none, or too long.
    let is_bad_body = |source: &std::io::Error| {
        matches!(source.kind(), std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData)
    };
    error.is_parse() || error.is_parse_too_large() || source.is_some_and(is_bad_body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken from the budget is what the buffer really has.
    #[test]
    fn an_answer_in_many_pieces_takes_what_its_buffer_takes() {
        assert_eq!(buffer_len(0, 100, false), 100, "the first piece is not copied");
        assert_eq!(buffer_len(100, 150, true), 200);
        assert_eq!(buffer_len(100, 300, true), 300);
    }

    #[test]
    fn a_connection_counts_a_call_until_its_end() {
        let listed = Rc::new(PooledConnection::default());
        assert_eq!((listed.activity().doing, listed.activity().in_flight), ("idle", 0));
        listed.is_calling.set(true);
        listed.request_bytes.set(3);
        listed.answer_bytes.set(4);
        let activity = listed.activity();
        assert_eq!((activity.doing, activity.in_flight, activity.held_bytes), ("calling", 1, 7));
    }
}
