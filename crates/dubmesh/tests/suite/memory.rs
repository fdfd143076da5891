//! What the program takes of the machine's memory, and gives back.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::killed_at_end::KilledAtEnd;

const MIB: usize = 1 << 20;
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running agent that takes calls by HTTP, killed at the end of its test.
struct CallableAgent {
    child: KilledAtEnd,
    address: String,
    _folder: tempfile::TempDir,
}

impl CallableAgent {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("services.toml"), "").unwrap();
        let config = "[admin]\nenabled = false\n[agent]\nworkers = 2\n\
                      [[registry]]\nkind = \"file\"\npath = \"services.toml\"\n\
                      [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";
        let path = folder.path().join("agent.toml");
        fs::write(&path, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
        let command = command.args(["run", "--config"]).arg(&path).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the agent ended");
            if let Some((_, rest)) = line.split_once("127.0.0.1:") {
                let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
                break format!("127.0.0.1:{port}");
            }
        };
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child: KilledAtEnd(child), address, _folder: folder }
    }

    /// Resident memory.
    fn rss(&self) -> usize {
        let path = format!("/proc/{}/status", self.child.0.id());
        let status = fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() * 1024
    }

    /// The names of its threads.
    fn threads(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.0.id())).unwrap();
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
        tasks.filter_map(|task| name(task.ok()?).ok()).map(|name| name.trim().to_owned()).collect()
    }
}

/// As many connections as fit send 7 MiB each at a time; nobody offers what they call.
fn burst(agent: &CallableAgent) {
    let body = vec![b' '; 7 * MIB];
    let head = format!("POST /a.B/c HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    std::thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(&agent.address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                // One that is refused need not send all.
                let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
                if sent.is_ok() {
                    let _ = stream.read(&mut [0; 100]);
                }
            });
        }
    });
}

#[test]
fn memory_that_bursts_took_is_given_back() {
    let agent = CallableAgent::start();
    let idle = agent.rss();
    assert!(idle < 40 * MIB, "{idle} when idle, of a build with debug assertions");
    for _ in 0..4 {
        burst(&agent);
        assert!(agent.rss() < 256 * MIB, "{}", agent.rss());
    }
    let started = Instant::now();
    while idle + 16 * MIB < agent.rss() {
        assert!(started.elapsed() < PATIENCE, "{} of {idle} before", agent.rss());
        std::thread::yield_now();
    }
}

/// The allocator's options were found: it has threads of its own.
#[test]
fn memory_is_given_back_by_threads_of_their_own() {
    let agent = CallableAgent::start();
    let started = Instant::now();
    while !agent.threads().iter().any(|name| name.starts_with("jemalloc")) {
        assert!(started.elapsed() < PATIENCE, "{:?}", agent.threads());
        std::thread::yield_now();
    }
}
