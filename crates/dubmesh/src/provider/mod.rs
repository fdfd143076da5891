//! An embedded Dubbo provider, to try things out and to measure agents against.
//!
//! [`service`] is what it offers, [`server`] how it is served, [`command`] the command line.
//! It behaves as a Java provider would: it works on so many calls at a time, rejects others with
//! Dubbo's status for that, and announces its end.

mod command;
mod server;
mod service;

pub(crate) use self::command::{HELLO, HELP, ProviderArgs, provider, serialization};
pub(crate) use self::server::{Provider, ProviderConfig, ProviderError};
pub(crate) use self::service::java_hash;
