//! Runs a machine on a socket.
//!
//! A turn: read what has come, have it decoded, hand over a slice of the events, write what is to
//! be sent. Events beyond the slice wait for the next turn, so that what the first of them led to
//! is on its way while the last are worked on: with many calls in flight neither side waits for
//! the other.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Sleep;

use super::{Ending, Machine, SharedMachine};

/// Room for reading that a quiet connection keeps.
const MIN_READ_LEN: usize = 8 * 1024;
/// Room for one read on a busy connection: what a default socket buffer holds at a time.
const MAX_READ_LEN: usize = 256 * 1024;
/// Full reads in one turn before other tasks get theirs.
const MAX_READS_PER_TURN: usize = 4;
/// What is read at a time is halved when it kept the event loop busy for longer than this.
const LONG_READ: Duration = Duration::from_micros(500);
/// A message of which so many bytes are there, and more are to come, gets room for the rest at
/// once, so that it is not moved again and again as it grows.
const LONG_LEN: usize = 64 * 1024;
/// Writes in one turn before other tasks get theirs.
const MAX_WRITES_PER_TURN: usize = 16;
/// What one write takes at most, and all of a turn: about a tenth of a millisecond each.
const MAX_WRITE_LEN: usize = 256 * 1024;
const MAX_WRITTEN_PER_TURN: usize = 512 * 1024;
/// The shortest slice of events: a write costs about as much as ten calls.
const MIN_SLICE_LEN: usize = 8;
/// A write buffer that has grown beyond this is given back once it is empty.
const KEEP_WRITE_LEN: usize = 1024 * 1024;
/// A read buffer that has grown beyond this is given back once it is empty.
const KEEP_READ_LEN: usize = 1024 * 1024;
/// How long a connection that is over on one side waits for the end of the other.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// How many of the events of a connection with so many calls in flight make a slice: half of them,
/// so that the peer works on one half while we work on the other. Fewer than the least number
/// would not be worth a write.
#[must_use]
#[inline]
pub fn slice_len(n_calls: usize) -> usize {
    (n_calls / 2).max(MIN_SLICE_LEN)
}

/// Runs the machine of `conn` on `stream` until it ends; every event goes to `on_event`.
///
/// What the peer has sent before it left is handed over whole, also if nothing can be written to
/// it any more. When the machine has finished, this side's direction is closed, but not yet the
/// socket: see [`linger`].
///
/// The caller takes what is still pending out of the machine afterwards.
pub async fn drive<C, M, S>(
    stream: S,
    conn: &C,
    mut on_event: impl FnMut(M::Event),
) -> Ending<M::Error>
where
    C: SharedMachine<Machine = M>,
    M: Machine,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let all = |_: &M| usize::MAX;
    drive_slices(stream, conn, all, |events| events.drain(..).for_each(&mut on_event)).await
}

/// As [`drive`], with events in slices, each of them of one turn; `slice_len` says how long they
/// are, such as `slice_len` of the calls in flight.
///
/// `on_events` need not empty the slice; what it leaves is dropped.
pub async fn drive_slices<C, M, S>(
    mut stream: S,
    conn: &C,
    slice_len: impl Fn(&M) -> usize,
    mut on_events: impl FnMut(&mut Vec<M::Event>),
) -> Ending<M::Error>
where
    C: SharedMachine<Machine = M>,
    M: Machine,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut turn = DriveState {
        input: BytesMut::new(),
        output: BytesMut::new(),
        is_unflushed: false,
        is_unheard: false,
        read_len: MIN_READ_LEN,
        events: Vec::new(),
        has_more_events: false,
    };
    let first_timeout = conn.lock(|machine| machine.poll_timeout()).unwrap_or_else(Instant::now);
    let mut timer = pin!(tokio::time::sleep_until(first_timeout.into()));
    let mut turns = |cx: &mut Context<'_>| {
        turn.poll(cx, conn, &mut stream, timer.as_mut(), &slice_len, &mut on_events)
    };
    let ending = poll_fn(&mut turns).await;
    let Ending::Io(error) = &ending else { return ending };
    // What the peer sent before it stopped reading still counts.
    match tokio::time::timeout(LINGER, poll_fn(turns)).await {
        Ok(Ending::PeerClosed) if error.kind() == ErrorKind::BrokenPipe => Ending::PeerClosed,
        _ => ending,
    }
}

/// Reads what nobody needs any more until the peer closes its side, for some seconds at most.
///
/// Closing a socket with unread bytes resets the connection, and the peer then loses what was
/// still on its way to it. The side that finishes first stays for this.
pub async fn linger(mut stream: impl AsyncRead + Unpin) {
    let mut unread = BytesMut::with_capacity(MIN_READ_LEN);
    let to_end = async {
        while let Ok(1..) = stream.read_buf(&mut unread).await {
            unread.clear();
        }
    };
    let _ = tokio::time::timeout(LINGER, to_end).await;
}

/// How a turn's reading has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reading {
    /// The task is woken when there is more.
    Registered,
    /// The machine wants no more for now; nothing wakes the task for what the peer sends.
    HeldBack,
}

/// What a driver keeps from turn to turn.
struct DriveState<E> {
    input: BytesMut,
    /// Taken from the machine and not written yet.
    output: BytesMut,
    /// The stream was given bytes, and may still hold them.
    is_unflushed: bool,
    /// Nothing can be written any more; what was sent before is still read.
    is_unheard: bool,
    read_len: usize,
    events: Vec<E>,
    has_more_events: bool,
}

impl<E> DriveState<E> {
    fn poll<C, M, S>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &C,
        stream: &mut S,
        timer: Pin<&mut Sleep>,
        slice_len: &impl Fn(&M) -> usize,
        on_events: &mut impl FnMut(&mut Vec<E>),
    ) -> Poll<Ending<M::Error>>
    where
        C: SharedMachine<Machine = M>,
        M: Machine<Event = E>,
        S: AsyncRead + AsyncWrite + Unpin,
    {
        conn.attend(cx.waker());
        let read = match self.has_more_events {
            true => Ok(Reading::HeldBack),
            false => self.read(cx, conn, stream),
        };
        poll_timer(cx, conn, timer);
        // Slices are for what is written meanwhile.
        let is_last = read.is_err() || self.is_unheard;
        self.dispatch(conn, slice_len, on_events, is_last);
        conn.rest();
        let is_written = self.write(cx, conn, stream);
        let is_held_back = match read {
            Ok(reading) => reading == Reading::HeldBack,
            Err(ending) => {
                // What the machine had to say to the peer (why it hangs up) was worth one try, and
                // so is TLS's word that nothing was cut off.
                let _ = Pin::new(stream).poll_shutdown(cx);
                return Poll::Ready(ending);
            }
        };
        let is_written = match is_written {
            Ok(is_written) => is_written,
            Err(error) => {
                self.is_unheard = true;
                return Poll::Ready(error.into());
            }
        };
        // What was read before the end is still handed over.
        let is_over = |machine: &mut M| {
            (machine.is_broken() || is_written && machine.is_finished()) && !machine.has_events()
        };
        if !self.has_more_events && conn.lock(is_over) {
            let _ = Pin::new(stream).poll_shutdown(cx);
            return Poll::Ready(Ending::Finished);
        }
        if self.has_more_events && conn.lock(|machine| slice_len(machine)) == 0 {
            // The next slice waits until more is written, and that wakes the task.
            return Poll::Pending;
        }
        let goes_on =
            |machine: &mut M| machine.has_events() || is_held_back && machine.wants_input();
        if self.has_more_events || conn.lock(goes_on) {
            // Nothing else would wake the task for what is still to be done.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Reads what is there, up to a fair share, and has it decoded.
    fn read<C, M, S>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &C,
        stream: &mut S,
    ) -> Result<Reading, Ending<M::Error>>
    where
        C: SharedMachine<Machine = M>,
        M: Machine<Event = E>,
        S: AsyncRead + Unpin,
    {
        let mut first_at = None;
        for n_reads in 0..MAX_READS_PER_TURN {
            if let Some(first_at) = first_at
                && LONG_READ < Instant::now().saturating_duration_since(first_at)
            {
                self.read_len = (self.read_len / 2).max(MIN_READ_LEN);
                wake_after_others(cx);
                return Ok(Reading::Registered);
            }
            let (wants_input, has_backlog) =
                conn.lock(|machine| (machine.wants_input(), machine.has_backlog()));
            if !wants_input {
                return Ok(Reading::HeldBack);
            }
            let mut is_more_there = has_backlog;
            if !has_backlog {
                match self.input.len() < LONG_LEN {
                    true => self.input.reserve(self.read_len),
                    false => self.make_room_for_rest(conn),
                }
                let mut room_len = self.input.capacity() - self.input.len();
                let read = match room_len <= MAX_READ_LEN {
                    true => pin!(stream.read_buf(&mut self.input)).poll(cx)?,
                    false => {
                        room_len = self.read_len;
                        self.read_part(cx, stream)?
                    }
                };
                let Poll::Ready(read_len) = read else { return Ok(Reading::Registered) };
                if read_len == 0 {
                    return Err(Ending::PeerClosed);
                }
                is_more_there = read_len == room_len;
                if is_more_there {
                    self.read_len = (self.read_len * 2).min(MAX_READ_LEN);
                }
            } else if n_reads != 0 {
                // What was read led to events enough.
                break;
            }
            let now = Instant::now();
            first_at.get_or_insert(now);
            let handled = conn.lock(|machine| {
                let handled = machine.handle_bytes(now, &mut self.input);
                let is_amid = !self.input.is_empty() || machine.is_amid_message();
                if let Some(waits) = machine.waits() {
                    // What the socket still has does not have to be waited for.
                    waits.rest.progress(now, !is_more_there && is_amid);
                }
                handled
            });
            handled.map_err(Ending::Protocol)?;
            if self.input.is_empty() && KEEP_READ_LEN < self.input.capacity() {
                self.input = BytesMut::new();
            }
        }
        cx.waker().wake_by_ref();
        Ok(Reading::Registered)
    }

    /// Makes room for the rest of a message of which much is there, and for no more: what comes
    /// after it must not have all of it moved.
    #[cold]
    fn make_room_for_rest<C, M>(&mut self, conn: &C)
    where
        C: SharedMachine<Machine = M>,
        M: Machine<Event = E>,
    {
        let whole_len = conn.lock(|machine| machine.room_for(&self.input));
        let rest_len = whole_len.and_then(|len| len.checked_sub(self.input.len()));
        self.input.reserve(rest_len.filter(|len| *len != 0).unwrap_or(self.read_len));
    }

    /// Reads what may be read at a time, where there is room for more.
    #[cold]
    fn read_part<S>(&mut self, cx: &mut Context<'_>, stream: &mut S) -> std::io::Result<Poll<usize>>
    where
        S: AsyncRead + Unpin,
    {
        let mut room = (&mut self.input).limit(self.read_len);
        let read = pin!(stream.read_buf(&mut room)).poll(cx)?;
        Ok(read)
    }

    /// Hands events to their handler while nobody holds the machine: a slice, or all of them if
    /// these are the last.
    fn dispatch<C, M>(
        &mut self,
        conn: &C,
        slice_len: &impl Fn(&M) -> usize,
        on_events: &mut impl FnMut(&mut Vec<E>),
        is_last: bool,
    ) where
        C: SharedMachine<Machine = M>,
        M: Machine<Event = E>,
    {
        loop {
            self.has_more_events = conn.lock(|machine| {
                let slice_len = if is_last { usize::MAX } else { slice_len(machine) };
                while self.events.len() < slice_len
                    && let Some(event) = machine.poll_event()
                {
                    self.events.push(event);
                }
                self.events.len() == slice_len && (slice_len != 0 || machine.has_events())
            });
            if self.events.is_empty() {
                return;
            }
            on_events(&mut self.events);
            self.events.clear();
            if self.has_more_events && !is_last {
                return;
            }
        }
    }

    /// Writes what waits; `true` if nothing is left. The machine is not held meanwhile.
    fn write<C, M, S>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &C,
        stream: &mut S,
    ) -> std::io::Result<bool>
    where
        C: SharedMachine<Machine = M>,
        M: Machine,
        S: AsyncWrite + Unpin,
    {
        if self.is_unheard {
            let take_output = |machine: &mut M| std::mem::take(machine.transmit());
            while !conn.lock(take_output).is_empty() {}
            return Ok(true);
        }
        let mut written_len = 0;
        for _ in 0..MAX_WRITES_PER_TURN {
            if MAX_WRITTEN_PER_TURN <= written_len {
                break;
            }
            if self.output.is_empty() {
                if self.output.capacity() > KEEP_WRITE_LEN {
                    self.output = BytesMut::new();
                }
                conn.lock(|machine| std::mem::swap(machine.transmit(), &mut self.output));
            }
            if self.output.is_empty() {
                // A TLS stream may still hold what was written to it.
                if Pin::new(stream).poll_flush(cx)?.is_pending() {
                    return Ok(false);
                }
                if std::mem::take(&mut self.is_unflushed) {
                    let now = Instant::now();
                    conn.lock(|machine| {
                        if let Some(waits) = machine.waits() {
                            waits.room.progress(now, false);
                        }
                        machine.handle_written(now);
                    });
                }
                return Ok(true);
            }
            let len = self.output.len().min(MAX_WRITE_LEN);
            match Pin::new(&mut *stream).poll_write(cx, &self.output[..len])? {
                Poll::Pending => {
                    conn.lock(|machine| note_full(machine, written_len != 0));
                    return Ok(false);
                }
                Poll::Ready(0) => return Err(ErrorKind::WriteZero.into()),
                Poll::Ready(len) => {
                    if len == self.output.len() {
                        self.output.clear();
                    } else {
                        self.output.advance(len);
                    }
                    (self.is_unflushed, written_len) = (true, written_len + len);
                }
            }
        }
        wake_after_others(cx);
        Ok(false)
    }
}

/// Wakes the task when the others have had their turn, and their sockets were looked at: one that
/// is woken at once may have many turns before that.
#[cold]
fn wake_after_others(cx: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

/// The socket takes no more for now.
#[cold]
fn note_full(machine: &mut impl Machine, has_written: bool) {
    let Some(waits) = machine.waits() else { return };
    match has_written {
        true => waits.room.progress(Instant::now(), true),
        false => waits.room.begin(Instant::now()),
    }
}

/// Lets the machine see its timeout, and has the task woken for the next one.
///
/// The timer is only ever moved when it is too late or has fired: deadlines move with nearly every
/// call, and an early wake-up is cheaper than arming a timer that often.
fn poll_timer<C, M>(cx: &mut Context<'_>, conn: &C, mut timer: Pin<&mut Sleep>)
where
    C: SharedMachine<Machine = M>,
    M: Machine,
{
    let Some(due) = conn.lock(|machine| machine.poll_timeout()) else {
        return;
    };
    if due < timer.deadline().into_std() {
        timer.as_mut().reset(due.into());
    }
    while timer.as_mut().poll(cx).is_ready() {
        let now = Instant::now();
        let next = conn.lock(|machine| {
            machine.handle_timeout(now);
            machine.poll_timeout()
        });
        match next {
            Some(next) if now < next => timer.as_mut().reset(next.into()),
            // Due at once, or at no time: look again a little later.
            _ => timer.as_mut().reset((now + Duration::from_millis(1)).into()),
        }
    }
}
