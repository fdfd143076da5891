//! `[[registry]]`: where endpoints are learnt and services registered.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use dubbo_proto::application::{Storage, is_application};
use registry::file::{CheckedEndpoint, IgnoredParameter};
use registry::{
    ApplicationConfig, DefinitionSources, EtcdConfig, Layout, MemoryHub, Protocol, RegisterMode,
    RegistryConfig, RegistrySecret, RegistryTls, StaticService,
};

use super::RegistryEntry;
use super::defaults;
use super::error::{KeyPlace, Problems};
use super::section::Section;
use super::tls::{TLS_KEYS, registry_tls, tls_files, warn_if_open};

mod kinds;
mod kubernetes;
mod nacos;
mod several;
mod zookeeper;

/// A registry as far as it could be read.
pub(super) struct RegistryDraft {
    pub(super) name: String,
    /// Where the name is.
    pub(super) place: KeyPlace,
    /// `None` if the file does not tell.
    pub(super) kind: Option<RegistryKind>,
    /// The registries that it is made of, by their index.
    pub(super) members: Vec<usize>,
    /// Where they are named.
    pub(super) of_place: KeyPlace,
    /// The Dubbo endpoints of its list, if it is one.
    pub(super) dubbo_listed: Vec<Listed>,
    /// `None` if something is wrong with it.
    pub(super) entry: Option<RegistryEntry>,
}

pub(super) use self::kinds::{KINDS, Registrations, RegistryKind, kinds_where};

/// As Dubbo's `register-mode`.
pub(super) const REGISTER_MODES: [(&str, RegisterMode); 3] = [
    ("all", RegisterMode::All),
    ("interface", RegisterMode::Interface),
    ("instance", RegisterMode::Instance),
];

/// As Dubbo's `metadata-type`.
pub(super) const METADATA_TYPES: [(&str, Storage); 2] =
    [("local", Storage::Local), ("remote", Storage::Remote)];

pub(super) use self::several::MODES as SEVERAL_MODES;

/// An endpoint of a list.
pub(super) struct Listed {
    pub(super) host: Arc<str>,
    pub(super) port: u16,
    pub(super) place: KeyPlace,
}

/// Reads all registries. `folder` is where relative paths start.
pub(super) fn registries(
    sections: Vec<Section<'_>>,
    folder: &Path,
    problems: &Problems<'_>,
) -> Vec<RegistryDraft> {
    let mut drafts: Vec<RegistryDraft> = Vec::with_capacity(sections.len());
    for section in sections {
        let draft = registry(section, folder);
        if let Some(earlier) = drafts.iter().find(|earlier| earlier.name == draft.name) {
            let line = problems.line(&earlier.place);
            let problem = format!("\"{}\" is the name of the registry in line {line}", draft.name);
            problems.add(&draft.place, problem, "give each registry a name of its own");
        }
        drafts.push(draft);
    }
    several::find_members(&mut drafts, problems);
    drafts
}

fn registry(mut section: Section<'_>, folder: &Path) -> RegistryDraft {
    let name = section.text("name").unwrap_or(defaults::REGISTRY_NAME).to_owned();
    let words = KINDS.map(|(word, kind, _)| (word, kind));
    let remedy = format!("write one of {}", words.map(|(word, _)| word).join(", "));
    section.required_text("kind", &remedy);
    let kind = section.choice("kind", &words);
    // With an unknown kind, nobody can say which keys belong.
    if let Some(kind) = kind {
        refuse_keys_of_others(&mut section, kind);
    }
    let mut dubbo_listed = Vec::new();
    let (kind, config) = match kind {
        Some(RegistryKind::Memory) => (kind, Some(RegistryConfig::Memory(MemoryHub::default()))),
        Some(RegistryKind::File) => (kind, file(&mut section, folder)),
        Some(RegistryKind::Static) => {
            (kind, Some(RegistryConfig::Static(fixed(&mut section, &mut dubbo_listed))))
        }
        Some(RegistryKind::EtcdDubbo | RegistryKind::EtcdContest) => {
            let config = etcd(&mut section, folder);
            let is_contest = matches!(config.layout, Layout::Contest { .. });
            let kind = if is_contest { RegistryKind::EtcdContest } else { RegistryKind::EtcdDubbo };
            (Some(kind), Some(RegistryConfig::Etcd(config)))
        }
        Some(RegistryKind::ZooKeeper) => {
            let config = zookeeper::config(&mut section, folder);
            (kind, Some(RegistryConfig::ZooKeeper(config)))
        }
        Some(RegistryKind::Nacos) => {
            (kind, Some(RegistryConfig::Nacos(nacos::config(&mut section, folder))))
        }
        Some(RegistryKind::Kubernetes) => {
            let config = kubernetes::config(&mut section, folder);
            (kind, Some(RegistryConfig::Kubernetes(config)))
        }
        Some(RegistryKind::Several) => {
            (kind, several::config(&mut section).map(RegistryConfig::Several))
        }
        None => (None, None),
    };
    let definitions = definitions(&mut section, folder);
    let snapshot = section.path("snapshot", folder);
    let named = if section.has("path") { "path" } else { "name" };
    let key_line = section.problems().key_line(&section.place(named));
    let (place, of_place) = (section.place("name"), section.place("of"));
    if kind.is_some() {
        section.finish();
    }
    let entry = config.map(|config| RegistryEntry {
        name: name.clone(),
        config,
        definitions,
        snapshot,
        place: key_line,
    });
    RegistryDraft { name, place, kind, members: Vec::new(), of_place, dubbo_listed, entry }
}

/// Refuses the keys that other kinds have, and this one does not.
fn refuse_keys_of_others(section: &mut Section<'_>, kind: RegistryKind) {
    let own = KINDS.iter().find(|(_, it, _)| *it == kind).map_or(&[][..], |(_, _, keys)| keys);
    let mut refused = Vec::new();
    for &key in KINDS.iter().flat_map(|(_, _, keys)| *keys) {
        if own.contains(&key) || refused.contains(&key) {
            continue;
        }
        let words =
            KINDS.iter().filter(|(_, _, keys)| keys.contains(&key)).map(|(word, _, _)| *word);
        let words: Vec<_> = words.map(|word| format!("\"{word}\"")).collect();
        let remedy = format!("remove it; only kind = {} has it", words.join(" or "));
        section.refuse(&[key], &remedy);
        refused.push(key);
    }
}

/// The application level. `instances_root` is where its instances are unless the file says it.
fn applications(section: &mut Section<'_>, instances_root: &str) -> ApplicationConfig {
    let base = ApplicationConfig::default();
    let own_root = section.text("instances_root");
    if let Some(root) = own_root {
        check_root(section, "instances_root", root);
    }
    let instances_root = own_root.unwrap_or(instances_root).to_owned();
    let metadata_root = section.text("metadata_root").unwrap_or(&base.metadata_root).to_owned();
    let mut provided_by = BTreeMap::new();
    for (place, interface, names) in section.pairs("provided_by") {
        let names: Vec<_> = names.split(',').map(str::trim).map(str::to_owned).collect();
        if !names.iter().all(|name| is_application(name)) {
            let remedy = "write the names of applications, with commas between them";
            section.wrong_at(&place, "is not a list of applications", remedy);
        }
        provided_by.insert(interface.to_owned(), names);
    }
    let register = section.choice("register_mode", &REGISTER_MODES).unwrap_or_default();
    let metadata = section.choice("metadata_type", &METADATA_TYPES).unwrap_or_default();
    ApplicationConfig { instances_root, metadata_root, provided_by, register, metadata }
}

/// Where services say what they look like.
fn definitions(section: &mut Section<'_>, folder: &Path) -> DefinitionSources {
    let base = DefinitionSources::default();
    let path = section.path("definitions", folder);
    if let Some(path) = path.as_ref().filter(|path| !path.is_dir()) {
        let problem = format!("{} is not a folder", path.display());
        section.wrong("definitions", problem, "name a folder with INTERFACE.json files");
    }
    let root = section.text("metadata_root").unwrap_or(&base.report_root).to_owned();
    check_root(section, "metadata_root", &root);
    let ask_providers = section.flag("ask_providers", base.ask_providers);
    DefinitionSources { folder: path, report_root: root, ask_providers }
}

fn check_root(section: &mut Section<'_>, key: &'static str, root: &str) {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if root.is_empty() || !root.chars().all(is_good) {
        let remedy = "write one name without slashes, such as \"dubbo\"";
        section.wrong(key, format!("\"{root}\" is not one name without slashes"), remedy);
    }
}

fn file(section: &mut Section<'_>, folder: &Path) -> Option<RegistryConfig> {
    let text = section.required_text("path", "write the path of the file with the endpoints")?;
    Some(RegistryConfig::File { path: section.path_of("path", text, folder) })
}

/// The services of a list in the configuration. Their Dubbo endpoints are added to `dubbo_listed`.
fn fixed(section: &mut Section<'_>, dubbo_listed: &mut Vec<Listed>) -> Vec<StaticService> {
    let mut services = Vec::new();
    for mut of_service in section.tables_as("service", "registry.service") {
        let remedy = "write the Java interface, such as \"com.acme.Orders\"";
        let interface = of_service.required_text("interface", remedy);
        let version = of_service.text("version").unwrap_or_default();
        let group = of_service.text("group").unwrap_or_default();
        let endpoints = of_service.optional_texts("endpoints");
        if endpoints.is_none() && !of_service.has("endpoints") {
            of_service.wrong(
                "endpoints",
                "is missing",
                "write endpoints = [\"dubbo://HOST:PORT\"]",
            );
        }
        match interface.map(|interface| ServiceKey::new(interface, version, group)) {
            Some(Ok(service)) => {
                let endpoints = endpoints.unwrap_or_default();
                check_endpoints(&of_service, &service, &endpoints, dubbo_listed);
                let endpoints = endpoints.into_iter().map(str::to_owned).collect();
                services.push(StaticService { service, endpoints });
            }
            Some(Err(error)) => of_service.wrong("interface", error.to_string(), remedy),
            None => {}
        }
        of_service.finish();
    }
    if services.is_empty() && !section.has("service") {
        let remedy = "write [[registry.service]] with interface and endpoints below it";
        section.wrong("service", "is missing", remedy);
    }
    services
}

fn check_endpoints(
    section: &Section<'_>,
    service: &ServiceKey,
    endpoints: &[&str],
    dubbo_listed: &mut Vec<Listed>,
) {
    for text in endpoints {
        match registry::file::check_endpoint(service, text) {
            Ok(CheckedEndpoint::Used { protocol, host, port, doubts }) => {
                if protocol == Protocol::Dubbo {
                    dubbo_listed.push(Listed { host, port, place: section.place("endpoints") });
                }
                for IgnoredParameter { endpoint, what, .. } in doubts {
                    section.warn("endpoints", format!("{endpoint}: {what}"), "correct it");
                }
            }
            Ok(CheckedEndpoint::Unused(unused)) => {
                section.warn("endpoints", format!("not used: {unused}"), "remove it");
            }
            Err(problem) => {
                section.wrong("endpoints", problem, "write dubbo://HOST:PORT or link://HOST:PORT");
            }
        }
    }
}

fn etcd(section: &mut Section<'_>, folder: &Path) -> EtcdConfig {
    let endpoints = endpoints(section);
    let (user, password) = credentials(section, folder);
    let is_https = endpoints.iter().any(|url| url.starts_with("https://"));
    let base = EtcdConfig::new(endpoints, layout(section));
    let keys = ["instances_root", "provided_by", "register_mode", "metadata_type"];
    if matches!(base.layout, Layout::Contest { .. })
        && let Some(key) = keys.into_iter().find(|key| section.has(key))
    {
        section.wrong(key, "has no effect with layout = \"contest\"", "remove it");
    }
    // Dubbo's own registry in etcd has it there, whatever its group.
    let applications = applications(section, &base.applications.instances_root);
    let lease_ttl_s = section.number(
        "lease_ttl_s",
        defaults::MIN_LEASE_TTL_S..=defaults::LONGEST.as_secs(),
        base.lease_ttl.as_secs(),
    );
    let mut ms = |key, default| section.ms(key, defaults::LONGEST, default);
    EtcdConfig {
        connect_timeout: ms("connect_timeout_ms", base.connect_timeout),
        request_timeout: ms("request_timeout_ms", base.request_timeout),
        grace: ms("grace_ms", base.grace),
        tls: tls(section, is_https, folder),
        lease_ttl: Duration::from_secs(lease_ttl_s),
        user,
        password,
        applications,
        ..base
    }
}

fn endpoints(section: &mut Section<'_>) -> Vec<String> {
    const REMEDY: &str = "write http://HOST:PORT or https://HOST:PORT for each member";
    let Some(urls) = section.texts("endpoints") else {
        return vec![defaults::ETCD_ENDPOINT.to_owned()];
    };
    let is_url = |url: &str| {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        rest.is_some_and(|rest| wire::address::split(rest.trim_end_matches('/')).is_ok())
    };
    for url in urls.iter().filter(|url| !is_url(url)) {
        section.wrong("endpoints", format!("\"{url}\" is not an address of etcd"), REMEDY);
    }
    let n_https = urls.iter().filter(|url| url.starts_with("https://")).count();
    if n_https != 0 && n_https != urls.len() {
        let problem = "some members use http, others https";
        section.wrong("endpoints", problem, "use the same for all members");
    }
    urls.into_iter().map(str::to_owned).collect()
}

fn layout(section: &mut Section<'_>) -> Layout {
    let layouts = [("dubbo", false), ("contest", true)];
    let is_contest = section.choice("layout", &layouts).unwrap_or(false);
    let root = section.text("root");
    if let Some(root) = root {
        check_root(section, "root", root);
    }
    match (is_contest, root.map(str::to_owned)) {
        (false, None) => Layout::dubbo(),
        (false, Some(root)) => Layout::Dubbo { root },
        (true, None) => Layout::contest(),
        (true, Some(root)) => Layout::Contest { root },
    }
}

/// The user and the password: both, or none.
fn credentials(
    section: &mut Section<'_>,
    folder: &Path,
) -> (Option<String>, Option<RegistrySecret>) {
    let user = section.text("user").map(str::to_owned);
    let password = password(section, folder);
    let (has_user, has_password) =
        (section.has("user"), section.has("password") || section.has("password_file"));
    if has_user && !has_password {
        let remedy = "add password_file (or password)";
        section.wrong("user", "is set, but there is no password", remedy);
    } else if has_password && !has_user {
        let key = if section.has("password") { "password" } else { "password_file" };
        section.wrong(key, "is set, but there is no user", "add user = \"...\"");
    }
    (user, password)
}

/// The password, from the file itself or from the file that it names.
fn password(section: &mut Section<'_>, folder: &Path) -> Option<RegistrySecret> {
    secret(section, folder, ["password", "password_file"])
}

/// A secret, by the key that has it or by the key that names its file.
fn secret(
    section: &mut Section<'_>,
    folder: &Path,
    [key, file_key]: [&'static str; 2],
) -> Option<RegistrySecret> {
    let password = section.text(key).map(RegistrySecret::from);
    let Some(path) = section.text(file_key) else {
        if password.is_some() {
            warn_if_open(section, key, Path::new(section.file()));
        }
        return password;
    };
    warn_if_open(section, file_key, &folder.join(path));
    if section.has(key) {
        let remedy = "remove one of them";
        section.wrong(file_key, format!("is set, but so is {key}"), remedy);
        return password;
    }
    let secret_file = folder.join(path);
    match wire::file::read_secret(&secret_file) {
        Ok(secret) if !secret.is_empty() => Some(RegistrySecret::of_file(secret_file)),
        Ok(_) => {
            section.wrong(file_key, format!("{path} is empty"), "write the secret into it");
            None
        }
        Err(error) => {
            section.cannot_read(file_key, &secret_file, &error);
            None
        }
    }
}

fn tls(section: &mut Section<'_>, is_https: bool, folder: &Path) -> Option<RegistryTls> {
    let files = tls_files(section, folder);
    if !is_https {
        if let Some(key) = TLS_KEYS.into_iter().find(|key| section.has(key)) {
            let remedy = "write https:// in endpoints, or remove it";
            section.wrong(key, "has no effect, because no endpoint is https", remedy);
        }
        return None;
    }
    if !section.has("ca_file") {
        let remedy = "write ca_file = \"...\" with the authority of etcd's certificate";
        section.wrong("ca_file", "is missing, and https needs it", remedy);
    }
    Some(registry_tls(section, files))
}

#[cfg(test)]
mod tests;
