//! The keys of a registry in ZooKeeper.

use std::path::Path;

use registry::{RegistryTls, ZooKeeperAcl, ZooKeeperConfig};

use super::{applications, check_root, credentials};
use crate::config::defaults;
use crate::config::section::Section;
use crate::config::tls::{TLS_KEYS, registry_tls, tls_files};

pub(super) const KEYS: [&str; 23] = [
    "snapshot",
    "endpoints",
    "chroot",
    "root",
    "user",
    "password",
    "password_file",
    "acl",
    "tls",
    "ca_file",
    "cert_file",
    "key_file",
    "server_name",
    "session_timeout_ms",
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

const ACLS: [(&str, ZooKeeperAcl); 3] = [
    ("open", ZooKeeperAcl::Open),
    ("creator", ZooKeeperAcl::Creator),
    ("creator-and-readers", ZooKeeperAcl::CreatorAndReaders),
];

pub(super) fn config(section: &mut Section<'_>, folder: &Path) -> ZooKeeperConfig {
    let mut base = ZooKeeperConfig::new(servers(section));
    if let Some(chroot) = section.text("chroot") {
        check_chroot(section, chroot);
        chroot.trim_matches('/').clone_into(&mut base.chroot);
    }
    if let Some(root) = section.text("root") {
        check_root(section, "root", root);
        root.clone_into(&mut base.root);
    }
    let applications = applications(section, base.instances_root());
    let (user, password) = credentials(section, folder);
    let acl = section.choice("acl", &ACLS);
    if acl.is_some_and(|acl| acl != ZooKeeperAcl::Open) && user.is_none() {
        section.wrong("acl", "needs a user", "add user and password_file, or write \"open\"");
    }
    let longest_len = defaults::LONGEST_ZOOKEEPER_MESSAGE_LEN;
    let shortest_len = defaults::SHORTEST_ZOOKEEPER_MESSAGE_LEN;
    let range = shortest_len..=longest_len;
    let max_message_len = section.number("max_message_bytes", range, base.max_message_len);
    let session_range = defaults::MIN_ZOOKEEPER_SESSION..=defaults::LONGEST;
    let session_timeout = section.optional_ms_from("session_timeout_ms", session_range);
    let mut ms = |key, default| section.ms(key, defaults::LONGEST, default);
    let connect_timeout = ms("connect_timeout_ms", base.connect_timeout);
    let request_timeout = ms("request_timeout_ms", base.request_timeout);
    let grace = ms("grace_ms", base.grace);
    let tls = tls(section, folder);
    ZooKeeperConfig {
        user,
        password,
        acl,
        tls,
        session_timeout: session_timeout.unwrap_or(base.session_timeout),
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
        return vec![defaults::ZOOKEEPER_SERVER.to_owned()];
    };
    for server in servers.iter().filter(|server| wire::address::split(server).is_err()) {
        // What is before an @ may be a password.
        let shown = server.rsplit_once('@').map_or(*server, |(_, address)| address);
        let problem = format!("\"{shown}\" is not an address of ZooKeeper");
        section.wrong("endpoints", problem, "write HOST:PORT for each server");
    }
    servers.into_iter().map(str::to_owned).collect()
}

fn check_chroot(section: &Section<'_>, chroot: &str) {
    let is_good =
        |segment: &str| !matches!(segment, "" | "." | "..") && !segment.contains(char::is_control);
    if !chroot.strip_prefix('/').is_some_and(|path| path.split('/').all(is_good)) {
        let problem = format!("\"{chroot}\" is not a path");
        section.wrong("chroot", problem, "write a path such as \"/teams/blue\"");
    }
}

fn tls(section: &mut Section<'_>, folder: &Path) -> Option<RegistryTls> {
    let is_tls = section.flag("tls", false);
    let files = tls_files(section, folder);
    if !is_tls {
        if let Some(key) = TLS_KEYS.into_iter().find(|key| section.has(key)) {
            section.wrong(key, "has no effect without tls", "write tls = true, or remove it");
        }
        return None;
    }
    Some(registry_tls(section, files))
}
