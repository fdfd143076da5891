//! What Dubmesh is tried out and measured with: nothing here is part of an agent.
//!
//! - [`provider`]: a Dubbo provider without Java.
//! - [`demo`]: a whole mesh with load on it, in one process, shown live.
//! - [`congestion`]: how long calls wait for each other, by connections and buffers.
//! - [`rpc`]: how many calls the RPC library makes through one connection.
//!
//! The commands `dubmesh provider`, `dubmesh demo` and `dubmesh bench` are in the binary's crate;
//! they read arguments and start what is here. A binary without them is built without its feature
//! `lab`.

pub mod congestion;
pub mod demo;
mod latencies;
pub mod provider;
pub mod rpc;
