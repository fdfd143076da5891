//! An HTTP/1.1 client that shows what came, or that nothing came.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// What an HTTP server answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpResponse {
    pub status: u16,
    /// The head's lines in small letters.
    pub head: String,
    pub body: String,
}

impl HttpResponse {
    /// A member of a JSON error; empty if there is none.
    pub fn member(&self, name: &str) -> String {
        let json: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        json[name].as_str().unwrap_or_default().to_owned()
    }

    /// A header's value in small letters; `name` is to be in small letters, too.
    pub fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(field, _)| *field == name).map(|(_, value)| value).next()
    }

    /// The code of a JSON error.
    pub fn code(&self) -> String {
        self.member("code")
    }
}

/// A connection to an HTTP server, opened again when it has broken.
pub struct Http {
    addr: SocketAddr,
    stream: Option<TcpStream>,
}

impl Http {
    pub fn to(addr: SocketAddr) -> Self {
        Self { addr, stream: None }
    }

    /// `POST`s `body` to `path`, with further header lines.
    ///
    /// # Errors
    /// When the connection breaks, or the answer takes longer than [`PATIENCE`].
    pub fn post(&mut self, path: &str, headers: &[&str], body: &str) -> io::Result<HttpResponse> {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let len = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {len}\r\n\r\n{body}"
        );
        // What fails leaves no connection behind.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.addr)?,
        };
        stream.write_all(request.as_bytes())?;
        let (answer, closes) = read(&mut stream)?;
        if !closes {
            self.stream = Some(stream);
        }
        Ok(answer)
    }
}

/// `POST`s on a connection of its own.
///
/// # Panics
/// When no answer comes.
pub fn post(addr: SocketAddr, path: &str, headers: &[&str], body: &str) -> HttpResponse {
    Http::to(addr)
        .post(path, headers, body)
        .unwrap_or_else(|error| panic!("{path} {headers:?}: {error}"))
}

/// `GET`s `path`; `None` if nobody answers.
pub fn get(addr: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = connect(addr).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let (answer, _) = read(&mut stream).ok()?;
    Some((answer.status, answer.body))
}

fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads an answer, and whether the server closes the connection after it.
fn read(stream: &mut TcpStream) -> io::Result<(HttpResponse, bool)> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    let mut read_more = |bytes: &mut Vec<u8>| match stream.read(&mut chunk)? {
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        len => {
            bytes.extend_from_slice(&chunk[..len]);
            Ok(())
        }
    };
    let head_len = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(&mut bytes)?;
    };
    // Names have no case, and values do.
    let small = |line: &str| match line.split_once(':') {
        Some((name, value)) => format!("{}:{value}\r\n", name.to_lowercase()),
        None => format!("{line}\r\n"),
    };
    let head: String = String::from_utf8_lossy(&bytes[..head_len]).lines().map(small).collect();
    let status = head[9..12].parse().unwrap();
    let len: usize = head
        .split("content-length: ")
        .nth(1)
        .map_or(0, |rest| rest.split("\r\n").next().unwrap().trim().parse().unwrap());
    while bytes.len() < head_len + len {
        read_more(&mut bytes)?;
    }
    let body = String::from_utf8_lossy(&bytes[head_len..]).into_owned();
    let closes = head.contains("connection: close");
    Ok((HttpResponse { status, head, body }, closes))
}

/// Percent-encodes every byte: the most that a form may hold.
pub fn encoded(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
}
