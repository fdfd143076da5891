//! Apps that speak plain JSON over HTTP/1.1, behind the interface of a Java service.
//!
//! A call's path: [`method`](crate::config::http_app::method) says which one it means,
//! [`arguments`] turns what came into JSON, [`request`] makes the HTTP request (its path by a
//! [`template`](crate::config::http_app::template)), and [`preparation`] has both done. [`pool`]
//! sends it over a connection to the app, which is at an
//! [`AppOrigin`](crate::config::http_app::origin::AppOrigin); [`interim`] bounds the interim
//! answers of that app, and [`reply`] makes a Dubbo reply of the answer. [`generic`] knows the
//! calls of callers without classes, [`bean`] what some of them write in the place of objects, and
//! [`health`] whether the app is there.
//!
//! Invariants:
//! - Every call is ended exactly once, also when its caller has gone away.
//! - The request of a call is counted before that of the next one is made.

pub mod arguments;
pub mod bean;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod exercise;
pub mod generic;
pub mod health;
pub mod interim;
pub mod pool;
pub mod preparation;
pub mod reply;
pub mod request;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, ServiceKey};
use hessian::transcode::JsonOptions;
use tokio::task::AbortHandle;
use wire::Hold;

use self::generic::Mode;
use self::health::Health;
use self::pool::{HttpPool, PoolLimits, WorkerResources};
use self::preparation::{OwnCall, Preparation, Prepared, parse};
use self::reply::ReplyForm;
use self::request::Fixed;
use super::AppCall;
use crate::call::{Outcome, Times};
use crate::config::HttpAppConfig;
use crate::config::http_app::method::StatusTable;
use crate::error::{CallError, Code};
use crate::grown_text::{GrownText, in_place, is_too_long};
use crate::offload::LONG_LEN;
use crate::upstream::Setup;

/// Dubbo's own method that returns its argument, by which consumers see whether a provider is
/// there.
const ECHO: &str = "$echo";

/// One exported HTTP app, as one worker sees it.
pub struct HttpApp {
    preparation: Arc<Preparation>,
    pool: HttpPool,
    health: Health,
}

/// A call whose task is about to begin, and what it takes of the budget.
enum Begun {
    /// Its request was made.
    Prepared(Box<Prepared>, Option<Hold>),
    /// Its request is to be made by another thread.
    Long(Box<OwnCall>, Option<Hold>),
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
            health: Health::watch(&config.origin, &config.health),
            preparation: Arc::new(Preparation {
                service: service.clone(),
                fixed: Fixed::new(&config.origin.host(), &service.version, &service.group),
                config,
            }),
            pool,
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
        match self.begin(call) {
            Ok(begun) => {
                let app = Rc::clone(self);
                let task = tokio::task::spawn_local(async move {
                    let outcome = match begun {
                        Begun::Prepared(prepared, hold) => app.send(*prepared, hold).await,
                        Begun::Long(call, hold) => app.send_long(*call, hold).await,
                    };
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

    /// Makes the request of a call, and takes room for it at once: many calls may come before the
    /// first of their tasks runs. A long one is only copied.
    fn begin(&self, call: &AppCall<'_>) -> Result<Begun, CallError> {
        if call.payload.bytes.len() < LONG_LEN || self.pool.worker.is_none() {
            match self.prepare(call) {
                Err(error) if is_too_long(&error) && self.pool.worker.is_some() => {}
                Err(error) => return Err(error),
                Ok(prepared) => {
                    let hold = self.pool.hold(prepared.body_len())?;
                    return Ok(Begun::Prepared(Box::new(prepared), hold));
                }
            }
        }
        let hold = self.pool.hold(OwnCall::len_of(call))?;
        Ok(Begun::Long(Box::new(OwnCall::new(call)), hold))
    }

    fn prepare(&self, call: &AppCall<'_>) -> Result<Prepared, CallError> {
        let (preparation, len) = (&self.preparation, call.payload.bytes.len());
        if self.pool.worker.is_some() {
            return preparation.prepare(call, &in_place(&preparation.config.json));
        }
        // Outside of an agent there is no other thread.
        let max_out_len = JsonOptions::max_len_of(len);
        let json = JsonOptions { max_out_len, ..preparation.config.json.clone() };
        preparation.prepare(call, &json)
    }

    /// Has another thread make the request, which draws from the budget while it grows.
    async fn send_long(&self, call: OwnCall, hold: Option<Hold>) -> Outcome {
        let Some(worker) = &self.pool.worker else {
            debug_assert!(false, "such calls are made for workers alone");
            return Err(CallError::new(Code::Internal, "no worker for a long call"));
        };
        let (deadline, preparation) = (Some(call.deadline()), Arc::clone(&self.preparation));
        let len = hold.as_ref().map_or(0, Hold::len);
        let text = GrownText::new(&worker.account, len);
        let write = move |text: &GrownText| {
            let prepared = call.prepare(&preparation, &text.options(&preparation.config.json))?;
            // The arguments were put together in it.
            text.count_copy(prepared.body_len());
            Ok(prepared)
        };
        let prepared = text.write(&worker.threads, deadline, hold, write).await;
        let prepared = prepared.map_err(|error| error.at(self.pool.address()))?;
        let hold = worker.account.count(prepared.body_len());
        drop(text);
        self.send(prepared, Some(hold)).await
    }

    async fn send(&self, prepared: Prepared, hold: Option<Hold>) -> Outcome {
        let Prepared { request, deadline, limit, .. } = prepared;
        let answer = self.pool.send(request, hold, deadline).await.map_err(|error| {
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
            classes: &self.config().classes,
            max_len: self.max_reply_len(),
        };
        let reply = form.reply(&answer?).map_err(|error| error.at(self.pool.address()))?;
        Ok(crate::call::ProviderReply { endpoint: Rc::clone(self.pool.address()), ..reply })
    }

    fn config(&self) -> &HttpAppConfig {
        &self.preparation.config
    }

    /// The longest reply: what Dubbo sends, or as long as the app's answer may be.
    fn max_reply_len(&self) -> usize {
        self.config().max_answer_len.max(DEFAULT_PAYLOAD_LIMIT)
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
            classes: &self.config().classes,
            max_len: self.max_reply_len(),
        };
        let (serialization, args) = (call.payload.serialization, call.payload.bytes);
        let value = serialization.only_arg(args);
        let value = value.map_err(|_| crate::route::unsupported(serialization))?;
        form.of_value(value.to_vec())
    }
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
}
