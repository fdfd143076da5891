//! COMPRESSED frames: what one turn writes is cut into pieces of whole frames, and each piece
//! leaves as one LZ4 block if that is worth it.
//!
//! Invariants:
//! - A piece is frames of together at most [`PIECE_LEN`], or one longer frame; so it unpacks to at
//!   most [`MAX_RAW_LEN`], and that is checked before any space is kept for it.
//! - Data that does not get smaller costs next to nothing: after each piece that gained too
//!   little, more bytes leave as they are before the next one is tried.

use crate::LinkError;
use crate::header::{FrameKind, HEADER_LEN, Header, MAX_RAW_LEN};
use crate::reader::Reader;
use bytes::{BufMut, BytesMut};
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use std::time::Duration;

/// Longest piece of several frames. LZ4 looks back 64 KiB; below that the small table is enough.
const PIECE_LEN: usize = 60 * 1024;
/// A shorter piece leaves as it is: it fits into a segment or two anyway.
const MIN_PIECE_LEN: usize = 256;
/// A piece is to get shorter by at least one part in so many.
const MIN_GAIN: usize = 8;
/// How much leaves as it is after a piece that gained too little; doubled by each further one.
const MIN_PAUSE_LEN: usize = 256 * 1024;
/// The longest such pause: one try costs less than a hundredth of writing this.
const MAX_PAUSE_LEN: usize = 16 * 1024 * 1024;
/// Before the raw bytes: a frame's header and their length.
const HEAD_LEN: usize = HEADER_LEN + 4;

/// What compression did on a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CompressionTotals {
    /// Bytes of frames that were sent inside of COMPRESSED frames.
    pub raw_out_bytes: u64,
    /// Length of these COMPRESSED frames.
    pub packed_out_bytes: u64,
    /// Pieces that did not get small enough, and were sent as they are.
    pub n_given_up: u64,
    /// Bytes of frames that came inside of COMPRESSED frames.
    pub raw_in_bytes: u64,
    /// Length of these COMPRESSED frames.
    pub packed_in_bytes: u64,
    /// What all this cost, by [`Config::cpu_clock`](crate::Config::cpu_clock).
    pub cpu: Duration,
}

/// Counts, and the clock that says what they cost.
#[derive(Debug, Default)]
pub(crate) struct CompressionMeter {
    pub(crate) done: CompressionTotals,
    pub(crate) clock: Option<fn() -> Duration>,
}

impl CompressionMeter {
    fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let Some(clock) = self.clock else { return work() };
        let start = clock();
        let result = work();
        self.done.cpu += clock().saturating_sub(start);
        result
    }

    /// Reads a COMPRESSED frame's body and unpacks it to `raw`, which is overwritten.
    pub(crate) fn unpack(&mut self, body: &[u8], raw: &mut BytesMut) -> Result<(), LinkError> {
        let kind = FrameKind::Compressed as u8;
        let mut reader = Reader::new(kind, body);
        let raw_len = reader.u32()? as usize;
        if raw_len > MAX_RAW_LEN {
            let (what, len, max) = ("raw length", raw_len, MAX_RAW_LEN);
            return Err(LinkError::FieldTooLong { kind, what, len, max });
        }
        let block = reader.rest();
        raw.clear();
        raw.resize(raw_len, 0);
        let unpacked = self.time(|| decompress_into(block, raw));
        if unpacked.ok() != Some(raw_len) || raw_len == 0 {
            let rule = "the block must unpack to exactly the raw length, and that to a frame";
            return Err(LinkError::BadCompressed { raw_len, rule });
        }
        self.done.raw_in_bytes += raw_len as u64;
        self.done.packed_in_bytes += (HEADER_LEN + body.len()) as u64;
        Ok(())
    }
}

/// Packs what is to be written.
pub(crate) struct Packer {
    table: CompressTable,
    /// So many bytes leave as they are before the next piece is tried.
    pause_len: usize,
    /// How long the last pause was at first; 0 if the last piece was worth it.
    last_pause_len: usize,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pause_len, last_pause_len, .. } = self;
        write!(f, "Packer {{ pause_len: {pause_len}, last_pause_len: {last_pause_len} }}")
    }
}

impl Packer {
    pub(crate) fn new() -> Self {
        Self { table: CompressTable::default(), pause_len: 0, last_pause_len: 0 }
    }

    /// Moves all of `frames`, which are whole, to `packed`, which is empty.
    pub(crate) fn pack(
        &mut self,
        frames: &mut BytesMut,
        packed: &mut BytesMut,
        meter: &mut CompressionMeter,
    ) {
        debug_assert!(packed.is_empty(), "what was packed is written first");
        if self.pause_len != 0 || frames.len() < MIN_PIECE_LEN {
            self.pause_len = self.pause_len.saturating_sub(frames.len());
            std::mem::swap(frames, packed);
            return;
        }
        let mut rest = &frames[..];
        while !rest.is_empty() {
            let is_paused = self.pause_len != 0;
            let (piece, after) =
                rest.split_at(if is_paused { rest.len() } else { piece_len(rest) });
            if is_paused || piece.len() < MIN_PIECE_LEN {
                self.pause_len = self.pause_len.saturating_sub(piece.len());
                packed.extend_from_slice(piece);
            } else {
                self.put(piece, packed, meter);
            }
            rest = after;
        }
        frames.clear();
    }

    /// Appends a piece, packed if that is worth it.
    fn put(&mut self, piece: &[u8], packed: &mut BytesMut, meter: &mut CompressionMeter) {
        let start = packed.len();
        packed.resize(start + HEAD_LEN + get_maximum_output_size(piece.len()), 0);
        let place = packed.get_mut(start + HEAD_LEN..).unwrap_or_default();
        let table = &mut self.table;
        let block_len = meter.time(|| compress_into_with_table(piece, place, table));
        debug_assert!(block_len.is_ok(), "there is room for the worst case");
        let block_len = block_len.unwrap_or(piece.len());
        packed.truncate(start + HEAD_LEN + block_len);
        if HEAD_LEN + block_len > piece.len() - piece.len() / MIN_GAIN {
            packed.truncate(start);
            packed.extend_from_slice(piece);
            let pause_len = (self.last_pause_len * 2).clamp(MIN_PAUSE_LEN, MAX_PAUSE_LEN);
            (self.pause_len, self.last_pause_len) = (pause_len, pause_len);
            meter.done.n_given_up += 1;
            return;
        }
        self.last_pause_len = 0;
        let number = |len| u32::try_from(len).unwrap_or(u32::MAX);
        let (body_len, kind) = (number(4 + block_len), FrameKind::Compressed as u8);
        let header = Header { body_len, kind, ..Header::default() };
        if let Some(mut head) = packed.get_mut(start..start + HEAD_LEN) {
            head.put_slice(&header.to_bytes());
            head.put_u32(number(piece.len()));
        }
        meter.done.raw_out_bytes += piece.len() as u64;
        meter.done.packed_out_bytes += (HEAD_LEN + block_len) as u64;
    }
}

/// How many bytes of `frames` make the next piece.
fn piece_len(frames: &[u8]) -> usize {
    let mut len = 0;
    while let Some(head) = frames.get(len..).and_then(|rest| rest.first_chunk()) {
        let frame_len = HEADER_LEN + Header::parse(head).body_len as usize;
        if len != 0 && len + frame_len > PIECE_LEN {
            break;
        }
        len += frame_len;
    }
    debug_assert!(0 < len && len <= frames.len(), "frames are whole");
    len.min(frames.len())
}

#[cfg(test)]
mod tests;
