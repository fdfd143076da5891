//! A TCP proxy that can swallow everything without closing a connection, as a network does that
//! drops packets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How often a thread looks whether the cable was cut or mended.
const LOOK: Duration = Duration::from_millis(20);

/// A cable between callers and one address. Dropping it ends it.
pub struct Cable {
    addr: SocketAddr,
    state: Arc<CableSwitch>,
}

#[derive(Default)]
struct CableSwitch {
    is_cut: AtomicBool,
    is_over: AtomicBool,
    /// How often it was mended: connections from before are of no use to anybody.
    n_mended: AtomicUsize,
}

impl Cable {
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, state) = (listener.local_addr().unwrap(), Arc::<CableSwitch>::default());
        let known = Arc::clone(&state);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if known.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&known);
                thread::spawn(move || join(stream, target, &state));
            }
        });
        Self { addr, state }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Nothing comes through from now on, and nobody is told.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Ordering::SeqCst);
    }

    /// New connections work again; those from before end.
    pub fn mend(&self) {
        self.state.n_mended.fetch_add(1, Ordering::SeqCst);
        self.state.is_cut.store(false, Ordering::SeqCst);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr);
    }
}

fn join(near: TcpStream, target: SocketAddr, state: &Arc<CableSwitch>) {
    let began = state.n_mended.load(Ordering::SeqCst);
    while state.is_cut.load(Ordering::SeqCst) {
        thread::sleep(LOOK);
    }
    let Ok(far) = TcpStream::connect(target) else { return };
    let (near_again, far_again) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let back = Arc::clone(state);
    let other = thread::spawn(move || carry(far_again, near_again, &back, began));
    carry(near, far, state, began);
    let _ = other.join();
}

fn carry(mut from: TcpStream, mut to: TcpStream, state: &CableSwitch, began: usize) {
    let mut buffer = vec![0; 1 << 16];
    from.set_read_timeout(Some(LOOK)).unwrap();
    while !state.is_over.load(Ordering::SeqCst) && state.n_mended.load(Ordering::SeqCst) == began {
        if state.is_cut.load(Ordering::SeqCst) {
            thread::sleep(LOOK);
            continue;
        }
        match from.read(&mut buffer) {
            Ok(len @ 1..) if to.write_all(&buffer[..len]).is_ok() => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => break,
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
