//! Servers that are odd, and callers that fail: a transfer goes on where it can, and says why
//! where it cannot.

use std::future::ready;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::generate::generate;
use crate::line_step::{LineProcessor, Unchanged};
use crate::lines::Line;
use crate::messages::{LookReply, OpenReply};
use crate::methods::{LOOK, OPEN, SERVICE};
use crate::serve::{ServeOptions, Serving};
use crate::source::Source;
use link::{Compression, Server, ServerConfig, Service};

struct SourceFolder(tempfile::TempDir);

impl SourceFolder {
    fn with_lines(len: u64) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        generate(&folder.path("source"), len, 7, false, &mut |_| {}).unwrap();
        folder
    }

    fn with_source(bytes: &[u8]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::write(folder.path("source"), bytes).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, address: SocketAddr) -> FetchOptions {
        let output = OutputOptions { sync: false, ..OutputOptions::new(self.path("output")) };
        FetchOptions {
            connections: 2,
            callers: 20,
            ..FetchOptions::new(address.to_string(), output)
        }
    }

    /// Fetches while a server of this kind is there.
    fn fetch_from(
        &self,
        change: impl FnOnce(&mut ServerConfig) + Send,
        options: impl FnOnce(FetchOptions) -> FetchOptions,
    ) -> Result<Fetched, TransferError> {
        let serving = async {
            let (path, options) = (self.path("source"), ServeOptions::default());
            let serving = Serving::start_with(&path, "127.0.0.1:0", options, change).await;
            let serving = serving.unwrap();
            (serving.local_addr(), serving)
        };
        while_serving(serving, |address| fetch_all(&options(self.options(address))))
    }

    fn assert_whole(&self) {
        let [source, output] =
            ["source", "output"].map(|name| std::fs::read(self.path(name)).unwrap());
        assert!(source == output, "{} and {} bytes", source.len(), output.len());
    }
}

fn fetch_all(options: &FetchOptions) -> Result<Fetched, TransferError> {
    fetch(options, std::future::pending, &mut |_| {})
}

/// Runs a server on a thread of its own while something is done with it.
fn while_serving<S, R>(
    start: impl Future<Output = (SocketAddr, S)> + Send,
    work: impl FnOnce(SocketAddr) -> R,
) -> R {
    let (started, starting) = std::sync::mpsc::channel();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let (address, _server) = start.await;
                started.send(address).unwrap();
                let _ = ended.await;
            });
        });
        let result = work(starting.recv().unwrap());
        drop(end);
        result
    })
}

/// Passes the first connection on, and as much of the others as `other` says.
fn door(
    server: SocketAddr,
    other: impl Fn(TcpStream, TcpStream) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (n, client) in listener.incoming().map_while(Result::ok).enumerate() {
            let Ok(server) = TcpStream::connect(server) else { return };
            if n == 0 {
                pass(client, server);
            } else {
                other(client, server);
            }
        }
    });
    address
}

fn pass(client: TcpStream, server: TcpStream) {
    let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut from, mut to) = (client, server);
    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
}

#[test]
fn fewer_credits_than_callers_and_a_client_that_compresses() {
    let folder = SourceFolder::with_lines(300_000);
    for window in [1, 3, 39] {
        let fetched = folder
            .fetch_from(
                |config| config.max_calls_per_connection = window,
                |options| {
                    let output = OutputOptions { force: true, ..options.output };
                    FetchOptions { output, compression: Compression::Lz4, ..options }
                },
            )
            .unwrap();
        assert_eq!(fetched.written.duplicates, 0);
        folder.assert_whole();
    }
}

/// Lines of more than one frame, beside short ones, from a server with a small window and little
/// room.
#[test]
fn long_lines() {
    let line = |len: usize| [vec![b'a' + u8::try_from(len % 26).unwrap(); len], b"\r\n".to_vec()];
    let lens = [70_000, 3, 65_536, 65_534, 65_535, 0, 1_000_000, 5, 200_000];
    let folder = SourceFolder::with_source(
        &lens.repeat(4).into_iter().flat_map(line).flatten().collect::<Vec<_>>(),
    );
    for compression in [Compression::None, Compression::Lz4] {
        let small = |config: &mut ServerConfig| {
            (config.max_calls_per_connection, config.max_buffered_bytes) = (5, 10_000);
        };
        let options = |options: FetchOptions| {
            let output = OutputOptions { force: true, ..options.output };
            FetchOptions { output, compression, ..options }
        };
        folder.fetch_from(small, options).unwrap();
        folder.assert_whole();
    }
}

/// A server that has all methods but the one for lines.
#[test]
fn a_route_that_is_refused_ends_the_transfer() {
    let folder = SourceFolder::with_lines(1000);
    let source = Source::open(&folder.path("source")).unwrap().identity();
    let service = Service::new(SERVICE)
        .fallible(&OPEN, move |_, _| ready(Ok(OpenReply { session: 1, source })))
        .method(&LOOK, move |_, _| ready(LookReply { source, offset: 0 }));
    let serving = async {
        let listening = Server::new().offer(service).listen("127.0.0.1:0").await.unwrap();
        (listening.local_addr(), listening)
    };
    let error = while_serving(serving, |address| fetch_all(&folder.options(address))).unwrap_err();
    assert!(matches!(&error, TransferError::Call(_)), "{error}");
    assert!(error.to_string().contains("next"), "{error}");
    assert!(!folder.path("output").exists());
}

/// The server is there, as the control connection sees, but no other connection comes to anything.
#[test]
fn connections_that_are_closed_at_once_are_given_up() {
    // At once; after the greeting; and after the first answers' first bytes.
    for greets in [false, true] {
        let folder = SourceFolder::with_lines(100_000);
        let n_tries = Arc::new(AtomicUsize::new(0));
        let tries = Arc::clone(&n_tries);
        let serving = async {
            let (path, options) = (folder.path("source"), ServeOptions::default());
            let serving = Serving::start(&path, "127.0.0.1:0", options).await.unwrap();
            (serving.local_addr(), serving)
        };
        let error = while_serving(serving, |address| {
            let address = door(address, move |client, server| {
                tries.fetch_add(1, Ordering::SeqCst);
                let mut greeting = [0; 1024];
                if greets && let Ok(len) = std::io::Read::read(&mut &server, &mut greeting) {
                    let _ = std::io::Write::write_all(&mut &client, &greeting[..len]);
                }
                let _ = client.shutdown(Shutdown::Write);
            });
            let patience = Duration::from_secs(2);
            fetch_all(&FetchOptions { patience, ..folder.options(address) }).unwrap_err()
        });
        assert!(matches!(error, TransferError::NoAnswer { .. }), "{error}");
        assert!(error.to_string().contains("closed the connection"), "{error}");
        let n_tries = n_tries.load(Ordering::SeqCst);
        assert!((3..60).contains(&n_tries), "{n_tries}");
    }
}

/// A server that leaves in good order while callers are out, again and again; the next one knows
/// nothing of the transfer.
#[test]
fn servers_that_leave_in_good_order() {
    let folder = SourceFolder::with_lines(1_500_000);
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    let path = folder.path("source");
    let (started, starting) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut address = "127.0.0.1:0".to_owned();
                for n_servers in 0.. {
                    let serving = Serving::start(&path, &address, ServeOptions::default()).await;
                    let serving = serving.unwrap();
                    address = serving.local_addr().to_string();
                    let _ = started.send(serving.local_addr());
                    // Three leave when their connections are there, and the fourth stays.
                    while !done.load(Ordering::SeqCst)
                        && (n_servers == 3 || serving.n_connections() < 3)
                    {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    serving.shutdown(Duration::from_secs(30)).await;
                    if done.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        });
        let options = folder.options(starting.recv().unwrap());
        let fetched = fetch_all(&FetchOptions { callers: 3, ..options });
        is_done.store(true, Ordering::SeqCst);
        let fetched = fetched.unwrap();
        assert!((1..=3).contains(&fetched.restarts), "{}", fetched.restarts);
        folder.assert_whole();
    });
}

/// A step that panics.
#[derive(Debug)]
struct Panics;

impl LineProcessor for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn max_len(&self, len: usize) -> usize {
        len
    }

    fn process(&self, number: u64, line: Line<'_>, out: &mut [u8]) -> usize {
        assert!(number < 100, "line 100 is too much");
        Unchanged.process(number, line, out)
    }
}

#[test]
fn a_caller_that_panics_ends_its_round_and_nothing_else() {
    let folder = SourceFolder::with_lines(100_000);
    let serving = async {
        let (path, options) = (folder.path("source"), ServeOptions::default());
        let serving = Serving::start(&path, "127.0.0.1:0", options).await.unwrap();
        (serving.local_addr(), serving)
    };
    let source = Source::open(&folder.path("source")).unwrap().identity();
    let output = OutputOptions { sync: false, ..OutputOptions::new(folder.path("output")) };
    let subject = Subject { source, step: "panics".to_owned() };
    let writer = Writer::open(output, subject, WriterOptions::default()).unwrap();
    let error = while_serving(serving, |address| {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            let address = address.to_string();
            let client = Client::connect(&address).await.unwrap();
            let control = Control::new(&client, address.clone(), Duration::from_secs(60));
            let wanted = OpenRequest { first: 0, callers: 20, step: LineStep::Unchanged };
            let session = control.open(wanted).await.unwrap().session;
            let from = callers::RoundSource {
                address,
                config: ClientConfig::default(),
                patience: Duration::from_secs(60),
                connections: 2,
                callers: 20,
                session,
            };
            let round = Rc::new(Round::new(from, writer.sender(&Panics)));
            round.run().await.unwrap_err()
        })
    });
    assert!(error.to_string().contains("panic"), "{error}");
    writer.leave().unwrap();
    assert!(!folder.path("output").exists() && folder.path("output.partial").exists());
}

/// Ready when the output has its full length. A short one is written when the transfer is
/// finished, so that finishing has begun by then.
async fn until_whole(folder: &SourceFolder) {
    let len = |name: &str| std::fs::metadata(folder.path(name)).map_or(0, |found| found.len());
    while len("output.partial") < len("source") && !folder.path("output").exists() {
        tokio::task::yield_now().await;
    }
}

/// The output is complete: whoever asks for the end gets it, and not an error.
#[test]
fn a_wish_to_stop_while_the_output_is_finished_changes_nothing() {
    let folder = SourceFolder::with_lines(100_000);
    let serving = async {
        let (path, options) = (folder.path("source"), ServeOptions::default());
        let serving = Serving::start(&path, "127.0.0.1:0", options).await.unwrap();
        (serving.local_addr(), serving)
    };
    while_serving(serving, |address| {
        let options = folder.options(address);
        let output = OutputOptions { sync: true, ..options.output };
        let mut is_first = true;
        let stop = async || {
            // The first wish is dropped unheard, and the next one comes.
            until_whole(&folder).await;
            if !std::mem::take(&mut is_first) {
                std::future::pending::<()>().await;
            }
        };
        fetch(&FetchOptions { output, ..options }, stop, &mut |_| {}).unwrap();
    });
    folder.assert_whole();
}

#[test]
fn whoever_insists_does_not_wait_for_the_disk() {
    let folder = SourceFolder::with_lines(1000);
    let source = Source::open(&folder.path("source")).unwrap().identity();
    let subject = Subject { source, step: "none".to_owned() };
    let output = OutputOptions::new(folder.path("output"));
    let writer = Writer::open(output, subject, WriterOptions::default()).unwrap();
    let (expected, resumed, restarts) = Default::default();
    let moved = Moved { writer, expected, resumed, restarts };
    let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    // The disk takes its time.
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let disk = runtime.spawn_blocking(move || wait.recv());
    let error = runtime.block_on(finish(moved, &mut async || {})).unwrap_err();
    assert!(matches!(error, TransferError::StoppedFinishing { .. }), "{error}");
    drop(go_on);
    runtime.block_on(disk).unwrap().unwrap_err();
}

/// A fetch that is stopped leaves no session behind that holds a place.
#[test]
fn a_stopped_fetch_closes_its_session() {
    let folder = SourceFolder::with_lines(3_000_000);
    let (end, ended) = std::sync::mpsc::channel();
    let serving = async {
        let (path, options) = (folder.path("source"), ServeOptions::default());
        let serving = Serving::start(&path, "127.0.0.1:0", options).await.unwrap();
        let address = serving.local_addr();
        (address, EndOfServing { serving, end })
    };
    while_serving(serving, |address| {
        let stop = async || {
            while !folder.path("output.partial").exists() {
                tokio::task::yield_now().await;
            }
        };
        let options = FetchOptions { callers: 1, ..folder.options(address) };
        let error = fetch(&options, stop, &mut |_| {}).unwrap_err();
        assert!(matches!(error, TransferError::Stopped), "{error}");
    });
    assert_eq!(ended.recv().unwrap(), 0, "transfers are open");
}

/// Tells how many transfers are open when a server ends.
struct EndOfServing {
    serving: Serving,
    end: std::sync::mpsc::Sender<usize>,
}

impl Drop for EndOfServing {
    fn drop(&mut self) {
        self.end.send(self.serving.n_transfers()).unwrap();
    }
}

/// One that accepts connections and says nothing, ever.
#[test]
fn a_server_that_never_greets_is_waited_for_as_long_as_was_said() {
    let folder = SourceFolder::with_lines(1000);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = folder.options(silent.local_addr().unwrap());
    let patience = Duration::from_millis(200);
    let start = Instant::now();
    let error = fetch_all(&FetchOptions { patience, ..options }).unwrap_err().to_string();
    assert!(error.contains("cannot connect to ") && error.contains("within"), "{error}");
    let took = start.elapsed();
    assert!(patience <= took && took < ClientConfig::default().connect_timeout, "{took:?}");
}
