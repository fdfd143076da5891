//! What is shown of a running agent: plain types, which are the JSON of the admin listener's
//! pages.
//!
//! docs/operations.md says what each field means. Workers make parts of these, which are merged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metrics::CallTotals;

mod explanation;
mod process;
mod route;

pub use self::explanation::{
    DestinationSnapshot, ExplainedEndpoint, ExplanationSnapshot, StepSnapshot,
};
pub use self::process::{
    CpuThrottlingSnapshot, ListenerSnapshot, MemorySnapshot, MethodSnapshot, ProcessSnapshot,
    VersionSnapshot,
};
pub use self::route::RouteSnapshot;

/// More reasons than this are left out.
const MAX_REASONS: usize = 8;

/// Something that workers describe.
pub trait WorkerSnapshot: Sized {
    /// What makes it the same thing on another worker; pages are in this order.
    type Key: Ord;
    /// Whether several workers may describe the same thing.
    const IS_SHARED: bool;

    /// What makes it the same thing.
    fn key(&self) -> Self::Key;
    /// Adds what another worker says of the same thing.
    fn merge(&mut self, other: Self);
    /// Computes what can only be known when all workers have answered.
    #[must_use]
    fn finished(self) -> Self {
        self
    }
}

/// The first of many things.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Page<T> {
    /// How many there are. Of what several workers may have, at least so many, if `truncated`.
    pub total: usize,
    /// Whether `items` leaves some of them out.
    pub truncated: bool,
    /// The workers that have not answered in time; what they have is not in `items`.
    pub silent_workers: Vec<usize>,
    /// The first ones.
    pub items: Vec<T>,
}

/// A connection, of either direction.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ConnectionSnapshot {
    /// Its number in this process, as in the log.
    pub id: u64,
    /// The worker that serves it.
    pub worker: usize,
    /// `downstream` if the peer opened it, `upstream` if this agent did.
    pub direction: String,
    /// What is spoken: `http`, `dubbo` or `link`.
    pub protocol: String,
    /// The address of the other end.
    pub peer: String,
    /// What the peer calls itself, where the protocol has it say so: the name of an agent.
    pub peer_name: Option<String>,
    /// Milliseconds since it was opened.
    pub age_ms: u64,
    /// What happens on it, in a word or two.
    pub doing: String,
    /// Calls that have begun and not ended.
    pub in_flight: usize,
    /// Bytes that are held for it, of `memory_bytes`.
    pub held_bytes: usize,
    /// Bytes that came so far, above TLS.
    pub bytes_read: u64,
    /// Bytes that went so far, above TLS.
    pub bytes_written: u64,
    /// How long it was in the midst of a message so far, in milliseconds: a part of it had come or
    /// gone, and the rest had not. Only of connections to endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_message_ms: Option<u64>,
    /// What the kernel says of it; absent for a Unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSnapshot>,
}

/// What the kernel says of a TCP connection at the moment of the question. A figure that it does
/// not give, or has not measured yet, is absent.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct TcpSnapshot {
    /// The smoothed round-trip time, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u32>,
    /// How much the round-trip time varies, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_deviation_us: Option<u32>,
    /// The shortest round trip lately, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt_us: Option<u32>,
    /// Segments that were sent again, over the connection's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u32>,
    /// Segments that the peer got twice, over the connection's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<u32>,
    /// The congestion window: how many segments may be under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd_segments: Option<u32>,
    /// The longest segment that is sent, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
    /// Segments that were sent and not acknowledged yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unacked_segments: Option<u32>,
    /// Bytes that wait in the socket and were not sent yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_sent_bytes: Option<u32>,
    /// How fast the peer got what was sent lately, in bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_rate: Option<u64>,
    /// Bytes that the peer has acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acked_bytes: Option<u64>,
    /// Bytes that came in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Segments with data that went out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_out: Option<u32>,
    /// How long there was something to be sent or acknowledged, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_us: Option<u64>,
    /// How long of that the peer's receive window was full, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_limited_us: Option<u64>,
    /// How long of that the send buffer was too small, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_limited_us: Option<u64>,
    /// Whether `delivery_rate` was limited by how much there was to be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_app_limited: Option<bool>,
}

impl WorkerSnapshot for ConnectionSnapshot {
    type Key = u64;
    const IS_SHARED: bool = false;

    fn key(&self) -> u64 {
        self.id
    }

    fn merge(&mut self, _: Self) {}
}

/// A service that is called.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ServiceSnapshot {
    /// Its key, `GROUP/INTERFACE:VERSION`.
    pub service: String,
    /// The registry that its endpoints are learnt from.
    pub registry: String,
    /// `current`, `stale` or `pending`: how far the list of endpoints can be trusted.
    pub freshness: String,
    /// How many workers have called it.
    pub workers: usize,
    /// Endpoints that may get calls.
    pub endpoints: usize,
    /// Those of them that one worker at least is connected to, and that it has not ejected.
    pub ready: usize,
    /// Those of them that one worker at least is connected to, ejected or not.
    /// An older agent does not say.
    #[serde(default)]
    pub connected: usize,
    /// Those of them that get no calls because their weight is 0, as that of those that a
    /// configurator switches off.
    #[serde(default)]
    pub weightless: usize,
    /// Those of them that the registry no longer lists.
    pub held: usize,
    /// What else is registered, and why it is not used.
    pub unused: Vec<String>,
    /// Calls that wait because all endpoints work on as many as they can take.
    #[serde(default)]
    pub waiting: usize,
    /// Calls in flight to all endpoints.
    pub in_flight: u64,
    /// Calls that failed before an endpoint was chosen, by the name of the error, as the metrics
    /// count them: of the service in all registries. An older agent does not say.
    #[serde(default)]
    pub failed_without_endpoint: BTreeMap<String, u64>,
    /// What happened to its calls because of rules for their methods, such as `delay_injected`, as
    /// the metrics count it. What has not happened is omitted.
    #[serde(default)]
    pub method_events: BTreeMap<String, u64>,
    /// Further attempts of its calls, by the name of the error that they followed.
    #[serde(default)]
    pub retries: BTreeMap<String, u64>,
    /// Calls that were sent to its endpoints, as the metrics count them: of the service in all
    /// registries. An older agent does not say.
    #[serde(default)]
    pub calls: Option<CallsSnapshot>,
    /// How its calls are made.
    pub policy: PolicySnapshot,
}

/// How calls to a service are made: the `[[cluster]]` that is in force.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PolicySnapshot {
    /// How an endpoint is chosen.
    pub balance: String,
    /// Deadline of a call that brings none, in milliseconds; without it the provider's or 1000.
    pub timeout_ms: Option<u64>,
    /// The longest deadline that a caller may ask for, in milliseconds.
    pub max_timeout_ms: u64,
    /// Longest wait for a connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// For endpoints that do not tell theirs.
    pub serialization: String,
    /// How many endpoints one call may be offered to.
    pub max_attempts: u32,
    /// Calls in flight towards one endpoint from one worker.
    pub max_in_flight: u32,
    /// Calls that an endpoint without an agent may have from all workers: a number, `auto`, or `0`
    /// for no limit. Without it, as many as the endpoint has registered threads, or `auto`.
    #[serde(default)]
    pub endpoint_capacity: Option<String>,
    /// Longest body of a reply.
    pub max_reply_bytes: usize,
    /// How long endpoints stay in use that vanish from the registry, in milliseconds.
    pub hold_ms: u64,
    /// They stay if they are more than so many percent of all that are alive.
    pub hold_percent: u8,
}

impl WorkerSnapshot for ServiceSnapshot {
    type Key = (String, String);
    const IS_SHARED: bool = true;

    fn key(&self) -> Self::Key {
        (self.service.clone(), self.registry.clone())
    }

    /// Workers differ for moments only, but for what they are connected to.
    fn merge(&mut self, other: Self) {
        self.workers += other.workers;
        self.endpoints = self.endpoints.max(other.endpoints);
        self.ready = self.ready.max(other.ready);
        self.connected = self.connected.max(other.connected);
        self.held = self.held.max(other.held);
        self.weightless = self.weightless.max(other.weightless);
        self.waiting += other.waiting;
        self.in_flight += other.in_flight;
        // The alphabet has the worst last, by chance.
        if self.freshness < other.freshness {
            self.freshness = other.freshness;
        }
    }
}

/// An endpoint of a service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EndpointSnapshot {
    /// The service.
    pub service: String,
    /// The registry that it was learnt from.
    pub registry: String,
    /// Which registry lists it, if that one is made of several.
    #[serde(default)]
    pub listed_by: Option<String>,
    /// `HOST:PORT`.
    pub address: String,
    /// `link` for a provider's agent, `dubbo` for a provider.
    pub protocol: String,
    /// The application that it is registered by, if it says so.
    #[serde(default)]
    pub application: Option<String>,
    /// Its release of Dubbo, if it says so.
    #[serde(default)]
    pub release: Option<String>,
    /// Its state, and with how many workers: `ready`, `ejected`, `connecting`, `down`,
    /// `leaving`.
    pub standing: BTreeMap<String, usize>,
    /// Why it is not simply ready, of each worker, without repetitions.
    pub why: Vec<String>,
    /// Whether it is used although the registry no longer lists it.
    pub held: bool,
    /// Its weight now, with its warm-up; 0 for one that gets no calls.
    pub weight: u32,
    /// How many calls it can take at once from this agent; nothing if the agent sets no limit.
    #[serde(default)]
    pub capacity: Option<u32>,
    /// Who says so: `configured`, `registered` by the endpoint as its threads, `found` out, or
    /// `granted` as credits by its agent, which has not enough for all.
    #[serde(default)]
    pub capacity_source: Option<String>,
    /// How its calls went.
    pub calls: CallsSnapshot,
}

/// Adds how many workers see an endpoint in which state.
fn merge_standing(own: &mut BTreeMap<String, usize>, other: BTreeMap<String, usize>) {
    for (standing, n_workers) in other {
        *own.entry(standing).or_default() += n_workers;
    }
}

/// Adds another worker's reasons, without repetitions.
fn merge_reasons(own: &mut Vec<String>, other: Vec<String>) {
    for reason in other {
        if !own.contains(&reason) && own.len() < MAX_REASONS {
            own.push(reason);
        }
    }
}

/// The source of a capacity that the endpoint's agent has granted as credits.
pub const GRANTED: &str = "granted";

impl WorkerSnapshot for EndpointSnapshot {
    type Key = (String, String, String, String);
    const IS_SHARED: bool = true;

    fn key(&self) -> Self::Key {
        let Self { service, registry, address, protocol, .. } = self;
        (service.clone(), address.clone(), protocol.clone(), registry.clone())
    }

    fn merge(&mut self, other: Self) {
        merge_standing(&mut self.standing, other.standing);
        merge_reasons(&mut self.why, other.why);
        self.held |= other.held;
        self.weight = self.weight.max(other.weight);
        self.capacity = match (self.capacity, other.capacity) {
            // Credits are those of one worker's link.
            (Some(own), Some(other)) if self.capacity_source.as_deref() == Some(GRANTED) => {
                Some(own.saturating_add(other))
            }
            (own, other) => own.or(other),
        };
        self.capacity_source = self.capacity_source.take().or(other.capacity_source);
        self.listed_by = self.listed_by.take().or(other.listed_by);
        self.calls.merge(&other.calls);
    }

    fn finished(mut self) -> Self {
        self.calls.finish();
        self
    }
}

/// How calls went, since their endpoint was learnt.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CallsSnapshot {
    /// Sent and not answered.
    pub in_flight: u64,
    /// Answered well.
    pub ok: u64,
    /// Failed, by the name of the error. Errors that have not occurred are omitted.
    pub failed: BTreeMap<String, u64>,
    /// Half of the good answers took at most so many milliseconds. It is the bound of a bucket of
    /// `dubmesh_upstream_latency`.
    pub p50_ms: Option<f64>,
    /// The same for 99 of 100.
    pub p99_ms: Option<f64>,
    /// The mean latency of answers that the balancer goes by, in milliseconds: the highest of all
    /// workers.
    pub average_ms: Option<f64>,
    /// Of `ok`, the calls that nobody wanted an answer to: they have no latency. An older agent
    /// counts those among the answers, and says 0.
    #[serde(default)]
    pub one_way: u64,
    /// How long the good answers took together, in milliseconds. An older agent does not say.
    #[serde(default)]
    pub ok_total_ms: Option<f64>,
    /// Of the good answers of an endpoint, those that its agent has said of how long its app took:
    /// one in so many (`stage_sample`).
    #[serde(default)]
    pub app_timed: u64,
    /// How long those calls took together, in milliseconds.
    #[serde(default)]
    pub app_timed_total_ms: f64,
    /// How long the app took for them, in milliseconds.
    #[serde(default)]
    pub app_total_ms: f64,
    #[serde(skip)]
    pub(crate) totals: CallTotals,
}

impl From<CallTotals> for CallsSnapshot {
    fn from(totals: CallTotals) -> Self {
        let mut calls = Self { totals, ..Self::default() };
        calls.finish();
        calls
    }
}

impl CallsSnapshot {
    /// The good answers, which are those that `ok_total_ms` is of.
    #[must_use]
    pub fn n_answers(&self) -> u64 {
        self.ok.saturating_sub(self.one_way)
    }

    fn merge(&mut self, other: &Self) {
        self.totals.merge(&other.totals);
        self.average_ms = match (self.average_ms, other.average_ms) {
            (Some(own), Some(other)) => Some(own.max(other)),
            (own, other) => own.or(other),
        };
    }

    fn finish(&mut self) {
        let totals = std::mem::take(&mut self.totals);
        self.in_flight = totals.in_flight();
        (self.ok, self.one_way) = (totals.n_ok(), totals.n_one_way());
        self.failed = totals.failed(&crate::error::Code::NAMES).collect();
        self.ok_total_ms = Some(totals.ok_ms());
        let app = totals.app();
        self.app_timed = app.n_calls;
        (self.app_timed_total_ms, self.app_total_ms) = (app.calls_ms(), app.app_ms());
        (self.p50_ms, self.p99_ms) = (totals.quantile_ms(0.5), totals.quantile_ms(0.99));
    }
}

/// An app behind our exports, and the gate before it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct AppSnapshot {
    /// Where it is.
    pub app: String,
    /// The services that it offers by this agent.
    pub services: Vec<String>,
    /// How many calls it can take at once.
    pub capacity: u32,
    /// Who says so: `configured`, `registered` by the app as its threads, or `found` out.
    pub source: String,
    /// Calls that it works on, a few milliseconds ago.
    pub in_flight: u64,
    /// Calls that waited at the gate, a few milliseconds ago.
    pub waiting: u64,
    /// Calls that were shed so far.
    pub shed: u64,
    /// Calls of these services that were answered well. An older agent does not say.
    #[serde(default)]
    pub ok: u64,
    /// Those that failed, by the name of the error.
    #[serde(default)]
    pub failed: BTreeMap<String, u64>,
}

/// Where the time of a service's calls went, of those whose stages had their time stopped.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct StagesSnapshot {
    /// `ingress` for calls that local programs make, `export` for those to the local app.
    pub place: String,
    /// The service key.
    pub service: String,
    /// How many calls these are.
    pub calls: u64,
    /// How long they were in each stage together, in milliseconds, by the name of the stage.
    pub total_ms: BTreeMap<String, f64>,
}

/// A registry.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RegistrySnapshot {
    /// Its name in the configuration.
    pub name: String,
    /// What it is: `memory`, `file` or `etcd`.
    pub kind: String,
    /// Whether it can be read now.
    pub connected: bool,
    /// Since when, in seconds since 1970.
    pub since_unix_s: u64,
    /// What went wrong last; kept after it has come right again.
    pub last_error: Option<String>,
    /// Services whose endpoints are watched.
    pub watched_services: usize,
    /// Lists of endpoints that have arrived.
    pub changes: u64,
    /// When the last of them did, in seconds since 1970.
    pub last_change_unix_s: Option<u64>,
}
