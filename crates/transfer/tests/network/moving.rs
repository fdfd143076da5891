//! Transfers over real sockets, byte by byte against what the same step does without a network:
//! whatever breaks on the way.

use std::time::Duration;

use crate::support::{Proxy, TransferFolder, fetch, fetch_until};
use transfer::generate::Lines;
use transfer::{
    Compression, FetchOptions, LineEnds, LineStep, OutputOptions, StepSide, TransferError,
    WriterOptions,
};

const BOTH: [StepSide; 2] = [StepSide::Server, StepSide::Client];
const STEPS: [LineStep; 2] = [LineStep::Contest, LineStep::Unchanged];

#[test]
fn either_side_processes() {
    let folder = TransferFolder::with_lines(3_000_000);
    let server = folder.serve();
    for side in BOTH {
        for step in STEPS {
            let options = folder.options(server.address, step, side);
            let fetched = fetch(&options).unwrap();
            assert_eq!((fetched.resumed, fetched.restarts), (0, 0));
            assert_eq!(fetched.written.duplicates, 0);
            folder.check(step);
            std::fs::remove_file(folder.path("output")).unwrap();
        }
    }
}

/// Lines that repeat themselves get smaller on their way, and random ones are left alone;
/// connections break meanwhile.
#[test]
fn compressed_lines() {
    let log: String = (0..60_000)
        .map(|n| format!("2026-11-21 10:00:{:02} INFO request {n} took {} ms\r\n", n % 60, n % 7))
        .collect();
    for (folder, gains) in [
        (TransferFolder::with_source(log.as_bytes()), true),
        (TransferFolder::with_lines(3_000_000), false),
    ] {
        let server = folder.serve();
        let proxy = Proxy::start(server.address);
        for side in BOTH {
            proxy.cut_connections(3);
            let options = folder.options(proxy.address, LineStep::Contest, side);
            let compression = Compression::Lz4;
            let fetched = fetch(&FetchOptions { compression, callers: 200, ..options }).unwrap();
            folder.check(LineStep::Contest);
            std::fs::remove_file(folder.path("output")).unwrap();
            let traffic = fetched.traffic;
            assert!(3 < traffic.n_compressing, "{traffic:?}");
            let saved = traffic.raw_in_bytes - traffic.packed_in_bytes;
            assert_eq!(traffic.read_bytes < saved, gains, "{traffic:?}");
            // The answers "end of file", alike for all callers, get smaller in any case.
            assert_eq!(saved < traffic.read_bytes / 20, !gains, "{traffic:?}");
            // Questions repeat themselves in any case.
            assert!(2 * traffic.packed_out_bytes < traffic.raw_out_bytes, "{traffic:?}");
        }
    }
}

#[test]
fn one_caller_and_thousands() {
    let folder = TransferFolder::with_lines(300_000);
    let server = folder.serve();
    for (connections, callers) in [(1, 1), (2, 1), (12, 1000)] {
        let options = folder.options(server.address, LineStep::Contest, StepSide::Server);
        fetch(&FetchOptions { connections, callers, ..options }).unwrap();
        folder.check(LineStep::Contest);
        std::fs::remove_file(folder.path("output")).unwrap();
    }
}

#[test]
fn files_that_are_unusual() {
    let long = [b"x".repeat(300_000), b"\r\n".to_vec()].concat();
    let longest = [b"y".repeat((1 << 20) - 2), b"\r\n".to_vec()].concat();
    for source in [
        &b""[..],
        b"\r\n",
        b"a",
        b"123456789\r\nabc",
        b"a\nb\r\r\nc",
        &b"\r\n".repeat(5000),
        &[&long, &b"short\r\n"[..], &long, &longest, b"end"].concat(),
    ] {
        let folder = TransferFolder::with_source(source);
        let server = folder.serve();
        for side in BOTH {
            let options = folder.options(server.address, LineStep::Contest, side);
            fetch(&options).unwrap();
            folder.check(LineStep::Contest);
            std::fs::remove_file(folder.path("output")).unwrap();
        }
    }
}

/// Lines that end with `\n`, or each with its own end: by hand, and many of them while
/// connections break. A transfer that is stopped goes on, but not by another rule.
#[test]
fn lines_that_end_otherwise() {
    let mixed = b"123456789\nabc\r\n\n\r\na\rb\r\nend";
    let results = [
        (LineEnds::Lf, &b"0987321\n1\rca\n2\n3\r\n4\rba\n5de"[..]),
        (LineEnds::Any, b"0987321\n1ca\r\n2\n3\r\n4ba\r\n5de"),
    ];
    for (ends, expected) in results {
        let folder = TransferFolder::with_source(mixed);
        let server = folder.serve_by(ends);
        for side in BOTH {
            fetch(&folder.options(server.address, LineStep::Contest, side)).unwrap();
            assert_eq!(
                std::fs::read(folder.path("output")).unwrap().escape_ascii().to_string(),
                expected.escape_ascii().to_string()
            );
            std::fs::remove_file(folder.path("output")).unwrap();
            fetch(&folder.options(server.address, LineStep::Unchanged, side)).unwrap();
            assert_eq!(std::fs::read(folder.path("output")).unwrap(), mixed);
            std::fs::remove_file(folder.path("output")).unwrap();
        }
        drop(server);

        let lines = Lines::with_ends(4_000_000, 7, ends);
        lines.write_to(&folder.path("source"), true, &mut |_| {}).unwrap();
        for side in BOTH {
            stopped_and_resumed(&folder, ends, side);
        }
    }
}

fn stopped_and_resumed(folder: &TransferFolder, ends: LineEnds, side: StepSide) {
    let server = folder.serve_by(ends);
    let proxy = Proxy::start(server.address);
    let options = folder.options(proxy.address, LineStep::Contest, side);
    let output = OutputOptions { resume: true, ..options.output.clone() };
    let options = FetchOptions { output, ..options };
    proxy.end_after(900_000);
    let stop = async || {
        while !proxy.has_ended() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let error = fetch_until(&options, stop).unwrap_err();
    assert!(matches!(error, TransferError::Stopped), "{error}");
    drop(server);
    let server = folder.serve();
    proxy.go_on(server.address);
    let error = fetch(&options).unwrap_err().to_string();
    let told = format!("served with --lines {ends}, but now it is of ");
    assert!(
        error.contains(&told) && error.contains("--lines crlf; start over with --force"),
        "{error}"
    );
    drop(server);
    let server = folder.serve_by(ends);
    proxy.go_on(server.address);
    proxy.cut_connections(3);
    let fetched = fetch(&options).unwrap();
    assert!(1000 < fetched.resumed, "{}", fetched.resumed);
    folder.check_by(ends, LineStep::Contest);
    std::fs::remove_file(folder.path("output")).unwrap();
}

#[test]
fn a_line_that_is_too_long_ends_the_transfer() {
    let folder = TransferFolder::with_source(&[&b"ok\r\n"[..], &b"x\n".repeat(1 << 20)].concat());
    let server = folder.serve();
    let options = folder.options(server.address, LineStep::Contest, StepSide::Server);
    let error = fetch(&options).unwrap_err().to_string();
    assert!(error.contains("line 1 at offset 4 is over the limit"), "{error}");
    assert!(error.contains("use --lines lf for \\n"), "{error}");
    assert!(!folder.path("output").exists());
}

/// Connections die in the middle of requests and lines, again and again.
#[test]
fn connections_that_die_lose_nothing_and_double_nothing() {
    let folder = TransferFolder::with_lines(8_000_000);
    let server = folder.serve();
    for side in BOTH {
        let proxy = Proxy::start(server.address);
        proxy.cut_connections(15);
        let fetched = fetch(&folder.options(proxy.address, LineStep::Contest, side)).unwrap();
        assert!(5 < proxy.n_cut(), "only {} connections were cut", proxy.n_cut());
        assert_eq!(fetched.restarts, 0);
        folder.check(LineStep::Contest);
        std::fs::remove_file(folder.path("output")).unwrap();
    }
}

/// The server dies, and another process comes back that knows of nothing: twice.
#[test]
fn a_server_that_restarts_is_waited_for() {
    let folder = TransferFolder::with_lines(4_000_000);
    let mut server = folder.serve();
    let proxy = Proxy::start(server.address);
    let options = folder.options(proxy.address, LineStep::Contest, StepSide::Server);
    proxy.end_after(1_000_000);
    let fetched = std::thread::scope(|scope| {
        let fetching = scope.spawn(|| fetch(&options));
        for round in 0..2 {
            proxy.wait_until_ended();
            drop(server);
            server = folder.serve();
            proxy.go_on(server.address);
            if round == 0 {
                proxy.end_after(1_000_000);
            }
        }
        fetching.join().unwrap()
    });
    assert_eq!(fetched.unwrap().restarts, 2);
    folder.check(LineStep::Contest);
}

#[test]
fn a_server_that_stays_away_is_given_up() {
    let folder = TransferFolder::with_lines(4_000_000);
    let server = folder.serve();
    let proxy = Proxy::start(server.address);
    proxy.end_after(1_000_000);
    let patience = Duration::from_millis(1500);
    let options = folder.options(proxy.address, LineStep::Contest, StepSide::Server);
    let error = fetch(&FetchOptions { patience, ..options.clone() }).unwrap_err();
    assert!(matches!(error, TransferError::NoAnswer { .. }), "{error}");
    assert!(!folder.path("output").exists());
    // What has come is there to go on from.
    proxy.go_on(server.address);
    let output = OutputOptions { resume: true, ..options.output.clone() };
    let fetched = fetch(&FetchOptions { output, ..options }).unwrap();
    assert!(0 < fetched.resumed);
    folder.check(LineStep::Contest);
}

#[test]
fn nobody_there_is_told_at_once() {
    let folder = TransferFolder::with_lines(1000);
    let address = folder.serve().address;
    let error = fetch(&folder.options(address, LineStep::Contest, StepSide::Server)).unwrap_err();
    assert!(error.to_string().contains("cannot connect to 127.0.0.1"), "{error}");
}

/// Stopped in the middle, and resumed, three times; a different step or source is not resumed.
#[test]
fn a_client_that_is_stopped_goes_on_from_there() {
    for side in BOTH {
        let folder = TransferFolder::with_lines(4_000_000);
        let server = folder.serve();
        let proxy = Proxy::start(server.address);
        let options = folder.options(proxy.address, LineStep::Contest, side);
        let output = OutputOptions { resume: true, ..options.output.clone() };
        let options = FetchOptions { output, ..options };
        for _ in 0..3 {
            proxy.end_after(900_000);
            let stop = async || {
                while !proxy.has_ended() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            let error = fetch_until(&options, stop).unwrap_err();
            assert!(matches!(error, TransferError::Stopped), "{error}");
            assert!(!folder.path("output").exists());
            assert!(folder.path("output.partial.journal").exists());
            proxy.go_on(server.address);
        }
        let other = FetchOptions { step: LineStep::Unchanged, ..options.clone() };
        let error = fetch(&other).unwrap_err();
        assert!(matches!(error, TransferError::OtherTransfer { .. }), "{error}");
        let output = OutputOptions { resume: false, ..options.output.clone() };
        let error = fetch(&FetchOptions { output, ..options.clone() }).unwrap_err();
        assert!(matches!(error, TransferError::PartialExists { .. }), "{error}");
        let fetched = fetch(&options).unwrap();
        assert!(10_000 < fetched.resumed, "{}", fetched.resumed);
        folder.check(LineStep::Contest);
    }
}

/// A little room for lines: callers wait for each other, and for the disk.
#[test]
fn little_room_is_enough() {
    let folder = TransferFolder::with_lines(400_000);
    let server = folder.serve();
    for (window, budget) in [(1, 1), (64, 1 << 16), (1 << 16, 200)] {
        let options = folder.options(server.address, LineStep::Contest, StepSide::Client);
        let writer = WriterOptions { window, budget };
        fetch(&FetchOptions { writer, ..options }).unwrap();
        folder.check(LineStep::Contest);
        std::fs::remove_file(folder.path("output")).unwrap();
    }
}
