//! The link on sockets: multiplexed calls over one TCP connection.
//!
//! - [`io`] drives any connection state machine on a socket; begin to read there.
//! - [`socket`] opens and tunes the sockets.
//!
//! The rules of the protocol itself are in the pure crate `link-proto`. This crate must not know
//! Dubbo, registries or configuration.

pub mod io;
mod machine;
pub mod socket;

pub use io::{Conn, Ending, Machine, drive};
