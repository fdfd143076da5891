//! Whether the peer has gone, for who does not want to read.
//!
//! Who reads to find that out needs a buffer for what may come instead.

use std::io;
use std::mem::MaybeUninit;
use std::task::{Context, Poll, ready};

use socket2::SockRef;

use super::Connection;
use super::stream::Socket;

impl Connection {
    /// Waits until there is something to read, or nothing will come any more: whether it is the
    /// latter. Nothing is read. By TLS there may be something that is no word of the peer's.
    pub fn poll_hung_up(&self, cx: &mut Context<'_>) -> Poll<bool> {
        match self.stream.socket() {
            Some(socket) => ready!(socket.poll_input(cx, peek)).map_or(true, |len| len == 0).into(),
            None => Poll::Ready(true),
        }
    }

    /// Whether the connection has failed, for who knows that nothing more comes: reading does not
    /// tell then that the peer has reset it.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let error = self.stream.socket().map(|socket| match socket {
            Socket::Tcp(stream) => stream.take_error(),
            Socket::Unix(stream) => stream.take_error(),
        });
        !matches!(error, Some(Ok(None)))
    }
}

fn peek(socket: &SockRef<'_>) -> io::Result<usize> {
    socket.peek(&mut [MaybeUninit::uninit()])
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::testing::{tcp_pair, unix_pair};
    use super::*;

    async fn check(mut connection: Connection, mut peer: impl AsyncWriteExt + Unpin) {
        let waits = |connection: &Connection| {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            connection.poll_hung_up(&mut cx).is_pending()
        };
        assert!(waits(&connection));
        peer.write_all(b"ab").await.unwrap();
        assert!(!poll_fn(|cx| connection.poll_hung_up(cx)).await);
        let mut read = [0; 2];
        connection.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"ab", "nothing was taken");
        assert!(waits(&connection));
        drop(peer);
        assert!(poll_fn(|cx| connection.poll_hung_up(cx)).await);
    }

    #[tokio::test]
    async fn who_has_gone_is_noticed_and_what_has_come_stays() {
        let (connection, peer) = tcp_pair().await;
        check(connection, peer).await;
        let (connection, peer) = unix_pair();
        check(connection, peer).await;
    }

    #[tokio::test]
    async fn a_reset_is_noticed_behind_an_end() {
        let (mut connection, mut peer) = tcp_pair().await;
        peer.shutdown().await.unwrap();
        assert!(poll_fn(|cx| connection.poll_hung_up(cx)).await);
        assert!(!connection.has_failed(), "it may still read");
        drop(peer);
        while !connection.has_failed() {
            // Nobody reads this any more.
            let _ = connection.write(b"?").await;
            tokio::task::yield_now().await;
        }
    }
}
