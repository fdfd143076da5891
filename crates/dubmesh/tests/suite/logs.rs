//! What an agent logs while peers do their worst: bounded, never waited for, and still of use.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use link_proto::{Config, Connection, Event, RouteDef};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Lines that a peer causes in a short time may take this much; that is a third of the limit of
/// 1 MB a minute.
const MAX_LOG_LEN: u64 = 350_000;

/// An agent of this process's own program that logs to a file.
struct Agent {
    child: Child,
    folder: tempfile::TempDir,
    log: PathBuf,
}

impl Agent {
    /// Starts an agent with this configuration, and its log in the folder of its files.
    fn start(config: &str, services: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("services.toml"), services).unwrap();
        let log = folder.path().join("mesh.log");
        let file = File::create(&log).unwrap();
        Self::start_with(folder, log, config, file.into())
    }

    fn start_with(folder: tempfile::TempDir, log: PathBuf, config: &str, stderr: Stdio) -> Self {
        let path = folder.path().join("agent.toml");
        fs::write(&path, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
        let child = command.args(["run", "--config"]).arg(&path).stderr(stderr).spawn().unwrap();
        Self { child, folder, log }
    }

    fn logged(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn log_len(&self) -> u64 {
        fs::metadata(&self.log).unwrap().len()
    }

    /// Waits until a line of the log holds `words`.
    fn wait_for(&self, words: &str) -> String {
        let begun = Instant::now();
        loop {
            let log = self.logged();
            if let Some(line) = log.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            assert!(begun.elapsed() < PATIENCE, "no {words:?} in {log}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// An address that the agent says it listens on.
    fn address(&self, name: &str) -> String {
        address(&self.wait_for(" started "), name)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(started: &str, name: &str) -> String {
    let value = started.split(&format!(" {name}=")).nth(1).unwrap_or_else(|| panic!("{started}"));
    value.split_whitespace().next().unwrap().trim_matches(['[', ']', '"']).to_owned()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// One HTTP exchange on a connection of its own.
fn http(address: &str, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn post(address: &str, path: &str, body: &str) -> String {
    let len = body.len();
    http(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-length: {len}\r\n\r\n{body}"
        ),
    )
}

/// `[log]` and below, of an agent that takes calls by HTTP.
fn consumer(log: &str) -> String {
    format!(
        "[log]\n{log}\n[agent]\nworkers = 1\n[admin]\nlisten = '127.0.0.1:0'\n\
         [[registry]]\nkind = 'file'\npath = 'services.toml'\n\
         [[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n"
    )
}

const SERVICES: &str =
    "[[service]]\ninterface = 'com.acme.Here'\nendpoints = ['dubbo://127.0.0.1:1']\n";

#[test]
fn acks_of_pings_that_nobody_sent() {
    const N_ACKS: usize = 100_000;
    let agent = Agent::start(&consumer("level = 'info'"), SERVICES);
    let mut stream = connect(&agent.address("http"));
    let mut attack = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    attack.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    for _ in 0..N_ACKS {
        attack.extend_from_slice(&[0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    // A ping of our own: once it is answered, all before it was read.
    attack.extend_from_slice(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
    stream.write_all(&attack).unwrap();
    let mut answer = Vec::new();
    while !answer.windows(8).any(|window| window == [9; 8]) {
        let mut piece = [0; 1024];
        match stream.read(&mut piece) {
            Ok(len @ 1..) => answer.extend_from_slice(&piece[..len]),
            // It may as well close the connection.
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(agent.log_len() < MAX_LOG_LEN, "{} bytes", agent.log_len());
}

/// Defines route after route that the agent refuses.
fn define_many(address: &str, n_routes: usize) {
    let mut stream = connect(address);
    let mut client: Connection<()> = Connection::client(Config::default(), Instant::now());
    let (mut n_defined, mut n_refused) = (0, 0);
    let mut next = || {
        n_defined += 1;
        let method = format!("{n_defined}\u{1b}[31m\n{}", "x".repeat(900));
        RouteDef { service: "a.B".to_owned(), method, ..RouteDef::default() }
    };
    let (mut input, mut piece) = (BytesMut::new(), vec![0; 1 << 16]);
    while n_refused < n_routes {
        let output = client.transmit();
        stream.write_all(output).unwrap();
        output.clear();
        let len = stream.read(&mut piece).unwrap();
        assert_ne!(len, 0, "cut off after {n_refused} routes");
        input.extend_from_slice(&piece[..len]);
        client.handle_bytes(Instant::now(), &mut input).unwrap();
        while let Some(event) = client.poll_event() {
            match event {
                Event::Ready(_) => {
                    for _ in 0..64 {
                        client.define(&next()).unwrap();
                    }
                }
                Event::RouteRefused { route, .. } => {
                    n_refused += 1;
                    client.redefine(route, &next()).unwrap();
                }
                _ => {}
            }
        }
    }
}

#[test]
fn routes_that_are_refused() {
    const N_ROUTES: usize = 5_000;
    let agent = Agent::start(
        "[agent]\nworkers = 1\n[admin]\nlisten = '127.0.0.1:0'\n[[registry]]\nkind = 'memory'\n\
         [link]\nlisten = '127.0.0.1:0'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n\
         [[export]]\ninterface = 'com.acme.Here'\napp = 'dubbo://127.0.0.1:1'\n",
        "",
    );
    define_many(&agent.address("link"), N_ROUTES);
    assert!(agent.log_len() < MAX_LOG_LEN, "{} bytes", agent.log_len());
    // The agent counts what it leaves out, and forgets nothing of it at its end.
    let pid = agent.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    agent.wait_for("drained");
    let log = agent.logged();
    let left_out = |line: &str| {
        let count = line.split("lines=").nth(1)?.split_whitespace().next()?;
        line.contains("like=\"route refused\"").then(|| count.parse::<usize>().unwrap())
    };
    agent.wait_for("left out lines that came too often");
    let begun = Instant::now();
    let n_seen = || {
        let log = agent.logged();
        let n_written = log.lines().filter(|line| line.contains(": route refused")).count();
        n_written + log.lines().filter_map(left_out).sum::<usize>()
    };
    while n_seen() < N_ROUTES {
        assert!(begun.elapsed() < PATIENCE, "{} of {N_ROUTES}: {log}", n_seen());
        thread::sleep(Duration::from_millis(10));
    }
    // The names had line feeds and colours in them.
    assert!(log.lines().all(|line| line.starts_with("20") && !line.contains('\u{1b}')), "{log}");
}

/// A log in a watched folder is not a reason to log.
#[test]
fn a_log_in_the_watched_folder() {
    let agent = Agent::start(&consumer("level = 'trace'"), SERVICES);
    agent.wait_for(" started ");
    let other = agent.folder.path().join("other.log");
    for n in 0..200 {
        fs::write(&other, format!("{n}\n")).unwrap();
    }
    // A change to the list itself is still seen; all events before it were handled by then.
    fs::write(agent.folder.path().join("services.toml"), format!("{SERVICES}# changed")).unwrap();
    let begun = Instant::now();
    while agent.logged().matches("registry file read").count() < 2 {
        assert!(begun.elapsed() < PATIENCE, "{}", agent.logged());
        thread::sleep(Duration::from_millis(10));
    }
    let log = agent.logged();
    assert!(!log.contains("notify") && !log.contains("inotify"), "{log}");
}

#[test]
fn failed_calls_are_counted_by_service_and_logged_at_debug() {
    let agent = Agent::start(&consumer("level = 'info,agent=debug'"), SERVICES);
    let (calls, admin) = (agent.address("http"), agent.address("admin"));
    let count = |service: &str, code: &str| {
        let metrics =
            http(&admin, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let labels = [format!("service=\"{service}\""), format!("code=\"{code}\"")];
        let lines = metrics.lines().filter(|line| line.starts_with("dubmesh_upstream_calls_total"));
        let of = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        of.map(|line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()).sum::<u32>()
    };
    // Every failure is one of its service, whether or not an endpoint was tried.
    for _ in 0..10 {
        let answer = post(&calls, "/com.acme.Here/find", "[1]");
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    let n_failed = ["no_endpoint", "unreachable"].map(|code| count("com.acme.Here", code));
    assert_eq!(n_failed.iter().sum::<u32>(), 10, "{n_failed:?}");
    assert_ne!(n_failed[0], 0);
    fs::write(agent.folder.path().join("services.toml"), SERVICES.replace("Here", "Gone")).unwrap();
    let begun = Instant::now();
    let has_left = || post(&calls, "/com.acme.Here/find", "[1]").contains("has left");
    while !has_left() {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
    assert!(n_failed[0] < count("com.acme.Here", "no_endpoint"));
    // What nobody offers counts as well.
    let answer = post(&calls, "/com.acme.Nobody/find", "[1]");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert_eq!(count("com.acme.Nobody", "service_not_found"), 1);
    let line = agent.wait_for("service_not_found");
    assert!(line.contains("DEBUG agent::invoke: call failed"), "{line}");
    assert!(line.contains("com.acme.Nobody") && line.contains("method=\"find\""), "{line}");
    // Requests that make no call have a line, too.
    assert!(post(&calls, "/com.acme.Here", "[1]").starts_with("HTTP/1.1 404 "));
    agent.wait_for("request failed");
}

/// Standard error is a pipe that nobody reads: calls go on.
#[test]
fn a_pipe_that_nobody_reads() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("services.toml"), SERVICES).unwrap();
    let log = folder.path().join("mesh.log");
    let config = consumer("level = 'trace'");
    let mut agent = Agent::start_with(folder, log, &config, Stdio::piped());
    let mut pipe = agent.child.stderr.take().unwrap();
    let mut said = String::new();
    while !said.contains(" started ") || !said.ends_with('\n') {
        let mut piece = [0; 4096];
        let len = pipe.read(&mut piece).unwrap();
        assert_ne!(len, 0, "{said}");
        said.push_str(std::str::from_utf8(&piece[..len]).unwrap());
    }
    let started = said.lines().find(|line| line.contains(" started ")).unwrap();
    let calls = address(started, "http");
    // More lines than a pipe holds, each of a connection of its own; all are answered in time.
    for n in 0..700 {
        let answer = post(&calls, &format!("/com.acme.Nobody/{}{n}", "x".repeat(200)), "[1]");
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    }
}

#[test]
fn what_is_logged_changes_while_it_runs() {
    let agent = Agent::start(&consumer("level = 'info'"), SERVICES);
    let (listener, admin) = (agent.address("http"), agent.address("admin"));
    let put = |filter: &str| {
        let len = filter.len();
        let request = format!(
            "PUT /loglevel HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-length: {len}\r\n\r\n{filter}"
        );
        http(&admin, &request)
    };
    assert!(put("agent=loud").starts_with("HTTP/1.1 400 "));
    assert!(!agent.logged().contains(" has ended"));
    assert!(put("info,agent=debug").starts_with("HTTP/1.1 200 "));
    let get = "GET /loglevel HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert!(http(&admin, get).ends_with("\r\n\r\ninfo,agent=debug\n"));
    // Only `debug` has a line for the end of a connection.
    drop(connect(&listener));
    agent.wait_for(" has ended");
}
