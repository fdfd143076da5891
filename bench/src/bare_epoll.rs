//! The floor: an HTTP server that answers every request at once and does nothing else.
//!
//! One event loop per core, connections dealt out in turn, one read and one write per turn. It
//! looks at no more of a request than its length.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::error::BenchError;

const WAKE: Token = Token(usize::MAX);
const EVENTS_PER_TURN: usize = 1024;
/// Longer than any request of the load.
const BUFFER_LEN: usize = 16 * 1024;
/// As long as the answer of an agent with a hash in it.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\
    date: Sat, 21 Nov 2026 12:00:00 GMT\r\n\r\n1234567890";

/// Serves until it is killed. Prints `READY HOST:PORT`.
pub(crate) fn run() -> Result<(), BenchError> {
    let failed = || BenchError::io("the bare server");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
    let n_threads = thread::available_parallelism().map_or(1, usize::from);
    let mut loops = Vec::new();
    for _ in 0..n_threads {
        loops.push(start_loop().map_err(failed())?);
    }
    println!("READY {}", listener.local_addr().map_err(failed())?);
    for (sender, waker) in loops.iter().cycle() {
        let (stream, _) = listener.accept().map_err(failed())?;
        stream.set_nodelay(true).map_err(failed())?;
        stream.set_nonblocking(true).map_err(failed())?;
        if sender.send(TcpStream::from_std(stream)).is_ok() {
            waker.wake().map_err(failed())?;
        }
    }
    Ok(())
}

fn start_loop() -> io::Result<(Sender<TcpStream>, Arc<Waker>)> {
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
    let (sender, receiver) = channel();
    thread::spawn(move || {
        if let Err(error) = serve(poll, &receiver) {
            eprintln!("bare server: {error}");
            std::process::exit(1);
        }
    });
    Ok((sender, waker))
}

fn serve(mut poll: Poll, accepted: &Receiver<TcpStream>) -> io::Result<()> {
    let mut events = Events::with_capacity(EVENTS_PER_TURN);
    let mut connections: HashMap<Token, EpollConnection> = HashMap::new();
    let mut next = 0;
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == WAKE {
                for mut stream in accepted.try_iter() {
                    poll.registry().register(&mut stream, Token(next), Interest::READABLE)?;
                    connections.insert(Token(next), EpollConnection { stream, kept: Vec::new() });
                    next += 1;
                }
            } else if let Some(connection) = connections.get_mut(&event.token())
                && !connection.turn()
            {
                connections.remove(&event.token());
            }
        }
    }
}

struct EpollConnection {
    stream: TcpStream,
    /// The beginning of a request whose end has not arrived yet.
    kept: Vec<u8>,
}

impl EpollConnection {
    /// Answers what has arrived; false at the connection's end.
    fn turn(&mut self) -> bool {
        let mut buffer = [0; BUFFER_LEN];
        loop {
            let len = match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            };
            let is_alive = if self.kept.is_empty() {
                let n_taken = answer_all(&mut self.stream, &buffer[..len]);
                n_taken.map(|n_taken| self.kept.extend_from_slice(&buffer[n_taken..len])).is_ok()
            } else {
                self.kept.extend_from_slice(&buffer[..len]);
                let n_taken = answer_all(&mut self.stream, &self.kept);
                n_taken.map(|n_taken| self.kept.drain(..n_taken)).is_ok()
            };
            if !is_alive {
                return false;
            }
            if len < BUFFER_LEN {
                // The socket is empty; what comes later is another event.
                return true;
            }
        }
    }
}

/// Answers each whole request in `bytes`, and returns how many bytes they have.
fn answer_all(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut n_taken = 0;
    while let Some(len) = request_len(&bytes[n_taken..]) {
        // Into an empty socket buffer, so that it goes out whole.
        stream.write_all(ANSWER)?;
        n_taken += len;
    }
    Ok(n_taken)
}

/// Length of the first request with its body, once the whole of it is there.
fn request_len(bytes: &[u8]) -> Option<usize> {
    const LENGTH: &[u8] = b"content-length:";
    let head_len = find(bytes, b"\r\n\r\n")? + 4;
    let head = &bytes[..head_len];
    let body_len = head
        .split(|byte| *byte == b'\n')
        .find(|line| LENGTH.len() < line.len() && line[..LENGTH.len()].eq_ignore_ascii_case(LENGTH))
        .and_then(|line| std::str::from_utf8(&line[LENGTH.len()..]).ok()?.trim().parse().ok())
        .unwrap_or(0);
    let len = head_len + body_len;
    (len <= bytes.len()).then_some(len)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_it_is_whole() {
        let two = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n";
        let len = request_len(two).unwrap();
        assert_eq!(&two[len..len + 3], b"GET");
        assert_eq!(request_len(&two[len..]), Some(two.len() - len));
        assert_eq!(request_len(&two[..len - 1]), None);
    }

    #[test]
    fn the_answer_has_the_length_that_it_tells() {
        let text = std::str::from_utf8(ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
    }
}
