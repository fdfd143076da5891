//! A listening socket on an event loop.
//!
//! The event loop says that connections wait. It gives the first of them, and would watch each
//! one that it gives. Connections are handed to other event loops, so the others of a crowd are
//! taken from the operating system itself: that takes half the time, and connections that are not
//! taken in time are lost to the kernel's backlog, which costs the caller a second.

use std::io;

use socket2::SockRef;
use tokio::net::{TcpListener, UnixListener};

use crate::connection::{DetachedSocket, Peer};
use crate::listen_address::{BoundSocket, SocketFile, UnixSocket};

/// A listening socket, and whether more wait at it, as far as is known.
#[derive(Debug)]
pub(super) struct Accepting {
    socket: ListeningSocket,
    is_ready: bool,
}

#[derive(Debug)]
enum ListeningSocket {
    Tcp(TcpListener),
    /// With its file, which goes with it.
    Unix(
        UnixListener,
        #[expect(dead_code, reason = "removes the file when it is dropped")] SocketFile,
    ),
}

impl Accepting {
    /// Puts a socket on the event loop.
    pub(super) fn new(socket: BoundSocket) -> io::Result<Self> {
        let socket = match socket {
            BoundSocket::Tcp(socket) => ListeningSocket::Tcp(TcpListener::from_std(socket)?),
            BoundSocket::Unix(UnixSocket { socket, file }) => {
                ListeningSocket::Unix(UnixListener::from_std(socket)?, file)
            }
        };
        Ok(Self { socket, is_ready: false })
    }

    /// The next connection, on no event loop. Nothing is lost if the future is dropped before it
    /// is ready.
    pub(super) async fn accept(&mut self) -> io::Result<(DetachedSocket, Peer)> {
        if self.is_ready {
            tokio::task::consume_budget().await;
            match self.socket.take() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_ready = false,
                taken => return taken,
            }
        }
        let accepted = self.socket.accept().await;
        self.is_ready = accepted.is_ok();
        accepted
    }
}

impl ListeningSocket {
    /// Waits for the next connection.
    async fn accept(&self) -> io::Result<(DetachedSocket, Peer)> {
        match self {
            Self::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                Ok((DetachedSocket::Tcp(stream.into_std()?), Peer::Tcp(peer)))
            }
            Self::Unix(socket, _) => {
                let (stream, _) = socket.accept().await?;
                Ok((DetachedSocket::Unix(stream.into_std()?), Peer::Unix))
            }
        }
    }

    /// The next connection if there is one.
    fn take(&self) -> io::Result<(DetachedSocket, Peer)> {
        match self {
            Self::Tcp(socket) => {
                let (stream, peer) = SockRef::from(socket).accept()?;
                stream.set_nonblocking(true)?;
                let peer = peer.as_socket().ok_or(io::ErrorKind::ConnectionAborted)?;
                Ok((DetachedSocket::Tcp(stream.into()), Peer::Tcp(peer)))
            }
            Self::Unix(socket, _) => {
                let (stream, _) = SockRef::from(socket).accept()?;
                stream.set_nonblocking(true)?;
                Ok((DetachedSocket::Unix(stream.into()), Peer::Unix))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{Ipv4Addr, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;
    use std::task::Poll;

    use super::*;
    use crate::listen_address::ListenAddress;
    use crate::socket::ListenOptions;

    /// More than an event loop lets one task do before others have a turn.
    const N: usize = 300;

    fn accepting(address: &ListenAddress) -> (Accepting, ListenAddress) {
        let socket = address.bind("test.listen", &ListenOptions::default()).unwrap();
        let address = socket.address().unwrap();
        (Accepting::new(socket).unwrap(), address)
    }

    async fn accept_some(accepting: &mut Accepting, n: usize) -> Vec<Peer> {
        let mut peers = Vec::new();
        for _ in 0..n {
            let (socket, peer) = accepting.accept().await.unwrap();
            let socket = socket.attach().unwrap();
            if let Some(stream) = socket.tcp() {
                let error = stream.try_read(&mut [0]).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            }
            peers.push(peer);
        }
        peers
    }

    async fn waits(accepting: &mut Accepting) -> bool {
        let mut next = std::pin::pin!(accepting.accept());
        std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn a_crowd_is_taken_in_its_order_and_others_go_on() {
        let (mut accepting, address) =
            accepting(&ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into()));
        let address = address.tcp().unwrap();
        let n_turns = Rc::new(Cell::new(0));
        let others = Rc::clone(&n_turns);
        let tasks = tokio::task::LocalSet::new();
        tasks.spawn_local(async move {
            loop {
                others.set(others.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        let crowds = tasks.run_until(async {
            for _ in 0..2 {
                let crowd: Vec<_> = (0..N).map(|_| TcpStream::connect(address).unwrap()).collect();
                let peers: Vec<_> =
                    crowd.iter().map(|stream| Peer::Tcp(stream.local_addr().unwrap())).collect();
                let first = accept_some(&mut accepting, 1).await;
                let before = n_turns.get();
                let others = accept_some(&mut accepting, N - 1).await;
                assert!(before < n_turns.get());
                assert_eq!([first, others].concat(), peers);
                // The event loop says when more come.
                assert!(waits(&mut accepting).await && !accepting.is_ready);
            }
        });
        crowds.await;
    }

    #[tokio::test]
    async fn a_crowd_of_this_machine_is_taken_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listen = ListenAddress::Unix { path: path.clone(), mode: 0o600 };
        let (mut accepting, _) = accepting(&listen);
        let _crowd: Vec<_> = (0..N).map(|_| UnixStream::connect(&path).unwrap()).collect();
        assert_eq!(accept_some(&mut accepting, N).await, [Peer::Unix; N]);
        assert!(waits(&mut accepting).await);
    }
}
