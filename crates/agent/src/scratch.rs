//! A reusable buffer for what is encoded and then copied at once.

use std::cell::RefCell;

/// What a buffer may keep: a larger one is given back.
const MAX_KEPT_LEN: usize = 256 * 1024;

/// A buffer that is empty whenever nobody works with it.
#[derive(Debug, Default)]
pub struct Scratch(RefCell<Vec<u8>>);

impl Scratch {
    /// Lends the buffer, empty. Must not be nested.
    pub fn with<R>(&self, work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let mut buffer = self.0.borrow_mut();
        buffer.clear();
        let result = work(&mut buffer);
        if MAX_KEPT_LEN < buffer.capacity() {
            *buffer = Vec::new();
        }
        result
    }
}
