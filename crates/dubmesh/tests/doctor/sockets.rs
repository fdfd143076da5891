//! What sockets and processes show, of any program.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use interop_harness::Child;
use serde_json::Value;

use crate::{PATIENCE, causes, causes_for, doctor, verdicts};

/// A connection over which one thread sends and another reads, until it is dropped.
pub(crate) struct Traffic {
    pub(crate) port: String,
    stop: Arc<AtomicBool>,
    sockets: [TcpStream; 2],
}

impl Traffic {
    fn start(
        send: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static,
        read: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        Self::over([client, server], send, read)
    }

    /// The same over a connection that is there.
    pub(crate) fn over(
        [client, server]: [TcpStream; 2],
        send: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static,
        read: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static,
    ) -> Self {
        let port = server.local_addr().unwrap().port().to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let sockets = [client.try_clone().unwrap(), server.try_clone().unwrap()];
        let spawn = |mut stream: TcpStream, stop: Arc<AtomicBool>, act: Box<Act>| {
            thread::spawn(move || while !stop.load(Relaxed) && act(&mut stream).is_ok() {});
        };
        spawn(client, Arc::clone(&stop), Box::new(send));
        spawn(server, Arc::clone(&stop), Box::new(read));
        Self { port, stop, sockets }
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

/// Requests come, are read, and nobody answers. Both ends are here: the server is to blame.
#[test]
fn a_server_that_reads_and_answers_nothing_is_named() {
    let traffic = Traffic::start(
        |stream| {
            thread::sleep(Duration::from_millis(50));
            stream.write_all(&[0; 100])
        },
        |stream| stream.read_exact(&mut [0; 100]),
    );
    let (status, causes, report) = causes_for("5s", &["--port", &traffic.port]);
    assert_eq!((status, &causes[..]), (3, &["no_answer".to_owned()][..]), "{report:#}");
    let verdict = &verdicts(&report)[0];
    assert!(verdict.starts_with("the process has answered nothing for "), "{verdict}");
}

/// Too little comes to fill any buffer, and no agent is there.
#[test]
fn a_process_that_is_stopped_is_named_without_an_agent() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.args(["provider", "--listen", "127.0.0.1:0"]);
    let mut provider = Child::spawn("provider", &command).unwrap();
    let ready = provider.wait_for_line("READY", PATIENCE).unwrap();
    let address = ready.rsplit("//").next().unwrap().trim();
    let mut caller = TcpStream::connect(address).unwrap();
    // A heartbeat, which is answered once the connection was accepted.
    let heartbeat = b"\xda\xbb\xe2\x00\0\0\0\0\0\0\0\x01\0\0\0\x01N";
    caller.write_all(heartbeat).unwrap();
    caller.read_exact(&mut [0; 16]).unwrap();
    provider.suspend();
    caller.write_all(&[0; 100]).unwrap();
    let (status, causes, report) = causes_for("5s", &["--pid", &provider.pid().to_string()]);
    provider.resume();
    assert_eq!((status, &causes[..]), (3, &["stopped", "reads_slowly"].map(String::from)[..]));
    let verdict = &verdicts(&report)[1];
    assert!(verdict.starts_with("the process has read nothing for "), "{verdict}");
    let evidence = report["findings"][1]["evidence"].to_string();
    let local = caller.local_addr().unwrap();
    assert!(evidence.contains(&format!("the caller is {local}")), "{evidence}");
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
    let (status, out, _) = doctor(&["--port", &traffic.port, "--for", "1s", "--every", "100ms"]);
    let told = "Nothing was found that holds calls up.\nSockets do not show what happens inside of";
    assert!(status == 0 && out.contains(told), "{out}");
    let (status, causes, report) = causes(&["--port", &traffic.port, "--pid", &pid]);
    // Other tests of this process are watched, too.
    let own = |it: &&Value| it["subject"].as_str().unwrap().ends_with(&traffic.port);
    let about = report["findings"].as_array().unwrap().iter().find(own);
    assert_eq!(about, None, "{status} {causes:?}");
    assert!(2 <= report["connections"].as_u64().unwrap());
}

#[test]
fn a_full_accept_queue_is_named() {
    for backlog in [0, 2] {
        let queue = FullQueue::new(backlog);
        let (status, causes, report) = causes(&["--port", &queue.address.port().to_string()]);
        assert_eq!((status, &causes[..]), (3, &["accept_queue".to_owned()][..]), "{report:#}");
    }
}

/// A listener that accepts nobody, and as many connections as the kernel keeps for it.
struct FullQueue {
    address: SocketAddr,
    _listener: socket2::Socket,
    _waiting: Vec<TcpStream>,
}

impl FullQueue {
    fn new(backlog: i32) -> Self {
        let listener =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(backlog).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let waiting = (0..=backlog).map(|_| TcpStream::connect(address).unwrap()).collect();
        Self { address, _listener: listener, _waiting: waiting }
    }
}

/// It drops what comes further, and whoever calls asks again and again.
#[test]
fn an_address_where_nothing_answers_is_named() {
    let FullQueue { address, .. } = &FullQueue::new(2);
    let trying = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    trying.set_nonblocking(true).unwrap();
    trying.connect(&(*address).into()).unwrap_err();
    let (status, causes, report) = causes_for("5s", &["--port", &address.port().to_string()]);
    assert_eq!(status, 3, "{report:#}");
    for cause in ["cannot_connect", "accept_queue"] {
        assert!(causes.contains(&cause.to_owned()), "{cause}: {report:#}");
    }
}
