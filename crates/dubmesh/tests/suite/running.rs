//! A running agent and its operator: signals, reloads, and what the agent says of them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::killed_at_end::KilledAtEnd;

/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn dubmesh() -> Command {
    Command::new(env!("CARGO_BIN_EXE_dubmesh"))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn until(mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < TIMEOUT, "not within {TIMEOUT:?}");
        std::thread::yield_now();
    }
}

/// A running agent, killed if a test fails.
struct LoggedAgent {
    child: KilledAtEnd,
    log: BufReader<ChildStderr>,
}

impl LoggedAgent {
    fn start(config: &Path) -> Self {
        Self::from(dubmesh().args(["run", "--config"]).arg(config))
    }

    fn from(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child: KilledAtEnd(child), log }
    }

    /// Reads the log until a line holds `words`.
    fn wait_for(&mut self, words: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let n_read = self.log.read_line(&mut line).unwrap();
            assert_ne!(n_read, 0, "ended without {words:?}: {seen}");
            if line.contains(words) {
                return line;
            }
            seen.push_str(&line);
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn signals_reload_and_drain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    fs::write(folder.path().join("endpoints.toml"), "").unwrap();
    let good = "[admin]\nlisten = '127.0.0.1:0'\n[[registry]]\nkind = 'file'\n\
                path = 'endpoints.toml'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    fs::write(&path, good).unwrap();
    let mut agent = LoggedAgent::start(&path);
    let started = agent.wait_for("started");
    let admin = started.split("admin=").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(get(admin, "/healthz").starts_with("HTTP/1.0 200 OK\r\n"));
    assert!(get(admin, "/metrics").contains("\ndubmesh_ingress_calls_total{"));

    fs::write(&path, format!("nonsense = 1\n{good}")).unwrap();
    agent.signal("HUP");
    let refused = agent.wait_for("configuration refused");
    assert!(refused.contains("agent.toml:1: nonsense: unknown key"), "{refused}");
    agent.wait_for("nothing was changed");

    fs::write(&path, format!("{good}[agent]\nname = 'new'\n[defaults]\nmax_attempts = 2")).unwrap();
    agent.signal("HUP");
    let reloaded = agent.wait_for("reloaded");
    assert!(reloaded.contains("changed=\"defaults\""), "{reloaded}");
    let restart = agent.wait_for("need a restart");
    assert!(restart.contains("keys=\"agent.name\""), "{restart}");

    agent.signal("TERM");
    agent.wait_for("draining");
    agent.wait_for("drained");
    assert_eq!(agent.child.0.wait().unwrap().code(), Some(0));
}

/// A file with many sections, which takes an agent long to read.
fn write_long(path: &Path, rest: &str) {
    let sections: String =
        (0..3_000).map(|n| format!("[[cluster]]\ninterface = 'a.B{n}'\n")).collect();
    let new = path.with_extension("new");
    let text = "[admin]\nenabled = false\n[[registry]]\nkind = 'file'\npath = 'none.toml'\n\
                [[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    fs::write(&new, format!("{text}{sections}{rest}")).unwrap();
    fs::rename(new, path).unwrap();
}

/// Waits until the agent reads its file again.
fn wait_for_reload(agent: &LoggedAgent) {
    let threads = format!("/proc/{}/task", agent.child.0.id());
    let is_reading = || {
        let threads = fs::read_dir(&threads).unwrap().flatten();
        let names = threads.map(|thread| fs::read_to_string(thread.path().join("comm")));
        names.flatten().any(|name| name.trim() == "files")
    };
    until(is_reading);
}

/// Whether the agent is told of SIGHUP; otherwise that is its end.
fn takes_hang_up(agent: &mut LoggedAgent) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", agent.child.0.id())).unwrap();
    let mask = status.split("SigCgt:").nth(1).unwrap().lines().next().unwrap();
    assert!(agent.child.0.try_wait().unwrap().is_none(), "it ended before: {status}");
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 != 0
}

#[test]
fn the_end_does_not_wait_for_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    write_long(&path, "");
    let is_proven = || {
        let mut agent = LoggedAgent::start(&path);
        agent.wait_for("started");
        agent.signal("HUP");
        wait_for_reload(&agent);
        agent.signal("TERM");
        let mut log = String::new();
        agent.log.read_to_string(&mut log).unwrap();
        assert!(log.contains("drained"), "{log}");
        assert_eq!(agent.child.0.wait().unwrap().code(), Some(0));
        !log.contains("reloaded")
    };
    // On a busy machine the reload may be faster than the signal.
    assert!((0..10).any(|_| is_proven()), "it ended after the reload each time");
}

/// The file may have changed since it was read.
#[test]
fn a_hang_up_during_a_reload_has_the_file_read_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    write_long(&path, "");
    let mut agent = LoggedAgent::start(&path);
    agent.wait_for("started");
    agent.signal("HUP");
    wait_for_reload(&agent);
    write_long(&path, "[defaults]\nmax_attempts = 2\n");
    agent.signal("HUP");
    agent.signal("HUP");
    agent.wait_for("reloaded changed=\"defaults");
    agent.signal("TERM");
    agent.wait_for("drained");
    assert_eq!(agent.child.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_hang_up_during_the_start_is_a_reload_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    write_long(&path, "nonsense = 1\n");
    let mut agent = LoggedAgent::start(&path);
    until(|| takes_hang_up(&mut agent));
    agent.signal("HUP");
    agent.wait_for("nonsense: unknown key");
    assert_eq!(agent.child.0.wait().unwrap().code(), Some(2));

    write_long(&path, "");
    let mut agent = LoggedAgent::start(&path);
    until(|| takes_hang_up(&mut agent));
    agent.signal("HUP");
    agent.wait_for("started");
    agent.wait_for("reloaded: the file has no changes");
}

/// As a full disk.
#[test]
fn a_file_that_is_as_long_as_it_may_be_costs_lines_and_not_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    fs::write(folder.path().join("none.toml"), "").unwrap();
    let text = "[admin]\nlisten = '127.0.0.1:0'\n[[registry]]\nkind = 'file'\npath = 'none.toml'\n\
                [[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n\
                [access_log]\ncalls = 'all'\npath = 'log'\n";
    fs::write(&path, text).unwrap();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1 && exec \"$0\" run --config \"$1\""]);
    limited.arg(env!("CARGO_BIN_EXE_dubmesh")).arg(&path);
    let mut agent = LoggedAgent::from(&mut limited);
    let started = agent.wait_for("started");
    let field = |name: &str| {
        let value = started.split(&format!("{name}=")).nth(1).unwrap();
        let value = value.split([' ', ',', ']']).next().unwrap();
        value.trim_start_matches('[').to_owned()
    };
    let (http, admin) = (field("http"), field("admin"));
    let lost = || {
        let metrics = get(&admin, "/metrics");
        let line = "\ndubmesh_access_log_lines_total{result=\"lost\"} ";
        metrics.split(line).nth(1).unwrap().lines().next().unwrap().to_owned()
    };
    until(|| {
        get(&http, "/com.acme.Orders/find");
        lost() != "0"
    });
    agent.wait_for("the access log cannot be written");
    agent.signal("TERM");
    agent.wait_for("drained");
    assert_eq!(agent.child.0.wait().unwrap().code(), Some(0));
}

/// What a reload finds is said then, and not at the next start only.
#[test]
fn a_reload_warns_of_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    fs::write(folder.path().join("endpoints.toml"), "").unwrap();
    let write = |year| {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        fs::write(folder.path().join("own.pem"), certificate).unwrap();
        fs::write(folder.path().join("own.key"), key.serialize_pem()).unwrap();
    };
    write(2999);
    let text = "[admin]\nlisten = '127.0.0.1:0'\n[[registry]]\nkind = 'file'\n\
                path = 'endpoints.toml'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n\
                [ingress.tls]\ncert_file = 'own.pem'\nkey_file = 'own.key'\n";
    fs::write(&path, text).unwrap();
    let mut agent = LoggedAgent::start(&path);
    let started = agent.wait_for("started");
    let admin = started.split("admin=").nth(1).unwrap().split_whitespace().next().unwrap();
    let metric = |expires: &str| {
        let file = folder.path().join("own.pem");
        let labels = format!("{{file=\"{}\"}}", file.display());
        let line = format!("\ndubmesh_certificate_expiry_timestamp_seconds{labels} {expires}\n");
        get(admin, "/metrics").contains(&line)
    };
    assert!(metric("32472144000"));
    write(2022);
    agent.signal("HUP");
    let mut said = String::new();
    while !said.contains("reloaded") {
        said += &agent.wait_for("");
    }
    assert!(said.contains("agent.toml:10: ingress.tls.cert_file"), "{said}");
    assert!(said.contains("own.pem expired on 2022-01-01"), "{said}");
    assert!(metric("1640995200"));
}

/// Two agents on one machine: only the one that runs with the file is told.
#[test]
fn reload_finds_the_agent_by_its_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("endpoints.toml"), "").unwrap();
    let good = "[admin]\nenabled = false\n[[registry]]\nkind = 'file'\npath = 'endpoints.toml'\n\
                [[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    let paths = ["one.toml", "two.toml", "none.toml"].map(|name| folder.path().join(name));
    paths.iter().for_each(|path| fs::write(path, good).unwrap());
    let mut agents = [LoggedAgent::start(&paths[0]), LoggedAgent::start(&paths[1])];
    agents.iter_mut().for_each(|agent| drop(agent.wait_for("started")));
    let reload = |name: &str| {
        // From another folder than the agents', and by a name relative to it.
        let mut command = dubmesh();
        command.args(["reload", "--config", name]).current_dir(folder.path()).output().unwrap()
    };

    let told = reload("two.toml");
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    let pid = agents[1].child.0.id();
    assert!(text(&told.stdout).starts_with(&format!("agent {pid} reads two.toml again")));
    agents[1].wait_for("reloaded: the file has no changes");

    let nobody = reload("none.toml");
    assert_eq!(nobody.status.code(), Some(1));
    let said = text(&nobody.stderr);
    assert!(said.contains("no agent runs with ") && said.contains("two.toml (pid "), "{said}");

    fs::write(&paths[1], format!("nonsense = 1\n{good}")).unwrap();
    let refused = reload("./two.toml");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("two.toml:1: nonsense: unknown key"));

    // The first one heard nothing of all this.
    agents[0].signal("TERM");
    let mut log = String::new();
    agents[0].log.read_to_string(&mut log).unwrap();
    assert!(log.contains("drained") && !log.contains("reload"), "{log}");
}
