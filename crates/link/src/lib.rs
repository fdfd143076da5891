//! The link on sockets: many calls at a time over one connection, and a library to offer and make
//! them. The first program, whole:
//!
#![cfg_attr(
    all(feature = "macros", feature = "json", feature = "postcard"),
    doc = concat!("```\n", include_str!("../examples/hello.rs"), "```")
)]
//!
#![cfg_attr(
    feature = "macros",
    doc = "- [`service`](macro@service) turns a trait into a service and a client of it."
)]
//! - [`Server`] offers services, [`Client`] calls them; a [`Method`] is what both agree on.
//! - [`codec`] turns values into bytes.
#![cfg_attr(feature = "tls", doc = "- [`tls`] has both sides show certificates.")]
//! - [`drive`] runs any connection state machine on a socket; [`socket`] opens and tunes sockets.
//!
//! The rules of the protocol itself are in the pure crate `link-proto`. This crate must not know
//! Dubbo, registries or configuration.

pub mod blocking;
pub mod client;
pub mod codec;
mod error;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod exercise;
mod link_stream;
mod machine;
mod method;
pub mod observe;
mod panics;
pub mod server;
pub mod socket;
mod streaming;
#[cfg(feature = "tls")]
pub mod tls;
pub mod trace;
mod traffic;

pub use client::{
    Address, Bound, BoundStream, Call, Client, ClientConfig, Connections, OneWay, Open, Reply,
    StreamReply, Streaming, WhenDown, WhenFull, WithReply,
};
pub use error::{CallError, Failure, Full, NoError, SetupError};
#[cfg(feature = "macros")]
#[doc = include_str!("service.md")]
pub use link_macros::service;
pub use link_proto::{Meta, Status};
pub use machine::LinkMachine;
pub use method::{Method, StreamMethod};
pub use server::{Context, Listening, Peer, Server, ServerConfig, Service};
pub use streaming::{NoItems, Receiver, Sender};
pub use traffic::{Compression, Traffic, TrafficTotals};
pub use wire::{Conn, Ending, Machine, drive, linger};

/// The guide's examples, as tests.
#[cfg(all(doctest, feature = "json", feature = "macros", feature = "postcard", feature = "tls"))]
#[doc = include_str!("../../../docs/rpc-guide.md")]
struct Guide;
