//! The client: callers that each ask for one line at a time, over connections that they share.
//!
//! [`fetch`] runs an event loop on the thread that calls it; a second thread writes. A transfer is
//! one or more *rounds*: a round ends when every caller was told of the end, or when the server
//! has forgotten the transfer, because it was restarted; then the next one begins with the oldest
//! missing line. Every connection has callers of its own, so that what comes in one read leads to
//! requests that leave in one write. `callers` is one round, `connection` one of its connections,
//! and `crew` runs the tasks on it; `control` is all that is asked beside lines, on a connection
//! of its own, and watches whether the server is there.

mod caller_tasks;
mod callers;
mod connection;
mod control;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::{Client, ClientConfig, Compression, Connections, Traffic, TrafficTotals};
use tokio::runtime::{Builder, LocalOptions};

use crate::TransferError;
use crate::checkpoint::Subject;
use crate::checksum::Totals;
use crate::handout::MAX_CALLERS;
use crate::line_step::LineStep;
use crate::messages::{BeforeRequest, CloseRequest, OpenRequest};
use crate::output::OutputOptions;
use crate::source::SourceIdentity;
use crate::writer::{Writer, WriterOptions, Written};
use callers::Round;
use control::Control;

/// How long the connections' last words may take.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// Longest pause between two attempts to connect: a server that comes back is found soon.
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// Who processes lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StepSide {
    /// The server, before it sends them.
    Server,
    /// The client, when they have come.
    Client,
}

/// What to fetch, and how.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// The server, `HOST:PORT`.
    pub address: String,
    /// Where lines go.
    pub output: OutputOptions,
    /// Connections to the server.
    pub connections: usize,
    /// Callers on each of them, on average; each has one request at a time.
    pub callers: u32,
    /// What is done to each line.
    pub step: LineStep,
    /// By whom.
    pub side: StepSide,
    /// Whether lines, and what is asked, are compressed on their way, if the server allows it.
    pub compression: Compression,
    /// How long a server that does not answer is waited for.
    pub patience: Duration,
    /// How much is kept in memory.
    pub writer: WriterOptions,
}

impl FetchOptions {
    /// The defaults: 12 connections with 500 callers each, lines as they are, a minute of
    /// patience.
    #[must_use]
    pub fn new(address: impl Into<String>, output: OutputOptions) -> Self {
        Self {
            address: address.into(),
            output,
            connections: 12,
            callers: 500,
            step: LineStep::Unchanged,
            side: StepSide::Server,
            compression: Compression::None,
            patience: Duration::from_secs(60),
            writer: WriterOptions::default(),
        }
    }

    fn n_callers(&self) -> Result<u32, TransferError> {
        let connections = u32::try_from(self.connections.max(1)).unwrap_or(u32::MAX);
        let callers = connections.saturating_mul(self.callers.max(1));
        if MAX_CALLERS < callers {
            let (callers, max) = (callers.into(), MAX_CALLERS.into());
            return Err(TransferError::TooManyCallers { callers, max });
        }
        Ok(callers)
    }

    /// What the server does, and what the client does.
    fn steps(&self) -> (LineStep, LineStep) {
        match self.side {
            StepSide::Server => (self.step, LineStep::Unchanged),
            StepSide::Client => (LineStep::Unchanged, self.step),
        }
    }

    fn subject(&self, source: SourceIdentity) -> Subject {
        let side = match self.side {
            StepSide::Server => "server",
            StepSide::Client => "client",
        };
        let step = if self.step.process().changes() {
            format!("{} on the {side}", self.step)
        } else {
            self.step.to_string()
        };
        Subject { source, step }
    }
}

/// How far a transfer is.
#[derive(Clone, Debug)]
pub struct FetchProgress {
    /// Lines written, those of earlier runs included.
    pub lines: u64,
    /// Bytes of output written.
    pub len: u64,
    /// Of the source, in bytes: how far the server is, and how long it is.
    pub offset: u64,
    /// See `offset`.
    pub source_len: u64,
    /// Since when the server has not answered, and what the last attempt said.
    pub trouble: Option<(Duration, String)>,
}

/// What came of a transfer.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// What was written.
    pub written: Written,
    /// Lines that were there before, from an earlier run.
    pub resumed: u64,
    /// How often the server had forgotten the transfer.
    pub restarts: u64,
    /// What went through the connections.
    pub traffic: TrafficTotals,
    /// From the first connection until the output had its name.
    pub took: Duration,
}

/// Fetches a file, until it is complete or `stop` returns. Blocks the calling thread, which must
/// not be one of a runtime's. `progress` is told how far it is, about once a second.
///
/// `stop` waits for the next wish to stop, and is dropped and called again. Once all lines have
/// come, only the disk is waited for; the first wish then changes nothing, and the second one ends
/// the wait.
///
/// # Errors
/// The output is there already, the server cannot be reached or refuses, the disk is full, or what
/// was written is not what the server sent. What is there by then stays under its partial name,
/// for resuming.
pub fn fetch(
    options: &FetchOptions,
    mut stop: impl AsyncFnMut(),
    progress: &mut dyn FnMut(&FetchProgress),
) -> Result<Fetched, TransferError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(TransferError::runtime)?;
    let fetched = runtime.block_on(async {
        let start = Instant::now();
        let traffic = Arc::new(Traffic::default());
        let config = config(options, &traffic);
        options.n_callers()?;
        options.output.check()?;
        let client = Client::connect_with(&options.address, config.clone()).await?;
        let control = Control::new(&client, options.address.clone(), options.patience);
        let moved = tokio::select! {
            moved = transfer(options, &config, &control, progress) => moved,
            () = stop() => Err(TransferError::Stopped),
        };
        let fetched = match moved {
            Ok(moved) => finish(moved, &mut stop).await,
            Err(error) => {
                control.abandon().await;
                Err(error)
            }
        };
        client.close(CLOSE_GRACE).await;
        let took = start.elapsed();
        // Also connections that were broken off are dropped by now, and counted.
        drop((client, control));
        fetched.map(|fetched| Fetched { took, traffic: traffic.totals(), ..fetched })
    });
    if let Err(TransferError::StoppedFinishing { .. }) = fetched {
        runtime.shutdown_background(); // else it would wait for the disk
    }
    fetched
}

fn config(options: &FetchOptions, traffic: &Arc<Traffic>) -> ClientConfig {
    let defaults = ClientConfig::default();
    ClientConfig {
        name: "dubmesh-transfer".to_owned(),
        connections: Connections::Fixed(1),
        timeout: None,
        traffic: Some(Arc::clone(traffic)),
        compression: options.compression,
        connect_timeout: defaults.connect_timeout.min(options.patience),
        max_backoff: MAX_BACKOFF,
        ..defaults
    }
}

/// All lines have come, and the server has said what they add up to.
struct Moved {
    writer: Writer,
    expected: Totals,
    resumed: u64,
    restarts: u64,
}

/// Everything between the first connection and the last. Dropped, it leaves a partial output that
/// can be resumed.
async fn transfer(
    options: &FetchOptions,
    config: &ClientConfig,
    control: &Control,
    progress: &mut dyn FnMut(&FetchProgress),
) -> Result<Moved, TransferError> {
    let source = control.look(0).await?.source;
    let (output, subject, room) = (options.output.clone(), options.subject(source), options.writer);
    let writer = blocking(move || Writer::open(output, subject, room)).await?;
    let resumed = writer.totals().lines;
    let (server, step) = options.steps();
    let callers = options.n_callers()?;
    let mut restarts = 0;
    loop {
        let first = writer.totals().lines;
        let opened = control.open(OpenRequest { first, callers, step: server }).await?;
        if opened.source != source {
            return Err(TransferError::OtherSource);
        }
        let sender = writer.sender(step.process());
        let from = callers::RoundSource {
            address: options.address.clone(),
            config: config.clone(),
            patience: options.patience,
            connections: u32::try_from(options.connections.max(1)).unwrap_or(u32::MAX),
            callers,
            session: opened.session,
        };
        let round = Rc::new(Round::new(from, sender));
        let ended = control.watch(opened.session, &writer, progress, round.run()).await;
        let closed = match ended {
            Ok(()) => control.close(CloseRequest { session: opened.session }).await,
            Err(error) => Err(error),
        };
        match closed {
            Ok(totals) => {
                let before = control.before(BeforeRequest { lines: first, step: server }).await?;
                let expected = before.plus(totals);
                return Ok(Moved { writer, expected, resumed, restarts });
            }
            Err(TransferError::UnknownSession { .. }) => restarts += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Compares, and gives the output its name.
async fn finish(moved: Moved, stop: &mut impl AsyncFnMut()) -> Result<Fetched, TransferError> {
    let Moved { writer, expected, resumed, restarts } = moved;
    let path = writer.partial().to_owned();
    let finishing = blocking(move || writer.finish(expected));
    let insisted = async {
        stop().await;
        stop().await;
    };
    let written = tokio::select! {
        written = finishing => written?,
        () = insisted => return Err(TransferError::StoppedFinishing { path }),
    };
    let (took, traffic) = Default::default();
    Ok(Fetched { written, resumed, restarts, took, traffic })
}

/// Runs what blocks in a thread that may.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
) -> Result<T, TransferError> {
    let ran = tokio::task::spawn_blocking(work).await;
    ran.unwrap_or_else(|panic| Err(TransferError::runtime(std::io::Error::other(panic))))
}

#[cfg(test)]
mod tests;
