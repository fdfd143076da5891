//! `dubmesh transfer` as somebody runs it: processes that are killed in the middle, and what they
//! say.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::killed_at_end::KilledAtEnd;

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(60);

fn transfer(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.arg("transfer").args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(args: &[&str]) -> Output {
    transfer(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// What a command that fails says.
fn refused(args: &[&str]) -> String {
    let output = output(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stdout(&output));
    String::from_utf8(output.stderr).unwrap()
}

fn succeed(args: &[&str]) -> String {
    let output = output(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    // There is no terminal: nothing but the result is told.
    assert_eq!(stderr, "");
    stdout(&output).to_owned()
}

/// A folder with a source of so many bytes.
struct SourceFolder(tempfile::TempDir);

impl SourceFolder {
    fn with_lines(bytes: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        succeed(&["generate", &folder.path("source"), "--bytes", bytes, "--seed", "7"]);
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).into_os_string().into_string().unwrap()
    }

    fn verify(&self) {
        succeed(&["verify", &self.path("source"), &self.path("output"), "--process", "contest"]);
    }
}

impl KilledAtEnd {
    fn start(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// A server on this address, and where it listens.
    fn server(source: &str, address: &str) -> (Self, String) {
        Self::serving(&["serve", source, "--listen", address])
    }

    fn serving(args: &[&str]) -> (Self, String) {
        let mut server = Self::start(transfer(args));
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("READY ").unwrap_or_else(|| panic!("{line:?}")).trim();
        (server, address.to_owned())
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for something that a running process does.
    fn wait_until(&mut self, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert_eq!(self.0.try_wait().unwrap(), None, "it ended before");
            assert!(start.elapsed() < PATIENCE, "that did not happen within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn len(path: &str) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

#[test]
fn a_file_is_moved_and_verified() {
    let folder = SourceFolder::with_lines("2MiB");
    let (_server, address) = KilledAtEnd::server(&folder.path("source"), "127.0.0.1:0");
    let to = folder.path("output");
    for side in ["server", "client"] {
        let fetch = ["fetch", &address, "--output", &to, "--process", "contest", "--process-at"];
        let told = succeed(&[&fetch[..], &[side, "--force"]].concat());
        assert!(told.contains("complete and checked") && told.contains(" a segment; "), "{told}");
        folder.verify();
    }
    let told = succeed(&["fetch", &address, "--output", &to, "--force", "--no-sync", "--json"]);
    let row: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(row["bytes"], 2 << 20);
    assert!(row["wire"]["bytes_per_segment_in"].as_f64().unwrap() > 20.0, "{row}");
    assert_eq!(fs::read(&to).unwrap(), fs::read(folder.path("source")).unwrap());
    let told = refused(&["verify", &folder.path("source"), &to, "--process", "contest"]);
    assert!(told.contains("line 0, offset 0: expected"), "{told}");
    let local = folder.path("local");
    succeed(&["local", &folder.path("source"), &local, "--process", "contest"]);
    succeed(&["verify", &folder.path("source"), &local, "--process", "contest"]);
}

/// Server and client are killed without a word in the middle; the client goes on each time.
#[test]
fn processes_that_are_killed() {
    let folder = SourceFolder::with_lines("20MB");
    let (source, to) = (folder.path("source"), folder.path("output"));
    let (partial, journal) = (format!("{to}.partial"), format!("{to}.partial.journal"));
    let (mut server, address) = KilledAtEnd::server(&source, "127.0.0.1:0");
    let fetch = ["fetch", &address, "--output", &to, "--process", "contest", "--resume"];
    // One caller is slow enough to be killed in the middle.
    let slow = [&fetch[..], &["--connections", "1", "--callers", "1"]].concat();
    let mut client = KilledAtEnd::start(transfer(&slow));
    client.wait_until(|| 0 < len(&partial));
    server.kill();
    let before = len(&partial);
    let (_server, _) = KilledAtEnd::server(&source, &address);
    client.wait_until(|| before + 200_000 < len(&partial));
    client.wait_until(|| Path::new(&journal).exists());
    client.kill();
    // A signal that can be handled keeps all that has come.
    let mut client = KilledAtEnd::start(transfer(&slow));
    let before = len(&partial);
    client.wait_until(|| before + 200_000 < len(&partial));
    client.signal("TERM");
    assert_eq!(client.0.wait().unwrap().code(), Some(1));
    let mut told = String::new();
    std::io::Read::read_to_string(client.0.stderr.as_mut().unwrap(), &mut told).unwrap();
    assert!(
        told.contains("stopped; what has arrived is in ") && told.contains("--resume"),
        "{told}"
    );
    assert!(!PathBuf::from(&to).exists());
    let told = refused(&["fetch", &address, "--output", &to, "--process", "contest"]);
    assert!(told.contains("continue it with --resume"), "{told}");
    let told = succeed(&fetch);
    assert!(told.contains(" lines were already there"), "{told}");
    folder.verify();
    assert!(!PathBuf::from(partial).exists() && !PathBuf::from(journal).exists());
}

/// The output may not become longer than the process's limit: an error like that of a full disk,
/// and what was written is there to go on from.
#[test]
fn an_output_over_the_limit_of_files_is_kept() {
    let folder = SourceFolder::with_lines("3MB");
    let (_server, address) = KilledAtEnd::server(&folder.path("source"), "127.0.0.1:0");
    let to = folder.path("output");
    let fetch = ["fetch", &address, "--output", &to, "--process", "contest", "--resume"];
    let limited = Command::new("sh")
        .args([
            "-c",
            "ulimit -f 2000; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_dubmesh"),
            "transfer",
        ])
        .args(fetch)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(1), "{told}");
    assert!(told.contains("File too large") && told.contains("continue with --resume"), "{told}");
    let told = succeed(&fetch);
    assert!(told.contains(" lines were already there"), "{told}");
    folder.verify();
}

#[test]
fn lines_are_compressed_where_they_repeat_themselves() {
    let folder = SourceFolder::with_lines("1MiB");
    let log = folder.path("log");
    fs::write(&log, "the same line again and again, and then again\r\n".repeat(30_000)).unwrap();
    // Of random lines only what is between them can get smaller, if many come at once.
    for (source, ratios) in [(log, 2.0..1000.0), (folder.path("source"), 1.0..1.2)] {
        let (_server, address) = KilledAtEnd::server(&source, "127.0.0.1:0");
        let to = folder.path("output");
        let fetch = ["fetch", &address, "--output", &to, "--compress", "lz4", "--force"];
        let told = succeed(&fetch);
        let line = told.lines().find(|line| line.starts_with("  compressed ")).unwrap();
        let ratio = match line.strip_prefix("  compressed no lines: they do not get smaller; ") {
            Some(_) => 1.0,
            None => {
                let ratio = line.strip_prefix("  compressed lines ").unwrap_or(line);
                ratio.split(" : 1, ").next().unwrap().parse().unwrap()
            }
        };
        assert!(ratios.contains(&ratio) && line.contains("; requests "), "{line}");
        assert!(line.contains(" s of CPU time here"), "{line}");
        assert_eq!(fs::read(&to).unwrap(), fs::read(&source).unwrap());
        let told = succeed(&[&fetch[..], &["--json"]].concat());
        let row: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(row["compression"]["used"], true);
        assert!(1.0 < row["compression"]["ratio_out"].as_f64().unwrap(), "{row}");
        let told = succeed(&["fetch", &address, "--output", &to, "--force"]);
        assert!(!told.contains("compressed"), "{told}");
    }
}

/// Lines that end with `\n`, or each with its own end; and what is told if nobody says so.
#[test]
fn lines_that_end_otherwise() {
    for lines in ["lf", "any"] {
        let folder = SourceFolder(tempfile::tempdir().unwrap());
        let [source, to, local] = ["source", "output", "local"].map(|name| folder.path(name));
        succeed(&["generate", &source, "--bytes", "2MB", "--lines", lines]);
        let (_server, address) =
            KilledAtEnd::serving(&["serve", &source, "--listen", "127.0.0.1:0", "--lines", lines]);
        for side in ["server", "client"] {
            let fetch = ["fetch", &address, "--output", &to, "--force", "--process", "contest"];
            succeed(&[&fetch[..], &["--process-at", side]].concat());
            succeed(&["verify", &source, &to, "--process", "contest", "--lines", lines]);
        }
        succeed(&["local", &source, &local, "--process", "contest", "--lines", lines]);
        assert_eq!(fs::read(&to).unwrap(), fs::read(&local).unwrap());
        refused(&["verify", &source, &to, "--process", "contest"]);
        succeed(&["fetch", &address, "--output", &to, "--force"]);
        assert_eq!(fs::read(&to).unwrap(), fs::read(&source).unwrap());
    }

    let folder = SourceFolder(tempfile::tempdir().unwrap());
    let [source, to] = ["source", "output"].map(|name| folder.path(name));
    succeed(&["generate", &source, "--bytes", "2MB", "--lines", "lf"]);
    let (_server, address) = KilledAtEnd::server(&source, "127.0.0.1:0");
    for command in [
        &["fetch", &address, "--output", &to][..],
        &["local", &source, &to],
        &["verify", &source, &to],
    ] {
        let told = refused(command);
        assert!(told.contains("line 0 at offset 0 is over the limit of 1048576 bytes"), "{told}");
        assert!(told.contains("use --lines lf for \\n"), "{told}");
    }
    // A short file is one line, as it has always been, and its owner is told.
    fs::write(&source, "a\nb\n").unwrap();
    let output = output(&["local", &source, &to, "--process", "contest"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read(&to).unwrap(), b"0\nba");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("seem to end with \\n") && told.contains("--lines lf"), "{told}");
}

#[test]
fn what_cannot_be_done_is_told() {
    let folder = SourceFolder::with_lines("100kB");
    let (source, to) = (folder.path("source"), folder.path("output"));
    let told = refused(&["serve", "/no/such/file"]);
    assert!(
        told.starts_with("dubmesh transfer serve: cannot open /no/such/file: No such"),
        "{told}"
    );
    let told = refused(&["serve", "/tmp"]);
    assert!(told.contains("/tmp is not a regular file"), "{told}");
    let told = refused(&["generate", &source, "--bytes", "1kB"]);
    assert!(told.contains("exists already; replace it with --force"), "{told}");
    let (mut server, address) = KilledAtEnd::server(&source, "127.0.0.1:0");
    let told = refused(&["serve", &source, "--listen", &address]);
    assert!(told.contains("cannot listen on ") && told.contains("another port"), "{told}");
    let told = refused(&["fetch", &address, "--output", "/no/such/folder/output"]);
    assert!(told.contains("cannot create /no/such/folder/output.partial: No such"), "{told}");
    fs::write(&to, "old").unwrap();
    let told = refused(&["fetch", &address, "--output", &to]);
    assert!(told.contains("exists already; replace it with --force"), "{told}");
    server.signal("TERM");
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    let told = refused(&["fetch", &address, "--output", &to, "--force"]);
    assert!(told.contains("cannot connect to "), "{told}");
    assert_eq!(fs::read(&to).unwrap(), b"old");
    for wrong in [
        &["fetch", "x", "--output", "y", "--process", "zip"][..],
        &["fetch", "x"],
        &["generate", "x", "--bytes", "many"],
        &["serve", "x", "--lines", "cr"],
        &["fetch", "x", "--output", "y", "--resume", "--force"],
        &["fetch", "127.0.0.1", "--output", "y"],
        &["fetch", "http://127.0.0.1:1", "--output", "y"],
        &["fetch", "127.0.0.1:99999", "--output", "y"],
        &["fetch", "unix:/tmp/x", "--output", "y"],
        &["local", &source, &source],
    ] {
        assert_eq!(output(wrong).status.code(), Some(2), "{wrong:?}");
    }
    succeed(&["local", &source, &to]);
    assert_eq!(fs::read(&to).unwrap(), fs::read(&source).unwrap());
}

/// `--resume` is advised where it helps, and only there.
#[test]
fn resuming_is_advised_where_it_helps() {
    let folder = SourceFolder::with_lines("20MB");
    let (source, to) = (folder.path("source"), folder.path("output"));
    let (server, address) = KilledAtEnd::server(&source, "127.0.0.1:0");
    let fetch = ["fetch", &address, "--output", &to];
    let resume = [&fetch[..], &["--resume"]].concat();
    let mut client = KilledAtEnd::start(transfer(
        &[&fetch[..], &["--connections", "1", "--callers", "1"]].concat(),
    ));
    client.wait_until(|| 0 < len(&format!("{to}.partial")));
    client.signal("TERM");
    assert_eq!(client.0.wait().unwrap().code(), Some(1));
    let told = refused(&[&resume[..], &["--process", "contest"]].concat());
    assert!(told.contains("start over with --force"), "{told}");
    assert!(!told.contains("--resume"), "{told}");
    drop(server);
    let told = refused(&resume);
    assert!(told.contains("cannot connect") && told.contains("continue with --resume"), "{told}");
    let (_server, _) = KilledAtEnd::server(&source, &address);
    succeed(&resume);
    assert_eq!(fs::read(&to).unwrap(), fs::read(&source).unwrap());
    let told = refused(&resume);
    assert!(told.contains("an earlier transfer may have completed it"), "{told}");
}

/// Transfers that have ended, well or not, hold no place.
#[test]
fn the_limit_is_of_transfers_at_the_same_time() {
    let folder = SourceFolder::with_lines("20MB");
    let (_server, address) = KilledAtEnd::serving(&[
        "serve",
        &folder.path("source"),
        "--listen",
        "127.0.0.1:0",
        "--max-transfers",
        "1",
    ]);
    let to = folder.path("output");
    let fetch = ["fetch", &address, "--output", &to, "--force"];
    let slow = [&fetch[..], &["--connections", "1", "--callers", "1"]].concat();
    let mut client = KilledAtEnd::start(transfer(&slow));
    client.wait_until(|| 0 < len(&format!("{to}.partial")));
    let told = refused(&["fetch", &address, "--output", &folder.path("other")]);
    assert!(told.contains("the server has 1 transfers, which is its limit"), "{told}");
    client.signal("TERM");
    assert_eq!(client.0.wait().unwrap().code(), Some(1));
    for _ in 0..2 {
        succeed(&fetch);
    }
}

#[test]
fn help_has_examples_and_statuses() {
    for command in ["serve", "fetch", "generate", "verify", "local"] {
        let help = succeed(&[command, "--help"]);
        assert!(
            help.contains("Examples:\n  dubmesh transfer ") && help.contains("Exit status:\n  0  ")
        );
    }
    assert!(succeed(&["--help"]).contains("Examples:\n  dubmesh transfer generate"));
}
