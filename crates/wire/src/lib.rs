//! Connections, before anybody speaks a protocol on them.
//!
//! - [`socket`] opens, accepts and tunes TCP sockets.
//! - [`Backoff`] is the pause before something is tried again.
//!
//! This crate must not know what the bytes on a connection mean, nor any registry or configuration
//! file.

mod backoff;
pub mod socket;

pub use backoff::{Backoff, jitter};
