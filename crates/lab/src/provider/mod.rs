//! An embedded Dubbo provider, to try things out and to measure agents against.
//!
//! `service` is what it offers, `server` how it is served.
//! It behaves as a Java provider would: it works on so many calls at a time, rejects others with
//! Dubbo's status for that, and announces its end.

mod server;
mod service;

pub use self::server::{Counts, Provider, ProviderConfig, ProviderError};
pub use self::service::{HELLO, METHODS, java_hash};
