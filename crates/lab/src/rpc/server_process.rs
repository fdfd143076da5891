//! The server in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::plan::RpcError;

/// A server that does not say where it listens is broken.
const MAX_LINE_LEN: u64 = 1024;

/// A server that ends with this process.
pub(super) struct ServerProcess {
    child: Child,
    address: String,
    /// The server ends when this is closed.
    stdin: Option<ChildStdin>,
}

impl ServerProcess {
    /// Starts it, and waits until it listens.
    pub(super) fn start(mut command: Command) -> Result<Self, RpcError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(RpcError::Server)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let mut stdout = BufReader::new(stdout.take(MAX_LINE_LEN));
            stdout.read_line(&mut line).map_err(RpcError::Server)?;
        }
        let stdin = child.stdin.take();
        let address = line.trim_end().strip_prefix("listening ").map(str::to_owned);
        let mut server = Self { child, address: String::new(), stdin };
        server.address = address.ok_or(RpcError::Silent(line))?;
        Ok(server)
    }

    /// Where it listens.
    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
