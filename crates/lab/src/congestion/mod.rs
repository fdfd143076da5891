//! How the number of connections and the length of socket buffers decide how long calls wait for
//! each other: many callers with long replies, whose work takes a random time.
//!
//! This is a closed loop: each caller makes its next call when the last one was answered. Calls go
//! through an agent's own code, without an agent's process: from [`agent::client::Client`] to a
//! provider, or to a provider's agent.

mod load;
mod plot;
mod table;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use agent::config::ConnectionLimit;
use dubbo_proto::{DEFAULT_PAYLOAD_LIMIT, Serialization, ServiceKey};
use registry::Protocol;
use serde_json::{Value, json};

pub use self::load::{LargeLoad, LoadPlan, measure};
pub use self::plot::{Curve, Labels, draw};
pub use self::table::{heading, line};

use crate::provider::{Provider, ProviderConfig, ProviderError};

/// Who is called.
#[derive(Clone, Debug)]
pub struct Callee {
    /// What it speaks.
    pub protocol: Protocol,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The service.
    pub service: ServiceKey,
    /// A method that takes one text.
    pub method: String,
    /// A method that takes the length of its reply as a text, for large calls.
    pub large_method: String,
}

/// One row: how connections are made.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// How many there are.
    pub connections: ConnectionLimit,
    /// The length of the buffers on this side, in bytes; `None` leaves it to the kernel.
    pub buffer_len: Option<usize>,
}

impl Setting {
    /// The number of connections, or `auto`.
    #[must_use]
    pub fn connections(&self) -> String {
        match self.connections {
            ConnectionLimit::Fixed(n) => n.to_string(),
            ConnectionLimit::Auto { .. } => "auto".to_owned(),
        }
    }

    /// The length of the buffers, or `kernel`.
    #[must_use]
    pub fn buffers(&self) -> String {
        self.buffer_len.map_or_else(|| "kernel".to_owned(), |len| len.to_string())
    }
}

/// What a row showed.
#[derive(Clone, Copy, Debug)]
pub struct CongestionOutcome {
    /// Calls that were answered within the measurement.
    pub calls: u64,
    /// How long the measurement was.
    pub seconds: f64,
    /// Calls that failed.
    pub errors: u64,
    /// How long calls took, on average.
    pub mean: Duration,
    /// What half of the calls did not exceed.
    pub p50: Duration,
    /// What 99% of the calls did not exceed.
    pub p99: Duration,
    /// What became of the large calls beside them, if there were any.
    pub large: Option<LargeOutcome>,
}

/// What large calls showed.
#[derive(Clone, Copy, Debug)]
pub struct LargeOutcome {
    /// Calls that were answered within the measurement.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// How long calls took, on average.
    pub mean: Duration,
}

impl CongestionOutcome {
    /// Calls that were answered in a second.
    #[must_use]
    pub fn calls_per_s(&self) -> f64 {
        self.calls as f64 / self.seconds
    }

    /// The row as benchmarks keep it.
    #[must_use]
    pub fn to_json(&self, setting: &Setting, load: &LoadPlan) -> Value {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let large = load.large.zip(self.large).map(|(load, outcome)| {
            json!({
                "callers": load.callers,
                "reply_bytes": load.reply_len,
                "calls_per_s": outcome.calls as f64 / self.seconds,
                "mean_ms": ms(outcome.mean),
                "errors": outcome.errors,
            })
        });
        json!({
            "scenario": "congestion",
            "program": "dubmesh",
            "connections": setting.connections(),
            "buffer_bytes": setting.buffer_len,
            "callers": load.callers,
            "request_bytes": load.request_len,
            "codec": Serialization::DEFAULT.name(),
            "loop": "closed",
            "seconds": self.seconds,
            "calls_per_s": self.calls_per_s(),
            "mean_ms": ms(self.mean),
            "p50_ms": ms(self.p50),
            "p99_ms": ms(self.p99),
            "errors": self.errors,
            "large": large,
        })
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum CongestionError {
    /// The embedded provider did not start.
    #[error("cannot start a provider: {0}")]
    Provider(#[from] ProviderError),
    /// There is no event loop.
    #[error("cannot start an event loop: {0}")]
    Runtime(std::io::Error),
    /// The endpoint cannot be called.
    #[error("cannot use the endpoint: {0}")]
    Endpoint(#[from] registry::RegistryError),
    /// The first call failed.
    #[error("the first call failed: {0}")]
    Probe(agent::error::CallError),
    /// The plot cannot be written.
    #[error("cannot write {path}: {reason}")]
    Plot {
        /// The file.
        path: String,
        /// What the library says.
        reason: String,
    },
}

/// Starts a provider in this process, for `n_callers`, whose calls take from no time to
/// `longest_work`.
///
/// # Errors
/// Why it cannot be started.
pub fn embedded(
    n_callers: u32,
    longest_work: Duration,
) -> Result<(Provider, Callee), CongestionError> {
    let threads = usize::try_from(n_callers).unwrap_or(usize::MAX).saturating_add(1);
    let service = ServiceKey { interface: crate::provider::HELLO.to_owned(), ..Default::default() };
    let provider = Provider::start(&ProviderConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        service: service.clone(),
        threads: NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN),
        work: Duration::ZERO..=longest_work,
        workers: NonZeroUsize::MIN,
        payload_limit: DEFAULT_PAYLOAD_LIMIT,
    })?;
    let addr = provider.addr();
    let callee = Callee {
        protocol: Protocol::Dubbo,
        host: addr.ip().to_string(),
        port: addr.port(),
        service,
        method: "twice".to_owned(),
        large_method: "sized".to_owned(),
    };
    Ok((provider, callee))
}
