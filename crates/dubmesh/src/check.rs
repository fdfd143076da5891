//! `dubmesh check`: whether a configuration is good, and what it would do.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use agent::config::{self, AccessLogConfig, AppConfig, ClusterRules, Config};
use agent::own_ingresses::is_reached_at;
use clap::Args;
use doctor::counted;
use registry::file::{Checked, IgnoredParameter, OnLine};
use registry::{Endpoint, Protocol, RegistryConfig, RegistryError};

use crate::Exit;
use crate::config_file::{ConfigFile, refuse};
use crate::output;
use crate::reload::{self, ReadCommand};

mod connect;

/// The arguments of `dubmesh check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    file: ConfigFile,
    /// Also connect to each registry and each app, and try each address to listen on
    #[arg(long)]
    connect: bool,
}

/// Checks a file, and prints what the agent would do, or all mistakes.
pub(crate) fn check(args: &CheckArgs, read_command: ReadCommand) -> Exit {
    let path = &args.file.config;
    let config = match config::load(path) {
        Ok(config) => config,
        Err(errors) => return refuse(&errors),
    };
    let mut files = check_files(&config);
    if matches!(files, Exit::Ok) {
        files = check_access_log(&config);
    }
    if matches!(files, Exit::Ok) {
        let text = format!("{}: good: {}\n", path.display(), summary(&config));
        files = output::print("check", &text, Exit::Ok);
    }
    for warning in &config.warnings {
        output::say(format_args!("warning: {warning}"));
    }
    match (files, args.connect) {
        (Exit::Ok, true) => connect(&config, &reload::running_with(path, read_command)),
        (files, _) => files,
    }
}

/// Tries what the configuration names, and prints what came of it.
fn connect(config: &Config, pids: &[i32]) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    let attempts = match runtime {
        Ok(runtime) => runtime.block_on(connect::try_all(config, pids)),
        Err(error) => {
            output::say(format_args!("dubmesh check: cannot start an event loop: {error}"));
            return Exit::Failure;
        }
    };
    let mut exit = Exit::Ok;
    for attempt in attempts {
        match attempt.result {
            Ok(found) => {
                exit = output::print("check", &format!("{}: {found}\n", attempt.what), exit);
            }
            Err(wrong) => {
                output::say(format_args!("{}: {wrong}", attempt.what));
                exit = Exit::Failure;
            }
        }
    }
    exit
}

/// Checks the files that list endpoints. Prints their mistakes, the endpoints that are not used,
/// parameters that do not count, and endpoints that are the agent itself.
fn check_files(config: &Config) -> Exit {
    let mut exit = Exit::Ok;
    for (registry, entry) in config.registries.iter().enumerate() {
        let RegistryConfig::File { path } = &entry.config else { continue };
        match registry::file::check(path) {
            Ok(checked) => say_doubts(config, registry, path, &checked),
            Err(RegistryError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
                output::say(format_args!(
                    "{}: {} does not exist yet; registry {:?} is empty until it does",
                    entry.place,
                    path.display(),
                    entry.name
                ));
            }
            Err(error @ RegistryError::Read { .. }) => {
                output::say(format_args!(
                    "{}: {error}; name a file that this user may read",
                    entry.place
                ));
                exit = Exit::Usage;
            }
            // It has a line of its own.
            Err(error) => {
                output::say(format_args!("{error}"));
                exit = Exit::Usage;
            }
        }
    }
    exit
}

/// Prints what is written well in a file, and is not meant so.
fn say_doubts(config: &Config, registry: usize, path: &Path, checked: &Checked) {
    let path = path.display();
    for OnLine { line, it: (interface, unused) } in &checked.unused {
        output::say(format_args!("{path}:{line}: {interface}: not used: {unused}"));
    }
    for OnLine { line, it: IgnoredParameter { interface, endpoint, what } } in &checked.doubts {
        output::say(format_args!("{path}:{line}: {interface}: {endpoint}: {what}"));
    }
    for OnLine { line, it: (interface, endpoint) } in &checked.endpoints {
        if is_own_ingress(config, registry, endpoint) {
            let Endpoint { host, port, .. } = endpoint;
            output::say(format_args!(
                "{path}:{line}: {interface}: {host}:{port}: is this agent's own Dubbo ingress, so \
                 calls come back there again and again; remove it"
            ));
        }
    }
}

/// Whether calls that a Dubbo ingress sends to an endpoint of its registry come back to it.
fn is_own_ingress(config: &Config, registry: usize, endpoint: &Endpoint) -> bool {
    let name = &config.registries[registry].name;
    let reads = |used: usize| match config.registries.get(used).map(|entry| &entry.config) {
        Some(RegistryConfig::Several(several)) => several.of.contains(name),
        _ => used == registry,
    };
    let ingresses = config.dubbo.iter().filter(|ingress| reads(ingress.registry));
    let mut listens = ingresses.filter_map(|ingress| ingress.listen.tcp());
    endpoint.protocol == Protocol::Dubbo
        && listens.any(|listen| is_reached_at(listen, &endpoint.host, endpoint.port))
}

/// Why the access log cannot be opened, if that can be told without making it.
fn check_access_log(config: &Config) -> Exit {
    let AccessLogConfig { calls: Some(_), path: Some(path), .. } = &config.access_log else {
        return Exit::Ok;
    };
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        folder => folder.unwrap_or(path),
    };
    let shown = folder.display();
    let wrong = match fs::metadata(folder) {
        _ if path.is_dir() => format!("{} is a folder; name a file", path.display()),
        Ok(found) if found.is_dir() => return Exit::Ok,
        Ok(_) => format!("{shown} is not a folder; choose another one"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            format!("the folder {shown} does not exist; create it")
        }
        Err(error) => {
            format!("the folder {shown} cannot be used: {error}; name one that this user may use")
        }
    };
    output::say(format_args!("{}: {wrong}", config.access_log_place));
    Exit::Usage
}

/// What an agent with this configuration does, in one line.
fn summary(config: &Config) -> String {
    let mut parts = Vec::new();
    if !config.http.is_empty() {
        let listens = list(config.http.iter().map(|http| &http.listen));
        parts.push(format!("takes HTTP calls on {listens}"));
    }
    if !config.dubbo.is_empty() {
        let listens = list(config.dubbo.iter().map(|dubbo| &dubbo.listen));
        parts.push(format!("takes Dubbo calls on {listens}"));
    }
    if let Some(dubbo) = &config.dubbo_exports {
        let services = list(config.exports.iter().map(|export| &export.service));
        let services = or_nothing(services);
        parts.push(format!("offers {services} to Dubbo consumers on {}", dubbo.listen));
    }
    if let Some(link) = &config.link {
        let services = list(config.exports.iter().map(|export| match &export.app {
            AppConfig::Dubbo { .. } => export.service.to_string(),
            AppConfig::Http(app) => match app.methods.len() {
                0 => format!("{} (any method, over HTTP)", export.service),
                n => {
                    let methods = counted(n as u64, "method", "methods");
                    format!("{} ({methods}, over HTTP)", export.service)
                }
            },
        }));
        let services = or_nothing(services);
        parts.push(format!("offers {services} to other agents on {}", link.listen));
    }
    let registries =
        config.registries.iter().map(|entry| format!("{} ({})", entry.name, entry.config.kind()));
    parts.push(format!("uses registry {}", list(registries)));
    let files = rule_files(config);
    if !files.is_empty() {
        parts.push(format!("routes calls by {}", list(files.iter())));
    }
    parts.push(match &config.admin {
        Some(admin) => format!("serves metrics on {}", admin.listen),
        None => "serves no metrics".to_owned(),
    });
    let (workers, memory) = (config.process.workers.get(), config.process.memory_len >> 20);
    parts.push(counted(workers as u64, "worker thread", "worker threads"));
    parts.push(format!("holds up to {memory} MiB for connections"));
    format!("agent {}: {}", config.process.name, parts.join("; "))
}

/// A listener may be there before anything is exported.
fn or_nothing(services: String) -> String {
    if services.is_empty() { "nothing yet".to_owned() } else { services }
}

/// The files with routing rules, each once.
fn rule_files(config: &Config) -> BTreeSet<&str> {
    let ClusterRules { default, rules } = &config.clusters;
    let all = std::iter::once(default).chain(rules.iter().map(|rule| &rule.policy));
    let mut files = BTreeSet::new();
    for policy in all {
        let routing = &policy.routing;
        files.extend(routing.tags.iter().map(|file| &*file.path));
        files.extend(routing.conditions.iter().map(|file| &*file.path));
        files.extend(routing.configurators.iter().map(|file| &*file.path));
    }
    files
}

fn list(items: impl Iterator<Item = impl ToString>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}
