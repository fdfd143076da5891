//! As much of an HTTP/1.1 client as the checks need: one POST after the other on one connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any answer takes while the machine is busy.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The answers that are checked are a few bytes.
const MAX_ANSWER_LEN: usize = 64 * 1024;

/// One connection, kept alive.
pub struct Client {
    stream: TcpStream,
    host: SocketAddr,
    buffer: Vec<u8>,
}

/// Status and body of an answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpResponse {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: String,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When that fails.
    pub fn connect(host: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&host, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, host, buffer: Vec::new() })
    }

    /// Sends one request and waits for its answer. `head` are the lines of its head but for `host`
    /// and `content-length`.
    ///
    /// # Errors
    /// When the connection breaks, or no answer comes in time.
    pub fn request(&mut self, head: &str, body: &str) -> io::Result<HttpResponse> {
        let (host, len) = (self.host, body.len());
        let request = format!("{head}\r\nhost: {host}\r\ncontent-length: {len}\r\n\r\n{body}");
        self.stream.write_all(request.as_bytes())?;
        self.buffer.clear();
        loop {
            if let Some(answer) = parse(&self.buffer) {
                return Ok(answer);
            }
            let mut chunk = [0; 4096];
            let len = self.stream.read(&mut chunk)?;
            if len == 0 || MAX_ANSWER_LEN < self.buffer.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.buffer.extend_from_slice(&chunk[..len]);
        }
    }
}

/// The answer, once the whole of it is there.
fn parse(bytes: &[u8]) -> Option<HttpResponse> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let len: usize = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    })?;
    (len <= body.len()).then(|| HttpResponse { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_it_is_whole() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n-42";
        assert_eq!(parse(bytes), Some(HttpResponse { status: 200, body: "-42".to_owned() }));
        assert_eq!(parse(&bytes[..bytes.len() - 1]), None);
        assert_eq!(parse(&bytes[..20]), None);
    }
}
