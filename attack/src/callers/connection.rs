//! A connection of a well-behaved caller: one call after the other, each answer compared.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bench::INTERFACE;
use bench::check::java_hash;
use bench::http::Client;
use dubbo_proto::frame::HEADER_LEN;

use super::{Addresses, Kind, floor};
use crate::dubbo;
use crate::estate::LATE_INTERFACE;

/// Longer than the deadline of a call, which is Dubbo's default of a second, and the agent's.
const TIMEOUT: Duration = Duration::from_secs(5);
const TEXT: &str = "the quick brown fox jumps over the lazy dog, again and again, and nobody minds";
/// An answer is one string.
const MAX_ANSWER_LEN: usize = 64 * 1024;
const STATUS_OK: u8 = 20;

/// One connection, kept alive.
pub(super) enum Connection {
    Http { client: Client, interface: &'static str },
    Dubbo { stream: TcpStream, n_calls: u64 },
    Health(Client),
    Floor(TcpStream),
}

impl Connection {
    pub(super) fn open(kind: Kind, addresses: Addresses) -> io::Result<Self> {
        let http =
            |interface| Ok(Self::Http { client: Client::connect(addresses.http)?, interface });
        match kind {
            Kind::Http => http(INTERFACE),
            Kind::Late => http(LATE_INTERFACE),
            Kind::Dubbo => Ok(Self::Dubbo { stream: connect(addresses.dubbo)?, n_calls: 0 }),
            Kind::Floor => Ok(Self::Floor(connect(addresses.floor)?)),
            Kind::Health => Ok(Self::Health(Client::connect(addresses.admin)?)),
        }
    }

    /// Makes one call; anything but the right answer is a failure. The outer error is about the
    /// connection, the inner one about an answer after which the connection goes on.
    pub(super) fn call(&mut self) -> io::Result<Result<(), String>> {
        let (answer, is_right) = match self {
            Self::Dubbo { stream, n_calls } => {
                *n_calls += 1;
                return ask_by_dubbo(stream, *n_calls);
            }
            Self::Floor(stream) => {
                let mut answer = floor::MESSAGE;
                stream.write_all(&answer)?;
                return stream.read_exact(&mut answer).map(Ok);
            }
            Self::Http { client, interface } => {
                let head =
                    format!("POST /{interface}/hash HTTP/1.1\r\ncontent-type: application/json");
                let answer = client.request(&head, &format!("[\"{TEXT}\"]"))?;
                let is_right = answer.body == java_hash(TEXT).to_string();
                (answer, is_right)
            }
            Self::Health(client) => (client.request("GET /healthz HTTP/1.1", "")?, true),
        };
        Ok(match answer.status == 200 && is_right {
            true => Ok(()),
            false => Err(format!("status {}: {}", answer.status, answer.body)),
        })
    }
}

fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// As [`Connection::call`].
fn ask_by_dubbo(stream: &mut TcpStream, id: u64) -> io::Result<Result<(), String>> {
    stream.write_all(&dubbo::request(INTERFACE, "echo", TEXT, id))?;
    let (header, body) = loop {
        let mut head = [0; HEADER_LEN];
        stream.read_exact(&mut head)?;
        let header = dubbo::header(&head)?;
        if MAX_ANSWER_LEN < header.body_len {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; header.body_len];
        stream.read_exact(&mut body)?;
        // Heartbeats and the word that the agent is leaving are no answers.
        if !header.is_event {
            break (header, body);
        }
    };
    let mut wanted = Vec::new();
    hessian::write_string(&mut wanted, TEXT);
    let is_right = header.status == STATUS_OK
        && header.id == id
        && body.windows(wanted.len()).any(|window| window == wanted);
    Ok(match is_right {
        true => Ok(()),
        false => Err(format!("status {}: {}", header.status, String::from_utf8_lossy(&body))),
    })
}
