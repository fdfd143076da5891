//! From what a registry holds to the endpoints that a subscriber sees. Pure.
//!
//! Two rules make the difference:
//!
//! - **Version and group** follow Dubbo's `UrlUtils.isMatch`: a subscriber's `*` matches any; a
//!   subscriber's group may be a comma-separated list; otherwise both must be equal, and absent
//!   equals absent. Where a subscriber leaves them open so, the parameters of each endpoint say
//!   with which version and group it is listed: calls have to name those.
//! - **An agent stands in for its app.** An agent registers its own link address and says with
//!   `for` which `host:port` it passes calls to. Where a plain `dubbo://` endpoint with exactly
//!   that address is listed for the same service, the agent's endpoint replaces it, and takes over
//!   what the app said about itself (weight, serializations, timeout, warm-up) unless the agent
//!   says otherwise. When the agent goes, the plain endpoint shows again by itself. An agent that
//!   also listens for Dubbo's own consumers is listed twice for the same app; then its link
//!   counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use dubbo_proto::ServiceKey;

use crate::endpoint::{Endpoint, EndpointKey, Level, MAX_UNUSED, Unused};

/// As a version or a group: any.
pub(crate) const ANY: &str = "*";

/// Dubbo's parameters of these names.
const VERSION: &str = "version";
const GROUP: &str = "group";

/// One registered endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Listing {
    pub(crate) version: String,
    pub(crate) group: String,
    /// Whether its registry knows neither version nor group, so that it is for everybody. Both are
    /// [`ANY`] then.
    pub(crate) is_of_all: bool,
    pub(crate) endpoint: Endpoint,
    /// The app's `host:port`, if this is an agent.
    pub(crate) stands_for: Option<String>,
    /// Where it was found.
    pub(crate) level: Level,
}

impl Listing {
    /// Whether a subscriber of `wanted` (with the same interface) may use this endpoint.
    pub(crate) fn matches(&self, wanted: &ServiceKey) -> bool {
        self.is_of_all || is_match(wanted, &self.version, &self.group)
    }
}

/// What is registered beside the listings and cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Leftover {
    pub(crate) version: String,
    pub(crate) group: String,
    pub(crate) unused: Unused,
}

impl Leftover {
    /// Whether a subscriber of `wanted` is told of it. What has [`ANY`] for both version and group
    /// is for everybody.
    pub(crate) fn is_for(&self, wanted: &ServiceKey) -> bool {
        let is_of_all = self.version == ANY && self.group == ANY;
        is_of_all || is_match(wanted, &self.version, &self.group)
    }
}

/// What of it a subscriber of `wanted` is told of.
pub(crate) fn unused<'a>(
    wanted: &ServiceKey,
    all: impl IntoIterator<Item = &'a Leftover>,
) -> Vec<Unused> {
    let of_wanted = all.into_iter().filter(|it| it.is_for(wanted));
    of_wanted.take(MAX_UNUSED).map(|it| it.unused.clone()).collect()
}

/// Whether a subscriber of `wanted` may use what is offered with this version and group. A
/// provider that is registered with [`ANY`] is found by who asks for that only, as in Dubbo's
/// `UrlUtils`.
pub(crate) fn is_match(wanted: &ServiceKey, version: &str, group: &str) -> bool {
    let fits = wanted.group == ANY
        || wanted.group == group
        || wanted.group.split(',').any(|wanted| wanted.trim() == group);
    fits && (wanted.version == ANY || wanted.version == version)
}

/// Whether a subscriber takes several versions or groups.
fn is_open(wanted: &ServiceKey) -> bool {
    wanted.version == ANY || is_open_group(&wanted.group)
}

fn is_open_group(group: &str) -> bool {
    group == ANY || group.contains(',')
}

/// The version and group with which an endpoint is listed for a subscriber of `wanted`; `None` if
/// they can only be those. Where its registry knows neither, what `wanted` leaves open is empty.
#[must_use]
pub fn listed_variant(wanted: &ServiceKey, endpoint: &Endpoint) -> Option<ServiceKey> {
    if !is_open(wanted) {
        return None;
    }
    let listed = |name| endpoint.params.get(name).unwrap_or_default().to_owned();
    let mut key = wanted.clone();
    if wanted.version == ANY {
        key.version = listed(VERSION);
    }
    if is_open_group(&wanted.group) {
        key.group = listed(GROUP);
    }
    Some(key)
}

/// The endpoint, with the version and group of its listing among its parameters.
fn with_variant(mut endpoint: Endpoint, listing: &Listing) -> Endpoint {
    if listing.is_of_all {
        return endpoint;
    }
    for (name, value) in [(VERSION, &listing.version), (GROUP, &listing.group)] {
        if endpoint.params.get(name).unwrap_or_default() != value {
            endpoint.params = endpoint.params.with(name, value);
        }
    }
    endpoint
}

/// The endpoints for a subscriber of `wanted`, among the listings of its interface.
pub(crate) fn resolve<'a>(
    wanted: &ServiceKey,
    listings: impl IntoIterator<Item = &'a Listing>,
) -> Arc<[Endpoint]> {
    let mut plain = BTreeMap::<EndpointKey, &Listing>::new();
    let mut agents = Vec::new();
    for listing in listings.into_iter().filter(|listing| listing.matches(wanted)) {
        match &listing.stands_for {
            Some(app) => agents.push((app.as_str(), listing)),
            None => {
                plain.insert(listing.endpoint.key(), listing);
            }
        }
    }
    let has_agents = !agents.is_empty();
    let apps: HashMap<String, &Endpoint> = plain
        .values()
        .map(|listing| &listing.endpoint)
        .filter(|endpoint| has_agents && !endpoint.protocol.is_of_agents())
        .map(|endpoint| (endpoint.address(), endpoint))
        .collect();
    let is_link = |agent: &Listing| agent.endpoint.protocol.is_of_agents();
    let linked: HashSet<&str> =
        agents.iter().filter(|(_, agent)| is_link(agent)).map(|(app, _)| *app).collect();
    agents.retain(|(app, agent)| is_link(agent) || !linked.contains(app));
    let is_open = is_open(wanted);
    let shown = |endpoint: Endpoint, listing: &Listing| match is_open {
        true => with_variant(endpoint, listing),
        false => endpoint,
    };
    let mut endpoints = BTreeMap::new();
    for (app, listing) in &agents {
        let agent = &listing.endpoint;
        let merged = apps.get(*app).map_or_else(|| agent.clone(), |app| stand_in(agent, app));
        endpoints.insert(agent.key(), shown(merged, listing));
    }
    let replaced: HashSet<&str> = agents.iter().map(|(app, _)| *app).collect();
    for (key, listing) in plain {
        let is_replaced =
            has_agents && !key.protocol.is_of_agents() && replaced.contains(&*key.address());
        if !is_replaced {
            endpoints.entry(key).or_insert_with(|| shown(listing.endpoint.clone(), listing));
        }
    }
    endpoints.into_values().collect()
}

/// The agent's endpoint with what only the app has said about itself.
fn stand_in(agent: &Endpoint, app: &Endpoint) -> Endpoint {
    let params = app.params.iter().chain(agent.params.iter()).collect();
    let mut merged = Endpoint::of_params(agent.protocol, &agent.host, agent.port, params);
    merged.registry.clone_from(&agent.registry);
    if merged.serializations.is_empty() {
        merged.serializations.clone_from(&app.serializations);
    }
    merged
}

#[cfg(test)]
mod tests {
    use dubbo_proto::Serialization;

    use super::*;

    fn key(version: &str, group: &str) -> ServiceKey {
        ServiceKey::new("a.B", version, group).unwrap()
    }

    fn listing(url: &str) -> Listing {
        crate::address::parse_listing(url).unwrap()
    }

    fn addresses(wanted: &ServiceKey, listings: &[Listing]) -> Vec<String> {
        resolve(wanted, listings).iter().map(|endpoint| endpoint.key().to_string()).collect()
    }

    /// The table is Dubbo's `UrlUtils.isMatch`.
    #[test]
    fn versions_and_groups_match_as_in_dubbo() {
        for (wanted, offered, expected) in [
            (("", ""), "", true),
            (("1.0", ""), "version=1.0", true),
            (("1.0", ""), "", false),
            (("", ""), "version=1.0", false),
            (("*", ""), "version=1.0", true),
            (("*", ""), "version=1.0&group=g", false),
            (("", "*"), "group=g", true),
            (("", "a,g"), "group=g", true),
            (("", "a,g"), "group=b", false),
            (("", "g"), "group=g", true),
            (("", ""), "group=g", false),
            (("", ""), "version=0.0.0", true),
            (("1.0", "g"), "version=*&group=*", false),
            (("*", "*"), "version=*&group=*", true),
            (("1.0", "g"), "version=*&group=g", false),
        ] {
            let listing = listing(&format!("dubbo://h:1/a.B?{offered}"));
            assert_eq!(listing.matches(&key(wanted.0, wanted.1)), expected, "{wanted:?} {offered}");
        }
    }

    #[test]
    fn an_agent_replaces_its_app_and_nothing_else() {
        let listings = [
            listing("dubbo://10.0.0.1:20880/a.B?weight=300&serialization=fastjson&timeout=500"),
            listing("dubbo://10.0.0.2:20880/a.B"),
            listing("link://10.0.0.1:30000/a.B?for=10.0.0.1:20880&timeout=700"),
        ];
        let endpoints = resolve(&key("", ""), &listings);
        let shown: Vec<_> = endpoints.iter().map(|endpoint| endpoint.key().to_string()).collect();
        assert_eq!(shown, ["link://10.0.0.1:30000", "dubbo://10.0.0.2:20880"]);
        let agent = &endpoints[0];
        assert_eq!(agent.weight, 300);
        assert_eq!(agent.serializations, [Serialization::Fastjson, Serialization::Hessian2]);
        assert_eq!(agent.timeout, Some(std::time::Duration::from_millis(700)));
        // Without the agent, the app shows again.
        let shown = addresses(&key("", ""), &listings[..2]);
        assert_eq!(shown, ["dubbo://10.0.0.1:20880", "dubbo://10.0.0.2:20880"]);
    }

    /// Dubbo's consumers call an endpoint by the version and group of its provider.
    #[test]
    fn who_asks_for_any_learns_what_each_endpoint_is_listed_with() {
        let of_section = |listing: Listing| Listing { version: "2.0".into(), ..listing };
        let listings = [
            listing("dubbo://h:1/a.B?version=1.0&group=a"),
            listing("link://h:5/a.B?version=1.0&group=a&for=h:1"),
            of_section(listing("dubbo://h:2/a.B?group=b")),
            listing("dubbo://h:3/a.B?version=0.0.0&group=a"),
            listing("dubbo://h:4/a.B?group=c"),
        ];
        let variants = |wanted: &ServiceKey| -> Vec<Option<String>> {
            let endpoints = resolve(wanted, &listings);
            let variant = |it: &Endpoint| listed_variant(wanted, it).map(|key| key.to_string());
            endpoints.iter().map(variant).collect()
        };
        let some = |keys: &[&str]| keys.iter().map(|key| Some((*key).into())).collect::<Vec<_>>();
        let all = some(&["a/a.B:1.0", "b/a.B:2.0", "a/a.B", "c/a.B"]);
        assert_eq!(variants(&key("*", "*")), all);
        assert_eq!(variants(&key("*", "a,b")), all[..3]);
        assert_eq!(variants(&key("*", "b")), some(&["b/a.B:2.0"]));
        assert_eq!(variants(&key("2.0", "b")), [None]);
    }

    #[test]
    fn what_a_registry_without_versions_lists_has_none() {
        let listing = Listing {
            is_of_all: true,
            version: ANY.into(),
            group: ANY.into(),
            ..listing("link://h:1/a.B")
        };
        for (wanted, expected) in
            [(("*", "*"), "a.B"), (("*", "g"), "g/a.B"), (("1.0", "a,b"), "a.B:1.0")]
        {
            let wanted = key(wanted.0, wanted.1);
            let endpoints = resolve(&wanted, [&listing]);
            let variant = listed_variant(&wanted, &endpoints[0]).map(|key| key.to_string());
            assert_eq!(variant.as_deref(), Some(expected));
        }
    }

    #[test]
    fn an_agent_that_is_listed_twice_is_called_once() {
        let mut listings = vec![
            listing("dubbo://h:1/a.B"),
            listing("dubbo://h:5/a.B?for=h:1&serialization=fastjson"),
            listing("link://h:3/a.B?for=h:1"),
        ];
        assert_eq!(addresses(&key("", ""), &listings), ["link://h:3"]);
        listings.pop();
        assert_eq!(addresses(&key("", ""), &listings), ["dubbo://h:5"]);
    }

    #[test]
    fn an_agent_stands_alone_when_its_app_is_not_listed() {
        let listings = [listing("link://h:3/a.B?for=other:20880"), listing("dubbo://h:1/a.B")];
        assert_eq!(addresses(&key("", ""), &listings), ["link://h:3", "dubbo://h:1"]);
    }

    #[test]
    fn an_agent_of_another_version_replaces_nothing() {
        let listings =
            [listing("dubbo://h:1/a.B?version=1"), listing("link://h:3/a.B?version=2&for=h:1")];
        assert_eq!(addresses(&key("1", ""), &listings), ["dubbo://h:1"]);
        assert_eq!(addresses(&key("2", ""), &listings), ["link://h:3"]);
    }

    #[test]
    fn each_address_shows_once_in_order() {
        let listings = [
            listing("dubbo://h:2/a.B?timestamp=1"),
            listing("dubbo://h:1/a.B"),
            listing("dubbo://h:2/a.B?timestamp=2"),
        ];
        assert_eq!(addresses(&key("", ""), &listings), ["dubbo://h:1", "dubbo://h:2"]);
    }
}
