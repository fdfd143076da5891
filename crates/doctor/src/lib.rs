//! Finds out why calls are slow: which connection, buffer, thread pool or peer is the bottleneck.
//!
//! - [`Figures`] is what is known of a socket at a moment, [`WatchedSocket`] how that changed
//!   while it was watched.
//! - [`verdicts`] says what that means: [`Finding`]s with evidence and a remedy. It is pure.
//! - [`sock_diag`] reads the sockets of all processes from the kernel, [`processes`] says whose
//!   they are.

//!
//! Invariant: a figure that the kernel does not give is unknown, and never zero.

mod figures;
#[cfg(target_os = "linux")]
pub mod processes;
#[cfg(target_os = "linux")]
pub mod sock_diag;
pub mod verdicts;
mod watched;

pub use figures::{Figures, Role, Socket, SocketId};
pub use verdicts::{Cause, Finding, counted};
pub use watched::{Interval, WatchedSocket};
