//! Ordered transfer: the lines of a file, each fetched by a request of its own, processed, and put
//! back in order.
//!
//! - [`process`] is what is done to a line; [`lines`] says where a line ends.
//! - [`source`] reads the server's file.
//! - [`handout`] says who gets which line.
//! - [`checksum`] is how two sides know that they have the same.
//! - [`generate`] makes files to transfer.

pub mod checksum;
mod error;
pub mod generate;
pub mod handout;
pub mod lines;
pub mod process;
pub mod source;

pub use checksum::Totals;
pub use error::{Difference, TransferError};
pub use handout::{Ask, HandOut, Handed};
pub use process::{Process, Step};
pub use source::{Identity, Reader, Source};
