//! ZooKeeper's protocol, as far as a client that registers and finds services needs it. Pure.
//!
//! - [`Connection`] is one connection to one server: bytes, requests and instants in; bytes and
//!   [`Event`]s out. It shakes hands, authenticates, pings, finds out that a server is silent,
//!   gives each answer to who asked, and each watch that fires to who set it.
//! - A [`Session`] lives longer than a connection: the next one may resume it.
//! - [`Request`] and [`Answer`] are the operations that there are.
//!
//! Spoken is what servers of 3.5 to 3.9 speak: Jute's binary records in frames with a length.
//! Sources: `zookeeper.jute`, `ClientCnxn` and `ZooDefs` in apache/zookeeper.
//!
//! This crate must not know sockets, nor what is stored in nodes. Bytes from outside never panic;
//! every length and count is checked before anything is allocated. Begin to read at
//! `connection.rs`.

mod answer;
mod connection;
mod event;
#[cfg(feature = "fuzzing")]
pub mod exercise;
mod jute;
mod request;
mod settings;

pub use answer::{Answer, Refusal, Stat};
pub use connection::Connection;
pub use event::{Broken, Event};
pub use jute::JuteError;
pub use request::{Acl, Identity, Request};
pub use settings::{Session, Settings, Watcher};
