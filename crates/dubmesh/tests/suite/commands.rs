//! `provider`, `call` and `demo` as somebody runs them: the built program, its output and its exit
//! status.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::killed_at_end::KilledAtEnd;

const HELLO: &str = "com.alibaba.dubbo.performance.demo.provider.IHelloService";
/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn dubmesh(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for the end of a child, but not for ever.
fn finish(child: Child) -> Output {
    let mut running = KilledAtEnd(child);
    let (done, waited) = mpsc::channel();
    let (mut stdout, mut stderr) = (running.0.stdout.take(), running.0.stderr.take());
    thread::spawn(move || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        if let Some(stdout) = &mut stdout {
            let _ = stdout.read_to_end(&mut out);
        }
        if let Some(stderr) = &mut stderr {
            let _ = stderr.read_to_end(&mut err);
        }
        let _ = done.send((out, err));
    });
    // Its pipes close when it ends.
    let (stdout, stderr) = waited.recv_timeout(TIMEOUT).expect("it ends in time");
    Output { status: running.0.wait().unwrap(), stdout, stderr }
}

fn run(args: &[&str]) -> (i32, String, String) {
    let output = finish(dubmesh(args).spawn().unwrap());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

struct Provider {
    child: KilledAtEnd,
    url: String,
}

impl Provider {
    fn start(args: &[&str]) -> Self {
        let mut child = KilledAtEnd(
            dubmesh(&[&["provider", "--listen", "127.0.0.1:0"], args].concat()).spawn().unwrap(),
        );
        let stdout = child.0.stdout.take().unwrap();
        let (ready, waited) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = ready.send(line);
        });
        let line = waited.recv_timeout(TIMEOUT).expect("it is ready in time");
        let url = line.trim().strip_prefix("READY ").expect("READY and a URL").to_owned();
        Self { child, url }
    }

    fn call(&self, args: &[&str]) -> (i32, String, String) {
        run(&[&["call", HELLO], args, &["--url", &self.url, "--timeout-ms", "20000"]].concat())
    }

    /// Asks it to end, and tells its exit status.
    fn stop(mut self) -> Option<i32> {
        let id = self.child.0.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(killed.success());
        self.child.0.wait().unwrap().code()
    }
}

#[test]
fn calls_go_round_in_all_serializations() {
    let provider = Provider::start(&["--work-ms", "1"]);
    for serialization in ["hessian2", "fastjson", "fastjson-sized", "fastjson2"] {
        for types in [&["--types", "java.lang.String"][..], &["--types", "Ljava/lang/String;"], &[]]
        {
            for (method, arguments, value) in [
                ("hash", "[\"hello\"]", "99162322\n"),
                ("hash", "\"\"", "0\n"),
                ("echo", "\"a é \u{1f600}\"", "\"a é \u{1f600}\"\n"),
                ("echo", "null", "null\n"),
            ] {
                let args = [&[method, arguments, "--serialization", serialization], types].concat();
                let (status, out, err) = provider.call(&args);
                assert_eq!((status, out.as_str()), (0, value), "{args:?}: {err}");
            }
        }
    }
    assert_eq!(provider.stop(), Some(0));
}

#[test]
fn arguments_may_come_from_standard_input() {
    let provider = Provider::start(&["--work-ms", "0"]);
    let mut command = dubmesh(&["call", HELLO, "hash", "-", "--url", &provider.url, "--raw"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"[ \"hello\" ]\n").unwrap();
    assert_eq!(finish(child).stdout, b"99162322\n");
    assert_eq!(provider.stop(), Some(0));
}

#[test]
fn arguments_come_from_files_and_results_in_any_form() {
    let provider = Provider::start(&["--work-ms", "0"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.json");
    std::fs::write(&file, "[\"hello\"]\n").unwrap();
    let from_file = format!("@{}", file.display());
    assert_eq!(provider.call(&["hash", &from_file]).1, "99162322\n");
    let (status, _, err) = provider.call(&["hash", "@/no/such/file"]);
    assert_eq!(status, 2);
    assert!(err.contains("cannot read the arguments from /no/such/file"), "{err}");
    let pretty =
        provider.call(&["$echo", "[[1,{\"a\":[]}]]", "--types", "java.lang.Object", "--pretty"]);
    assert_eq!(pretty.1, "[\n  1,\n  {\n    \"a\": []\n  }\n]\n", "{}", pretty.2);
    let long = ["$echo", "7", "--types", "java.lang.Object", "--json", "longs=text; class=yes"];
    assert_eq!(provider.call(&long).1, "7\n");
    let (status, _, err) = provider.call(&["hash", "1", "--json", "dates=never"]);
    assert_eq!(status, 2);
    assert!(err.contains("dates"), "{err}");
    for serialization in ["fastjson2", "fastjson-sized"] {
        let (status, out, err) =
            provider.call(&["hash", "\"hello\"", "--serialization", serialization, "--verbose"]);
        assert_eq!((status, out.as_str()), (0, "99162322\n"), "{err}");
        let id = if serialization == "fastjson2" { 23 } else { 6 };
        let sent = format!("serialization {id} (");
        assert_eq!(err.matches(&sent).count(), 2, "{err}");
    }
    assert_eq!(provider.stop(), Some(0));
}

/// As `dubmesh call --verbose ... 2>&1 | head -1` does.
#[test]
fn readers_that_leave_are_no_failure() {
    let provider = Provider::start(&["--work-ms", "0"]);
    let mut command =
        dubmesh(&["call", HELLO, "hash", "\"a\"", "--url", &provider.url, "--verbose"]);
    let mut child = KilledAtEnd(command.spawn().unwrap());
    drop((child.0.stdout.take(), child.0.stderr.take()));
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

#[test]
fn describe_says_that_nobody_is_there() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (status, out, err) =
        run(&["describe", HELLO, "--url", &format!("dubbo://127.0.0.1:{port}")]);
    assert_eq!((status, out.as_str()), (3, ""), "{err}");
    assert!(err.contains("Connection refused"), "{err}");
    let provider = Provider::start(&[]);
    let (status, out, err) = run(&["describe", HELLO, "--url", &provider.url]);
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("methods unknown"), "{out}");
    for args in [&["com.acme.Nobody"][..], &[HELLO, "--group", "none"]] {
        let args = [&["describe", "--url", &provider.url], args].concat();
        let (status, out, err) = run(&args);
        assert_eq!((status, out.as_str()), (3, ""), "{args:?}: {err}");
        assert!(err.contains(" does not offer "), "{err}");
    }
    // What is known without the endpoint is shown, and what is wrong with the endpoint, too.
    let folder = tempfile::tempdir().unwrap();
    let text = "{\"canonicalName\":\"com.acme.Nobody\",\"methods\":[{\"name\":\"find\",\
                \"parameterTypes\":[\"int\"],\"returnType\":\"int\"}],\"types\":[]}";
    std::fs::write(folder.path().join("com.acme.Nobody.json"), text).unwrap();
    let folder = folder.path().to_str().unwrap();
    let (status, out, err) =
        run(&["describe", "com.acme.Nobody", "--url", &provider.url, "--definitions", folder]);
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("int find(int)") && out.contains(" does not offer "), "{out}");
}

#[test]
fn failures_have_their_exit_status() {
    let provider = Provider::start(&["--work-ms", "0"]);
    let text = ["--types", "java.lang.String"];
    // The provider's own failures.
    for types in [&text[..], &[]] {
        let (status, out, err) = provider.call(&[&["hash", "null"], types].concat());
        assert_eq!((status, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("exception: java.lang.NullPointerException"), "{err}");
        // Not known there, by plain and by generic call.
        let (status, _, err) = provider.call(&[&["nothing", "\"a\""], types].concat());
        assert_eq!(status, 3, "{err}");
        assert!(err.contains("method_not_found"), "{err}");
    }
    let (status, _, err) = run(&["call", "com.acme.Nobody", "hash", "1", "--url", &provider.url]);
    assert_eq!(status, 3, "{err}");
    assert!(err.contains("service_not_found"), "{err}");
    let (status, _, err) = provider.call(&["hash", "\"a\"", "--group", "none"]);
    assert_eq!(status, 3, "{err}");
    // The provider has the method, and says that these are not its arguments.
    for args in [&["hash", "[]"], &["hash", "[\"a\",\"b\"]"], &["hash", "1"]] {
        let (status, _, err) = provider.call(args);
        assert_eq!(status, 2, "{args:?}: {err}");
        assert!(err.contains("bad_arguments"), "{args:?}: {err}");
    }
    let (status, out, err) = provider.call(&["hash", "\"a\"", "--generic", "gson"]);
    assert_eq!((status, out.as_str()), (0, "97\n"), "{err}");
    // What was written wrong.
    for args in [
        &["hash", "{", "--types", "int"][..],
        &["hash", "hello"],
        &["hash", "[1,2]", "--types", "int"],
        &["hash", "1", "--types", "no type"],
        &["ha sh", "1"],
        &["hash", "1", "--serialization", "kryo"],
        &["hash", "1", "--attachment", "a"],
        &["hash", "1", "--definitions", "/no/folder"],
    ] {
        let (status, _, err) = provider.call(args);
        assert_eq!(status, 2, "{args:?}: {err}");
    }
    let (_, _, err) = provider.call(&["hash", "[1"]);
    let said =
        r#"; write an array such as ["a", 1], or one value such as "a", all in single quotes"#;
    assert!(err.starts_with("dubmesh call: the arguments are not JSON: "), "{err}");
    assert!(err.ends_with(&format!("{said}\n")) && err.matches("write").count() == 1, "{err}");
    assert_eq!(run(&["call", HELLO, "hash"]).0, 2, "neither --url nor --registry");
    assert_eq!(provider.stop(), Some(0));
}

#[test]
fn nobody_there_is_a_refusal() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for scheme in ["dubbo", "link"] {
        let url = format!("{scheme}://127.0.0.1:{port}");
        let (status, _, err) = run(&["call", HELLO, "hash", "\"a\"", "--url", &url]);
        assert_eq!(status, 3, "{err}");
        assert!(err.contains("Connection refused"), "{err}");
        assert!(err.contains(&format!("127.0.0.1:{port}")), "{err}");
    }
}

#[test]
fn a_slow_provider_is_a_timeout() {
    let provider = Provider::start(&["--work-ms", "60000"]);
    let args = ["call", HELLO, "hash", "\"a\"", "--url", &provider.url, "--timeout-ms", "50"];
    let (status, out, err) = run(&args);
    assert_eq!((status, out.as_str()), (4, ""), "{err}");
    assert!(err.contains("timeout"), "{err}");
}

#[test]
fn a_full_provider_is_a_refusal() {
    let provider = Provider::start(&["--work-ms", "60000", "--threads", "1"]);
    // Two calls for one thread: whichever comes second is refused, while the other waits.
    let args = ["call", HELLO, "hash", "\"a\"", "--url", &provider.url, "--timeout-ms", "50000"];
    let (done, first) = mpsc::channel();
    let children: Vec<KilledAtEnd> = (0..2)
        .map(|_| {
            let mut child = dubmesh(&args).spawn().unwrap();
            let (mut stderr, done) = (child.stderr.take().unwrap(), done.clone());
            thread::spawn(move || {
                let mut text = String::new();
                let _ = stderr.read_to_string(&mut text);
                let _ = done.send(text);
            });
            KilledAtEnd(child)
        })
        .collect();
    let text = first.recv_timeout(TIMEOUT).unwrap();
    assert!(text.contains("thread_pool_exhausted"), "{text}");
    drop(children);
}

#[test]
fn a_file_is_a_registry() {
    let provider = Provider::start(&["--work-ms", "0", "--interface", "g/com.acme.Hello:1.0"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("services.toml");
    let text = format!(
        "[[service]]\ninterface = \"com.acme.Hello\"\nversion = \"1.0\"\ngroup = \"g\"\n\
         endpoints = [\"{}?serialization=fastjson\"]\n",
        provider.url
    );
    std::fs::write(&path, text).unwrap();
    let registry = format!("file:{}", path.display());
    let of = |version| {
        run(&[
            "call",
            "com.acme.Hello",
            "hash",
            "\"hello\"",
            "--registry",
            &registry,
            "--group",
            "g",
            "--version",
            version,
            "--timeout-ms",
            "20000",
        ])
    };
    assert_eq!(of("1.0").1, "99162322\n");
    let (status, _, err) = of("2.0");
    assert_eq!(status, 3, "{err}");
    assert!(err.contains("service_not_found"), "{err}");
    assert_eq!(provider.stop(), Some(0));
}

#[test]
fn the_demo_ends_with_a_summary() {
    for load in [&[][..], &["--rate", "200"]] {
        let (status, out, err) = run(&[&["demo", "--for", "2s", "--plain"], load].concat());
        assert_eq!(status, 0, "{out}{err}");
        for part in ["curl http://127.0.0.1:", "/metrics", "calls/s", "calls answered, 0 errors"] {
            assert!(out.contains(part), "{part:?} is not in {out}");
        }
        assert!(out.ends_with("Everything has stopped.\n"), "{out}");
    }
}

#[test]
fn the_demo_ends_by_ctrl_c() {
    let mut demo = KilledAtEnd(dubmesh(&["demo", "--concurrency", "10"]).spawn().unwrap());
    let stdout = demo.0.stdout.take().unwrap();
    let (line, lines) = mpsc::channel();
    thread::spawn(move || {
        for text in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = line.send(text);
        }
    });
    let next = || lines.recv_timeout(TIMEOUT).expect("it goes on");
    while !next().contains("calls/s") {}
    let id = demo.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    while !next().contains("calls answered") {}
    assert_eq!(demo.0.wait().unwrap().code(), Some(0));
}

#[test]
fn wrong_demos_and_providers_are_refused() {
    assert_eq!(run(&["demo", "--for", "soon"]).0, 2);
    assert_eq!(run(&["demo", "--rate", "1", "--concurrency", "1"]).0, 2);
    for args in [
        &["provider", "--threads", "0"][..],
        &["demo", "--rate", "0"],
        &["tap", "--count", "0"],
        &["transfer", "serve", "a", "--max-transfers", "0"],
    ] {
        let (status, _, err) = run(args);
        assert_eq!(status, 2, "{args:?}: {err}");
        assert!(err.contains(": write a whole number, at least 1\n"), "{args:?}: {err}");
    }
    assert_eq!(run(&["provider", "--serialization", "fastjson"]).0, 2, "of no use alone");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (status, _, err) = run(&["provider", "--listen", &address]);
    assert_eq!(status, 1, "{err}");
    let told = format!("cannot listen on {address} (--listen): ");
    assert!(err.contains(&told) && err.contains("give --listen another port"), "{err}");
}
