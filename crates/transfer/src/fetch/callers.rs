//! One round: all callers, from the first line of a transfer to its end.
//!
//! Invariants:
//! - A caller has one request at most. It sends the next one when its line has come whole and was
//!   taken in.
//! - Lines that were taken in are passed on before the event loop sleeps.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use link::{ClientConfig, Failure, Status};
use tokio::task::JoinSet;

use super::caller_tasks::Crew;
use super::connection::{FetchConnection, PayloadResult};
use crate::TransferError;
use crate::handout::{Handed, LineRequest};
use crate::messages::{NextReply, NextRequest, Refusal, RefusalCode};
use crate::writer::LineSender;

/// Pause before a request is sent again that could not be answered.
const PAUSE: Duration = Duration::from_millis(20);

/// What a caller does after an answer.
enum AfterAnswer {
    /// Asks for its next line.
    Next,
    /// Asks for the same one again, a little later.
    Again,
    End,
}

/// Where a round's lines come from, and over how many connections.
#[derive(Clone)]
pub(super) struct RoundSource {
    pub(super) address: String,
    pub(super) config: ClientConfig,
    pub(super) patience: Duration,
    pub(super) connections: u32,
    pub(super) callers: u32,
    pub(super) session: u64,
}

/// What the callers of one round share.
pub(super) struct Round {
    source: RoundSource,
    /// `None` once the round is over.
    sender: RefCell<Option<LineSender>>,
    /// The task that flushes the sender, while it sleeps.
    flusher: Cell<Option<Waker>>,
}

impl Round {
    pub(super) fn new(source: RoundSource, sender: LineSender) -> Self {
        Self { source, sender: RefCell::new(Some(sender)), flusher: Cell::new(None) }
    }

    /// Lets all callers work until each was told of the end.
    ///
    /// # Errors
    /// [`TransferError::UnknownSession`] if the server has forgotten the transfer; or why lines
    /// can no longer be had, or be written.
    pub(super) async fn run(self: Rc<Self>) -> Result<(), TransferError> {
        let _end = RoundEnd(&self);
        let mut flushing = JoinSet::new();
        flushing.spawn_local(Rc::clone(&self).flush_each_turn());
        // Dropped with the first error, and all callers with it.
        let mut connections = JoinSet::new();
        for first in 0..self.source.connections {
            connections.spawn_local(Rc::clone(&self).work(first));
        }
        while let Some(ended) = connections.join_next().await {
            ended.unwrap_or_else(|panic| {
                Err(TransferError::runtime(std::io::Error::other(panic)))
            })?;
        }
        Ok(())
    }

    /// One connection, with its share of the callers, from `first` on.
    async fn work(self: Rc<Self>, first: u32) -> Result<(), TransferError> {
        let RoundSource { address, config, patience, connections, callers, .. } = &self.source;
        let step = usize::try_from(*connections).unwrap_or(1).max(1);
        let callers: Vec<u32> = (first..*callers).step_by(step).collect();
        let connection = FetchConnection::new(address, config.clone(), *patience, callers.len());
        let seats = 0_u32..;
        let crew =
            Crew::new(seats.zip(callers).map(|(seat, caller)| self.ask(&connection, seat, caller)));
        connection.work(&crew).await
    }

    /// One caller.
    async fn ask(
        &self,
        connection: &FetchConnection,
        seat: u32,
        caller: u32,
    ) -> Result<(), TransferError> {
        let mut turn = 1;
        loop {
            let next =
                NextRequest { session: self.source.session, ask: LineRequest { caller, turn } };
            connection.ask(seat, next.to_bytes());
            match connection.answered(seat, |answer, cx| self.poll_take(answer, cx)).await? {
                AfterAnswer::Next => turn += 1,
                AfterAnswer::End => return Ok(()),
                // In a box: thousands of callers lie side by side, and few of them pause.
                AfterAnswer::Again => Box::pin(tokio::time::sleep(PAUSE)).await,
            }
        }
    }

    /// Takes an answer in, a line as soon as there is room for it.
    #[inline]
    fn poll_take(
        &self,
        answer: PayloadResult<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<AfterAnswer, TransferError>> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) if is_passing(failure) => return Poll::Ready(Ok(AfterAnswer::Again)),
            Err(failure) => return Poll::Ready(Err(TransferError::Call(Arc::clone(failure)))),
        };
        match NextReply::decode(answer)? {
            NextReply::Handed(Handed::Line { number, line }) => {
                ready!(self.poll_push(number, line, cx))?;
                Poll::Ready(Ok(AfterAnswer::Next))
            }
            NextReply::Handed(Handed::End { .. }) => Poll::Ready(Ok(AfterAnswer::End)),
            NextReply::Refused(refusal) => {
                Poll::Ready(match refused(refusal, self.source.session) {
                    TransferError::BeingAnswered { .. } => Ok(AfterAnswer::Again),
                    error => Err(error),
                })
            }
        }
    }

    #[inline]
    fn poll_push(
        &self,
        number: u64,
        line: &[u8],
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TransferError>> {
        {
            let mut sender = self.sender.borrow_mut();
            let Some(sender) = sender.as_mut() else { return Poll::Pending };
            ready!(sender.poll_room(number, cx))?;
            sender.push(number, line);
        }
        if let Some(flusher) = self.flusher.take() {
            flusher.wake();
        }
        Poll::Ready(Ok(()))
    }

    /// Flushes the sender once a turn: woken by the first line of many, it runs after the callers
    /// that were woken before it.
    async fn flush_each_turn(self: Rc<Self>) {
        poll_fn(|cx| -> Poll<()> {
            if let Some(sender) = self.sender.borrow_mut().as_mut() {
                sender.flush();
            }
            self.flusher.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

/// Passes on what was taken in and lets go of the writer, however the round ends: tasks that are
/// aborted are dropped only later.
struct RoundEnd<'a>(&'a Round);

impl Drop for RoundEnd<'_> {
    fn drop(&mut self) {
        self.0.sender.borrow_mut().take();
    }
}

/// What a refusal is to a client.
pub(super) fn refused(refusal: Refusal, session: u64) -> TransferError {
    match refusal.code {
        RefusalCode::UnknownSession => TransferError::UnknownSession { session },
        RefusalCode::BeingAnswered => TransferError::BeingAnswered { caller: 0, turn: 0 },
        RefusalCode::Failed => TransferError::Refused { text: refusal.text },
        RefusalCode::Busy => TransferError::Busy { text: refusal.text },
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
