//! Endpoints where somebody accepts connections who serves no calls, and hangs up.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use registry::MemoryHub;

use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, consumer, register, wait_until,
};

/// The third byte of a Dubbo header has this bit set for heartbeats.
const EVENT: u8 = 0x20;

/// What takes connections in a provider's place.
struct Stranger {
    n_connections: AtomicUsize,
    /// Calls that it was sent.
    n_calls: AtomicUsize,
    /// What it says before it hangs up.
    says: &'static str,
    /// From now on it passes calls on, and drops heartbeats.
    serves: AtomicBool,
    provider: FakeProvider,
}

impl Stranger {
    fn start(says: &'static str) -> (SocketAddr, Arc<Self>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let provider = FakeProvider::start(Behaviour::Good);
        let (n_connections, n_calls, serves) = Default::default();
        let stranger = Arc::new(Self { n_connections, n_calls, says, serves, provider });
        let it = Arc::clone(&stranger);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let it = Arc::clone(&it);
                it.n_connections.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || it.serve(stream.unwrap()));
            }
        });
        (address, stranger)
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut provider = TcpStream::connect(self.provider.addr).unwrap();
        let (mut answers, mut to) = (provider.try_clone().unwrap(), stream.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut answers, &mut to));
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut bytes) {
            let is_call = bytes[2] & EVENT == 0;
            self.n_calls.fetch_add(usize::from(is_call), Ordering::SeqCst);
            if !self.serves.load(Ordering::SeqCst) {
                let _ = stream.write_all(self.says.as_bytes());
                break;
            }
            if is_call {
                provider.write_all(&bytes[..n]).unwrap();
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
        let _ = provider.shutdown(Shutdown::Both);
    }

    fn n_connections(&self) -> usize {
        self.n_connections.load(Ordering::SeqCst)
    }

    fn n_calls(&self) -> usize {
        self.n_calls.load(Ordering::SeqCst)
    }
}

#[test]
fn who_hangs_up_gets_no_calls_before_it_has_answered_a_heartbeat() {
    for says in ["", "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n"] {
        let hub = MemoryHub::new();
        let (address, stranger) = Stranger::start(says);
        let _registered = register(&hub, address);
        let agent = consumer(&hub, "");
        // Of one worker, which has one connection to the endpoint.
        let mut http = Http::to(&agent);
        let mut echo = || http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"x\"]").status;

        // Nothing speaks against it yet.
        wait_until("a call", || {
            echo();
            (stranger.n_calls() != 0).then_some(())
        });
        let n_calls = stranger.n_calls();
        let n_connections = stranger.n_connections();
        wait_until("more attempts", || {
            assert_eq!(echo(), 503);
            (n_connections + 4 < stranger.n_connections()).then_some(())
        });
        assert_eq!(stranger.n_calls(), n_calls, "{says:?}");

        // Not everybody knows heartbeats.
        stranger.serves.store(true, Ordering::SeqCst);
        wait_until("it to serve", || (echo() == 200).then_some(()));
    }
}
