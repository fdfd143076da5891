//! The keys of a registry in Nacos.

use std::path::Path;

use registry::{NacosConfig, RegistryTls};

use super::{applications, credentials, secret};
use crate::config::defaults;
use crate::config::section::Section;
use crate::config::tls::{TLS_KEYS, registry_tls, tls_files};

pub(super) const KEYS: [&str; 29] = [
    "snapshot",
    "endpoints",
    "grpc_port_offset",
    "namespace",
    "group",
    "cluster",
    "clusters",
    "user",
    "password",
    "password_file",
    "context_path",
    "login_https",
    "access_key",
    "secret_key",
    "secret_key_file",
    "tls",
    "ca_file",
    "cert_file",
    "key_file",
    "server_name",
    "connect_timeout_ms",
    "request_timeout_ms",
    "grace_ms",
    "max_message_bytes",
    "metadata_root",
    "instances_root",
    "provided_by",
    "register_mode",
    "metadata_type",
];

pub(super) fn config(section: &mut Section<'_>, folder: &Path) -> NacosConfig {
    let mut base = NacosConfig::new(servers(section));
    base.grpc_port_offset = section.number("grpc_port_offset", 0..=u16::MAX, base.grpc_port_offset);
    for (key, kept) in [
        ("namespace", &mut base.namespace),
        ("group", &mut base.group),
        ("cluster", &mut base.cluster),
    ] {
        if let Some(name) = section.text(key) {
            check_name(section, key, name);
            name.clone_into(kept);
        }
    }
    let clusters = section.texts("clusters").unwrap_or_default();
    clusters.iter().for_each(|name| check_name(section, "clusters", name));
    base.clusters = clusters.into_iter().map(str::to_owned).collect();
    let applications = applications(section, &base.group);
    (base.user, base.password) = credentials(section, folder);
    if let Some(path) = section.text("context_path") {
        path.clone_into(&mut base.context_path);
    }
    base.is_login_https = section.flag("login_https", false);
    for key in ["context_path", "login_https"] {
        if section.has(key) && base.user.is_none() {
            section.wrong(key, "has no effect without user", "add user and password_file");
        }
    }
    base.access_key = section.text("access_key").map(str::to_owned);
    base.secret_key = secret(section, folder, ["secret_key", "secret_key_file"]);
    let has_secret = section.has("secret_key") || section.has("secret_key_file");
    if section.has("access_key") != has_secret {
        let key = if has_secret { "secret_key" } else { "access_key" };
        let remedy = "give both access_key and secret_key_file, or neither";
        section.wrong(key, "is one half of an access key", remedy);
    }
    let shortest_len = defaults::SHORTEST_NACOS_MESSAGE_LEN;
    let range = shortest_len..=defaults::LONGEST_NACOS_MESSAGE_LEN;
    let max_message_len = section.number("max_message_bytes", range, base.max_message_len);
    let mut ms = |key, default| section.ms(key, defaults::LONGEST, default);
    let connect_timeout = ms("connect_timeout_ms", base.connect_timeout);
    let request_timeout = ms("request_timeout_ms", base.request_timeout);
    let grace = ms("grace_ms", base.grace);
    let tls = tls(section, folder, base.is_login_https);
    NacosConfig {
        tls,
        connect_timeout,
        request_timeout,
        grace,
        max_message_len,
        applications,
        ..base
    }
}

fn servers(section: &mut Section<'_>) -> Vec<String> {
    let Some(servers) = section.texts("endpoints") else {
        return vec![defaults::NACOS_SERVER.to_owned()];
    };
    for server in servers.iter().filter(|server| wire::address::split(server).is_err()) {
        // What is before an @ may be a password.
        let shown = server.rsplit_once('@').map_or(*server, |(_, address)| address);
        let problem = format!("\"{shown}\" is not an address of Nacos");
        section.wrong("endpoints", problem, "write HOST:PORT for each server, the port of HTTP");
    }
    servers.into_iter().map(str::to_owned).collect()
}

/// What Nacos takes in names of groups, clusters and namespaces.
fn check_name(section: &Section<'_>, key: &str, name: &str) {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if name.is_empty() || 128 < name.len() || !name.chars().all(is_good) {
        let remedy = "write 1 to 128 letters, digits, and the characters - _ . :";
        section.wrong(key, format!("\"{name}\" is not a name in Nacos"), remedy);
    }
}

fn tls(section: &mut Section<'_>, folder: &Path, is_login_https: bool) -> Option<RegistryTls> {
    let is_tls = section.flag("tls", false);
    let files = tls_files(section, folder);
    if !is_tls {
        if let Some(key) = TLS_KEYS.into_iter().find(|key| section.has(key)) {
            section.wrong(key, "has no effect without tls", "write tls = true, or remove it");
        } else if is_login_https {
            let remedy = "write tls = true, too, with ca_file where the authority is your own";
            section.warn("login_https", "but gRPC is not encrypted", remedy);
        }
        return None;
    }
    Some(registry_tls(section, files))
}
