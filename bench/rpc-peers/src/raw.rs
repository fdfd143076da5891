//! The ceiling: bare blocking sockets, no library, one thread a side per connection.
//!
//! All that one read brings is handled, and goes out by one write. A request has the length of the
//! link's: a header of 16 bytes (length of what follows, unused, number of the caller), a route
//! and a timeout of 4 bytes each, both unused, and the payload. A response has no route and
//! timeout.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use crate::error::PeerError;
use crate::measure::Tally;
use crate::options::{ClientOptions, ServerOptions};
use crate::payload;
use crate::runtime::announce;

pub(crate) const HEADER_LEN: usize = 16;
const ROUTE_AND_TIMEOUT_LEN: usize = 8;
const READ_BUFFER_LEN: usize = 256 * 1024;
/// Neither side reads while it writes. Up to here the kernel's buffers of one direction hold all
/// that is in flight, so that no two writes can wait for each other.
const MAX_IN_FLIGHT_LEN: usize = 128 * 1024;

/// Answers each connection on a thread of its own.
pub(crate) fn serve(options: &ServerOptions) -> Result<(), PeerError> {
    let listener = TcpListener::bind(options.listen)?;
    announce(listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept()?;
        thread::spawn(move || {
            if let Err(error) = answer_all(&stream) {
                eprintln!("a connection ended: {error}");
            }
        });
    }
}

fn answer_all(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut inbox = Inbox::new();
    let mut out = Vec::with_capacity(READ_BUFFER_LEN);
    while inbox.fill(stream)? {
        while let Some(frame) = inbox.next_frame() {
            let id = &frame[8..HEADER_LEN];
            let Some(payload) = frame.get(HEADER_LEN + ROUTE_AND_TIMEOUT_LEN..) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let len = payload::wanted_len(payload).unwrap_or(payload.len());
            push_header(&mut out, len, id);
            let n_padding = len.saturating_sub(payload.len());
            out.extend_from_slice(&payload[..len - n_padding]);
            out.resize(out.len() + n_padding, 0);
        }
        if !out.is_empty() {
            stream.write_all(&out)?;
            out.clear();
        }
    }
    Ok(())
}

fn push_header(out: &mut Vec<u8>, body_len: usize, id: &[u8]) {
    // No body is longer than a buffer.
    out.extend_from_slice(&u32::try_from(body_len).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(id);
}

/// The frame of every request that this caller makes.
pub(crate) fn request_frame(caller: usize, options: &ClientOptions) -> Vec<u8> {
    let payload = payload::request(caller, options.request_bytes, options.response_bytes);
    let id = u64::try_from(caller).unwrap_or(u64::MAX).to_be_bytes();
    let mut frame = Vec::new();
    push_header(&mut frame, ROUTE_AND_TIMEOUT_LEN + payload.len(), &id);
    frame.extend_from_slice(&[0; ROUTE_AND_TIMEOUT_LEN]);
    frame.extend_from_slice(&payload);
    frame
}

/// Payload of a request's or a response's frame.
pub(crate) fn request_payload(frame: &[u8]) -> &[u8] {
    &frame[HEADER_LEN + ROUTE_AND_TIMEOUT_LEN..]
}

/// The caller's number in a frame, which has at least a header.
pub(crate) fn caller_of(frame: &[u8]) -> usize {
    let id = frame[8..HEADER_LEN].try_into().map(u64::from_be_bytes);
    id.ok().and_then(|id| usize::try_from(id).ok()).unwrap_or(usize::MAX)
}

/// Drives each connection with its callers on a thread of its own.
pub(crate) fn call(options: &ClientOptions) -> Result<Tally, PeerError> {
    let frame_len = options.request_bytes.max(options.response_bytes) + HEADER_LEN + 8;
    let len = frame_len * options.callers_of(0).count();
    if MAX_IN_FLIGHT_LEN < len {
        return Err(PeerError::TooMuchInFlight { len, max: MAX_IN_FLIGHT_LEN });
    }
    let streams = connect(options)?;
    let tally = Tally::start(options);
    thread::scope(|scope| {
        let drive = |(connection, stream)| {
            let tally = &tally;
            scope.spawn(move || Driver::new(connection, stream, options, tally).run())
        };
        let threads: Vec<_> = streams.iter().enumerate().map(drive).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no driver panics"))
    })?;
    Ok(tally)
}

/// One stream for each connection that has callers.
pub(crate) fn connect(options: &ClientOptions) -> io::Result<Vec<TcpStream>> {
    let n_used = options.connections.min(options.concurrency);
    let connect = |_| {
        let stream = TcpStream::connect(options.connect)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    (0..n_used).map(connect).collect()
}

/// One connection's callers.
struct Driver<'a> {
    stream: &'a TcpStream,
    options: &'a ClientOptions,
    tally: &'a Tally,
    connection: usize,
    callers: Vec<Caller>,
}

struct Caller {
    frame: Vec<u8>,
    started: Instant,
}

impl<'a> Driver<'a> {
    fn new(
        connection: usize,
        stream: &'a TcpStream,
        options: &'a ClientOptions,
        tally: &'a Tally,
    ) -> Self {
        let started = Instant::now();
        let caller = |caller| Caller { frame: request_frame(caller, options), started };
        let callers = options.callers_of(connection).map(caller).collect();
        Self { stream, options, tally, connection, callers }
    }

    fn run(mut self) -> Result<(), PeerError> {
        let mut inbox = Inbox::new();
        let mut out = Vec::with_capacity(READ_BUFFER_LEN);
        for caller in &self.callers {
            out.extend_from_slice(&caller.frame);
        }
        self.stream.write_all(&out)?;
        let (n_connections, response_len) = (self.options.connections, self.options.response_bytes);
        loop {
            if !inbox.fill(self.stream)? {
                return Err(PeerError::ServerLeft);
            }
            out.clear();
            let mut now = None;
            while let Some(frame) = inbox.next_frame() {
                let number = caller_of(frame).wrapping_sub(self.connection) / n_connections;
                let Some(caller) = self.callers.get_mut(number) else {
                    return Err(PeerError::WrongAnswer);
                };
                let request = request_payload(&caller.frame);
                if !payload::is_answer(request, &frame[HEADER_LEN..], response_len) {
                    return Err(PeerError::WrongAnswer);
                }
                let ended = Instant::now();
                if !self.tally.record(caller.started, ended) {
                    return Ok(());
                }
                caller.started = ended;
                out.extend_from_slice(&caller.frame);
                now = Some(ended);
            }
            if let Some(now) = now {
                self.tally.record_io(now, 1, 1);
                self.stream.write_all(&out)?;
            }
        }
    }
}

/// What has been read and not been handled.
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    /// Where the first unhandled byte and the first free one are.
    begin: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; READ_BUFFER_LEN], begin: 0, end: 0 }
    }

    /// Reads once; false at the end of the stream.
    pub(crate) fn fill(&mut self, mut stream: &TcpStream) -> io::Result<bool> {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        if self.end == self.buffer.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"));
        }
        let len = stream.read(&mut self.buffer[self.end..])?;
        self.end += len;
        Ok(len != 0)
    }

    /// The next frame that is there as a whole.
    pub(crate) fn next_frame(&mut self) -> Option<&[u8]> {
        let unhandled = &self.buffer[self.begin..self.end];
        let body_len = u32::from_be_bytes(*unhandled.first_chunk()?);
        let len = HEADER_LEN.checked_add(usize::try_from(body_len).ok()?)?;
        let frame = unhandled.get(..len)?;
        self.begin += len;
        Some(frame)
    }
}
