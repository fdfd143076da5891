//! Free ports, and waiting for a condition instead of for a time.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The range that [`free_port`] draws from. It ends below the range from which Linux takes the
/// local ports of outgoing connections (32768 and up), so that no passing connection holds the
/// port of a peer that is about to be started again.
const FIRST_PORT: u16 = 20_000;
const N_PORTS: u16 = 12_000;

/// How often [`wait_until`] looks.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns a loopback TCP port that nobody listens on, and that this process was not given before.
///
/// Another process may still take it first: whoever starts a peer on it must be ready to try
/// another one.
///
/// # Panics
/// When not one port of 20000 to 31999 is free.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static START: std::sync::OnceLock<u16> = std::sync::OnceLock::new();
    let start = *START.get_or_init(random_start);
    for _ in 0..N_PORTS {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % N_PORTS;
        let port = FIRST_PORT + (start + step) % N_PORTS;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port from {FIRST_PORT} to {}", FIRST_PORT + N_PORTS - 1);
}

/// Where this process begins in the range: test processes that run at once begin apart.
fn random_start() -> u16 {
    let nanos = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    let mixed = (nanos ^ std::process::id().wrapping_mul(0x9e37_79b9)) % u32::from(N_PORTS);
    u16::try_from(mixed).unwrap_or(0)
}

/// Polls `condition` every few milliseconds until it holds.
///
/// # Panics
/// When it does not hold after `timeout`; the message names `what` was waited for.
pub fn wait_until(what: &str, timeout: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {timeout:?} in vain for: {what}");
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ_and_can_be_bound() {
        let ports: Vec<u16> = (0..20).map(|_| free_port()).collect();
        let held: Vec<_> =
            ports.iter().map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port))).collect();
        assert!(held.iter().all(Result::is_ok), "{ports:?}");
    }

    #[test]
    fn wait_until_looks_again() {
        let mut n_looks = 0;
        wait_until("the third look", Duration::from_secs(5), || {
            n_looks += 1;
            n_looks == 3
        });
        assert_eq!(n_looks, 3);
    }

    #[test]
    #[should_panic(expected = "in vain for: a miracle")]
    fn wait_until_gives_up() {
        wait_until("a miracle", Duration::from_millis(1), || false);
    }
}
