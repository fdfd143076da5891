//! Runs of simple values: numbers, booleans, nulls, and texts of up to 31 ASCII characters without
//! escapes. Most values are such, and are told from their first byte.
//!
//! A run goes from the bytes of the message straight to room in the output that is made for many
//! values at once. It ends at whatever is not simple, at the limits, and where anything is wrong:
//! all that is left to the general way, which says what.

use super::HessianToJson;
use crate::tag;
use crate::transcode::run::{NOTHING, Room, RunStep, run};
use java_json::json::{LEAF_LEN, LeafRoom, MemberName, put_f64, put_i64, put_text, put_word};
use java_json::short_copy::push_front;

/// Beside a tag, as many bytes as are copied at once.
const CHUNK_LEN: usize = 1 + 32;

/// How values are put.
#[derive(Clone, Copy)]
struct Rules {
    /// Whether longs and doubles are numbers of the usual form, and not left to the general way.
    has_plain_numbers: bool,
    max_text_len: usize,
}

impl HessianToJson<'_, '_, '_> {
    /// Writes the next value if it is simple. Nothing is read of any other.
    #[inline]
    pub(super) fn simple(&mut self) -> bool {
        let Some(chunk) = self.dec.rest().first_chunk() else { return false };
        if !is_simple(chunk[0]) {
            return false;
        }
        let mut place = [0; LEAF_LEN];
        let rules = self.rules();
        let (n_taken, n_put) = put(&mut place, chunk, rules);
        push_front(self.out, &place, n_put);
        self.dec.pass(n_taken);
        n_taken != 0
    }

    /// Writes a map's key if it is a simple text. Its length is checked with that of the value.
    pub(super) fn simple_key(&mut self) -> bool {
        self.is_at_short_text() && self.simple()
    }

    #[inline]
    fn is_at_short_text(&self) -> bool {
        self.dec.rest().first().is_some_and(|&tag| usize::from(tag) <= tag::STRING_DIRECT_MAX)
    }

    /// Writes the simple values of fields from the one at `index` on, and says how many they were.
    pub(super) fn run_fields(&mut self, class: usize, index: usize) -> usize {
        let rules = self.rules();
        let leads = self.plans.get(class).and_then(|plan| plan.leads.get(index..));
        let leads = leads.unwrap_or_default();
        if !self.dec.rest().first().is_some_and(|&tag| is_simple(tag)) {
            return 0;
        }
        let step = |n: usize, room: &mut Room, input: &[u8]| {
            let Some((text, len)) = leads.get(n).and_then(MemberName::text) else { return NOTHING };
            let (Some(place), Some(chunk)) = (room.first_chunk_mut(), input.first_chunk()) else {
                return NOTHING;
            };
            *place = *text;
            put_behind(room, len, chunk, rules)
        };
        let (n, n_taken) = run(self.dec.rest(), self.out, self.max_end, leads.len(), step);
        self.dec.pass(n_taken);
        n
    }

    /// Writes elements of a list that are simple, up to `n_left`, and says how many they were.
    pub(super) fn run_elements(&mut self, n_left: usize, is_first: bool) -> usize {
        let rules = self.rules();
        if !self.dec.rest().first().is_some_and(|&tag| is_simple(tag)) {
            return 0;
        }
        let step = |n: usize, room: &mut Room, input: &[u8]| {
            let Some(chunk) = input.first_chunk() else { return NOTHING };
            room[0] = b',';
            put_behind(room, usize::from(!is_first || n != 0), chunk, rules)
        };
        let (n, n_taken) = run(self.dec.rest(), self.out, self.max_end, n_left, step);
        self.dec.pass(n_taken);
        n
    }

    /// Writes entries of a map whose keys are short texts and whose values are simple, and says
    /// how many they were.
    pub(super) fn run_entries(&mut self, is_first: bool) -> usize {
        let rules = self.rules();
        let n_left = self.dec.items_left();
        if !self.is_at_short_text() {
            return 0;
        }
        let step = |n: usize, room: &mut Room, input: &[u8]| {
            let Some(chunk) = input.first_chunk() else { return NOTHING };
            room[0] = b',';
            let at = usize::from(!is_first || n != 0);
            let Some(place) = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut) else {
                return NOTHING;
            };
            let (n_key, key_len) = put_simple_text(place, chunk, rules);
            let (Some(value), 1..) = (input.get(n_key..).and_then(<[u8]>::first_chunk), n_key)
            else {
                return NOTHING;
            };
            let colon = at + key_len;
            if let Some(place) = room.get_mut(colon) {
                *place = b':';
            }
            let (n_value, len) = put_behind(room, colon + 1, value, rules);
            if n_value == 0 { NOTHING } else { (n_key + n_value, len) }
        };
        let (n, n_taken) = run(self.dec.rest(), self.out, self.max_end, n_left, step);
        self.dec.pass(n_taken);
        self.dec.pass_items(n);
        n
    }

    #[inline]
    fn rules(&self) -> Rules {
        let style = self.style;
        let has_plain_numbers = !(style.longs_as_text || style.big_numbers_as_text || style.floats);
        Rules { has_plain_numbers, max_text_len: self.dec.max_len().min(tag::STRING_DIRECT_MAX) }
    }
}

/// Whether a value with this tag may be simple.
#[inline]
fn is_simple(tag: u8) -> bool {
    SIMPLE.get(usize::from(tag)).copied().unwrap_or_default()
}

const SIMPLE: [bool; 256] = {
    let mut simple = [false; 256];
    let mut tag = 0u8;
    loop {
        simple[tag as usize] = matches!(tag,
            0..=0x1f
            | 0x38..=0x3f
            | tag::NULL
            | tag::TRUE
            | tag::FALSE
            | tag::INT
            | tag::LONG
            | tag::LONG_INT
            | tag::DOUBLE
            | tag::DOUBLE_ZERO..=tag::DOUBLE_MILL
            | 0x80..=0xff);
        if tag == u8::MAX {
            break simple;
        }
        tag += 1;
    }
};

/// Puts the value at the front of the chunk at `at`, if it is simple. What is put ends after the
/// bytes that are said to be put.
#[inline]
fn put_behind(room: &mut Room, at: usize, chunk: &[u8; CHUNK_LEN], rules: Rules) -> RunStep {
    let Some(place) = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut) else { return NOTHING };
    let (n_taken, n_put) = put(place, chunk, rules);
    (n_taken, at + n_put)
}

/// Puts the value at the front of the chunk, if it is simple.
#[inline]
fn put(place: &mut LeafRoom, chunk: &[u8; CHUNK_LEN], rules: Rules) -> RunStep {
    if usize::from(chunk[0]) <= tag::STRING_DIRECT_MAX {
        put_simple_text(place, chunk, rules)
    } else {
        put_scalar(place, chunk, rules)
    }
}

/// Puts the text at the front of the chunk, if it is a short one.
#[inline]
fn put_simple_text(place: &mut LeafRoom, chunk: &[u8; CHUNK_LEN], rules: Rules) -> RunStep {
    let [tag, text @ ..] = chunk;
    let len = usize::from(*tag);
    if rules.max_text_len < len || tag::STRING_DIRECT_MAX < len {
        return NOTHING;
    }
    put_text(place, text, len).map_or(NOTHING, |n_put| (1 + len, n_put))
}

/// What a tag and the bytes after it say.
enum Simple {
    Word(&'static [u8; 8], usize),
    Int(i64),
    Long(i64),
    Double(f64),
}

/// Puts the number, boolean or null at the front of the chunk.
#[inline(never)]
fn put_scalar(place: &mut LeafRoom, chunk: &[u8; CHUNK_LEN], rules: Rules) -> RunStep {
    let [tag, b0, b1, b2, b3, b4, b5, b6, b7, ..] = *chunk;
    let of = |tag: u8, zero: u8| i64::from(tag) - i64::from(zero);
    let (short, int) = (u16::from_be_bytes([b0, b1]), i32::from_be_bytes([b0, b1, b2, b3]));
    let long = u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
    let (value, n_taken) = match tag {
        tag::NULL => (Simple::Word(b"null    ", 4), 1),
        tag::TRUE => (Simple::Word(b"true    ", 4), 1),
        tag::FALSE => (Simple::Word(b"false   ", 5), 1),
        0x80..=0xbf => (Simple::Int(of(tag, tag::INT_ZERO)), 1),
        0xc0..=0xcf => (Simple::Int((of(tag, tag::INT_BYTE_ZERO) << 8) + i64::from(b0)), 2),
        0xd0..=0xd7 => (Simple::Int((of(tag, tag::INT_SHORT_ZERO) << 16) + i64::from(short)), 3),
        tag::INT => (Simple::Int(int.into()), 5),
        0xd8..=0xef => (Simple::Long(of(tag, tag::LONG_ZERO)), 1),
        0xf0..=0xff => (Simple::Long((of(tag, tag::LONG_BYTE_ZERO) << 8) + i64::from(b0)), 2),
        0x38..=0x3f => (Simple::Long((of(tag, tag::LONG_SHORT_ZERO) << 16) + i64::from(short)), 3),
        tag::LONG_INT => (Simple::Long(int.into()), 5),
        tag::LONG => (Simple::Long(long.cast_signed()), 9),
        tag::DOUBLE_ZERO => (Simple::Double(0.0), 1),
        tag::DOUBLE_ONE => (Simple::Double(1.0), 1),
        tag::DOUBLE_BYTE => (Simple::Double(b0.cast_signed().into()), 2),
        tag::DOUBLE_SHORT => (Simple::Double(short.cast_signed().into()), 3),
        tag::DOUBLE_MILL => (Simple::Double(0.001 * f64::from(int)), 5),
        tag::DOUBLE => (Simple::Double(f64::from_bits(long)), 9),
        _ => return NOTHING,
    };
    let n_put = match value {
        Simple::Word(word, len) => put_word(place, *word, len),
        Simple::Int(value) => put_i64(place, value),
        Simple::Long(value) if rules.has_plain_numbers => put_i64(place, value),
        Simple::Double(value) if rules.has_plain_numbers => put_f64(place, value),
        Simple::Long(_) | Simple::Double(_) => return NOTHING,
    };
    (n_taken, n_put)
}
