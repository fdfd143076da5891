//! One round: all callers, from the first line of a transfer to its end.
//!
//! Invariants:
//! - A caller has one request at most. It sends the next one when its line has come whole and was
//!   taken in.
//! - Lines that were taken in are passed on before the event loop sleeps.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use link::{Bound, CallError, Client, Failure, Status};
use tokio::task::JoinSet;

use crate::TransferError;
use crate::handout::{Ask, Handed};
use crate::methods::NEXT;
use crate::wire::{Code, Next, Refusal, Reply};
use crate::writer::Lane;

/// Pause before a request is sent again that could not be answered.
const PAUSE: Duration = Duration::from_millis(20);

/// What the callers of one round share.
pub(super) struct Round {
    /// The method, on each connection.
    next: Vec<Bound<Next, Bytes>>,
    session: u64,
    /// `None` once the round is over.
    lane: RefCell<Option<Lane>>,
    /// The task that flushes the lane, while it sleeps.
    flusher: Cell<Option<Waker>>,
}

impl Round {
    pub(super) fn new(clients: &[Client], lane: Lane, session: u64) -> Self {
        let (lane, flusher) = (RefCell::new(Some(lane)), Cell::new(None));
        let next = clients.iter().map(|client| client.bind(&NEXT)).collect();
        Self { next, session, lane, flusher }
    }

    /// Lets all callers work until each was told of the end.
    ///
    /// # Errors
    /// [`TransferError::UnknownSession`] if the server has forgotten the transfer; or why lines can
    /// no longer be had, or be written.
    pub(super) async fn run(self: Rc<Self>, n_callers: u32) -> Result<(), TransferError> {
        let _end = End(&self);
        let mut flushing = JoinSet::new();
        flushing.spawn_local(Rc::clone(&self).flush_each_turn());
        // Dropped with the first error, and all callers with it.
        let mut callers = JoinSet::new();
        for caller in 0..n_callers {
            callers.spawn_local(Rc::clone(&self).ask(caller));
        }
        while let Some(ended) = callers.join_next().await {
            ended.unwrap_or_else(|panic| {
                Err(TransferError::runtime(std::io::Error::other(panic)))
            })?;
        }
        Ok(())
    }

    /// One caller.
    async fn ask(self: Rc<Self>, caller: u32) -> Result<(), TransferError> {
        let n_connections = u32::try_from(self.next.len()).unwrap_or(1).max(1);
        let at = usize::try_from(caller % n_connections).unwrap_or(0);
        let Some(method) = self.next.get(at) else { return Ok(()) };
        let mut turn = 1;
        loop {
            let next = Next { session: self.session, ask: Ask { caller, turn } };
            let answer = match method.call(next).await {
                Ok(answer) => answer,
                Err(error) => {
                    again(error).await?;
                    continue;
                }
            };
            match Reply::decode(&answer)? {
                Reply::Handed(Handed::Line { number, line }) => {
                    poll_fn(|cx| self.poll_take(number, line, cx)).await?;
                    turn += 1;
                }
                Reply::Handed(Handed::End { .. }) => return Ok(()),
                Reply::Refused(refusal) => match refused(refusal, self.session) {
                    TransferError::BeingAnswered { .. } => tokio::time::sleep(PAUSE).await,
                    error => return Err(error),
                },
            }
        }
    }

    /// Takes a line in as soon as there is room for it.
    #[inline]
    fn poll_take(
        &self,
        number: u64,
        line: &[u8],
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TransferError>> {
        {
            let mut lane = self.lane.borrow_mut();
            let Some(lane) = lane.as_mut() else { return Poll::Pending };
            ready!(lane.poll_room(number, cx))?;
            lane.push(number, line);
        }
        if let Some(flusher) = self.flusher.take() {
            flusher.wake();
        }
        Poll::Ready(Ok(()))
    }

    /// Flushes the lane once a turn: woken by the first line of many, it runs after the callers that
    /// were woken before it.
    async fn flush_each_turn(self: Rc<Self>) {
        poll_fn(|cx| -> Poll<()> {
            if let Some(lane) = self.lane.borrow_mut().as_mut() {
                lane.flush();
            }
            self.flusher.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

/// Passes on what was taken in and lets go of the writer, however the round ends: tasks that are
/// aborted are dropped only later.
struct End<'a>(&'a Round);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.lane.borrow_mut().take();
    }
}

/// What a refusal is to a client.
pub(super) fn refused(refusal: Refusal, session: u64) -> TransferError {
    match refusal.code {
        Code::UnknownSession => TransferError::UnknownSession { session },
        Code::BeingAnswered => TransferError::BeingAnswered { caller: 0, turn: 0 },
        Code::Failed | Code::Busy => TransferError::Refused { text: refusal.text },
    }
}

/// Waits a little, if the call may be made again.
async fn again(error: CallError) -> Result<(), TransferError> {
    match error {
        CallError::Failed(failure) if is_passing(&failure) => {
            tokio::time::sleep(PAUSE).await;
            Ok(())
        }
        CallError::Failed(failure) => Err(TransferError::Call(failure.into())),
        CallError::Service(never) => match never {},
    }
}

/// Whether the same call may well succeed later.
pub(super) fn is_passing(failure: &Failure) -> bool {
    match failure {
        Failure::Timeout(_) | Failure::Unreachable { .. } | Failure::Broken(_) => true,
        Failure::Full(_) => true,
        // The connection ended at a moment at which the library does not look for another one.
        Failure::Closed => true,
        Failure::Refused { status, .. } => {
            matches!(*status, Status::OVERLOADED | Status::REFUSED)
        }
        _ => false,
    }
}
