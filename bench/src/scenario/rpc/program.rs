//! Which programs are measured, and how their servers and clients are started.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop_harness::Child;

use crate::error::BenchError;
use crate::plan::Plan;

/// Payloads of requests and responses.
pub(crate) const PAYLOAD_LEN: usize = 100;
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A server and a client that belong together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Program {
    /// Bare sockets, one thread a side per connection, all that is ready in one write.
    Raw,
    /// Bare sockets, one blocking thread per caller on shared connections.
    RawThreads,
    /// Our RPC library, with raw bytes.
    Link,
    /// Its client for programs without a runtime.
    LinkBlocking,
    /// Our RPC library, with protobuf.
    LinkProtobuf,
    Tonic,
    Tarpc,
    Volo,
}

/// How many callers share how many connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Setting {
    pub(crate) n_callers: usize,
    pub(crate) n_connections: usize,
}

impl Display for Setting {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { n_callers, n_connections } = self;
        write!(formatter, "{n_callers} callers, {n_connections} connections")
    }
}

impl Program {
    /// Its name in the rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::RawThreads => "raw threads",
            Self::Link | Self::LinkProtobuf => "link",
            Self::LinkBlocking => "link blocking",
            Self::Tonic => "tonic",
            Self::Tarpc => "tarpc",
            Self::Volo => "volo",
        }
    }

    /// What its payloads are packed into.
    pub(crate) fn codec(self) -> &'static str {
        match self {
            Self::Raw | Self::RawThreads | Self::Link | Self::LinkBlocking => "raw",
            Self::LinkProtobuf | Self::Tonic => "protobuf",
            Self::Tarpc => "bincode",
            Self::Volo => "thrift",
        }
    }

    pub(crate) fn is_link(self) -> bool {
        matches!(self, Self::Link | Self::LinkBlocking | Self::LinkProtobuf)
    }

    /// The bare sockets that show what the machine could do in its place.
    pub(crate) fn ceiling(self) -> Self {
        match self {
            Self::RawThreads | Self::LinkBlocking => Self::RawThreads,
            _ => Self::Raw,
        }
    }

    fn server_args(self) -> &'static [&'static str] {
        match self {
            Self::Raw | Self::RawThreads => &["raw-server"],
            Self::Link | Self::LinkBlocking | Self::LinkProtobuf => &["bench", "rpc", "serve"],
            Self::Tonic => &["tonic-server"],
            Self::Tarpc => &["tarpc-server"],
            Self::Volo => &["volo-server"],
        }
    }

    fn client_args(self) -> &'static [&'static str] {
        match self {
            Self::Raw => &["raw-client"],
            Self::RawThreads => &["raw-threads-client"],
            Self::Link => &["bench", "rpc", "--json", "--codec", "raw"],
            Self::LinkBlocking => &["bench", "rpc", "--json", "--codec", "raw", "--blocking"],
            Self::LinkProtobuf => &["bench", "rpc", "--json", "--codec", "protobuf"],
            Self::Tonic => &["tonic-client"],
            Self::Tarpc => &["tarpc-client"],
            Self::Volo => &["volo-client"],
        }
    }
}

/// The binaries, and where their processes run.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    dubmesh: PathBuf,
    peers: PathBuf,
    is_pinned: bool,
}

/// Which core a process gets, if they are pinned.
#[derive(Clone, Copy, Debug)]
enum PinnedSide {
    Server,
    Client,
}

/// A server that listens.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) child: Child,
    addr: String,
}

impl Programs {
    pub(crate) fn new(plan: &Plan, peers: PathBuf) -> Self {
        Self { dubmesh: plan.dubmesh.clone(), peers, is_pinned: plan.is_pinned }
    }

    pub(crate) fn start_server(&self, program: Program) -> Result<Server, BenchError> {
        let mut command = self.command(program, PinnedSide::Server);
        command.args(program.server_args());
        let mut child = Child::spawn(&format!("the server of {}", program.name()), &command)?;
        let line = child.wait_for_line("listening ", START_TIMEOUT)?;
        let addr = line.trim_start_matches("listening ").trim().to_owned();
        Ok(Server { child, addr })
    }

    /// Starts a client that calls for `warm_up`, then measures for `duration`, then ends.
    pub(crate) fn start_client(
        &self,
        program: Program,
        setting: Setting,
        server: &Server,
        [warm_up, duration]: [Duration; 2],
    ) -> Result<Child, BenchError> {
        let mut command = self.command(program, PinnedSide::Client);
        command.args(program.client_args()).args(["--connect", &server.addr]);
        for (option, value) in [
            ("--concurrency", setting.n_callers.to_string()),
            ("--connections", setting.n_connections.to_string()),
            ("--request-bytes", PAYLOAD_LEN.to_string()),
            ("--response-bytes", PAYLOAD_LEN.to_string()),
            ("--warmup", format!("{}s", warm_up.as_secs_f64())),
            ("--duration", format!("{}s", duration.as_secs_f64())),
        ] {
            command.args([option, &value]);
        }
        Ok(Child::spawn(&format!("the client of {}", program.name()), &command)?)
    }

    fn command(&self, program: Program, side: PinnedSide) -> Command {
        let binary: &Path = if program.is_link() { &self.dubmesh } else { &self.peers };
        if !self.is_pinned {
            return Command::new(binary);
        }
        let core = match side {
            PinnedSide::Server => "0",
            PinnedSide::Client => "1",
        };
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", core]).arg(binary);
        command
    }
}
