//! What the kernel says that processes have used.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use wire::ProcessUsage;

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
    ProcessUsage::of(pid).cpu.unwrap_or_default()
}

fn ticks_to_time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / USER_HZ)
}

/// Resident memory in MB (10^6 bytes).
#[must_use]
pub fn rss_mb(pid: u32) -> f64 {
    ProcessUsage::of(pid).resident_mb()
}

/// The most resident memory that it ever had, in MB (10^6 bytes).
#[must_use]
pub fn peak_rss_mb(pid: u32) -> f64 {
    ProcessUsage::of(pid).peak_resident_mb()
}

/// CPU time of a machine since boot.
#[derive(Clone, Copy, Debug)]
pub struct MachineCpu {
    /// What all processes together have used.
    pub used: Duration,
    /// What the host has taken away.
    pub stolen: Duration,
}

/// The CPU time of this machine.
#[must_use]
pub fn machine_cpu() -> MachineCpu {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already.
    let at = |index: usize| ticks.get(index).copied().unwrap_or_default();
    let busy = at(0) + at(1) + at(2) + at(5) + at(6);
    MachineCpu { used: ticks_to_time(busy), stolen: ticks_to_time(at(7)) }
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
