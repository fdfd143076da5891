//! Calls of Dubbo's own consumers, passed on as they are: only the request's id is changed on the
//! way, and nobody here reads arguments or results.
//!
//! A [`DubboSession`] is one consumer's connection, on `machine`. It finds out for which service
//! a request is (`services`), hands the body to that service's endpoint in the same turn, and
//! keeps in `flights` what the endpoint's answer needs to find its way back. No task and no copy
//! is in between, unless an endpoint has to be waited for or a call is offered to another one.
//!
//! Two listeners work so: `[[ingress]] protocol = "dubbo"`, for local programs that call services
//! of a registry, and `[dubbo]`, for anybody who calls what is exported here.

mod flights;
mod listener;
mod machine;
mod metadata;
mod received;
mod send;
mod services;
mod session;
mod too_long;
mod waiting;

use std::sync::Arc;

use dubbo_proto::ServiceKey;
use wire::Group;

use crate::config::DubboLimits;
use crate::journal::CallSource;
use crate::metrics::CallStats;
use crate::stages::{CallSide, Stage};

pub use self::listener::{planned, planned_exports};
pub use self::session::DubboSession;

/// The calls of Dubbo's consumers.
const SOURCE: CallSource =
    CallSource { protocol: "dubbo", side: CallSide::Ingress, first: Stage::Wait };

/// A listener for Dubbo TCP, as workers see it.
pub struct DubboListener {
    /// What is to be found behind it.
    pub offers: Offers,
    /// What a consumer may ask of us.
    pub limits: DubboLimits,
    /// What counts its calls, by worker.
    pub stats: Vec<Arc<CallStats>>,
    /// What its connections hold.
    pub memory: Arc<Group>,
}

/// What a listener for Dubbo TCP offers.
pub enum Offers {
    /// The services of the registry with this index.
    Registry {
        /// Its index.
        registry: usize,
        /// The service of requests that do not tell theirs in a way that is read here.
        default_service: Option<ServiceKey>,
    },
    /// What this agent exports.
    Exports,
}
