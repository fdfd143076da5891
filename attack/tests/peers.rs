//! Every hostile peer does what it is for, against a listener that only reads; and it attacks
//! loopback alone. The attacks themselves need a release binary and minutes: `make attack`.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Output};
use std::thread;

use serde_json::Value;

fn attack(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_attack")).args(args).output().unwrap()
}

/// Accepts and reads for as long as the test runs.
fn sink() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut chunk = vec![0; 64 * 1024];
                while let Ok(1..) = stream.read(&mut chunk) {}
            });
        }
    });
    addr
}

#[test]
fn peers_reach_what_they_aim_at() {
    // Those with few connections: a test must not need more descriptors than it is sure to have.
    let names = [
        "never-reading",
        "h2-amplification",
        "h2-zero-window",
        "h2-rapid-reset",
        "h2-continuation",
        "h2-pings",
        "h2-pings-unread",
        "h2-settings",
        "h2-ping-acks",
        "dubbo-partial",
        "dubbo-never-reading",
        "dubbo-unknown",
        "dubbo-one-way",
        "link-unfinished",
        "link-defines",
        "link-pings",
        "8mb-bursts",
        "unknown-names",
        "max-connections",
    ];
    let peers = names.map(|name| {
        thread::spawn(move || {
            let addr = sink();
            let output = attack(&["peer", name, &addr, "1"]);
            let tally: Value = serde_json::from_slice(&output.stdout).unwrap();
            let count = |what: &str| tally[what].as_u64().unwrap_or_default();
            assert!(0 < count("connections") && 0 < count("sent_bytes"), "{name}: {tally}");
        })
    });
    for peer in peers {
        peer.join().unwrap();
    }
}

#[test]
fn nobody_elses_machine_is_attacked() {
    for args in [
        &["peer", "slow-heads", "192.0.2.1:80", "1"][..],
        &["peer", "slow-heads", "127.0.0.1:1", "1", "192.0.2.1"],
        &["--from", "192.0.2.1"],
    ] {
        let output = attack(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("not a loopback address"), "{text}");
    }
}

#[test]
fn the_command_line_is_checked() {
    for args in [&["--only"][..], &["--what", "x"], &["--from", "x"], &["peer", "slow-heads"]] {
        assert_eq!(attack(args).status.code(), Some(2), "{args:?}");
    }
    for args in [&["--only", "nothing"][..], &["peer", "slow-heads", "127.0.0.1:1", "601"]] {
        assert_eq!(attack(args).status.code(), Some(1), "{args:?}");
    }
    let list = attack(&["--list"]);
    assert!(list.status.success() && 24 < list.stdout.iter().filter(|b| **b == b'\n').count());
}
