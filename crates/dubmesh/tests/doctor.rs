//! `dubmesh doctor` as somebody runs it: the condition is brought about, and named.

#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use interop_harness::{Child, free_port};
use serde_json::Value;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Its exit status, and what it prints.
fn doctor(args: &[&str]) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_dubmesh")).arg("doctor").args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The causes that it names for a port.
fn causes(args: &[&str]) -> (i32, Vec<String>, Value) {
    let quick = ["--for", "2s", "--every", "100ms", "--json"];
    let (status, out, err) = doctor(&[args, &quick[..]].concat());
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let findings = report["findings"].as_array().unwrap();
    let causes = findings.iter().map(|it| it["cause"].as_str().unwrap().to_owned()).collect();
    (status, causes, report)
}

/// A connection over which one thread sends and another reads, until it is dropped.
struct Traffic {
    port: String,
    stop: Arc<AtomicBool>,
    sockets: [TcpStream; 2],
}

impl Traffic {
    fn start(
        send: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static,
        read: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let sockets = [client.try_clone().unwrap(), server.try_clone().unwrap()];
        let spawn = |mut stream: TcpStream, stop: Arc<AtomicBool>, act: Box<Act>| {
            thread::spawn(move || while !stop.load(Relaxed) && act(&mut stream).is_ok() {});
        };
        spawn(client, Arc::clone(&stop), Box::new(send));
        spawn(server, Arc::clone(&stop), Box::new(read));
        Self { port: address.port().to_string(), stop, sockets }
    }
}

type Act = dyn Fn(&mut TcpStream) -> std::io::Result<()> + Send;

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for socket in &self.sockets {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

#[test]
fn a_process_that_does_not_read_is_named() {
    let traffic = Traffic::start(
        |stream| stream.write_all(&[0; 65_536]),
        |stream| {
            thread::sleep(Duration::from_millis(20));
            stream.read_exact(&mut [0; 1024])
        },
    );
    let (status, causes, report) = causes(&["--port", &traffic.port]);
    assert_eq!((status, &causes[..]), (3, &["reads_slowly".to_owned()][..]), "{report:#}");
    let subject = report["findings"][0]["subject"].as_str().unwrap();
    let own = format!("(pid {}), callers of 127.0.0.1:{}", std::process::id(), traffic.port);
    assert!(subject.ends_with(&own), "{subject}");
}

#[test]
fn a_connection_that_is_well_has_no_verdict() {
    let traffic = Traffic::start(
        |stream| {
            thread::sleep(Duration::from_millis(1));
            stream.write_all(&[0; 100])
        },
        |stream| stream.read_exact(&mut [0; 100]),
    );
    let pid = std::process::id().to_string();
    let (status, causes, report) = causes(&["--port", &traffic.port, "--pid", &pid]);
    // Other tests of this process are watched, too.
    let own = |it: &&Value| it["subject"].as_str().unwrap().ends_with(&traffic.port);
    let about = report["findings"].as_array().unwrap().iter().find(own);
    assert_eq!(about, None, "{status} {causes:?}");
    assert!(2 <= report["connections"].as_u64().unwrap());
}

#[test]
fn a_full_accept_queue_is_named() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(2).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let _waiting: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    let (status, causes, report) = causes(&["--port", &address.port().to_string()]);
    assert_eq!((status, &causes[..]), (3, &["accept_queue".to_owned()][..]), "{report:#}");
}

#[test]
fn an_agent_tells_a_slow_provider_from_a_slow_network() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_dubmesh");
    let mut command = Command::new(program);
    command.args(["provider", "--listen", "127.0.0.1:0", "--work-ms", "300"]);
    let mut provider = Child::spawn("provider", &command).unwrap();
    let ready = provider.wait_for_line("READY", PATIENCE).unwrap();
    let provided = ready.split_whitespace().last().unwrap().to_owned();
    let [http, admin] = [free_port(), free_port()];
    let services = format!(
        "[[service]]\ninterface = \"com.alibaba.dubbo.performance.demo.provider.IHelloService\"\n\
         endpoints = [\"{provided}\"]\n"
    );
    std::fs::write(folder.path().join("services.toml"), services).unwrap();
    let config = format!(
        "[[registry]]\nkind = \"file\"\npath = \"services.toml\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{http}\"\n\
         [admin]\nlisten = \"127.0.0.1:{admin}\"\n[defaults]\ntimeout_ms = 5000\n"
    );
    let path = folder.path().join("agent.toml");
    std::fs::write(&path, config).unwrap();
    let mut command = Command::new(program);
    command.args(["run", "--config"]).arg(&path);
    let _agent = Child::spawn("agent", &command).unwrap();
    interop_harness::wait_until("the agent", PATIENCE, || {
        TcpStream::connect(("127.0.0.1", admin)).is_ok()
    });
    let stop = Arc::new(AtomicBool::new(false));
    let n_answers = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let caller = {
        let (stop, n_answers) = (Arc::clone(&stop), Arc::clone(&n_answers));
        thread::spawn(move || {
            while !stop.load(Relaxed) {
                call(http);
                n_answers.fetch_add(1, Relaxed);
            }
        })
    };
    interop_harness::wait_until("an answer", PATIENCE, || 0 < n_answers.load(Relaxed));
    let admin = format!("127.0.0.1:{admin}");
    let (status, causes, report) = causes(&["--admin", &admin]);
    stop.store(true, Relaxed);
    caller.join().unwrap();
    assert_eq!((status, &causes[..]), (3, &["slow_provider".to_owned()][..]), "{report:#}");
    let verdict = report["findings"][0]["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("the network is fine: "), "{verdict}");
    // Its sockets were found by its process.
    assert!(1 <= report["connections"].as_u64().unwrap(), "{report:#}");
    assert_eq!(report["notes"].as_array().map(Vec::len), Some(0), "{report:#}");
}

/// One call by HTTP.
fn call(port: u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let path = "/com.alibaba.dubbo.performance.demo.provider.IHelloService/hash";
    let body = "[\"a\"]";
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

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
    assert_eq!(status, 0);
    assert!(out.contains("note: no connection of theirs was open"), "{out}");
}
