//! How much reading was done, for tests that nothing is read once for each level around it. Only
//! debug builds count.

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
thread_local! {
    static N_ITEMS: Cell<u64> = const { Cell::new(0) };
}

/// Counts an element or member that a reader has come to.
#[inline]
pub(super) fn note_item() {
    #[cfg(debug_assertions)]
    N_ITEMS.set(N_ITEMS.get() + 1);
}

/// How many elements and members all readers of this thread come to while `read` runs; 0 in a
/// release build.
pub fn items_read_by(read: impl FnOnce()) -> u64 {
    let before = n_items();
    read();
    n_items() - before
}

fn n_items() -> u64 {
    #[cfg(debug_assertions)]
    return N_ITEMS.get();
    #[cfg(not(debug_assertions))]
    0
}
