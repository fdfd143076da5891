//! The two checksums of a transfer. Neither is cryptographic: they find damage, not malice.
//!
//! - [`line_hash`], summed over lines, is what client and server compare. A sum does not depend on
//!   the order in which lines come, so each thread adds up its own; the line's number is part of
//!   its hash, so that two lines that changed places are found.
//! - [`Digest`] is xxh3 over the output's bytes; the journal of a partial output keeps it, and it
//!   is what `xxhsum -H3` prints for the whole output.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

/// The hash of line `number`, with its end, as the server sent it: xxh3 with the number as its
/// seed.
#[must_use]
pub fn line_hash(number: u64, line: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(number, line)
}

/// Running xxh3 over the bytes of a file.
#[derive(Clone)]
pub struct Digest(XxHash3_64);

impl Default for Digest {
    fn default() -> Self {
        Self(XxHash3_64::with_seed(0))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest({:016x})", self.value())
    }
}

impl Digest {
    /// Goes on over `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The checksum of the bytes so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.finish()
    }
}

/// A line as the server sent it: what of it is compared at the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SentLine {
    /// Its [`line_hash`].
    pub hash: u64,
    /// Its length in bytes, with its end.
    pub len: u32,
}

impl SentLine {
    /// Line `number`, with its end. Lines are far shorter than 4 GiB.
    #[must_use]
    pub fn of(number: u64, line: &[u8]) -> Self {
        let len = u32::try_from(line.len()).unwrap_or(u32::MAX);
        Self { hash: line_hash(number, line), len }
    }
}

/// What two sides of a transfer compare at its end: lines as the server sent them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// How many lines.
    pub lines: u64,
    /// Their length in bytes, with their ends.
    pub bytes: u64,
    /// The sum of their [`line_hash`]es, modulo 2^64.
    pub sum: u64,
}

impl Totals {
    /// Adds one line.
    pub fn add(&mut self, sent: SentLine) {
        self.lines += 1;
        self.bytes += u64::from(sent.len);
        self.sum = self.sum.wrapping_add(sent.hash);
    }

    /// The totals of both, of lines that no one has counted twice.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            lines: self.lines + other.lines,
            bytes: self.bytes + other.bytes,
            sum: self.sum.wrapping_add(other.sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the reference implementation, so that other tools agree for ever.
    #[test]
    fn digest_is_xxh3() {
        let mut digest = Digest::default();
        assert_eq!(digest.value(), 0x2d06_8005_38d3_94c2);
        digest.update(b"a");
        digest.update(b"bc");
        assert_eq!(digest.value(), 0x78af_5f94_892f_3950);
    }

    #[test]
    fn order_does_not_matter_but_numbers_do() {
        let sum = |lines: &[(u64, &[u8])]| {
            lines.iter().fold(Totals::default(), |mut totals, &(number, line)| {
                totals.add(SentLine::of(number, line));
                totals
            })
        };
        assert_eq!(sum(&[(0, b"a"), (1, b"b")]), sum(&[(1, b"b"), (0, b"a")]));
        assert_ne!(sum(&[(0, b"a"), (1, b"b")]), sum(&[(0, b"b"), (1, b"a")]));
        assert_ne!(sum(&[(0, b""), (1, b"")]).sum, sum(&[(0, b""), (2, b"")]).sum);
    }
}
