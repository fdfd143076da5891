//! A flood of changes, and how soon each of some of them is seen.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::store::Writer;
use super::tap::Tap;
use super::{FIRST_LASTING, N_LASTING, address, urls};
use crate::error::BenchError;

/// The flood: in each of so many ticks a second, half of the changes add and half remove.
const TICKS_PER_S: u32 = 100;
const CHANGES_PER_TICK: usize = 10;
/// Of every so many ticks, one adds the provider that is looked for.
const TICKS_PER_MARKER: usize = 10;

/// What a flood of changes saw.
pub(super) struct Flooded {
    /// From when the store had confirmed a change until it was seen.
    pub(super) times: Vec<Duration>,
    /// From when the store's push was seen, where it is.
    pub(super) from_push: Vec<Duration>,
    pub(super) changes_per_s: f64,
}

/// A provider that is looked for.
pub(super) struct Marker {
    pub(super) url: String,
    pub(super) address: String,
    confirmed: Instant,
}

impl Marker {
    fn text(&self) -> String {
        text_of(&self.address)
    }
}

/// What Nacos' pushes have of an address, and of no other one: its host in quotes.
fn text_of(address: &str) -> String {
    format!("\"{}\"", address.split(':').next().unwrap_or_default())
}

/// Adds providers and removes others, and has `wait_for` wait for some of those that were added.
pub(super) fn flood(
    writer: &mut Writer,
    tap: Option<&Arc<Tap>>,
    interface: &str,
    mut added: Vec<String>,
    duration: Duration,
    mut wait_for: impl FnMut(&Marker) -> Result<(), BenchError> + Send + 'static,
) -> Result<Flooded, BenchError> {
    let (markers, marked) = mpsc::channel::<Marker>();
    let reading = tap.cloned();
    let watcher = thread::spawn(move || -> Result<_, BenchError> {
        let (mut times, mut from_push) = (Vec::new(), Vec::new());
        for marker in marked {
            wait_for(&marker)?;
            let now = Instant::now();
            times.push(now - marker.confirmed);
            let sent_at = reading.as_ref().and_then(|tap| tap.sent_at(&marker.text()));
            from_push.extend(sent_at.map(|at| now.saturating_duration_since(at)));
        }
        Ok((times, from_push))
    });
    let (began, tick) = (Instant::now(), Duration::from_secs(1) / TICKS_PER_S);
    let (mut next, mut n_changes) = (FIRST_LASTING + N_LASTING, 0);
    for n in 0.. {
        if duration <= began.elapsed() {
            break;
        }
        let new = urls(interface, next..next + CHANGES_PER_TICK / 2);
        let address = address(next);
        let is_marked = n % TICKS_PER_MARKER == 0;
        if let Some(tap) = tap.filter(|_| is_marked) {
            tap.look_for(&text_of(&address));
        }
        next += CHANGES_PER_TICK / 2;
        // The oldest ones go, so that the list keeps its length.
        let old: Vec<_> = added.drain(..added.len().min(CHANGES_PER_TICK / 2)).collect();
        // One that is looked for stays until it is found, however long that takes.
        added.extend(new.iter().skip(usize::from(is_marked)).cloned());
        writer.change(interface, &new, &old)?;
        n_changes += CHANGES_PER_TICK;
        if let Some(url) = new.into_iter().next().filter(|_| is_marked) {
            let _ = markers.send(Marker { url, address, confirmed: Instant::now() });
        }
        let due = tick * u32::try_from(n + 1).unwrap_or(u32::MAX);
        thread::sleep(due.saturating_sub(began.elapsed()));
    }
    let changes_per_s = n_changes as f64 / began.elapsed().as_secs_f64();
    drop(markers);
    let (times, from_push) = watcher.join().unwrap_or_else(|_| Ok(Default::default()))?;
    Ok(Flooded { times, from_push, changes_per_s })
}
