//! The server: a source that any number of clients fetch, each in a transfer of its own.
//!
//! Requests for lines are answered by the event loop, from memory: a thread of its own reads the
//! next block meanwhile. What reads more than that (a transfer that begins far into the file, sums
//! over a whole file) runs in threads that may block.

mod sessions;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use link::{Compression, Listening, Server, ServerConfig, Service};
use tokio::task::JoinHandle;

use crate::TransferError;
use crate::handout::{HandOut, totals_before};
use crate::lines::LineEnds;
use crate::messages::{LookReply, OpenReply, Refusal};
use crate::methods::{BEFORE, CLOSE, LOOK, NEXT, OPEN, SERVICE};
use crate::source::Source;
use sessions::{ServeLimits, Sessions};

/// By how much the sessions' clock goes on at a time.
const TICK: Duration = Duration::from_secs(1);
/// Threads for what reads whole files: as many as disks like.
const BLOCKING_THREADS: usize = 4;
/// Twelve connections for each of a thousand clients, and some.
const MAX_CONNECTIONS: usize = 16_384;
/// Unread answers to one connection, beyond which it is read from no more.
const MAX_BUFFERED_BYTES: usize = 2 << 20;

/// What a server takes.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Most transfers at a time.
    pub max_transfers: usize,
    /// Most callers in all transfers; each takes 32 bytes.
    pub max_callers: usize,
    /// A transfer that nobody has used for so long is forgotten. Its client opens another one.
    pub idle: Duration,
    /// What ends the file's lines; clients are told.
    pub ends: LineEnds,
}

impl Default for ServeOptions {
    /// 2,048 transfers, 8 million callers (256 MiB, if all are there), five minutes, `\r\n`.
    fn default() -> Self {
        Self {
            max_transfers: 2048,
            max_callers: 8 << 20,
            idle: Duration::from_secs(300),
            ends: LineEnds::Crlf,
        }
    }
}

/// A server at work. Dropping it ends it at once.
pub struct Serving {
    listening: Listening,
    sessions: Arc<Sessions>,
    ticking: JoinHandle<()>,
}

impl Serving {
    /// Offers the file at `path` on `address`, on the tokio runtime that this is called on. Port 0
    /// takes a free one.
    ///
    /// # Errors
    /// The file cannot be read, or the address not be listened on.
    pub async fn start(
        path: &Path,
        address: &str,
        options: ServeOptions,
    ) -> Result<Self, TransferError> {
        Self::start_with(path, address, options, |_| {}).await
    }

    /// As [`Serving::start`], with a changed configuration of the link.
    pub(crate) async fn start_with(
        path: &Path,
        address: &str,
        options: ServeOptions,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Result<Self, TransferError> {
        let limits = ServeLimits {
            transfers: options.max_transfers,
            callers: options.max_callers,
            idle: options.idle.as_secs().max(1),
        };
        let source = Source::open_with(path, options.ends)?;
        source.read_ahead()?;
        let sessions = Sessions::new(source, limits);
        let mut config = ServerConfig {
            name: "dubmesh-transfer".to_owned(),
            max_connections: MAX_CONNECTIONS,
            max_buffered_bytes: MAX_BUFFERED_BYTES,
            blocking_threads: BLOCKING_THREADS,
            compression: Compression::Lz4,
            ..ServerConfig::default()
        };
        change(&mut config);
        let server = Server::with_config(config).offer(service(&sessions));
        let listening = server.listen(address).await?;
        let ticking = tokio::spawn({
            let sessions = Arc::clone(&sessions);
            async move {
                let mut ticks = tokio::time::interval(TICK);
                loop {
                    ticks.tick().await;
                    sessions.tick();
                }
            }
        });
        Ok(Self { listening, sessions, ticking })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listening.local_addr()
    }

    /// The file.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        self.sessions.source()
    }

    /// Transfers that are open.
    #[cfg(test)]
    pub(crate) fn n_transfers(&self) -> usize {
        self.sessions.n_open()
    }

    /// Connections that are open.
    #[must_use]
    pub fn n_connections(&self) -> usize {
        self.listening.n_connections()
    }

    /// Takes no more requests, answers those that are here, and ends after `grace` at the latest.
    pub async fn shutdown(self, grace: Duration) {
        self.ticking.abort();
        self.listening.shutdown(grace).await;
    }
}

fn service(sessions: &Arc<Sessions>) -> Service {
    let refusal = |error: TransferError| Refusal::from(&error);
    let of = || Arc::clone(sessions);
    let (open, next, close, before, look) = (of(), of(), of(), of(), of());
    Service::new(SERVICE)
        .blocking_fallible(&OPEN, move |_, wanted| {
            let begin = || {
                let source = Arc::clone(open.source());
                HandOut::new(source, wanted.step.process(), wanted.first, wanted.callers)
            };
            let session = open.open(wanted.callers, begin).map_err(refusal)?;
            Ok(OpenReply { session, source: open.source().identity() })
        })
        .in_place(NEXT, move |wanted, reply| next.answer(wanted, reply))
        .fallible(&CLOSE, move |_, wanted| {
            std::future::ready(close.close(wanted.session).map_err(refusal))
        })
        .blocking_fallible(&BEFORE, move |_, wanted| {
            totals_before(before.source(), wanted.step.process(), wanted.lines).map_err(refusal)
        })
        .method(&LOOK, move |_, wanted| {
            let (source, offset) = (look.source().identity(), look.look(wanted.session));
            std::future::ready(LookReply { source, offset })
        })
}
