//! Reads along what a store sends to the agent: when a store's push reached it.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::error::BenchError;

/// The longest text that is looked for.
const MAX_TEXT_LEN: usize = 64;

/// A port that passes everything on to a store. Dropping it ends it.
pub(super) struct Tap {
    pub(super) port: u16,
    state: Arc<WatchedTexts>,
}

#[derive(Default)]
struct WatchedTexts {
    /// The texts that are looked for, and when each of them was sent first.
    wanted: Mutex<HashMap<String, Option<Instant>>>,
    is_over: AtomicBool,
}

impl WatchedTexts {
    fn wanted(&self) -> MutexGuard<'_, HashMap<String, Option<Instant>>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap {
    /// Listens on the first of the ports that is free.
    pub(super) fn start(target: SocketAddr, mut ports: Range<u16>) -> Result<Self, BenchError> {
        let listener = ports.find_map(|it| TcpListener::bind((Ipv4Addr::LOCALHOST, it)).ok());
        let listener = listener.ok_or_else(|| BenchError::NoResult {
            output: format!("no free port among {ports:?} to read along what {target} says"),
        })?;
        let port = listener.local_addr().map_err(BenchError::io("a tap"))?.port();
        let state = Arc::new(WatchedTexts::default());
        let known = Arc::clone(&state);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if known.is_over.load(Ordering::Relaxed) {
                    return;
                }
                // A connection that cannot be made ends, which is what the agent has to see.
                let Ok(far) = TcpStream::connect(target) else { continue };
                let state = Arc::clone(&known);
                let _ = pass_on(near, far, state);
            }
        });
        Ok(Self { port, state })
    }

    /// Begins to look for a text.
    pub(super) fn look_for(&self, text: &str) {
        debug_assert!(text.len() <= MAX_TEXT_LEN, "it would be missed between two reads");
        self.state.wanted().insert(text.to_owned(), None);
    }

    /// When the store sent the text first, if it has. It is not looked for any longer.
    pub(super) fn sent_at(&self, text: &str) -> Option<Instant> {
        self.state.wanted().remove(text).flatten()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

/// Carries the bytes of one connection in both directions until either end closes it.
fn pass_on(near: TcpStream, far: TcpStream, state: Arc<WatchedTexts>) -> io::Result<()> {
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (mut asked, mut to_store) = (near.try_clone()?, far.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut asked, &mut to_store);
        let _ = to_store.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let _ = read_along(&far, &near, &state);
        let _ = near.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn read_along(mut from: &TcpStream, mut to: &TcpStream, state: &WatchedTexts) -> io::Result<()> {
    let (mut buffer, mut n_before) = (vec![0; 256 * 1024], 0);
    loop {
        let len = from.read(&mut buffer[n_before..])?;
        let now = Instant::now();
        if len == 0 {
            return Ok(());
        }
        to.write_all(&buffer[n_before..n_before + len])?;
        let all = n_before + len;
        note(&mut state.wanted(), &buffer[..all], now);
        // A text may lie across two reads.
        n_before = all.min(MAX_TEXT_LEN);
        buffer.copy_within(all - n_before..all, 0);
    }
}

fn note(wanted: &mut HashMap<String, Option<Instant>>, bytes: &[u8], now: Instant) {
    for (text, sent_at) in wanted.iter_mut().filter(|(_, sent_at)| sent_at.is_none()) {
        if bytes.windows(text.len()).any(|it| it == text.as_bytes()) {
            *sent_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_what_passes_in_pieces_and_passes_it_on() {
        let store = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = store.local_addr().unwrap();
        let tap = Tap::start(target, 20_000..60_000).unwrap();
        tap.look_for("\"10.0.0.1\"");
        let mut agent = TcpStream::connect((Ipv4Addr::LOCALHOST, tap.port)).unwrap();
        let (mut sender, _) = store.accept().unwrap();
        let mut read = [0; 8];
        for piece in [b"xx\"10.0.", b"0.1\",..."] {
            sender.write_all(piece).unwrap();
            agent.read_exact(&mut read[..piece.len()]).unwrap();
            assert_eq!(read[..piece.len()], piece[..]);
        }
        // It is noted after it was passed on.
        while tap.state.wanted().values().any(Option::is_none) {
            thread::yield_now();
        }
        assert!(tap.sent_at("\"10.0.0.1\"").is_some());
        assert!(tap.sent_at("\"10.0.0.1\"").is_none());
    }
}
