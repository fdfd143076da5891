//! The ceiling of a blocking client: bare sockets, one thread per caller, shared connections.
//!
//! A caller locks the connection, writes its own request, and parks; one thread per connection
//! reads, hands each reply over and unparks its caller. The server is that of `raw.rs`.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Instant;

use crate::error::PeerError;
use crate::measure::Tally;
use crate::options::ClientOptions;
use crate::payload;
use crate::raw::{HEADER_LEN, Inbox, caller_of, connect, request_frame, request_payload};

/// What a caller waits for.
#[derive(Default)]
struct Slot {
    thread: OnceLock<Thread>,
    is_answered: AtomicBool,
    reply: Mutex<Vec<u8>>,
}

/// Runs all callers until the end of the measurement.
pub(crate) fn call(options: &ClientOptions) -> Result<Tally, PeerError> {
    let streams = connect(options)?;
    let writers: Vec<_> = streams.iter().map(Mutex::new).collect();
    let slots: Vec<Slot> = (0..options.concurrency).map(|_| Slot::default()).collect();
    let has_ended = AtomicBool::new(false);
    let tally = Tally::start(options);
    thread::scope(|scope| {
        let (slots, tally, has_ended) = (&slots, &tally, &has_ended);
        for stream in &streams {
            scope.spawn(move || hand_over(stream, slots, has_ended, tally));
        }
        let run = |caller: usize| {
            let connection = Connection { writer: &writers[caller % streams.len()], has_ended };
            scope.spawn(move || run_caller(caller, connection, &slots[caller], options, tally))
        };
        let callers: Vec<_> = (0..options.concurrency).map(run).collect();
        let results = callers.into_iter().map(|caller| caller.join().expect("no caller panics"));
        let result = results.fold(Ok(()), Result::and);
        for stream in &streams {
            // Ends the thread that reads it; it may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        result
    })?;
    Ok(tally)
}

/// A caller's view of its connection.
#[derive(Clone, Copy)]
struct Connection<'a> {
    writer: &'a Mutex<&'a TcpStream>,
    /// Whether a connection has ended, so that some replies will never come.
    has_ended: &'a AtomicBool,
}

/// One thread's calls.
fn run_caller(
    caller: usize,
    connection: Connection<'_>,
    slot: &Slot,
    options: &ClientOptions,
    tally: &Tally,
) -> Result<(), PeerError> {
    let frame = request_frame(caller, options);
    slot.thread.get_or_init(thread::current);
    let mut started = Instant::now();
    loop {
        slot.is_answered.store(false, Ordering::Relaxed);
        lock(connection.writer).write_all(&frame)?;
        while !slot.is_answered.load(Ordering::Acquire) {
            if connection.has_ended.load(Ordering::SeqCst) {
                return Err(PeerError::ServerLeft);
            }
            thread::park();
        }
        let reply = lock(&slot.reply);
        if !payload::is_answer(request_payload(&frame), &reply, options.response_bytes) {
            return Err(PeerError::WrongAnswer);
        }
        drop(reply);
        let ended = Instant::now();
        tally.record_io(ended, 0, 1);
        if !tally.record(started, ended) {
            return Ok(());
        }
        started = ended;
    }
}

/// Reads replies and wakes those who wait for them, until the stream ends; then wakes everybody.
fn hand_over(stream: &TcpStream, slots: &[Slot], has_ended: &AtomicBool, tally: &Tally) {
    let mut inbox = Inbox::new();
    while let Ok(true) = inbox.fill(stream) {
        tally.record_io(Instant::now(), 1, 0);
        while let Some(frame) = inbox.next_frame() {
            if let Some(slot) = slots.get(caller_of(frame)) {
                slot.answer(&frame[HEADER_LEN..]);
            }
        }
    }
    has_ended.store(true, Ordering::SeqCst);
    for thread in slots.iter().filter_map(|slot| slot.thread.get()) {
        thread.unpark();
    }
}

impl Slot {
    fn answer(&self, payload: &[u8]) {
        let mut reply = lock(&self.reply);
        reply.clear();
        reply.extend_from_slice(payload);
        drop(reply);
        self.is_answered.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Nobody panics while holding one of these.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
