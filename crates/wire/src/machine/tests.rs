//! A machine that echoes lines, on real sockets.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Reports every line, and sends whatever it is told to.
#[derive(Default)]
struct LineMachine {
    seen: std::collections::VecDeque<BytesMut>,
    output: BytesMut,
    due: Option<Instant>,
    n_timeouts: u32,
    finished: bool,
    waits: Waits,
}

impl Machine for LineMachine {
    type Event = BytesMut;
    type Error = Infallible;

    fn handle_bytes(&mut self, _: Instant, input: &mut BytesMut) -> Result<(), Infallible> {
        while let Some(end) = input.iter().position(|&byte| byte == b'\n') {
            self.seen.push_back(input.split_to(end + 1));
        }
        Ok(())
    }
    fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.n_timeouts += 1;
            self.finished = true;
        }
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
    fn poll_event(&mut self) -> Option<BytesMut> {
        self.seen.pop_front()
    }
    fn transmit(&mut self) -> &mut BytesMut {
        &mut self.output
    }
    fn is_finished(&self) -> bool {
        self.finished
    }
    fn waits(&mut self) -> Option<&mut Waits> {
        Some(&mut self.waits)
    }
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connecting = TcpStream::connect(listener.local_addr().unwrap());
    let (near, accepted) = tokio::join!(connecting, listener.accept());
    (near.unwrap(), accepted.unwrap().0)
}

fn on_local_runtime(test: impl Future<Output = ()> + 'static) {
    let runtime = tokio::runtime::LocalRuntime::new().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(20), test).await.expect("test hangs");
    });
}

#[test]
fn a_handler_may_use_the_connection_that_it_is_called_for() {
    on_local_runtime(async {
        let (near, far) = pair().await;
        let echo = Conn::new(LineMachine::default());
        tokio::task::spawn_local(async move {
            drive(far, &echo, |line| echo.with(|machine| machine.output.extend(line))).await;
        });
        let conn = Conn::new(LineMachine::default());
        let text: Vec<u8> = (0..200_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        conn.with(|machine| machine.output.extend_from_slice(&text));
        let mut seen = Vec::new();
        let ending = drive(near, &conn, |line| {
            seen.extend_from_slice(&line);
            conn.with(|machine| machine.finished = seen.len() == text.len());
        })
        .await;
        assert!(matches!(ending, Ending::Finished), "{ending}");
        assert!(seen == text);
    });
}

/// Counts how often it was woken.
#[derive(Default)]
struct Counting(AtomicU32);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_driver_is_woken_once_a_turn() {
    let conn = Conn::new(LineMachine::default());
    let touch = || conn.with(|machine| machine.output.extend_from_slice(b"\n"));
    let driver = Arc::new(Counting::default());
    let n_woken = || driver.0.load(Relaxed);
    touch();
    for n_turns in 0..3 {
        conn.attend(&Arc::clone(&driver).into());
        touch();
        assert_eq!(n_woken(), n_turns, "it is at work");
        conn.rest();
        touch();
        touch();
        assert_eq!(n_woken(), n_turns + 1, "it was called already");
    }
}

#[test]
fn a_timeout_that_moves_nearer_is_kept() {
    on_local_runtime(async {
        let (near, _far) = pair().await;
        let start = Instant::now();
        let conn = Conn::new(LineMachine {
            due: Some(start + Duration::from_secs(3600)),
            ..LineMachine::default()
        });
        let mover = conn.clone();
        tokio::task::spawn_local(async move {
            mover.with(|machine| machine.due = Some(start + Duration::from_millis(20)));
        });
        let ending = drive(near, &conn, drop).await;
        assert!(matches!(ending, Ending::Finished), "{ending}");
        assert_eq!(conn.look(|machine| machine.n_timeouts), 1);
        assert!(Duration::from_millis(20) <= start.elapsed());
    });
}

#[test]
fn the_end_of_the_peer_is_reported() {
    on_local_runtime(async {
        let (near, far) = pair().await;
        drop(far);
        let ending = drive(near, &Conn::new(LineMachine::default()), drop).await;
        assert!(matches!(ending, Ending::PeerClosed), "{ending}");
    });
}

#[test]
fn what_a_peer_sent_before_it_left_is_handed_over() {
    use tokio::io::AsyncWriteExt;
    on_local_runtime(async {
        let (mut near, far) = pair().await;
        const N_LINES: usize = 5000;
        let lines = b"a line\n".repeat(N_LINES);
        near.write_all(&lines).await.unwrap();
        while far.peek(&mut vec![0; lines.len()]).await.unwrap() < lines.len() {
            tokio::task::yield_now().await;
        }
        drop(near);
        let echo = Conn::new(LineMachine::default());
        let mut n_seen = 0;
        let ending = drive_slices(
            far,
            &echo,
            |_| 100,
            |lines| {
                n_seen += lines.len();
                echo.with(|machine| machine.output.extend(lines.drain(..).flatten()));
            },
        )
        .await;
        assert!(matches!(ending, Ending::PeerClosed), "{ending}");
        assert_eq!(n_seen, N_LINES);
    });
}

#[test]
fn a_peer_that_still_writes_reads_all_before_the_socket_is_closed() {
    use tokio::io::AsyncWriteExt;
    on_local_runtime(async {
        let (mut near, mut far) = pair().await;
        const LEN: usize = 8 << 20;
        let conn = Conn::new(LineMachine { finished: true, ..LineMachine::default() });
        conn.with(|machine| machine.output.extend_from_slice(&vec![7; LEN]));
        let driving = tokio::task::spawn_local(async move {
            let ending = drive(&mut near, &conn, drop).await;
            linger(near).await;
            ending
        });
        let (mut n_read, mut bytes) = (0, vec![0; 64 << 10]);
        while n_read < LEN {
            far.write_all(b"wait").await.unwrap();
            n_read += far.read(&mut bytes).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(n_read, LEN);
        drop(far);
        let ending = driving.await.unwrap();
        assert!(matches!(ending, Ending::Finished), "{ending}");
    });
}

/// A stream of which nothing comes and which takes nothing, not even its end.
struct Dead;

impl AsyncRead for Dead {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Dead {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_peer_that_never_closes_is_not_waited_for_without_end() {
    on_local_runtime(async {
        // The clock goes on by itself when there is nothing to do but wait.
        tokio::time::pause();
        let waited = |start: tokio::time::Instant| {
            (drive::LINGER..2 * drive::LINGER).contains(&start.elapsed())
        };
        let start = tokio::time::Instant::now();
        linger(Dead).await;
        assert!(waited(start), "{:?}", start.elapsed());

        let start = tokio::time::Instant::now();
        let conn = Conn::new(LineMachine::default());
        conn.with(|machine| machine.output.extend_from_slice(b"a line\n"));
        let ending = drive(Dead, &conn, drop::<BytesMut>).await;
        assert!(matches!(ending, Ending::Io(_)), "{ending}");
        assert!(waited(start), "{:?}", start.elapsed());
    });
}

/// Echoes bytes, and wants no more input while too much of its output waits.
#[derive(Default)]
struct Cautious {
    output: BytesMut,
}

impl Machine for Cautious {
    type Event = Infallible;
    type Error = Infallible;

    fn handle_bytes(&mut self, _: Instant, input: &mut BytesMut) -> Result<(), Infallible> {
        self.output.unsplit(input.split());
        Ok(())
    }
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }
    fn transmit(&mut self) -> &mut BytesMut {
        &mut self.output
    }
    fn is_finished(&self) -> bool {
        false
    }
    fn wants_input(&self) -> bool {
        self.output.is_empty()
    }
}

#[test]
fn a_machine_that_holds_its_peer_back_reads_on_later() {
    use tokio::io::AsyncWriteExt;
    on_local_runtime(async {
        let (near, far) = pair().await;
        tokio::task::spawn_local(async move {
            drive(far, &Conn::new(Cautious::default()), |event| match event {}).await;
        });
        let (mut reader, mut writer) = near.into_split();
        const LEN: usize = 8 << 20;
        // The writer comes back and stays open: with its end the driver would give up what it
        // still has to write.
        let writing = tokio::task::spawn_local(async move {
            writer.write_all(&vec![7; LEN]).await.unwrap();
            writer
        });
        let mut echo = vec![0; LEN];
        reader.read_exact(&mut echo).await.unwrap();
        let _writer = writing.await.unwrap();
        assert!(echo.iter().all(|byte| *byte == 7));
    });
}

/// Lets the driver run until `is_so`.
async fn until(conn: &Conn<LineMachine>, is_so: impl Fn(&LineMachine) -> bool) {
    while !conn.look(&is_so) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn it_is_known_how_long_the_peer_keeps_a_connection_in_the_midst_of_a_message() {
    on_local_runtime(async {
        let (near, mut far) = pair().await;
        let conn = Conn::new(LineMachine::default());
        let driven = conn.clone();
        tokio::task::spawn_local(async move { drive(near, &driven, drop).await });
        let is_waiting = |lines: &LineMachine| lines.waits.rest.is_going_on();
        far.write_all(b"a line, and the beginn").await.unwrap();
        until(&conn, is_waiting).await;
        far.write_all(b"ing of another\n").await.unwrap();
        until(&conn, |lines| !is_waiting(lines)).await;

        let is_full = |lines: &LineMachine| lines.waits.room.is_going_on();
        assert!(!conn.look(is_full));
        let len = 64 << 20;
        conn.with(|lines| lines.output.resize(len, b'.'));
        until(&conn, is_full).await;
        let mut read = vec![0; len];
        far.read_exact(&mut read).await.unwrap();
        until(&conn, |lines| !is_full(lines)).await;
        assert!(!Duration::is_zero(&conn.look(|lines| lines.waits.total(Instant::now()))));
    });
}

/// Takes frames of [`FRAME_LEN`] bytes, and sends as many.
#[derive(Default)]
struct Frames {
    /// What was in the input whenever something had come, and how much room it had.
    seen: Vec<(usize, usize)>,
    output: BytesMut,
}

const FRAME_LEN: usize = 5_000_000;

impl Machine for Frames {
    type Event = Infallible;
    type Error = Infallible;

    fn handle_bytes(&mut self, _: Instant, input: &mut BytesMut) -> Result<(), Infallible> {
        self.seen.push((input.len(), input.capacity()));
        if FRAME_LEN <= input.len() {
            drop(input.split_to(FRAME_LEN));
        }
        Ok(())
    }
    fn room_for(&self, _: &BytesMut) -> Option<usize> {
        Some(FRAME_LEN)
    }
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }
    fn transmit(&mut self) -> &mut BytesMut {
        &mut self.output
    }
    fn is_finished(&self) -> bool {
        false
    }
}

/// A socket that always has more, and takes all.
#[derive(Clone, Default)]
struct Endless {
    n_read: Rc<Cell<usize>>,
    n_written: Rc<Cell<usize>>,
}

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.n_read.set(self.n_read.get() + buffer.remaining());
        buffer.initialize_unfilled();
        buffer.advance(buffer.remaining());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.n_written.set(self.n_written.get() + bytes.len());
        Poll::Ready(Ok(bytes.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// However much there is to be read and written, others get their turns in between, and what has
/// come of a long message is not moved again and again.
#[tokio::test]
async fn long_messages_take_many_turns_and_little_room() {
    let (conn, stream) = (Conn::new(Frames::default()), Endless::default());
    conn.with(|machine| machine.output = BytesMut::zeroed(FRAME_LEN));
    let mut driver = std::pin::pin!(drive(stream.clone(), &conn, |event| match event {}));
    let (mut n_turns, mut n_frames) = (0, 0);
    while n_frames < 3 || stream.n_written.get() < FRAME_LEN {
        let seen = std::future::poll_fn(|cx| {
            assert!(driver.as_mut().poll(cx).is_pending());
            Poll::Ready(conn.with(|machine| std::mem::take(&mut machine.seen)))
        })
        .await;
        n_turns += 1;
        let (n_before, mut n_read) = (n_frames, 0);
        for (len, room_len) in seen {
            assert!(room_len <= FRAME_LEN.max(2 * len), "{room_len} for {len} bytes");
            n_frames += usize::from(FRAME_LEN <= len);
            n_read += 1;
        }
        assert!(n_read <= 4 && n_frames <= n_before + 1, "{n_read} {n_frames}");
        tokio::task::yield_now().await;
    }
    let (per_turn, n_read, n_written) = (1 << 20, stream.n_read.get(), stream.n_written.get());
    assert!(n_read <= n_turns * per_turn, "{n_read} in {n_turns} turns");
    assert!(n_written <= n_turns * per_turn / 2, "{n_written} in {n_turns} turns");
}
