//! Files to transfer: lines of random printable ASCII that depend on nothing but a length and a
//! seed.
//!
//! The bytes for a seed never change: recorded measurements name them. A test holds their
//! checksum.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use crate::TransferError;
use crate::lines::{CRLF, LF, LineEnds};

/// The longest content of a line.
const MAX_CONTENT_LEN: u64 = 200;

/// How much is generated between two writes.
const BUFFER_LEN: usize = 256 * 1024;

/// Random content is made in pieces of this length; what a line does not need is thrown away.
const PIECE_LEN: usize = 64;

/// Lines of 0 to 200 bytes, uniformly, with their ends, `len` bytes in all. The last line takes
/// what is left; only a file of one byte has no room for `\r\n`.
#[derive(Debug)]
pub struct Lines {
    left: u64,
    ends: LineEnds,
    random: Random,
}

impl Lines {
    /// The lines of a file of `len` bytes. They end with `\r\n`.
    #[must_use]
    pub fn new(len: u64, seed: u64) -> Self {
        Self::with_ends(len, seed, LineEnds::Crlf)
    }

    /// The same with lines that end by another rule. By [`LineEnds::Any`], half of them end with
    /// `\n`.
    #[must_use]
    pub fn with_ends(len: u64, seed: u64, ends: LineEnds) -> Self {
        Self { left: len, ends, random: Random::new(seed) }
    }

    /// Appends the next line to `out`; `false`, and nothing, when there is none left.
    pub fn next_line(&mut self, out: &mut Vec<u8>) -> bool {
        let crlf = self.ends == LineEnds::Crlf;
        if self.left == 0 || crlf && self.left == 1 {
            let any = self.left == 1;
            out.extend(std::iter::repeat_n(b'x', usize::from(any)));
            self.left = 0;
            return any;
        }
        let random = self.random.next();
        let end = match self.ends {
            LineEnds::Crlf => CRLF,
            // The length depends on the high bits.
            LineEnds::Any if random & 1 == 1 && 2 <= self.left => CRLF,
            LineEnds::Lf | LineEnds::Any => LF,
        };
        let room = self.left - end.len() as u64;
        // The high half of a product: uniform enough, and without a division.
        let random = u128::from(random) * u128::from(MAX_CONTENT_LEN + 1);
        let mut content_len = u64::try_from(random >> 64).unwrap_or(0).min(room);
        // A single byte that is left over could not hold a long end.
        if crlf && room - content_len == 1 {
            content_len =
                if content_len < MAX_CONTENT_LEN { content_len + 1 } else { content_len - 1 };
        }
        self.left = room - content_len;

        #[expect(clippy::cast_possible_truncation, reason = "at most 200")]
        let content_end = out.len() + content_len as usize;
        while out.len() < content_end {
            out.extend_from_slice(&self.random.printable());
        }
        out.truncate(content_end);
        out.extend_from_slice(end);
        true
    }

    /// Writes all lines to `path` and returns how many there are. `progress` is told the bytes
    /// written so far. An existing file is replaced only with `force`.
    ///
    /// # Errors
    /// [`TransferError::OutputExists`], or what writing can end with. A file that could not be
    /// finished is removed.
    pub fn write_to(
        self,
        path: &Path,
        force: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, TransferError> {
        write(self, path, force, progress)
    }
}

/// Two counters with a strong mixing function.
#[derive(Debug)]
struct Random {
    line: u64,
    content: u64,
}

impl Random {
    fn new(seed: u64) -> Self {
        let mut seed = seed;
        Self { line: split_mix(&mut seed), content: split_mix(&mut seed) }
    }

    /// A number for a line's length; a generator of its own, so that content is made in whole
    /// pieces.
    fn next(&mut self) -> u64 {
        split_mix(&mut self.line)
    }

    /// Bytes from the blank to the tilde, each 95 of 256 times as likely as by chance, give or
    /// take one in 256.
    fn printable(&mut self) -> [u8; PIECE_LEN] {
        let mut bytes = [0; PIECE_LEN];
        for place in bytes.as_chunks_mut::<8>().0 {
            *place = wy_rand(&mut self.content).to_le_bytes();
        }
        bytes.map(|byte| b' ' + ((u16::from(byte) * 95) >> 8) as u8)
    }
}

/// wyrand, by Wang Yi: one long multiplication for eight bytes.
fn wy_rand(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0xa076_1d64_78bd_642f);
    let product = u128::from(*state) * u128::from(*state ^ 0xe703_7ed1_a0b4_28db);
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    let halves = (product as u64, (product >> 64) as u64);
    halves.0 ^ halves.1
}

/// SplitMix64, by Steele, Lea and Flood.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Writes the file of `len` bytes and `seed`, with lines that end with `\r\n`; see
/// [`Lines::write_to`].
///
/// # Errors
/// Those of [`Lines::write_to`].
pub fn generate(
    path: &Path,
    len: u64,
    seed: u64,
    force: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, TransferError> {
    Lines::new(len, seed).write_to(path, force, progress)
}

fn write(
    mut lines: Lines,
    path: &Path,
    force: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, TransferError> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = options.open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => TransferError::OutputExists { path: path.to_owned() },
        _ => TransferError::io("create", path)(error),
    })?;
    let mut buffer = Vec::with_capacity(BUFFER_LEN + 512);
    let (mut count, mut written) = (0, 0);
    loop {
        let more = lines.next_line(&mut buffer);
        count += u64::from(more);
        if BUFFER_LEN <= buffer.len() || !more {
            if let Err(error) = file.write_all(&buffer) {
                // A device or pipe that was named must stay.
                if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                    let _ = std::fs::remove_file(path); // the first error is the one to report
                }
                return Err(TransferError::io("write to", path)(error));
            }
            written += buffer.len() as u64;
            buffer.clear();
            progress(written);
        }
        if !more {
            return Ok(count);
        }
    }
}

/// Reads a length as people write it: `1000`, `64KiB`, `1GiB`, `16G` (as `GiB`), `1GB`.
///
/// # Errors
/// [`TransferError::BadLength`].
pub fn parse_len(text: &str) -> Result<u64, TransferError> {
    let bad = || TransferError::BadLength { text: text.to_owned() };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(bad()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Digest;
    use proptest::prelude::*;

    fn bytes(len: u64, seed: u64) -> Vec<u8> {
        let (mut lines, mut out) = (Lines::new(len, seed), Vec::new());
        while lines.next_line(&mut out) {}
        out
    }

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut digest = Digest::default();
        digest.update(&bytes(1 << 20, 7));
        assert_eq!(format!("{:016x}", digest.value()), "43403714658c9ebd");
        assert_ne!(bytes(1000, 7), bytes(1000, 8));
    }

    #[test]
    fn lengths_are_spread_evenly() {
        let bytes = bytes(10_000_000, 1);
        let mut seen = [0; 201];
        for line in bytes.split(|&byte| byte == b'\n') {
            seen[line.len().saturating_sub(1)] += 1;
        }
        // 98,000 lines: 488 of each length, give or take five standard deviations of 22.
        assert!(seen.iter().all(|n| (370..=600).contains(n)), "{seen:?}");
    }

    #[test]
    fn writes_the_whole_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut told = 0;
        let count = generate(&path, 1_000_000, 3, false, &mut |written| told = written).unwrap();
        let written = std::fs::read(&path).unwrap();
        assert_eq!((written.len(), told), (1_000_000, 1_000_000));
        assert_eq!(written, bytes(1_000_000, 3));
        assert_eq!(written.iter().filter(|&&byte| byte == b'\n').count() as u64, count);
        let error = generate(&path, 5, 3, false, &mut |_| {}).unwrap_err();
        assert!(matches!(error, TransferError::OutputExists { .. }), "{error}");
        assert_eq!(generate(&path, 0, 3, true, &mut |_| {}).unwrap(), 0);
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let error = generate(Path::new("/dev/full"), 9, 3, true, &mut |_| {}).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot write to /dev/full: No space left"),
            "{error}"
        );
        assert!(Path::new("/dev/full").exists());
    }

    #[test]
    fn lengths_as_people_write_them() {
        assert_eq!(parse_len("1GiB").unwrap(), 1 << 30);
        assert_eq!(parse_len("16 gib").unwrap(), 16 << 30);
        assert_eq!(parse_len("1GB").unwrap(), 1_000_000_000);
        assert_eq!(parse_len("0").unwrap(), 0);
        for bad in ["", "GiB", "-1", "1.5G", "1XB", "99999999999999999999", "18446744073709551615K"]
        {
            assert!(parse_len(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn other_ends() {
        let bytes = |len, ends| {
            let (mut lines, mut out) = (Lines::with_ends(len, 7, ends), Vec::new());
            while lines.next_line(&mut out) {}
            out
        };
        let count =
            |bytes: &[u8], end: &[u8]| bytes.windows(end.len()).filter(|it| it == &end).count();
        for len in [0, 1, 2, 3, 1000, 100_000] {
            let short = bytes(len, LineEnds::Lf);
            assert_eq!(short.len() as u64, len);
            assert!(!short.contains(&b'\r') && short.last().is_none_or(|&byte| byte == b'\n'));
            let mixed = bytes(len, LineEnds::Any);
            assert_eq!(mixed.len() as u64, len);
            assert!(mixed.last().is_none_or(|&byte| byte == b'\n'));
            let (long, all) = (count(&mixed, CRLF), count(&mixed, LF));
            assert!(len < 100_000 || (400..600).contains(&long) && (800..1200).contains(&all));
        }
    }

    proptest! {
        #[test]
        fn exactly_as_long_as_asked(len in 0..3000u64, seed: u64) {
            let bytes = bytes(len, seed);
            prop_assert_eq!(bytes.len() as u64, len);
            let mut lines: Vec<_> = bytes.split(|&byte| byte == b'\n').collect();
            let last = lines.pop().unwrap();
            prop_assert_eq!(last.len(), usize::from(len == 1));
            for line in lines {
                let content = line.strip_suffix(b"\r").unwrap();
                prop_assert!(content.len() <= 200);
                prop_assert!(content.iter().all(|byte| (b' '..=b'~').contains(byte)));
            }
        }
    }
}
