//! A network between two namespaces of this machine, with a round trip, a rate and a loss of its
//! own.
//!
//! Programs run in one namespace or the other, over the kernel's real TCP. Between them is a
//! [`Bridge`], which carries packets from one side to the other, late and no faster than the rate.
//! Where the kernel has netem, that would do the same; many have not.
//!
//! Nothing of it is seen outside: the bridge has a namespace of its own, and all of them end with
//! it. Without root this needs user namespaces, and always `ip`, `ethtool`, `unshare` and
//! `nsenter`.

mod bridge;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

pub use bridge::{Bridge, Loss, Shape};

use crate::{Child, HarnessError};

/// The address of a side.
const ADDRESSES: [&str; 2] = ["10.99.0.1", "10.99.0.2"];
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// One end of the network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NetworkSide {
    /// Where consumers are.
    Caller = 0,
    /// Where providers are.
    Provider = 1,
}

/// A running network. One that was started ends when this is dropped.
#[derive(Debug)]
pub struct Network {
    /// Programs that hold the namespaces of the sides.
    holders: [u32; 2],
    _bridge: Option<Child>,
}

impl Network {
    /// Starts a program in a namespace of its own. It makes a [`Bridge`], says so by
    /// [`Bridge::announce`], and carries packets.
    ///
    /// # Errors
    /// What is missing: `ip`, `ethtool` or `unshare`, or the right to make namespaces.
    pub fn start(bridge: &Command) -> Result<Self, HarnessError> {
        let name = "the bridge between network namespaces";
        let mut bridge = Child::spawn(name, &in_own_namespace(bridge))?;
        let line = bridge.wait_for_line("READY ", START_TIMEOUT)?;
        let mut pids = line.trim_start_matches("READY ").split_whitespace().map(str::parse);
        match (pids.next(), pids.next()) {
            (Some(Ok(caller)), Some(Ok(provider))) => {
                Ok(Self { holders: [caller, provider], _bridge: Some(bridge) })
            }
            _ => {
                let source = io::Error::other(format!("it said {line:?}"));
                Err(HarnessError::Spawn { name: name.to_owned(), source })
            }
        }
    }

    /// That of a bridge in this process. It is there for as long as the bridge is.
    #[must_use]
    pub fn of(bridge: &Bridge) -> Self {
        Self { holders: bridge.holders(), _bridge: None }
    }

    /// Where others reach a side.
    #[must_use]
    pub fn address(side: NetworkSide) -> &'static str {
        ADDRESSES[side as usize]
    }

    /// The same command, run on a side. It keeps its arguments; its other settings are lost.
    #[must_use]
    pub fn on(&self, side: NetworkSide, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        let pid = self.holders[side as usize].to_string();
        let mut args: Vec<OsString> = vec!["--target".into(), pid.into(), "--net".into()];
        if !is_root() {
            args.extend(["--user".into(), "--preserve-credentials".into()]);
        }
        inside.args(args).arg("--").arg(command.get_program()).args(command.get_args());
        inside
    }

    /// Runs `act` in a thread on a side. Sockets that it makes stay there. The process has to be
    /// root, if only of its own user namespace.
    ///
    /// # Errors
    /// When it may not go there.
    ///
    /// # Panics
    /// When `act` does.
    pub fn inside<T: Send>(
        &self,
        side: NetworkSide,
        act: impl FnOnce() -> T + Send,
    ) -> io::Result<T> {
        let namespace = File::open(format!("/proc/{}/ns/net", self.holders[side as usize]))?;
        let enter_and_act = || {
            setns(&namespace, CloneFlags::CLONE_NEWNET)?;
            Ok(act())
        };
        let panicked = |payload| std::panic::resume_unwind(payload);
        thread::scope(|scope| scope.spawn(enter_and_act).join().unwrap_or_else(panicked))
    }

    /// Sets how long the kernel lets buffers grow on a side, in bytes; `None` is as usual.
    ///
    /// # Errors
    /// When the kernel takes no such length.
    pub fn set_buffers(&self, side: NetworkSide, len: Option<usize>) -> Result<(), HarnessError> {
        let (rmem, wmem) = match len {
            Some(len) => (format!("4096 {len} {len}"), format!("4096 {len} {len}")),
            None => ("4096 131072 6291456".to_owned(), "4096 16384 4194304".to_owned()),
        };
        self.set(side, "tcp_rmem", &rmem)?;
        self.set(side, "tcp_wmem", &wmem)
    }

    /// Sets how new connections of both sides find their pace, such as `reno`, which every kernel
    /// has and lets anybody use.
    ///
    /// # Errors
    /// When the kernel does not have it.
    pub fn set_congestion_control(&self, name: &str) -> Result<(), HarnessError> {
        self.set(NetworkSide::Caller, "tcp_congestion_control", name)?;
        self.set(NetworkSide::Provider, "tcp_congestion_control", name)
    }

    fn set(&self, side: NetworkSide, name: &str, value: &str) -> Result<(), HarnessError> {
        let mut tee = Command::new("sh");
        tee.args(["-c", "echo \"$1\" > /proc/sys/net/ipv4/$0", name, value]);
        run(&mut self.on(side, &tee)).map_err(|source| HarnessError::Network { source })
    }
}

/// The same command, run as root in a network namespace of its own: it may make a [`Bridge`]. It
/// keeps its arguments; its other settings are lost.
#[must_use]
pub fn in_own_namespace(command: &Command) -> Command {
    let own_user: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
    let mut inside = Command::new("unshare");
    inside.args(own_user).arg("--net").arg(command.get_program()).args(command.get_args());
    inside
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Runs a command to its end.
fn run(command: &mut Command) -> io::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |text: &str| io::Error::other(format!("{name}: {text}"));
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim()))
}
