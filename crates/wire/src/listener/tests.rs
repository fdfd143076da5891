use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroUsize;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::connection::Socket;
use crate::socket;
use crate::worker_loads::Loads;

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(20);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

fn listener(max_connections: usize, files: Files) -> (Listener, Arc<ConnectionCounts>, SocketAddr) {
    let socket = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let counts = Arc::<ConnectionCounts>::default();
    let limits = ListenerLimits { max_connections, key: "test.max_connections", files };
    let listener = Listener::new(socket, "test", limits, Arc::clone(&counts)).unwrap();
    let addr = listener.address().tcp().unwrap();
    (listener, counts, addr)
}

/// Whether the listener closed the connection without a word.
async fn is_closed(mut stream: TcpStream) -> bool {
    matches!(soon(stream.read(&mut [0])).await, Ok(0) | Err(_))
}

#[tokio::test]
async fn the_limit_holds_and_a_place_comes_back_with_its_connection() {
    let (mut listener, counts, addr) = listener(3, Files::of_process());
    let mut clients = Vec::new();
    let mut held = Vec::new();
    for _ in 0..3 {
        clients.push(TcpStream::connect(addr).await.unwrap());
        held.push(soon(listener.accept()).await);
    }
    assert_eq!(counts.n_open(), 3);
    let over = TcpStream::connect(addr).await.unwrap();
    {
        let accepting = listener.accept();
        tokio::select! {
            connection = accepting => panic!("{connection:?} is one too many"),
            is_closed = is_closed(over) => assert!(is_closed),
        }
    }
    assert_eq!((counts.n_open(), counts.n_refused_full()), (3, 1));
    drop(held.pop());
    assert_eq!(counts.n_open(), 2);
    let _client = TcpStream::connect(addr).await.unwrap();
    held.push(soon(listener.accept()).await);
    assert_eq!((counts.n_open(), counts.n_accepted()), (3, 4));
}

#[tokio::test]
async fn descriptors_that_are_kept_are_not_given_away() {
    let all_reserved = Files::of_process().reserve(u64::MAX);
    let (mut listener, counts, addr) = listener(10, all_reserved);
    let client = TcpStream::connect(addr).await.unwrap();
    tokio::select! {
        connection = listener.accept() => panic!("{connection:?} takes what is kept"),
        is_closed = is_closed(client) => assert!(is_closed),
    }
    assert_eq!((counts.n_open(), counts.n_refused_no_files()), (0, 1));
}

/// An async block that uses one part of what came by a channel drops the other parts at once. What
/// counts a connection must not be such a part.
#[tokio::test]
async fn a_connection_counts_while_its_stream_lives_also_on_another_event_loop() {
    let (mut listener, counts, addr) = listener(10, Files::of_process());
    let loads = Loads::new(NonZeroUsize::new(2).unwrap());
    let mut client = TcpStream::connect(addr).await.unwrap();
    let detached = soon(listener.accept_detached()).await.assigned(loads.assign());
    let id = detached.facts().id;
    assert_eq!((counts.n_open(), loads.n_connections()), (1, vec![1, 0]));
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let mut connection = detached.attach().unwrap();
            let mut byte = [0];
            connection.read_exact(&mut byte).await.unwrap();
            connection.write_all(&byte).await.unwrap();
            // Ends with the client.
            assert_eq!(connection.read(&mut byte).await.unwrap(), 0);
            connection.facts().id
        })
    });
    client.write_all(b"x").await.unwrap();
    soon(client.read_exact(&mut [0])).await.unwrap();
    assert_eq!((counts.n_open(), loads.n_connections()), (1, vec![1, 0]), "served, so open");
    drop(client);
    assert_eq!(elsewhere.join().unwrap(), id);
    assert_eq!((counts.n_open(), loads.n_connections()), (0, vec![0, 0]));
}

#[tokio::test]
async fn accepted_connections_are_tuned_for_calls() {
    let (mut listener, _, addr) = listener(1, Files::of_process());
    let _client = TcpStream::connect(addr).await.unwrap();
    let connection = soon(listener.accept()).await;
    let stream = SockRef::from(connection.socket().and_then(Socket::tcp).unwrap());
    assert!(stream.tcp_nodelay().unwrap() && stream.keepalive().unwrap());
    assert_eq!(stream.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
}

#[test]
fn refusals_are_told_seldom_and_with_their_number() {
    let mut refused = UnloggedRefusals::default();
    let start = Instant::now();
    assert_eq!(refused.note(start), Some(1));
    for _ in 0..1000 {
        assert_eq!(refused.note(start + LOG_INTERVAL / 2), None);
    }
    assert_eq!(refused.note(start + LOG_INTERVAL), Some(1001));
}

#[test]
fn a_refusal_says_which_limit_and_what_to_do() {
    let limits = ListenerLimits {
        max_connections: 20,
        key: "ingress.max_connections",
        files: Files::of_process().reserve(7),
    };
    let full = Reason { refusal: &AcceptRefusal::Full, limits: &limits }.to_string();
    assert_eq!(full, "20 are open, the limit of ingress.max_connections; raise it");
    let no_files = Reason { refusal: &AcceptRefusal::NoFiles, limits: &limits }.to_string();
    assert!(no_files.contains(" 7 are reserved") && no_files.contains("LimitNOFILE"), "{no_files}");
}
