//! What people and machines do wrong: clear errors, bounded memory, and others are served.

use std::path::Path;
use std::time::Duration;

use crate::support::{PATIENCE, Proxy, TransferFolder, TransferServer, fetch};
use bytes::Bytes;
use link::codec::Raw;
use link::{Client, ClientConfig, Connections, Method};
use transfer::messages::{Message, NextRequest, OpenReply, OpenRequest};
use transfer::{
    FetchOptions, LineRequest, LineStep, OutputOptions, ServeOptions, StepSide, TransferError,
};

const OPEN: Method<Bytes, Bytes> = Method::new::<(Raw,)>("dubmesh.Transfer", "open");
const NEXT: Method<Bytes, Bytes> = Method::new::<(Raw,)>("dubmesh.Transfer", "next");

fn bytes_of(message: &impl Message) -> Bytes {
    let mut out = Vec::new();
    message.encode(&mut out);
    out.into()
}

fn one_connection() -> ClientConfig {
    ClientConfig { connections: Connections::Fixed(1), ..ClientConfig::default() }
}

async fn open(client: &Client, callers: u32) -> Result<u64, String> {
    let wanted = OpenRequest { first: 0, callers, step: LineStep::Unchanged };
    let answer = client.call(&OPEN, bytes_of(&wanted)).await.map_err(|error| error.to_string())?;
    Ok(OpenReply::decode(&answer).unwrap().session)
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.expect("the test hangs") })
}

#[test]
fn sources_that_are_none() {
    let folder = TransferFolder::new();
    let error = |path: &Path| {
        TransferServer::start(path, ServeOptions::default()).err().unwrap().to_string()
    };
    let missing = folder.path("missing");
    let told = error(&missing);
    assert!(
        told.starts_with(&format!("cannot open {}: No such file", missing.display())),
        "{told}"
    );
    let told = error(folder.path(".").as_path());
    assert!(told.ends_with("is not a regular file"), "{told}");
}

#[test]
fn an_output_that_exists_is_kept() {
    let folder = TransferFolder::with_lines(1000);
    let server = folder.serve();
    let options = folder.options(server.address, LineStep::Contest, StepSide::Server);
    std::fs::write(folder.path("output"), "old").unwrap();
    let error = fetch(&options).unwrap_err();
    assert!(matches!(error, TransferError::OutputExists { .. }), "{error}");
    assert_eq!(std::fs::read(folder.path("output")).unwrap(), b"old");
    let output = OutputOptions { force: true, ..options.output.clone() };
    fetch(&FetchOptions { output, ..options.clone() }).unwrap();
    folder.check(LineStep::Contest);
    std::fs::create_dir(folder.path("folder")).unwrap();
    for force in [false, true] {
        let output = OutputOptions { path: folder.path("folder"), force, ..options.output.clone() };
        let error = fetch(&FetchOptions { output, ..options.clone() }).unwrap_err().to_string();
        assert!(error.ends_with("/folder is not a regular file"), "{error}");
    }
    let output = OutputOptions { path: folder.path("no/folder"), ..options.output.clone() };
    let error = fetch(&FetchOptions { output, ..options }).unwrap_err().to_string();
    assert!(error.starts_with("cannot create ") && error.contains("No such file"), "{error}");
}

/// A file that is truncated ends its transfers, with a reason, and nothing else.
#[test]
fn a_source_that_changes_is_told() {
    let folder = TransferFolder::with_lines(4_000_000);
    let server = folder.serve();
    let proxy = Proxy::start(server.address);
    proxy.end_after(300_000);
    let options = folder.options(proxy.address, LineStep::Contest, StepSide::Server);
    let error = std::thread::scope(|scope| {
        let fetching = scope.spawn(|| fetch(&options));
        proxy.wait_until_ended();
        let source = std::fs::OpenOptions::new().write(true).open(folder.path("source")).unwrap();
        source.set_len(3_000_000).unwrap();
        proxy.go_on(server.address);
        fetching.join().unwrap().unwrap_err().to_string()
    });
    assert!(error.contains("was changed while it was read"), "{error}");
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let folder = TransferFolder::with_lines(1000);
    let server = folder.serve();
    block_on(async {
        let client = Client::connect_with(server.address, one_connection()).await.unwrap();
        for request in [&b""[..], b"nonsense", &[0; 21], &[255; 300]] {
            let error = client.call(&OPEN, Bytes::from_static(request)).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains("cannot decode the arguments"), "{error}");
            let answer = client.call(&NEXT, Bytes::from_static(request)).await.unwrap();
            let told = String::from_utf8_lossy(&answer[8..]);
            assert!(told.contains("bytes as the transfer message \"next\""), "{told}");
        }
        let unknown = NextRequest { session: 5, ask: LineRequest { caller: 0, turn: 1 } };
        let answer = client.call(&NEXT, bytes_of(&unknown)).await.unwrap();
        let told = String::from_utf8_lossy(&answer[8..]);
        assert!(told.contains("transfer 0000000000000005 is unknown"), "{told}");
        assert!(open(&client, 100_000).await.is_err());
    });
    fetch(&folder.options(server.address, LineStep::Contest, StepSide::Server)).unwrap();
    folder.check(LineStep::Contest);
}

/// A client asks for thousands of lines and reads no answer; others do not notice.
#[test]
fn a_client_that_never_reads_holds_up_nobody() {
    let folder = TransferFolder::with_lines(3_000_000);
    let server = folder.serve();
    let proxy = Proxy::start(server.address);
    block_on(async {
        let client = Client::connect_with(proxy.address, one_connection()).await.unwrap();
        let session = open(&client, 4096).await.unwrap();
        proxy.stall();
        let next = client.bind(&NEXT);
        let mut asking = tokio::task::JoinSet::new();
        for caller in 0..4096 {
            let (next, ask) =
                (next.clone(), NextRequest { session, ask: LineRequest { caller, turn: 1 } });
            asking.spawn(async move { next.call(bytes_of(&ask)).no_timeout().await.is_ok() });
        }
        tokio::task::yield_now().await;
        let options = folder.options(server.address, LineStep::Contest, StepSide::Server);
        let fetching = tokio::task::spawn_blocking(move || fetch(&options).map(|_| ()));
        fetching.await.unwrap().unwrap();
        folder.check(LineStep::Contest);
    });
}

/// A thousand clients have a transfer each at the same time; one more than there may be is
/// refused.
#[test]
fn a_thousand_clients() {
    const N: usize = 1000;
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let folder = TransferFolder::with_lines(1_000_000);
    let options = ServeOptions { max_transfers: N, ..ServeOptions::default() };
    let server = TransferServer::start(&folder.path("source"), options).unwrap();
    block_on(async {
        let mut clients = Vec::new();
        for _ in 0..N {
            let client = Client::connect_with(server.address, one_connection()).await.unwrap();
            let session = open(&client, 2).await.unwrap();
            clients.push((client, session));
        }
        let refused = open(&clients[0].0, 2).await.unwrap_err();
        assert!(refused.contains("the server has 1000 transfers, which is its limit"), "{refused}");
        for turn in 1..4 {
            for (client, session) in &clients {
                for caller in 0..2 {
                    let next = NextRequest { session: *session, ask: LineRequest { caller, turn } };
                    let answer = client.call(&NEXT, bytes_of(&next)).await.unwrap();
                    let number = u64::from_be_bytes(*answer.first_chunk().unwrap());
                    assert_eq!(number, (turn - 1) * 2 + u64::from(caller));
                }
            }
        }
    });
}

#[test]
fn transfers_that_nobody_uses_make_room() {
    let folder = TransferFolder::with_lines(100_000);
    let options =
        ServeOptions { max_transfers: 1, idle: Duration::from_secs(1), ..ServeOptions::default() };
    let server = TransferServer::start(&folder.path("source"), options).unwrap();
    block_on(async {
        let client = Client::connect_with(server.address, one_connection()).await.unwrap();
        let first = open(&client, 1).await.unwrap();
        assert!(open(&client, 1).await.is_err());
        let second = loop {
            match open(&client, 1).await {
                Ok(session) => break session,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        assert_ne!(first, second);
        let next = NextRequest { session: first, ask: LineRequest { caller: 0, turn: 1 } };
        let answer = client.call(&NEXT, bytes_of(&next)).await.unwrap();
        assert!(String::from_utf8_lossy(&answer[8..]).contains("is unknown"));
    });
}
