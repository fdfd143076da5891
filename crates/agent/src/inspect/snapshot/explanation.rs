//! What would become of a call, as it is shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{WorkerSnapshot, merge_reasons, merge_standing};

/// What would become of a call.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ExplanationSnapshot {
    /// The service key.
    pub service: String,
    /// The name of its registry.
    pub registry: String,
    /// The method that is asked about.
    pub method: String,
    /// The rule by which an endpoint is chosen among those that are left.
    pub balance: String,
    /// How many workers call the service.
    pub workers: usize,
    /// What holds for its method besides, by `[[cluster.method]]`.
    #[serde(default)]
    pub method_policy: Vec<String>,
    /// What each configurator does, and each part of each routing rule, in their order. Where
    /// something is drawn, this is one draw.
    pub rules: Vec<StepSnapshot>,
    /// Rules of the registry that cannot be read, and why.
    pub unreadable: Vec<String>,
    /// All endpoints, by their addresses.
    pub endpoints: BTreeMap<String, ExplainedEndpoint>,
}

/// What a part of a routing rule does.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StepSnapshot {
    /// The rule, and which part of it.
    pub rule: String,
    /// `kept`, `ignored`, `other-calls`, `off`, `nobody`, `banned`, `drawn`, `not-drawn`,
    /// `weightless`, `detour` or `configured`.
    pub effect: String,
    /// The same in a sentence.
    pub why: String,
    /// The weighted destinations of a condition, of which one is drawn for each call.
    #[serde(default)]
    pub destinations: Vec<DestinationSnapshot>,
}

/// A weighted destination.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DestinationSnapshot {
    /// The endpoints that it means, as the rule has it; empty: all.
    pub to: String,
    /// How many percent of the calls it is drawn for: 0 if it has no endpoint.
    pub share_percent: f64,
    /// Whether it was drawn for this explanation.
    pub is_drawn: bool,
}

/// What becomes of an endpoint.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ExplainedEndpoint {
    /// The rule that removes it from all such calls, and which part of it.
    pub removed_by: Option<String>,
    /// For how many percent of such calls the rules leave it: some of them draw.
    #[serde(default)]
    pub allowed_percent: f64,
    /// What configurators set at it.
    #[serde(default)]
    pub configured: Vec<String>,
    /// Which registry lists it, if that one is made of several.
    #[serde(default)]
    pub listed_by: Option<String>,
    /// How many workers see it in which state.
    pub standing: BTreeMap<String, usize>,
    /// What else keeps calls away from it.
    pub why: Vec<String>,
    /// Its weight now: the highest of all workers.
    pub weight: u32,
    /// How many percent of the next calls it would get if they came at once: the mean of all
    /// workers.
    pub share_percent: f64,
}

impl WorkerSnapshot for ExplanationSnapshot {
    type Key = (String, String);
    const IS_SHARED: bool = true;

    fn key(&self) -> Self::Key {
        (self.service.clone(), self.registry.clone())
    }

    fn merge(&mut self, other: Self) {
        self.workers += other.workers;
        for (address, endpoint) in other.endpoints {
            let own = self.endpoints.entry(address).or_default();
            own.removed_by = own.removed_by.take().or(endpoint.removed_by);
            own.allowed_percent = own.allowed_percent.max(endpoint.allowed_percent);
            merge_reasons(&mut own.configured, endpoint.configured);
            own.listed_by = own.listed_by.take().or(endpoint.listed_by);
            merge_standing(&mut own.standing, endpoint.standing);
            merge_reasons(&mut own.why, endpoint.why);
            own.weight = own.weight.max(endpoint.weight);
            own.share_percent += endpoint.share_percent;
        }
    }

    fn finished(mut self) -> Self {
        for endpoint in self.endpoints.values_mut() {
            endpoint.share_percent /= self.workers as f64;
        }
        self
    }
}
