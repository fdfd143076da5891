//! A call whose method has rules that change what becomes of it: faults that are injected, a mock
//! answer, and a null instead of a failure.
//!
//! The order: a fault comes first, as if the endpoints had it; then a mock that is forced; then
//! the call, in its mode; and what stands for a failure.

use std::rc::Rc;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use dubbo_proto::frame::HEADER_LEN;
use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, ReplyKind, ReplyTo, Serialization, encode_reply};
use flow::queue::CallerId;
use hessian::JavaType;
use hessian::transcode::builtin::Builtin;
use tracing::debug;

use super::Cluster;
use super::methods::MethodRule;
use crate::call::{Call, Outcome, Payload, ProviderReply, RoutedCall, Times};
use crate::config::{CallMode, FaultSettings, MockAnswer};
use crate::error::{CallError, Code, FaultOrigin};
use crate::metrics::MethodEvent;

/// Where an answer comes from that no endpoint has given.
const OURSELVES: &str = "dubmesh";

impl Cluster {
    /// Makes a call by what holds for its method. Whether it may be made at all is looked at
    /// before.
    pub async fn call_ruled(
        self: &Rc<Self>,
        rule: &MethodRule,
        call: &RoutedCall<'_>,
        caller: CallerId,
    ) -> Outcome {
        let policy = rule.policy();
        let mut now = call.times.now;
        let injected = match &policy.fault {
            Some(fault) => self.inject(fault, call).await.map(|at| now = at),
            None => Ok(()),
        };
        // A delay of our own is not the endpoint's: neither the metrics nor the balancer see it.
        let call = &Call { times: Times { now, ..call.times }, ..*call };
        if let (Ok(()), Some(mock)) = (&injected, policy.mock.as_ref().filter(|it| it.always)) {
            self.count_event(MethodEvent::Mocked);
            return mocked(&mock.answer, call);
        }
        let outcome = match injected {
            Ok(()) => self.call_by(rule, call, caller).await,
            Err(error) => Err(error),
        };
        match outcome {
            Err(error) => self.replaced(rule, call, error),
            reply => reply,
        }
    }

    /// What a caller hears of a failure by what holds for the method: a mock answer, null, or the
    /// failure itself.
    #[cold]
    pub fn replaced(
        self: &Rc<Self>,
        rule: &MethodRule,
        call: &RoutedCall<'_>,
        error: CallError,
    ) -> Outcome {
        if !is_replaced(&error) || call.one_way {
            return Err(error);
        }
        let policy = rule.policy();
        if let Some(mock) = &policy.mock {
            debug!(%error, "a mock answer replaces a failure");
            self.count_event(MethodEvent::Mocked);
            return mocked(&mock.answer, call);
        }
        match policy.mode {
            CallMode::Failsafe => {
                debug!(%error, "null replaces a failure");
                self.count_event(MethodEvent::FailedSafe);
                answer(b"null", call)
            }
            CallMode::Failback(failback) => {
                debug!(%error, "null replaces a failure; the call is repeated later");
                self.make_later(call, failback, Instant::now());
                answer(b"null", call)
            }
            _ => Err(error),
        }
    }

    /// Injects the faults that a call gets by chance. Returns when it goes on.
    #[cold]
    async fn inject(
        &self,
        fault: &FaultSettings,
        call: &RoutedCall<'_>,
    ) -> Result<Instant, CallError> {
        let drawn = fault.policy.draw(&mut rand::rng());
        let now = call.times.now;
        let mut goes_on = now;
        if let Some(delay) = drawn.delay {
            self.count_event(MethodEvent::DelayInjected);
            let due = (now + delay).min(call.times.deadline);
            tokio::time::sleep_until(due.into()).await;
            goes_on = Instant::now();
            if call.times.deadline <= goes_on {
                let message = "no answer in time: a delay was injected (fault_delay_ms)";
                let error = CallError::new(Code::Timeout, message);
                self.count_without_endpoint(now, error.code);
                return Err(error);
            }
        }
        if !drawn.is_aborted {
            return Ok(goes_on);
        }
        self.count_event(MethodEvent::AbortInjected);
        self.count_without_endpoint(now, fault.code);
        let message = "this failure was injected (fault_abort_percent)";
        Err(CallError::new(fault.code, message))
    }
}

/// Whether another answer may stand for a failure. What the caller has done wrong he is told, and
/// what may be written in another form is.
fn is_replaced(error: &CallError) -> bool {
    error.code.row().fault != FaultOrigin::Downstream
        && !matches!(error.code, Code::ProviderRejected | Code::Exception)
        || matches!(error.code, Code::ServiceNotFound)
}

/// What Dubbo says in the exceptions of its mocks.
const MOCKED: &str = "mocked exception for service degradation.";
/// Dubbo's exception for calls that fail.
const RPC_EXCEPTION: &str = "org.apache.dubbo.rpc.RpcException";

/// The reply of a mock, in the serialization of the caller.
///
/// Source: apache/dubbo, `MockInvoker.invoke`. What is thrown without a class is an `RpcException`
/// of unknown cause; an exception with a class is one of the service's.
#[cold]
fn mocked(mock: &MockAnswer, call: &RoutedCall<'_>) -> Outcome {
    match mock {
        MockAnswer::Value(json) => answer(json.as_bytes(), call),
        MockAnswer::Empty => {
            let is_json = matches!(call.payload, Payload::Json(_));
            let ty = call.method.plan.result.as_ref().filter(|_| is_json);
            answer(empty(ty).as_bytes(), call)
        }
        MockAnswer::Throw(class) => {
            let json = match class {
                Some(class) => format!(r#"{{"class":"{class}","detailMessage":"{MOCKED}"}}"#),
                None => {
                    format!(r#"{{"class":"{RPC_EXCEPTION}","code":0,"detailMessage":"{MOCKED}"}}"#)
                }
            };
            reply(ReplyKind::Exception, json.as_bytes(), call)
        }
    }
}

/// The empty value of a type as JSON; null if it is not known, or has none.
fn empty(ty: Option<&JavaType>) -> &'static str {
    use Builtin as B;
    match ty {
        None | Some(JavaType::Void) => "null",
        Some(JavaType::Boolean) => "false",
        Some(JavaType::Char) => r#""\u0000""#,
        Some(JavaType::Array(_)) => "[]",
        Some(JavaType::Class(class)) => match (class.builtin(), class.name()) {
            (None, _) | (Some(B::Map), _) => "{}",
            (Some(B::List), _) => "[]",
            (_, "java.lang.String" | "java.lang.CharSequence") => r#""""#,
            (_, "java.lang.Boolean") => "false",
            (_, "java.lang.Character") => r#""\u0000""#,
            (_, name) if is_number(name) => "0",
            _ => "null",
        },
        Some(_) => "0",
    }
}

fn is_number(class: &str) -> bool {
    let name = class.strip_prefix("java.lang.");
    name.is_some_and(|it| matches!(it, "Byte" | "Short" | "Integer" | "Long" | "Float" | "Double"))
}

/// A reply that is this JSON, in the serialization of the caller.
fn answer(json: &[u8], call: &RoutedCall<'_>) -> Outcome {
    let kind = if json == b"null" { ReplyKind::Null } else { ReplyKind::Value };
    reply(kind, json, call)
}

fn reply(kind: ReplyKind, json: &[u8], call: &RoutedCall<'_>) -> Outcome {
    let (serialization, plan) = match &call.payload {
        Payload::Json(_) => (Serialization::DEFAULT, Some(&call.method.plan)),
        Payload::Whole(whole) => (whole.serialization, None),
    };
    let bad = |error: &dyn std::fmt::Display| {
        let message = format!("the mock answer cannot be written: {error}; correct mock");
        CallError::new(Code::Internal, message)
    };
    let mut value = Vec::with_capacity(json.len());
    if kind != ReplyKind::Null {
        let values = serialization.values().ok_or_else(|| {
            bad(&format!("this agent does not write values in {}", serialization.name()))
        })?;
        let written = match plan {
            // An exception says what it is.
            Some(plan) => {
                let ty = plan.result.as_ref().filter(|_| kind == ReplyKind::Value);
                values.write_value(json, ty, plan, &mut value)
            }
            None => values.write_value(json, None, &(), &mut value),
        };
        written.map_err(|error| bad(&error))?;
    }
    let to = ReplyTo { id: 0, serialization, takes_attachments: false };
    let mut out = BytesMut::new();
    encode_reply(to, kind, &value, &[], DEFAULT_PAYLOAD_LIMIT, &mut out)
        .map_err(|error| bad(&error))?;
    out.advance(HEADER_LEN);
    Ok(ProviderReply::new(serialization, out.freeze(), OURSELVES.into()))
}
