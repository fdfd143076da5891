//! How many frames of HTTP/2 a peer may send that ask for nothing: PING, SETTINGS, RST_STREAM and
//! the like.
//!
//! It also says when heads have to be looked at before more are read: h2 unpacks all that have
//! come, and a byte may unpack to a hundred. And it counts heads: of those that h2 refuses, nobody
//! hears otherwise.
//!
//! Each costs us more than its sender, and h2 takes as many as come. What is read is therefore
//! looked at here, too. Nothing is kept of it, and what is broken is left to h2.
//!
//! Invariant: a peer that calls, and does no more than calls need, is never over its limit.

/// The bytes by which a connection of HTTP/2 begins, before its first frame.
const PREFACE_LEN: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
const HEAD_LEN: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Frames at once: what a browser or a proxy sends when it begins, many times over.
const BURST: u32 = 500;
/// Further ones in each sweep, of which there are ten a second.
const PER_SWEEP: u32 = 10;
/// Further ones for each request: it may be reset, and be given a priority and windows.
const PER_REQUEST: u32 = 8;
/// A window is opened at most once for so many bytes that we have written.
const BYTES_PER_FRAME: usize = 1024;
/// DATA of fewer bytes than this asks for more work than it brings.
const MIN_DATA_LEN: usize = 64;

/// What a head costs that unpacks to more fields than a head may have.
const BAD_HEAD: u32 = 100;

/// Bytes of heads that are read in one turn of a connection: those of dozens of ordinary requests.
/// To unpack them takes a quarter of a millisecond if each byte is a field.
const MAX_HEADS_PER_TURN: usize = 2 * 1024;

/// Walks along what is read of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct FramePace {
    /// Bytes that come before the next frame's head.
    skipped_len: usize,
    head: [u8; HEAD_LEN],
    head_len: usize,
    /// Frames that may still come.
    n_left: u32,
    /// Written bytes that have not earned a frame yet.
    written_len: usize,
    /// Bytes of heads that were read in this turn.
    heads_len: usize,
    is_over: bool,
    heads: Heads,
}

/// The heads of requests, each on a stream of its own.
#[derive(Clone, Copy, Debug, Default)]
struct Heads {
    last_stream: u32,
    /// The head that comes is that of a new stream, and not of trailers.
    is_new: bool,
    /// With the bytes that are skipped, it has come.
    ends: bool,
    /// Those that have come, and have not become requests yet.
    n_left: u32,
}

impl Heads {
    fn frame(&mut self, kind: u8, flags: u8, stream: u32) {
        if kind == HEADERS {
            self.is_new = self.last_stream < stream;
            self.last_stream = self.last_stream.max(stream);
        }
        let is_of_head = matches!(kind, HEADERS | CONTINUATION) && self.is_new;
        self.ends = is_of_head && flags & END_HEADERS != 0;
    }

    /// A frame has come to its end.
    fn end_frame(&mut self) {
        self.n_left += u32::from(std::mem::take(&mut self.ends));
    }
}

impl FramePace {
    /// At the begin of a connection.
    pub(super) fn new() -> Self {
        let head = [0; HEAD_LEN];
        Self {
            skipped_len: PREFACE_LEN,
            head,
            head_len: 0,
            n_left: BURST,
            written_len: 0,
            heads_len: 0,
            is_over: false,
            heads: Heads::default(),
        }
    }

    /// Looks at what comes next; whether there were too many frames that ask for nothing.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> bool {
        while !self.is_over {
            let skipped_len = self.skipped_len.min(bytes.len());
            self.skipped_len -= skipped_len;
            if self.skipped_len == 0 {
                self.heads.end_frame();
            }
            bytes = bytes.get(skipped_len..).unwrap_or_default();
            let wanted_len = (HEAD_LEN - self.head_len).min(bytes.len());
            if wanted_len == 0 {
                return false;
            }
            let (part, rest) = bytes.split_at(wanted_len);
            self.head[self.head_len..self.head_len + wanted_len].copy_from_slice(part);
            self.head_len += wanted_len;
            bytes = rest;
            if self.head_len == HEAD_LEN {
                self.frame();
            }
        }
        true
    }

    /// A frame's head is whole.
    fn frame(&mut self) {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = self.head;
        self.heads.frame(kind, flags, u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]));
        let len = usize::from(l0) << 16 | usize::from(l1) << 8 | usize::from(l2);
        (self.skipped_len, self.head_len) = (len, 0);
        match kind {
            HEADERS => {
                self.heads_len += len;
                self.earn(PER_REQUEST);
            }
            CONTINUATION => {
                self.heads_len += len;
                self.spend(1);
            }
            DATA if MIN_DATA_LEN <= len || flags & END_STREAM != 0 => {}
            _ => self.spend(1),
        }
    }

    /// How much may be read at once: the rest of the frame that has begun, and then no more than
    /// heads may have in this turn, because frames that follow may be heads.
    pub(super) fn room(&self) -> usize {
        self.skipped_len + MAX_HEADS_PER_TURN.saturating_sub(self.heads_len)
    }

    /// Whether no more is to be read in this turn.
    pub(super) fn has_read_enough(&self) -> bool {
        MAX_HEADS_PER_TURN <= self.heads_len
    }

    /// The connection's next turn begins.
    pub(super) fn turn(&mut self) {
        self.heads_len = 0;
    }

    /// A head has become a request.
    pub(super) fn accepted_head(&mut self) {
        self.heads.n_left = self.heads.n_left.saturating_sub(1);
    }

    /// How many heads have not. To be asked when h2 has looked at all that was read: then these
    /// are refused.
    pub(super) fn take_refused_heads(&mut self) -> u32 {
        std::mem::take(&mut self.heads.n_left)
    }

    fn spend(&mut self, n: u32) {
        match self.n_left.checked_sub(n) {
            Some(n_left) => self.n_left = n_left,
            None => self.is_over = true,
        }
    }

    /// A request was refused for its head, which took longer to unpack than to send.
    pub(super) fn refused_head(&mut self) {
        self.spend(BAD_HEAD);
    }

    fn earn(&mut self, n: u32) {
        self.n_left = (self.n_left + n).min(BURST);
    }

    /// So many bytes were written to the peer.
    pub(super) fn wrote(&mut self, len: usize) {
        let written_len = self.written_len + len;
        self.written_len = written_len % BYTES_PER_FRAME;
        self.earn(u32::try_from(written_len / BYTES_PER_FRAME).unwrap_or(BURST).min(BURST));
    }

    /// Time has passed.
    pub(super) fn sweep(&mut self) {
        self.earn(PER_SWEEP);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const RST_STREAM: u8 = 3;
    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, flags: u8, len: usize) -> Vec<u8> {
        let head_len = u32::try_from(len).unwrap().to_be_bytes();
        [&head_len[1..], &[kind, flags, 0, 0, 0, 1], &vec![kind; len]].concat()
    }

    /// A frame of an empty stream, with its number.
    fn on_stream(kind: u8, flags: u8, stream: u8, len: usize) -> Vec<u8> {
        let mut frame = frame(kind, flags, len);
        frame[8] = stream;
        frame
    }

    #[test]
    fn heads_count_once_they_are_whole() {
        let mut pace = begun();
        let n_heads = |pace: &mut FramePace, bytes: &[u8]| {
            pace.read(bytes);
            pace.take_refused_heads()
        };
        let head = on_stream(HEADERS, END_HEADERS, 1, 10);
        assert_eq!(n_heads(&mut pace, &head[..15]), 0);
        assert_eq!(n_heads(&mut pace, &head[15..]), 1);
        assert_eq!(n_heads(&mut pace, &head), 0, "trailers, or what h2 takes for an error");
        let parts = [on_stream(HEADERS, 0, 3, 10), on_stream(CONTINUATION, 0, 3, 10)].concat();
        assert_eq!(n_heads(&mut pace, &parts), 0);
        assert_eq!(n_heads(&mut pace, &on_stream(CONTINUATION, END_HEADERS, 3, 0)), 1);
        assert_eq!(n_heads(&mut pace, &on_stream(DATA, END_HEADERS, 3, 100)), 0);
        pace.read(&[on_stream(HEADERS, 5, 5, 1), on_stream(HEADERS, 5, 7, 1)].concat());
        pace.accepted_head();
        assert_eq!(pace.take_refused_heads(), 1);
    }

    fn begun() -> FramePace {
        let mut pace = FramePace::new();
        assert!(!pace.read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
        pace
    }

    #[test]
    fn floods_are_seen_and_time_allows_more() {
        for (kind, flags, len) in
            [(PING, 0, 8), (PING, 1, 8), (4, 0, 6), (RST_STREAM, 0, 4), (0, 0, 0), (77, 0, 9)]
        {
            let mut pace = begun();
            let frame = frame(kind, flags, len);
            for n_allowed in [BURST, PER_SWEEP] {
                for n in 0..n_allowed {
                    assert!(!pace.read(&frame), "after {n} of kind {kind}");
                }
                pace.sweep();
            }
            for n in 0..PER_SWEEP {
                assert!(!pace.read(&frame), "after {n} of kind {kind}");
            }
            assert!(pace.read(&frame), "of kind {kind}");
        }
    }

    #[test]
    fn callers_may_cancel_ask_for_life_and_open_windows() {
        let mut pace = begun();
        for _ in 0..10_000 {
            assert!(!pace.read(&frame(HEADERS, 4, 60)));
            assert!(!pace.read(&frame(0, 0, 16_384)));
            assert!(!pace.read(&frame(0, END_STREAM, 1)));
            // The answer, as it is read.
            for _ in 0..10 {
                pace.wrote(16_393);
                assert!(
                    !pace.read(&[frame(WINDOW_UPDATE, 0, 4), frame(WINDOW_UPDATE, 0, 4)].concat())
                );
            }
            assert!(!pace.read(&[frame(PING, 0, 8), frame(RST_STREAM, 0, 4)].concat()));
        }
    }

    #[test]
    fn heads_come_in_small_pieces_and_bodies_in_large_ones() {
        let mut pace = begun();
        assert_eq!(pace.room(), MAX_HEADS_PER_TURN);
        // A body of which a part has come, and the next frame's beginning.
        assert!(!pace.read(&frame(0, 0, 16_384)[..1_000]));
        assert_eq!(pace.room(), 16_384 - (1_000 - HEAD_LEN) + MAX_HEADS_PER_TURN);
        assert!(!pace.read(&vec![0; pace.room() - MAX_HEADS_PER_TURN]));
        // Heads, until no more are read in this turn.
        for n in 1..=2 {
            assert!(!pace.has_read_enough());
            assert!(!pace.read(&frame(HEADERS, 4, MAX_HEADS_PER_TURN / 2)));
            assert_eq!(pace.room(), MAX_HEADS_PER_TURN - n * MAX_HEADS_PER_TURN / 2);
        }
        assert!(pace.has_read_enough());
        pace.turn();
        assert!(!pace.has_read_enough() && pace.room() == MAX_HEADS_PER_TURN);
    }

    proptest! {
        /// Where the network cuts the bytes changes nothing.
        #[test]
        fn cuts_do_not_matter(
            frames in vec((0..10_u8, 0..2_u8, 0..200_usize), 0..1200), cut_len in 1..3000_usize,
        ) {
            let all: Vec<u8> = frames.iter().flat_map(|(kind, flags, len)| frame(*kind, *flags, *len)).collect();
            let (mut whole, mut cut) = (begun(), begun());
            prop_assert_eq!(whole.read(&all), all.chunks(cut_len).any(|piece| cut.read(piece)));
        }
    }
}
