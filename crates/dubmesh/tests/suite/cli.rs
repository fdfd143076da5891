//! The program as a shell sees it: arguments, output, exit statuses, signals.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Output, Stdio};

use crate::killed_at_end::KilledAtEnd;

fn dubmesh() -> Command {
    Command::new(env!("CARGO_BIN_EXE_dubmesh"))
}

fn output(args: &[&str]) -> Output {
    dubmesh().args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples").join(name)
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
fn check_says_what_a_good_file_does() {
    for (name, what) in [
        ("consumer.toml", "takes HTTP calls on 127.0.0.1:20000; uses registry main (etcd)"),
        ("provider.toml", "offers blue/com.acme.Orders:1.0.0, com.acme.Stock to other agents"),
        ("both.toml", "uses registry estate (etcd), inside (memory)"),
    ] {
        let path = example(name);
        let output = output(&["check", "--config", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let stdout = text(&output.stdout);
        assert!(stdout.contains(what), "{stdout}");
        assert_eq!(stdout.lines().count(), 1);
    }
}

/// With `--connect` what is not there is named, and what is there, too.
#[test]
fn check_tries_what_a_file_names() {
    let folder = tempfile::tempdir().unwrap();
    let app = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (app, busy) = (app.local_addr().unwrap(), taken.local_addr().unwrap());
    let services =
        "[[service]]\ninterface = 'com.acme.Stock'\nendpoints = ['dubbo://127.0.0.1:1']\n";
    fs::write(folder.path().join("services.toml"), services).unwrap();
    let check = |listen: &str, app: &str| {
        let config = format!(
            "[admin]\nenabled = false\n[[registry]]\nname = 'main'\nkind = 'etcd'\nendpoints = \
             ['http://127.0.0.1:1']\n[[registry]]\nname = 'inside'\nkind = 'file'\npath = \
             'services.toml'\n[link]\nlisten = '{listen}'\n[[export]]\ninterface = \
             'com.acme.Echo'\nregistry = 'main'\napp = 'dubbo://{app}'\n"
        );
        let path = folder.path().join("agent.toml");
        fs::write(&path, config).unwrap();
        let output = output(&["check", "--connect", "--config", path.to_str().unwrap()]);
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (status, out, err) = check("127.0.0.1:0", &app.to_string());
    assert_eq!(status, Some(1), "{out}{err}");
    assert!(out.contains("registry inside (file): connected in "), "{out}");
    assert!(out.contains("; 1 interface is registered\n"), "{out}");
    assert!(out.contains(&format!("app {app} of com.acme.Echo: connected in ")), "{out}");
    assert!(out.contains("address 127.0.0.1:0: can be listened on"), "{out}");
    assert!(err.contains("registry main (etcd): not connected within 5s: "), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    let (status, _, err) = check(&busy.to_string(), "127.0.0.1:1");
    assert_eq!(status, Some(1));
    assert!(err.contains(&format!("address {busy}: ")), "{err}");
    assert!(err.contains("app 127.0.0.1:1 of com.acme.Echo: "), "{err}");
}

/// Whoever follows a guide runs several of them on one machine.
#[test]
fn no_two_examples_listen_on_the_same_port() {
    let mut taken = std::collections::BTreeMap::new();
    let folder = example("");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // Where there is no section, the admin listener has its default address.
        assert!(text.contains("\n[admin]\nlisten = "), "{}", path.display());
        for line in text.lines().filter_map(|line| line.strip_prefix("listen = \"")) {
            let port = line.split('"').next().unwrap().rsplit(':').next().unwrap().to_owned();
            if let Some(other) = taken.insert(port.clone(), path.clone()) {
                panic!("{} and {} listen on port {port}", other.display(), path.display());
            }
        }
    }
    assert!(8 < taken.len(), "{taken:?}");
}

#[test]
fn check_and_run_refuse_a_bad_file_with_all_its_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.toml");
    fs::write(&path, "[[ingress]]\nprotocol = 'http'\nlisten = 'foo'\nmax_bdy_bytes = 1\n")
        .unwrap();
    let path = path.to_str().unwrap();
    for command in ["check", "run"] {
        let output = output(&[command, "--config", path]);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        let stderr = text(&output.stderr);
        assert_eq!(stderr.lines().count(), 3, "{stderr}");
        assert!(stderr.contains(&format!("{path}:3: ingress.listen: \"foo\" is not an address; ")));
        assert!(stderr.contains(&format!("{path}:4: ingress.max_bdy_bytes: unknown key; did you")));
    }
}

/// A file registry's file is part of what is checked.
#[test]
fn check_reads_the_files_of_file_registries() {
    let folder = tempfile::tempdir().unwrap();
    let (path, services) = (folder.path().join("agent.toml"), folder.path().join("services.toml"));
    let ingress = "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    fs::write(&path, format!("[[registry]]\nkind = 'file'\npath = 'services.toml'\n{ingress}"))
        .unwrap();
    let check = || {
        let output = output(&["check", "--config", path.to_str().unwrap()]);
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (code, stdout, stderr) = check();
    assert_eq!(code, Some(0));
    assert!(
        stdout.contains("good") && stderr.contains("services.toml: does not exist yet"),
        "{stderr}"
    );

    let list = |endpoint: &str| {
        format!("[[service]]\ninterface = 'a.B'\nendpoints = ['dubbo://h:1', '{endpoint}']\n")
    };
    fs::write(&services, list("tri://h:2")).unwrap();
    let (code, stdout, stderr) = check();
    assert_eq!(code, Some(0));
    let told = "a.B: not used: tri://h:2 (protocol tri is not supported, only dubbo and link)";
    assert!(stdout.contains("good") && stderr.contains(told), "{stderr}");

    for (broken, line) in [(list("dubbo://h"), 3), ("[[servce]]\n".into(), 1), ("".into(), 1)] {
        fs::write(&services, broken).unwrap();
        let (code, stdout, stderr) = check();
        assert_eq!((code, &*stdout), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(&format!("services.toml:{line}: ")), "{stderr}");
    }
}

/// Otherwise calls are lost, or are written into what the agent reads.
#[test]
fn check_looks_where_the_access_log_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    fs::write(folder.path().join("services.toml"), "service = []\n").unwrap();
    for (log, expected) in [
        ("access.log", ""),
        ("/dev/null", ""),
        ("services.toml", "agent.toml:6: access_log.path: "),
        ("agent.toml", " is this configuration; "),
        ("/", "the access log / is a folder; name a file (access_log.path)"),
        (
            "/dev/null/access.log",
            "/dev/null is no folder, so the access log cannot be in it; name another \
             (access_log.path)",
        ),
        ("/dev/null/no/access.log", "/dev/null/no of the access log cannot be used: Not a dir"),
        ("no/access.log", "/no of the access log does not exist; create it (access_log.path)"),
    ] {
        let text = format!(
            "[[registry]]\nkind = 'file'\npath = 'services.toml'\n[access_log]\ncalls = 'all'\n\
             path = '{log}'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n"
        );
        fs::write(&path, text).unwrap();
        let output = output(&["check", "--config", path.to_str().unwrap()]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let code = if expected.is_empty() { Some(0) } else { Some(2) };
        assert_eq!(output.status.code(), code, "{log}: {stderr}");
        assert!(stderr.contains(expected), "{log}: {stderr}");
    }
}

#[test]
fn a_missing_file_and_wrong_arguments() {
    let missing = output(&["check", "--config", "/no/file.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).starts_with("/no/file.toml: cannot be read: No such file"));
    for args in [&["chekc"][..], &["run"], &["run", "--confg", "a"], &[]] {
        assert_eq!(output(args).status.code(), Some(2), "{args:?}");
    }
}

/// A pipe that nobody writes into is not waited for, and a device has no end.
#[test]
fn a_configuration_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.to_str().unwrap(), "/dev/zero"] {
        for command in ["check", "run", "reload"] {
            let refused = output(&[command, "--config", path]);
            assert_eq!(refused.status.code(), Some(2), "{command} {path}");
            let said = format!("{path}: cannot be read: it is not a regular file; ");
            assert!(text(&refused.stderr).starts_with(&said), "{}", text(&refused.stderr));
        }
    }
}

#[test]
fn a_full_disk_is_told_and_a_closed_pipe_is_none() {
    for args in [
        &["completions", "bash"][..],
        &["check", "--config", "-"],
        &["demo", "--plain"],
        &["--help"],
        &["call", "--help"],
        &["--version"],
    ] {
        let example = example("consumer.toml");
        let args = args.iter().map(|it| if *it == "-" { example.as_os_str() } else { it.as_ref() });
        let args: Vec<_> = args.collect();
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = dubmesh().args(&args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let err = text(&output.stderr);
        assert!(err.contains("cannot write to standard output"), "{args:?}: {err}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = dubmesh().args(&args).stdout(writer).status().unwrap();
        assert_eq!(status.code(), Some(0), "{args:?}");
    }
}

/// The exit status of a command is what it would be if somebody read its standard error.
#[test]
fn standard_error_may_be_full_or_closed() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    // Good, but its list of endpoints does not exist yet, which is told.
    let ingress = "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    let registry = "[[registry]]\nkind = 'file'\npath = 'none.toml'\n";
    let good = in_folder("good.toml", &format!("{registry}{ingress}"));
    let empty = format!("file:{}", in_folder("empty.toml", "service = []\n"));
    let commands: [(&[&str], _); 16] = [
        (&["check", "--config", &good], 0),
        (&["check", "--config", "/no/file.toml"], 2),
        (&["run", "--config", "/no/file.toml"], 2),
        (&["reload", "--config", "/no/file.toml"], 2),
        (&["reload", "--config", &good], 1),
        (&["list", "--registry", &empty], 0),
        (&["describe", "a.B", "--registry", &empty], 3),
        (&["explain", "a.B", "c", "--registry", "file:/no", "--tags", "/no"], 2),
        (&["call", "a.B", "c", "--registry", &empty], 3),
        (&["top", "--once", "--every", "100ms", "--admin", "127.0.0.1:1"], 1),
        (&["tap", "--admin", "127.0.0.1:1"], 1),
        (&["doctor", "--for", "1ms", "--every", "1s"], 2),
        (&["provider", "--listen", "192.0.2.1:1"], 1),
        (&["transfer", "serve", "/no/file"], 1),
        (&["chekc"], 2),
        (&["list", "--registry", "zookeeper://u:secret@h:1"], 2),
    ];
    for (args, status) in commands {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        for (stderr, what) in [(Stdio::from(full), "full"), (Stdio::from(closed), "closed")] {
            let ended = dubmesh().args(args).stdout(Stdio::null()).stderr(stderr).status().unwrap();
            assert_eq!(ended.code(), Some(status), "{args:?} with {what} standard error");
        }
    }
}

#[test]
fn help_has_examples_and_statuses() {
    for args in [&["--help"][..], &["run", "--help"], &["check", "--help"]] {
        let help = output(args);
        assert_eq!(help.status.code(), Some(0));
        let help = text(&help.stdout);
        assert!(help.contains("Examples:\n  dubmesh ") && help.contains("Exit status:\n  0  "));
    }
    let version = output(&["--version"]);
    assert_eq!(text(&version.stdout), concat!("dubmesh ", env!("CARGO_PKG_VERSION"), "\n"));
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
    while !is_reading() {
        std::thread::yield_now();
    }
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
    while !takes_hang_up(&mut agent) {
        std::thread::yield_now();
    }
    agent.signal("HUP");
    agent.wait_for("nonsense: unknown key");
    assert_eq!(agent.child.0.wait().unwrap().code(), Some(2));

    write_long(&path, "");
    let mut agent = LoggedAgent::start(&path);
    while !takes_hang_up(&mut agent) {
        std::thread::yield_now();
    }
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
    while lost() == "0" {
        get(&http, "/com.acme.Orders/find");
    }
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

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    let config = format!(
        "[admin]\nenabled = false\n[[registry]]\nkind = 'file'\npath = 'x'\n[[ingress]]\n\
         protocol = 'http'\nlisten = '{address}'\n"
    );
    fs::write(&path, config).unwrap();
    let output = output(&["run", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("cannot start") && stderr.contains(&address.to_string()), "{stderr}");
}
