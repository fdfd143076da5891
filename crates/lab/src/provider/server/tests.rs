//! A provider as the bytes on a connection show it.

use std::io::{Read, Write};
use std::net::TcpStream as StdStream;

use dubbo_proto::DEFAULT_PAYLOAD_LIMIT;
use dubbo_proto::frame::{self, Frame};

use super::*;

/// A call of `IHelloService.hash` that a Java consumer sent.
const REQUEST: &[u8] =
    include_bytes!("../../../../dubbo-proto/vectors/java27_hessian2_hash_request.bin");
/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn start(work: Duration) -> (Provider, StdStream) {
    let provider = Provider::start(&ProviderConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        service: crate::provider::HELLO.parse().unwrap(),
        threads: NonZeroUsize::MIN,
        work: work..=work,
        workers: NonZeroUsize::new(2).unwrap(),
        payload_limit: DEFAULT_PAYLOAD_LIMIT,
    })
    .unwrap();
    let stream = StdStream::connect(provider.addr()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    (provider, stream)
}

fn read_frame(stream: &mut StdStream, input: &mut BytesMut) -> Frame {
    loop {
        if let Some(frame) = frame::decode(input, 1 << 20).unwrap() {
            return frame;
        }
        let mut bytes = [0; 4096];
        let len = stream.read(&mut bytes).unwrap();
        assert_ne!(len, 0, "the provider has closed the connection");
        input.extend_from_slice(&bytes[..len]);
    }
}

fn status(frame: &Frame) -> Status {
    assert!(!frame.header.is_request && !frame.header.is_event, "{frame:?}");
    Status::from_u8(frame.header.status)
}

fn drain(provider: Provider) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(provider.drain())
}

/// The one thread is busy for a while: the second call is rejected, the first still answered when
/// the provider ends, and in between the consumer is told.
#[test]
fn a_drain_rejects_nothing_that_was_begun() {
    let (provider, mut stream) = start(Duration::from_millis(300));
    let mut input = BytesMut::new();
    stream.write_all(&REQUEST.repeat(2)).unwrap();
    assert_eq!(status(&read_frame(&mut stream, &mut input)), Status::ServerThreadpoolExhausted);
    let counts = Arc::clone(provider.counts());
    assert_eq!((counts.received(), counts.rejected()), (2, 1));
    let draining = std::thread::spawn(move || drain(provider));
    // On a busy machine the call may end before the announcement.
    let mut frames = [read_frame(&mut stream, &mut input), read_frame(&mut stream, &mut input)];
    frames.sort_by_key(|frame| frame.header.is_event);
    let [reply, readonly] = frames;
    assert_eq!(status(&reply), Status::Ok);
    assert!(readonly.header.is_event && readonly.header.is_request, "{readonly:?}");
    assert_eq!(&readonly.body[..], b"\x01R");
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    assert!(draining.join().unwrap());
    assert_eq!(counts.answered(), 1);
}

#[test]
fn without_work_every_call_is_answered_at_once() {
    let (provider, mut stream) = start(Duration::ZERO);
    let mut input = BytesMut::new();
    stream.write_all(&REQUEST.repeat(100)).unwrap();
    for _ in 0..100 {
        assert_eq!(status(&read_frame(&mut stream, &mut input)), Status::Ok);
    }
    assert_eq!((provider.counts().answered(), provider.counts().rejected()), (100, 0));
    drop(stream);
    assert!(drain(provider));
}

/// Bytes that are not Dubbo's end their own connection and disturb no other.
#[test]
fn garbage_ends_its_connection_alone() {
    let (provider, mut stream) = start(Duration::ZERO);
    let mut other = StdStream::connect(provider.addr()).unwrap();
    other.set_read_timeout(Some(TIMEOUT)).unwrap();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(other.read(&mut [0; 1]).unwrap_or(0), 0);
    stream.write_all(REQUEST).unwrap();
    assert_eq!(status(&read_frame(&mut stream, &mut BytesMut::new())), Status::Ok);
    assert!(drain(provider));
}
