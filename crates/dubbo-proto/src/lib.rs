//! Dubbo's TCP protocol: bytes and calls in, bytes and events out. No socket, clock, runtime or
//! log.
//!
//! Where to begin:
//! - [`ClientConnection`] and [`ServerConnection`] are the two ends of a connection, each a state
//!   machine that a driver feeds with bytes and instants.
//! - [`RequestTemplate`] writes requests, [`Request`] reads them; [`Reply`] reads replies and
//!   [`encode_reply`] writes them. All of them leave arguments and results alone: those are bytes
//!   that the caller makes and reads, with crate `hessian` for example.
//! - [`Routing`] is the little that somebody who passes a request on has to read of it.
//! - [`frame`] is the header that comes before everything, [`Serialization`] and [`Status`] are
//!   what its bytes mean.
//! - [`DubboUrl`] and [`ServiceKey`] are how registries write down who offers what.
//! - [`ValueCodec`] is what values are in JSON, and how generic calls write objects, for each
//!   serialization of the table.
//! - [`fastjson`] turns fastjson's dialect into JSON.
//! - [`descriptor`] reads the JVM's notation of parameter types.
//! - [`application`] is what Dubbo 3 writes down of applications, their instances and metadata.
//! - [`definition`] reads what Dubbo says of a service's methods and classes.
//!
//! Everything that a peer sends is bounded before it is kept: [`frame::decode`] checks a body's
//! length first, [`BodyLimits`] bound what is in it, and the connections bound what they hold.

pub mod application;
pub mod attachment;
mod body;
mod client;
mod credentials;
pub mod definition;
pub mod descriptor;
mod error;
mod event;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod exercise;
pub mod fastjson;
pub mod frame;
mod frame_deadline;
mod liveness;
mod pending_calls;
mod reply;
mod request;
mod routing;
mod serialization;
mod server;
pub mod service;
mod status;
mod template;
pub mod url;
mod values;

pub use attachment::AttachmentValue;
pub use body::{AttachmentMap, BodyLimits, Routing};
pub use client::{
    CallDeadline, ClientConfig, ClientConnection, ClientEvent, ClientStats, DeadReason, SendError,
};
pub use credentials::{is_secret_parameter, without_credentials};
pub use definition::ServiceDefinition;
pub use error::{FrameError, ProtoError};
pub use frame::{DEFAULT_PAYLOAD_LIMIT, MAX_PAYLOAD_LIMIT, PROTOCOL_VERSION};
pub use pending_calls::RequestId;
pub use reply::{
    Outcome, Reply, ReplyKind, ReplyTo, encode_error, encode_reply, error_text, is_broken_reply,
};
pub use request::Request;
pub use routing::Likeness;
pub use serialization::Serialization;
pub use server::{ServerConfig, ServerConnection, ServerEvent, ServerStats};
pub use service::{ServiceKey, validate_interface, validate_method};
pub use status::Status;
pub use template::{RequestHead, RequestTemplate};
pub use url::DubboUrl;
pub use values::{
    Argument, ArgumentError, Arguments, GenericHead, JsonTexts, ObjectWriter, ReadOptions,
    ThrownTexts, ValueCodec, ValueError, text_of,
};

/// The one clock that this crate's tests read: an instant to count from.
#[cfg(test)]
mod test_clock {
    #[expect(clippy::disallowed_methods, reason = "an Instant cannot be made in any other way")]
    pub(crate) fn start() -> std::time::Instant {
        std::time::Instant::now()
    }
}
