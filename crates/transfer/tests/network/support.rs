//! What tests over real sockets share: a folder, servers, and a proxy that does harm.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use transfer::generate::generate;
use transfer::{
    FetchOptions, FetchProgress, Fetched, LineEnds, LineStep, OutputOptions, ServeOptions, Serving,
    StepSide, TransferError,
};

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A source and what is made of it.
pub(crate) struct TransferFolder(tempfile::TempDir);

impl TransferFolder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A folder with a source of random lines.
    pub(crate) fn with_lines(len: u64) -> Self {
        let folder = Self::new();
        generate(&folder.path("source"), len, 7, false, &mut |_| {}).unwrap();
        folder
    }

    pub(crate) fn with_source(bytes: &[u8]) -> Self {
        let folder = Self::new();
        std::fs::write(folder.path("source"), bytes).unwrap();
        folder
    }

    /// Serves lines that end by this rule.
    pub(crate) fn serve_by(&self, ends: LineEnds) -> TransferServer {
        let options = ServeOptions { ends, ..ServeOptions::default() };
        TransferServer::start(&self.path("source"), options).unwrap()
    }

    pub(crate) fn serve(&self) -> TransferServer {
        TransferServer::start(&self.path("source"), ServeOptions::default()).unwrap()
    }

    /// Small, so that tests on a busy machine end soon, and eager to come back.
    pub(crate) fn options(
        &self,
        address: SocketAddr,
        step: LineStep,
        side: StepSide,
    ) -> FetchOptions {
        let output = OutputOptions { sync: false, ..OutputOptions::new(self.path("output")) };
        FetchOptions {
            connections: 3,
            callers: 20,
            step,
            side,
            patience: Duration::from_secs(60),
            ..FetchOptions::new(address.to_string(), output)
        }
    }

    /// Checks the output against what the same step makes of the source without a network, byte by
    /// byte.
    pub(crate) fn check(&self, step: LineStep) {
        self.check_by(LineEnds::Crlf, step);
    }

    /// The same with lines that end otherwise.
    pub(crate) fn check_by(&self, ends: LineEnds, step: LineStep) {
        let expected = self.path("expected");
        transfer::local_transfer::local(&self.path("source"), &expected, ends, step.process())
            .unwrap();
        let [expected, output] =
            [expected, self.path("output")].map(|it| std::fs::read(it).unwrap());
        assert!(expected == output, "{} and {} bytes differ", expected.len(), output.len());
        assert!(!self.path("output.partial").exists());
        assert!(!self.path("output.partial.journal").exists());
    }
}

/// Fetches without anybody to stop it.
pub(crate) fn fetch(options: &FetchOptions) -> Result<Fetched, TransferError> {
    fetch_until(options, std::future::pending)
}

pub(crate) fn fetch_until(
    options: &FetchOptions,
    stop: impl AsyncFnMut(),
) -> Result<Fetched, TransferError> {
    transfer::fetch(options, stop, &mut |_: &FetchProgress| {})
}

/// A server on a thread of its own, which is killed without a word when this is dropped.
pub(crate) struct TransferServer {
    pub(crate) address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TransferServer {
    pub(crate) fn start(source: &Path, options: ServeOptions) -> Result<Self, TransferError> {
        let (end, ended) = oneshot::channel::<()>();
        let (started, starting) = std::sync::mpsc::channel();
        let source = source.to_owned();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                match Serving::start(&source, "127.0.0.1:0", options).await {
                    Ok(serving) => {
                        started.send(Ok(serving.local_addr())).unwrap();
                        let _ = ended.await;
                    }
                    Err(error) => started.send(Err(error)).unwrap(),
                }
            });
        });
        let address = starting.recv().unwrap()?;
        Ok(Self { address, end: Some(end), thread: Some(thread) })
    }
}

impl Drop for TransferServer {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Stands between client and server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    harm: Arc<Harm>,
}

struct Harm {
    upstream: Mutex<SocketAddr>,
    /// Bytes that may still come from the server until all connections are cut, and no new one
    /// lives.
    budget: AtomicI64,
    /// Connections that are cut in the middle, each after a random number of bytes.
    cuts: AtomicI64,
    n_cut: AtomicI64,
    /// Nothing is read from the server any more, and nothing is closed.
    stalls: AtomicBool,
    random: AtomicU64,
}

impl Proxy {
    pub(crate) fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let harm = Arc::new(Harm {
            upstream: Mutex::new(upstream),
            budget: AtomicI64::new(i64::MAX),
            cuts: AtomicI64::new(0),
            n_cut: AtomicI64::new(0),
            stalls: AtomicBool::new(false),
            random: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
        });
        let shared = Arc::clone(&harm);
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let upstream = *shared.upstream.lock().unwrap();
                if shared.budget.load(Ordering::SeqCst) <= 0 {
                    continue;
                }
                // A server that is away is a connection that ends at once.
                let Ok(server) = TcpStream::connect(upstream) else { continue };
                let up = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pass(&up.0, &up.1, |_| true));
                let harm = Arc::clone(&shared);
                std::thread::spawn(move || harm.pass_down(&server, &client));
            }
        });
        Self { address, harm }
    }

    /// Cuts so many connections, one after the other, in the middle of what they carry.
    pub(crate) fn cut_connections(&self, n: i64) {
        self.harm.cuts.store(n, Ordering::SeqCst);
    }

    pub(crate) fn n_cut(&self) -> i64 {
        self.harm.n_cut.load(Ordering::SeqCst)
    }

    /// Ends everything after so many bytes, until [`Proxy::go_on`].
    pub(crate) fn end_after(&self, bytes: i64) {
        self.harm.budget.store(bytes, Ordering::SeqCst);
    }

    /// Whether that has happened.
    pub(crate) fn has_ended(&self) -> bool {
        self.harm.budget.load(Ordering::SeqCst) <= 0
    }

    pub(crate) fn wait_until_ended(&self) {
        let start = Instant::now();
        while !self.has_ended() {
            assert!(start.elapsed() < PATIENCE, "too few bytes came within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Passes everything on again, to this server.
    pub(crate) fn go_on(&self, upstream: SocketAddr) {
        *self.harm.upstream.lock().unwrap() = upstream;
        self.harm.budget.store(i64::MAX, Ordering::SeqCst);
    }

    /// Reads nothing from the server any more.
    pub(crate) fn stall(&self) {
        self.harm.stalls.store(true, Ordering::SeqCst);
    }
}

impl Harm {
    fn pass_down(&self, server: &TcpStream, client: &TcpStream) {
        let mut left = 20_000 + self.random(300_000);
        pass(server, client, |len| {
            while self.stalls.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            if self.budget.fetch_sub(len, Ordering::SeqCst) <= len {
                return false;
            }
            left -= len;
            let is_cut = left < 0 && 0 < self.cuts.fetch_sub(1, Ordering::SeqCst);
            self.n_cut.fetch_add(i64::from(is_cut), Ordering::SeqCst);
            !is_cut
        });
    }

    fn random(&self, below: i64) -> i64 {
        let mut x = self.random.load(Ordering::SeqCst);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x, Ordering::SeqCst);
        i64::try_from(x >> 1).unwrap() % below
    }
}

/// Passes bytes on until the end, or until `goes_on` says no; then both sides are closed.
fn pass(mut from: &TcpStream, mut to: &TcpStream, mut goes_on: impl FnMut(i64) -> bool) {
    let mut buffer = [0; 8192];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        // The last piece is cut, too.
        let goes_on = goes_on(i64::try_from(len).unwrap());
        let sent = if goes_on { len } else { len / 2 };
        if to.write_all(&buffer[..sent]).is_err() || !goes_on {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
