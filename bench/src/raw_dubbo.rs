//! A Dubbo consumer and a provider on bare sockets that do as little as can be done: frames in
//! batches, one thread each, hessian2 echo of one string. They are so fast that what stands
//! between them is what is measured.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde_json::json;

use crate::error::BenchError;
use crate::raw_peer::{EVENTS_PER_TURN, Peer, wait};

/// The service.
pub(crate) const INTERFACE: &str = "bench.Echo";
const METHOD: &str = "echo";
const TEXT: &str = "the quick brown fox jumps over the lazy dog, again and again";
const HEADER_LEN: usize = 16;
/// Two-way request in hessian2.
const REQUEST_HEAD: [u8; 4] = [0xda, 0xbb, 0xc2, 0];
/// Answer in hessian2, status OK.
const ANSWER_HEAD: [u8; 4] = [0xda, 0xbb, 0x02, 20];
/// A value with attachments follows.
const VALUE_WITH_ATTACHMENTS: u8 = 0x94;
/// Latencies are counted in steps of a microsecond up to here.
const N_STEPS: usize = 100_000;

/// Answers every request with its argument. Prints `READY HOST:PORT`.
pub(crate) fn provide() -> Result<(), BenchError> {
    let failed = || BenchError::io("the raw provider");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
    println!("READY {}", listener.local_addr().map_err(failed())?);
    listener.set_nonblocking(true).map_err(failed())?;
    let mut listener = mio::net::TcpListener::from_std(listener);
    let mut poll = Poll::new().map_err(failed())?;
    let token = Token(usize::MAX);
    poll.registry().register(&mut listener, token, Interest::READABLE).map_err(failed())?;
    let mut peers: Vec<Peer> = Vec::new();
    let mut events = Events::with_capacity(EVENTS_PER_TURN);
    loop {
        wait(&mut poll, &mut events, &mut peers).map_err(failed())?;
        if events.iter().any(|event| event.token() == token) {
            while let Ok((stream, _)) = listener.accept() {
                peers.push(Peer::new(stream, &poll, peers.len()).map_err(failed())?);
            }
        }
        for peer in peers.iter_mut().filter(|peer| peer.is_ready) {
            peer.turn(|input, out| frames(input, |frame| answer(frame, out))).map_err(failed())?;
        }
    }
}

/// Hands over each whole frame; returns how many bytes they were.
fn frames(input: &[u8], mut handle: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<usize> {
    let mut rest = input;
    while let Some(head) = rest.first_chunk::<HEADER_LEN>() {
        let body_len = u32::from_be_bytes([head[12], head[13], head[14], head[15]]) as usize;
        let Some((frame, behind)) = rest.split_at_checked(HEADER_LEN + body_len) else { break };
        handle(frame)?;
        rest = behind;
    }
    Ok(input.len() - rest.len())
}

fn answer(request: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let (head, body) = request.split_at(HEADER_LEN);
    if head[2] & 0x20 != 0 {
        // A heartbeat: the same, answered.
        if head[2] & 0x40 != 0 {
            out.extend_from_slice(&[0xda, 0xbb, 0x22, 20]);
            out.extend_from_slice(&head[4..12]);
            out.extend_from_slice(&[0, 0, 0, 1, b'N']);
        }
        return Ok(());
    }
    let mut rest = body;
    for _ in 0..5 {
        rest = rest.get(text_len(rest)?..).unwrap_or_default();
    }
    let argument = rest.get(..text_len(rest)?).unwrap_or_default();
    let attachments: &[u8] = b"H\x05dubbo\x052.0.2Z";
    out.extend_from_slice(&ANSWER_HEAD);
    out.extend_from_slice(&head[4..12]);
    let body_len = 1 + argument.len() + attachments.len();
    out.extend_from_slice(&u32::try_from(body_len).unwrap_or(0).to_be_bytes());
    out.push(VALUE_WITH_ATTACHMENTS);
    out.extend_from_slice(argument);
    out.extend_from_slice(attachments);
    Ok(())
}

/// Length of a short string of hessian2, its head included.
fn text_len(bytes: &[u8]) -> io::Result<usize> {
    match bytes {
        [len @ 0..=31, ..] => Ok(1 + usize::from(*len)),
        [high @ 0x30..=0x33, low, ..] => {
            Ok(2 + (usize::from(high - 0x30) << 8 | usize::from(*low)))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    match u8::try_from(text.len()) {
        Ok(len @ 0..=31) => out.push(len),
        _ => {
            let len = 0x3000 + u16::try_from(text.len()).unwrap_or(0);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

fn body() -> Vec<u8> {
    let mut body = Vec::new();
    for text in ["2.0.2", INTERFACE, "0.0.0", METHOD, "Ljava/lang/String;", TEXT] {
        put_text(&mut body, text);
    }
    body.push(b'H');
    for (name, value) in
        [("path", INTERFACE), ("interface", INTERFACE), ("version", "0.0.0"), ("timeout", "10000")]
    {
        put_text(&mut body, name);
        put_text(&mut body, value);
    }
    body.push(b'Z');
    body
}

/// What one load has counted.
struct Tally {
    body: Vec<u8>,
    /// When the call in each slot of each connection was sent, once measuring has begun.
    sent: Vec<Vec<Instant>>,
    since: Option<Instant>,
    n_all: u64,
    n_measured: u64,
    n_errors: u64,
    steps: Vec<u32>,
}

/// Keeps so many calls in flight on each connection for so long, in a closed loop; prints what
/// came of it as JSON.
pub(crate) fn load(address: &str, shape: &[&str]) -> Result<(), BenchError> {
    let failed = || BenchError::io("the raw consumer");
    let numbers: Vec<u64> = shape.iter().filter_map(|text| text.parse().ok()).collect();
    let [n_connections, in_flight, warm_up_ms, ms] = numbers[..] else {
        return Err(BenchError::Usage);
    };
    let address: SocketAddr = address.parse().map_err(|_| BenchError::Usage)?;
    let mut poll = Poll::new().map_err(failed())?;
    let mut peers = Vec::new();
    let start = Instant::now();
    let slots = usize::try_from(in_flight / n_connections.max(1)).unwrap_or(1).max(1);
    let mut tally = Tally {
        body: body(),
        sent: vec![vec![start; slots]; usize::try_from(n_connections).unwrap_or(1)],
        since: None,
        n_all: 0,
        n_measured: 0,
        n_errors: 0,
        steps: vec![0; N_STEPS],
    };
    for number in 0..tally.sent.len() {
        let stream = std::net::TcpStream::connect(address).map_err(failed())?;
        stream.set_nonblocking(true).map_err(failed())?;
        let mut peer = Peer::new(TcpStream::from_std(stream), &poll, number).map_err(failed())?;
        for slot in 0..slots as u64 {
            tally.ask(slot, &mut peer.out);
        }
        peer.flush().map_err(failed())?;
        peers.push(peer);
    }
    let (warm, end) = (Duration::from_millis(warm_up_ms), Duration::from_millis(warm_up_ms + ms));
    let mut events = Events::with_capacity(EVENTS_PER_TURN);
    loop {
        wait(&mut poll, &mut events, &mut peers).map_err(failed())?;
        let now = Instant::now();
        if tally.since.is_none() && warm <= now - start {
            tally.since = Some(now);
        }
        if end <= now - start {
            break;
        }
        for (number, peer) in peers.iter_mut().enumerate().filter(|(_, peer)| peer.is_ready) {
            let now = Instant::now();
            let turn = |input: &[u8], out: &mut Vec<u8>| {
                frames(input, |frame| {
                    tally.take(number, now, frame, out);
                    Ok(())
                })
            };
            peer.turn(turn).map_err(failed())?;
            if peer.is_over {
                return Err(failed()(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
    println!("{}", tally.json());
    Ok(())
}

impl Tally {
    fn ask(&self, id: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&REQUEST_HEAD);
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&u32::try_from(self.body.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(&self.body);
    }

    fn take(&mut self, connection: usize, now: Instant, frame: &[u8], out: &mut Vec<u8>) {
        if frame[2] & 0x20 != 0 {
            return;
        }
        self.n_all += 1;
        let id = frame[4..12].first_chunk().map_or(0, |id| u64::from_be_bytes(*id));
        let slots = &mut self.sent[connection];
        let n_slots = slots.len() as u64;
        let place = &mut slots[usize::try_from(id % n_slots).unwrap_or(0)];
        let took = now - std::mem::replace(place, now);
        // The head, the kind, the string's own head of two bytes, and the string.
        let is_right = frame.starts_with(&ANSWER_HEAD)
            && frame.get(HEADER_LEN + 3..).is_some_and(|text| text.starts_with(TEXT.as_bytes()));
        self.n_errors += u64::from(!is_right);
        if self.since.is_some() {
            self.n_measured += 1;
            let us = usize::try_from(took.as_micros()).unwrap_or(usize::MAX);
            self.steps[us.min(N_STEPS - 1)] += 1;
        }
        self.ask(id + n_slots, out);
    }

    fn json(&self) -> serde_json::Value {
        let seconds = self.since.map_or(f64::NAN, |since| since.elapsed().as_secs_f64());
        let at = |per_mille: u64| {
            let mut left = self.n_measured * per_mille / 1000;
            let is_it = |n: &u32| {
                let is_here = left <= u64::from(*n);
                left = left.saturating_sub(u64::from(*n));
                is_here
            };
            self.steps.iter().position(is_it).unwrap_or(N_STEPS) as f64 / 1e3
        };
        json!({
            "calls": self.n_all,
            "seconds": seconds,
            "calls_per_s": self.n_measured as f64 / seconds,
            "p50_ms": at(500),
            "p99_ms": at(990),
            "p999_ms": at(999),
            "errors": self.n_errors,
            "cpu_s": crate::usage::cpu(std::process::id()).as_secs_f64(),
        })
    }
}
