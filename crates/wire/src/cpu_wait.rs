//! How long this process waits for a processor, and whether its control group keeps it from one.
//! What the kernel does not say is left out.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long this process could have run, but did not, until now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CpuWait {
    /// How long its threads that are alive waited on run queues, together.
    pub run_queue: Option<Duration>,
    /// How its control group was held to its quota, if it has one.
    pub throttling: Option<CpuThrottling>,
}

/// How a control group was held to its quota of CPU time until now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CpuThrottling {
    /// Periods in which it ran, each with a quota.
    pub n_periods: u64,
    /// Those of them in which the quota was used up.
    pub n_throttled: u64,
}

impl CpuWait {
    /// Of this process.
    #[must_use]
    pub fn own() -> Self {
        Self::below(Path::new("/"))
    }

    fn below(root: &Path) -> Self {
        Self { run_queue: run_queue(root), throttling: throttling(root) }
    }
}

/// The file of the process itself is that of its first thread only.
fn run_queue(root: &Path) -> Option<Duration> {
    let tasks = fs::read_dir(root.join("proc/self/task")).ok()?;
    // A thread that has just ended has no file.
    let files = tasks.flatten().map(|task| fs::read_to_string(task.path().join("schedstat")));
    files.filter_map(|text| waited(&text.ok()?)).reduce(Duration::saturating_add)
}

/// Time on a processor, time on its run queue, both in nanoseconds, and how often it ran.
fn waited(schedstat: &str) -> Option<Duration> {
    Some(Duration::from_nanos(schedstat.split_whitespace().nth(1)?.parse().ok()?))
}

/// Of the control group of version 2 or 1 that is throttled most, of all that this process is in.
fn throttling(root: &Path) -> Option<CpuThrottling> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let files = groups.lines().filter_map(|line| files_of_group(root, line)).flatten();
    let read = files.filter_map(|file| throttling_in(&fs::read_to_string(file).ok()?));
    read.max_by_key(|it| it.n_throttled)
}

/// A line is `0::/path` (version 2), or `4:cpu,cpuacct:/path`.
fn files_of_group(root: &Path, line: &str) -> Option<impl Iterator<Item = PathBuf>> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let mount = match controllers {
        "" => "sys/fs/cgroup",
        _ if controllers.split(',').any(|name| name == "cpu") => "sys/fs/cgroup/cpu",
        _ => return None,
    };
    let mount = root.join(mount);
    let inside: PathBuf = Path::new(path).components().skip(1).collect();
    // A container sees its own group as the mount's root, whatever its path says.
    let folders: Vec<_> = inside.ancestors().map(|folder| mount.join(folder)).collect();
    Some(folders.into_iter().map(|folder| folder.join("cpu.stat")))
}

/// A group without a quota has no such lines, or has no periods.
fn throttling_in(stat: &str) -> Option<CpuThrottling> {
    let field = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    let n_periods = field("nr_periods").filter(|n| *n != 0)?;
    Some(CpuThrottling { n_periods, n_throttled: field("nr_throttled")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> CpuWait {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        CpuWait::below(root.path())
    }

    #[test]
    fn all_threads_wait() {
        let threads = [
            ("proc/self/task/7/schedstat", "5 1000000 3\n"),
            ("proc/self/task/8/schedstat", "900 2500000 1\n"),
            ("proc/self/task/9/schedstat", "nonsense\n"),
        ];
        assert_eq!(machine(&threads).run_queue, Some(Duration::from_micros(3_500)));
        assert_eq!(machine(&[]), CpuWait::default());
    }

    #[test]
    fn the_group_that_is_throttled_most_counts() {
        let stat = "usage_usec 1\nnr_periods 50\nnr_throttled 40\nthrottled_usec 9\n";
        let v2 = [
            ("proc/self/cgroup", "0::/pod/app\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 1\n"),
            ("sys/fs/cgroup/pod/cpu.stat", stat),
            ("sys/fs/cgroup/pod/app/cpu.stat", "nr_periods 0\nnr_throttled 0\n"),
        ];
        let expected = CpuThrottling { n_periods: 50, n_throttled: 40 };
        assert_eq!(machine(&v2).throttling, Some(expected));
        let own = ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/b\n");
        let v1 = [own, ("sys/fs/cgroup/cpu/a/cpu.stat", stat)];
        assert_eq!(machine(&v1).throttling, Some(expected));
        let other = [own, ("sys/fs/cgroup/cpu/b/cpu.stat", stat)];
        assert_eq!(machine(&other).throttling, None);
    }

    #[test]
    fn the_kernel_says_it_of_this_process() {
        assert!(CpuWait::own().run_queue.is_some());
    }
}
