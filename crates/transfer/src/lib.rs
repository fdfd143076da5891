//! Ordered transfer: the lines of a file, each fetched by a request of its own, processed, and put
//! back in order.
//!
//! - [`line_step`] is what is done to a line; [`lines`] says where a line ends.
//! - [`source`] reads the server's file.
//! - [`handout`] says who gets which line.
//! - [`writer`] puts lines back in order, into a file that is partial until it is whole and
//!   checked.
//! - [`checksum`] is how two sides know that they have the same.
//! - [`mod@serve`] and [`mod@fetch`] are the two sides on a network; `methods` says how they call
//!   each other.
//! - [`messages`] is what client and server say to each other.
//! - [`generate`] makes files to transfer, [`verify`] compares an output with its source, and
//!   [`local_transfer`] does on one thread, without a network, what a transfer does with one.

mod checkpoint;
pub mod checksum;
mod error;
pub mod fetch;
pub mod generate;
pub mod handout;
pub mod line_step;
pub mod lines;
pub mod local_transfer;
pub mod messages;
mod methods;
mod output;
mod reorder;
pub mod serve;
pub mod source;
pub mod verify;
pub mod writer;

pub use checkpoint::Subject;
pub use checksum::Totals;
pub use error::{Difference, TransferError};
pub use fetch::{FetchOptions, FetchProgress, Fetched, StepSide, fetch};
pub use handout::{HandOut, Handed, LineRequest, totals_before};
pub use line_step::{LineProcessor, LineStep};
pub use lines::{LineEnds, UnknownLineEnds};
pub use link::{Compression, TrafficTotals};
pub use output::OutputOptions;
pub use serve::{ServeOptions, Serving};
pub use source::{Reader, Source, SourceIdentity};
pub use writer::{LineSender, Writer, WriterOptions, Written};
