//! An agent whose process may have few file descriptors.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::killed_at_end::KilledAtEnd;

const HELLO: &str = "com.alibaba.dubbo.performance.demo.provider.IHelloService";
/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// File descriptors of the agent.
const LIMIT: usize = 300;

fn provider(listen: &str) -> (KilledAtEnd, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.args(["provider", "--listen", listen, "--work-ms", "0"]);
    let mut child = KilledAtEnd(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("READY dubbo://").expect("READY and a URL");
    (child, address.parse().unwrap())
}

/// What the agent logs, line by line.
fn follow(log: ChildStderr) -> Arc<Mutex<String>> {
    let seen = Arc::<Mutex<String>>::default();
    let all = Arc::clone(&seen);
    std::thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            let mut seen = all.lock().unwrap();
            seen.push_str(&line);
            seen.push('\n');
        }
    });
    seen
}

fn wait_until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(result) = check() {
            return result;
        }
        assert!(start.elapsed() < TIMEOUT, "{what} did not happen within {TIMEOUT:?}");
        std::thread::yield_now();
    }
}

/// How many descriptors the kernel's table of a process has places for.
fn table_len(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
    line.trim().parse().unwrap()
}

fn field(line: &str, name: &str) -> SocketAddr {
    let value = line.split(&format!("{name}=")).nth(1).unwrap();
    let value = value.split([' ', ',', ']']).next().unwrap();
    value.trim_start_matches('[').parse().unwrap_or_else(|_| panic!("{name} in {line}"))
}

/// The status of a call on this connection.
fn call(stream: &mut TcpStream) -> u16 {
    let request = format!(
        "POST /{HELLO}/hash HTTP/1.1\r\nhost: localhost\r\n\
         x-dubbo-parameter-types: java.lang.String\r\ncontent-length: 5\r\n\r\n[\"a\"]"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "closed after {head:?}");
    }
    let head = head.to_lowercase();
    let len = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    reader.read_exact(&mut vec![0; len.parse().unwrap()]).unwrap();
    head[9..12].parse().unwrap()
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn whoever_takes_all_connections_does_not_keep_the_agent_from_its_endpoints() {
    let (first, provider_addr) = provider("127.0.0.1:0");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    let service = format!(
        "[[service]]\ninterface = \"{HELLO}\"\nendpoints = [\"dubbo://{provider_addr}\"]\n"
    );
    fs::write(folder.path().join("services.toml"), service).unwrap();
    let config = "[admin]\nlisten = '127.0.0.1:0'\n[agent]\nworkers = 2\n[[registry]]\n\
                  kind = 'file'\npath = 'services.toml'\n[[ingress]]\nprotocol = 'http'\n\
                  listen = '127.0.0.1:0'\n";
    fs::write(&path, config).unwrap();
    let run = format!("ulimit -n {LIMIT} && exec \"$0\" run --config \"$1\"");
    let mut agent = Command::new("sh");
    agent.args(["-c", &run, env!("CARGO_BIN_EXE_dubmesh")]).arg(&path);
    let mut agent = KilledAtEnd(agent.stderr(Stdio::piped()).spawn().unwrap());
    let log = follow(agent.0.stderr.take().unwrap());
    let lines = |words: &str| -> Vec<String> {
        let seen = log.lock().unwrap();
        seen.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    };
    let started = wait_until("the agent starts", || lines("started").pop());
    let (http, admin) = (field(&started, "http"), field(&started, "admin"));
    let mut caller = TcpStream::connect(http).unwrap();
    caller.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(call(&mut caller), 200);
    // It must not grow when many connect: none is accepted meanwhile.
    wait_until("there is room", || (LIMIT <= table_len(agent.0.id())).then_some(()));

    // Nobody says a word on these.
    let silent: Vec<_> = (0..400).map(|_| TcpStream::connect(http).unwrap()).collect();
    let refused = wait_until("connections are refused", || lines("closed as they are").pop());
    assert!(refused.contains("75 are reserved for endpoints"), "{refused}");
    drop(first);
    wait_until("the agent has noticed", || (call(&mut caller) != 200).then_some(()));
    let (_second, _) = provider(&provider_addr.to_string());
    let back = Instant::now();
    wait_until("calls are answered again", || (call(&mut caller) == 200).then_some(()));
    // The longest wait between two attempts to connect is 2 s.
    assert!(back.elapsed() < Duration::from_secs(4), "reached after {:?}", back.elapsed());

    // Whoever looks after the agent still can.
    assert!(get(admin, "/healthz").contains(" 200 OK"));
    let metrics = get(admin, "/metrics");
    let refused = format!("refused_total{{listener=\"{http}\",reason=\"no_files\"}} ");
    let n_refused = metrics.split(&refused).nth(1).unwrap().lines().next().unwrap();
    assert!(150 <= n_refused.parse::<usize>().unwrap(), "{n_refused} of 401 at {LIMIT}");
    assert_eq!(lines("closed as they are").len(), 1, "told once: {}", log.lock().unwrap());
    assert_eq!(lines("cannot accept").len(), 0, "{}", log.lock().unwrap());
    drop(silent);
}
