//! What sockets show of a network with a round trip, a rate and a loss.
//!
//! Each test runs once more as root in a network namespace, if only in one of its own user: there
//! it makes the network, see [`interop_harness::network`].

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use interop_harness::Child;
use interop_harness::network::{self, Bridge, Loss, Network, NetworkSide, Shape};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::mesh::{SERVICE, request};
use crate::sockets::Traffic;
use crate::{PATIENCE, as_json, doctor_command, output_of};

/// Set where the test runs for the second time.
const INSIDE: &str = "DUBMESH_TEST_INSIDE";

/// Some city's other end.
const FAR: Shape = Shape { round_trip: Duration::from_millis(20), bytes_per_s: 25_000_000 };

/// Where others keep the processors busy, packets are late, and the network is not what it is said
/// to be. Then it is tried again.
const N_TRIES: u32 = 3;

/// One network at a time: each takes much of a processor, and shows what it says only if it gets
/// that.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a test on a network. `name` is what the test runner calls it.
fn on_network(name: &str, shape: Shape, test: fn(&TestNetwork)) {
    if std::env::var_os(INSIDE).is_some() {
        return test(&TestNetwork::start(shape));
    }
    let may_not = network::in_own_namespace(&Command::new("true")).output().map_or_else(
        |error| Some(error.to_string()),
        |output| {
            (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
        },
    );
    if let Some(reason) = may_not {
        eprintln!("{name} was NOT run: no network namespace can be made here: {reason}");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", name, "--nocapture"]);
    let mut said = String::new();
    for _ in 0..N_TRIES {
        let output = network::in_own_namespace(&again).env(INSIDE, "1").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        said = text(&output.stdout) + &text(&output.stderr);
        if output.status.success() && said.contains("1 passed") {
            return;
        }
    }
    panic!("{said}");
}

/// A network, and the thread that carries its packets.
struct TestNetwork {
    network: Network,
    loss: Loss,
    is_over: Arc<AtomicBool>,
    carrying: Option<thread::JoinHandle<()>>,
}

impl TestNetwork {
    fn start(shape: Shape) -> Self {
        let mut bridge = Bridge::new(shape).unwrap();
        let (network, loss) = (Network::of(&bridge), bridge.loss());
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let carry = move || bridge.carry_while(|| !ends.load(Relaxed)).unwrap();
        Self { network, loss, is_over, carrying: Some(thread::spawn(carry)) }
    }

    /// A connection from one side to the other, which has a send buffer of so many bytes if any.
    fn connect(&self, send_buffer: Option<usize>) -> [TcpStream; 2] {
        let address = format!("{}:0", Network::address(NetworkSide::Provider));
        let bind = || TcpListener::bind(address).unwrap();
        let listener = self.network.inside(NetworkSide::Provider, bind).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            send_buffer.into_iter().for_each(|len| socket.set_send_buffer_size(len).unwrap());
            socket.connect(&address.into()).unwrap();
            TcpStream::from(socket)
        };
        let client = self.network.inside(NetworkSide::Caller, connect).unwrap();
        [client, listener.accept().unwrap().0]
    }

    /// The causes that the doctor names who watches at the caller's side.
    fn causes(&self, time: &str, args: &[&str]) -> (Vec<String>, Value) {
        let command = doctor_command(&[args, &as_json(time)].concat());
        let (status, out, err) = output_of(&mut self.network.on(NetworkSide::Caller, &command));
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        let findings = report["findings"].as_array().unwrap();
        assert_eq!(status == 3, !findings.is_empty(), "{report:#}");
        let causes = findings.iter().map(|it| it["cause"].as_str().unwrap().to_owned()).collect();
        (causes, report)
    }

    /// The same of one connection.
    fn causes_of(&self, time: &str, traffic: &Traffic) -> (Vec<String>, Value) {
        self.causes(time, &["--port", &traffic.port])
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.carrying.take().into_iter().for_each(|carrying| drop(carrying.join()));
    }
}

fn send_much(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(&[0; 65_536])
}

fn read_all(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 65_536])
}

fn read_slowly(stream: &mut TcpStream) -> std::io::Result<()> {
    thread::sleep(Duration::from_millis(20));
    stream.read_exact(&mut [0; 1024])
}

#[test]
fn a_send_buffer_that_is_too_small_for_the_distance_is_named() {
    on_network("network::a_send_buffer_that_is_too_small_for_the_distance_is_named", FAR, |line| {
        let traffic = Traffic::over(line.connect(Some(8 << 10)), send_much, read_all);
        let (causes, report) = line.causes_of("3s", &traffic);
        assert_eq!(causes, ["send_buffer"], "{report:#}");
        let evidence = &report["findings"][0]["evidence"];
        let says = "the peer's receive window is not the cause";
        assert!(evidence.to_string().contains(says), "{report:#}");
    });
}

/// Only one end is seen from here.
#[test]
fn a_peer_that_does_not_read_is_named() {
    on_network("network::a_peer_that_does_not_read_is_named", FAR, |line| {
        let traffic = Traffic::over(line.connect(None), send_much, read_slowly);
        let (causes, report) = line.causes_of("3s", &traffic);
        assert_eq!(causes, ["peer_reads_slowly"], "{report:#}");
    });
}

#[test]
fn lost_packets_are_named() {
    on_network("network::lost_packets_are_named", FAR, |line| {
        // Others do not slow down for losses, until all that a buffer holds is under way.
        line.network.set_congestion_control("reno").unwrap();
        line.loss.set(50);
        let traffic = Traffic::over(line.connect(None), send_much, read_all);
        let (causes, report) = line.causes_of("4s", &traffic);
        assert_eq!(causes, ["packet_loss"], "{report:#}");
    });
}

#[test]
fn a_full_network_is_named() {
    let narrow = Shape { bytes_per_s: 2_000_000, ..FAR };
    on_network("network::a_full_network_is_named", narrow, |line| {
        let traffic = Traffic::over(line.connect(None), send_much, read_all);
        let (causes, report) = line.causes_of("4s", &traffic);
        assert_eq!(causes, ["network_full"], "{report:#}");
    });
}

/// Nobody says that it is gone: packets just stop to arrive.
#[test]
fn a_network_that_carries_nothing_any_more_is_named() {
    on_network("network::a_network_that_carries_nothing_any_more_is_named", FAR, |line| {
        let traffic = Traffic::over(
            line.connect(None),
            |stream| {
                thread::sleep(Duration::from_millis(50));
                stream.write_all(&[0; 100])
            },
            |stream| stream.read_exact(&mut [0; 100]),
        );
        line.loss.set(1000);
        let (causes, report) = line.causes_of("6s", &traffic);
        assert_eq!(causes, ["not_confirmed"], "{report:#}");
    });
}

#[test]
fn two_causes_are_both_named() {
    on_network("network::two_causes_are_both_named", FAR, |line| {
        line.loss.set(30);
        let traffic = Traffic::over(line.connect(None), send_much, |stream| {
            thread::sleep(Duration::from_millis(20));
            stream.read_exact(&mut [0; 20_000])
        });
        let (causes, report) = line.causes_of("5s", &traffic);
        assert_eq!(causes, ["peer_reads_slowly", "packet_loss"], "{report:#}");
    });
}

/// Distance alone, and a loss now and then, hold nothing up that anybody could mend.
#[test]
fn a_long_way_is_no_cause() {
    on_network("network::a_long_way_is_no_cause", FAR, |line| {
        line.loss.set(1);
        let traffic = Traffic::over(
            line.connect(None),
            |stream| {
                stream.write_all(&[0; 20_000])?;
                stream.read_exact(&mut [0; 100])
            },
            |stream| {
                stream.read_exact(&mut [0; 20_000])?;
                stream.write_all(&[0; 100])
            },
        );
        let (causes, report) = line.causes_of("4s", &traffic);
        assert_eq!(causes, [""; 0], "{report:#}");
    });
}

/// The outage that began it all: long replies, one connection, and small buffers.
#[test]
fn calls_that_wait_for_each_other_on_a_connection_are_named() {
    let name = "network::calls_that_wait_for_each_other_on_a_connection_are_named";
    on_network(name, FAR, |line| {
        let program = env!("CARGO_BIN_EXE_dubmesh");
        let listen = format!("{}:0", Network::address(NetworkSide::Provider));
        let mut command = Command::new(program);
        command.args(["provider", "--work-ms", "0", "--listen", &listen]);
        let command = line.network.on(NetworkSide::Provider, &command);
        let mut provider = Child::spawn("provider", &command).unwrap();
        let ready = provider.wait_for_line("READY", PATIENCE).unwrap();
        let provider_url = ready.split_whitespace().last().unwrap();
        let config = format!(
            "[agent]\nworkers = 1\nstage_sample = 1\n\
             [[registry]]\nkind = \"static\"\n[[registry.service]]\ninterface = \"{SERVICE}\"\n\
             endpoints = [\"{provider_url}\"]\n\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:8080\"\n\
             [admin]\nlisten = \"127.0.0.1:9090\"\n\
             [defaults]\ntimeout_ms = 20000\nconnections = 1\n\
             [defaults.socket]\nreceive_buffer_bytes = 16384\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.toml");
        std::fs::write(&path, config).unwrap();
        let mut command = Command::new(program);
        command.args(["run", "--config"]).arg(&path);
        let command = line.network.on(NetworkSide::Caller, &command);
        let mut agent = Child::spawn("agent", &command).unwrap();
        let call = || {
            let connect = || TcpStream::connect("127.0.0.1:8080");
            let mut stream = line.network.inside(NetworkSide::Caller, connect)??;
            stream.write_all(request("sized", "60000").as_bytes())?;
            stream.read_to_end(&mut Vec::new())
        };
        agent.wait_ready(PATIENCE, || call().is_ok_and(|len| 60_000 < len)).unwrap();
        let is_over = AtomicBool::new(false);
        let (causes, report) = thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        if call().is_err() {
                            break;
                        }
                    }
                });
            }
            let found = line.causes("4s", &["--admin", "127.0.0.1:9090"]);
            is_over.store(true, Relaxed);
            found
        });
        assert!(causes.contains(&"connection_full".to_owned()), "{report:#}");
    });
}
