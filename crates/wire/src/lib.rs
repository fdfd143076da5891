//! Connections, before anybody speaks a protocol on them.
//!
//! - [`listen`] binds an address; a [`Listener`] accepts its connections within
//!   [`ListenerLimits`]. It is the one accept loop.
//! - A [`Connection`] is a byte stream that knows who is at its other end, and that counts as open
//!   until it is dropped; see [`ConnectionCounts`].
//! - [`tls`] is TLS over a connection, on either side of it (a feature).
//! - A [`Meter`] counts a connection's bytes, and asks the kernel about it.
//! - A [`Destination`] is where this process connects to.
//! - [`Loads`] finds the worker that has fewest connections.
//! - [`Files`] keeps some of the process's file descriptors from those who connect.
//! - [`socket`] opens TCP sockets, as [`SocketOptions`] say; [`TcpInfo`] is what the kernel knows
//!   of one.
//! - [`Budget`] is the memory that all peers together may make this process hold.
//! - [`Taking`] is whether a peer takes what is written to it.
//! - [`address`] reads and writes `HOST:PORT`.
//! - [`drive`] runs a [`Machine`], a connection's state without I/O, on any byte stream. Others
//!   reach that machine through [`Conn`] or [`SyncConn`] meanwhile.
//! - [`mod@file`] reads files, such as certificates, without holding up whoever serves.
//! - [`ProcessUsage`] is what a process has used of the machine, and [`CpuWait`] how long this one
//!   waits for a processor.
//! - [`Backoff`] is the pause before something is tried again.
//!
//! This crate must not know what the bytes on a connection mean, nor any registry or configuration
//! file.

pub mod address;
mod backoff;
mod budget;
mod connection;
mod connection_counts;
mod cpu_wait;
mod descriptors;
mod destination;
pub mod file;
mod listen_address;
mod listener;
mod machine;
mod process_usage;
mod slow_reader;
pub mod socket;
mod tcp_info;
mod worker_loads;

pub use backoff::{Backoff, jitter};
pub use budget::{
    Account, Budget, BudgetHolder, Group, Growth, Hold, Lease, OverBudget, memory_of_machine,
};
#[cfg(feature = "tls")]
pub use connection::tls;
pub use connection::{Connection, Departures, Detached, Facts, Meter, Peer, Secured};
pub use connection_counts::ConnectionCounts;
pub use cpu_wait::{CpuThrottling, CpuWait};
pub use descriptors::Files;
pub use destination::Destination;
pub use listen_address::{
    BoundSocket, DEFAULT_SOCKET_MODE, ListenAddress, ListenError, MAX_SOCKET_PATH_LEN, UnixSocket,
    listen, remedy,
};
pub use listener::{Listener, ListenerLimits};
pub use machine::{Conn, Ending, Machine, SharedMachine, SyncConn, TimedEvent, Wait, Waits};
pub use machine::{drive, drive_slices, linger, slice_len};
pub use process_usage::ProcessUsage;
pub use slow_reader::{MIN_TAKEN_LEN, Taking, WatchedStream};
pub use socket::{ListenOptions, SocketOptions};
pub use tcp_info::TcpInfo;
pub use worker_loads::{Assigned, Loads};
