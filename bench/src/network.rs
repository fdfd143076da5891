//! A network between two namespaces of this machine, with a round trip and a rate of its own.
//!
//! Programs run in one namespace or the other, over the kernel's real TCP. Between them is a
//! bridge (`bench bridge`), a process that carries packets from one side to the other, late and no
//! faster than the rate. Where the kernel has netem, that would do the same; many have not.
//!
//! Nothing of it is seen outside: the bridge has a namespace of its own, and all of them end with
//! it. Without root this needs user namespaces.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child as Process, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use interop_harness::Child;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeSpec;

use crate::error::BenchError;

/// The address of a side.
const ADDRESSES: [&str; 2] = ["10.99.0.1", "10.99.0.2"];
/// Long packets, as in a data centre: fewer of them for the bridge to carry.
const MTU: usize = 9000;
/// What waits in a side's queue of the bridge; more is dropped, as a switch does.
const QUEUE_LEN: usize = 4 << 20;
const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// One end of the network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NetworkSide {
    Caller = 0,
    Provider = 1,
}

/// What a network is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) round_trip: Duration,
    /// In each direction.
    pub(crate) bytes_per_s: u64,
}

/// A running network, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    /// Programs that hold the namespaces of the sides.
    holders: [u32; 2],
    _bridge: Child,
}

impl Network {
    /// Makes the namespaces, and the bridge between them.
    ///
    /// # Errors
    /// What is missing: `ip`, `ethtool` or `unshare`, or the right to make namespaces.
    pub(crate) fn start(shape: Shape) -> Result<Self, BenchError> {
        let this = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
        let mut command = Command::new("unshare");
        command.args(own_user()).arg("--net").arg(this).args([
            "bridge",
            &shape.round_trip.as_micros().to_string(),
            &shape.bytes_per_s.to_string(),
        ]);
        let mut bridge = Child::spawn("the bridge between network namespaces", &command)?;
        let line = bridge.wait_for_line("READY ", START_TIMEOUT)?;
        let mut pids = line.trim_start_matches("READY ").split_whitespace().map(str::parse);
        match (pids.next(), pids.next()) {
            (Some(Ok(caller)), Some(Ok(provider))) => {
                Ok(Self { holders: [caller, provider], _bridge: bridge })
            }
            _ => Err(BenchError::NoResult { output: line }),
        }
    }

    /// Where others reach a side.
    pub(crate) fn address(side: NetworkSide) -> &'static str {
        ADDRESSES[side as usize]
    }

    /// The same command, run on a side.
    pub(crate) fn on(&self, side: NetworkSide, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        let pid = self.holders[side as usize].to_string();
        let mut args: Vec<OsString> = vec!["--target".into(), pid.into(), "--net".into()];
        if !is_root() {
            args.extend(["--user".into(), "--preserve-credentials".into()]);
        }
        inside.args(args).arg("--").arg(command.get_program()).args(command.get_args());
        inside
    }

    /// Sets how long the kernel lets buffers grow on a side; `None` is as usual.
    pub(crate) fn set_buffers(
        &self,
        side: NetworkSide,
        len: Option<usize>,
    ) -> Result<(), BenchError> {
        let (rmem, wmem) = match len {
            Some(len) => (format!("4096 {len} {len}"), format!("4096 {len} {len}")),
            None => ("4096 131072 6291456".to_owned(), "4096 16384 4194304".to_owned()),
        };
        for (name, value) in [("tcp_rmem", rmem), ("tcp_wmem", wmem)] {
            let mut tee = Command::new("sh");
            tee.args(["-c", "echo \"$1\" > /proc/sys/net/ipv4/$0", name, &value]);
            run(&mut self.on(side, &tee)).map_err(BenchError::io("the buffers of a namespace"))?;
        }
        Ok(())
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// What `unshare` needs to make namespaces.
fn own_user() -> &'static [&'static str] {
    if is_root() { &[] } else { &["--user", "--map-root-user"] }
}

/// Runs a command to its end.
fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let name = command.get_program().to_string_lossy().into_owned();
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("{name}: {text}")))
}

fn ip(args: &str) -> io::Result<()> {
    run(Command::new("ip").args(args.split_whitespace()))
}

/// The process between the sides: `bridge MICROSECONDS BYTES_PER_SECOND`, in a namespace of its
/// own.
///
/// # Errors
/// What is missing.
pub(crate) fn bridge(round_trip_us: &str, bytes_per_s: &str) -> Result<(), BenchError> {
    let (Ok(us), Ok(rate)) = (round_trip_us.parse(), bytes_per_s.parse()) else {
        return Err(BenchError::Usage);
    };
    let failed = BenchError::io("a network between namespaces (needs root or user namespaces)");
    carry_packets(Duration::from_micros(us), rate).map_err(failed)
}

fn carry_packets(round_trip: Duration, rate: u64) -> io::Result<()> {
    let holders = [hold_namespace()?, hold_namespace()?];
    let mut ways = Vec::new();
    for (holder, (address, name)) in holders.iter().zip(ADDRESSES.iter().zip(["va", "vb"])) {
        let pid = holder.id();
        ip(&format!("link add {name} mtu {MTU} type veth peer name e0 mtu {MTU} netns {pid}"))?;
        ip(&format!("link set {name} up promisc on"))?;
        for args in [
            format!("ip addr add {address}/24 dev e0"),
            "ip link set e0 up".to_owned(),
            "ip link set lo up".to_owned(),
            // Every packet is whole and has its sum: the bridge sees what a wire would.
            "ethtool -K e0 tx off tso off gso off gro off".to_owned(),
        ] {
            let mut inside = Command::new("nsenter");
            inside.args(["--target", &pid.to_string(), "--net", "--"]);
            run(inside.args(args.split_whitespace()))?;
        }
        ways.push(Way::new(name)?);
    }
    println!("READY {} {}", holders[0].id(), holders[1].id());
    let shape = Shape { round_trip, bytes_per_s: rate };
    loop {
        turn(&mut ways, shape)?;
    }
}

/// A process in a namespace of its own. It ends when this one does: nobody writes to it any more.
fn hold_namespace() -> io::Result<Process> {
    let mut command = Command::new("unshare");
    command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let holder = command.spawn()?;
    let of = |pid: &str| Path::new("/proc").join(pid).join("ns/net").read_link();
    let (own, its) = (of("self")?, holder.id().to_string());
    let start = Instant::now();
    while of(&its)? == own {
        if START_TIMEOUT < start.elapsed() {
            return Err(io::Error::other("unshare made no network namespace"));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(holder)
}

/// What comes from one side, and goes to the other.
struct Way {
    socket: OwnedFd,
    queue: VecDeque<(Instant, Vec<u8>)>,
    queued_len: usize,
    /// When the wire has carried all that was put on it.
    free_at: Instant,
}

impl Way {
    fn new(name: &str) -> io::Result<Self> {
        let (packets, all) = (AddressFamily::Packet, SockProtocol::EthAll);
        let socket = socket(packets, SockType::Raw, SockFlag::SOCK_NONBLOCK, Some(all))?;
        setsockopt(&socket, sockopt::RcvBufForce, &(4 * QUEUE_LEN))?;
        let link = getifaddrs()?
            .filter(|interface| interface.interface_name == name)
            .find_map(|interface| interface.address?.as_link_addr().copied());
        let link = link.ok_or_else(|| io::Error::other("the interface has no address"))?;
        bind(socket.as_raw_fd(), &link)?;
        Ok(Self { socket, queue: VecDeque::new(), queued_len: 0, free_at: Instant::now() })
    }

    /// Puts what has come on the wire.
    fn take(&mut self, now: Instant, shape: Shape) -> io::Result<()> {
        let mut packet = vec![0; MTU + 64];
        loop {
            let len = match recv(self.socket.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT) {
                Ok(len) => len,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if QUEUE_LEN < self.queued_len + len {
                continue;
            }
            let ns = (len as u64).saturating_mul(1_000_000_000) / shape.bytes_per_s.max(1);
            self.free_at = self.free_at.max(now) + Duration::from_nanos(ns);
            self.queued_len += len;
            self.queue.push_back((self.free_at + shape.round_trip / 2, packet[..len].to_vec()));
        }
    }

    /// Gives what has arrived to the other side.
    fn give(&mut self, now: Instant, other: &impl AsFd) {
        while self.queue.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, packet)) = self.queue.pop_front() else { return };
            self.queued_len -= packet.len();
            // What does not fit is lost, as on a wire.
            let _ = send(other.as_fd().as_raw_fd(), &packet, MsgFlags::MSG_DONTWAIT);
        }
    }
}

/// Waits for a packet, or until one has arrived, and carries what there is.
fn turn(ways: &mut [Way], shape: Shape) -> io::Result<()> {
    let due = ways.iter().filter_map(|way| way.queue.front()).map(|(due, _)| *due).min();
    let wait = due.map(|due| TimeSpec::from(due.saturating_duration_since(Instant::now())));
    let mut polled: Vec<PollFd<'_>> =
        ways.iter().map(|way| PollFd::new(way.socket.as_fd(), PollFlags::POLLIN)).collect();
    match ppoll(&mut polled, wait, None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let now = Instant::now();
    let [one, two] = ways else { return Ok(()) };
    one.take(now, shape)?;
    two.take(now, shape)?;
    one.give(now, &two.socket);
    two.give(now, &one.socket);
    Ok(())
}
