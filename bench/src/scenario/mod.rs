//! The scenarios, by name.

pub(crate) mod codec;
mod congestion;
mod contest;
mod faults;
mod footprint;
mod hop;
mod mixed;
mod overload;
mod registries;
mod rpc;
mod saturation;
mod study;
mod transfer;

use crate::error::BenchError;
use crate::plan::Plan;

pub(crate) use study::bridge;

/// Runs a scenario from its processes to its report.
type Scenario = fn(&Plan) -> Result<(), BenchError>;

/// Every scenario.
pub(crate) const ALL: [(&str, Scenario); 12] = [
    ("codec", codec::run),
    ("contest", contest::run),
    ("saturation", saturation::run),
    ("footprint", footprint::run),
    ("hop", hop::run),
    ("rpc", rpc::run),
    ("transfer", transfer::run),
    ("congestion", congestion::run),
    ("mixed", mixed::run),
    ("overload", overload::run),
    ("faults", faults::run),
    ("registries", registries::run),
];
