//! Bytes that nobody wants: they are taken from the socket, and not looked at.
//!
//! Who closes a socket in which something is unread has the operating system reset the connection.
//! Many clients notice that before they have read the answer that came ahead of it. So what still
//! comes is thrown away for a while. (RFC 9112, section 9.6.)

use std::io;
use std::mem::MaybeUninit;
use std::task::{Context, Poll, ready};

use nix::libc::MSG_TRUNC;
use socket2::SockRef;

use super::Connection;

/// What is thrown away at a time.
const PIECE_LEN: usize = 64 * 1024;

impl Connection {
    /// Throws away what has come, up to some piece of it, and returns how many bytes that were: 0
    /// if nothing more will come. Below TLS, this takes what is encrypted.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let len = match self.stream.socket() {
            Some(socket) => ready!(socket.poll_input(cx, discard))?,
            None => 0,
        };
        self.meter.add_read(len);
        Poll::Ready(Ok(len))
    }
}

/// For TCP, Linux copies nothing with this flag. Elsewhere the bytes come into the buffer.
fn discard(socket: &SockRef<'_>) -> io::Result<usize> {
    socket.recv_with_flags(&mut [MaybeUninit::uninit(); PIECE_LEN], MSG_TRUNC)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::testing::{tcp_pair, unix_pair};
    use super::*;

    /// Sends much, which is thrown away, and then something, which is read.
    async fn check(mut connection: Connection, mut peer: impl AsyncWriteExt + Unpin) {
        const LEN: usize = 3 * PIECE_LEN + 7;
        let send = async move {
            peer.write_all(&[1; LEN]).await.unwrap();
            peer.write_all(b"end").await.unwrap();
            peer.shutdown().await.unwrap();
            peer
        };
        let receive = async {
            let mut left = LEN + 3;
            while left != 0 {
                left -= poll_fn(|cx| connection.poll_discard(cx)).await.unwrap();
            }
            assert_eq!(poll_fn(|cx| connection.poll_discard(cx)).await.unwrap(), 0);
        };
        let (_peer, ()) = tokio::join!(send, receive);
    }

    #[tokio::test]
    async fn what_comes_is_thrown_away_to_its_end() {
        let (connection, peer) = tcp_pair().await;
        check(connection, peer).await;
        let (connection, peer) = unix_pair();
        check(connection, peer).await;
    }

    #[tokio::test]
    async fn what_is_read_before_is_not_lost() {
        let (mut connection, mut peer) = unix_pair();
        peer.write_all(b"abc").await.unwrap();
        let mut start = [0];
        connection.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"a");
        assert_eq!(poll_fn(|cx| connection.poll_discard(cx)).await.unwrap(), 2);
    }
}
