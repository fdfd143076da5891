//! Apps that speak plain JSON over HTTP/1.1, behind the interface of a Java service.
//!
//! A call's path: [`method`](crate::config::http_app::method) says which one it means,
//! [`arguments`] turns what came into JSON, [`request`] makes the HTTP request (its path by a
//! [`template`](crate::config::http_app::template)), [`pool`] sends it over a connection to the
//! app's [`AppOrigin`](crate::config::http_app::origin::AppOrigin), [`interim`] bounds the interim
//! answers of that app, [`reply`] makes a Dubbo reply of the answer. [`generic`] knows the calls
//! of callers without classes, [`bean`] what some of them write in the place of objects,
//! [`health`] whether the app is there.
//!
//! Invariant: every call is ended exactly once, also when its caller has gone away.

pub mod arguments;
pub mod bean;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod exercise;
pub mod generic;
pub mod health;
pub mod interim;
pub mod pool;
pub mod reply;
pub mod request;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, Serialization, ServiceKey, Status as DubboStatus};
use hessian::JavaType;
use http::Request;
use http_body_util::Full;
use tokio::task::AbortHandle;

use self::arguments::{JsonArguments, JsonStyle};
use self::generic::Mode;
use self::health::Health;
use self::pool::{HttpPool, PoolLimits, WorkerResources};
use self::reply::ReplyForm;
use self::request::Fixed;
use super::AppCall;
use crate::call::{Outcome, Times};
use crate::config::HttpAppConfig;
use crate::config::http_app::method::{BodyShape, MappedMethod, MethodMatch, StatusTable};
use crate::config::http_app::template::Template;
use crate::error::{CallError, Code};
use crate::upstream::Setup;

/// Dubbo's own method that returns its argument, by which consumers see whether a provider is
/// there.
const ECHO: &str = "$echo";

/// One exported HTTP app, as one worker sees it.
pub struct HttpApp {
    service: ServiceKey,
    config: Arc<HttpAppConfig>,
    pool: HttpPool,
    health: Health,
    fixed: Fixed,
}

/// A call that is ready to be sent.
struct Prepared {
    request: Request<Full<Bytes>>,
    deadline: Instant,
    limit: TimeLimit,
    serialization: Serialization,
    takes_attachments: bool,
    mode: Mode,
    returns: Option<JavaType>,
    errors: StatusTable,
}

/// How long a call may take, from when it came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct TimeLimit {
    timeout: Duration,
    /// Who says so, as an error names it.
    source: &'static str,
}

impl TimeLimit {
    /// The shorter one of the configured timeout and what the caller has left. The method's
    /// timeout counts instead of the export's, if it has one.
    fn of(of_method: Option<Duration>, of_export: Option<Duration>, left: Duration) -> Self {
        let configured = match (of_method, of_export) {
            (Some(timeout), _) => Some((timeout, "timeout_ms of [[export.method]]")),
            (None, Some(timeout)) => Some((timeout, "timeout_ms of [[export]]")),
            (None, None) => None,
        };
        let (timeout, source) = configured
            .filter(|(configured, _)| *configured < left)
            .unwrap_or((left, "the caller's timeout"));
        Self { timeout, source }
    }
}

impl HttpApp {
    /// Begins to look after the app, for `worker`. Must be called on a worker's runtime.
    pub fn start(
        service: &ServiceKey,
        config: Arc<HttpAppConfig>,
        setup: Setup,
        worker: Option<WorkerResources>,
    ) -> Rc<Self> {
        let limits = PoolLimits {
            max_connections: config.max_connections,
            max_in_flight: setup.max_in_flight as usize,
            connect_timeout: setup.connect_timeout,
            idle_timeout: config.idle_timeout,
            max_answer_len: config.max_answer_len,
        };
        let pool = HttpPool::new(config.origin.clone(), limits, worker);
        Rc::new(Self {
            service: service.clone(),
            health: Health::watch(&config.origin, &config.health),
            fixed: Fixed::new(&config.origin.host(), &service.version, &service.group),
            pool,
            config,
        })
    }

    /// Whether the app is there.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Makes a call. `done` is called once: at once if no request has to be made, or when the
    /// answer came, time was up, or the returned handle was used to give the call up.
    pub fn call(
        self: &Rc<Self>,
        call: &AppCall<'_>,
        done: impl FnOnce(Outcome) + 'static,
    ) -> Option<AbortHandle> {
        let (times, address) = (call.times, Rc::clone(self.pool.address()));
        let mut ending = Ending { done: Some(done), times, address };
        if call.method.name == ECHO {
            ending.end(self.echo(call));
            return None;
        }
        match self.prepare(call) {
            Ok(prepared) => {
                let app = Rc::clone(self);
                let task = tokio::task::spawn_local(async move {
                    let outcome = app.send(prepared).await;
                    ending.end(outcome);
                });
                Some(task.abort_handle())
            }
            Err(error) => {
                ending.end(Err(error.at(self.pool.address())));
                None
            }
        }
    }

    async fn send(&self, prepared: Prepared) -> Outcome {
        let Prepared { request, deadline, limit, .. } = prepared;
        let answer = self.pool.send(request, deadline).await.map_err(|error| {
            if error.code != Code::Timeout {
                return error;
            }
            let (ms, app) = (limit.timeout.as_millis(), self.pool.address());
            let source = limit.source;
            let message = format!("no answer from the app at {app} within {ms} ms ({source})");
            CallError { message: message.into(), ..error }
        });
        if let Err(error) = &answer
            && error.code == Code::Unreachable
        {
            self.health.check_soon();
        }
        let form = ReplyForm {
            serialization: prepared.serialization,
            takes_attachments: prepared.takes_attachments,
            mode: prepared.mode,
            returns: prepared.returns.as_ref(),
            errors: &prepared.errors,
            classes: &self.config.classes,
            max_len: self.max_reply_len(),
        };
        let reply = form.reply(&answer?).map_err(|error| error.at(self.pool.address()))?;
        Ok(crate::call::ProviderReply { endpoint: Rc::clone(self.pool.address()), ..reply })
    }

    /// The longest reply: what Dubbo sends, or as long as the app's answer may be.
    fn max_reply_len(&self) -> usize {
        self.config.max_answer_len.max(DEFAULT_PAYLOAD_LIMIT)
    }

    /// The argument is the reply's value as it is.
    fn echo(&self, call: &AppCall<'_>) -> Outcome {
        let n_arguments = parse(call.method.descriptor)?.len();
        if n_arguments != 1 {
            let message = format!("{ECHO} takes 1 argument, the request has {n_arguments}");
            return Err(CallError::new(Code::BadArguments, message));
        }
        let form = ReplyForm {
            serialization: call.payload.serialization,
            takes_attachments: call.method.takes_attachments,
            mode: Mode::Plain,
            returns: None,
            errors: &StatusTable::default(),
            classes: &self.config.classes,
            max_len: self.max_reply_len(),
        };
        let (serialization, args) = (call.payload.serialization, call.payload.bytes);
        let value = serialization.only_arg(args);
        let value = value.map_err(|_| crate::route::unsupported(serialization))?;
        form.of_value(value.to_vec())
    }

    fn prepare(&self, call: &AppCall<'_>) -> Result<Prepared, CallError> {
        let style = JsonStyle { json: &self.config.json, classes: &self.config.classes };
        let (method, types, arguments, mode) =
            if generic::is_generic(call.method.name, call.method.descriptor) {
                let generic = call.attachments.iter().rev().find(|(name, _)| *name == "generic");
                let mode = Mode::of_attachment(generic.map(|(_, value)| *value))?;
                let raw = JsonArguments::raw(call.payload.serialization, call.payload.bytes, 3)?;
                let target = generic::GenericCall::read(&raw)?;
                let mode = mode.fitting(target.array, call.payload.serialization)?;
                let method = self.method(&target.method, target.descriptor.as_deref())?;
                let types = match (&method.types, &target.descriptor) {
                    (Some(types), _) => Some(types.clone()),
                    (None, Some(descriptor)) => Some(parse(descriptor)?),
                    (None, None) => None,
                };
                let arguments =
                    JsonArguments::of_array(target.array, types.as_deref(), style, |it| {
                        mode.argument(it)
                    })?;
                (method, types.unwrap_or_default(), arguments, mode)
            } else {
                let method = self.method(call.method.name, Some(call.method.descriptor))?;
                let types = match &method.types {
                    Some(types) => types.clone(),
                    None => parse(call.method.descriptor)?,
                };
                let arguments = JsonArguments::read(
                    call.payload.serialization,
                    call.payload.bytes,
                    &types,
                    style,
                )?;
                (method, types, arguments, Mode::Plain)
            };
        self.check_count(&method, &types, &arguments)?;
        let left = call.times.deadline.saturating_duration_since(call.times.now);
        let limit = TimeLimit::of(method.timeout, self.config.timeout, left);
        let deadline = call.times.now + limit.timeout;
        let left = deadline.saturating_duration_since(call.times.now).max(Duration::from_millis(1));
        let names: Vec<String> = types.iter().map(JavaType::java_name).collect();
        let request = self.fixed.request(&method, &names.join(","), &arguments, call, left)?;
        Ok(Prepared {
            request,
            deadline,
            limit,
            serialization: call.payload.serialization,
            takes_attachments: call.method.takes_attachments,
            mode,
            returns: method.returns.clone(),
            errors: method.errors.clone(),
        })
    }

    /// A generic call may bring any number of arguments.
    fn check_count(
        &self,
        method: &MappedMethod,
        types: &[JavaType],
        arguments: &JsonArguments,
    ) -> Result<(), CallError> {
        let wants = match (&method.types, method.names.len()) {
            (Some(types), _) => types.len(),
            (None, 0) if types.is_empty() => return Ok(()),
            (None, 0) => types.len(),
            (None, n) => n,
        };
        if wants == arguments.len() {
            return Ok(());
        }
        let (has, method) = (arguments.len(), method.signature());
        let message = format!("{method} takes {wants} argument(s), {has} given");
        Err(CallError::new(Code::BadArguments, message))
    }

    /// The method that a call means. Without a table, every method is there.
    fn method(
        &self,
        name: &str,
        descriptor: Option<&str>,
    ) -> Result<Cow<'_, MappedMethod>, CallError> {
        let interface = &self.service.interface;
        dubbo_proto::validate_method(name)
            .map_err(|error| CallError::new(Code::BadRequest, error.to_string()))?;
        if self.config.methods.is_empty() {
            return Ok(Cow::Owned(MappedMethod {
                name: name.into(),
                types: None,
                descriptor: None,
                names: Vec::new(),
                returns: None,
                http: http::Method::POST,
                path: Template::of_method(interface, name).under(&self.config.origin.base),
                body: BodyShape::Array,
                timeout: None,
                headers: self.config.headers.clone(),
                errors: self.config.errors.clone(),
            }));
        }
        // The words are Dubbo's, by which callers of either kind know what is wrong.
        let text = match self.config.methods.find(name, descriptor) {
            MethodMatch::One(method) => return Ok(Cow::Borrowed(method)),
            MethodMatch::None => {
                let types = descriptor.map(parse).transpose()?.unwrap_or_default();
                let types: Vec<String> = types.iter().map(JavaType::java_name).collect();
                format!(
                    "java.lang.NoSuchMethodException: {interface}.{name}({}); the app has {}",
                    types.join(","),
                    self.config.methods.candidates(name)
                )
            }
            MethodMatch::Several(methods) => format!(
                "Not unique method for method name({name}) in class({interface}), find {} methods: {}",
                methods.len(),
                self.config.methods.candidates(name)
            ),
        };
        Err(CallError::from_provider(DubboStatus::ServiceError, &text))
    }
}

fn parse(descriptor: &str) -> Result<Vec<JavaType>, CallError> {
    JavaType::parse_descriptors(descriptor)
        .map_err(|error| CallError::new(Code::BadArguments, error.to_string()))
}

/// Who gives a call up within the last part of so many of its time has waited for all of it: what
/// it says takes as long as its request did, more or less.
const LAST_PARTS: u32 = 20;
/// Or within the last moment, of a short one.
const LAST_MOMENT: Duration = Duration::from_millis(2);

/// Ends a call once: a task that is dropped ends it, too.
struct Ending<F: FnOnce(Outcome)> {
    done: Option<F>,
    times: Times,
    address: Rc<str>,
}

impl<F: FnOnce(Outcome)> Ending<F> {
    fn end(&mut self, outcome: Outcome) {
        if let Some(done) = self.done.take() {
            done(outcome);
        }
    }
}

impl<F: FnOnce(Outcome)> Drop for Ending<F> {
    fn drop(&mut self) {
        let error = given_up(self.times, Instant::now(), &self.address);
        self.end(Err(error));
    }
}

/// How a call ends that its caller gives up at `now`. At its deadline the app is late, whichever
/// agent notices that first; before, nothing is known of the app.
fn given_up(times: Times, now: Instant, address: &Rc<str>) -> CallError {
    let time = times.deadline.saturating_duration_since(times.now);
    let left = times.deadline.saturating_duration_since(now);
    if (time / LAST_PARTS).max(LAST_MOMENT) < left {
        return CallError::new(Code::Cancelled, "the caller gave up");
    }
    let ms = time.as_millis();
    let message =
        format!("no answer from the app at {address} within {ms} ms (the caller's timeout)");
    CallError::new(Code::Timeout, message).at(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_up_at_the_deadline_tells_that_the_app_is_late() {
        let now = Instant::now();
        let code = |timeout_ms: u64, after_ms: u64| {
            let times = Times { now, deadline: now + Duration::from_millis(timeout_ms) };
            given_up(times, now + Duration::from_millis(after_ms), &"10.0.0.7:80".into()).code
        };
        for after_ms in [0, 100, 949] {
            assert_eq!(code(1_000, after_ms), Code::Cancelled, "{after_ms} ms");
        }
        for after_ms in [950, 999, 1_000, 1_004] {
            assert_eq!(code(1_000, after_ms), Code::Timeout, "{after_ms} ms");
        }
        assert_eq!((code(10, 7), code(10, 8)), (Code::Cancelled, Code::Timeout));
    }

    #[test]
    fn the_shortest_time_counts_and_is_named() {
        let ms = Duration::from_millis;
        let limit = |method: Option<u64>, export: Option<u64>, left: u64| {
            let limit = TimeLimit::of(method.map(ms), export.map(ms), ms(left));
            (limit.timeout.as_millis(), limit.source)
        };
        let caller = "the caller's timeout";
        assert_eq!(limit(None, None, 9), (9, caller));
        assert_eq!(limit(None, Some(5), 9), (5, "timeout_ms of [[export]]"));
        // The method's own timeout replaces the export's, even if it is longer.
        assert_eq!(limit(Some(7), Some(5), 9), (7, "timeout_ms of [[export.method]]"));
        assert_eq!(limit(Some(20), Some(5), 9), (9, caller));
        assert_eq!(limit(None, Some(9), 9), (9, caller), "a caller is told its own timeout");
    }
}
