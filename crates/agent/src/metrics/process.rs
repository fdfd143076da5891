//! What the kernel says of this process. What it does not say is left out.
//!
//! Names and units are those of Prometheus' own clients.

use std::fs;
use std::time::Duration;

/// The kernel counts time in these toward programs, whatever its own timer.
const TICK_MS: u64 = 10;

/// At one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    /// User and system time since it began.
    pub(super) cpu: Option<Duration>,
    /// Resident memory.
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) max_files: Option<u64>,
}

impl Process {
    pub(super) fn now() -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
        let files = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        Self {
            cpu: read("stat").and_then(|stat| cpu(&stat)),
            resident_bytes: read("status").and_then(|status| resident(&status)),
            // The folder itself is open while it is read.
            open_files: files.map(|n| n.saturating_sub(1) as u64),
            max_files: rlimit::Resource::NOFILE.get_soft().ok(),
        }
    }
}

/// The name, the second field, may hold blanks and brackets.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()?.checked_add(fields.next()?.parse().ok()?)?;
    Some(Duration::from_millis(ticks.checked_mul(TICK_MS)?))
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_after_a_name_of_any_form() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 1 0 0 0 150 25 0 0 20 0 1 0 1 1 1";
        assert_eq!(cpu(stat), Some(Duration::from_millis(1750)));
        assert_eq!(cpu("7 (x) S 1"), None);
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(resident("Name:\tx\n"), None);
    }

    #[test]
    fn the_kernel_says_it_all_of_this_process() {
        let process = Process::now();
        assert!(process.cpu.is_some() && process.resident_bytes > Some(1 << 20), "{process:?}");
        assert!(process.open_files > Some(2) && process.open_files < process.max_files);
    }
}
