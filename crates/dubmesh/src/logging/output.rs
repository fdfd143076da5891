//! Standard error behind a bounded buffer, with a thread that writes.
//!
//! Standard error is often a pipe, and who reads it may stop. Threads that carry calls must not
//! stop with it: they append to the buffer, and lines that find it full are counted.

use std::io::{self, ErrorKind, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::warn;
use tracing_subscriber::fmt::MakeWriter;

use super::flood::TARGET;

/// Lines that wait for standard error, in bytes: some thousands of them.
const MAX_WAITING_LEN: usize = 1 << 20;
/// What the buffer keeps for itself between bursts.
const KEPT_LEN: usize = 16 << 10;
/// How often the writing thread looks for other work.
const TICK: Duration = Duration::from_secs(1);
/// Standard error that does not block is tried again after this long.
const RETRY: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
struct WaitingLines {
    waiting: Vec<u8>,
    n_left_out: u64,
    /// Whether the thread has taken lines that it has not written yet.
    is_writing: bool,
}

#[derive(Debug, Default)]
struct OutputQueue {
    state: Mutex<WaitingLines>,
    /// Lines came.
    came: Condvar,
    /// All lines were written.
    written: Condvar,
}

/// Takes lines, and never waits.
#[derive(Clone, Debug)]
pub(super) struct Output(Arc<OutputQueue>);

impl Output {
    /// Starts the thread that writes to `sink`. About once a second it calls `tick`.
    pub(super) fn start(
        sink: impl Write + Send + 'static,
        tick: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(OutputQueue::default());
        let thread = Arc::clone(&shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || thread.run(sink, tick))?;
        Ok(Self(shared))
    }

    /// Waits until all lines are written, but not longer than `timeout`.
    pub(super) fn flush(&self, timeout: Duration) {
        let is_busy = |state: &mut WaitingLines| state.is_writing || !state.waiting.is_empty();
        // Whether it worked makes no difference: the process ends.
        let _ = self.0.written.wait_timeout_while(self.0.lock(), timeout, is_busy);
    }
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = WholeLineWriter<'a>;

    fn make_writer(&'a self) -> WholeLineWriter<'a> {
        WholeLineWriter(&self.0)
    }
}

/// Takes one line at a time.
pub(super) struct WholeLineWriter<'a>(&'a OutputQueue);

impl Write for WholeLineWriter<'_> {
    /// Takes a whole line, or counts it as left out.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        if MAX_WAITING_LEN < state.waiting.len() + line.len() {
            state.n_left_out += 1;
        } else {
            state.waiting.extend_from_slice(line);
            self.0.came.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OutputQueue {
    fn run(&self, mut sink: impl Write, tick: impl Fn()) {
        let mut lines = Vec::new();
        let mut ticked = Instant::now();
        loop {
            let n_left_out = self.next(&mut lines);
            write_all(&mut sink, &lines);
            lines.clear();
            lines.shrink_to(KEPT_LEN);
            if n_left_out != 0 {
                warn!(
                    target: TARGET,
                    lines = n_left_out,
                    "left out lines, because standard error was not read in time"
                );
            }
            if TICK <= ticked.elapsed() {
                ticked = Instant::now();
                tick();
            }
            self.lock().is_writing = false;
            self.written.notify_all();
        }
    }

    /// Takes what waits, and how many lines found no room. Waits a tick at most.
    fn next(&self, lines: &mut Vec<u8>) -> u64 {
        let is_idle = |state: &mut WaitingLines| state.waiting.is_empty() && state.n_left_out == 0;
        let waited = self.came.wait_timeout_while(self.lock(), TICK, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut state.waiting, lines);
        state.is_writing = true;
        mem::take(&mut state.n_left_out)
    }

    /// A thread that panicked meanwhile left at worst a line unwritten.
    fn lock(&self) -> MutexGuard<'_, WaitingLines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes all, however long that takes. There is nobody to tell if it fails.
fn write_all(sink: &mut impl Write, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match sink.write(bytes) {
            Ok(0) => return,
            Ok(n_written) => bytes = &bytes[n_written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Says what it is to write, and has written it when it gets a permit.
    struct Slow {
        asked: mpsc::Sender<Vec<u8>>,
        permits: mpsc::Receiver<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.asked.send(bytes.to_owned()).map_err(|_| ErrorKind::BrokenPipe)?;
            self.permits.recv().map_err(|_| ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_who_does_not_read() {
        let (permit, permits) = mpsc::channel();
        let (asked, pieces) = mpsc::channel();
        let output = Output::start(Slow { asked, permits }, || {}).unwrap();
        let line = [b'x'; 1024];
        output.make_writer().write_all(&line).unwrap();
        assert_eq!(pieces.recv_timeout(PATIENCE).unwrap(), line);
        // From now on nothing is read, and more comes than there is room for.
        for _ in 0..3_000 {
            output.make_writer().write_all(&line).unwrap();
        }
        output.flush(Duration::from_millis(1));
        let state = |output: &Output| {
            let state = output.0.lock();
            (state.waiting.len(), state.n_left_out, state.is_writing)
        };
        assert_eq!(state(&output), (MAX_WAITING_LEN, 3_000 - 1_024, true));
        permit.send(()).unwrap();
        assert_eq!(pieces.recv_timeout(PATIENCE).unwrap().len(), MAX_WAITING_LEN);
        permit.send(()).unwrap();
        output.flush(PATIENCE);
        assert_eq!(state(&output), (0, 0, false));
    }

    #[test]
    fn standard_error_that_does_not_block_is_written_whole() {
        /// Takes a few bytes every other time.
        struct Full(bool, mpsc::Sender<u8>);

        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = !self.0;
                if self.0 {
                    return Err(ErrorKind::WouldBlock.into());
                }
                let n = bytes.len().min(7);
                bytes[..n].iter().for_each(|byte| self.1.send(*byte).unwrap());
                Ok(n)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let (sender, bytes) = mpsc::channel();
        let output = Output::start(Full(false, sender), || {}).unwrap();
        output.make_writer().write_all(b"a line of some length\n").unwrap();
        output.flush(PATIENCE);
        assert_eq!(bytes.try_iter().collect::<Vec<_>>(), b"a line of some length\n");
    }

    #[test]
    fn it_ticks() {
        let (tick, ticks) = mpsc::channel();
        let tick = move || tick.send(()).unwrap_or_default();
        let _output = Output::start(io::sink(), tick).unwrap();
        ticks.recv_timeout(PATIENCE).unwrap();
    }
}
