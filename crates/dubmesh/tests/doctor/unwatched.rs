//! What cannot be watched, and agents that are none.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use interop_harness::free_port;

use crate::{PATIENCE, doctor, dubmesh};

#[test]
fn what_cannot_be_watched_is_told() {
    let (status, _, err) = doctor(&["--for", "1s", "--every", "1s"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("make 1 looks; 5 to 600"), "{err}");
    let (status, _, err) = doctor(&["--pid", "4194305"]);
    assert_eq!((status, err.as_str()), (1, "dubmesh doctor: there is no process 4194305\n"));
    let admin = format!("127.0.0.1:{}", free_port());
    let (status, _, err) = doctor(&["--admin", &admin]);
    assert_eq!(status, 1);
    assert!(err.contains("write the address of its admin listener after --admin"), "{err}");
    let port = free_port().to_string();
    let (status, out, _) = doctor(&["--port", &port, "--for", "500ms", "--every", "50ms"]);
    assert_eq!(status, 1, "a script must not take it for health");
    let note = format!("note: no connection from or to port {port} was open, and nothing listens");
    assert!(out.contains(&note), "{out}");
    assert!(out.ends_with("\nNothing was watched, so nothing is known.\n"), "{out}");
}

/// Of several ports, those that nobody has are named.
#[test]
fn a_port_that_nobody_has_is_named_beside_one_that_is_watched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, other) = (listener.local_addr().unwrap().port(), free_port());
    let ports = [port, other].map(|port| port.to_string());
    let args = ["--port", &ports[0], "--port", &ports[1], "--for", "500ms", "--every", "50ms"];
    let (status, out, _) = doctor(&args);
    assert_eq!(status, 0, "{out}");
    assert!(out.contains(&format!("no connection from or to port {port} was open\n")), "{out}");
    assert!(out.contains(&format!("port {other} was open, and nothing listens there")), "{out}");
}

/// Something else listens there. It is told once, in one short line.
#[test]
fn what_answers_but_is_no_agent_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let body = format!("<html>{}\u{1b}[2J</html>", "x".repeat(100_000));
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let status = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
            let _ = write!(stream, "{status}content-length: {}\r\n\r\n{body}", body.len());
        }
    });
    for command in [&["doctor"][..], &["top", "--once"], &["tap"]] {
        let (status, out, err) = dubmesh(&[command, &["--admin", &admin]].concat());
        assert_eq!((status, &*out), (1, ""), "{command:?} {err}");
        assert!(err.contains(&admin) && err.contains("dubmesh agent"), "{command:?} {err}");
        assert!(err.len() < 1000 && !err.contains('\u{1b}'), "{command:?} {err}");
    }
}

/// A server that answers each connection with the same bytes.
fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(bytes);
        }
    });
    address
}

#[test]
fn why_there_is_no_page_is_told() {
    let told = |bytes| {
        let (status, out, err) = doctor(&["--admin", &answering(bytes)]);
        assert_eq!((status, &*out), (1, ""), "{err}");
        err
    };
    let err = told(b"");
    assert!(err.contains("/version: the connection was closed without an answer; write"), "{err}");
    // As a listener with TLS refuses plain HTTP.
    let err = told(b"\x15\x03\x03\0\x02\x02\x46");
    assert!(err.contains("one that speaks TLS ([admin.tls]) cannot be read"), "{err}");
    let err = told(b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    assert!(err.contains("/version: 302 Found; write"), "{err}");
}

/// The pages of an agent that does nothing; `before` is told of each one that is asked for.
fn fake_agent(before: impl Fn(&str) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let before = Arc::new(before);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, before) = (stream.unwrap(), Arc::clone(&before));
            thread::spawn(move || {
                let mut question = [0; 4096];
                let len = stream.read(&mut question).unwrap();
                let question = String::from_utf8_lossy(&question[..len]).into_owned();
                let path = question.split([' ', '?']).nth(1).unwrap();
                before(path);
                let page = match path {
                    "/version" => {
                        r#"{"program":"dubmesh","version":"1","agent":"a","pid":0,"uptime_s":1}"#
                    }
                    _ => r#"{"total":0,"truncated":false,"silent_workers":[],"items":[]}"#,
                };
                let status = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
                let _ = write!(stream, "{status}content-length: {}\r\n\r\n{page}", page.len());
            });
        }
    });
    address
}

/// A page that takes long holds up the look, but no other page.
#[test]
fn all_pages_are_asked_for_at_once() {
    let n_asked = Arc::new(AtomicU32::new(0));
    let asked = Arc::clone(&n_asked);
    // None is answered until all of a look were asked for.
    let admin = fake_agent(move |path| {
        if ["/services", "/endpoints", "/apps", "/connections", "/stages"].contains(&path) {
            let nth = asked.fetch_add(1, Relaxed);
            let last_of_look = nth / 5 * 5 + 5;
            interop_harness::wait_until("all pages", PATIENCE, || {
                last_of_look <= asked.load(Relaxed)
            });
        }
    });
    let (status, out, err) = doctor(&["--admin", &admin, "--for", "500ms", "--every", "100ms"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(n_asked.load(Relaxed).is_multiple_of(5));
}

/// Whoever ends it early has not seen that all is well.
#[test]
fn a_few_looks_are_told_to_show_little() {
    let (asked, looks) = std::sync::mpsc::channel();
    let admin = fake_agent(move |path| {
        if path == "/stages" {
            let _ = asked.send(());
        }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.args(["doctor", "--admin", &admin, "--for", "10m", "--every", "1m"]);
    let doctor = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    looks.recv_timeout(PATIENCE).unwrap();
    let mut interrupt = Command::new("kill");
    interrupt.args(["-INT", &doctor.id().to_string()]);
    assert!(interrupt.status().unwrap().success());
    let output = doctor.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("note: there was only 1 look, which shows little: watch"), "{out}");
}

/// Only root may make such a process.
#[test]
fn a_process_in_another_network_namespace_is_told() {
    let mut command = Command::new("unshare");
    command.args(["--net", "sleep", "60"]);
    let Ok(mut child) = command.stderr(std::process::Stdio::null()).spawn() else { return };
    let (pid, own) = (child.id(), std::fs::read_link("/proc/self/ns/net").unwrap());
    let other = || std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let is_there = || other().is_some_and(|other| other != own);
    while !is_there() {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let (_, out, err) = doctor(&["--pid", &pid.to_string(), "--for", "500ms", "--every", "50ms"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let told = format!("nsenter -t {pid} -n dubmesh doctor --pid {pid}");
    assert!(out.contains(&told), "{out}{err}");
}

/// Whoever may not look into a process is told what it takes. Only root can try that out.
#[test]
fn a_process_of_another_user_needs_its_rights() {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;

    const NOBODY: u32 = 65_534;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let pid = std::process::id().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.args(["doctor", "--for", "2s", "--every", "100ms", "--pid", &pid]);
    // The program may be where nobody else may go.
    let Ok(output) = command.current_dir("/").uid(NOBODY).gid(NOBODY).output() else { return };
    let told = format!(
        "dubmesh doctor: the sockets of process {pid} belong to another user; run this as that \
         user or root, or name a port by --port\n"
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), told);
    assert_eq!(output.status.code(), Some(1));
}
