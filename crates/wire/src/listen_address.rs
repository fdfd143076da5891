//! Where this process listens: by TCP, or by a socket in the file system.
//!
//! Invariants of a socket in the file system:
//! - Nobody can connect before its file has the mode that it is to have.
//! - Only a socket that nobody listens on is removed to make room, and no file of another kind.
//! - The file is removed when the listener ends, unless another one has taken its place.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::socket::{self, ListenOptions};
pub use error::{ListenError, listen, remedy};

mod error;

/// The longest path of a socket, in bytes: what the kernel has room for, without the last zero.
/// Source: unix(7), `sun_path`.
pub const MAX_SOCKET_PATH_LEN: usize = 107;

/// Who may connect unless configured: the user and the group of this process.
pub const DEFAULT_SOCKET_MODE: u32 = 0o660;

/// An address to listen on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ListenAddress {
    /// By TCP.
    Tcp(SocketAddr),
    /// By a socket in the file system.
    Unix {
        /// Where it is.
        path: PathBuf,
        /// Who may connect: the permissions of its file.
        mode: u32,
    },
}

impl ListenAddress {
    /// The address by TCP, if it is one.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix { .. } => None,
        }
    }

    /// Binds a listening socket that is ready for use on any runtime. `key` is where the address
    /// is set, for the message. Of the options, a Unix socket
    /// takes the backlog.
    ///
    /// # Errors
    /// The address cannot be listened on, with what to do about it.
    pub fn bind(
        &self,
        key: &'static str,
        options: &ListenOptions,
    ) -> Result<BoundSocket, ListenError> {
        let bound = match self {
            Self::Tcp(address) => socket::listen_with(*address, options).map(BoundSocket::Tcp),
            Self::Unix { path, mode } => {
                UnixSocket::bind(path, *mode, options.backlog).map(BoundSocket::Unix)
            }
        };
        bound.map_err(|source| ListenError { address: self.clone(), key, source })
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// `IP:PORT`, or `unix:` and a path.
impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that listens, not yet on an event loop.
#[derive(Debug)]
pub enum BoundSocket {
    /// By TCP.
    Tcp(std::net::TcpListener),
    /// In the file system.
    Unix(UnixSocket),
}

impl BoundSocket {
    /// Where it listens. A port 0 has become the one that was given.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(socket) => socket.local_addr().map(ListenAddress::Tcp),
            Self::Unix(UnixSocket { file, .. }) => {
                Ok(ListenAddress::Unix { path: file.path.clone(), mode: file.mode })
            }
        }
    }
}

impl From<std::net::TcpListener> for BoundSocket {
    fn from(socket: std::net::TcpListener) -> Self {
        Self::Tcp(socket)
    }
}

/// A listening socket in the file system, with its file.
#[derive(Debug)]
pub struct UnixSocket {
    pub(crate) socket: UnixListener,
    pub(crate) file: SocketFile,
}

impl UnixSocket {
    fn bind(path: &Path, mode: u32, backlog: u16) -> io::Result<Self> {
        make_room(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::unix(path)?)?;
        // From here on the file is removed again if anything fails.
        let file = SocketFile::of(path, mode)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        socket.listen(backlog.into())?;
        Ok(Self { socket: socket.into(), file })
    }
}

/// The file of a socket. Dropping this removes it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    mode: u32,
    id: FileId,
}

/// What tells one file from another, whatever their paths.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(file: &std::fs::Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }
}

impl SocketFile {
    fn of(path: &Path, mode: u32) -> io::Result<Self> {
        let file = std::fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_owned(), mode, id: FileId::of(&file) })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let file = std::fs::symlink_metadata(&self.path);
        if file.is_ok_and(|file| FileId::of(&file) == self.id) {
            // What cannot be removed is found stale by the next one.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes the file of a socket that nobody listens on any more.
fn make_room(path: &Path) -> io::Result<()> {
    let file = match std::fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !file.file_type().is_socket() {
        let text = "a file that is not a socket has this path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    // A listener that has no room for a connection now says WouldBlock. It is in use all the same.
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn unix(path: PathBuf) -> ListenAddress {
        ListenAddress::Unix { path, mode: DEFAULT_SOCKET_MODE }
    }

    #[test]
    fn a_socket_has_its_mode_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let address = ListenAddress::Unix { path: path.clone(), mode: 0o600 };
        let bound = address.bind("ingress.listen", &ListenOptions::default()).unwrap();
        assert_eq!(bound.address().unwrap(), address);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text =
            address.bind("ingress.listen", &ListenOptions::default()).unwrap_err().to_string();
        assert!(text.contains("another process listens on this socket"), "{text}");
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_makes_room_and_no_other_file_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let bound = unix(path.clone()).bind("link.listen", &ListenOptions::default()).unwrap();
        // Another one has taken its place meanwhile: that one stays.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(bound);
        let text = unix(path.clone())
            .bind("link.listen", &ListenOptions::default())
            .unwrap_err()
            .to_string();
        assert!(text.contains("not a socket") && text.contains("link.listen"), "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_path_that_is_too_long_or_in_no_folder_is_told() {
        let long = unix(format!("/tmp/{}", "a".repeat(MAX_SOCKET_PATH_LEN)).into());
        let text = long.bind("link.listen", &ListenOptions::default()).unwrap_err().to_string();
        assert!(text.contains("107 bytes"), "{text}");
        let text = unix("/nowhere/a.sock".into())
            .bind("link.listen", &ListenOptions::default())
            .unwrap_err()
            .to_string();
        assert!(text.contains("folder"), "{text}");
    }
}
