//! The one table of everything that can go wrong with a call.
//!
//! A [`Code`] has a stable name, the side whose fault it is, an HTTP status, a link status, a
//! Dubbo status and a retry rule; [`Code::row`] is the only place that tells them.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};

use dubbo_proto::{Serialization, Status as DubboStatus};
pub use flow::Retry;
use link_proto::Status as LinkStatus;

/// Why a call failed, for machines. The name of each is part of our interface.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Code {
    /// The request breaks the rules of its protocol.
    BadRequest,
    /// The path names no interface and method.
    NoRoute,
    /// A web page of another site called.
    CrossSite,
    /// The method of HTTP is not POST.
    MethodNotAllowed,
    /// The body is of a type that is not read here.
    UnsupportedMediaType,
    /// The body's transfer coding is not known here.
    NotImplemented,
    /// The request's head is over the limit.
    HeadTooLarge,
    /// The request did not arrive whole in time.
    RequestTimeout,
    /// The request's body is over the limit.
    BodyTooLarge,
    /// The arguments do not fit the parameter types.
    BadArguments,
    /// Several methods of that name take the arguments.
    AmbiguousMethod,
    /// No registry knows the service.
    ServiceNotFound,
    /// The provider has no such method.
    MethodNotFound,
    /// The agent is shutting down.
    Draining,
    /// Too much is in flight already.
    Overloaded,
    /// More calls come than the configuration lets through.
    RateLimited,
    /// Calls of the method fail at every endpoint, and the configuration says to send none then.
    CircuitOpen,
    /// The configuration has calls fail, to try out what happens then.
    FaultInjected,
    /// The registry could not be asked yet.
    RegistryUnavailable,
    /// No endpoint of the service can be reached.
    NoEndpoint,
    /// The endpoint could not be connected to.
    Unreachable,
    /// The endpoint refused the call before it began.
    Refused,
    /// The connection broke while the call was in flight.
    ConnectionBroken,
    /// The provider's bytes could not be read.
    BadReply,
    /// The reply is over the limit.
    ReplyTooLarge,
    /// No answer before the deadline.
    Timeout,
    /// The provider's thread pool is full.
    ThreadPoolExhausted,
    /// The provider could not read the request.
    ProviderRejected,
    /// The provider failed outside the service's code.
    ProviderError,
    /// The service threw an exception.
    Exception,
    /// The caller went away.
    Cancelled,
    /// Our own fault.
    Internal,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultOrigin {
    /// The caller's.
    Downstream,
    /// This agent's, or its operator's.
    Local,
    /// The endpoint's.
    Upstream,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct ErrorRow {
    /// Stable name, as in JSON errors and metrics.
    pub name: &'static str,
    /// Whose fault it is.
    pub fault: FaultOrigin,
    /// Status of an HTTP answer.
    pub http_status: u16,
    /// Status of a link's RESPONSE.
    pub link_status: LinkStatus,
    /// Status of a Dubbo reply. A consumer makes a timeout of 31 and a network error of all
    /// others, and its cluster strategy tries again after either; 100 tells it that nothing was
    /// begun.
    pub dubbo_status: DubboStatus,
    /// Whether another try is safe; [`CallError::retry`] knows the exception.
    pub retry: Retry,
}

const fn row(
    name: &'static str,
    fault: FaultOrigin,
    http_status: u16,
    link_status: LinkStatus,
    dubbo_status: DubboStatus,
    retry: Retry,
) -> ErrorRow {
    ErrorRow { name, fault, http_status, link_status, dubbo_status, retry }
}

impl Code {
    /// Every code, in the order of its number.
    pub const ALL: [Self; 32] = [
        Self::BadRequest,
        Self::NoRoute,
        Self::CrossSite,
        Self::MethodNotAllowed,
        Self::UnsupportedMediaType,
        Self::NotImplemented,
        Self::HeadTooLarge,
        Self::RequestTimeout,
        Self::BodyTooLarge,
        Self::BadArguments,
        Self::AmbiguousMethod,
        Self::ServiceNotFound,
        Self::MethodNotFound,
        Self::Draining,
        Self::Overloaded,
        Self::RateLimited,
        Self::CircuitOpen,
        Self::FaultInjected,
        Self::RegistryUnavailable,
        Self::NoEndpoint,
        Self::Unreachable,
        Self::Refused,
        Self::ConnectionBroken,
        Self::BadReply,
        Self::ReplyTooLarge,
        Self::Timeout,
        Self::ThreadPoolExhausted,
        Self::ProviderRejected,
        Self::ProviderError,
        Self::Exception,
        Self::Cancelled,
        Self::Internal,
    ];

    /// The names of all codes, by number.
    pub const NAMES: [&'static str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = Self::ALL[i].row().name;
            i += 1;
        }
        names
    };

    /// What the table says of this code.
    #[rustfmt::skip] // A table: one line a code.
    pub const fn row(self) -> ErrorRow {
        use FaultOrigin::{Downstream, Local, Upstream};
        use Retry::{Elsewhere, IfIdempotent, Never, Rewritten, Safe};
        type S = LinkStatus;
        type D = DubboStatus;
        match self {
            Self::BadRequest => row("bad_request", Downstream, 400, S::BAD_REQUEST, D::BadRequest, Never),
            Self::NoRoute => row("no_route", Downstream, 404, S::BAD_REQUEST, D::BadRequest, Never),
            Self::CrossSite => row("cross_site", Downstream, 403, S::BAD_REQUEST, D::BadRequest, Never),
            Self::MethodNotAllowed => row("method_not_allowed", Downstream, 405, S::BAD_REQUEST, D::BadRequest, Never),
            Self::UnsupportedMediaType => row("unsupported_media_type", Downstream, 415, S::BAD_REQUEST, D::BadRequest, Never),
            Self::NotImplemented => row("not_implemented", Downstream, 501, S::BAD_REQUEST, D::BadRequest, Never),
            Self::HeadTooLarge => row("head_too_large", Downstream, 431, S::BAD_REQUEST, D::BadRequest, Never),
            Self::RequestTimeout => row("request_timeout", Downstream, 408, S::BAD_REQUEST, D::BadRequest, Safe),
            Self::BodyTooLarge => row("body_too_large", Downstream, 413, S::TOO_LARGE, D::BadRequest, Elsewhere),
            Self::BadArguments => row("bad_arguments", Downstream, 400, S::BAD_REQUEST, D::BadRequest, Rewritten),
            Self::AmbiguousMethod => row("ambiguous_method", Downstream, 400, S::BAD_REQUEST, D::BadRequest, Never),
            Self::ServiceNotFound => row("service_not_found", Downstream, 404, S::NOT_FOUND_SERVICE, D::ServiceNotFound, Elsewhere),
            Self::MethodNotFound => row("method_not_found", Downstream, 404, S::NOT_FOUND_METHOD, D::ServiceNotFound, Rewritten),
            Self::Draining => row("draining", Local, 503, S::REFUSED, D::ServerThreadpoolExhausted, Safe),
            Self::Overloaded => row("overloaded", Local, 503, S::OVERLOADED, D::ServerThreadpoolExhausted, Safe),
            Self::RateLimited => row("rate_limited", Downstream, 429, S::OVERLOADED, D::ServerThreadpoolExhausted, Safe),
            Self::CircuitOpen => row("circuit_open", Local, 503, S::OVERLOADED, D::ServerThreadpoolExhausted, Safe),
            Self::FaultInjected => row("fault_injected", Local, 503, S::OVERLOADED, D::ServerThreadpoolExhausted, Safe),
            Self::RegistryUnavailable => row("registry_unavailable", Local, 503, S::UPSTREAM_UNREACHABLE, D::ServerError, Safe),
            Self::NoEndpoint => row("no_endpoint", Upstream, 503, S::UPSTREAM_UNREACHABLE, D::ServerError, Safe),
            Self::Unreachable => row("unreachable", Upstream, 503, S::UPSTREAM_UNREACHABLE, D::ServerError, Safe),
            Self::Refused => row("refused", Upstream, 503, S::REFUSED, D::ServerError, Safe),
            Self::ConnectionBroken => row("connection_broken", Upstream, 502, S::UPSTREAM_BROKEN, D::ChannelInactive, IfIdempotent),
            Self::BadReply => row("bad_reply", Upstream, 502, S::UPSTREAM_PROTOCOL, D::BadResponse, IfIdempotent),
            Self::ReplyTooLarge => row("reply_too_large", Upstream, 502, S::TOO_LARGE, D::SerializationError, Never),
            Self::Timeout => row("timeout", Upstream, 504, S::TIMEOUT, D::ServerTimeout, IfIdempotent),
            Self::ThreadPoolExhausted => row("thread_pool_exhausted", Upstream, 503, S::OVERLOADED, D::ServerThreadpoolExhausted, Safe),
            Self::ProviderRejected => row("provider_rejected", Upstream, 400, S::BAD_REQUEST, D::BadRequest, Rewritten),
            Self::ProviderError => row("provider_error", Upstream, 502, S::SERVER_ERROR, D::ServiceError, IfIdempotent),
            Self::Exception => row("exception", Upstream, 500, S::APP_ERROR, D::ServiceError, Never),
            Self::Cancelled => row("cancelled", Downstream, 499, S::CANCELLED, D::ClientError, IfIdempotent),
            Self::Internal => row("internal", Local, 500, S::SERVER_ERROR, D::ServerError, IfIdempotent),
        }
    }

    /// The code of a link's status other than OK; an unknown one counts as the provider's failure.
    pub fn from_link(status: LinkStatus) -> Self {
        match status {
            LinkStatus::BAD_REQUEST => Self::ProviderRejected,
            LinkStatus::NOT_FOUND_SERVICE => Self::ServiceNotFound,
            LinkStatus::NOT_FOUND_METHOD => Self::MethodNotFound,
            // Too long a request is refused on this side; what the peer refuses is its reply.
            LinkStatus::TOO_LARGE => Self::ReplyTooLarge,
            LinkStatus::TIMEOUT => Self::Timeout,
            LinkStatus::CANCELLED => Self::Cancelled,
            LinkStatus::OVERLOADED => Self::Overloaded,
            LinkStatus::REFUSED | LinkStatus::UNSUPPORTED_CODEC => Self::Refused,
            LinkStatus::UPSTREAM_UNREACHABLE => Self::Unreachable,
            LinkStatus::UPSTREAM_BROKEN => Self::ConnectionBroken,
            LinkStatus::UPSTREAM_PROTOCOL => Self::BadReply,
            LinkStatus::APP_ERROR => Self::Exception,
            _ => Self::ProviderError,
        }
    }

    /// The code of a provider's status other than OK.
    pub fn from_dubbo(status: DubboStatus, text: &str) -> Self {
        match status {
            // An agent in the provider's place has looked at the arguments.
            DubboStatus::BadRequest if text.starts_with("bad_arguments: ") => Self::BadArguments,
            DubboStatus::ServerThreadpoolExhausted => Self::ThreadPoolExhausted,
            DubboStatus::ServerTimeout | DubboStatus::ClientTimeout => Self::Timeout,
            DubboStatus::ServiceNotFound => Self::ServiceNotFound,
            // Dubbo has no status for these two; it reports them in words.
            DubboStatus::BadRequest | DubboStatus::ServiceError | DubboStatus::ServerError
                if text.contains("Not found exported service") =>
            {
                Self::ServiceNotFound
            }
            DubboStatus::BadRequest | DubboStatus::ServiceError | DubboStatus::ServerError
                if text.contains("Service not found:") || text.contains("NoSuchMethod") =>
            {
                Self::MethodNotFound
            }
            _ if is_refused_generic_call(text) => Self::BadArguments,
            DubboStatus::BadRequest => Self::ProviderRejected,
            // Dubbo 2.7 reports this as BAD_RESPONSE, 3.3 as SERIALIZATION_ERROR.
            _ if text.contains("Data length too large") => Self::ReplyTooLarge,
            _ => Self::ProviderError,
        }
    }
}

/// Longest part of what a caller has sent that a message shows, in bytes.
const MAX_SHOWN_LEN: usize = 200;

/// As much of what a caller has sent as a message shows.
pub fn clip(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_SHOWN_LEN)).unwrap_or_default()
}

/// Where an agent tells more of a registry that is silent. A program without a log and pages of
/// its own leaves it out.
pub const SEE_REGISTRIES: &str = "; the agent's log and its admin page /registries say why";

/// How a frame of a Java stack trace begins.
const STACK_FRAME: &str = "\n\tat ";
/// How the trace of an exception's cause begins.
const CAUSE: &str = "\nCaused by: ";
/// Dubbo's package since 2.7.
const APACHE: &str = "org.apache.dubbo.";
/// Dubbo's package up to 2.6.
const ALIBABA: &str = "com.alibaba.dubbo.";
/// What a generic call of an overloaded method is answered.
const NOT_UNIQUE: &str = "Not unique method for method name";
/// What Dubbo 3 answers when it has no such service, method or types, or cannot read an argument.
const UNREADABLE: &str = "Fail to decode request due to: RpcInvocation [";

/// Whether the filter that turns a generic call into a plain one did not get that far: the
/// exception was thrown in the filter itself, which is where later versions also report what they
/// cannot make Java's values of, or where it makes these values, as in 2.6. Being on the way of an
/// exception says nothing.
fn is_refused_generic_call(text: &str) -> bool {
    let is_filter = |frame: &str| frame.starts_with("rpc.filter.GenericFilter.invoke(");
    let is_maker = |frame: &str| frame.starts_with("common.utils.PojoUtils.realize(");
    // A cause has a trace of its own.
    let trace = text.split(CAUSE).next().unwrap_or_default();
    let frames = || trace.split(STACK_FRAME).skip(1);
    // In 2.6 the same method writes the result, too.
    // What gson cannot make a value of is thrown by gson itself, or by the filter on its behalf.
    let by_gson = |frame: &str| {
        let in_filter = frame.strip_prefix("rpc.filter.GenericFilter.");
        frame.starts_with("common.utils.GsonUtils.fromJson(")
            || in_filter.is_some_and(|method| method.contains("getGsonGenericArgs"))
    };
    let is_gsons = frames().find_map(|frame| frame.strip_prefix(APACHE)).is_some_and(by_gson);
    let is_thrown_there =
        frames().next().and_then(|frame| frame.strip_prefix(APACHE)).is_some_and(is_filter);
    let mut pairs = frames().zip(frames().skip(1));
    let is_not_made = pairs.any(|pair| {
        [APACHE, ALIBABA].iter().any(|package| {
            let [above, below] = [pair.0, pair.1].map(|frame| frame.strip_prefix(package));
            above.is_some_and(is_maker) && below.is_some_and(is_filter)
        })
    });
    is_thrown_there || is_gsons || is_not_made || text.contains(NOT_UNIQUE)
}

/// Timeouts are kept to a few milliseconds on either side.
const CLOCK_STEP: Duration = Duration::from_millis(20);

/// A failed call: what happened, where, in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallError {
    /// What kind of failure.
    pub code: Code,
    /// What happened, and what to do about it.
    pub message: Box<str>,
    /// The endpoint that it happened at, if one had been chosen.
    pub endpoint: Option<Box<str>>,
    /// The status with which a Dubbo provider refused, for callers that speak Dubbo themselves.
    pub provider_status: Option<DubboStatus>,
    /// The serialization in which a Dubbo provider, called straight, said so.
    pub provider_serialization: Option<Serialization>,
    /// What the exception says that the method threw, as a JSON object; see [`crate::exception`].
    pub exception: Option<Box<str>>,
    /// When it is worth trying again, if that is known.
    pub retry_after: Option<Duration>,
    /// Whether it is a reply that came and cannot be read, whatever form is asked for.
    pub is_broken_reply: bool,
}

impl CallError {
    /// A failure that no endpoint had part in.
    pub fn new(code: Code, message: impl Into<Box<str>>) -> Self {
        Self {
            code,
            message: message.into(),
            endpoint: None,
            provider_status: None,
            provider_serialization: None,
            exception: None,
            retry_after: None,
            is_broken_reply: false,
        }
    }

    /// What a Dubbo provider answered instead of a result.
    pub fn from_provider(status: DubboStatus, text: &str) -> Self {
        let code = Code::from_dubbo(status, text);
        Self { provider_status: Some(status), ..Self::new(code, text) }
    }

    /// Whether the caller's time was up, so that nobody else's limit is meant. A peer is told how
    /// much time is left, and may say so a moment earlier than our own clock.
    pub fn is_overdue(&self, deadline: Instant) -> bool {
        self.code == Code::Timeout
            && self.provider_status.is_none()
            && deadline <= Instant::now() + CLOCK_STEP
    }

    /// The same, and where it happened.
    #[must_use]
    pub fn at(mut self, endpoint: &str) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// The message for somebody who has not got the provider's source at hand: without its stack
    /// trace, and with what to do where Dubbo leaves one to guess.
    pub fn summary(&self) -> Cow<'_, str> {
        let text = &*self.message;
        if self.provider_status.is_none() {
            return text.into();
        }
        let summary = text.split(STACK_FRAME).next().unwrap_or(text);
        // The decoder's exception is told twice: by its message, then by its stack trace.
        let summary = summary.lines().next().unwrap_or(summary);
        let advice = match () {
            () if text.contains(NOT_UNIQUE) => {
                "; choose one by its parameter types (header x-dubbo-parameter-types)"
            }
            () if text.contains(UNREADABLE) => {
                "; the provider has no such service, method or parameter types, or cannot read an \
                 argument; its log shows which"
            }
            () => return summary.into(),
        };
        format!("{summary}{advice}").into()
    }

    /// Status and text for a Dubbo consumer: the provider's own if it was the provider that
    /// refused.
    pub fn for_dubbo(&self) -> (DubboStatus, Cow<'_, str>) {
        if let Some(status) = self.provider_status {
            return (status, (&*self.message).into());
        }
        let row = self.code.row();
        let text = match row.dubbo_status {
            // Dubbo's own words, for those who look for them.
            DubboStatus::ServerThreadpoolExhausted => {
                format!("Server side thread pool is exhausted, detail msg: {self}")
            }
            DubboStatus::ServiceNotFound => {
                format!("Not found exported service, detail msg: {self}")
            }
            _ => self.to_string(),
        };
        (row.dubbo_status, text.into())
    }

    /// Whether it is the answer of Dubbo 3 to all that it cannot read, whatever the reason.
    pub fn is_unreadable(&self) -> bool {
        self.provider_status == Some(DubboStatus::BadRequest) && self.message.contains(UNREADABLE)
    }

    /// What the failure says about another try.
    pub fn retry(&self) -> Retry {
        // A provider that is starting or leaving has not all of its services: 2.7 says that it has
        // no such method, 3 that it cannot read the call. Both say so when they read the request,
        // so nothing was begun. Another provider may have the method.
        let has_no_method = self.code == Code::MethodNotFound
            && self.provider_status == Some(DubboStatus::BadRequest);
        let is_unread = has_no_method || self.is_unreadable();
        if is_unread { Retry::Elsewhere } else { self.code.row().retry }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.row().name, self.summary())?;
        match &self.endpoint {
            Some(endpoint) => write!(f, " (at {endpoint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CallError {}

#[cfg(test)]
mod tests;
