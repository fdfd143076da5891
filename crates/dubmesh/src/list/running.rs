//! What a running agent has found of the services that it calls.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin_pages;

/// A service as an agent sees it.
pub(super) struct RunningService {
    service: ServiceRow,
    endpoints: Vec<EndpointRow>,
}

#[derive(Deserialize)]
struct ServiceRow {
    service: String,
    registry: String,
    freshness: String,
    unused: Vec<String>,
}

#[derive(Deserialize)]
struct EndpointRow {
    service: String,
    registry: String,
    /// Which of several registries lists it.
    #[serde(default)]
    listed_by: Option<String>,
    address: String,
    protocol: String,
    /// Who has registered it, and its release of Dubbo.
    #[serde(default)]
    application: Option<String>,
    #[serde(default)]
    release: Option<String>,
    weight: u32,
    /// How many workers see it in each state.
    standing: BTreeMap<String, usize>,
    why: Vec<String>,
    held: bool,
}

/// The services of an agent whose key `is_wanted`, in their order.
pub(super) async fn services(
    admin: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<RunningService>, String> {
    let services: Vec<ServiceRow> = admin_pages::items(admin, "services").await?;
    let mut endpoints: Vec<EndpointRow> = admin_pages::items(admin, "endpoints").await?;
    let services = services.into_iter().filter(|it| is_wanted(&it.service)).map(|service| {
        let is_of =
            |it: &mut EndpointRow| it.service == service.service && it.registry == service.registry;
        let endpoints = endpoints.extract_if(.., is_of).collect();
        RunningService { service, endpoints }
    });
    Ok(services.collect())
}

impl RunningService {
    pub(super) fn to_text(&self) -> String {
        let ServiceRow { service, registry, freshness, unused } = &self.service;
        let mut out = format!("{service}  registry {registry}  {freshness}\n");
        for it in &self.endpoints {
            let states: Vec<_> = it.standing.keys().map(String::as_str).collect();
            let EndpointRow { protocol, address, weight, .. } = it;
            let endpoint = registry::written(protocol, address);
            let _ = write!(out, "  {endpoint}  weight {weight}  {}", states.join("+"));
            let facts = [
                ("application", &it.application),
                ("dubbo", &it.release),
                ("registry", &it.listed_by),
            ];
            for (name, value) in facts {
                if let Some(value) = value {
                    let _ = write!(out, "  {name} {value}");
                }
            }
            if it.held {
                out.push_str("  held");
            }
            for why in &it.why {
                let _ = write!(out, "  ({why})");
            }
            out.push('\n');
        }
        for unused in unused {
            let _ = writeln!(out, "  not used: {unused}");
        }
        out
    }

    pub(super) fn to_json(&self) -> Value {
        let ServiceRow { service, registry, freshness, unused } = &self.service;
        let endpoint = |it: &EndpointRow| {
            json!({
                "protocol": it.protocol,
                "address": it.address,
                "application": it.application,
                "release": it.release,
                "weight": it.weight,
                "standing": it.standing,
                "why": it.why,
                "held": it.held,
                "listedBy": it.listed_by,
            })
        };
        json!({
            "service": service,
            "registry": registry,
            "freshness": freshness,
            "endpoints": self.endpoints.iter().map(endpoint).collect::<Vec<_>>(),
            "unused": unused,
        })
    }
}
