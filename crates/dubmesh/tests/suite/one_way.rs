//! `dubmesh call --one-way`: what a provider gets that never answers.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

const HEADER_LEN: usize = 16;
const MAGIC: [u8; 2] = [0xda, 0xbb];
const REQUEST: u8 = 0x80;
const TWO_WAY: u8 = 0x40;
/// The default of ten seconds may be too short for megabytes: a build without optimizations takes
/// long where the cores are busy.
const LONG: [&str; 2] = ["--timeout-ms", "60000"];

fn call(address: &str, args: &[&str]) -> Output {
    // The service's own timeout is for an answer.
    let folder = tempfile::tempdir().unwrap();
    let services = folder.path().join("services.toml");
    let text = format!(
        "[[service]]\ninterface = 'com.acme.Orders'\nendpoints = ['dubbo://{address}?timeout=1']\n"
    );
    std::fs::write(&services, text).unwrap();
    let registry = format!("file:{}", services.display());
    let place = ["--types", "java.lang.String", "--registry", &registry];
    let head = ["call", "com.acme.Orders", "touch"];
    let args = [&head[..], args, &place].concat();
    Command::new(env!("CARGO_BIN_EXE_dubmesh")).args(args).output().unwrap()
}

/// More than sockets take at once.
const LARGE_LEN: usize = 7 << 20;
/// To convert so much takes more than a millisecond.
const MEDIUM_LEN: usize = 1 << 20;

/// A file with a long argument.
struct Large(tempfile::TempDir);

impl Large {
    fn new(len: usize) -> Self {
        let large = Self(tempfile::tempdir().unwrap());
        let text = format!("\"{}\"", "x".repeat(len));
        std::fs::write(large.0.path().join("large.json"), text).unwrap();
        large
    }

    fn argument(&self) -> String {
        format!("@{}", self.0.path().join("large.json").display())
    }
}

/// A provider that never answers. Gives what comes over each connection, once that has ended.
fn reading(listener: TcpListener) -> Receiver<Vec<u8>> {
    let (sender, all) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, sender) = (stream.unwrap(), sender.clone());
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was cut off counts as far as it came.
                let _ = stream.read_to_end(&mut bytes);
                let _ = sender.send(bytes);
            });
        }
    });
    all
}

#[test]
fn the_whole_call_is_sent_and_nothing_awaited() {
    let (listener, large) = (TcpListener::bind("127.0.0.1:0").unwrap(), Large::new(LARGE_LEN));
    let address = listener.local_addr().unwrap().to_string();
    let (received, medium) = (reading(listener), Large::new(MEDIUM_LEN));
    // What asks for a definition, with --verbose, is no one-way call.
    let is_call = |bytes: &Vec<u8>| {
        bytes.starts_with(&MAGIC) && bytes.get(2).is_some_and(|flags| flags & TWO_WAY == 0)
    };
    for (args, least_len) in [
        (&["\"a\"", "--one-way"][..], 1),
        (&[&medium.argument(), "--one-way"], MEDIUM_LEN),
        (&[&large.argument(), "--one-way", LONG[0], LONG[1]], LARGE_LEN),
        (&[&large.argument(), "--one-way", "--verbose", LONG[0], LONG[1]], LARGE_LEN),
        (&["\"a\"", "--attachment", "return=false"], 1),
    ] {
        let output = call(&address, args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]), "{said}");
        let shown = if args.contains(&"--verbose") { said.lines().last().unwrap() } else { &said };
        assert_eq!(shown.trim_end(), "sent; a one-way call has no answer");
        let frame = received.iter().find(is_call).unwrap();
        let (head, body) = frame.split_at(HEADER_LEN);
        assert_eq!(head[2] & (REQUEST | TWO_WAY), REQUEST, "{:#x}", head[2]);
        let body_len = u32::from_be_bytes(head[12..].try_into().unwrap()) as usize;
        assert_eq!(body.len(), body_len);
        assert!(least_len < body_len, "{body_len}");
    }
}

/// A provider that does not read.
#[test]
fn a_call_that_is_not_sent_in_time_waits_for_no_answer() {
    let (listener, large) = (TcpListener::bind("127.0.0.1:0").unwrap(), Large::new(LARGE_LEN));
    let address = listener.local_addr().unwrap().to_string();
    let output = call(&address, &[&large.argument(), "--one-way", "--timeout-ms", "2000"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("was not completely sent") && said.contains("within 2000 ms"), "{said}");
    assert!(said.ends_with("; it will not be carried out\n"), "{said}");
    assert!(!said.contains("answer"), "{said}");
}

#[test]
fn a_connection_that_breaks_before_the_end_is_a_failure() {
    let (listener, large) = (TcpListener::bind("127.0.0.1:0").unwrap(), Large::new(LARGE_LEN));
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // One of another attempt may have ended before that.
            let _ = stream.read_exact(&mut [0; HEADER_LEN]);
            // So that the connection ends with a reset.
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    });
    for more in [&[][..], &["--verbose"]] {
        let large = large.argument();
        let args = [&[&*large, "--one-way"], &LONG[..], more].concat();
        let output = call(&address, &args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("dubmesh call: connection_broken: "), "{said}");
        assert!(said.contains(&format!("(at {address})")), "{said}");
    }
}

#[test]
fn nobody_there_is_a_refusal() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = call(&format!("127.0.0.1:{port}"), &["\"a\"", "--one-way"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}
