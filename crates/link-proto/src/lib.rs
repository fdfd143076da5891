//! The link's protocol: frames, and the state machine of one connection. Bytes and instants go
//! in, bytes and events come out; no socket, clock, task, lock or log in this crate.
//!
//! The link carries calls from the side that connected (the client) to the side that accepted
//! (the server), many at a time and in any order. `docs/link-protocol.md` is the protocol itself,
//! byte by byte; this crate is one implementation of it.
//!
//! Where to begin: [`Connection`]. A driver owns the socket and does, again and again:
//!
//! 1. read into a `BytesMut`, give it to [`Connection::handle_bytes`];
//! 2. drain [`Connection::poll_event`] to `None`, and answer or send calls;
//! 3. write what [`Connection::transmit`] holds, as far as the socket takes it;
//! 4. sleep until the socket is ready or [`Connection::poll_timeout`] has come, then call
//!    [`Connection::handle_timeout`].
//!
//! ```
//! # #![allow(clippy::disallowed_methods)]
//! use link_proto::{Config, Connection, Event, Reply, RequestOut, RouteDef, Status};
//! use std::time::Instant;
//!
//! let now = Instant::now();
//! let mut client: Connection<&str> = Connection::client(Config::default(), now);
//! let mut server: Connection<()> = Connection::server(Config::default(), now);
//!
//! // What a socket would do: both sides' HELLO.
//! server.handle_bytes(now, client.transmit())?;
//! client.handle_bytes(now, server.transmit())?;
//! assert!(matches!(client.poll_event(), Some(Event::Ready(_))));
//! assert!(matches!(server.poll_event(), Some(Event::Ready(_))));
//!
//! let def = RouteDef {
//!     service: "demo.Hello".into(),
//!     method: "hash".into(),
//!     ..Default::default()
//! };
//! let route = client.define(&def)?;
//! let request = RequestOut { payload: b"ping".into(), ..RequestOut::new(route) };
//! client.send_request(now, request, "my call").map_err(|(_, e)| e)?;
//! server.handle_bytes(now, client.transmit())?;
//! while let Some(event) = server.poll_event() {
//!     match event {
//!         Event::Defined { route, .. } => server.accept_route(route, 0),
//!         Event::Request { id, .. } => {
//!             server.respond(id, Reply { payload: b"pong".into(), ..Reply::new(Status::OK) });
//!         }
//!         _ => {}
//!     }
//! }
//! client.handle_bytes(now, server.transmit())?;
//! let last = std::iter::from_fn(|| client.poll_event()).last();
//! let Some(Event::Response { token: "my call", payload, .. }) = last else {
//!     panic!("no response");
//! };
//! assert_eq!(payload, "pong");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Files: [`header`] the 16 bytes before every frame and the limits; `hello`, `route`, `meta`,
//! `message` the bodies; `outbox` what waits to be written; `assembly` long messages on their way
//! in; `compress` what makes bytes fewer; `stream` items and their flow control; `connection` the
//! state machine, with what only a client or only a server does in files of their own.

mod assembly;
mod compress;
mod config;
mod connection;
mod credit;
mod error;
mod event;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod exercise;
pub mod features;
pub mod header;
mod hello;
mod message;
mod meta;
mod outbox;
mod reader;
mod route;
mod status;
mod stream;
pub mod version;

pub use compress::CompressionTotals;
pub use config::Config;
pub use connection::{Connection, InPlace};
pub use credit::{Credits, PoolId};
pub use error::{LinkError, SendError};
pub use event::Event;
pub use hello::PeerHello;
pub use message::{CallId, Payload, Reply, RequestOut};
pub use meta::{Meta, MetaIter};
pub use route::{DefinedRoute, RouteDef, RouteId};
pub use status::{GoAwayReason, Status};
