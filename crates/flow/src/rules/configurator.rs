//! Configurators: rules that change the parameters of endpoints, such as timeout or weight.
//!
//! They are documents with `configs`, as Dubbo's consoles write them since 2.7, or URLs such as
//! `override://0.0.0.0/com.acme.Orders?timeout=500`, alone or in a list of texts. The meaning is
//! that of Dubbo's `AbstractConfigurator` for a caller: what is for providers changes nothing
//! here. An item whose `side` is missing changes nothing either, nor does an item of a `type`
//! other than `general` without `enabled: true`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parameters::Parameters;

use super::address;
use super::error::{RuleError, RuleProblem};
use super::parties::UrlView;
use super::pattern::glob;
use super::tag_rule::{Param, Test, param, test};
use super::without_effect::why_without_effect;
use super::yaml::{self, YamlNode};

/// What makes an item hold for everybody.
const ANY_HOST: &str = "0.0.0.0";
/// Items of one document.
const MAX_ITEMS: usize = 1024;
/// Addresses times services of one item; each pair is an override of its own.
const MAX_PAIRS: usize = 4096;
/// Parameters that are conditions, or speak of the rule itself; they change nothing.
const NOT_CHANGED: [&str; 12] = [
    "category",
    "check",
    "dynamic",
    "enabled",
    "group",
    "version",
    "application",
    "side",
    "configVersion",
    "compatible_config",
    "interfaces",
    PROVIDERS,
];
/// Parameter of an override: the providers that it holds for.
const PROVIDERS: &str = "providerAddresses";

/// Overrides, in the order in which they are applied.
#[derive(Clone, Debug, Default)]
pub struct Configurators {
    name: Arc<str>,
    overrides: Vec<Override>,
}

/// A change of parameters, and what it holds for.
#[derive(Clone, Debug)]
struct Override {
    /// Whether it leaves parameters alone that are there.
    is_absent: bool,
    host: String,
    port: u16,
    service: String,
    application: Option<String>,
    side: Option<String>,
    is_on: bool,
    /// A URL without `configVersion`, as Dubbo 2.6 wrote it.
    is_deprecated: bool,
    is_v30: bool,
    providers: Vec<String>,
    matches: Option<Matches>,
    params: BTreeMap<String, String>,
}

/// `match` of version 3.0: all that is there has to match.
#[derive(Clone, Debug, Default)]
struct Matches {
    address: Option<Address>,
    provider: Option<Address>,
    service: Option<Vec<Test>>,
    application: Option<Vec<Test>>,
    params: Vec<Param>,
}

#[derive(Clone, Debug, Default)]
struct Address {
    wildcard: Option<String>,
    /// The key has this spelling in Dubbo.
    cird: Option<String>,
    exact: Option<String>,
}

impl Configurators {
    /// Reads a document, a list of URLs, or one URL. `name` is what it is called when it is
    /// explained, such as its key.
    ///
    /// # Errors
    /// [`RuleError`] if Dubbo would leave the rule out, or if it is over a limit.
    pub fn parse(name: &str, text: &str) -> Result<Self, RuleError> {
        let document = yaml::parse(text)?;
        let mut overrides = Vec::new();
        match (document.items(), document.plain()) {
            (Some(items), _) => {
                for item in items {
                    overrides.push(url(item)?);
                }
            }
            (None, Some(_)) => overrides.push(url(&document)?),
            (None, None) => overrides = items(&document)?,
        }
        // Dubbo compares hosts as text, so that what holds for all comes first.
        overrides.sort_by(|a, b| a.host.cmp(&b.host).then(a.priority().cmp(&b.priority())));
        Ok(Self { name: name.into(), overrides })
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it sets that changes nothing in an agent, in words.
    #[must_use]
    pub fn without_effect(&self) -> Vec<String> {
        let params = self.overrides.iter().flat_map(Override::set);
        let said = params.filter_map(|(name, value)| {
            Some(format!("{name}={value} {}", why_without_effect(name, value)?))
        });
        said.collect()
    }

    /// What changes at an endpoint, for a caller at the address `own_host`.
    ///
    /// `endpoint` has the parameters of a consumer's view: `side=consumer`, the caller's
    /// `application`, and `interface`, `group` and `version`.
    #[must_use]
    pub fn changes(&self, endpoint: &UrlView<'_>, own_host: &str) -> Parameters {
        let mut params = endpoint.params.clone();
        for one in &self.overrides {
            let now = UrlView { params: &params, ..*endpoint };
            if !one.is_meant(&now, own_host) {
                continue;
            }
            let mut changed: BTreeMap<_, _> = params.iter().collect();
            for (key, value) in one.set() {
                let is_kept = one.is_absent && changed.contains_key(key);
                if !is_kept {
                    changed.insert(key, value);
                }
            }
            params = changed.into_iter().collect();
        }
        params.iter().filter(|(key, value)| endpoint.params.get(key) != Some(value)).collect()
    }
}

impl Override {
    /// What Dubbo reads from the override's URL: that of an item is made of all of the item, so
    /// that `parameters` may say there what the item holds for.
    fn new((host, port): (&str, u16), path: &str, mut params: BTreeMap<String, String>) -> Self {
        // URLs of Dubbo know both sides in whatever case. Source: `FixedParamValue`.
        if let Some(side) = params.get_mut("side") {
            side.make_ascii_lowercase();
        }
        let param = |key: &str| params.get(key).map(String::as_str);
        let version = param("configVersion").filter(|version| !version.is_empty());
        let providers = param(PROVIDERS).unwrap_or_default().split(',');
        Self {
            is_absent: false,
            host: host.to_owned(),
            port,
            service: key(param("interface").unwrap_or(path), param("group"), param("version")),
            application: param("application").map(str::to_owned),
            side: param("side").map(str::to_owned),
            is_on: param("enabled").is_none_or(|text| text.eq_ignore_ascii_case("true")),
            is_deprecated: version.is_none(),
            is_v30: version.is_some_and(|version| version.starts_with("v3.0")),
            providers: providers.filter(|one| !one.is_empty()).map(str::to_owned).collect(),
            matches: None,
            params,
        }
    }

    /// The parameters that it sets.
    fn set(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.params.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        all.filter(|(key, _)| !key.starts_with('~') && !NOT_CHANGED.contains(key))
    }

    fn priority(&self) -> i32 {
        self.params.get("priority").and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    fn is_meant(&self, endpoint: &UrlView<'_>, own_host: &str) -> bool {
        let is_consumer = endpoint.param("side") == Some("consumer");
        let host = match (self.is_deprecated, self.port) {
            (false, _) if is_consumer && self.side.as_deref() == Some("consumer") => own_host,
            (true, 0) if is_consumer => own_host,
            (true, port) if port != 0 && port == endpoint.port => endpoint.host,
            _ => return false,
        };
        let is_all = self.is_on
            && (self.host == ANY_HOST || self.host == host)
            && self.is_provider(endpoint)
            && self.is_application(endpoint)
            && (self.service == "*" || self.service == service_key(endpoint));
        match (&self.matches, self.is_v30) {
            _ if !is_all => false,
            (Some(matches), true) => matches.is_match(endpoint, host),
            (None, true) => true,
            (_, false) => self.is_condition_met(endpoint),
        }
    }

    fn is_provider(&self, endpoint: &UrlView<'_>) -> bool {
        let (host, port) = (endpoint.host, endpoint.port);
        self.providers.is_empty()
            || self.providers.iter().any(|wanted| {
                *wanted == format!("{host}:{port}")
                    || matches!(wanted.as_str(), ANY_HOST | "0.0.0.0:*")
                    || *wanted == format!("{ANY_HOST}:{port}")
                    || wanted == host
            })
    }

    fn is_application(&self, endpoint: &UrlView<'_>) -> bool {
        let own = endpoint.param("application");
        self.application.as_deref().is_none_or(|wanted| wanted == "*" || Some(wanted) == own)
    }

    /// Keys that begin with `~`, and `side`.
    fn is_condition_met(&self, endpoint: &UrlView<'_>) -> bool {
        self.params.iter().all(|(key, value)| {
            let name = match key.strip_prefix('~') {
                Some(name) => name,
                None if matches!(key.as_str(), "side" | "application") => key,
                None => return true,
            };
            value == "*" || endpoint.param(name) == Some(value)
        })
    }
}

impl Matches {
    fn is_match(&self, endpoint: &UrlView<'_>, host: &str) -> bool {
        let any = |tests: &Option<Vec<Test>>, value: Option<&str>| {
            tests.as_ref().is_none_or(|tests| tests.iter().any(|one| one.is_match(value)))
        };
        self.address.as_ref().is_none_or(|address| address.is_match(host, 0))
            && self.provider.as_ref().is_none_or(|one| one.is_match(endpoint.host, endpoint.port))
            && any(&self.service, Some(&service_key(endpoint)))
            && any(&self.application, endpoint.param("application"))
            && self.params.iter().all(|param| param.is_match(endpoint))
    }
}

impl Address {
    /// `port` is 0 for a host alone.
    fn is_match(&self, host: &str, port: u16) -> bool {
        let text = if port == 0 { host.to_owned() } else { format!("{host}:{port}") };
        // A range never matches an address with a port, as in Dubbo.
        let in_range =
            |range: &String| *range == text || (port == 0 && address::is_match(range, host, port));
        if self.cird.as_ref().is_some_and(in_range) {
            return true;
        }
        match (&self.wildcard, &self.exact) {
            (Some(wanted), _) => wanted == ANY_HOST || glob(wanted, &text),
            (None, Some(exact)) => *exact == text,
            (None, None) => false,
        }
    }
}

/// `group/interface:version`, as much of it as there is.
fn service_key(endpoint: &UrlView<'_>) -> String {
    let interface = endpoint.param("interface").unwrap_or(endpoint.path);
    key(interface, endpoint.param("group"), endpoint.param("version"))
}

fn key(interface: &str, group: Option<&str>, version: Option<&str>) -> String {
    let group = group.filter(|group| !group.is_empty()).map(|group| format!("{group}/"));
    let version = version.filter(|version| !matches!(*version, "" | "0.0.0"));
    let version = version.map(|version| format!(":{version}"));
    format!("{}{interface}{}", group.unwrap_or_default(), version.unwrap_or_default())
}

/// A document with `configs`.
fn items(document: &YamlNode) -> Result<Vec<Override>, RuleError> {
    let texts = |key| document.text(key).map(|text| text.map(str::to_owned));
    let (version, scope, own_key) = (texts("configVersion")?, texts("scope")?, texts("key")?);
    // Consoles leave an empty list when the last item is deleted.
    let configs = document.get("configs").and_then(YamlNode::items);
    let missing = || document.error(RuleProblem::Missing { key: "configs" });
    let configs = configs.ok_or_else(missing)?;
    // An override without a version would be one of Dubbo 2.6.
    let version = version.as_deref().unwrap_or("null");
    if MAX_ITEMS < configs.len() {
        return Err(document.error(RuleProblem::TooMany { max: MAX_ITEMS }));
    }
    let is_application = scope.as_deref() == Some("application");
    let missing = || document.error(RuleProblem::Missing { key: "key" });
    let own_key = own_key.filter(|key| !key.is_empty()).ok_or_else(missing)?;
    let mut overrides = Vec::new();
    for config in configs {
        let list = |key| texts_of(config, key);
        let item = item(config, version, document.flag("enabled", true))?;
        let after = item.after.iter().cloned().chain([pair("configVersion", version)]);
        let after: Vec<(String, String)> = after.collect();
        let hosts = or_one(list("addresses"), ANY_HOST);
        let (services, applications) = match is_application {
            true => (or_one(list("services"), "*"), vec![Some(own_key.clone())]),
            false => {
                let named: Vec<_> = list("applications").into_iter().map(Some).collect();
                (vec![own_key.clone()], if named.is_empty() { vec![None] } else { named })
            }
        };
        let n_pairs = hosts.len().saturating_mul(services.len()).saturating_mul(applications.len());
        if MAX_PAIRS < n_pairs.saturating_add(overrides.len()) {
            return Err(config.error(RuleProblem::TooMany { max: MAX_PAIRS }));
        }
        for host in &hosts {
            for service in &services {
                for application in &applications {
                    let application = application.as_deref().map(|it| pair("application", it));
                    let (path, of_service) = parts(service);
                    let all = of_service.into_iter().chain(item.params.iter().cloned());
                    let all = all.chain(after.iter().cloned()).chain(application);
                    let place = host_and_port(host).map_err(|problem| config.error(problem))?;
                    let base = Override::new(place, path, all.collect());
                    overrides.push(Override { matches: item.matches.clone(), ..base });
                }
            }
        }
    }
    Ok(overrides)
}

/// What the overrides of one item have in common.
struct ConfiguratorItem {
    /// Of two with the same name the last one counts.
    params: Vec<(String, String)>,
    /// What counts whatever `parameters` say.
    after: Vec<(String, String)>,
    matches: Option<Matches>,
}

fn item(config: &YamlNode, version: &str, is_on: bool) -> Result<ConfiguratorItem, RuleError> {
    let wrong = |key, expected| RuleProblem::WrongType { key, expected };
    if !config.is_map() {
        return Err(config.error(wrong("configs", "a list of mappings")));
    }
    let kind = config.text("type")?;
    let is_general = kind.is_none_or(|kind| kind == "general");
    let is_on = if is_general { is_on } else { config.flag("enabled", false) };
    let set: Vec<(String, String)> = match config.get("parameters") {
        None => Vec::new(),
        Some(node) => node.entries().filter_map(|(k, v)| Some((k.clone(), v.plain()?))).collect(),
    };
    if set.is_empty() {
        return Err(config.error(RuleProblem::Missing { key: "parameters" }));
    }
    let side = config.text("side")?.map(|side| pair("side", side));
    let providers = texts_of(config, "providerAddresses");
    let providers = (!providers.is_empty()).then(|| pair(PROVIDERS, &providers.join(",")));
    Ok(ConfiguratorItem {
        params: side.into_iter().chain(set).collect(),
        after: providers.into_iter().chain([pair("enabled", &is_on.to_string())]).collect(),
        matches: config
            .get("match")
            .filter(|_| version.starts_with("v3.0"))
            .map(matches)
            .transpose()?,
    })
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// The interface of `group/interface:version`, and the rest as parameters.
fn parts(service: &str) -> (&str, Vec<(String, String)>) {
    let (group, rest) = match service.split_once('/') {
        Some((group, rest)) if !group.is_empty() => (Some(pair("group", group)), rest),
        _ => (None, service),
    };
    let (interface, version) = match rest.split_once(':') {
        Some((interface, version)) if !interface.is_empty() => {
            (interface, Some(pair("version", version)))
        }
        _ => (rest, None),
    };
    (interface, group.into_iter().chain(version).collect())
}

fn matches(node: &YamlNode) -> Result<Matches, RuleError> {
    let address = |key| {
        let text = |node: &YamlNode, key| node.get(key).and_then(YamlNode::plain);
        node.get(key).map(|node| Address {
            wildcard: text(node, "wildcard"),
            cird: text(node, "cird"),
            exact: text(node, "exact"),
        })
    };
    let tests = |key| -> Result<Option<Vec<Test>>, RuleError> {
        let Some(list) = node.get(key) else { return Ok(None) };
        let items = list.get("oneof").and_then(YamlNode::items).unwrap_or_default();
        items.iter().map(test).collect::<Result<_, _>>().map(Some)
    };
    let params = node.get("param").and_then(YamlNode::items).unwrap_or_default();
    Ok(Matches {
        address: address("address"),
        provider: address("providerAddress"),
        service: tests("service")?,
        application: tests("app")?,
        params: params.iter().map(param).collect::<Result<_, _>>()?,
    })
}

/// `override://host:port/interface?key=value`, or `absent://` for what fills gaps only.
fn url(node: &YamlNode) -> Result<Override, RuleError> {
    let wrong = || node.error(RuleProblem::OverrideUrl);
    let text = node.plain().ok_or_else(wrong)?;
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    if !matches!(scheme, "override" | "absent") {
        return Err(wrong());
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (address, path) = place.split_once('/').unwrap_or((place, ""));
    let place = host_and_port(address).map_err(|problem| node.error(problem))?;
    let both = |text: &str| {
        let (key, value) = text.split_once('=').unwrap_or((text, text));
        pair(key, value)
    };
    let params = query.split('&').filter(|pair| !pair.is_empty()).map(both);
    let is_absent = scheme == "absent";
    Ok(Override { is_absent, ..Override::new(place, path, params.collect()) })
}

/// The host, and the port or 0. As in Dubbo, what follows the last colon is a number.
fn host_and_port(address: &str) -> Result<(&str, u16), RuleProblem> {
    let Some((host, port)) = address.rsplit_once(':') else { return Ok((address, 0)) };
    let port = port.parse().map_err(|_| RuleProblem::Port(address.to_owned()))?;
    Ok((host, port))
}

fn texts_of(node: &YamlNode, key: &str) -> Vec<String> {
    let items = node.get(key).and_then(YamlNode::items).unwrap_or_default();
    items.iter().filter_map(YamlNode::plain).collect()
}

fn or_one(list: Vec<String>, otherwise: &str) -> Vec<String> {
    if list.is_empty() { vec![otherwise.to_owned()] } else { list }
}
