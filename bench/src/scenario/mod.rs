//! The scenarios, by name.

mod contest;
mod footprint;
mod rpc;
mod saturation;

use crate::error::BenchError;
use crate::plan::Plan;

/// Runs a scenario from its processes to its report.
type Scenario = fn(&Plan) -> Result<(), BenchError>;

/// Every scenario.
pub(crate) const ALL: [(&str, Scenario); 4] = [
    ("contest", contest::run),
    ("saturation", saturation::run),
    ("footprint", footprint::run),
    ("rpc", rpc::run),
];
