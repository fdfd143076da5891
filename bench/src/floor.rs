//! What a caller would see of a server that refuses each call at once, and does nothing else: the
//! machine's own part of such an answer's time, where providers, agents and load share its cores.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::error::BenchError;
use crate::open_load::{self, OpenLoad, OpenLoadOutcome};

const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
                        content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
/// Few beside the load that is measured, and enough for a 99th percentile.
const PER_S: u32 = 100;

/// The server. It ends with the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    addr: SocketAddr,
}

impl Floor {
    pub(crate) fn start() -> Result<Self, BenchError> {
        let failed = BenchError::io("a server that refuses");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.and_then(|it| Ok((it.local_addr()?, it)));
        let (addr, listener) = listener.map_err(failed)?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream));
            }
        });
        Ok(Self { addr })
    }

    /// Calls it as `load` calls its server, at the same time, and a hundred times a second.
    pub(crate) fn run_beside(
        self,
        load: &OpenLoad<'_>,
    ) -> Result<(OpenLoadOutcome, OpenLoadOutcome), BenchError> {
        let floor = OpenLoad { addr: self.addr, per_s: PER_S, ..*load };
        thread::scope(|scope| {
            let floor = scope.spawn(move || open_load::run(&floor));
            let outcome = open_load::run(load)?;
            let floor = floor.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((outcome, floor))
        })
    }
}

/// Until the caller hangs up. Requests are short, and come one at a time.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    let mut request = [0; 4096];
    loop {
        if stream.read(&mut request)? == 0 {
            return Ok(());
        }
        stream.write_all(ANSWER)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_refused() {
        let load = OpenLoad {
            addr: Floor::start().unwrap().addr,
            request: b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            per_s: 50,
            duration: Duration::from_secs(1),
            deadline: Duration::from_secs(60),
        };
        let (outcome, floor) = Floor::start().unwrap().run_beside(&load).unwrap();
        assert_eq!((outcome.shed.len(), floor.shed.len()), (50, 100));
    }
}
