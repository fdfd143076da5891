//! What holds where the file says nothing, and the bounds of what it may say.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use balance::{HoldPolicy, OutlierPolicy, Policy};
use dubbo_proto::Serialization;
use flow::breaker::BreakerPolicy;

use super::{BreakerSettings, ConnectionLimit, FailbackPolicy};

/// No setting is longer; a value beyond is a slip of the unit.
pub(super) const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Longer than nearly every call may take (Dubbo's default is one second), shorter than the 30
/// seconds after which an orchestrator kills.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// A service with a hundred calls a second has its stages known within a minute.
pub(super) const STAGE_SAMPLE: u32 = 64;
/// More threads than any machine has cores.
pub(super) const MAX_WORKERS: usize = 1024;

/// More file descriptors than a process may have on any machine.
pub(super) const MAX_FILES: u64 = 1 << 30;

/// With this, 4,000 hostile connections do not take an agent over 256 MB.
pub(super) const MEMORY_LEN: usize = 80 * 1024 * 1024;
/// The rest of the memory is for the app beside the agent, and for what is not counted.
pub(super) const MEMORY_PART: u64 = 4;
/// Below this not even common calls of a few connections fit.
pub(super) const MIN_MEMORY_LEN: usize = 1024 * 1024;
/// Nobody has more.
pub(super) const MAX_MEMORY_LEN: usize = 1 << 46;
/// One connection may use half of the budget, so the longest body fits into it twice.
pub(super) const BODY_TIMES: usize = 2;

/// Lines for an operator to act on, and no others.
pub(super) const LOG_LEVEL: &str = "info";

/// Loopback only: metrics tell a stranger too much.
pub(super) const ADMIN_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9700);

/// A file with one registry need not name it.
pub(super) const REGISTRY_NAME: &str = "main";
/// Where an etcd on the same machine listens.
pub(super) const ETCD_ENDPOINT: &str = "http://127.0.0.1:2379";
/// Where a ZooKeeper on the same machine listens.
pub(super) const ZOOKEEPER_SERVER: &str = "127.0.0.1:2181";
/// Where a Nacos on the same machine listens for HTTP.
pub(super) const NACOS_SERVER: &str = "127.0.0.1:8848";
/// A push of a few hundred instances.
pub(super) const SHORTEST_NACOS_MESSAGE_LEN: usize = 1 << 20;
/// More than a hundred thousand instances of one service.
pub(super) const LONGEST_NACOS_MESSAGE_LEN: usize = 256 << 20;
/// Two ticks of a server are the least that it grants; a pause of a second loses a shorter one.
pub(super) const MIN_ZOOKEEPER_SESSION: Duration = Duration::from_secs(1);
/// A node's own limit in ZooKeeper is 1 MiB.
pub(super) const SHORTEST_ZOOKEEPER_MESSAGE_LEN: usize = 1 << 20;
/// More than a hundred thousand providers of one service.
pub(super) const LONGEST_ZOOKEEPER_MESSAGE_LEN: usize = 1 << 30;
/// Kept alive three times per lease; a shorter one is lost to one slow second.
pub(super) const MIN_LEASE_TTL_S: u64 = 3;

/// Twenty times the 512 connections of the benchmarks, at a few KiB each.
pub(super) const INGRESS_CONNECTIONS: usize = 10_000;
/// File descriptors of a process seldom go further.
pub(super) const MAX_CONNECTIONS: usize = 1_000_000;
/// Dubbo's own payload limit: what is longer would be refused by the provider.
pub(super) const BODY_LEN: usize = 8 * 1024 * 1024;
/// Many times what most calls carry, and short enough that a few of them in a row hold nobody up.
pub(super) const LONG_LEN: usize = 16 * 1024;
/// With buffers of 32 KiB and a round trip of 1 ms, so many carry a gigabit a second.
pub(super) const CONNECTIONS: ConnectionLimit =
    ConnectionLimit::Auto { max: NonZeroUsize::new(16).expect("16 is not 0") };
/// More than this would be a mistake: a provider takes so many of all its consumers.
pub(super) const MOST_CONNECTIONS: usize = 64;
/// Two small messages.
pub(super) const LEAST_BUFFER_LEN: usize = 4096;
/// What a socket option can say.
pub(super) const MOST_BUFFER_LEN: usize = 1 << 30;
/// Below this every message would need many turns of the event loop.
pub(super) const LEAST_UNSENT_LEN: u32 = 1024;
/// What a socket option can say.
pub(super) const MOST_UNSENT_LEN: u32 = 1 << 30;
/// The kernel counts seconds.
pub(super) const LEAST_KEEPALIVE: Duration = Duration::from_secs(1);
/// Less than a retransmission takes would end good connections.
pub(super) const LEAST_USER_TIMEOUT: Duration = Duration::from_millis(100);
/// What one message on a link can carry at most.
pub(super) const MAX_BODY_LEN: usize = 1024 * 1024 * 1024;
/// Twice what common servers allow, since attachments travel in headers.
pub(super) const HEAD_LEN: usize = 64 * 1024;
/// The parser's buffer cannot be smaller.
pub(super) const MIN_HEAD_LEN: usize = 8 * 1024;
/// Held in memory per connection, so a slip must not be able to claim gigabytes.
pub(super) const MAX_HEAD_LEN: usize = 1024 * 1024;
/// A head is one packet; only a sender that stalls on purpose takes longer.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A body of the largest size on a line of 2 Mbit/s.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// As long as a body may take: what is read back is no longer than what was sent.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// A shorter one would give up peers that pause for a moment.
pub(super) const LEAST_HEARTBEAT: Duration = Duration::from_millis(100);
/// As Dubbo.
pub(super) const DUBBO_HEARTBEAT: Duration = Duration::from_secs(60);
/// A link is dead before most callers would notice by themselves.
pub(super) const LINK_HEARTBEAT: Duration = Duration::from_secs(5);
/// A PING costs little, and a connection of HTTP/2 may have many requests.
pub(super) const HTTP2_HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a client's TLS handshake may take.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than the idle timeout of common clients (60 s), so that they close first and never
/// send a request into a closing connection.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// Long enough that a page asks seldom, short enough that a change of the file is noticed.
pub(super) const CORS_S: u64 = 600;
/// No browser remembers it for longer than a day.
pub(super) const LONGEST_CORS_S: u64 = 24 * 60 * 60;

/// One connection per worker of a few hundred consumers.
pub(super) const LINK_CONNECTIONS: usize = 4096;
/// Twenty providers' thread pools (200 each), so that the link is not what limits.
pub(super) const LINK_WINDOW: u32 = 4096;
/// The protocol's own limit: calls in flight are numbered and remembered, so a window costs
/// memory.
pub(super) const MAX_LINK_WINDOW: u32 = link_proto::header::MAX_WINDOW;

/// As many calls at once as a Dubbo provider has threads.
pub(super) const APP_CONNECTIONS: usize = 200;
/// Common servers close an idle connection after 2 (gunicorn) to 5 seconds (Node, uvicorn); a new
/// one on the same machine costs next to nothing.
pub(super) const APP_IDLE_TIMEOUT: Duration = Duration::from_millis(1500);
/// An app that is back is found as fast as an agent tries to connect to a Dubbo app.
pub(super) const HEALTH_INTERVAL: Duration = Duration::from_secs(2);
/// A health check that takes longer says enough.
pub(super) const HEALTH_TIMEOUT: Duration = Duration::from_secs(1);
/// One lost answer is not a reason to withdraw a service.
pub(super) const HEALTH_FAILURES: u32 = 2;
/// More would hide an app's absence for minutes.
pub(super) const MOST_HEALTH_FAILURES: u32 = 100;

/// Dubbo's default weight.
pub(super) const WEIGHT: u32 = 100;
/// Weights are summed up over all endpoints in 32 bits.
pub(super) const MAX_WEIGHT: u32 = 10_000;

/// A provider with more threads would have no memory left for them.
pub(super) const MAX_CAPACITY: u32 = 65_536;

/// Fits providers of different size without anybody measuring them.
pub(super) const BALANCE: Policy = Policy::Adaptive;
/// Five failures in a row are seldom chance, and half of the endpoints can seldom carry all of the
/// load. The silence is longer than most pauses of a garbage collector.
pub(super) const OUTLIER: OutlierPolicy = OutlierPolicy {
    failures: 5,
    error_percent: 50,
    min_calls: 20,
    window: Duration::from_secs(10),
    silence: Duration::from_millis(100),
    time: Duration::from_secs(1),
    max_time: Duration::from_secs(30),
    max_percent: 50,
    exceptions: false,
};
/// As for ejection, where that judges all methods of an endpoint together. Dubbo waits a second
/// for an answer unless it is told otherwise.
pub(super) const BREAKER: BreakerSettings = BreakerSettings {
    policy: BreakerPolicy {
        failures: 5,
        error_percent: 50,
        min_calls: 20,
        window: Duration::from_secs(10),
        time: Duration::from_secs(1),
        max_time: Duration::from_secs(30),
        probes: 1,
    },
    min_timeout: Duration::from_secs(1),
    exceptions: false,
    may_empty: false,
};
/// As Dubbo: five seconds between tries. A minute is longer than most restarts.
pub(super) const FAILBACK: FailbackPolicy =
    FailbackPolicy { delay: Duration::from_secs(5), time: Duration::from_secs(60) };
/// One call in twenty is asked for twice.
pub(super) const HEDGE_PERCENTILE: u32 = 95;
/// As Dubbo.
pub(super) const FORKS: u32 = 2;
/// More would be a broadcast.
pub(super) const MOST_FORKS: u32 = 16;
/// More would be no trial.
pub(super) const MOST_PROBES: u32 = 1000;
/// Beyond that nothing is ever ejected in practice.
pub(super) const MOST_FAILURES: u32 = 100_000;
/// A caller that asks for more has given up long before.
pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// Two lost SYNs would take 3 s; another endpoint is the better choice after the first.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The default of every Dubbo until 3.2, and understood by those after it.
pub(super) const SERIALIZATION: Serialization = Serialization::DEFAULT;
/// The first and two more, as Dubbo's `retries = 2`.
pub(super) const MAX_ATTEMPTS: u32 = 3;
/// A call that was refused this often will not be served elsewhere.
pub(super) const MOST_ATTEMPTS: u32 = 100;
/// More than any agent can make.
pub(super) const MOST_CALLS_PER_SECOND: u32 = 10_000_000;
/// As many as the window of a link.
pub(super) const MAX_IN_FLIGHT: u32 = LINK_WINDOW;
/// Longer than a registry's restart or a partition that somebody looks after; and endpoints that
/// leave in order do not wait for it.
pub(super) const HOLD: HoldPolicy = HoldPolicy { time: Duration::from_secs(300), percent: 50 };
/// All of them would mean that nothing is ever held.
pub(super) const MAX_HOLD_PERCENT: u8 = 99;
