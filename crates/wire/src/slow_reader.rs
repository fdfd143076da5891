//! Whether a peer takes what is written to it.
//!
//! A peer that asks and does not read makes us keep its answers. [`Taking`] notices: it is the
//! view of a connection that its owner looks at from time to time, and [`WatchedStream`] the
//! stream that tells it. What keeps a connection alive otherwise, such as a PING, does not count.
//!
//! Invariant: a stream whose peer has taken neither all that waited nor [`MIN_TAKEN_LEN`] within
//! the time it has fails from then on.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A peer that takes so much in its time is slow, but not idle.
pub const MIN_TAKEN_LEN: u64 = 1024 * 1024;

/// What is known of a peer's taking.
#[derive(Debug, Default)]
pub struct Taking {
    n_taken: Cell<u64>,
    /// Something waits to be written.
    is_blocked: Cell<bool>,
    /// Since when something waits, and how much had been taken by then.
    mark: Cell<Option<(Instant, u64)>>,
    is_over: Cell<bool>,
    task: RefCell<Option<Waker>>,
}

impl Taking {
    /// A connection to which nothing was written yet.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Ends the connection if its peer has not taken enough within `time`. Says whether it did
    /// now.
    pub fn check(&self, now: Instant, time: Duration) -> bool {
        if !self.is_blocked.get() || self.is_over.get() {
            self.mark.set(None);
            return false;
        }
        let n_taken = self.n_taken.get();
        match self.mark.get() {
            Some((since, before)) if n_taken - before < MIN_TAKEN_LEN => {
                if now.saturating_duration_since(since) < time {
                    return false;
                }
            }
            _ => {
                self.mark.set(Some((now, n_taken)));
                return false;
            }
        }
        self.end();
        true
    }

    /// Whether something waits to be written: the last write was not taken whole.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked.get()
    }

    /// Has every further use of the stream fail.
    pub fn end(&self) {
        self.is_over.set(true);
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    fn wrote(&self, cx: &Context<'_>, wrote: &Poll<io::Result<usize>>) {
        match wrote {
            Poll::Ready(Ok(len)) => {
                self.n_taken.set(self.n_taken.get() + *len as u64);
                self.is_blocked.set(false);
            }
            Poll::Ready(Err(_)) => self.is_blocked.set(false),
            Poll::Pending => self.waits(cx),
        }
    }

    /// TLS takes what is written, and may still have it.
    fn flushed(&self, cx: &Context<'_>, flushed: &Poll<io::Result<()>>) {
        match flushed {
            Poll::Ready(_) => self.is_blocked.set(false),
            Poll::Pending => self.waits(cx),
        }
    }

    fn waits(&self, cx: &Context<'_>) {
        self.is_blocked.set(true);
        let mut task = self.task.borrow_mut();
        match task.as_ref() {
            Some(known) if known.will_wake(cx.waker()) => {}
            _ => *task = Some(cx.waker().clone()),
        }
    }

    fn failure(&self) -> Option<io::Error> {
        let text = "the peer did not read what it asked for";
        self.is_over.get().then(|| io::Error::new(io::ErrorKind::TimedOut, text))
    }
}

/// A stream whose writes [`Taking`] sees.
#[derive(Debug)]
pub struct WatchedStream<S> {
    stream: S,
    taking: Rc<Taking>,
}

impl<S> WatchedStream<S> {
    /// The same stream, watched.
    pub fn new(stream: S, taking: Rc<Taking>) -> Self {
        Self { stream, taking }
    }

    /// The stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.taking.failure() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut self.stream).poll_read(cx, buffer),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(error) = self.taking.failure() {
            return Poll::Ready(Err(error));
        }
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.taking.wrote(cx, &wrote);
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.taking.failure() {
            return Poll::Ready(Err(error));
        }
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.taking.flushed(cx, &flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.taking.failure() {
            return Poll::Ready(Err(error));
        }
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.taking.flushed(cx, &shut);
        shut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A peer that takes what `len` says of each write; 0: nothing.
    struct ThrottledWriter(usize);

    /// One that takes everything, and keeps it.
    struct KeepingWriter;

    impl AsyncWrite for KeepingWriter {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush(cx)
        }
    }

    #[test]
    fn what_is_taken_and_not_sent_on_counts() {
        type Stream = WatchedStream<KeepingWriter>;
        type Flush = fn(Pin<&mut Stream>, &mut Context<'_>) -> Poll<io::Result<()>>;
        let ways: [Flush; 2] = [AsyncWrite::poll_flush, AsyncWrite::poll_shutdown];
        for flush in ways {
            let (taking, now) = (Taking::new(), Instant::now());
            let mut stream = WatchedStream::new(KeepingWriter, Rc::clone(&taking));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut stream).poll_write(&mut cx, b"answer").is_ready());
            assert!(!taking.is_blocked());
            assert!(flush(Pin::new(&mut stream), &mut cx).is_pending());
            assert!(!taking.check(now, SECOND) && taking.check(now + SECOND, SECOND));
            assert!(matches!(flush(Pin::new(&mut stream), &mut cx), Poll::Ready(Err(_))));
        }
    }

    impl AsyncWrite for ThrottledWriter {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            match self.0 {
                0 => Poll::Pending,
                len => Poll::Ready(Ok(len.min(bytes.len()))),
            }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    struct SlowConnection {
        stream: WatchedStream<ThrottledWriter>,
        taking: Rc<Taking>,
        now: Instant,
    }

    impl SlowConnection {
        fn new() -> Self {
            let taking = Taking::new();
            let stream = WatchedStream::new(ThrottledWriter(0), Rc::clone(&taking));
            Self { stream, taking, now: Instant::now() }
        }

        /// The peer takes up to `len` bytes, and no more are taken after them.
        fn write(&mut self, len: usize) -> io::Result<()> {
            let mut cx = Context::from_waker(Waker::noop());
            for len in [len, 0] {
                self.stream.stream.0 = len;
                let wrote = Pin::new(&mut self.stream).poll_write(&mut cx, &[0; 1 << 20]);
                match wrote {
                    Poll::Ready(Err(error)) => return Err(error),
                    Poll::Ready(Ok(_)) | Poll::Pending => {}
                }
            }
            Ok(())
        }

        fn check_after(&mut self, time: Duration) -> bool {
            self.now += time;
            self.taking.check(self.now, 10 * SECOND)
        }
    }

    #[test]
    fn a_peer_that_takes_nothing_or_a_byte_a_second_is_left() {
        for len in [0, 1] {
            let mut connection = SlowConnection::new();
            connection.write(len).unwrap();
            for n in 0..10 {
                assert!(!connection.check_after(SECOND), "after {n} s");
                connection.write(len).unwrap();
            }
            assert!(connection.check_after(SECOND));
            let error = connection.write(1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(!connection.check_after(SECOND), "once");
        }
    }

    #[test]
    fn a_slow_peer_and_one_that_takes_all_are_served() {
        let mut slow = SlowConnection::new();
        let mut quick = SlowConnection::new();
        for _ in 0..100 {
            slow.write(150_000).unwrap();
            assert!(!slow.check_after(SECOND));
            // All that there is.
            let mut cx = Context::from_waker(Waker::noop());
            quick.stream.stream.0 = 100;
            assert!(Pin::new(&mut quick.stream).poll_write(&mut cx, b"answer").is_ready());
            assert!(!quick.check_after(SECOND));
        }
    }
}
