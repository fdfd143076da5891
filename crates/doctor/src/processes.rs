//! Whose sockets are whose, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

const PROCESSES: &str = "/proc";

/// Which process holds which socket.
#[derive(Clone, Debug, Default)]
pub struct SocketOwners {
    by_inode: HashMap<u64, u32>,
    names: HashMap<u32, String>,
    /// Processes that one may not look into.
    n_hidden: usize,
}

impl SocketOwners {
    /// Of all processes that one may look into.
    #[must_use]
    pub fn of_all() -> Self {
        let mut owners = Self::default();
        let folders = fs::read_dir(PROCESSES).into_iter().flatten().flatten();
        let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
        for pid in pids {
            match owners.add(pid) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    owners.n_hidden += 1;
                }
                // It has just ended, if it could not be read.
                _ => {}
            }
        }
        owners
    }

    /// Adds the sockets of a process.
    ///
    /// # Errors
    /// There is no such process, or one may not look into it.
    pub fn add(&mut self, pid: u32) -> io::Result<()> {
        let folder = Path::new(PROCESSES).join(pid.to_string());
        for file in fs::read_dir(folder.join("fd"))? {
            let target = fs::read_link(file?.path());
            let inode = target.ok().and_then(|target| inode(target.to_str()?));
            if let Some(inode) = inode {
                self.by_inode.insert(inode, pid);
            }
        }
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        self.names.insert(pid, name.trim_end().to_owned());
        Ok(())
    }

    /// The process that holds a socket.
    #[must_use]
    pub fn pid(&self, inode: u64) -> Option<u32> {
        self.by_inode.get(&inode).copied()
    }

    /// The same, such as `java (pid 4711)`.
    #[must_use]
    pub fn name(&self, inode: u64) -> Option<String> {
        self.pid(inode).map(|pid| self.name_of(pid))
    }

    /// The same for a process.
    #[must_use]
    pub fn name_of(&self, pid: u32) -> String {
        let name = self.names.get(&pid).map_or("a process", String::as_str);
        format!("{name} (pid {pid})")
    }

    /// How many processes one may not look into.
    #[must_use]
    pub fn n_hidden(&self) -> usize {
        self.n_hidden
    }
}

/// The state of a process, such as `S` or `T`. `None` if it has ended.
#[must_use]
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(Path::new(PROCESSES).join(pid.to_string()).join("stat")).ok()?;
    state_in(&stat)
}

/// Of `4711 (a name) S 1 ...`; the name may hold anything.
fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Of `socket:[12345]`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_sockets_have_numbers() {
        assert_eq!(inode("socket:[12345]"), Some(12345));
        assert_eq!((inode("pipe:[1]"), inode("socket:[]"), inode("/dev/null")), (None, None, None));
    }

    #[test]
    fn states_stand_after_names() {
        assert_eq!(state_in("4711 (java) S 1 4711"), Some('S'));
        assert_eq!(state_in("4711 (a) T (b)) t 1 4711"), Some('t'));
        assert_eq!(state_in("4711"), None);
        assert!(state(std::process::id()).is_some_and(|state| matches!(state, 'R' | 'S')));
        assert_eq!(state(u32::MAX), None);
    }

    #[test]
    fn own_sockets_are_found_and_a_process_that_is_not_there_is_told() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let look = crate::sock_diag::look().unwrap();
        let inode = look.listeners.iter().find(|it| it.address == address).unwrap().inode;
        let owners = SocketOwners::of_all();
        let pid = std::process::id();
        assert_eq!(owners.pid(inode), Some(pid));
        assert!(owners.name(inode).unwrap().ends_with(&format!("(pid {pid})")));
        assert!(SocketOwners::default().add(u32::MAX).is_err());
    }
}
