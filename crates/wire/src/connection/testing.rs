//! Connections, and whom they are to.

use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::Connection;

pub(super) async fn tcp_pair() -> (Connection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (peer, _) = listener.accept().await.unwrap();
    (Connection::outgoing(stream, "test").unwrap(), peer)
}

pub(super) fn unix_pair() -> (Connection, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    (Connection::outgoing_unix(ours, "test"), peer)
}
