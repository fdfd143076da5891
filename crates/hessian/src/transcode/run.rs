//! Runs of simple values from one format to the other: room in the output is made for many values
//! at once, and each is put there by a step that needs nothing but the bytes before it.
//!
//! A run ends at whatever is not simple, at the limits, and where anything is wrong: all that is
//! left to the general way, which says what.

use std::ops::Range;

use java_json::json::LEAF_LEN;

/// Room for one field, entry or element: a name, a value, and what is around them.
pub(super) type Room = [u8; ROOM_LEN];
const ROOM_LEN: usize = LEAF_LEN + LEAF_LEN;

/// How many bytes a step took, which is 0 if it did nothing, and how many it put.
pub(super) type RunStep = (usize, usize);
pub(super) const NOTHING: RunStep = (0, 0);

/// So many values are given room at once.
const BATCH: usize = 16;
/// A step looks at fewer bytes.
const MAX_AHEAD: usize = 128;

/// Does up to `n_wanted` steps, which are told how many were done before. They take from the front
/// of `rest`, which may go on with zeros behind its end, and put at the end of `out`, until that
/// is longer than `max_end`. Returns how many they were, and how many bytes they took.
#[inline]
pub(super) fn run(
    rest: &[u8],
    out: &mut Vec<u8>,
    max_end: usize,
    n_wanted: usize,
    step: impl Fn(usize, &mut Room, &[u8]) -> RunStep,
) -> (usize, usize) {
    let (mut n, mut n_taken) = (0, 0);
    while n < n_wanted {
        let end = n_wanted.min(n + BATCH);
        let mut input = rest.get(n_taken..).unwrap_or_default();
        let mut done = batch(input, input.len(), out, max_end, n..end, &step);
        n_taken += done.1;
        input = input.get(done.1..).unwrap_or_default();
        if done.0 < end && input.len() < MAX_AHEAD / 2 && !input.is_empty() {
            // The last bytes, as if more followed.
            let mut padded = [0; MAX_AHEAD];
            if let Some(place) = padded.get_mut(..input.len()) {
                place.copy_from_slice(input);
            }
            done = batch(&padded, input.len(), out, max_end, done.0..end, &step);
            n_taken += done.1;
        }
        n = done.0;
        if n < end {
            break;
        }
    }
    (n, n_taken)
}

/// Does steps with `input`, of which the first `n_bytes` are there in truth. Returns the number of
/// the next step, and how many bytes were taken.
#[inline(never)]
fn batch(
    mut input: &[u8],
    n_bytes: usize,
    out: &mut Vec<u8>,
    max_end: usize,
    steps: Range<usize>,
    step: &impl Fn(usize, &mut Room, &[u8]) -> RunStep,
) -> (usize, usize) {
    let start = out.len();
    let max_len = max_end.saturating_sub(start);
    out.resize(start + steps.len() * ROOM_LEN, 0);
    let mut places = out.get_mut(start..).unwrap_or_default();
    let n_places = places.len();
    let (mut n_left, mut n) = (n_bytes, steps.start);
    while n < steps.end
        && n_places - places.len() <= max_len
        && let Some(room) = places.first_chunk_mut()
    {
        let (n_taken, n_put) = step(n, room, input);
        if n_taken == 0 || n_left < n_taken {
            break;
        }
        n_left -= n_taken;
        input = input.get(n_taken..).unwrap_or_default();
        places = places.get_mut(n_put..).unwrap_or_default();
        n += 1;
    }
    let len = n_places - places.len();
    out.truncate(start + len);
    (n, n_bytes - n_left)
}
