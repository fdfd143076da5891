//! What the kernel says that a process has used: the one reader of `/proc/PID/stat` and `status`.
//! What it does not say is left out.

use std::fmt::Display;
use std::fs;
use std::time::Duration;

/// The kernel counts time in these toward programs, whatever its own timer.
const TICK_MS: u64 = 10;

/// What a process has used until now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ProcessUsage {
    /// User and system time since it began.
    pub cpu: Option<Duration>,
    /// Memory in RAM.
    pub resident_bytes: Option<u64>,
    /// The most memory in RAM that it ever had.
    pub peak_resident_bytes: Option<u64>,
}

impl ProcessUsage {
    /// Of this process.
    #[must_use]
    pub fn own() -> Self {
        Self::at("self")
    }

    /// Of the process with that number. It has used nothing once it is gone.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self::at(pid)
    }

    /// CPU time in seconds; 0 if the kernel does not say it.
    #[must_use]
    pub fn cpu_s(&self) -> f64 {
        self.cpu.unwrap_or_default().as_secs_f64()
    }

    /// Memory in RAM, in MB (10^6 bytes); 0 if the kernel does not say it.
    #[must_use]
    pub fn resident_mb(&self) -> f64 {
        megabytes(self.resident_bytes)
    }

    /// The most memory in RAM that it ever had, in MB (10^6 bytes); 0 if the kernel does not say
    /// it.
    #[must_use]
    pub fn peak_resident_mb(&self) -> f64 {
        megabytes(self.peak_resident_bytes)
    }

    fn at(process: impl Display) -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).ok();
        let (stat, status) = (read("stat"), read("status").unwrap_or_default());
        Self {
            cpu: stat.and_then(|stat| cpu(&stat)),
            resident_bytes: memory(&status, "VmRSS:"),
            peak_resident_bytes: memory(&status, "VmHWM:"),
        }
    }
}

/// utime and stime are the 14th and 15th field; the name, the second one, may hold blanks and
/// brackets.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()?.checked_add(fields.next()?.parse().ok()?)?;
    Some(Duration::from_millis(ticks.checked_mul(TICK_MS)?))
}

fn memory(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

fn megabytes(bytes: Option<u64>) -> f64 {
    bytes.unwrap_or_default() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_after_a_name_of_any_form() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 1 0 0 0 150 25 0 0 20 0 1 0 1 1 1";
        assert_eq!(cpu(stat), Some(Duration::from_millis(1750)));
        assert_eq!(cpu("7 (x) S 1"), None);
        assert_eq!(memory("Name:\tx\nVmRSS:\t    2048 kB\n", "VmRSS:"), Some(2 << 20));
        assert_eq!(memory("Name:\tx\n", "VmRSS:"), None);
    }

    #[test]
    fn the_kernel_says_it_all_of_this_process() {
        let own = ProcessUsage::own();
        assert!(own.cpu.is_some() && 0.5 < own.resident_mb(), "{own:?}");
        assert!(own.resident_mb() <= ProcessUsage::of(std::process::id()).peak_resident_mb());
        assert_eq!(ProcessUsage::of(u32::MAX), ProcessUsage::default());
    }

    #[test]
    fn a_megabyte_is_a_million_bytes() {
        let usage = ProcessUsage { resident_bytes: Some(1 << 20), ..ProcessUsage::default() };
        assert!((usage.resident_mb() - 1.048_576).abs() < 1e-9);
    }
}
