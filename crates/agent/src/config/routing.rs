//! The keys of `[defaults]` and `[[cluster]]` that say by which rules calls find their endpoints.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;

use balance::DEFAULT_NODES;
use flow::rules::{ConditionRule, Configurators, RuleError, TagRule};
use parameters::Parameters;

use super::clusters::check_names;
use super::section::Section;
use super::splits::{Split, splits};

/// Longer than any rule: what is over its own limit is refused when it is read.
const MAX_FILE_LEN: u64 = 1024 * 1024;
/// Places of an endpoint on the ring: more cost memory, and spread calls no better.
const MAX_NODES: u32 = 4096;
/// The last parameter that a Java method can have.
const MAX_INDEX: usize = 254;
/// The keys that are read here.
pub(super) const KEYS: [&str; 12] = [
    "tag_rule",
    "condition_rules",
    "configurators",
    "registry_rules",
    "caller",
    "zone",
    "hash_nodes",
    "hash_attachment",
    "hash_arguments",
    "idempotent",
    "retry_budget_percent",
    "split",
];
/// Stands for our own address where nobody knows it.
const LOOPBACK: &str = "127.0.0.1";

/// By which rules the calls of a service find their endpoints.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RoutingPolicy {
    /// The tag rule of the provider's application. If there is one, that of the registry does not
    /// count.
    pub tags: Option<RuleFile<TagRule>>,
    /// Condition rules, which count before those of the registry.
    pub conditions: Vec<RuleFile<ConditionRule>>,
    /// Configurators, which count before those of the registry.
    pub configurators: Vec<RuleFile<Configurators>>,
    /// Whether the rules in the registry's configuration count.
    pub from_registry: bool,
    /// What rules see of the caller.
    pub caller: Caller,
    /// Endpoints whose parameter `zone` is this one are preferred.
    pub zone: Option<String>,
    /// What `consistent-hash` goes by.
    pub hash: HashPolicy,
    /// Methods that do no harm if they are carried out twice: names, or beginnings and `*`.
    pub idempotent: Vec<String>,
    /// Further attempts for a hundred calls; `None` means no limit.
    pub retry_percent: Option<u32>,
    /// Parts of the calls that go elsewhere.
    pub splits: Vec<Split>,
}

impl RoutingPolicy {
    /// Whether a method does no harm if it is carried out twice.
    #[must_use]
    pub fn is_idempotent(&self, method: &str) -> bool {
        self.idempotent.iter().any(|known| match known.strip_suffix('*') {
            Some(beginning) => method.starts_with(beginning),
            None => method == known,
        })
    }
}

/// What the balancer `consistent-hash` goes by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HashPolicy {
    /// What the key of a call is.
    pub key: HashKey,
    /// Places of an endpoint on the ring; at least 4.
    pub nodes: u32,
}

/// What the key of a call is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HashKey {
    /// The texts of the arguments at these indexes, one after the other.
    Arguments(Vec<usize>),
    /// The attachment of this name; a call without it has no key.
    Attachment(String),
}

/// What rules see of the caller.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Caller {
    /// Its address.
    pub host: String,
    /// Its parameters, such as `application`.
    pub params: Parameters,
}

/// A rule that was read from a file.
#[derive(Clone, Debug)]
pub struct RuleFile<T> {
    /// The path as the configuration has it.
    pub path: Arc<str>,
    /// What was in the file.
    text: Arc<str>,
    /// What that means.
    pub rule: Arc<T>,
}

/// Two files are the same if they say the same.
impl<T> PartialEq for RuleFile<T> {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.text) == (&other.path, &other.text)
    }
}

impl<T> Eq for RuleFile<T> {}

/// What holds where the file says nothing.
impl Default for RoutingPolicy {
    fn default() -> Self {
        Self {
            tags: None,
            conditions: Vec::new(),
            configurators: Vec::new(),
            from_registry: true,
            caller: Caller { host: LOOPBACK.to_owned(), params: Parameters::default() },
            zone: None,
            // As in Dubbo: `hash.arguments` and `hash.nodes`.
            hash: HashPolicy { key: HashKey::Arguments(vec![0]), nodes: DEFAULT_NODES },
            idempotent: Vec::new(),
            retry_percent: None,
            splits: Vec::new(),
        }
    }
}

/// Where nothing else is said: the caller is at our own address.
pub(super) fn default_routing() -> RoutingPolicy {
    let caller = Caller { host: own_host(), params: Parameters::default() };
    RoutingPolicy { caller, ..RoutingPolicy::default() }
}

pub(super) fn routing(
    section: &mut Section<'_>,
    split: &'static str,
    folder: &Path,
    base: &Arc<RoutingPolicy>,
) -> Arc<RoutingPolicy> {
    let is_ours = KEYS.iter().any(|key| section.has(key));
    let tags = section.text("tag_rule");
    let tags = tags.and_then(|path| read(section, "tag_rule", folder, path, TagRule::parse));
    let conditions = files(section, "condition_rules", folder, ConditionRule::parse);
    let configurators = files(section, "configurators", folder, Configurators::parse);
    let from_registry = section.flag("registry_rules", base.from_registry);
    let caller = caller(section, &base.caller);
    let zone = section.text("zone").map(str::to_owned).or_else(|| base.zone.clone());
    let hash = hash(section, &base.hash);
    let idempotent = section.optional_texts("idempotent");
    check_names(section, "idempotent", idempotent.as_deref().unwrap_or_default());
    let idempotent = idempotent.map(|names| names.into_iter().map(str::to_owned).collect());
    let retry_percent = section.optional_number("retry_budget_percent", 0..=100);
    let splits = splits(section, split);
    if !is_ours {
        return Arc::clone(base);
    }
    Arc::new(RoutingPolicy {
        tags: tags.or_else(|| base.tags.clone()),
        conditions: conditions.unwrap_or_else(|| base.conditions.clone()),
        configurators: configurators.unwrap_or_else(|| base.configurators.clone()),
        from_registry,
        caller,
        zone: zone.filter(|zone| !zone.is_empty()),
        hash,
        idempotent: idempotent.unwrap_or_else(|| base.idempotent.clone()),
        retry_percent: retry_percent.or(base.retry_percent),
        splits: splits.unwrap_or_else(|| base.splits.clone()),
    })
}

fn hash(section: &mut Section<'_>, base: &HashPolicy) -> HashPolicy {
    let nodes = section.number("hash_nodes", 4..=MAX_NODES, base.nodes);
    let attachment = section.text("hash_attachment").map(str::to_owned);
    let arguments = section.text("hash_arguments").map(|text| {
        let index = |part: &str| part.trim().parse().ok().filter(|index| *index <= MAX_INDEX);
        text.split(',').map(index).collect::<Option<Vec<usize>>>()
    });
    if attachment.is_some() && arguments.is_some() {
        let problem = "is set, but so is hash_attachment";
        section.wrong("hash_arguments", problem, "remove one of them");
    }
    if let Some(None) = arguments {
        let problem = "is not a list of indexes from 0 to 254";
        section.wrong("hash_arguments", problem, "write indexes such as \"0\" or \"0,2\"");
    }
    let key = match (attachment, arguments) {
        (Some(name), _) => HashKey::Attachment(name),
        (None, Some(Some(indexes))) => HashKey::Arguments(indexes),
        (None, _) => base.key.clone(),
    };
    HashPolicy { key, nodes }
}

fn caller(section: &mut Section<'_>, base: &Caller) -> Caller {
    let pairs = section.pairs("caller");
    if pairs.is_empty() {
        return base.clone();
    }
    let mut caller = Caller { host: base.host.clone(), params: Parameters::default() };
    let mut params = Vec::new();
    for (place, name, value) in pairs {
        match name {
            "host" if value.parse::<std::net::IpAddr>().is_err() => {
                let problem = format!("\"{value}\" is not an IP address");
                section.wrong_at(&place, problem, "write one such as \"10.0.0.5\"");
            }
            "host" => caller.host = value.to_owned(),
            _ => params.push((name, value)),
        }
    }
    caller.params = params.into_iter().collect();
    caller
}

fn files<T>(
    section: &mut Section<'_>,
    key: &'static str,
    folder: &Path,
    parse: impl Fn(&str, &str) -> Result<T, RuleError>,
) -> Option<Vec<RuleFile<T>>> {
    let paths = section.optional_texts(key)?;
    Some(paths.into_iter().filter_map(|path| read(section, key, folder, path, &parse)).collect())
}

fn read<T>(
    section: &Section<'_>,
    key: &str,
    folder: &Path,
    path: &str,
    parse: impl Fn(&str, &str) -> Result<T, RuleError>,
) -> Option<RuleFile<T>> {
    let file = folder.join(path);
    let text = match wire::file::read_text(&file, MAX_FILE_LEN) {
        Ok(text) => text,
        Err(error) => {
            let remedy = match error.kind() {
                ErrorKind::FileTooLarge | ErrorKind::InvalidData => {
                    "name a file with one rule in Dubbo's YAML"
                }
                _ => "name a file that this user may read",
            };
            section.wrong(key, format!("cannot read {path}: {error}"), remedy);
            return None;
        }
    };
    match parse(path, &text) {
        Ok(rule) => Some(RuleFile { path: path.into(), text: text.into(), rule: Arc::new(rule) }),
        Err(error) => {
            section.wrong(key, format!("{path}: {error}"), "correct the rule, or leave it out");
            None
        }
    }
}

/// The address that others see us by, as far as the machine's routes tell. Nothing is sent.
fn own_host() -> String {
    let local = || {
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        // An address that is reserved for examples.
        socket.connect("192.0.2.1:9").ok()?;
        Some(socket.local_addr().ok()?.ip().to_string())
    };
    local().unwrap_or_else(|| LOOPBACK.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::config::parse;

    const BASE: &str =
        "[[registry]]\nkind = 'etcd'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    const CONDITION: &str = "force: true\nconditions:\n  - 'method=find* => env=gray'\n";

    fn read(folder: &std::path::Path, keys: &str) -> Result<crate::config::Config, String> {
        let file = folder.join("agent.toml").display().to_string();
        parse(&format!("{BASE}{keys}"), &file).map_err(|error| error.to_string())
    }

    #[test]
    fn clusters_start_from_the_rules_of_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.yaml"), CONDITION).unwrap();
        let keys = "[defaults]\ncondition_rules = ['a.yaml']\ncaller = { application = 'shop' }\n\
                    [[cluster]]\ninterface = 'a.B'\nregistry_rules = false\n\
                    [[cluster]]\ninterface = 'a.C'\ncondition_rules = []\n";
        let config = read(folder.path(), keys).unwrap();
        let (b, c) = (config.clusters.policy("a.B"), config.clusters.policy("a.C"));
        assert_eq!((b.routing.conditions.len(), b.routing.from_registry), (1, false));
        assert_eq!((c.routing.conditions.len(), c.routing.from_registry), (0, true));
        assert_eq!(c.routing.caller.params.get("application"), Some("shop"));
        assert_eq!(read(folder.path(), keys).unwrap().clusters, config.clusters);
        std::fs::write(folder.path().join("a.yaml"), CONDITION.replace("gray", "blue")).unwrap();
        assert_ne!(read(folder.path(), keys).unwrap().clusters, config.clusters, "it is reloaded");
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.yaml"), "conditions:\n  - '=> = x'\n").unwrap();
        let wrong = |keys: &str| read(folder.path(), &format!("[defaults]\n{keys}")).unwrap_err();
        for (keys, said) in [
            ("condition_rules = ['a.yaml']", "a.yaml: line 2, column 5"),
            ("tag_rule = 'none.yaml'", "cannot read none.yaml"),
            ("configurators = ['a.yaml']", "configs is missing or empty"),
            ("caller = { host = 'x' }", "defaults.caller.host: \"x\" is not an IP address"),
            ("registry_rules = 1", "registry_rules"),
            ("hash_arguments = '0,x'", "hash_arguments: is not a list of indexes"),
            ("hash_nodes = 3", "hash_nodes"),
            ("retry_budget_percent = 101", "retry_budget_percent"),
            ("idempotent = 'find*'", "idempotent"),
            ("idempotent = ['get', '*x']", "idempotent: \"*x\" matches no method"),
            ("hash_arguments = '0'\nhash_attachment = 'user'", "so is hash_attachment"),
        ] {
            let error = wrong(keys);
            assert!(error.contains("agent.toml:7") && error.contains(said), "{error}");
        }
    }
}
