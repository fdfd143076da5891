//! What the kernel says that processes have used.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Ticks per second in everything that Linux tells user space, whatever its own timer.
const USER_HZ: u64 = 100;

/// A process to be accounted for.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its name in the rows.
    pub name: String,
    /// Whose CPU is added up with that of others.
    pub group: &'static str,
    /// Its id.
    pub pid: u32,
}

/// CPU time, user and system, since the process began; zero once it is gone.
#[must_use]
pub fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    parse_cpu(&stat).unwrap_or_default()
}

/// utime and stime are the 14th and 15th field; the name, the second one, may hold blanks.
fn parse_cpu(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks_to_time(ticks))
}

fn ticks_to_time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / USER_HZ)
}

/// Resident memory in MB (10^6 bytes).
#[must_use]
pub fn rss_mb(pid: u32) -> f64 {
    memory_mb(pid, "VmRSS:")
}

/// The most resident memory that it ever had, in MB (10^6 bytes).
#[must_use]
pub fn peak_rss_mb(pid: u32) -> f64 {
    memory_mb(pid, "VmHWM:")
}

fn memory_mb(pid: u32, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.unwrap_or_default() * 1024.0 / 1e6
}

/// CPU time that all processes together have used since boot, and what the host has taken away.
#[must_use]
pub fn machine_cpu() -> (Duration, Duration) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already.
    let at = |index: usize| ticks.get(index).copied().unwrap_or_default();
    let busy = at(0) + at(1) + at(2) + at(5) + at(6);
    (ticks_to_time(busy), ticks_to_time(at(7)))
}

/// The largest memory that each process was seen with.
#[derive(Debug, Default)]
pub(crate) struct PeakRss(pub(crate) BTreeMap<String, f64>);

impl PeakRss {
    /// Looks at all processes now.
    pub(crate) fn sample(&mut self, processes: &[Process]) {
        for process in processes {
            let peak = self.0.entry(process.name.clone()).or_default();
            *peak = peak.max(rss_mb(process.pid));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_fields_behind_a_name_with_blanks() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 1 0 0 0 150 25 0 0 20 0 1 0 1 1 1";
        assert_eq!(parse_cpu(stat), Some(Duration::from_millis(1750)));
    }

    #[test]
    fn this_process_has_memory() {
        assert!(rss_mb(std::process::id()) > 0.5);
    }
}
