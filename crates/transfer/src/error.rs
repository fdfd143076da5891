//! Everything that can end a transfer, or keep it from beginning. No policy here: each variant
//! names the broken rule, the place and the numbers, so that its text is enough for an operator to
//! act on.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::lines::LineEnds;

/// Why a transfer, a generated file or a comparison failed.
///
/// It can be cloned, because one failure (a full disk, say) ends the work of many callers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TransferError {
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: `open`, `write to`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The source is a directory, a pipe or a device: its length is not known ahead. Or the output
    /// is a directory.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// The source's length or time of change is not what it was when the transfer began.
    #[error("{} was changed while it was read: it had {len} bytes when it was opened", path.display())]
    SourceChanged {
        /// The source.
        path: PathBuf,
        /// Its length when it was opened, in bytes.
        len: u64,
    },
    /// A line that is longer than a message may be.
    #[error(
        "line {number} at offset {offset} is over the limit of {max} bytes; {}", ends_told(*ends)
    )]
    LineTooLong {
        /// The line's number, from 0.
        number: u64,
        /// Where it begins in the source.
        offset: u64,
        /// The limit in bytes.
        max: usize,
        /// What ends lines.
        ends: LineEnds,
    },
    /// A line was asked for that the source does not have.
    #[error("line {number} was asked for, the source has {count} lines")]
    NoSuchLine {
        /// The number asked for, from 0.
        number: u64,
        /// How many lines there are.
        count: u64,
    },
    /// More callers than one hand-out keeps places for.
    #[error("{callers} callers are over the limit of {max}")]
    TooManyCallers {
        /// How many were asked for.
        callers: u64,
        /// The limit.
        max: u64,
    },
    /// A caller that the hand-out has no place for.
    #[error("caller {caller} is unknown, this transfer was opened for {callers} callers")]
    UnknownCaller {
        /// The caller's number, from 0.
        caller: u32,
        /// How many callers the hand-out was opened for.
        callers: u32,
    },
    /// A caller's request is neither its last one again nor the one after it.
    #[error("caller {caller} sent request {turn}, its last one was {last}")]
    OutOfTurn {
        /// The caller's number, from 0.
        caller: u32,
        /// The request's turn.
        turn: u64,
        /// The turn of the last request that was answered.
        last: u64,
    },
    /// A transfer that the server has forgotten, or never knew.
    #[error(
        "transfer {session:016x} is unknown: it was closed, or nobody asked for a line for too long"
    )]
    UnknownSession {
        /// The transfer's number.
        session: u64,
    },
    /// As many transfers, or callers of them, as the server takes.
    #[error("the server has {max} {what}, which is its limit; try again later")]
    TooManyTransfers {
        /// Transfers or callers.
        what: &'static str,
        /// How many it takes.
        max: usize,
    },
    /// The server or the client cannot be set up.
    #[error("{0}")]
    Setup(Arc<link::SetupError>),
    /// A call failed for a reason that trying again does not help.
    #[error("{0}")]
    Call(Arc<link::Failure>),
    /// The server refused.
    #[error("the server refuses: {text}")]
    Refused {
        /// What the server says.
        text: String,
    },
    /// The server refuses for now.
    #[error("the server refuses: {text}")]
    Busy {
        /// What the server says.
        text: String,
    },
    /// The server has not answered for so long that it is given up.
    #[error("no answer from {address} for {} s: {reason}", waited.as_secs())]
    NoAnswer {
        /// The server.
        address: String,
        /// How long it was waited for.
        waited: Duration,
        /// What the last attempt said.
        reason: String,
    },
    /// The server's source is another one than when this transfer began.
    #[error(
        "the server's source has changed since this transfer began: its length, modification time \
         or --lines differs; start over with --force"
    )]
    OtherSource,
    /// The transfer was told to end early.
    #[error("stopped")]
    Stopped,
    /// The transfer was told twice to end while the disk was waited for.
    #[error(
        "stopped before the output was safely on the disk; {} may be complete, but was not renamed",
        path.display()
    )]
    StoppedFinishing {
        /// The partial output.
        path: PathBuf,
    },
    /// A thread or an event loop cannot be started, or has ended without a word.
    #[error("cannot run an event loop: {source}")]
    Runtime {
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The same request is being answered on another connection at this moment.
    #[error("request {turn} of caller {caller} is being answered already; ask again")]
    BeingAnswered {
        /// The caller's number, from 0.
        caller: u32,
        /// The request's turn.
        turn: u64,
    },
    /// The output would take the place of the file that its lines come from.
    #[error("{} is the source itself; name another output", path.display())]
    OutputIsSource {
        /// The output.
        path: PathBuf,
    },
    /// The output, or its partial name, stands for a file that has the served file's length and
    /// time of change.
    #[error(
        "{} seems to be the file that the server serves: their lengths and modification times are \
         the same; name another output",
        path.display()
    )]
    OutputIsServed {
        /// The file.
        path: PathBuf,
    },
    /// There is an output of that name already.
    #[error("{} exists already; replace it with --force", path.display())]
    OutputExists {
        /// The output.
        path: PathBuf,
    },
    /// There is an output of that name, and nothing partial that could be resumed.
    #[error(
        "{} exists already and nothing of it is left to resume: an earlier transfer may have \
         completed it; compare it with its source by transfer verify, or replace it with --force",
        path.display()
    )]
    NothingToResume {
        /// The output.
        path: PathBuf,
    },
    /// An earlier transfer left a partial output.
    #[error("{} is left from an earlier transfer; continue it with --resume, or start over with \
             --force", path.display())]
    PartialExists {
        /// The partial output.
        path: PathBuf,
    },
    /// Another process writes the same output.
    #[error("{} is being written by another transfer", path.display())]
    OutputBusy {
        /// The partial output.
        path: PathBuf,
    },
    /// The journal beside a partial output cannot be used.
    #[error("{} cannot be resumed from: {rule}; start over with --force", path.display())]
    BadJournal {
        /// The journal.
        path: PathBuf,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// A partial output belongs to another source or another processing step.
    #[error("{} was begun with {what} {old}, but now it is {new}; start over with --force", path.display())]
    OtherTransfer {
        /// The partial output.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// What the journal says.
        old: String,
        /// What is asked for now.
        new: String,
    },
    /// A partial output's bytes are not those that its journal vouches for.
    #[error(
        "{}: the first {len} bytes have checksum {found:016x}, its journal says {expected:016x}; \
         start over with --force",
        path.display()
    )]
    PartialDamaged {
        /// The partial output.
        path: PathBuf,
        /// How many bytes the journal vouches for.
        len: u64,
        /// Their checksum by the journal.
        expected: u64,
        /// Their checksum as read.
        found: u64,
    },
    /// A line came that lies too far ahead of the oldest missing one.
    #[error(
        "line {number} was written before there was room: {oldest} is missing, {window} lines are kept"
    )]
    NoRoom {
        /// The line's number.
        number: u64,
        /// The oldest line that is missing.
        oldest: u64,
        /// How many lines are kept.
        window: u64,
    },
    /// The output differs from what the server says it sent. It stays under its partial name.
    #[error("{what} is {found}, the server says {expected}; the output is left as {}", path.display())]
    Incomplete {
        /// What differs: the number of lines, their length, their checksum.
        what: &'static str,
        /// What the server says.
        expected: u64,
        /// What was written.
        found: u64,
        /// The partial output.
        path: PathBuf,
    },
    /// The writer's thread is gone without a word: an error in this program.
    #[error("the writer has stopped")]
    WriterStopped,
    /// The name of no processing step.
    #[error("unknown processing step {name:?}; the steps are contest and none")]
    UnknownProcess {
        /// What was named.
        name: String,
    },
    /// A peer's message that does not have the form of its kind.
    #[error("cannot read {len} bytes as the transfer message {message:?}")]
    BadMessage {
        /// Which message it should be.
        message: &'static str,
        /// Its length in bytes.
        len: usize,
    },
    /// A length from the command line that is none.
    #[error("{text:?} is not a length in bytes; write 1000, 64KiB, 1GiB or 1GB")]
    BadLength {
        /// What was written.
        text: String,
    },
    /// An output differs from its source.
    #[error("{}: {difference}", path.display())]
    Different {
        /// The output.
        path: PathBuf,
        /// The first difference.
        difference: Difference,
    },
}

/// What ends a line, and what to do if the file's lines end otherwise.
fn ends_told(ends: LineEnds) -> &'static str {
    match ends {
        LineEnds::Crlf => {
            "with --lines crlf, the default, only \\r\\n ends a line; use --lines lf for \\n"
        }
        LineEnds::Lf => "with --lines lf, \\n ends a line",
        LineEnds::Any => "with --lines any, \\n and \\r\\n end a line",
    }
}

/// The first place where an output is not what its source and processing step make it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}, offset {offset}: expected {expected}, found {found}")]
pub struct Difference {
    /// The line's number, from 0.
    pub line: u64,
    /// The first byte that differs, as an offset into the output.
    pub offset: u64,
    /// What should be there from that byte on, shortened and escaped, or `the end`.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl From<link::SetupError> for TransferError {
    fn from(error: link::SetupError) -> Self {
        Self::Setup(Arc::new(error))
    }
}

impl TransferError {
    /// Whether the same transfer, resumed later or when the cause is mended, can go on from the
    /// partial output that is left. Most errors without that remedy name their own.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        match self {
            Self::Io { .. }
            | Self::UnknownSession { .. }
            | Self::TooManyTransfers { .. }
            | Self::Busy { .. }
            | Self::BeingAnswered { .. }
            | Self::NoAnswer { .. }
            | Self::Stopped
            | Self::StoppedFinishing { .. }
            | Self::Runtime { .. }
            | Self::WriterStopped => true,
            Self::Setup(error) => {
                matches!(**error, link::SetupError::Connect { .. } | link::SetupError::Thread(_))
            }
            Self::NotAFile { .. }
            | Self::SourceChanged { .. }
            | Self::LineTooLong { .. }
            | Self::NoSuchLine { .. }
            | Self::TooManyCallers { .. }
            | Self::UnknownCaller { .. }
            | Self::OutOfTurn { .. }
            | Self::Call(_)
            | Self::Refused { .. }
            | Self::OtherSource
            | Self::OutputIsSource { .. }
            | Self::OutputIsServed { .. }
            | Self::OutputExists { .. }
            | Self::NothingToResume { .. }
            | Self::PartialExists { .. }
            | Self::OutputBusy { .. }
            | Self::BadJournal { .. }
            | Self::OtherTransfer { .. }
            | Self::PartialDamaged { .. }
            | Self::NoRoom { .. }
            | Self::Incomplete { .. }
            | Self::UnknownProcess { .. }
            | Self::BadMessage { .. }
            | Self::BadLength { .. }
            | Self::Different { .. } => false,
        }
    }

    /// For `map_err`: an event loop that cannot be started.
    pub(crate) fn runtime(source: io::Error) -> Self {
        Self::Runtime { source: Arc::new(source) }
    }

    /// For `map_err`: an I/O error with what was tried and on which file.
    pub(crate) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io { action, path: path.to_owned(), source: Arc::new(source) }
    }
}
