//! Why an address cannot be listened on, and what to do about it.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::{ListenAddress, MAX_SOCKET_PATH_LEN};
use crate::socket;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({key}): {source}; {}", remedy_at(.address, .source, .key))]
pub struct ListenError {
    /// The address.
    pub address: ListenAddress,
    /// Where it is set: a key of the configuration or an option, such as `admin.listen`.
    pub key: &'static str,
    /// What the operating system says.
    pub source: io::Error,
}

/// Binds a listening socket that is ready for use on any runtime. `key` is where the address is
/// set, for the message.
///
/// # Errors
/// The address cannot be listened on, with what to do about it.
pub fn listen(
    address: SocketAddr,
    key: &'static str,
) -> Result<std::net::TcpListener, ListenError> {
    socket::listen(address).map_err(|source| ListenError { address: address.into(), key, source })
}

/// What to do when an address that is set at `key` cannot be listened on.
#[must_use]
pub fn remedy<'a>(error: &io::Error, key: &'a str) -> impl fmt::Display + use<'a> {
    Remedy { kind: error.kind(), key }
}

/// The same for an address of either kind.
fn remedy_at(address: &ListenAddress, error: &io::Error, key: &str) -> String {
    match address {
        ListenAddress::Tcp(_) => remedy(error, key).to_string(),
        ListenAddress::Unix { .. } => remedy_for_path(error.kind(), key),
    }
}

fn remedy_for_path(kind: io::ErrorKind, key: &str) -> String {
    match kind {
        io::ErrorKind::AddrInUse => format!(
            "another process listens on this socket, perhaps a second copy of this one: give {key} \
             another path, or stop that process"
        ),
        io::ErrorKind::AlreadyExists => format!("remove that file, or give {key} another path"),
        io::ErrorKind::NotFound => format!("create its folder, or give {key} another path"),
        io::ErrorKind::PermissionDenied => {
            format!("allow this user to write to its folder, or give {key} another path")
        }
        io::ErrorKind::InvalidInput => format!(
            "the path of a socket has at most {MAX_SOCKET_PATH_LEN} bytes: give {key} a shorter one"
        ),
        _ => format!("check {key}"),
    }
}

struct Remedy<'a> {
    kind: io::ErrorKind,
    key: &'a str,
}

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, key } = self;
        match kind {
            io::ErrorKind::AddrInUse => write!(
                f,
                "another process has this port, perhaps a second copy of this one: give {key} \
                 another port (0 takes a free one), or stop that process"
            ),
            io::ErrorKind::AddrNotAvailable => {
                write!(
                    f,
                    "no interface of this machine has this address: set {key} to an address of \
                     this machine"
                )
            }
            io::ErrorKind::PermissionDenied => write!(
                f,
                "ports below 1024 need a privilege: set {key} to a higher port, or grant \
                 CAP_NET_BIND_SERVICE"
            ),
            _ => write!(f, "check {key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_told_with_its_key_and_what_to_do() {
        let first = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        let text = listen(address, "admin.listen").unwrap_err().to_string();
        let expected = format!("cannot listen on {address} (admin.listen): ");
        assert!(text.starts_with(&expected), "{text}");
        assert!(text.contains("give admin.listen another port"), "{text}");
    }

    #[test]
    fn a_foreign_address_is_told() {
        // From the block that is kept for documentation: no machine has it.
        let text = listen("192.0.2.1:0".parse().unwrap(), "--listen").unwrap_err().to_string();
        assert!(text.contains("192.0.2.1:0 (--listen)") && text.contains("no interface"), "{text}");
    }
}
