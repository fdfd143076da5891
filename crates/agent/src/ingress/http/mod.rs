//! Calls by HTTP/1.1 and HTTP/2.
//!
//! - `POST /` with a form: the contest's way, answered by the bare value as text.
//! - `POST /{interface}/{method}` with JSON: an array of arguments, or one bare value; answered by
//!   the JSON value.
//!
//! `session` is one connection, `head` what its requests say before the call, `call_headers` what
//! their headers say of it, `web_pages` which web pages may call. `body` puts bodies together,
//! `form` and `json` read calls, `options` what form of JSON they want. `answer` writes responses,
//! `outgoing_answer` hands them out piece by piece, `prepared_answers` has those to what is no
//! HTTP. `chunks` watches the lengths of chunked bodies, for which `last_read` keeps what is read
//! of a head.

mod answer;
mod body;
mod call_headers;
mod chunks;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod exercise;
mod form;
pub(crate) mod head;
mod json;
mod last_read;
mod listener;
mod options;
mod outgoing_answer;
mod prepared_answers;
mod session;
pub(crate) mod web_pages;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use dubbo_proto::ServiceKey;
use hessian::transcode::{JsonOptions, RefStyle};
use http::request::Parts;
use http::{Method, Response, Version};
use hyper::body::{Body, Incoming};
use tracing::debug;
use wire::Group;

use self::body::{discard_rest, read_body};
use self::call_headers::CallHeaders;
use self::head::HeadFacts;
pub use self::listener::planned;
use self::session::Active;
pub use self::session::HttpSession;
use crate::call::ProviderReply;
use crate::config::HttpIngressConfig;
use crate::content::{Charset, is_identity, without_mark};
use crate::error::{CallError, Code, clip};
use crate::invocation::{CallOrigin, Invocation};
use crate::invoke::{instead_of_unreadable, invoke};
use crate::journal::{self, CallSource, JournalEntry};
use crate::metrics::CallStats;
use crate::route::RouteName;
use crate::stages::{self, CallSide, Stage};
use crate::worker::Worker;

/// The calls of HTTP callers.
const SOURCE: CallSource =
    CallSource { protocol: "http", side: CallSide::Ingress, first: Stage::Read };

/// What all connections of a listener have in common.
pub struct HttpListener {
    /// The listener's limits.
    pub config: HttpIngressConfig,
    /// What counts its calls, by number of the worker.
    pub stats: Vec<Arc<CallStats>>,
    /// What its connections hold.
    pub memory: Arc<Group>,
}

/// How the caller wants its answer.
#[derive(Clone, Copy)]
enum AnswerStyle {
    /// The bare value as text.
    Text,
    /// The value as JSON.
    Json,
}

/// What a request is answered with.
type HttpAnswer = Response<Bytes>;

/// Answers one request; a failure is an answer, too.
async fn handle(
    worker: &Worker,
    listener: &HttpListener,
    active: &Active,
    room: Result<(), CallError>,
    head: &Parts,
    mut body: Incoming,
) -> HttpAnswer {
    let (session, started) = (active.session(), Instant::now());
    let cors = listener.config.cors.as_ref();
    let facts = room.and_then(|()| HeadFacts::read(head));
    if facts.as_ref().is_ok_and(|facts| facts.is_chunked) {
        session.watch_chunks(listener.config.max_body_len);
    }
    let page = facts
        .and_then(|facts| Ok((facts, web_pages::judge(&facts, cors, &listener.config.hosts)?)));
    // Who asks whether a call may be made has not made one.
    if let (Ok((facts, Some(origin))), Some(cors)) = (&page, cors)
        && web_pages::is_preflight(head, facts)
    {
        let mut answer = web_pages::preflight(head, cors);
        web_pages::share(answer.headers_mut(), cors, Some(*origin));
        return answer;
    }
    let origin = page.as_ref().ok().and_then(|(_, origin)| *origin);
    let stats = &listener.stats[worker.index];
    stats.started();
    let mut counted = CallStatsGuard { stats, started, code: Some(Code::Cancelled as u8) };
    let mut entry = worker.journal.begin(SOURCE, Some(session.peer()), started);
    if let Some(clock) = entry.as_ref().and_then(|entry| entry.clock()) {
        active.keep(clock);
    }
    if let Some(entry) = entry.as_mut().filter(|entry| entry.is_told()) {
        note_head(entry, head, &body);
    }
    let result = match page {
        Ok((facts, _)) => {
            let request = CallRequest { head, facts: &facts, body: &mut body, session };
            answer_request(worker, listener, request, started, &mut entry).await
        }
        Err(error) => {
            told(listener, &error);
            Err(error)
        }
    };
    if let (Some(entry), Err(error)) = (entry, &result) {
        entry.failed(error, None);
    }
    counted.code = result.as_ref().err().map(|error| error.code as u8);
    let mut answer = result.unwrap_or_else(|error| {
        let mut answer = answer::error(&error, head.version);
        if head.version == Version::HTTP_2 && error.code != Code::HeadTooLarge {
            discard_rest(body);
        }
        if error.code == Code::RequestTimeout || session.expects_more() {
            answer::close(&mut answer, head.version);
        }
        answer
    });
    if let Some(cors) = cors {
        web_pages::share(answer.headers_mut(), cors, origin);
    }
    answer
}

/// A request that asks for a call.
struct CallRequest<'a> {
    head: &'a Parts,
    facts: &'a HeadFacts<'a>,
    body: &'a mut Incoming,
    session: &'a HttpSession,
}

/// Counts a call however it ends: when its future is dropped the caller has gone away.
struct CallStatsGuard<'a> {
    stats: &'a CallStats,
    started: Instant,
    code: Option<u8>,
}

impl Drop for CallStatsGuard<'_> {
    fn drop(&mut self) {
        self.stats.finished(self.started.elapsed(), self.code);
    }
}

/// Tells what a call was answered.
#[cold]
fn tell(entry: Box<JournalEntry>, reply: &ProviderReply, error: Option<&CallError>) {
    match error {
        None => entry.answered(journal::RecordedAnswer {
            endpoint: Some(&reply.endpoint),
            len: reply.body.len(),
            failure: None,
        }),
        Some(error) => entry.failed(error, Some(&reply.endpoint)),
    }
}

/// Notes what a request's head says, which may be all that is ever read of it.
#[cold]
fn note_head(entry: &mut JournalEntry, head: &Parts, body: &Incoming) {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    note_path(entry, head.uri.path(), announced, header);
}

/// Notes the path that a request asks for, and what it calls if that is a method.
fn note_path<'a>(
    entry: &mut JournalEntry,
    path: &str,
    announced: usize,
    of: impl Fn(&str) -> Option<&'a str>,
) {
    entry.asked_for(path, announced);
    let Ok(target) = json::MethodPath::parse(path) else { return };
    let (interface, method) = target.names();
    let (version, group) = (of(call_headers::VERSION), of(call_headers::GROUP));
    let service =
        ServiceKey::new(interface, version.unwrap_or_default(), group.unwrap_or_default());
    let service = service.map_or_else(|_| interface.to_owned(), |service| service.to_string());
    let trace = of(call_headers::TRACE[0]);
    entry.named(journal::RequestNames { service: &service, method, trace });
}

/// Notes what is called.
#[cold]
fn name(entry: &mut JournalEntry, invocation: &Invocation<'_>, len: usize) {
    let RouteName { interface, version, group, method, .. } = invocation.name;
    let service = ServiceKey::new(interface, version, group);
    let service = service.map_or_else(|_| interface.to_owned(), |service| service.to_string());
    let trace = invocation.attachments.iter().find(|(name, _)| *name == "traceparent");
    entry.named(journal::RequestNames {
        service: &service,
        method,
        trace: trace.map(|(_, value)| *value),
    });
    entry.asked(len, |max_len| Some(invocation.args.shown(max_len)));
    stages::enter(entry.clock(), Stage::Wait);
}

#[cold]
fn told(listener: &HttpListener, error: &CallError) {
    debug!(listener = %listener.config.listen, %error, "request failed");
}

/// Whether this may be a request for a call, by all but its path.
fn check_request(head: &Parts, facts: &HeadFacts<'_>) -> Result<(), CallError> {
    if head.method != Method::POST {
        let method = clip(head.method.as_str());
        let message = format!("{method} is not allowed here; use POST to call a method");
        return Err(CallError::new(Code::MethodNotAllowed, message));
    }
    if let Some(encoding) = facts.content_encoding.filter(|name| !is_identity(name)) {
        let encoding = String::from_utf8_lossy(encoding.as_bytes());
        let message = format!(
            "content-encoding {:?} is not supported; send the body uncompressed",
            clip(&encoding)
        );
        return Err(CallError::new(Code::UnsupportedMediaType, message));
    }
    match facts.charset() {
        // ASCII is the same in ISO-8859-1, which some clients declare for all that they send.
        None | Some(Charset::Utf8 | Charset::Latin1) => Ok(()),
        Some(Charset::Other(name)) => Err(unknown_charset(name)),
    }
}

/// Whether the body may be read as UTF-8, whatever its charset.
fn check_charset(head: &Parts, facts: &HeadFacts<'_>, body: &[u8]) -> Result<(), CallError> {
    if facts.charset() != Some(Charset::Latin1) {
        return Ok(());
    }
    let is_form = head.uri.path() == "/";
    let is_plain = body.is_ascii() && !(is_form && form::has_escaped_beyond_ascii(body));
    if is_plain { Ok(()) } else { Err(unknown_charset("iso-8859-1")) }
}

#[cold]
fn unknown_charset(name: &str) -> CallError {
    let message = format!(
        "charset {:?} of content-type is not supported; send the body in UTF-8",
        clip(name)
    );
    CallError::new(Code::UnsupportedMediaType, message)
}

/// The same failure to read a call, and where to send the body if it is of the other form by its
/// content type.
#[cold]
fn misplaced(
    mut error: CallError,
    style: AnswerStyle,
    facts: &HeadFacts<'_>,
    body: &[u8],
) -> CallError {
    // Some clients, curl among them, say of all bodies that they are forms.
    let begins_with_name = body.first().is_some_and(u8::is_ascii_alphabetic);
    let Some(media_type) = facts.media_type() else { return error };
    let hint = match style {
        AnswerStyle::Text if media_type.is_json() => {
            "the content type says JSON, which goes to /INTERFACE/METHOD; the body of / is a form"
        }
        AnswerStyle::Json if media_type.is_form() && begins_with_name => {
            "the content type says that it is a form; forms go to /, and the body of \
             /INTERFACE/METHOD is JSON whatever its content type"
        }
        AnswerStyle::Text | AnswerStyle::Json => return error,
    };
    error.message = format!("{}; {hint}", error.message).into();
    error
}

/// What the headers of a request say of its call.
fn read_headers<'a>(
    head: &'a Parts,
    facts: &HeadFacts<'_>,
) -> Result<(JsonOptions, CallHeaders<'a>), CallError> {
    check_request(head, facts)?;
    let options = options::read(head, facts.has_ours)?;
    Ok((options, CallHeaders::read(head, facts.has_ours)?))
}

/// Makes the call that a request asks for, and its answer.
async fn answer_request(
    worker: &Worker,
    listener: &HttpListener,
    request: CallRequest<'_>,
    mut started: Instant,
    entry: &mut Option<Box<JournalEntry>>,
) -> Result<HttpAnswer, CallError> {
    let CallRequest { head, facts, body, session } = request;
    let refused = |error: &CallError| told(listener, error);
    let config = &listener.config;
    let (options, headers) = read_headers(head, facts).inspect_err(refused)?;
    let more = headers.more_attachments().inspect_err(refused)?;
    let n_read = Cell::new(0);
    let read = read_body(body, session, config, &mut started, worker.threads(), &n_read).await;
    if let Some(entry) = entry {
        entry.read_so_far(n_read.get());
    }
    let (mut body, _hold) = read.inspect_err(refused)?;
    body.advance(body.len() - without_mark(&body).len());
    session.read_whole(head, facts);
    check_charset(head, facts, &body).inspect_err(refused)?;
    let (form, target);
    let (style, mut invocation) = match head.uri.path() {
        "/" => {
            form = form::FormFields::parse(&body)
                .map_err(|error| misplaced(error, AnswerStyle::Text, facts, &body))
                .inspect_err(refused)?;
            (AnswerStyle::Text, form.invocation(headers, &more))
        }
        path => {
            target = json::MethodPath::parse(path).inspect_err(refused)?;
            let invocation = target
                .invocation(headers, &more, &body)
                .map_err(|error| misplaced(error, AnswerStyle::Json, facts, &body))
                .inspect_err(refused)?;
            (AnswerStyle::Json, invocation)
        }
    };
    if options.refs == RefStyle::Path {
        invocation.args = invocation.args.with_refs();
    }
    let (caller, address) = (session.caller(), Some(session.peer().ip()));
    invocation.origin = CallOrigin { caller, address, headers: Some(&head.headers) };
    if let Some(entry) = entry {
        invocation.clock = entry.clock().cloned();
        name(entry, &invocation, body.len());
    }
    let (outbound, registry) = (&worker.outbound, config.registry);
    // A failure of the call was logged there.
    let mut reply = invoke(outbound, registry, &invocation, started).await?;
    let (account, threads) = (session.account(), worker.threads());
    let mut value = answer::value(style, &options, &reply, account, threads).await;
    // That of another endpoint may be unreadable, too; what stands for a failure is not.
    for _ in 0..2 {
        let Err(error) = &value else { break };
        let instead = instead_of_unreadable(outbound, registry, &mut invocation, &reply, error);
        let Some(other) = Box::pin(instead).await else { break };
        value = answer::value(style, &options, &other, account, threads).await;
        reply = other;
    }
    if let Err(error) = &value {
        refused(error);
    }
    if let Some(entry) = entry.take() {
        tell(entry, &reply, value.as_ref().err());
    }
    value
}

#[cfg(test)]
mod tests;
