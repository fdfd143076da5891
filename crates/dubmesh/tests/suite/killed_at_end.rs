//! Children of tests.

use std::process::Child;

/// A child that does not outlive its test.
pub(crate) struct KilledAtEnd(pub(crate) Child);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
