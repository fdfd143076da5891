//! Connections, before anybody speaks a protocol on them.
//!
//! - [`socket`] opens, accepts and tunes TCP sockets.
//! - [`Budget`] is the memory that all peers together may make this process hold.
//! - [`Taking`] is whether a peer takes what is written to it.
//! - [`Backoff`] is the pause before something is tried again.
//!
//! This crate must not know what the bytes on a connection mean, nor any registry or configuration
//! file.

mod backoff;
mod budget;
pub mod socket;
mod taking;

pub use backoff::{Backoff, jitter};
pub use budget::{Account, Budget, Group, Hold, Holder, Lease, Refused, memory_of_machine};
pub use taking::{MIN_TAKEN_LEN, Taking, Watched};
