//! What tests of gates share.

use std::cell::Cell;

use link_proto::Credits;

use super::Borrower;

/// A link that takes whatever credits it gets, and counts how often it was told.
#[derive(Default)]
pub(super) struct TestBorrower {
    n_told: Cell<u32>,
}

impl Borrower for TestBorrower {
    fn n_told(&self) -> u32 {
        self.n_told.get()
    }

    fn tell(&self, _: Credits) {
        self.n_told.set(self.n_told.get() + 1);
    }

    fn tell_pause(&self, _: bool) {}
}
