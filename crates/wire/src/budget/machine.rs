//! How much memory this process may have: what its control group or the machine allows.

use std::fs;
use std::path::{Path, PathBuf};

/// The smallest limit that holds for this process: of its control groups (version 2 or 1), or else
/// the machine's memory. `None` where the system tells neither.
#[must_use]
pub fn memory_of_machine() -> Option<u64> {
    memory_below(Path::new("/"))
}

fn memory_below(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| limit_of_group(root, line));
    limits.chain(total(root)).min()
}

/// The least limit of one line's control group and all those that it is in. A line is `0::/path`
/// (version 2), or `4:memory:/path`.
fn limit_of_group(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let mount = root.join(mount);
    let inside: PathBuf = Path::new(path).components().skip(1).collect();
    // A container sees its own group as the mount's root, whatever its path says.
    let folders = inside.ancestors().map(|folder| mount.join(folder));
    let limits = folders.filter_map(|folder| fs::read_to_string(folder.join(file)).ok());
    // "max" is not a number, and no limit.
    limits.filter_map(|text| text.trim().parse::<u64>().ok()).min()
}

fn total(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 8 GiB whose files say what `files` do.
    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let meminfo = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");
        for (path, text) in files.iter().chain([&meminfo]) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        memory_below(root.path())
    }

    #[test]
    fn the_least_limit_holds() {
        assert_eq!(machine(&[]), Some(8 << 30));
        let own = ("proc/self/cgroup", "0::/pod/app\n");
        let pod = ("sys/fs/cgroup/pod/memory.max", "268435456\n");
        assert_eq!(machine(&[own, pod]), Some(256 << 20));
        let app = ("sys/fs/cgroup/pod/app/memory.max", "max\n");
        assert_eq!(machine(&[own, pod, app]), Some(256 << 20));
        let app = ("sys/fs/cgroup/pod/app/memory.max", "1048576\n");
        assert_eq!(machine(&[own, pod, app]), Some(1 << 20));
        let inside_of_a_container = [own, ("sys/fs/cgroup/memory.max", "4096\n")];
        assert_eq!(machine(&inside_of_a_container), Some(4096));
    }

    #[test]
    fn version_1_is_read_as_well_and_no_limit_is_none() {
        let own = ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a\n0::/\n");
        let limit = |text| ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", text);
        assert_eq!(machine(&[own, limit("1000000\n")]), Some(1_000_000));
        assert_eq!(machine(&[own, limit("9223372036854771712\n")]), Some(8 << 30));
    }

    #[test]
    fn this_machine_tells() {
        assert!(memory_of_machine().is_some_and(|len| 1 << 20 < len));
    }
}
