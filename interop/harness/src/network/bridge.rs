//! What carries packets between the sides.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child as Process, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeSpec;

use super::{ADDRESSES, START_TIMEOUT, run};

/// Long packets, as in a data centre: fewer of them for the bridge to carry.
const MTU: usize = 9000;
/// What waits in a side's queue of the bridge; more is dropped, as a switch does.
const QUEUE_LEN: usize = 4 << 20;
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// A bridge that has nothing to carry looks so often whether it is to end.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// What a network is like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How long a packet and its answer are under way when nothing else is.
    pub round_trip: Duration,
    /// In each direction.
    pub bytes_per_s: u64,
}

/// How many of 1,000 packets get lost in each direction; none, to begin with.
#[derive(Clone, Debug, Default)]
pub struct Loss(Arc<AtomicU32>);

impl Loss {
    /// From now on.
    pub fn set(&self, of_thousand: u32) {
        self.0.store(of_thousand, Relaxed);
    }
}

/// Carries packets between two namespaces, which it makes. They end when it is dropped.
pub struct Bridge {
    shape: Shape,
    loss: Loss,
    holders: [Process; 2],
    ways: [Way; 2],
}

impl Bridge {
    /// Makes both sides. This process has to be root, if only of its own user namespace, and in a
    /// network namespace of its own.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(shape: Shape) -> io::Result<Self> {
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
        let ways = ways.try_into().map_err(|_| io::Error::other("a way for each side"))?;
        Ok(Self { shape, loss: Loss::default(), holders, ways })
    }

    /// Changes how much it loses, also while it carries.
    #[must_use]
    pub fn loss(&self) -> Loss {
        self.loss.clone()
    }

    pub(super) fn holders(&self) -> [u32; 2] {
        self.holders.each_ref().map(Process::id)
    }

    /// Prints the line that [`super::Network::start`] waits for.
    ///
    /// # Errors
    /// When nobody reads it.
    pub fn announce(&self) -> io::Result<()> {
        let [caller, provider] = self.holders();
        writeln!(io::stdout(), "READY {caller} {provider}")
    }

    /// Carries packets for as long as it is wanted.
    ///
    /// # Errors
    /// When the interfaces fail.
    pub fn carry_while(&mut self, is_wanted: impl Fn() -> bool) -> io::Result<()> {
        while is_wanted() {
            self.turn()?;
        }
        Ok(())
    }

    /// Waits for a packet, or until one has arrived, and carries what there is.
    fn turn(&mut self) -> io::Result<()> {
        let due = self.ways.iter().filter_map(Way::next_due).min();
        let wait = due.map_or(LONGEST_WAIT, |due| due.saturating_duration_since(Instant::now()));
        let mut polled: Vec<PollFd<'_>> = self
            .ways
            .iter()
            .map(|way| PollFd::new(way.socket.as_fd(), PollFlags::POLLIN))
            .collect();
        match ppoll(&mut polled, Some(TimeSpec::from(wait)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let now = Instant::now();
        let of_thousand = self.loss.0.load(Relaxed);
        let [one, two] = &mut self.ways;
        one.take(now, self.shape, of_thousand)?;
        two.take(now, self.shape, of_thousand)?;
        one.give(now, &two.socket);
        two.give(now, &one.socket);
        Ok(())
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

fn ip(args: &str) -> io::Result<()> {
    run(Command::new("ip").args(args.split_whitespace()))
}

/// A process in a namespace of its own. It ends when this one does: nobody writes to it any more.
fn hold_namespace() -> io::Result<Process> {
    let mut command = Command::new("unshare");
    command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut holder = command.spawn()?;
    let of = |pid: &str| Path::new("/proc").join(pid).join("ns/net").read_link();
    let (own, its) = (of("self")?, holder.id().to_string());
    let start = Instant::now();
    while of(&its)? == own {
        if START_TIMEOUT < start.elapsed() || holder.try_wait()?.is_some() {
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
    /// Which packets get lost is chance, and the same each time.
    chance: u32,
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
        Ok(Self {
            socket,
            queue: VecDeque::new(),
            queued_len: 0,
            free_at: Instant::now(),
            chance: 1,
        })
    }

    fn next_due(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _)| *due)
    }

    /// Puts what has come on the wire.
    fn take(&mut self, now: Instant, shape: Shape, lost_of_thousand: u32) -> io::Result<()> {
        let mut packet = vec![0; MTU + 64];
        loop {
            let len = match recv(self.socket.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT) {
                Ok(len) => len,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if QUEUE_LEN < self.queued_len + len || self.draw() % 1000 < lost_of_thousand {
                continue;
            }
            let ns = (len as u64).saturating_mul(1_000_000_000) / shape.bytes_per_s.max(1);
            self.free_at = self.free_at.max(now) + Duration::from_nanos(ns);
            self.queued_len += len;
            self.queue.push_back((self.free_at + shape.round_trip / 2, packet[..len].to_vec()));
        }
    }

    /// The next number of a xorshift generator.
    fn draw(&mut self) -> u32 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 17;
        self.chance ^= self.chance << 5;
        self.chance
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
