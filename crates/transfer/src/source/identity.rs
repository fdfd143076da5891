//! What a file is known by.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use crate::lines::LineEnds;

/// What makes a file the same file, for someone who comes back to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SourceIdentity {
    /// Its length in bytes.
    pub len: u64,
    /// When its content was last changed, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// What ends its lines. With another rule the same bytes are other lines.
    pub ends: LineEnds,
}

impl SourceIdentity {
    pub(crate) fn of(metadata: &Metadata, ends: LineEnds) -> Self {
        let seconds = i128::from(metadata.mtime());
        Self {
            len: metadata.len(),
            modified_ns: seconds * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
            ends,
        }
    }
}
