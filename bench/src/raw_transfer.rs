//! The ceiling of transfers: bare sockets, one thread a side, requests of many callers on each
//! connection, lines processed by the server and written in order by the client.
//!
//! It does what a transfer does and nothing else: no sums, no journal, nobody who asks again. A
//! request is its caller's number, 4 bytes. An answer is a length and its caller, 4 bytes each,
//! the line's number, 8 bytes, and the line; one of length 0 is the end. A caller asks again when
//! its line has come.

use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde_json::json;
use transfer::{LineStep, Reader, Source};

use crate::error::BenchError;
use crate::raw_peer::{EVENTS_PER_TURN, Peer, wait};

const HEAD_LEN: usize = 16;
/// Lines that may be kept until those before them have come; more than callers, a power of two.
const WINDOW: usize = 1 << 16;
/// Room for a line of 200 bytes with a number and an end.
const PLACE_LEN: usize = 256;
const WRITE_LEN: usize = 256 * 1024;

/// Offers the file at `path` to one client after the other. Prints `READY HOST:PORT`.
pub(crate) fn serve(path: &str) -> Result<(), BenchError> {
    let failed = || BenchError::io("the raw server");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
    println!("READY {}", listener.local_addr().map_err(failed())?);
    let source = Source::open(Path::new(path))?;
    let mut poll = Poll::new().map_err(failed())?;
    let mut listener = {
        listener.set_nonblocking(true).map_err(failed())?;
        mio::net::TcpListener::from_std(listener)
    };
    let registry = poll.registry();
    registry.register(&mut listener, Token(usize::MAX), Interest::READABLE).map_err(failed())?;
    let mut lines = Lines { reader: Reader::new(source), next: 0 };
    let mut peers: Vec<Peer> = Vec::new();
    let mut events = Events::with_capacity(EVENTS_PER_TURN);
    loop {
        wait(&mut poll, &mut events, &mut peers).map_err(failed())?;
        if events.iter().any(|event| event.token() == Token(usize::MAX)) {
            while let Ok((stream, _)) = listener.accept() {
                peers.push(Peer::new(stream, &poll, peers.len()).map_err(failed())?);
            }
        }
        for peer in peers.iter_mut().filter(|peer| peer.is_ready) {
            peer.turn(|requests, out| lines.answer(requests, out)).map_err(failed())?;
        }
        if !peers.is_empty() && peers.iter().all(|peer| peer.is_over) {
            // The next client gets the file from its beginning.
            peers.clear();
            lines.next = 0;
        }
    }
}

/// What the server hands out.
struct Lines {
    reader: Reader,
    next: u64,
}

impl Lines {
    /// Answers all whole requests; returns how many bytes they were.
    fn answer(&mut self, requests: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let (requests, _) = requests.as_chunks::<4>();
        for caller in requests {
            let line = self.reader.processed(LineStep::Contest.process(), self.next);
            let line = line.map_err(io::Error::other)?.unwrap_or_default();
            out.extend_from_slice(&u32::try_from(line.len()).unwrap_or(0).to_be_bytes());
            out.extend_from_slice(caller);
            out.extend_from_slice(&self.next.to_be_bytes());
            out.extend_from_slice(line);
            self.next += u64::from(!line.is_empty());
        }
        Ok(requests.len() * 4)
    }
}

/// Fetches everything into `output`, and prints what it took as JSON.
pub(crate) fn fetch(address: &str, output: &str, shape: &[&str]) -> Result<(), BenchError> {
    let failed = || BenchError::io("the raw client");
    let numbers: Vec<usize> = shape.iter().filter_map(|text| text.parse().ok()).collect();
    let [n_connections, n_callers] = numbers[..] else { return Err(BenchError::Usage) };
    let start = Instant::now();
    let mut poll = Poll::new().map_err(failed())?;
    let address = address.parse().map_err(|_| BenchError::Usage)?;
    let mut peers = Vec::new();
    for number in 0..n_connections {
        let stream = std::net::TcpStream::connect::<std::net::SocketAddr>(address);
        let stream = stream.map_err(failed())?;
        stream.set_nonblocking(true).map_err(failed())?;
        let stream = TcpStream::from_std(stream);
        let mut peer = Peer::new(stream, &poll, number).map_err(failed())?;
        for caller in 0..u32::try_from(n_callers).unwrap_or(0) {
            peer.out.extend_from_slice(&caller.to_be_bytes());
        }
        peer.flush().map_err(failed())?;
        peers.push(peer);
    }
    let mut output = Output::open(Path::new(output)).map_err(failed())?;
    let mut left = n_connections * n_callers;
    let mut events = Events::with_capacity(EVENTS_PER_TURN);
    while 0 < left {
        wait(&mut poll, &mut events, &mut peers).map_err(failed())?;
        for peer in peers.iter_mut().filter(|peer| peer.is_ready) {
            peer.turn(|answers, out| output.take(answers, out, &mut left)).map_err(failed())?;
            if peer.is_over && 0 < left {
                return Err(failed()(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
    let rows = output.finish().map_err(failed())?;
    let seconds = start.elapsed().as_secs_f64();
    let (cpu, peak) =
        (crate::usage::cpu(std::process::id()), crate::usage::peak_rss_mb(std::process::id()));
    println!(
        "{}",
        json!({ "rows": rows, "seconds": seconds, "cpu_s": cpu.as_secs_f64(), "peak_rss_mb": peak })
    );
    Ok(())
}

/// Lines on their way into the file.
struct Output {
    file: std::fs::File,
    offset: u64,
    /// Line `n` waits in place `n % WINDOW`; its length is 0 until it has come.
    places: Vec<u8>,
    lens: Vec<u32>,
    oldest: u64,
    out: Vec<u8>,
}

impl Output {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let (places, lens) = (vec![0; WINDOW * PLACE_LEN], vec![0; WINDOW]);
        let out = Vec::with_capacity(WRITE_LEN + PLACE_LEN);
        Ok(Self { file, offset: 0, places, lens, oldest: 0, out })
    }

    /// Takes all whole answers, and has their callers ask again; returns how many bytes they were.
    fn take(&mut self, answers: &[u8], out: &mut Vec<u8>, left: &mut usize) -> io::Result<usize> {
        let mut rest = answers;
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD_LEN>() {
            let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
            let Some((line, behind)) = behind.split_at_checked(len as usize) else { break };
            rest = behind;
            if line.is_empty() {
                *left = left.saturating_sub(1);
                continue;
            }
            let number = head.last_chunk().map_or(0, |number| u64::from_be_bytes(*number));
            let at = usize::try_from(number).unwrap_or(usize::MAX) % WINDOW;
            let place = self.places.get_mut(at * PLACE_LEN..(at + 1) * PLACE_LEN);
            let place = place.and_then(|place| place.get_mut(..line.len()));
            let place = place.ok_or(io::ErrorKind::InvalidData)?;
            place.copy_from_slice(line);
            self.lens[at] = len;
            out.extend_from_slice(&head[4..8]);
        }
        self.write_on()?;
        Ok(answers.len() - rest.len())
    }

    fn write_on(&mut self) -> io::Result<()> {
        loop {
            let at = usize::try_from(self.oldest).unwrap_or(usize::MAX) % WINDOW;
            let len = std::mem::take(&mut self.lens[at]) as usize;
            if len == 0 {
                return Ok(());
            }
            self.out.extend_from_slice(&self.places[at * PLACE_LEN..][..len]);
            self.oldest += 1;
            if WRITE_LEN <= self.out.len() {
                self.write()?;
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.out, self.offset)?;
        self.offset += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<u64> {
        self.write()?;
        self.file.set_len(self.offset)?;
        Ok(self.oldest)
    }
}
