//! What a service looks like, who says so, and who offers it: the page `/describe`, and what
//! `dubmesh describe` shows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dubbo_proto::ServiceKey;
use dubbo_proto::definition::{ClassDefinition, MethodDefinition};
use registry::{
    Endpoint, Freshness, ListedService, Lookup, Registry, Snapshot, Subscription, Unused,
    is_similar, why_nobody,
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

/// More services that are like it would tell nobody more.
const MAX_LIKE_IT: usize = 5;

/// A service, as somebody sees it who is about to call it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Description {
    /// Group, interface and version, as `group/interface:version`.
    pub service: String,
    /// Where it was looked for.
    pub registry: String,
    /// Where its definition is; `None` if nobody has one.
    pub definition: Option<String>,
    /// The methods of the definition.
    pub methods: Vec<DescribedMethod>,
    /// The classes of the definition, without those of the JDK.
    pub classes: BTreeMap<String, DescribedClass>,
    /// The names of methods that providers have registered.
    pub registered_methods: BTreeSet<String>,
    /// Who offers it.
    pub endpoints: Vec<DescribedEndpoint>,
    /// How many more there are.
    pub endpoints_left_out: usize,
    /// What the only endpoint said when it was asked for the service, if that was no.
    pub refusal: Option<String>,
    /// Why nobody offers it, and what may be meant instead; `None` if somebody does.
    pub nobody: Option<String>,
    /// Why the registry has not answered; `None` if it has.
    pub trouble: Option<String>,
}

/// One method.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedMethod {
    /// Its name; overloads have the same.
    pub name: String,
    /// Java types.
    pub parameter_types: Vec<String>,
    /// A Java type; `None` if the definition does not say.
    pub return_type: Option<String>,
}

/// One class.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DescribedClass {
    /// The types of a class' fields, by their names.
    Fields(BTreeMap<String, String>),
    /// The names of an enum's values.
    Values(Vec<String>),
}

/// One endpoint. What it has not said about itself is `None`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedEndpoint {
    /// Protocol, host and port.
    pub url: String,
    /// The release of Dubbo.
    pub release: Option<String>,
    /// The version of the service there.
    pub version: Option<String>,
    /// The group of the service there.
    pub group: Option<String>,
    /// The application.
    pub application: Option<String>,
    /// What it understands, the best first.
    pub serializations: Vec<String>,
    /// Its share of the calls, 100 as a rule.
    pub weight: u32,
    /// How long its calls may take, in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// What was found of a service.
#[derive(Debug)]
pub struct Looked {
    /// The definition.
    pub lookup: Lookup,
    /// Who offers it.
    pub snapshot: Snapshot,
    /// Why the registry has not answered, if it has not.
    pub trouble: Option<String>,
    /// What the registry has that is like it, if it does not have the service.
    pub like_it: Vec<String>,
}

/// Looks for a service in a registry that its user calls `name`. The list, the definition and what
/// is like it may take `patience` each.
pub async fn look(
    registry: &Registry,
    name: &str,
    service: &ServiceKey,
    patience: Duration,
) -> Looked {
    let subscription = registry.subscribe(service);
    let trouble = first_list(registry, name, &subscription, patience).await.err();
    let mut watch = registry.definition(service);
    let lookup = timeout(patience, watch.settled()).await.unwrap_or_default();
    let snapshot = subscription.current();
    let is_known = lookup.found().is_some() || !snapshot.endpoints.is_empty();
    let like_it = match is_known || trouble.is_some() {
        true => Vec::new(),
        // A hint is not worth an error of its own.
        false => timeout(patience, like_it(registry, service)).await.unwrap_or_default(),
    };
    Looked { lookup, snapshot, trouble, like_it }
}

/// Waits for the first list of a service's endpoints.
///
/// # Errors
/// Why the registry has not answered within `patience`.
pub async fn first_list(
    registry: &Registry,
    name: &str,
    subscription: &Subscription,
    patience: Duration,
) -> Result<(), String> {
    let mut snapshots = subscription.snapshots();
    let settled = snapshots.wait_for(|snapshot| snapshot.status != Freshness::Pending);
    match timeout(patience, settled).await {
        Ok(Ok(_)) => Ok(()),
        _ => {
            let said = registry.status().borrow().trouble().map(str::to_owned);
            Err(said.unwrap_or_else(|| format!("{name} does not answer")))
        }
    }
}

/// What is registered under the same interface, or under one of a similar name. All services are
/// listed for it, so it is for commands, and not for calls.
pub async fn like_it(registry: &Registry, service: &ServiceKey) -> Vec<String> {
    let wanted = &service.interface;
    let listed = registry.catalogue(|name| name == wanted || is_similar(wanted, name)).await;
    let listed = listed.unwrap_or_default().services;
    let is_same = |it: &&ListedService| it.service.interface == service.interface;
    let of_it = |it: &ListedService| it.service.to_string();
    let same: Vec<_> = listed.iter().filter(is_same).map(of_it).take(MAX_LIKE_IT).collect();
    if same.is_empty() { listed.iter().map(of_it).take(MAX_LIKE_IT).collect() } else { same }
}

impl Looked {
    /// The same in words. `registry` is how its user calls the registry.
    #[must_use]
    pub fn describe(&self, service: &ServiceKey, registry: &str) -> Description {
        let found = self.lookup.found();
        let mut methods: Vec<_> = found.iter().flat_map(|found| &found.service.methods).collect();
        methods.sort_by_key(ToString::to_string);
        let classes = found.iter().flat_map(|found| &found.service.classes);
        let endpoints = &self.snapshot.endpoints;
        let lists = endpoints.iter().filter_map(|endpoint| endpoint.params.get("methods"));
        let registered = lists.flat_map(|list| list.split(',')).filter(|name| !name.is_empty());
        let is_known = found.is_some() || !endpoints.is_empty();
        Description {
            service: service.to_string(),
            registry: registry.to_owned(),
            definition: found.map(|found| found.origin.to_string()),
            methods: methods.into_iter().map(method).collect(),
            classes: classes
                .filter(|(name, _)| is_of_estate(name))
                .map(|(name, definition)| (name.to_string(), class(definition)))
                .collect(),
            registered_methods: registered.map(str::to_owned).collect(),
            endpoints: endpoints.iter().map(endpoint).collect(),
            endpoints_left_out: 0,
            refusal: None,
            nobody: (!is_known && self.trouble.is_none()).then(|| self.nobody(service, registry)),
            trouble: self.trouble.clone(),
        }
    }

    /// Why nothing was found, and what may have been meant.
    fn nobody(&self, service: &ServiceKey, registry: &str) -> String {
        let Self { snapshot, like_it, .. } = self;
        let list = like_it.join(", ");
        let is_same = |text: &String| {
            text.parse().is_ok_and(|key: ServiceKey| key.interface == service.interface)
        };
        match like_it.first() {
            Some(first) if snapshot.unused.iter().all(Unused::is_hint) => {
                let meant = match is_same(first) {
                    true => format!(
                        "it is registered as {list}: check --version and --group ('*' takes any)"
                    ),
                    false => format!("did you mean {list}?"),
                };
                format!("nobody offers {service}; {meant}")
            }
            _ => why_nobody(service, registry, &snapshot.unused),
        }
    }
}

impl Description {
    /// Whether anybody offers the service, or says what it looks like.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.definition.is_some() || !self.endpoints.is_empty()
    }

    /// Leaves out endpoints beyond the first `limit`. Returns whether there were such.
    pub fn cut(&mut self, limit: usize) -> bool {
        self.endpoints_left_out += self.endpoints.len().saturating_sub(limit);
        self.endpoints.truncate(limit);
        0 < self.endpoints_left_out
    }
}

fn method(method: &MethodDefinition) -> DescribedMethod {
    DescribedMethod {
        name: method.name.to_string(),
        parameter_types: method.parameters.iter().map(ToString::to_string).collect(),
        return_type: method.result.as_ref().map(ToString::to_string),
    }
}

/// The fields of the JDK's classes are nobody's business.
fn is_of_estate(class: &str) -> bool {
    !class.starts_with("java.") && !class.starts_with("javax.")
}

fn class(class: &ClassDefinition) -> DescribedClass {
    match class {
        ClassDefinition::Enum(values) => {
            DescribedClass::Values(values.iter().map(ToString::to_string).collect())
        }
        ClassDefinition::Bean(fields) => {
            let fields = fields.iter().map(|(field, ty)| (field.to_string(), ty.to_string()));
            DescribedClass::Fields(fields.collect())
        }
    }
}

fn endpoint(endpoint: &Endpoint) -> DescribedEndpoint {
    let param = |name: &str| {
        let value = endpoint.params.get(name).filter(|value| !value.is_empty());
        value.map(str::to_owned)
    };
    DescribedEndpoint {
        url: endpoint.key().to_string(),
        release: param("release"),
        version: param("version"),
        group: param("group"),
        application: param("application"),
        serializations: endpoint.serializations.iter().map(|it| it.name().to_owned()).collect(),
        weight: endpoint.weight,
        timeout_ms: endpoint.timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok()),
    }
}
