//! What large replies cost others at the least: their bytes over a bare socket, from a thread that
//! only writes to one that only reads. Nobody makes them, and nobody looks at them.
//!
//! A request is the length of its reply, 4 bytes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::error::BenchError;

const READ_LEN: usize = 256 * 1024;
/// The longest reply.
const MAX_LEN: usize = 64 << 20;

/// Answers one client after the other at `address`. Prints `READY HOST:PORT`.
pub(crate) fn serve(address: &str) -> Result<(), BenchError> {
    let failed = || BenchError::io("the bulk server");
    let listener = TcpListener::bind(address).map_err(failed())?;
    println!("READY {}", listener.local_addr().map_err(failed())?);
    let bytes = vec![b'x'; MAX_LEN];
    for client in listener.incoming() {
        let mut client = client.map_err(failed())?;
        let mut len = [0; 4];
        while client.read_exact(&mut len).is_ok() {
            let len = u32::from_be_bytes(len) as usize;
            // A client that has enough goes away in the midst of a reply.
            if client.write_all(&bytes[..len.min(MAX_LEN)]).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Asks for replies of LEN bytes for SECONDS, one after the other, and no more than PER_S a
/// second. Prints how many there were, as JSON.
pub(crate) fn fetch(address: &str, shape: &[&str]) -> Result<(), BenchError> {
    let [len, per_s, seconds] = shape else { return Err(BenchError::Usage) };
    let (Ok(len), Ok(per_s), Ok(seconds)) = (len.parse::<u32>(), per_s.parse(), seconds.parse())
    else {
        return Err(BenchError::Usage);
    };
    let failed = || BenchError::io("the bulk client");
    let mut server = TcpStream::connect(address).map_err(failed())?;
    let interval = Duration::from_secs_f64(1.0 / f64::max(per_s, 0.1));
    let (begin, mut due) = (Instant::now(), Instant::now());
    let end = begin + Duration::from_secs_f64(seconds);
    let (mut bytes, mut n) = (vec![0; READ_LEN], 0_u64);
    while Instant::now() < end {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due = (due + interval).max(Instant::now() - interval);
        server.write_all(&len.to_be_bytes()).map_err(failed())?;
        let mut left = len as usize;
        while 0 < left {
            let room = left.min(READ_LEN);
            match server.read(&mut bytes[..room]).map_err(failed())? {
                0 => return Err(BenchError::NoResult { output: "the server has gone".into() }),
                came => left -= came,
            }
        }
        n += 1;
    }
    println!("{}", json!({ "per_s": n as f64 / begin.elapsed().as_secs_f64() }));
    Ok(())
}
