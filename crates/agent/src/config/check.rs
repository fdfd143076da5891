//! From the tables of a file to the checked [`Config`].
//!
//! Here each section is looked at by itself; [`super::conflicts`] looks at all of them together.
//! A wrong value is noted and replaced by a fallback that never leaves this folder, because
//! the caller throws the result away when anything was noted.

use std::iter::once;
use std::num::NonZeroUsize;
use std::path::Path;

use dubbo_proto::{ServiceKey, validate_interface};
use registry::RegistryConfig;
use toml::de::DeTable;

use super::access_log::{self, access_log};
use super::app::app;
use super::clusters::{clusters, without_callers};
use super::conflicts::{self, ExportSection, FoundSections, ListenKey};
use super::defaults;
use super::error::Problems;
use super::tls::listener_tls;

use super::listeners::{dubbo_exports, ingresses, link};
use super::memory;
use super::registries::{RegistryDraft, registries};
use super::section::{Section, closest};
use super::{
    AdminConfig, AppCapacity, AppConfig, Config, ExportConfig, LogConfig, LogFormat, ProcessConfig,
};
use crate::error::clip;

/// The levels of `tracing`, quietest first.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Checks a whole file. `folder` is where its relative paths start. The result is worth something
/// only if `problems` is empty afterwards.
pub(super) fn check<'d>(
    root: &'d DeTable<'d>,
    folder: &Path,
    problems: &'d Problems<'d>,
) -> Config {
    let mut file = Section::root(root, problems);
    let mut places = FoundSections::default();
    let mut agent = file.table("agent");
    let memory_len = memory::configured(&mut agent);
    let memory_place = agent.place("memory_bytes");
    let process = process(agent);
    let log = log(file.table("log"));
    let access_log_section = file.table("access_log");
    let access_log_path = access_log_section.place("path");
    let access_log = access_log(access_log_section, folder);
    let admin = admin(file.table("admin"), folder, &mut places);
    let registries = registries(file.tables("registry"), folder, problems);
    let (http, dubbo) = ingresses(file.tables("ingress"), folder, &registries, &mut places);
    let link = link(file.table("link"), folder, &mut places);
    let dubbo_exports = dubbo_exports(file.table("dubbo"), folder, &process.name, &mut places);
    let exports = file.tables("export");
    let exports =
        exports.into_iter().map(|it| export(it, folder, &registries, &mut places)).collect();
    let (defaults, rules) = (file.table("defaults"), file.tables("cluster"));
    if !file.has("ingress") {
        once(&defaults).chain(&rules).for_each(without_callers);
    }
    let clusters = clusters(defaults, rules, folder, problems);
    places.is_idle = !["ingress", "link", "dubbo", "export"].into_iter().any(|key| file.has(key));
    file.finish();
    conflicts::check(&places, &registries, problems);
    let registries = registries.into_iter().filter_map(|draft| draft.entry).collect();
    let mut config = Config {
        process,
        log,
        access_log,
        admin,
        registries,
        http,
        dubbo,
        link,
        dubbo_exports,
        exports,
        clusters,
        access_log_place: problems.key_line(&access_log_path),
        // Nobody knows them all yet.
        warnings: Vec::new(),
    };
    access_log::check_path(
        &config.access_log,
        &access_log_path,
        read_files(&config, problems),
        problems,
    );
    config.process.memory_len = memory::check(memory_len, &memory_place, &config, problems);
    config
}

/// Files that are read again and again, and what they are.
fn read_files<'c>(
    config: &'c Config,
    problems: &'c Problems<'_>,
) -> impl Iterator<Item = (&'c Path, String)> {
    let own = (Path::new(problems.file()), "this configuration".to_owned());
    let registries = config.registries.iter().filter_map(|entry| match &entry.config {
        RegistryConfig::File { path } => {
            Some((path.as_path(), format!("the file of registry {:?}", entry.name)))
        }
        _ => None,
    });
    once(own).chain(registries)
}

fn process(mut section: Section<'_>) -> ProcessConfig {
    let name = section.text("name").map_or_else(host_name, str::to_owned);
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        section.wrong("name", "contains a space", "write a name without spaces");
    }
    let workers = section.optional_number("workers", 1..=defaults::MAX_WORKERS);
    let process = ProcessConfig {
        name,
        workers: workers.and_then(NonZeroUsize::new).unwrap_or_else(cores),
        drain_timeout: section.ms("drain_ms", defaults::LONGEST, defaults::DRAIN_TIMEOUT),
        memory_len: 0, // Known when all sections were read.
        reserved_files: section.optional_number("reserved_files", 1..=defaults::MAX_FILES),
        stage_sample: section.number("stage_sample", 0..=1_000_000, defaults::STAGE_SAMPLE),
    };
    section.finish();
    process
}

fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// What this machine calls itself.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "dubmesh".to_owned())
}

fn log(mut section: Section<'_>) -> LogConfig {
    let filter = section.text("level").unwrap_or(defaults::LOG_LEVEL).to_owned();
    for directive in filter.split(',').filter(|directive| !is_log_directive(directive)) {
        let (problem, remedy) = bad_log_directive(directive);
        section.wrong("level", problem, remedy);
    }
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let format = section.choice("format", &formats).unwrap_or(LogFormat::Text);
    section.finish();
    LogConfig { filter, format }
}

/// Checks what is to be logged, as `log.level` has it.
///
/// # Errors
/// What is wrong with it, and what to write instead.
pub fn check_log_filter(filter: &str) -> Result<(), String> {
    match filter.split(',').find(|directive| !is_log_directive(directive)) {
        Some(directive) => {
            let (problem, remedy) = bad_log_directive(clip(directive));
            Err(format!("{problem}; {remedy}"))
        }
        None => Ok(()),
    }
}

fn is_log_directive(directive: &str) -> bool {
    let (target, level) = directive.rsplit_once('=').unwrap_or(("*", directive));
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '*');
    !target.is_empty() && target.chars().all(is_path) && LEVELS.contains(&level)
}

fn bad_log_directive(directive: &str) -> (String, String) {
    let levels = LEVELS.join(", ");
    let remedy = format!("write one of {levels}, or a filter such as \"info,agent=debug\"");
    (format!("\"{directive}\" is not a log level"), remedy)
}

fn admin(
    mut section: Section<'_>,
    folder: &Path,
    places: &mut FoundSections,
) -> Option<AdminConfig> {
    let is_enabled = section.flag("enabled", true);
    let listen = section.address("listen").unwrap_or_else(|| defaults::ADMIN_LISTEN.into());
    if is_enabled {
        let (place, is_default) = (section.place("listen"), !section.has("listen"));
        places.listens.push(ListenKey { address: listen.clone(), place, is_default });
    } else if section.has("listen") {
        let remedy = "remove the address, or write enabled = true";
        section.wrong("listen", "has no effect, because enabled = false", remedy);
    }
    let hosts = hosts(&mut section);
    let tls = listener_tls(section.table_as("tls", "admin.tls"), folder, &[b"http/1.1"]);
    let shows_arguments = section.flag("tap_arguments", false);
    section.finish();
    is_enabled.then_some(AdminConfig { listen, hosts, tls, shows_arguments })
}

/// Names by which a listener may be called, in small letters.
pub(super) fn hosts(section: &mut Section<'_>) -> Vec<String> {
    let mut hosts = Vec::new();
    for text in section.optional_texts("hosts").unwrap_or_default() {
        match wire::address::split_optional(text) {
            Ok((host, None)) => hosts.push(host.to_ascii_lowercase()),
            _ => {
                let remedy = "write a name without port, such as \"mesh.example\"";
                section.wrong("hosts", format!("\"{text}\" is not a name"), remedy);
            }
        }
    }
    hosts
}

/// The index of the registry that a section names, or of the only one.
pub(super) fn registry(section: &mut Section<'_>, registries: &[RegistryDraft]) -> Option<usize> {
    let names: Vec<&str> = registries.iter().map(|draft| draft.name.as_str()).collect();
    let all = names.join(", ");
    let Some(name) = section.text("registry") else {
        match names.len() {
            // A wrong value was reported by the read.
            _ if section.has("registry") => {}
            0 => section.wrong("registry", "there is no registry", "add a [[registry]] section"),
            1 => return Some(0),
            _ => {
                let remedy = format!("write registry = \"...\" with one of {all}");
                section.wrong("registry", "is missing, and there are several registries", remedy);
            }
        }
        return None;
    };
    let found = names.iter().position(|known| *known == name);
    if found.is_none() {
        let remedy = match closest(name, &names) {
            Some(known) => format!("did you mean \"{known}\"?"),
            None if names.is_empty() => "add a [[registry]] section".to_owned(),
            None => format!("known registries: {all}"),
        };
        section.wrong("registry", format!("there is no registry \"{name}\""), remedy);
    }
    found
}

fn export(
    mut section: Section<'_>,
    folder: &Path,
    registries: &[RegistryDraft],
    places: &mut FoundSections,
) -> ExportConfig {
    let service = service(&mut section);
    let app = app(&mut section, service.as_ref(), folder);
    let registry = registry(&mut section, registries);
    let qualifier = ["group", "version"].into_iter().find(|key| section.has(key));
    let capacity = capacity(&mut section);
    places.exports.push(ExportSection {
        service: service.clone(),
        app: app.address(),
        app_place: section.place("app"),
        is_dubbo_app: matches!(app, AppConfig::Dubbo { .. }),
        capacity,
        capacity_place: section.place("capacity"),
        registry,
        place: section.place("interface"),
        registry_place: section.place("registry"),
        qualifier_place: qualifier.map(|key| section.place(key)),
    });
    let export = ExportConfig {
        service: service.unwrap_or_default(),
        app,
        registry: registry.unwrap_or_default(),
        weight: section.number("weight", 1..=defaults::MAX_WEIGHT, defaults::WEIGHT),
        capacity,
    };
    section.finish();
    export
}

fn capacity(section: &mut Section<'_>) -> AppCapacity {
    match section.number_or_word("capacity", 1..=defaults::MAX_CAPACITY, "auto") {
        Some(Some(capacity)) => AppCapacity::Known(capacity),
        Some(None) => AppCapacity::Adaptive,
        None => AppCapacity::Registered,
    }
}

fn service(section: &mut Section<'_>) -> Option<ServiceKey> {
    const REMEDY: &str = "write a Java interface such as \"com.acme.Orders\"";
    let interface = section.required_text("interface", REMEDY);
    let version = section.text("version").unwrap_or_default();
    let group = section.text("group").unwrap_or_default();
    let interface = interface?;
    if validate_interface(interface).is_err() {
        let problem = format!("\"{interface}\" is not the name of a Java interface");
        section.wrong("interface", problem, REMEDY);
    }
    let qualifiers = [
        ("version", version, ServiceKey::new("a", version, "")),
        ("group", group, ServiceKey::new("a", "", group)),
    ];
    for (key, value, checked) in qualifiers {
        if value.contains(['*', ',']) {
            let remedy = "write exactly one; only consumers may use patterns";
            section.wrong(key, format!("\"{value}\" is a pattern"), remedy);
        } else if checked.is_err() {
            let remedy = format!("write a plain {key} of letters, digits, dots and dashes");
            section.wrong(key, format!("\"{value}\" is not a {key}"), remedy);
        }
    }
    ServiceKey::new(interface, version, group).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::config::tests::{GOOD, assert_errors_behind_good, errors};

    #[test]
    fn a_log_filter_is_levels_for_parts() {
        for good in ["info", "off", "info,agent=debug", "agent::ingress=trace", "warn,*=info"] {
            assert_eq!(check_log_filter(good), Ok(()), "{good}");
        }
        for (filter, named) in [
            ("", ""),
            ("INFO", "INFO"),
            ("info,", ""),
            ("info,agent=loud", "agent=loud"),
            ("=info", "=info"),
            ("agent[span]=info", "agent[span]=info"),
        ] {
            let error = check_log_filter(filter).unwrap_err();
            let problem = format!("\"{named}\" is not a log level; write one of off, error");
            assert!(error.starts_with(&problem), "{filter}: {error}");
        }
    }

    #[test]
    fn what_a_disabled_admin_listener_would_listen_on_is_a_mistake() {
        assert_errors_behind_good("[admin]\nenabled = false", &[]);
        assert_errors_behind_good(
            "[admin]\nenabled = false\nlisten = '127.0.0.1:1'",
            &["a.toml:8: admin.listen: has no effect, because enabled = false; remove the \
               address, or write enabled = true"],
        );
    }

    #[test]
    fn an_export_names_one_service() {
        let export = |keys: &str| {
            errors(&format!(
                "{GOOD}[link]\nlisten = '127.0.0.1:3'\n[[export]]\napp = 'dubbo://h:1'\n{keys}"
            ))
        };
        assert_eq!(export("interface = 'a.B'\nversion = '1.0'\ngroup = 'g'"), Vec::<String>::new());
        for (keys, problem) in [
            ("interface = 'a b'", "\"a b\" is not the name of a Java interface"),
            ("interface = 'a.B'\nversion = '*'", "export.version: \"*\" is a pattern"),
            ("interface = 'a.B'\ngroup = 'a,b'", "export.group: \"a,b\" is a pattern"),
            ("interface = 'a.B'\ngroup = 'a/b'", "export.group: \"a/b\" is not a group"),
            ("interface = 'a.B'\nweight = 0", "export.weight: 0 is out of range"),
        ] {
            let errors = export(keys);
            assert!(errors.len() == 1 && errors[0].contains(problem), "{keys}: {errors:?}");
        }
    }

    #[test]
    fn hosts_are_compared_in_small_letters_and_without_port() {
        let config = parse(&format!("{GOOD}hosts = ['MESH', '[::1]']"), "a.toml").unwrap();
        assert_eq!(config.http[0].hosts, ["mesh", "::1"]);
        let errors = errors(&format!("{GOOD}hosts = ['mesh:80']"));
        assert!(errors[0].contains("\"mesh:80\" is not a name"), "{errors:?}");
    }
}
