//! Between endpoints and the URLs in which files and registries write them. Pure.

use std::time::{Duration, SystemTime};

use dubbo_proto::{DubboUrl, Serialization};

use crate::endpoint::{
    DEFAULT_WEIGHT, Endpoint, Level, NotUsed, Protocol, Registration, Unused, written,
};
use crate::listing::Listing;

/// The parameter in which an agent names the app that it stands in for.
const FOR: &str = "for";

/// The parameter that holds the path of a provider's URL: its interface, or what it has put in its
/// place.
const PATH: &str = "path";

/// What a provider's URL offers, or why that is not used.
pub(crate) fn offer(url: DubboUrl) -> Result<Listing, Unused> {
    if !url.is_enabled() {
        return Err(unused(&url, NotUsed::Disabled));
    }
    let if_not_spoken = unused(&url, NotUsed::Protocol);
    listing(url).ok_or(if_not_spoken)
}

fn unused(url: &DubboUrl, reason: NotUsed) -> Unused {
    let address = wire::address::join(&url.host, url.port);
    Unused { what: written(&url.protocol, &address), address: Some(address), reason }
}

/// What a provider's URL offers; `None` if we do not speak its protocol.
pub(crate) fn listing(url: DubboUrl) -> Option<Listing> {
    let protocol = Protocol::from_scheme(&url.protocol)?;
    let (version, group) = (url.version().to_owned(), url.group().to_owned());
    let mut params = url.params;
    let stands_for = params.get(FOR).map(str::to_owned);
    // An agent has no path of its own: that of the app shows through.
    let has_path = !protocol.is_of_agents() && stands_for.is_none() && !url.path.is_empty();
    if has_path && params.get(PATH) != Some(&url.path) {
        params = params.with(PATH, &url.path);
    }
    let endpoint = Endpoint::of_params(protocol, &url.host, url.port, params);
    Some(Listing {
        version,
        group,
        is_of_all: false,
        endpoint,
        stands_for,
        level: Level::Interface,
    })
}

impl Endpoint {
    /// The endpoint that a URL names, with all that it tells, as a registry would list it. `None`
    /// if we do not speak its protocol.
    #[must_use]
    pub fn of_url(url: DubboUrl) -> Option<Self> {
        listing(url).map(|listing| listing.endpoint)
    }
}

/// The URL under which a registration is written.
pub(crate) fn url(registration: &Registration) -> DubboUrl {
    let Registration { service, endpoint, methods, app_address } = registration;
    let mut params = endpoint.params.to_map();
    let path = params.remove(PATH).unwrap_or_else(|| service.interface.clone());
    let mut set = |name: &str, value: String| {
        if !value.is_empty() {
            params.insert(name.to_owned(), value);
        }
    };
    set("interface", service.interface.clone());
    set("version", service.version.clone());
    set("group", service.group.clone());
    set("methods", methods.join(","));
    set("side", "provider".to_owned());
    set(FOR, app_address.clone().unwrap_or_default());
    // What nobody has chosen is left out, so that the app's own choice shows through its agent.
    if endpoint.weight != DEFAULT_WEIGHT {
        set("weight", endpoint.weight.to_string());
    }
    let names: Vec<_> = endpoint.serializations.iter().map(Serialization::to_string).collect();
    set("prefer.serialization", names.join(","));
    set("timeout", endpoint.timeout.map_or_else(String::new, millis));
    if let Some(warm_up) = endpoint.warm_up {
        let since = warm_up.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        set("timestamp", millis(since));
        set("warmup", millis(warm_up.period));
    }
    DubboUrl {
        protocol: endpoint.protocol.scheme().to_owned(),
        host: endpoint.host.to_string(),
        port: endpoint.port,
        path,
        params: params.into_iter().collect(),
        ..DubboUrl::default()
    }
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

#[cfg(test)]
pub(crate) fn parse_listing(text: &str) -> Option<Listing> {
    listing(text.parse().unwrap())
}

#[cfg(test)]
mod tests {
    use dubbo_proto::ServiceKey;

    use super::*;

    #[test]
    fn reads_what_a_java_provider_registers() {
        let listing = parse_listing(
            "dubbo://10.0.0.1:20880/a.B?version=1.0&group=g&weight=200&timeout=700\
             &serialization=fastjson&timestamp=1700000000000&warmup=60000&methods=a,b",
        )
        .unwrap();
        assert_eq!((listing.version.as_str(), listing.group.as_str()), ("1.0", "g"));
        let endpoint = listing.endpoint;
        assert_eq!(endpoint.key().to_string(), "dubbo://10.0.0.1:20880");
        assert_eq!((endpoint.weight, endpoint.timeout), (200, Some(Duration::from_millis(700))));
        let expected = [Serialization::Fastjson, Serialization::Hessian2];
        assert_eq!(endpoint.serializations, expected);
        let warm_up = endpoint.warm_up.unwrap();
        assert_eq!(warm_up.period, Duration::from_secs(60));
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_030);
        assert_eq!(warm_up.uptime(later), Duration::from_secs(30));
        assert_eq!(endpoint.params.get("methods"), Some("a,b"));
        assert_eq!(endpoint.params.get("path"), Some("a.B"));
    }

    #[test]
    fn the_path_is_the_apps_and_not_its_agents() {
        let path = |url| {
            let params = parse_listing(url).unwrap().endpoint.params;
            params.get("path").map(str::to_owned)
        };
        let dubbo = "dubbo://10.0.0.1:20880/ctx/a.B?interface=a.B";
        assert_eq!(path(dubbo).as_deref(), Some("ctx/a.B"));
        assert_eq!(path("dubbo://10.0.0.1:20880?interface=a.B"), None);
        assert_eq!(path("link://10.0.0.1:30880/a.B?for=10.0.0.1:20880"), None);
        assert_eq!(path("dubbo://10.0.0.1:20990/a.B?for=10.0.0.1:20880"), None);
    }

    #[test]
    fn speaks_no_other_protocol() {
        assert_eq!(parse_listing("tri://10.0.0.1:50051/a.B"), None);
        assert_eq!(parse_listing("empty://0.0.0.0/a.B"), None);
    }

    #[test]
    fn a_registration_reads_back() {
        let mut endpoint = Endpoint::new(Protocol::Link, "::1", 30000);
        endpoint.weight = 7;
        endpoint.timeout = Some(Duration::from_secs(2));
        endpoint.serializations = vec![Serialization::Hessian2];
        let service = ServiceKey::new("a.B", "1.0", "g").unwrap();
        let app_address = Some("10.0.0.1:20880".to_owned());
        let methods = vec!["hash".to_owned()];
        let registration = Registration { service, endpoint, methods, app_address };
        let listing = parse_listing(&url(&registration).to_string()).unwrap();
        assert_eq!(listing.stands_for, registration.app_address);
        assert_eq!((listing.version.as_str(), listing.group.as_str()), ("1.0", "g"));
        assert_eq!(listing.endpoint.key(), registration.endpoint.key());
        let of = |endpoint: &Endpoint| {
            (endpoint.weight, endpoint.timeout, endpoint.serializations.clone())
        };
        assert_eq!(of(&listing.endpoint), of(&registration.endpoint));
    }
}
