//! From the threads that receive lines to the file: a thread of its own that puts lines in order
//! and writes them, so that a slow disk stops no event loop.
//!
//! Each receiving thread has a [`LineSender`]. It asks for room for a line, pushes the line, and
//! flushes at the end of each turn of its event loop. Lines cross threads in batches, so that
//! nothing but a copy is paid for each line.
//!
//! Invariants:
//! - Memory is bounded by the window and by [`WriterOptions::budget`]; the oldest missing line is
//!   always let in, so that waiting for room always ends.
//! - The first failure ends everything: who waits for room is woken and told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::TransferError;
use crate::checkpoint::Subject;
use crate::checksum::Totals;
use crate::line_step::LineProcessor;
use crate::lines::LineEnds;
use crate::output::{Output, OutputOptions};
use crate::reorder::{Batch, Reorder};

/// How much is written at once. It fits into the second-level cache twice.
const WRITE_LEN: usize = 256 * 1024;

/// How many empty batches are kept for later: most of what the budget of 16 MiB allows.
const SPARE_BATCHES: usize = 128;

/// How much a writer keeps in memory.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// How many lines from the oldest missing one on are taken in. Rounded up to a power of two.
    pub window: usize,
    /// How many bytes of memory lines wait in at most until only the oldest missing one is taken
    /// in, give or take a batch of 100 KiB for each sender.
    pub budget: usize,
}

impl Default for WriterOptions {
    /// 65,536 lines and 16 MiB: several times what 12,000 callers have in flight.
    fn default() -> Self {
        Self { window: 65_536, budget: 16 * 1024 * 1024 }
    }
}

/// What came of a whole transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Written {
    /// All lines, as the server sent them.
    pub totals: Totals,
    /// The output's length in bytes.
    pub len: u64,
    /// The output's xxh3.
    pub digest: u64,
    /// Lines that came more than once.
    pub duplicates: u64,
    /// How long it took to synchronize the output with the disk.
    pub sync: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct Writer {
    partial: PathBuf,
    shared: Arc<WriterState>,
    batches: Sender<WriterMessage>,
    thread: Option<JoinHandle<Result<Option<Written>, TransferError>>>,
}

/// What the senders and the writer's thread both see.
#[derive(Debug)]
struct WriterState {
    /// What ends lines, as the server says.
    ends: LineEnds,
    window: u64,
    budget: u64,
    oldest: AtomicU64,
    /// Bytes of memory of batches between a sender's flush and the file.
    held: AtomicU64,
    failed: OnceLock<TransferError>,
    /// Whether anybody waits in `waiting`; kept apart so that nobody needs the lock to see that.
    any_waiting: AtomicBool,
    waiting: Mutex<RoomWaiters>,
    state: Mutex<WrittenSoFar>,
    spare: Mutex<Vec<Batch>>,
}

/// Who waits for room, by the line's number: those who may go on first come first.
#[derive(Debug, Default)]
struct RoomWaiters {
    wakers: BTreeMap<(u64, u64), Waker>,
    /// Tells apart those who wait with the same line.
    next_id: u64,
}

#[derive(Clone, Copy, Debug)]
struct WrittenSoFar {
    totals: Totals,
    len: u64,
}

#[derive(Debug)]
enum WriterMessage {
    Batch(Batch),
    /// Every sender has been flushed; compare, and give the output its name.
    Finish(Totals),
}

impl Writer {
    /// Opens the output. The transfer goes on from line [`Writer::totals`]`.lines`.
    ///
    /// Reads a partial output that is resumed, and blocks for that long.
    ///
    /// # Errors
    /// [`TransferError::OutputExists`], [`TransferError::PartialExists`],
    /// [`TransferError::OutputBusy`]; on resuming [`TransferError::BadJournal`],
    /// [`TransferError::OtherTransfer`] or [`TransferError::PartialDamaged`]; or what the files
    /// can end with.
    pub fn open(
        output: OutputOptions,
        subject: Subject,
        options: WriterOptions,
    ) -> Result<Self, TransferError> {
        let ends = subject.source.ends;
        let (output, totals) = Output::open(output, subject)?;
        Self::start(output, totals, ends, options)
    }

    fn start(
        output: Output,
        totals: Totals,
        ends: LineEnds,
        options: WriterOptions,
    ) -> Result<Self, TransferError> {
        let window = options.window.max(1).next_power_of_two();
        let shared = Arc::new(WriterState {
            ends,
            window: window as u64,
            budget: options.budget as u64,
            oldest: AtomicU64::new(totals.lines),
            held: AtomicU64::new(0),
            failed: OnceLock::new(),
            any_waiting: AtomicBool::new(false),
            waiting: Mutex::default(),
            state: Mutex::new(WrittenSoFar { totals, len: output.len() }),
            spare: Mutex::default(),
        });
        let (batches, received) = channel();
        let work = WriterThread {
            reorder: Reorder::new(totals.lines, window),
            shared: Arc::clone(&shared),
            totals,
            written: totals,
            out: Vec::with_capacity(WRITE_LEN + 4096),
            empty: Vec::new(),
            output,
        };
        let partial = work.output.partial().to_owned();
        let thread = std::thread::Builder::new()
            .name("transfer-write".to_owned())
            .spawn(move || work.run(&received))
            .map_err(TransferError::io("start a thread for", &partial))?;
        Ok(Self { partial, shared, batches, thread: Some(thread) })
    }

    /// A sender for one receiving thread, whose lines go through `step`.
    #[must_use]
    pub fn sender(&self, step: &'static dyn LineProcessor) -> LineSender {
        LineSender {
            shared: Arc::clone(&self.shared),
            batches: self.batches.clone(),
            batch: Batch::new(),
            step,
        }
    }

    /// The output's name until it is whole and checked.
    #[must_use]
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// What has been written, from the first line on, as the server sent it. A transfer that is
    /// opened again, because the server was restarted, goes on from line `lines` of this.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.shared.state().totals
    }

    /// How many bytes of output have been written.
    #[must_use]
    pub fn written_len(&self) -> u64 {
        self.shared.state().len
    }

    /// Why nothing is written any more, if so.
    #[must_use]
    pub fn failure(&self) -> Option<TransferError> {
        self.shared.failed.get().cloned()
    }

    /// Ends the transfer, after each sender has been flushed or dropped: compares what was written
    /// with what the server says, and gives the output its name. Blocks until the output is on the
    /// disk.
    ///
    /// # Errors
    /// [`TransferError::Incomplete`] if there is a difference, or why writing has failed. In both
    /// cases the output is left under its partial name.
    pub fn finish(mut self, expected: Totals) -> Result<Written, TransferError> {
        // A thread that is gone has left its reason.
        let _ = self.batches.send(WriterMessage::Finish(expected));
        self.join()?.ok_or(TransferError::WriterStopped)
    }

    /// Ends the transfer early: what has come in order is kept, for resuming.
    ///
    /// The senders have to be dropped first.
    ///
    /// # Errors
    /// Why the state could not be recorded.
    pub fn leave(mut self) -> Result<(), TransferError> {
        self.join().map(drop)
    }

    fn join(&mut self) -> Result<Option<Written>, TransferError> {
        let (closed, _) = channel();
        self.batches = closed;
        let Some(thread) = self.thread.take() else { return Ok(None) };
        thread.join().unwrap_or(Err(TransferError::WriterStopped))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Whoever wants to know how it ended calls `finish` or `leave`.
        let _ = self.join();
    }
}

/// One receiving thread's way to the writer.
#[derive(Debug)]
pub struct LineSender {
    shared: Arc<WriterState>,
    batches: Sender<WriterMessage>,
    batch: Batch,
    step: &'static dyn LineProcessor,
}

impl LineSender {
    /// Waits until there is room for line `number`. Ready means: push it now, without waiting for
    /// anything else in between.
    ///
    /// # Errors
    /// Why writing has failed.
    pub fn poll_room(
        &mut self,
        number: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TransferError>> {
        if let Some(error) = self.shared.failed.get() {
            return Poll::Ready(Err(error.clone()));
        }
        if self.shared.has_room(number) {
            return Poll::Ready(Ok(()));
        }
        // What others wait for may be here.
        self.flush();
        {
            let mut waiting = self.shared.waiting();
            let id = waiting.next_id;
            waiting.next_id += 1;
            waiting.wakers.insert((number, id), cx.waker().clone());
            self.shared.any_waiting.store(true, Ordering::SeqCst);
        }
        // Both sides write, then read what the other writes: one of them sees the other.
        self.shared.wake();
        Poll::Pending
    }

    /// Takes in line `number` as it came, with its end, and processes it. There has to be room for
    /// it.
    pub fn push(&mut self, number: u64, line: &[u8]) {
        self.batch.push(number, line, self.shared.ends, self.step);
        if self.batch.is_full() {
            self.flush();
        }
    }

    /// Passes on the lines pushed so far. To be called whenever nothing more is to be pushed for
    /// now: others may wait for one of them.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let spare = self.shared.spare().pop().unwrap_or_else(Batch::new);
        let batch = std::mem::replace(&mut self.batch, spare);
        self.shared.held.fetch_add(batch.footprint() as u64, Ordering::SeqCst);
        // A thread that is gone has left its reason for `poll_room`.
        let _ = self.batches.send(WriterMessage::Batch(batch));
    }
}

impl Drop for LineSender {
    fn drop(&mut self) {
        self.flush();
    }
}

impl WriterState {
    fn has_room(&self, number: u64) -> bool {
        self.has_room_within(number, self.budget)
    }

    fn has_room_within(&self, number: u64, budget: u64) -> bool {
        let oldest = self.oldest.load(Ordering::SeqCst);
        number <= oldest
            || number - oldest < self.window && self.held.load(Ordering::SeqCst) < budget
    }

    /// Wakes those who wait and have room now, or all after a failure. Memory has to be half free
    /// for that: otherwise all would be woken for each batch that is written, and most would wait
    /// again.
    fn wake(&self) {
        let mut ready = Vec::new();
        {
            let mut waiting = self.waiting();
            while let Some(first) = waiting.wakers.first_entry() {
                let (number, _) = *first.key();
                let failed = self.failed.get().is_some();
                if !failed && !self.has_room_within(number, self.budget.div_ceil(2)) {
                    break;
                }
                ready.push(first.remove());
            }
            if waiting.wakers.is_empty() {
                self.any_waiting.store(false, Ordering::SeqCst);
            }
        }
        ready.into_iter().for_each(Waker::wake);
    }

    fn waiting(&self) -> MutexGuard<'_, RoomWaiters> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, WrittenSoFar> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Batch>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the writer's thread owns.
struct WriterThread {
    shared: Arc<WriterState>,
    reorder: Reorder,
    output: Output,
    /// Lines in order that wait for a whole write.
    out: Vec<u8>,
    /// All lines in order, and of these the ones that have been written.
    totals: Totals,
    written: Totals,
    empty: Vec<Batch>,
}

impl WriterThread {
    fn run(mut self, received: &Receiver<WriterMessage>) -> Result<Option<Written>, TransferError> {
        let expected = self.receive(received).and_then(|expected| {
            self.write()?;
            Ok(expected)
        });
        let failure = match expected {
            Ok(Some(expected)) => match self.check(expected) {
                Ok(()) => return self.complete().map(Some),
                Err(error) => error,
            },
            Ok(None) => return self.output.leave(self.written).map(|()| None),
            Err(error) => error,
        };
        let failure = self.shared.failed.get_or_init(|| failure).clone();
        self.shared.wake();
        // On a full disk this may fail as well; then an earlier journal holds.
        let _ = self.output.leave(self.written);
        Err(failure)
    }

    /// Writes until told to finish; `None` if everybody has gone without a word.
    fn receive(
        &mut self,
        received: &Receiver<WriterMessage>,
    ) -> Result<Option<Totals>, TransferError> {
        while let Ok(message) = received.recv() {
            let mut next = Some(message);
            while let Some(message) = next {
                match message {
                    WriterMessage::Finish(expected) => return Ok(Some(expected)),
                    WriterMessage::Batch(batch) => self.handle_batch(batch)?,
                }
                next = received.try_recv().ok();
            }
        }
        Ok(None)
    }

    fn handle_batch(&mut self, batch: Batch) -> Result<(), TransferError> {
        self.empty.extend(self.reorder.handle_batch(batch)?);
        loop {
            let Self { reorder, out, totals, empty, .. } = self;
            reorder.poll_lines(out, WRITE_LEN, totals, empty);
            if out.len() < WRITE_LEN {
                break;
            }
            self.write()?;
        }
        self.give_back();
        let oldest = self.reorder.oldest();
        self.shared.oldest.store(oldest, Ordering::SeqCst);
        if self.shared.any_waiting.load(Ordering::SeqCst) {
            self.shared.wake();
        }
        Ok(())
    }

    fn give_back(&mut self) {
        if self.empty.is_empty() {
            return;
        }
        let len: usize = self.empty.iter().map(Batch::footprint).sum();
        self.shared.held.fetch_sub(len as u64, Ordering::SeqCst);
        let mut spare = self.shared.spare();
        for mut batch in self.empty.drain(..) {
            if spare.len() < SPARE_BATCHES {
                batch.clear();
                spare.push(batch);
            }
        }
    }

    fn write(&mut self) -> Result<(), TransferError> {
        if !self.out.is_empty() {
            self.output.write(&self.out, self.totals)?;
            self.out.clear();
            self.out.shrink_to(4 * WRITE_LEN);
            self.written = self.totals;
        }
        *self.shared.state() = WrittenSoFar { totals: self.written, len: self.output.len() };
        Ok(())
    }

    fn check(&self, expected: Totals) -> Result<(), TransferError> {
        let found = self.totals;
        for (what, expected, found) in [
            ("the number of lines", expected.lines, found.lines),
            ("the length of the lines as sent", expected.bytes, found.bytes),
            ("the checksum of the lines", expected.sum, found.sum),
        ] {
            if expected != found {
                let path = self.output.partial().to_owned();
                return Err(TransferError::Incomplete { what, expected, found, path });
            }
        }
        Ok(())
    }

    fn complete(self) -> Result<Written, TransferError> {
        let (totals, len, digest) = (self.totals, self.output.len(), self.output.digest());
        let duplicates = self.reorder.duplicates();
        let sync = self.output.complete()?;
        Ok(Written { totals, len, digest, duplicates, sync })
    }
}

#[cfg(test)]
mod tests;
