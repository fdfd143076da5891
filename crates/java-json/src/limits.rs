//! Bounds on what a decoder or transcoder takes from a peer.

/// How much one message may ask of us. All are checked before memory is kept for the thing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Levels of lists, maps and objects inside each other.
    pub max_depth: u32,
    /// Length of one string (UTF-16 units) or one binary (bytes).
    pub max_len: usize,
    /// Elements of lists, entries of maps and fields of objects and class definitions, counted
    /// over the whole message.
    pub max_items: usize,
}

impl Default for Limits {
    /// 64 levels (each costs stack), 8 MiB (Dubbo's `payload` limit), and 1,048,576 elements
    /// (at one byte each the smallest elements of an 8 MiB message would be 8 times that).
    fn default() -> Self {
        Self { max_depth: 64, max_len: 8 << 20, max_items: 1 << 20 }
    }
}

impl Limits {
    /// For what has come whole, and whose length was limited as it came: a text in it cannot be
    /// longer than that.
    #[must_use]
    pub fn of_whole() -> Self {
        Self { max_len: usize::MAX, ..Self::default() }
    }
}
