//! What an agent can be asked about itself: questions to workers, and the snapshots that they
//! answer with.
//!
//! Whoever shows something of a running agent reads the types of [`snapshot`]: the admin listener,
//! and programs that read its pages. Workers answer in `worker/inspect.rs`.
//!
//! Invariants:
//! - An answer lists at most as many things as were asked for; it says how many there are.
//! - Nobody waits longer than [`DEADLINE`] for a worker, and a worker that is busy is owed at most
//!   [`MAX_OPEN`] answers.

mod filter;
mod question;
pub mod snapshot;
#[cfg(test)]
mod tests;

pub use self::filter::{DEFAULT_LIMIT, Filter, FirstFew, MAX_LIMIT};
pub use self::question::{
    DEADLINE, Inspector, MAX_OPEN, Query, Question, QuestionSender, WorkerAnswer,
};
