//! What the kernel says of this process. What it does not say is left out.
//!
//! Names and units are those of Prometheus' own clients.

use std::fs;
use std::time::Duration;

use wire::ProcessUsage;

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
        let ProcessUsage { cpu, resident_bytes, .. } = ProcessUsage::own();
        let files = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        Self {
            cpu,
            resident_bytes,
            // The folder itself is open while it is read.
            open_files: files.map(|n| n.saturating_sub(1) as u64),
            max_files: rlimit::Resource::NOFILE.get_soft().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_it_all_of_this_process() {
        let process = Process::now();
        assert!(process.cpu.is_some() && process.resident_bytes > Some(1 << 20), "{process:?}");
        assert!(process.open_files > Some(2) && process.open_files < process.max_files);
    }
}
