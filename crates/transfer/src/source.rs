//! The file that lines are taken from: blocks of whole lines, read with positioned reads into
//! memory that is used again and again.
//!
//! Not a mapped file: a mapped page behind the end of a truncated file kills the whole process,
//! every client's transfer with it (SIGBUS), and an error of the disk does the same. A read
//! returns an error. It costs 7 ns more a line, and no page has to be faulted in: a block stays in
//! the processor's cache while its lines are handed out.
//!
//! Invariants:
//! - A block is whole lines; block `n + 1` begins where block `n` ends.
//! - The lines are those of the file as it was opened: after each read its length and time of
//!   change are compared, and a change ends everything that reads from it with
//!   [`TransferError::SourceChanged`].
//! - Memory does not depend on the file's length, but for 16 bytes a block of 256 KiB (1 MiB for
//!   16 GiB), nor on the number of clients: 16 blocks are shared, and each reader holds 2.

mod identity;
mod line_end_advice;

pub use self::identity::SourceIdentity;

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::TransferError;
use crate::line_step::{LineProcessor, line_max_len, process_line};
use crate::lines::{Line, LineEnds, MARGIN, find_ends};

/// How many bytes are read at once. Small enough that a block, its ends and what is made of them
/// stay in a core's second-level cache; large enough that a read's fixed cost does not count.
const BLOCK_LEN: usize = 256 * 1024;

/// The longest line, with its end. It bounds what a block of one line takes.
pub const MAX_LINE_LEN: usize = 1024 * 1024;

/// How many blocks all readers of a source share. Readers that are far apart read blocks again.
const CACHED_BLOCKS: usize = 16;

/// How many blocks a reader keeps to itself: the one that lines come from, and the one before for
/// those who ask again.
const HELD_BLOCKS: usize = 2;

/// Where a block begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Position {
    line: u64,
    offset: u64,
}

/// An open source. Any number of [`Reader`]s on any threads share it.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    file: File,
    identity: SourceIdentity,
    /// Held while a block is read, so that no two threads read the same one.
    reading: Mutex<()>,
    /// Never held over I/O.
    state: Mutex<BlockIndex>,
    /// Memory of dropped blocks, to be used again.
    spare: Arc<Mutex<Vec<Memory>>>,
    /// To the thread that reads ahead, if there is one.
    ahead: OnceLock<SyncSender<usize>>,
}

#[derive(Debug)]
struct BlockIndex {
    /// Where each block begins, as far as the source has been looked at; never empty.
    starts: Vec<Position>,
    /// The number of lines, once the last block has been read.
    count: Option<u64>,
    /// Block `n` is kept in place `n % CACHED_BLOCKS`.
    cache: [Option<Arc<Block>>; CACHED_BLOCKS],
}

/// What a block is made of.
#[derive(Debug, Default)]
struct Memory {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

/// Whole lines that follow each other.
#[derive(Debug)]
struct Block {
    index: usize,
    start: Position,
    ends: LineEnds,
    memory: Memory,
    spare: Arc<Mutex<Vec<Memory>>>,
}

impl Source {
    /// Opens `path`, which has to be a regular file. Its lines end with `\r\n`.
    ///
    /// # Errors
    /// [`TransferError::Io`] or [`TransferError::NotAFile`].
    pub fn open(path: &Path) -> Result<Arc<Self>, TransferError> {
        Self::open_with(path, LineEnds::Crlf)
    }

    /// As [`Source::open`], with lines that end as `ends` says.
    ///
    /// # Errors
    /// [`TransferError::Io`] or [`TransferError::NotAFile`].
    pub fn open_with(path: &Path, ends: LineEnds) -> Result<Arc<Self>, TransferError> {
        // A pipe that nobody writes into is not waited for.
        let file = wire::file::open(path).map_err(TransferError::io("open", path))?;
        let metadata = file.metadata().map_err(TransferError::io("look at", path))?;
        if !metadata.is_file() {
            return Err(TransferError::NotAFile { path: path.to_owned() });
        }
        let identity = SourceIdentity::of(&metadata, ends);
        Ok(Arc::new(Self {
            path: path.to_owned(),
            file,
            identity,
            reading: Mutex::new(()),
            state: Mutex::new(BlockIndex {
                starts: vec![Position { line: 0, offset: 0 }],
                count: (identity.len == 0).then_some(0),
                cache: Default::default(),
            }),
            spare: Arc::default(),
            ahead: OnceLock::new(),
        }))
    }

    /// Has a thread of its own read the block behind the one that is used, so that an event loop
    /// which hands out lines hardly ever waits for a read. The thread ends with the source.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn read_ahead(self: &Arc<Self>) -> Result<(), TransferError> {
        let (wanted, received) = sync_channel(CACHED_BLOCKS);
        if self.ahead.set(wanted).is_err() {
            return Ok(()); // there is one
        }
        let source = Arc::downgrade(self);
        let read = move || {
            for index in received {
                let Some(source) = source.upgrade() else { return };
                if source.is_known(index) {
                    // Whoever needs the block meets the same error.
                    let _ = source.block(index);
                }
            }
        };
        let thread = std::thread::Builder::new().name("transfer-read".to_owned()).spawn(read);
        thread.map(drop).map_err(TransferError::io("start a thread for", &self.path))
    }

    /// Asks for a block to be read ahead, unless there is too much to read anyway.
    fn want(&self, index: usize) {
        if let Some(ahead) = self.ahead.get() {
            let _ = ahead.try_send(index);
        }
    }

    /// Whether it is known where the block begins.
    fn is_known(&self, index: usize) -> bool {
        index < self.state().starts.len()
    }

    /// The file's path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is the same file, by whatever name.
    ///
    /// # Errors
    /// What the operating system says of the source.
    pub(crate) fn is(&self, other: &Metadata) -> Result<bool, TransferError> {
        let found = self.file.metadata().map_err(TransferError::io("look at", &self.path))?;
        Ok((found.dev(), found.ino()) == (other.dev(), other.ino()))
    }

    /// What the file was when it was opened.
    #[must_use]
    pub fn identity(&self) -> SourceIdentity {
        self.identity
    }

    /// How many lines the file has, if its end has been seen already.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        self.state().count
    }

    /// Reads on until line `number` has been seen, so that a transfer can begin there. This reads
    /// all of the file before it that nobody has read yet, and blocks the thread for that long.
    ///
    /// # Errors
    /// [`TransferError::NoSuchLine`] if the file has fewer lines than `number`; one that has
    /// exactly as many is accepted, with nothing left to transfer. Otherwise what reading can end
    /// with.
    pub fn seek(&self, number: u64) -> Result<(), TransferError> {
        match self.block_of(number)? {
            Some(_) => Ok(()),
            None => match self.count() {
                Some(count) if number > count => Err(TransferError::NoSuchLine { number, count }),
                _ => Ok(()),
            },
        }
    }

    /// Where the block of line `number` begins, in bytes, as far as the source has been looked at.
    #[must_use]
    pub fn offset_of(&self, number: u64) -> u64 {
        let state = self.state();
        if state.count.is_some_and(|count| count <= number) {
            return self.identity.len;
        }
        let after = state.starts.partition_point(|start| start.line <= number);
        after.checked_sub(1).and_then(|at| state.starts.get(at)).map_or(0, |start| start.offset)
    }

    /// The block that holds line `number`; `None` behind the last line.
    fn block_of(&self, number: u64) -> Result<Option<Arc<Block>>, TransferError> {
        loop {
            let index = {
                let state = self.state();
                if state.count.is_some_and(|count| count <= number) {
                    return Ok(None);
                }
                state.starts.partition_point(|start| start.line <= number) - 1
            };
            // The last start known may lie far before the line; then this goes on block by block.
            let block = self.block(index)?;
            if number < block.next_line() {
                return Ok(Some(block));
            }
        }
    }

    /// Block `index`, whose start is known, from the cache or from the file.
    fn block(&self, index: usize) -> Result<Arc<Block>, TransferError> {
        if let Some(block) = self.state().cached(index) {
            return Ok(block);
        }
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let start = {
            let state = self.state();
            if let Some(block) = state.cached(index) {
                return Ok(block);
            }
            state.starts[index]
        };
        let block = Arc::new(self.read(index, start)?);
        let mut state = self.state();
        let next = Position { line: block.next_line(), offset: block.next_offset() };
        if next.offset == self.identity.len {
            state.count = Some(next.line);
        } else if index + 1 == state.starts.len() {
            state.starts.push(next);
        }
        let evicted = state.cache[index % CACHED_BLOCKS].replace(Arc::clone(&block));
        drop(state);
        drop(evicted); // gives its memory back, which takes another lock
        Ok(block)
    }

    /// Reads whole lines from `start`, which lies before the end of the file.
    fn read(&self, index: usize, start: Position) -> Result<Block, TransferError> {
        let mut memory = self.spare().pop().unwrap_or_default();
        let left = self.identity.len - start.offset;
        let mut want = BLOCK_LEN;
        loop {
            let len = usize::try_from(left).map_or(want, |left| left.min(want));
            if memory.bytes.len() < MARGIN + len {
                memory.bytes.resize(MARGIN + len.max(BLOCK_LEN), 0);
            }
            let bytes = &mut memory.bytes[MARGIN..MARGIN + len];
            self.file.read_exact_at(bytes, start.offset).map_err(|error| self.explain(error))?;
            find_ends(self.identity.ends, bytes, &mut memory.ends);
            let whole = memory.ends.last().map_or(0, |&end| end as usize);
            if len as u64 == left && whole < len {
                // The last line has no end. A block is at most MAX_LINE_LEN long.
                memory.ends.push(u32::try_from(len).unwrap_or(u32::MAX));
            }
            if !memory.ends.is_empty() {
                break;
            }
            if want == MAX_LINE_LEN {
                return Err(TransferError::LineTooLong {
                    number: start.line,
                    offset: start.offset,
                    max: MAX_LINE_LEN,
                    ends: self.identity.ends,
                });
            }
            want = MAX_LINE_LEN;
        }
        self.check_unchanged()?;
        let (ends, spare) = (self.identity.ends, Arc::clone(&self.spare));
        Ok(Block { index, start, ends, memory, spare })
    }

    /// A read that comes up short found a file that was truncated.
    fn explain(&self, error: std::io::Error) -> TransferError {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return self.changed();
        }
        TransferError::io("read", &self.path)(error)
    }

    fn check_unchanged(&self) -> Result<(), TransferError> {
        let metadata = self.file.metadata().map_err(TransferError::io("look at", &self.path))?;
        let now = SourceIdentity::of(&metadata, self.identity.ends);
        if now == self.identity { Ok(()) } else { Err(self.changed()) }
    }

    fn changed(&self) -> TransferError {
        TransferError::SourceChanged { path: self.path.clone(), len: self.identity.len }
    }

    fn state(&self) -> MutexGuard<'_, BlockIndex> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Memory>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockIndex {
    fn cached(&self, index: usize) -> Option<Arc<Block>> {
        let block = self.cache[index % CACHED_BLOCKS].as_ref()?;
        (block.index == index).then(|| Arc::clone(block))
    }
}

impl Block {
    fn next_line(&self) -> u64 {
        self.start.line + self.memory.ends.len() as u64
    }

    fn next_offset(&self) -> u64 {
        self.start.offset + self.memory.ends.last().map_or(0, |&end| u64::from(end))
    }

    /// Line `number` with its end, if it is in this block.
    fn line(&self, number: u64) -> Option<Line<'_>> {
        let at = usize::try_from(number.checked_sub(self.start.line)?).ok()?;
        let end = *self.memory.ends.get(at)? as usize;
        let begin = if at == 0 { 0 } else { self.memory.ends[at - 1] as usize };
        Some(Line::within(self.ends, &self.memory.bytes, MARGIN + begin..MARGIN + end))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        // Memory of an unusually long line is not kept.
        if memory.bytes.len() == MARGIN + BLOCK_LEN && spare.len() < CACHED_BLOCKS {
            spare.push(memory);
        }
    }
}

/// One thread's view of a source: lines by number, cheapest when the numbers go up.
#[derive(Debug)]
pub struct Reader {
    source: Arc<Source>,
    /// The block used last is in front.
    held: [Option<Arc<Block>>; HELD_BLOCKS],
    /// Where lines are processed; it stays as long as the longest line has made it.
    scratch: Vec<u8>,
}

impl Reader {
    /// A reader of `source`.
    #[must_use]
    pub fn new(source: Arc<Source>) -> Self {
        Self { source, held: Default::default(), scratch: Vec::new() }
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Line `number`, from 0, with its end; `None` behind the last line. Reads a block from the
    /// file where it has to, about once in 2,500 lines.
    ///
    /// # Errors
    /// What reading can end with.
    pub fn line(&mut self, number: u64) -> Result<Option<&[u8]>, TransferError> {
        if !self.in_front(number)? {
            return Ok(None);
        }
        Ok(self.held[0].as_ref().and_then(|block| block.line(number)).map(|line| line.bytes()))
    }

    /// Line `number`, processed by `step`, with its end; `None` behind the last line.
    ///
    /// # Errors
    /// What reading can end with.
    pub fn processed(
        &mut self,
        step: &dyn LineProcessor,
        number: u64,
    ) -> Result<Option<&[u8]>, TransferError> {
        if !self.in_front(number)? {
            return Ok(None);
        }
        let Some(line) = self.held[0].as_ref().and_then(|block| block.line(number)) else {
            return Ok(None);
        };
        let scratch = &mut self.scratch;
        if !step.changes() {
            return Ok(Some(line.bytes()));
        }
        let max_len = line_max_len(step, line.bytes().len());
        if scratch.len() < max_len {
            scratch.resize(max_len, 0);
        }
        let len = process_line(step, number, line, scratch);
        Ok(Some(&scratch[..len]))
    }

    /// Whether line `number` is in the block in front, which changes if it must.
    fn in_front(&mut self, number: u64) -> Result<bool, TransferError> {
        if self.held[0].as_ref().is_some_and(|block| block.holds(number)) {
            return Ok(true);
        }
        self.bring_to_front(number)
    }

    /// Puts the block of line `number` in front; `false` behind the last line.
    #[cold]
    fn bring_to_front(&mut self, number: u64) -> Result<bool, TransferError> {
        let held = self
            .held
            .iter()
            .position(|held| held.as_ref().is_some_and(|block| block.holds(number)));
        if let Some(at) = held {
            self.held[..=at].rotate_right(1);
            return Ok(true);
        }
        let Some(block) = self.source.block_of(number)? else { return Ok(false) };
        self.source.want(block.index + 1);
        self.held.rotate_right(1);
        self.held[0] = Some(block);
        Ok(true)
    }

    /// Lines from `number` on, as many as lie together in memory: the first line's number is
    /// `number`, and `each` gets every line with its end, in order. Returns the number of the line
    /// after them; `number` itself behind the last line.
    ///
    /// # Errors
    /// What reading can end with, or what `each` returns.
    pub fn for_each(
        &mut self,
        number: u64,
        mut each: impl FnMut(u64, Line<'_>) -> Result<(), TransferError>,
    ) -> Result<u64, TransferError> {
        if !self.bring_to_front(number)? {
            return Ok(number);
        }
        let Some(block) = self.held[0].as_ref() else { return Ok(number) };
        let skip = usize::try_from(number - block.start.line).unwrap_or(usize::MAX);
        let mut begin = skip.checked_sub(1).map_or(0, |before| block.memory.ends[before] as usize);
        for (line, &end) in (number..).zip(&block.memory.ends[skip..]) {
            let place = MARGIN + begin..MARGIN + end as usize;
            each(line, Line::within(block.ends, &block.memory.bytes, place))?;
            begin = end as usize;
        }
        Ok(block.next_line())
    }
}

impl Block {
    fn holds(&self, number: u64) -> bool {
        self.start.line <= number && number < self.next_line()
    }
}

#[cfg(test)]
mod tests;
