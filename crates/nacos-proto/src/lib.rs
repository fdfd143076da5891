//! What a client of Nacos 2.x and 3.x says and hears by gRPC. Pure: no I/O, no clock.
//!
//! - [`Payload`] is the one message of Nacos' gRPC services: the name of a type, headers, and
//!   JSON.
//! - [`Ask`] is what a client asks, and [`Heard`] what a server says by itself on the stream.
//! - [`ServiceInfo`] is the list of a service's instances, as answers and pushes have it.
//! - [`Credentials`] gives the headers that show who asks.
//!
//! Sources: `nacos_grpc_service.proto`, `com.alibaba.nacos.api.naming.remote`, `...config.remote`
//! and `...remote` in alibaba/nacos.
//!
//! Invariants:
//! - Nothing that a server sends makes this crate panic, and a host that cannot be read takes no
//!   other one away.
//! - Lists that are longer than [`MAX_HOSTS`] or [`MAX_NAMES`] are cut, and say so.

mod answer;
mod ask;
mod auth;
mod digest;
#[cfg(feature = "fuzzing")]
pub mod exercise;
mod heard;
mod instance;
mod key;
mod payload;

pub use answer::{Answer, ConfigAnswer, Handshake, Refusal, ServiceNames};
pub use ask::{Ask, Listened, Module};
pub use auth::{Credentials, Resource, Secret};
pub use digest::md5;
pub use heard::{Heard, HeardKind};
pub use instance::{
    BadHost, Host, Instance, MAX_HOSTS, MAX_METADATA, MAX_METADATA_LEN, MAX_NAMES, ServiceInfo,
};
pub use key::{ConfigKey, ServiceName};
pub use payload::{BadPayload, Payload};

/// The path of the call by which a client asks.
pub const ASK_PATH: &str = "/Request/request";

/// The path of the stream on which a server speaks by itself.
pub const STREAM_PATH: &str = "/BiRequestStream/requestBiStream";

/// How far the port of gRPC is above that of HTTP.
pub const GRPC_PORT_OFFSET: u16 = 1000;
