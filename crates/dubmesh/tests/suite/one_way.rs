//! `dubmesh call --one-way`: what a provider gets that never answers.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Output};
use std::thread;

const HEADER_LEN: usize = 16;
const REQUEST: u8 = 0x80;
const TWO_WAY: u8 = 0x40;
/// The default of one second also counts while the arguments are converted: a build without
/// optimizations takes longer for megabytes where the cores are busy.
const TIMEOUT_MS: &str = "60000";

fn call(address: &str, args: &[&str]) -> Output {
    let url = format!("dubbo://{address}");
    let place = ["--types", "java.lang.String", "--url", &url, "--timeout-ms", TIMEOUT_MS];
    let head = ["call", "com.acme.Orders", "touch"];
    let args = [&head[..], args, &place].concat();
    Command::new(env!("CARGO_BIN_EXE_dubmesh")).args(args).output().unwrap()
}

#[test]
fn the_whole_call_is_sent_and_nothing_awaited() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.json");
    // More than a socket takes at once.
    std::fs::write(&file, format!("\"{}\"", "x".repeat(7 << 20))).unwrap();
    let provider = thread::spawn(move || {
        let mut frames = Vec::new();
        for _ in 0..3 {
            let mut bytes = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
            frames.push(bytes);
        }
        frames
    });
    let large = format!("@{}", file.display());
    for args in [
        &["\"a\"", "--one-way"][..],
        &[&large, "--one-way"],
        &["\"a\"", "--attachment", "return=false"],
    ] {
        let output = call(&address, args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]), "{said}");
        assert_eq!(said, "sent; a one-way call has no answer\n");
    }
    for (frame, least_len) in provider.join().unwrap().iter().zip([1, 7 << 20, 1]) {
        let (head, body) = frame.split_at(HEADER_LEN);
        assert_eq!(head[..2], [0xda, 0xbb]);
        assert_eq!(head[2] & (REQUEST | TWO_WAY), REQUEST, "{:#x}", head[2]);
        let body_len = u32::from_be_bytes(head[12..].try_into().unwrap()) as usize;
        assert_eq!(body.len(), body_len);
        assert!(least_len < body_len, "{body_len}");
    }
}

#[test]
fn nobody_there_is_a_refusal() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = call(&format!("127.0.0.1:{port}"), &["\"a\"", "--one-way"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}
