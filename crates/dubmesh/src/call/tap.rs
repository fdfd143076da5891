//! A relay between a call and its endpoint that keeps what goes through, so that it can be shown.
//! The call itself goes by the same path as without.

use std::cell::RefCell;
use std::io;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::error::{CallError, Code};
use registry::Protocol;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinHandle;
use wire::{Files, Listener, ListenerLimits, address, socket};

use super::CONNECT_TIMEOUT;

/// The most that is kept of each direction.
const MAX_KEPT_LEN: usize = 16 << 20;

/// A relay to one endpoint.
pub(super) struct Tap {
    /// Where the relay listens.
    pub(super) port: u16,
    /// The endpoint, `host:port`.
    pub(super) address: String,
    /// What is spoken there.
    pub(super) protocol: Protocol,
    kept: Rc<RefCell<Vec<Piece>>>,
    /// What passes our bytes on, of each connection.
    passing: Rc<RefCell<Vec<JoinHandle<io::Result<()>>>>>,
}

/// Bytes that came in one piece.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// From us to the endpoint, or back.
    pub(super) is_ours: bool,
    /// Since the start.
    pub(super) at: Duration,
    /// The bytes.
    pub(super) bytes: Vec<u8>,
}

impl Tap {
    /// Starts a relay; `started` is when the command was. `None` if the endpoint cannot be
    /// reached: the call itself shall find out, and say so as always.
    pub(super) async fn start(
        address: String,
        protocol: Protocol,
        started: Instant,
    ) -> io::Result<Option<Self>> {
        let Ok((host, far_port)) = address::split(&address) else { return Ok(None) };
        let Ok(first) = socket::connect(host, far_port, CONNECT_TIMEOUT).await else {
            return Ok(None);
        };
        let (mut listener, port) = listener(protocol)?;
        let kept = Rc::new(RefCell::new(Vec::new()));
        let passing = Rc::<RefCell<Vec<_>>>::default();
        let (host, keep, note) = (host.to_owned(), Rc::clone(&kept), Rc::clone(&passing));
        tokio::task::spawn_local(async move {
            let mut first = Some(first);
            loop {
                let near = listener.accept().await;
                let far = match first.take() {
                    Some(first) => Ok(first),
                    None => socket::connect(&host, far_port, CONNECT_TIMEOUT).await,
                };
                // Who cannot be reached any more refuses the relay's caller, too.
                let Ok(far) = far else { return };
                let ours = relay(near, far, started, &keep);
                note.borrow_mut().push(ours);
            }
        });
        Ok(Some(Self { port, address, protocol, kept, passing }))
    }

    /// Waits until the endpoint has all that was sent over connections that have ended.
    pub(super) async fn pass_all(&self) -> Result<(), CallError> {
        let passing = self.passing.take();
        for ours in passing {
            if let Ok(Err(error)) = ours.await {
                let error = CallError::new(Code::ConnectionBroken, error.to_string());
                return Err(error.at(&self.address));
            }
        }
        Ok(())
    }

    /// What has gone through, in order.
    pub(super) fn pieces(&self) -> Vec<Piece> {
        self.kept.borrow().clone()
    }
}

/// A relay serves one command, so it takes what the process can.
fn listener(protocol: Protocol) -> io::Result<(Listener, u16)> {
    let socket = socket::listen((Ipv4Addr::LOCALHOST, 0).into())?;
    let files = Files::of_process();
    let limits = ListenerLimits { max_connections: usize::MAX, key: "the relay", files };
    let port = socket.local_addr()?.port();
    Ok((Listener::new(socket, protocol.scheme(), limits, Arc::default())?, port))
}

fn relay(
    near: impl AsyncRead + AsyncWrite + 'static,
    far: impl AsyncRead + AsyncWrite + 'static,
    started: Instant,
    kept: &Rc<RefCell<Vec<Piece>>>,
) -> JoinHandle<io::Result<()>> {
    let (near_in, near_out) = tokio::io::split(near);
    let (far_in, far_out) = tokio::io::split(far);
    tokio::task::spawn_local(pass(far_in, near_out, false, started, Rc::clone(kept)));
    tokio::task::spawn_local(pass(near_in, far_out, true, started, Rc::clone(kept)))
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    is_ours: bool,
    started: Instant,
    kept: Rc<RefCell<Vec<Piece>>>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut n_kept = 0;
    while let Ok(len @ 1..) = from.read(&mut buffer).await {
        let bytes = buffer.get(..len).unwrap_or_default();
        if n_kept < MAX_KEPT_LEN {
            n_kept += len;
            let piece = Piece { is_ours, at: started.elapsed(), bytes: bytes.to_vec() };
            kept.borrow_mut().push(piece);
        }
        to.write_all(bytes).await?;
    }
    // What has ended on one side ends on the other.
    to.shutdown().await
}
