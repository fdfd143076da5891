//! All that is asked beside lines: a transfer's beginning, its end, and whether the server is
//! there.
//!
//! Invariant: whatever waits for the server ends when it has not answered for as long as was said.

use std::pin::pin;
use std::time::{Duration, Instant};

use link::{Bound, CallError, Client};
use wire::Backoff;

use super::Progress;
use super::callers::{is_passing, refused};
use crate::TransferError;
use crate::checksum::Totals;
use crate::messages::{Before, Close, Look, Open, Opened, Refusal, Standing};
use crate::methods::{BEFORE, CLOSE, LOOK, OPEN};
use crate::writer::Writer;

/// How often the server is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Shortest pause before a call that failed is made again; [`LOOK_EVERY`] is the longest.
const PAUSE: Duration = Duration::from_millis(100);

/// The methods, and how long they are tried.
pub(super) struct Control {
    address: String,
    patience: Duration,
    open: Bound<Open, Opened, Refusal>,
    close: Bound<Close, Totals, Refusal>,
    before: Bound<Before, Totals, Refusal>,
    look: Bound<Look, Standing>,
}

impl Control {
    pub(super) fn new(client: &Client, address: String, patience: Duration) -> Self {
        Self {
            address,
            patience,
            open: client.bind(&OPEN),
            close: client.bind(&CLOSE),
            before: client.bind(&BEFORE),
            look: client.bind(&LOOK),
        }
    }

    pub(super) async fn open(&self, open: Open) -> Result<Opened, TransferError> {
        self.while_alive(call(&self.open, open, 0)).await
    }

    pub(super) async fn close(&self, close: Close) -> Result<Totals, TransferError> {
        self.while_alive(call(&self.close, close, close.session)).await
    }

    pub(super) async fn before(&self, before: Before) -> Result<Totals, TransferError> {
        if before.lines == 0 {
            return Ok(Totals::default());
        }
        self.while_alive(call(&self.before, before, 0)).await
    }

    /// Asks until there is an answer.
    pub(super) async fn look(&self, session: u64) -> Result<Standing, TransferError> {
        let start = Instant::now();
        let mut backoff = Backoff::new(PAUSE, LOOK_EVERY);
        loop {
            match self.look_once(session).await? {
                Ok(standing) => return Ok(standing),
                Err(reason) => self.check_patience(start, reason)?,
            }
            tokio::time::sleep(backoff.next_wait()).await;
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
        progress: &mut dyn FnMut(&Progress),
        work: impl Future<Output = Result<T, TransferError>>,
    ) -> Result<T, TransferError> {
        let mut known = (0, 0);
        self.beside(work, session, &mut |standing, trouble| {
            if let Some(Standing { source, offset }) = standing {
                known = (offset, source.len);
            }
            let (lines, len) = (writer.totals().lines, writer.written_len());
            let (offset, source_len) = known;
            progress(&Progress { lines, len, offset, source_len, trouble });
        })
        .await
    }

    async fn beside<T>(
        &self,
        work: impl Future<Output = Result<T, TransferError>>,
        session: u64,
        tell: &mut dyn FnMut(Option<Standing>, Option<(Duration, String)>),
    ) -> Result<T, TransferError> {
        let mut work = pin!(work);
        let mut last = Instant::now();
        let looking = async {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                match self.look_once(session).await? {
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

    /// One look; the inner error is one that passes.
    async fn look_once(&self, session: u64) -> Result<Result<Standing, String>, TransferError> {
        let timeout = self.patience.min(LOOK_EVERY * 5);
        match self.look.call(Look { session }).timeout(timeout).await {
            Ok(standing) => Ok(Ok(standing)),
            Err(CallError::Failed(failure)) if is_passing(&failure) => Ok(Err(failure.to_string())),
            Err(CallError::Failed(failure)) => Err(TransferError::Call(failure.into())),
            Err(CallError::Service(never)) => match never {},
        }
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
