//! Drives a connection's state machine on a socket, on one thread.
//!
//! The machine is pure; [`drive`] owns the socket, the clock and the task. All that a turn of the
//! event loop makes ready is decoded in one batch, and all that is to be sent leaves in one write
//! at the end of the turn: nothing is flushed per call, and nothing waits for company.
//!
//! Invariants:
//! - The machine is never borrowed while an event is handled, so that a handler may use any
//!   connection, this one included.
//! - Whoever changes a machine through [`Conn::with`] has its driver woken; nobody else flushes.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Sleep;

/// Room for reading that a quiet connection keeps.
const MIN_READ_LEN: usize = 8 * 1024;
/// Room for one read on a busy connection: what a default socket buffer holds at a time.
const MAX_READ_LEN: usize = 256 * 1024;
/// Full reads in one turn before other tasks get theirs.
const MAX_READS_PER_TURN: usize = 4;
/// Writes in one turn before other tasks get theirs.
const MAX_WRITES_PER_TURN: usize = 16;

/// A connection without I/O: bytes, instants and calls in; bytes and events out.
pub trait Machine {
    /// What the machine reports to its owner.
    type Event;
    /// Why the peer's bytes were refused.
    type Error: std::error::Error;

    /// Consumes the whole frames at the front of `input`, and leaves the rest.
    ///
    /// # Errors
    /// The peer broke the protocol; the connection is of no more use.
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), Self::Error>;
    /// Does what was due at [`Machine::poll_timeout`].
    fn handle_timeout(&mut self, now: Instant);
    /// When [`Machine::handle_timeout`] wants to be called next.
    fn poll_timeout(&self) -> Option<Instant>;
    /// The next event, oldest first.
    fn poll_event(&mut self) -> Option<Self::Event>;
    /// Bytes that wait to be written; the driver takes them off the front.
    fn transmit(&mut self) -> &mut BytesMut;
    /// Whether the connection is to be closed once [`Machine::transmit`] is empty.
    fn is_finished(&self) -> bool;
    /// Whether more input is welcome; `false` holds the peer back by TCP.
    fn wants_input(&self) -> bool {
        true
    }
}

/// A connection that many tasks of one thread share.
pub struct Conn<M>(Rc<Shared<M>>);

struct Shared<M> {
    machine: RefCell<M>,
    driver: RefCell<Option<Waker>>,
    /// The driver is at work, and will look at the machine once more before it rests.
    is_attended: Cell<bool>,
}

impl<M> Clone for Conn<M> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<M> Conn<M> {
    /// A connection that [`drive`] will run.
    pub fn new(machine: M) -> Self {
        let (driver, is_attended) = (RefCell::new(None), Cell::new(false));
        Self(Rc::new(Shared { machine: RefCell::new(machine), driver, is_attended }))
    }

    /// Changes the machine; what that leaves to be sent goes out at the end of this turn.
    pub fn with<R>(&self, change: impl FnOnce(&mut M) -> R) -> R {
        let result = change(&mut self.0.machine.borrow_mut());
        if self.0.is_attended.get() {
            return result;
        }
        if let Some(driver) = self.0.driver.borrow().as_ref() {
            driver.wake_by_ref();
        }
        result
    }

    /// Looks at the machine.
    pub fn look<R>(&self, look: impl FnOnce(&M) -> R) -> R {
        look(&self.0.machine.borrow())
    }

    /// Whether both are handles of the same connection.
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    fn set_driver(&self, waker: &Waker) {
        let mut driver = self.0.driver.borrow_mut();
        match driver.as_ref() {
            Some(known) if known.will_wake(waker) => {}
            _ => *driver = Some(waker.clone()),
        }
    }
}

/// How a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Ending<E: std::error::Error> {
    /// The machine said that it was done.
    #[error("closed")]
    Finished,
    /// The peer closed its side.
    #[error("the peer closed the connection")]
    PeerClosed,
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The peer broke the protocol.
    #[error("protocol error: {0}")]
    Protocol(E),
}

/// Runs `conn` on `stream` until it ends; every event goes to `on_event`.
///
/// The caller takes what is still pending out of the machine afterwards.
pub async fn drive<M, S>(
    mut stream: S,
    conn: &Conn<M>,
    mut on_event: impl FnMut(M::Event),
) -> Ending<M::Error>
where
    M: Machine,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut turn = Turn { input: BytesMut::new(), read_len: MIN_READ_LEN, events: Vec::new() };
    let first_timeout = conn.look(Machine::poll_timeout).unwrap_or_else(Instant::now);
    let mut timer = pin!(tokio::time::sleep_until(first_timeout.into()));
    poll_fn(|cx| {
        conn.set_driver(cx.waker());
        let ending = turn.poll(cx, conn, &mut stream, timer.as_mut(), &mut on_event);
        match ending {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(Ending::Finished),
            Err(ending) => Poll::Ready(ending),
        }
    })
    .await
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
struct Turn<E> {
    input: BytesMut,
    read_len: usize,
    events: Vec<E>,
}

impl<E> Turn<E> {
    fn poll<M, S>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &Conn<M>,
        stream: &mut S,
        timer: Pin<&mut Sleep>,
        on_event: &mut impl FnMut(E),
    ) -> Result<Poll<()>, Ending<M::Error>>
    where
        M: Machine<Event = E>,
        S: AsyncRead + AsyncWrite + Unpin,
    {
        conn.0.is_attended.set(true);
        let read = self.read(cx, conn, stream);
        poll_timer(cx, conn, timer);
        self.dispatch(conn, on_event);
        conn.0.is_attended.set(false);
        if read.is_err() {
            // What the machine has to say to the peer (why it hangs up) is worth one try.
            let _ = write(cx, conn, stream);
            return read.map(|_| Poll::Pending);
        }
        if write(cx, conn, stream)? && conn.look(Machine::is_finished) {
            let _ = Pin::new(stream).poll_shutdown(cx);
            return Ok(Poll::Ready(()));
        }
        if read? == Reading::HeldBack && conn.look(Machine::wants_input) {
            // The write has made room, and nobody waits for the socket to become readable.
            cx.waker().wake_by_ref();
        }
        Ok(Poll::Pending)
    }

    /// Reads what is there, up to a fair share, and has it decoded.
    fn read<M, S>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &Conn<M>,
        stream: &mut S,
    ) -> Result<Reading, Ending<M::Error>>
    where
        M: Machine<Event = E>,
        S: AsyncRead + Unpin,
    {
        for _ in 0..MAX_READS_PER_TURN {
            if !conn.look(Machine::wants_input) {
                return Ok(Reading::HeldBack);
            }
            self.input.reserve(self.read_len);
            let room_len = self.input.capacity() - self.input.len();
            let Poll::Ready(read_len) = pin!(stream.read_buf(&mut self.input)).poll(cx)? else {
                return Ok(Reading::Registered);
            };
            if read_len == 0 {
                return Err(Ending::PeerClosed);
            }
            conn.0
                .machine
                .borrow_mut()
                .handle_bytes(Instant::now(), &mut self.input)
                .map_err(Ending::Protocol)?;
            if read_len == room_len {
                self.read_len = (self.read_len * 2).min(MAX_READ_LEN);
            }
        }
        cx.waker().wake_by_ref();
        Ok(Reading::Registered)
    }

    /// Hands all events to their handler while nobody holds the machine.
    fn dispatch<M: Machine<Event = E>>(&mut self, conn: &Conn<M>, on_event: &mut impl FnMut(E)) {
        loop {
            {
                let mut machine = conn.0.machine.borrow_mut();
                while let Some(event) = machine.poll_event() {
                    self.events.push(event);
                }
            }
            if self.events.is_empty() {
                return;
            }
            self.events.drain(..).for_each(&mut *on_event);
        }
    }
}

/// Writes what waits; `true` if nothing is left.
fn write<M, S>(cx: &mut Context<'_>, conn: &Conn<M>, stream: &mut S) -> std::io::Result<bool>
where
    M: Machine,
    S: AsyncWrite + Unpin,
{
    let mut machine = conn.0.machine.borrow_mut();
    for _ in 0..MAX_WRITES_PER_TURN {
        let output = machine.transmit();
        if output.is_empty() {
            // A TLS stream may still hold what was written to it.
            return match Pin::new(stream).poll_flush(cx)? {
                Poll::Ready(()) => Ok(true),
                Poll::Pending => Ok(false),
            };
        }
        match Pin::new(&mut *stream).poll_write(cx, output)? {
            Poll::Pending => return Ok(false),
            Poll::Ready(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Poll::Ready(written_len) if written_len == output.len() => output.clear(),
            Poll::Ready(written_len) => output.advance(written_len),
        }
    }
    cx.waker().wake_by_ref();
    Ok(false)
}

/// Lets the machine see its timeout, and has the task woken for the next one.
///
/// The timer is only ever moved when it is too late or has fired: deadlines move with nearly every
/// call, and an early wake-up is cheaper than arming a timer that often.
fn poll_timer<M: Machine>(cx: &mut Context<'_>, conn: &Conn<M>, mut timer: Pin<&mut Sleep>) {
    let Some(due) = conn.look(Machine::poll_timeout) else {
        return;
    };
    if due < timer.deadline().into_std() {
        timer.as_mut().reset(due.into());
    }
    while timer.as_mut().poll(cx).is_ready() {
        let now = Instant::now();
        conn.0.machine.borrow_mut().handle_timeout(now);
        match conn.look(Machine::poll_timeout) {
            Some(next) if now < next => timer.as_mut().reset(next.into()),
            // Due at once, or at no time: look again a little later.
            _ => timer.as_mut().reset((now + std::time::Duration::from_millis(1)).into()),
        }
    }
}

#[cfg(test)]
mod tests;
