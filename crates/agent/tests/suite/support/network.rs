//! A network to one place that may lose single connections, or go silent altogether: it holds both
//! ends open, and nobody is told.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

pub struct Network {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    connections: Mutex<Vec<RelayedConnection>>,
    n_made: AtomicUsize,
    /// Bytes that have come from the place.
    n_returned: AtomicUsize,
    is_held: Mutex<bool>,
    released: Condvar,
    is_over: AtomicBool,
}

struct RelayedConnection {
    client: TcpStream,
    server: TcpStream,
    /// What comes is dropped.
    is_lost: Arc<AtomicBool>,
}

impl Network {
    pub fn start(place: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let known = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                if known.is_over.load(Ordering::SeqCst) {
                    return;
                }
                known.n_made.fetch_add(1, Ordering::SeqCst);
                let (client, state) = (client.unwrap(), Arc::clone(&known));
                let is_held = *known.is_held.lock().unwrap();
                match is_held {
                    true => drop(thread::spawn(move || state.join(client, place))),
                    false => state.join(client, place),
                }
            }
        });
        Self { address, state }
    }

    /// Connections that were asked for so far.
    pub fn n_made(&self) -> usize {
        self.state.n_made.load(Ordering::SeqCst)
    }

    pub fn n_returned(&self) -> usize {
        self.state.n_returned.load(Ordering::SeqCst)
    }

    /// One connection carries nothing any more.
    pub fn lose(&self, nth: usize) {
        self.state.connections.lock().unwrap()[nth].is_lost.store(true, Ordering::SeqCst);
    }

    pub fn cut(&self, nth: usize) {
        self.state.connections.lock().unwrap()[nth].cut();
    }

    /// Nothing comes through, of whichever connection, old or new.
    pub fn hold(&self) {
        *self.state.is_held.lock().unwrap() = true;
    }

    /// All that was held goes on.
    pub fn release(&self) {
        *self.state.is_held.lock().unwrap() = false;
        self.state.released.notify_all();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        self.release();
        self.state.connections.lock().unwrap().iter().for_each(RelayedConnection::cut);
        let _ = TcpStream::connect(self.address);
    }
}

impl RelayedConnection {
    fn cut(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl State {
    fn pass(&self) {
        drop(self.released.wait_while(self.is_held.lock().unwrap(), |is_held| *is_held).unwrap());
    }

    fn join(self: &Arc<Self>, client: TcpStream, place: SocketAddr) {
        self.pass();
        let Ok(server) = TcpStream::connect(place) else { return };
        let is_lost = Arc::<AtomicBool>::default();
        for (from, to, is_back) in [(&client, &server, false), (&server, &client, true)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (state, is_lost) = (Arc::clone(self), Arc::clone(&is_lost));
            thread::spawn(move || state.pass_on(from, to, is_back, &is_lost));
        }
        self.connections.lock().unwrap().push(RelayedConnection { client, server, is_lost });
    }

    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream, is_back: bool, is_lost: &AtomicBool) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(len @ 1..) = from.read(&mut bytes) {
            self.pass();
            if is_back {
                self.n_returned.fetch_add(len, Ordering::SeqCst);
            }
            if !is_lost.load(Ordering::SeqCst) && to.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        self.pass();
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
