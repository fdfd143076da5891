//! A watcher that does nothing but wait for a key: how soon a store itself tells of a change.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use interop_harness::ZooKeeperClient;

use super::store::{base64, path};
use crate::error::BenchError;

/// Longer than a store says nothing while it is flooded.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that follows the providers of one interface.
pub(super) enum Watcher {
    /// Reads the folder again whenever its watch fires, as every client of ZooKeeper has to.
    ZooKeeper(Box<ZooKeeperClient>),
    /// Reads the stream of changes.
    Etcd(Stream),
}

/// What etcd says on a watch, as text.
pub(super) struct Stream {
    socket: TcpStream,
    unread: Vec<u8>,
}

impl Watcher {
    pub(super) fn of_etcd(addr: SocketAddr, interface: &str) -> Result<Self, BenchError> {
        let watch = |addr| {
            let mut socket = TcpStream::connect_timeout(&addr, TIMEOUT)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            let folder = format!("/dubbo/{interface}/providers/");
            let end = format!("/dubbo/{interface}/providers0");
            let body = format!(
                r#"{{"create_request":{{"key":"{}","range_end":"{}"}}}}"#,
                base64(&folder),
                base64(&end)
            );
            let len = body.len();
            let head = format!("POST /v3/watch HTTP/1.1\r\nhost: {addr}\r\ncontent-length: {len}");
            socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes())?;
            let mut stream = Stream { socket, unread: Vec::new() };
            stream.wait_for(b"\"created\":true")?;
            Ok(stream)
        };
        watch(addr).map(Self::Etcd).map_err(BenchError::io("a watch of etcd"))
    }

    /// Waits until the store has told of this provider.
    pub(super) fn wait_for(&mut self, interface: &str, url: &str) -> Result<(), BenchError> {
        let path = path(interface, url);
        match self {
            Self::ZooKeeper(client) => {
                let (folder, name) = path.rsplit_once('/').unwrap_or_default();
                Ok(client.wait_for_child(folder, name)?)
            }
            Self::Etcd(stream) => {
                let key = base64(&path);
                stream.wait_for(key.as_bytes()).map_err(BenchError::io("a watch of etcd"))
            }
        }
    }
}

impl Stream {
    /// Reads up to the end of a text. Pieces of HTTP's chunks hold whole messages.
    fn wait_for(&mut self, text: &[u8]) -> std::io::Result<()> {
        let mut looked_at = 0;
        loop {
            let unread = &self.unread[looked_at..];
            if let Some(at) = unread.windows(text.len()).position(|it| it == text) {
                self.unread.drain(..looked_at + at + text.len());
                return Ok(());
            }
            looked_at = self.unread.len().saturating_sub(text.len());
            let mut chunk = [0; 64 * 1024];
            match self.socket.read(&mut chunk)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                len => self.unread.extend_from_slice(&chunk[..len]),
            }
        }
    }
}
