//! The keys of a registry in Kubernetes.

use std::fs;
use std::path::Path;

use registry::{KubernetesConfig, KubernetesService, RegistryTls};

use crate::config::defaults;
use crate::config::section::Section;
use crate::config::tls::{TLS_KEYS, registry_tls, tls_files};

pub(super) const KEYS: [&str; 13] = [
    "snapshot",
    "server",
    "namespace",
    "token_file",
    "label_selector",
    "annotations",
    "services",
    "ca_file",
    "cert_file",
    "key_file",
    "server_name",
    "connect_timeout_ms",
    "request_timeout_ms",
];

pub(super) fn config(section: &mut Section<'_>, folder: &Path) -> KubernetesConfig {
    let base = KubernetesConfig::new();
    let server = section.text("server").map(str::to_owned);
    if let Some(server) = &server {
        let rest = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://"));
        let is_url =
            rest.is_some_and(|rest| wire::address::split(rest.trim_end_matches('/')).is_ok());
        if !is_url {
            let problem = format!("\"{server}\" is not an address of an API server");
            section.wrong("server", problem, "write https://HOST:PORT, or remove it in a cluster");
        }
    }
    let namespace = section.text("namespace").map(str::to_owned);
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if let Some(found) = namespace.as_deref().filter(|it| *it != "*")
        && !(1..=63).contains(&found.len()) | !found.chars().all(is_name)
    {
        let problem = format!("\"{found}\" is not a namespace");
        section.wrong("namespace", problem, "write its name, or \"*\" for all");
    }
    let tls = tls(section, server.as_deref(), folder);
    let token_file = section.text("token_file").map(|path| folder.join(path));
    // Read again for each request; but then a token in place of its path would be in the log.
    if let Some(path) = &token_file
        && let Err(error) = fs::metadata(path)
    {
        section.cannot_read("token_file", path, &error);
    }
    let label_selector = section.text("label_selector").map(str::to_owned);
    let annotations = section.flag("annotations", base.annotations);
    let services = services(section, namespace.as_deref() == Some("*"));
    let mut ms = |key, default| section.ms(key, defaults::LONGEST, default);
    KubernetesConfig {
        connect_timeout: ms("connect_timeout_ms", base.connect_timeout),
        request_timeout: ms("request_timeout_ms", base.request_timeout),
        server,
        namespace,
        token_file,
        tls,
        label_selector,
        annotations,
        services,
    }
}

/// `"group/interface:version" = "NAMESPACE/NAME:PORT"`, of which only the names are required.
fn services(section: &mut Section<'_>, is_any_namespace: bool) -> Vec<KubernetesService> {
    let mut services = Vec::new();
    for (place, service, target) in section.pairs("services") {
        let (namespace, rest) = match target.split_once('/') {
            Some((namespace, rest)) => (Some(namespace.to_owned()), rest),
            None => (None, target),
        };
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, Some(port.to_owned())),
            None => (rest, None),
        };
        if name.is_empty() || (is_any_namespace && namespace.is_none()) {
            let remedy = "write \"NAME\", \"NAME:PORT\" or \"NAMESPACE/NAME:PORT\" of a Service; \
                          with namespace = \"*\" it needs its namespace";
            section.wrong_at(&place, "does not name a Service of Kubernetes", remedy);
        }
        match service.parse() {
            Ok(service) => {
                let name = name.to_owned();
                services.push(KubernetesService { service, namespace, name, port });
            }
            Err(_) => {
                let remedy = "write \"INTERFACE\" or \"GROUP/INTERFACE:VERSION\"";
                section.wrong_at(&place, "is not the name of a service", remedy);
            }
        }
    }
    services
}

fn tls(section: &mut Section<'_>, server: Option<&str>, folder: &Path) -> RegistryTls {
    let files = tls_files(section, folder);
    if server.is_some_and(|server| server.starts_with("http://"))
        && let Some(key) = TLS_KEYS.into_iter().find(|key| section.has(key))
    {
        section.wrong(key, "has no effect with http://", "write https:// in server, or remove it");
    }
    registry_tls(section, files)
}
