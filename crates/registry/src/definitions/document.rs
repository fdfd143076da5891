//! Documents that were found, and which of them are read.
//!
//! Invariant: one that is not read takes no other one away.

use dubbo_proto::definition::MAX_DOCUMENT_LEN;

use super::DefinitionOrigin;

/// The longest documents of one interface together.
pub(crate) const MAX_TOTAL_LEN: usize = 16 << 20;

/// A document that was found somewhere.
pub(crate) struct Document {
    pub(crate) origin: DefinitionOrigin,
    /// What it says, or why it was not read.
    pub(crate) text: Result<Vec<u8>, Unread>,
}

/// Why a document was not read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Unread {
    #[error("it is longer than {MAX_DOCUMENT_LEN} bytes")]
    TooLong,
    #[error("the documents of its interface before it have {MAX_TOTAL_LEN} bytes together")]
    NoRoom,
    #[error("it cannot be read: {0}")]
    Refused(String),
}

/// How much is still read of an interface's documents, in bytes.
#[derive(Debug)]
pub(crate) struct ReadAllowance {
    left_len: usize,
}

impl Default for ReadAllowance {
    fn default() -> Self {
        Self { left_len: MAX_TOTAL_LEN }
    }
}

impl ReadAllowance {
    /// Takes a document's length out of it.
    ///
    /// # Errors
    /// Why the document is not read.
    pub(crate) fn take(&mut self, len: usize) -> Result<(), Unread> {
        if MAX_DOCUMENT_LEN < len {
            return Err(Unread::TooLong);
        }
        self.left_len = self.left_len.checked_sub(len).ok_or(Unread::NoRoom)?;
        Ok(())
    }

    /// Whether a document of any length could be read.
    pub(crate) fn has_room(&self) -> bool {
        MAX_DOCUMENT_LEN <= self.left_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_document_takes_no_room_from_the_others() {
        let mut allowance = ReadAllowance::default();
        assert_eq!(allowance.take(10 << 20), Err(Unread::TooLong));
        for _ in 0..MAX_TOTAL_LEN / MAX_DOCUMENT_LEN {
            assert!(allowance.has_room());
            assert_eq!(allowance.take(MAX_DOCUMENT_LEN), Ok(()));
        }
        assert!(!allowance.has_room());
        assert_eq!(allowance.take(1), Err(Unread::NoRoom));
        assert_eq!(allowance.take(0), Ok(()));
    }
}
