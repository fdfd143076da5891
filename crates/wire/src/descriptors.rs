//! The file descriptors of the process, and how many of them are kept from those who connect.
//!
//! Every connection takes a descriptor. Without a reserve, whoever opens enough connections keeps
//! the process from reaching its endpoints, its registry and its files.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;

use nix::fcntl::{FcntlArg, fcntl};

/// Of all descriptors, one in so many is kept unless something else is configured.
const RESERVED_SHARE: u64 = 4;
/// No more than this is kept unless configured: few estates have so many endpoints.
const MOST_RESERVED: u64 = 10_000;
/// For no more is there room from the first: the kernel's table takes 8 bytes for each.
const MOST_AT_FIRST: u64 = 1 << 20;

/// How many file descriptors the process may have, and how many of them are kept for what it
/// opens itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Files {
    limit: u64,
    reserved: u64,
}

impl Files {
    /// The process's limit (`ulimit -n`) as it is now, and a quarter of it kept, at most 10,000.
    /// Where the limit cannot be read, there is none.
    #[must_use]
    pub fn of_process() -> Self {
        let limit = rlimit::Resource::NOFILE.get_soft().unwrap_or(u64::MAX);
        Self { limit, reserved: (limit / RESERVED_SHARE).min(MOST_RESERVED) }
    }

    /// The same with another number of descriptors kept.
    #[must_use]
    pub fn reserve(self, reserved: u64) -> Self {
        Self { reserved, ..self }
    }

    /// The same with half as many kept, for a listener that must answer when the others are full.
    #[must_use]
    pub fn reserve_half(self) -> Self {
        Self { reserved: self.reserved / 2, ..self }
    }

    /// All that the process may have.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How many are kept.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Has the kernel make room for so many connections, beside what is kept.
    ///
    /// Its table of descriptors grows by doubling. In a process of several threads, who needs the
    /// place has to wait each time until no core reads the old table (`expand_fdtable` of Linux,
    /// by `synchronize_rcu`). That took 13 to 20 ms on 2 cores, in which nothing was accepted.
    ///
    /// # Errors
    /// What the operating system says. The table then grows as it is used.
    pub fn make_room(self, n_connections: u64) -> io::Result<()> {
        let n = n_connections.saturating_add(self.reserved).min(self.limit).min(MOST_AT_FIRST);
        let last = RawFd::try_from(n.saturating_sub(1)).map_err(io::Error::other)?;
        let file = UnixDatagram::unbound()?;
        let number = fcntl(&file, FcntlArg::F_DUPFD_CLOEXEC(last))?;
        nix::unistd::close(number)?;
        Ok(())
    }

    /// Whether `file`, the newest of the process, leaves those free that are kept.
    ///
    /// The kernel gives the lowest free number, so all numbers below are in use: no count of our
    /// own is needed, and descriptors that others have opened are seen, too.
    pub(crate) fn has_room_for(&self, file: &impl AsRawFd) -> bool {
        self.leaves_reserve(file.as_raw_fd())
    }

    fn leaves_reserve(&self, number: RawFd) -> bool {
        u64::try_from(number).is_ok_and(|number| number < self.limit.saturating_sub(self.reserved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_kept() {
        let files = Files::of_process();
        assert!(files.reserved() <= files.limit() / 4 && files.reserved() <= MOST_RESERVED);
        assert!(0 < files.reserved(), "{files:?}");
    }

    /// How many descriptors the kernel's table of this process has places for.
    #[cfg(target_os = "linux")]
    fn table_len() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        line.trim().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn there_is_room_from_the_first() {
        let limit = Files::of_process().limit();
        let files = Files { limit, reserved: 100 };
        files.make_room(300).unwrap();
        assert!(400 <= table_len());
        // As many as there may be at most, and the descriptor that made the room is not left open.
        files.make_room(u64::MAX).unwrap();
        let most = limit.min(MOST_AT_FIRST);
        assert!(most <= table_len());
        assert!(!std::path::Path::new(&format!("/proc/self/fd/{}", most - 1)).exists());
    }

    #[test]
    fn what_is_kept_is_not_given_away() {
        let files = Files { limit: 300, reserved: 75 };
        assert!(
            files.leaves_reserve(224) && !files.leaves_reserve(225) && !files.leaves_reserve(-1)
        );
        assert!(
            files.reserve_half().leaves_reserve(262) && !files.reserve_half().leaves_reserve(263)
        );
        assert!(files.reserve(299).leaves_reserve(0) && !files.reserve(400).leaves_reserve(0));
    }
}
