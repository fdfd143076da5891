//! Real peers for tests and benchmarks: Java Dubbo providers, etcd and ZooKeeper, as child
//! processes.
//!
//! - [`Etcd`] is a real etcd in a temporary folder, which can be killed and started again.
//! - [`ZooKeeper`] is the same for a real ZooKeeper; [`ZooKeeperClient`] writes into it and looks
//!   into it.
//! - [`Nacos`] is the same for rnacos, a compatible server, where that is installed.
//! - [`JavaProvider`] is a real Dubbo provider, 2.6 to 3.3, built from interop/ when need be;
//!   [`JavaConsumer`] is the other side.
//! - [`HttpApp`] is an app without Java, in Node or Python: the same services as plain JSON.
//! - [`Child`] is what all are made of: a process group that dies with its owner, even when
//!   the test process itself is killed, and whose last lines of output go into every error.
//! - [`network`] is a network with a round trip, a rate and a loss, between two namespaces.
//! - [`free_port`] and [`wait_until`] keep tests off fixed ports and fixed sleeps.
//!
//! Everything here is synchronous and has no runtime, so that an async test can use it by
//! `spawn_blocking` or before its runtime starts. Begin to read at `etcd.rs`, and at `server.rs`,
//! which has what servers have in common.

mod child;
mod error;
mod etcd;
mod http_app;
mod java;
mod nacos;
mod net;
pub mod network;
mod program;
mod server;
mod zookeeper;

pub use child::Child;
pub use error::HarnessError;
pub use etcd::{Etcd, EtcdOptions, EtcdTls};
pub use http_app::HttpApp;
pub use java::{
    ConsumerOptions, DubboVersion, JavaConsumer, JavaProvider, LoadOptions, ProviderOptions,
    peer_command,
};
pub use nacos::Nacos;
pub use net::{free_port, wait_until};
pub use program::find_program;
pub use zookeeper::{ZooKeeper, ZooKeeperClient, ZooKeeperOptions, ZooKeeperTls, ZooKeeperVersion};
