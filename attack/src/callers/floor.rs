//! What callers would notice of a server that does nothing but echo: the machine's own part of a
//! latency, where hostile peer, agent, provider and callers share its cores.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// About as long as a call by HTTP, and sent back whole.
pub(super) const MESSAGE: [u8; 256] = [b'a'; 256];

/// A server without descriptors must not keep a core busy: it would change what is measured.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

/// Starts a server that echoes, with one event loop on a thread of its own, which ends with the
/// process.
pub(crate) fn start() -> io::Result<SocketAddr> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        runtime.block_on(async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::spawn(echo(stream))),
                    // For want of descriptors, or because the caller has gone.
                    Err(_) => tokio::time::sleep(AFTER_FAILURE).await,
                }
            }
        });
    });
    Ok(address)
}

/// Until the caller hangs up.
async fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = MESSAGE;
    loop {
        stream.read_exact(&mut message).await?;
        stream.write_all(&message).await?;
    }
}
