//! All that is asked beside lines: a transfer's beginning, its end, and whether the server is
//! there.
//!
//! Invariant: whatever waits for the server ends when it has not answered for as long as was said.

use std::cell::Cell;
use std::pin::pin;
use std::time::{Duration, Instant};

use link::{Bound, CallError, Client};
use wire::Backoff;

use super::FetchProgress;
use super::callers::{is_passing, refused};
use crate::TransferError;
use crate::checksum::Totals;
use crate::messages::{
    BeforeRequest, CloseRequest, LookReply, LookRequest, OpenReply, OpenRequest, Refusal,
};
use crate::methods::{BEFORE, CLOSE, LOOK, OPEN};
use crate::writer::Writer;

/// How often the server is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Shortest pause before a call that failed is made again; [`LOOK_EVERY`] is the longest.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest wait for the answer to one look: another look may have more luck.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the server has to hear that a transfer is given up. It finds out by itself, later.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(1);

/// The methods, and how long they are tried.
pub(super) struct Control {
    address: String,
    patience: Duration,
    /// The session that was opened last, until it is closed.
    session: Cell<Option<u64>>,
    open: Bound<OpenRequest, OpenReply, Refusal>,
    close: Bound<CloseRequest, Totals, Refusal>,
    before: Bound<BeforeRequest, Totals, Refusal>,
    look: Bound<LookRequest, LookReply>,
}

impl Control {
    pub(super) fn new(client: &Client, address: String, patience: Duration) -> Self {
        Self {
            address,
            patience,
            session: Cell::new(None),
            open: client.bind(&OPEN),
            close: client.bind(&CLOSE),
            before: client.bind(&BEFORE),
            look: client.bind(&LOOK),
        }
    }

    pub(super) async fn open(&self, open: OpenRequest) -> Result<OpenReply, TransferError> {
        let opened = self.while_alive(call(&self.open, open, 0)).await?;
        self.session.set(Some(opened.session));
        Ok(opened)
    }

    pub(super) async fn close(&self, close: CloseRequest) -> Result<Totals, TransferError> {
        let totals = self.while_alive(call(&self.close, close, close.session)).await?;
        self.session.set(None);
        Ok(totals)
    }

    /// Closes the session that is open, if the server is there: until it is closed or forgotten it
    /// holds a place.
    pub(super) async fn abandon(&self) {
        if let Some(session) = self.session.take() {
            let _ = self.close.call(CloseRequest { session }).timeout(ABANDON_TIMEOUT).await;
        }
    }

    pub(super) async fn before(&self, before: BeforeRequest) -> Result<Totals, TransferError> {
        if before.lines == 0 {
            return Ok(Totals::default());
        }
        self.while_alive(call(&self.before, before, 0)).await
    }

    /// Asks until there is an answer.
    pub(super) async fn look(&self, session: u64) -> Result<LookReply, TransferError> {
        let start = Instant::now();
        let mut backoff = Backoff::new(PAUSE, LOOK_EVERY);
        loop {
            match self.look_once(session, start).await? {
                Ok(standing) => return Ok(standing),
                Err(reason) => self.check_patience(start, reason)?,
            }
            tokio::time::sleep(backoff.next_wait().min(self.left(start))).await;
        }
    }

    /// Runs `work` for as long as the server answers at all.
    async fn while_alive<T>(
        &self,
        work: impl Future<Output = Result<T, TransferError>>,
    ) -> Result<T, TransferError> {
        self.beside(work, 0, &mut |_, _| {}).await
    }

    /// The same, and tells of the progress.
    pub(super) async fn watch<T>(
        &self,
        session: u64,
        writer: &Writer,
        progress: &mut dyn FnMut(&FetchProgress),
        work: impl Future<Output = Result<T, TransferError>>,
    ) -> Result<T, TransferError> {
        let mut known = (0, 0);
        self.beside(work, session, &mut |standing, trouble| {
            if let Some(LookReply { source, offset }) = standing {
                known = (offset, source.len);
            }
            let (lines, len) = (writer.totals().lines, writer.written_len());
            let (offset, source_len) = known;
            progress(&FetchProgress { lines, len, offset, source_len, trouble });
        })
        .await
    }

    async fn beside<T>(
        &self,
        work: impl Future<Output = Result<T, TransferError>>,
        session: u64,
        tell: &mut dyn FnMut(Option<LookReply>, Option<(Duration, String)>),
    ) -> Result<T, TransferError> {
        let mut work = pin!(work);
        let mut last = Instant::now();
        let looking = async {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                match self.look_once(session, last).await? {
                    Ok(standing) => {
                        last = Instant::now();
                        tell(Some(standing), None);
                    }
                    Err(reason) => {
                        tell(None, Some((last.elapsed(), reason.clone())));
                        self.check_patience(last, reason)?;
                    }
                }
            }
        };
        tokio::select! {
            done = &mut work => done,
            given_up = looking => given_up,
        }
    }

    /// One look at a server that has answered `last`; the inner error is one that passes. It ends
    /// with the patience, but a client that slept for long itself gives the server a fair chance.
    async fn look_once(
        &self,
        session: u64,
        last: Instant,
    ) -> Result<Result<LookReply, String>, TransferError> {
        let timeout = self.left(last).min(LOOK_TIMEOUT).max(self.patience.min(LOOK_EVERY));
        match self.look.call(LookRequest { session }).timeout(timeout).await {
            Ok(standing) => Ok(Ok(standing)),
            Err(CallError::Failed(failure)) if is_passing(&failure) => Ok(Err(failure.to_string())),
            Err(CallError::Failed(failure)) => Err(TransferError::Call(failure.into())),
            Err(CallError::Service(never)) => match never {},
        }
    }

    /// How much longer a server is waited for that has answered `last`.
    fn left(&self, last: Instant) -> Duration {
        self.patience.saturating_sub(last.elapsed())
    }

    fn check_patience(&self, last: Instant, reason: String) -> Result<(), TransferError> {
        if last.elapsed() < self.patience {
            return Ok(());
        }
        let address = self.address.clone();
        Err(TransferError::NoAnswer { address, waited: last.elapsed(), reason })
    }
}

/// Makes a call until there is an answer.
async fn call<Req: Clone + 'static, Resp: 'static>(
    method: &Bound<Req, Resp, Refusal>,
    args: Req,
    session: u64,
) -> Result<Resp, TransferError> {
    let mut backoff = Backoff::new(PAUSE, LOOK_EVERY);
    loop {
        match method.call(args.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(CallError::Service(refusal)) => return Err(refused(refusal, session)),
            Err(CallError::Failed(failure)) if is_passing(&failure) => {
                tokio::time::sleep(backoff.next_wait()).await;
            }
            Err(CallError::Failed(failure)) => return Err(TransferError::Call(failure.into())),
        }
    }
}
