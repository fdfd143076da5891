//! A TCP proxy that behaves as a bad network does, for machines whose kernel has no netem: it
//! swallows what it is given without a word, delivers it late, or closes all connections.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::BenchError;

/// How often a thread looks what the network is like, if nothing else happens.
const LOOK: Duration = Duration::from_millis(5);
/// How late a lost packet is: what the kernel waits for before it sends it again, and what comes
/// after it waits as long.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// What the network is like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Weather {
    Fine,
    /// All arrives so much later, in each direction.
    Late(Duration),
    /// So many percent of what is sent are lost, and sent again.
    Lossy(u64),
    /// The connections that there are carry nothing any more. New ones work.
    Dropped,
    /// Nothing arrives before the weather is another one, then all does.
    Parted,
    /// All connections are closed, new ones at once.
    Broken,
}

/// A cable between callers and one address. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Cable {
    pub(crate) addr: SocketAddr,
    state: Arc<Mutex<CableState>>,
}

#[derive(Debug)]
struct CableState {
    target: Option<SocketAddr>,
    weather: Weather,
    /// Connections with lower numbers have been dropped.
    n_dropped: u64,
    n_connections: u64,
    is_over: bool,
}

/// The state is plain values, whole at any time.
fn lock(state: &Mutex<CableState>) -> MutexGuard<'_, CableState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cable {
    /// A cable whose other end is given by [`Cable::lead_to`].
    pub(crate) fn start() -> Result<Self, BenchError> {
        let failed = |source| BenchError::Io { what: "a cable", source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let (target, weather, n_dropped, n_connections) = (None, Weather::Fine, 0, 0);
        let state = CableState { target, weather, n_dropped, n_connections, is_over: false };
        let state = Arc::new(Mutex::new(state));
        let known = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let number = {
                    let mut state = lock(&known);
                    if state.is_over {
                        return;
                    }
                    state.n_connections += 1;
                    state.n_connections
                };
                let state = Arc::clone(&known);
                // A connection that cannot be made ends, which is what its owner has to see.
                thread::spawn(move || drop(join(&stream, number, &state)));
            }
        });
        Ok(Self { addr, state })
    }

    pub(crate) fn lead_to(&self, target: SocketAddr) {
        lock(&self.state).target = Some(target);
    }

    pub(crate) fn set(&self, weather: Weather) {
        let mut state = lock(&self.state);
        state.weather = weather;
        if weather == Weather::Dropped {
            state.n_dropped = state.n_connections;
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        lock(&self.state).is_over = true;
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.addr));
    }
}

/// What was read, and when; nothing at the end of the stream.
type Piece = (Instant, Vec<u8>);

fn join(near: &TcpStream, number: u64, state: &Arc<Mutex<CableState>>) -> io::Result<()> {
    let target = loop {
        let state = lock(state);
        match (state.weather, state.target) {
            _ if state.is_over => return Ok(()),
            (Weather::Broken, _) | (_, None) => return Ok(()),
            (Weather::Parted, _) => {}
            (_, Some(target)) => break target,
        }
        drop(state);
        thread::sleep(LOOK);
    };
    let far = TcpStream::connect(target)?;
    let mut threads = Vec::new();
    for (from, to) in [(near, &far), (&far, near)] {
        from.set_nodelay(true)?;
        from.set_read_timeout(Some(LOOK))?;
        let (pieces, waiting) = mpsc::channel();
        let (from, to, known) = (from.try_clone()?, to.try_clone()?, Arc::clone(state));
        threads.push(thread::spawn(move || read(from, &pieces, number, &known)));
        let known = Arc::clone(state);
        threads.push(thread::spawn(move || write(to, &waiting, number, &known)));
    }
    for thread in threads {
        drop(thread.join());
    }
    Ok(())
}

/// Whether a connection has to end now.
fn is_over(number: u64, state: &Mutex<CableState>) -> bool {
    let state = lock(state);
    let is_dropped = number <= state.n_dropped;
    state.is_over || (state.weather == Weather::Broken && !is_dropped)
}

fn read(mut from: TcpStream, pieces: &Sender<Piece>, number: u64, state: &Mutex<CableState>) {
    let mut buffer = vec![0; 64 * 1024];
    while !is_over(number, state) {
        let len = match from.read(&mut buffer) {
            Ok(len) => len,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                continue;
            }
            Err(_) => 0,
        };
        let is_sent = pieces.send((Instant::now(), buffer[..len].to_vec())).is_ok();
        if len == 0 || !is_sent {
            return;
        }
    }
    drop(from.shutdown(Shutdown::Both));
}

fn write(mut to: TcpStream, pieces: &Receiver<Piece>, number: u64, state: &Mutex<CableState>) {
    let mut lot = number | 1;
    while !is_over(number, state) {
        let (read_at, piece) = match pieces.recv_timeout(LOOK) {
            Ok(piece) => piece,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let weather = lock(state).weather;
        match weather {
            Weather::Late(time) => {
                thread::sleep((read_at + time).saturating_duration_since(Instant::now()));
            }
            Weather::Lossy(percent) if draw(&mut lot) % 100 < percent => {
                thread::sleep(RETRANSMISSION);
            }
            Weather::Parted => {
                while lock(state).weather == Weather::Parted && !is_over(number, state) {
                    thread::sleep(LOOK);
                }
            }
            _ => {}
        }
        if number <= lock(state).n_dropped {
            continue;
        }
        if piece.is_empty() {
            drop(to.shutdown(Shutdown::Write));
        } else if to.write_all(&piece).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}

/// Xorshift: the same losses for each connection of a run.
fn draw(lot: &mut u64) -> u64 {
    *lot ^= *lot << 13;
    *lot ^= *lot >> 7;
    *lot ^= *lot << 17;
    *lot
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a byte through a cable, and says whether it came through.
    fn comes_through(from: &mut TcpStream, to: &mut TcpStream) -> bool {
        to.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        from.write_all(b"x").is_ok() && matches!(to.read(&mut [0; 8]), Ok(1..))
    }

    #[test]
    fn a_dropped_connection_is_silent_and_a_new_one_works() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let cable = Cable::start().unwrap();
        cable.lead_to(server.local_addr().unwrap());
        let mut near = TcpStream::connect(cable.addr).unwrap();
        let (mut far, _) = server.accept().unwrap();
        assert!(comes_through(&mut near, &mut far));
        cable.set(Weather::Dropped);
        assert!(!comes_through(&mut near, &mut far));
        let mut next = TcpStream::connect(cable.addr).unwrap();
        let (mut next_far, _) = server.accept().unwrap();
        assert!(comes_through(&mut next, &mut next_far));
        cable.set(Weather::Broken);
        assert_eq!(next_far.read(&mut [0; 8]).unwrap_or(0), 0);
    }
}
