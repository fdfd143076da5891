//! What makes an HTTP request of a call: on the worker's thread where that is short, and on
//! another where it is not.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::{Serialization, ServiceKey, Status as DubboStatus};
use hessian::JavaType;
use hessian::transcode::JsonOptions;
use http::Request;
use http_body_util::Full;
use hyper::body::Body;

use super::arguments::{JsonArguments, JsonStyle};
use super::generic::{self, Mode};
use super::request::Fixed;
use crate::backend::{AppCall, AppMethod};
use crate::call::{Encoded, Times};
use crate::config::HttpAppConfig;
use crate::config::http_app::method::{BodyShape, MappedMethod, MethodMatch, StatusTable};
use crate::config::http_app::template::Template;
use crate::error::{CallError, Code};

/// What is needed to make requests of calls.
#[derive(Debug)]
pub struct Preparation {
    /// The service that is called.
    pub service: ServiceKey,
    /// What its methods are in HTTP.
    pub config: Arc<HttpAppConfig>,
    /// What all requests have in common.
    pub fixed: Fixed,
}

/// A call of its own, for other threads.
pub struct OwnCall {
    method: String,
    descriptor: String,
    takes_attachments: bool,
    serialization: Serialization,
    args: Vec<u8>,
    attachments: Vec<(String, String)>,
    times: Times,
    one_way: bool,
}

impl OwnCall {
    /// A copy of a call, of all that its request is made of.
    pub fn new(call: &AppCall<'_>) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            method: call.method.name.to_owned(),
            descriptor: call.method.descriptor.to_owned(),
            takes_attachments: call.method.takes_attachments,
            serialization: call.payload.serialization,
            args: call.payload.bytes.to_vec(),
            attachments: call.attachments.iter().map(own).collect(),
            times: call.times,
            one_way: call.one_way,
        }
    }

    /// How much a copy of a call takes.
    pub fn len_of(call: &AppCall<'_>) -> usize {
        let attachments = call.attachments.iter().map(|(name, value)| name.len() + value.len());
        call.payload.bytes.len() + attachments.sum::<usize>()
    }

    /// When it ends.
    pub fn deadline(&self) -> Instant {
        self.times.deadline
    }

    /// Makes its request.
    ///
    /// # Errors
    /// As [`Preparation::prepare`].
    pub fn prepare(&self, by: &Preparation, json: &JsonOptions) -> Result<Prepared, CallError> {
        let attachments = self.attachments.iter().map(|(name, value)| (&**name, &**value));
        let attachments: Vec<(&str, &str)> = attachments.collect();
        let call = AppCall {
            method: AppMethod {
                name: &self.method,
                descriptor: &self.descriptor,
                takes_attachments: self.takes_attachments,
            },
            payload: Encoded { serialization: self.serialization, bytes: &self.args },
            attachments: &attachments,
            times: self.times,
            one_way: self.one_way,
            clock: None,
            headers: None,
            not_at: None,
        };
        by.prepare(&call, json)
    }
}

/// A call that is ready to be sent.
#[derive(Debug)]
pub struct Prepared {
    /// The request.
    pub request: Request<Full<Bytes>>,
    /// When it ends.
    pub deadline: Instant,
    /// Who says so.
    pub limit: TimeLimit,
    /// How its reply is written.
    pub serialization: Serialization,
    /// Whether its caller understands attachments.
    pub takes_attachments: bool,
    /// How a generic call wants its result.
    pub mode: Mode,
    /// What the method returns, where that is known.
    pub returns: Option<JavaType>,
    /// What errors become.
    pub errors: StatusTable,
}

/// How long a call may take, from when it came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeLimit {
    /// The time.
    pub timeout: Duration,
    /// Who says so, as an error names it.
    pub source: &'static str,
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

impl Prepared {
    /// The length of its body.
    pub fn body_len(&self) -> usize {
        let len = self.request.body().size_hint().exact();
        len.and_then(|len| usize::try_from(len).ok()).unwrap_or_default()
    }
}

impl Preparation {
    /// Makes the request of a call; its texts by these options, which have their limit.
    ///
    /// # Errors
    /// [`Code::BodyTooLarge`] if they become longer than that, and what is wrong with the call.
    pub fn prepare(&self, call: &AppCall<'_>, json: &JsonOptions) -> Result<Prepared, CallError> {
        let style = JsonStyle { json, classes: &self.config.classes };
        let (method, types, arguments, mode) =
            if generic::is_generic(call.method.name, call.method.descriptor) {
                let generic = call.attachments.iter().rev().find(|(name, _)| *name == "generic");
                let mode = Mode::of_attachment(generic.map(|(_, value)| *value))?;
                let raw =
                    JsonArguments::raw(call.payload.serialization, call.payload.bytes, 3, json)?;
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

/// The types of a descriptor.
///
/// # Errors
/// [`Code::BadArguments`] if it is none.
pub fn parse(descriptor: &str) -> Result<Vec<JavaType>, CallError> {
    JavaType::parse_descriptors(descriptor)
        .map_err(|error| CallError::new(Code::BadArguments, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
