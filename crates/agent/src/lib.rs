//! The agent: takes calls, finds who can answer them, and passes them on.
//!
//! The path of a call, in the order to read the code: [`ingress`] reads it from the app,
//! [`invoke`] checks it, [`resolve`] finds the method that is meant, [`route`] holds what is
//! prepared for its method, [`routes`] knows to which [`cluster`] it goes. The cluster picks an
//! endpoint, [`upstream`] sends the call there, straight to a Dubbo provider or over a link to the
//! provider's agent, where [`export`] passes it to the app, whatever that speaks ([`backend`]).
//! Replies go back the same way as bytes; [`error`] is the table of everything that can go wrong
//! instead. No module here imports another in a circle.
//!
//! [`Agent`] wires it up: worker threads ([`worker`]) carry the calls and share nothing; one
//! control thread ([`control`]) does everything slow. [`client`] makes calls by the same path
//! without being an agent.
#![allow(
    clippy::missing_errors_doc,
    reason = "an `Outcome` is how a call ended, which is no failure of the function that returns it"
)]

pub mod admin;
pub mod agent;
pub mod args;
pub mod attachments;
pub mod backend;
pub mod call;
pub mod certificate_files;
pub mod client;
pub mod cluster;
pub mod clusters;
pub mod codec;
pub mod config;
pub mod connections;
pub mod content;
pub mod control;
pub mod definitions;
pub mod description;
pub mod error;
pub mod exception;
pub mod expected_len;
pub mod export;
pub mod facts;
pub mod gate;
pub mod grown_text;
pub mod ingress;
pub mod inspect;
pub mod invocation;
pub mod invoke;
pub mod journal;
pub mod listening;
mod map_form;
pub mod memory;
pub mod metrics;
pub mod offload;
pub mod outbound;
pub mod own_ingresses;
pub mod priority;
mod refused_serializations;
pub mod reply;
pub mod resolve;
pub mod route;
pub mod routes;
pub mod rule_documents;
pub mod scratch;
pub mod stages;
pub mod swept;
pub mod terminal;
#[cfg(test)]
mod testing;
pub mod timeout;
mod traffic;
pub mod unoffered;
pub mod upstream;
pub mod worker;

pub use agent::Agent;
pub use control::{DrainSummary, StartError};
