//! What `/config` shows of registries.

use dubbo_proto::without_credentials;
use registry::{
    ApplicationConfig, EtcdConfig, KubernetesConfig, Layout, NacosConfig, RegistryConfig,
    RegistryTls, SeveralConfig, StaticService, ZooKeeperAcl, ZooKeeperConfig,
};
use serde_json::{Value, json};

use super::ms;
use crate::config::RegistryEntry;
use crate::config::registries::{METADATA_TYPES, REGISTER_MODES, SEVERAL_MODES};

fn static_shown(services: &[StaticService]) -> Value {
    let shown = |it: &StaticService| {
        let endpoints = it.endpoints.iter().map(|url| without_credentials(url));
        json!({ "service": it.service.to_string(), "endpoints": endpoints.collect::<Vec<_>>() })
    };
    json!({ "services": services.iter().map(shown).collect::<Vec<_>>() })
}

fn several_shown(several: &SeveralConfig) -> Value {
    let SeveralConfig { of, mode, shares, zones } = several;
    let mode = SEVERAL_MODES.iter().find(|(_, it)| it == mode);
    json!({ "of": of, "mode": mode.map(|(word, _)| *word), "shares": shares, "zones": zones })
}

pub(super) fn registry(entry: &RegistryEntry) -> Value {
    let RegistryEntry { name, config, definitions, snapshot, place: _ } = entry;
    let mut shown = match config {
        RegistryConfig::Memory(_) => json!({}),
        RegistryConfig::File { path } => json!({ "path": path.display().to_string() }),
        RegistryConfig::Static(services) => static_shown(services),
        RegistryConfig::Etcd(etcd) => etcd_shown(etcd),
        RegistryConfig::Kubernetes(kubernetes) => kubernetes_shown(kubernetes),
        RegistryConfig::ZooKeeper(zookeeper) => zookeeper_shown(zookeeper),
        RegistryConfig::Nacos(nacos) => nacos_shown(nacos),
        RegistryConfig::Several(several) => several_shown(several),
    };
    if let Some(applications) = config.applications() {
        let ApplicationConfig { instances_root, metadata_root: _, provided_by, register, metadata } =
            applications;
        let storage = METADATA_TYPES.iter().find(|(_, storage)| storage == metadata);
        shown["metadata_type"] = storage.map(|(word, _)| *word).into();
        let mode = REGISTER_MODES.iter().find(|(_, mode)| mode == register);
        shown["instances_root"] = instances_root.clone().into();
        shown["provided_by"] = json!(provided_by);
        shown["register_mode"] = mode.map(|(word, _)| *word).into();
    }
    shown["snapshot"] = snapshot.as_ref().map(|path| path.display().to_string()).into();
    shown["name"] = name.clone().into();
    shown["kind"] = entry.kind().into();
    let folder = definitions.folder.as_ref();
    shown["definitions"] = folder.map(|path| path.display().to_string()).into();
    if config.applications().is_some() {
        shown["metadata_root"] = definitions.report_root.clone().into();
    }
    shown["ask_providers"] = definitions.ask_providers.into();
    shown
}

impl RegistryEntry {
    /// What kind of registry it is, as the configuration has it.
    pub fn kind(&self) -> &'static str {
        self.config.kind()
    }
}

fn etcd_shown(config: &EtcdConfig) -> Value {
    let (layout, root) = match &config.layout {
        Layout::Contest { root } => ("contest", root),
        Layout::Dubbo { root } => ("dubbo", root),
    };
    json!({
        "endpoints": config.endpoints.iter().map(|url| without_user(url)).collect::<Vec<_>>(),
        "layout": layout,
        "root": root,
        "user": config.user,
        "tls": config.tls.as_ref().map(registry_tls),
        "lease_ttl_s": config.lease_ttl.as_secs(),
        "connect_timeout_ms": ms(config.connect_timeout),
        "request_timeout_ms": ms(config.request_timeout),
        "grace_ms": ms(config.grace),
    })
}

fn zookeeper_shown(config: &ZooKeeperConfig) -> Value {
    let servers = config.servers.iter().map(|server| without_user(server));
    let acl = match (config.acl, &config.user) {
        (Some(ZooKeeperAcl::Open), _) | (None, None) => "open",
        (Some(ZooKeeperAcl::Creator), _) | (None, Some(_)) => "creator",
        (Some(ZooKeeperAcl::CreatorAndReaders), _) => "creator-and-readers",
    };
    json!({
        "endpoints": servers.collect::<Vec<_>>(),
        "chroot": format!("/{}", config.chroot),
        "root": config.root,
        "user": config.user,
        "acl": acl,
        "tls": config.tls.as_ref().map(registry_tls),
        "session_timeout_ms": ms(config.session_timeout),
        "connect_timeout_ms": ms(config.connect_timeout),
        "request_timeout_ms": ms(config.request_timeout),
        "grace_ms": ms(config.grace),
        "max_message_bytes": config.max_message_len,
    })
}

fn nacos_shown(config: &NacosConfig) -> Value {
    let servers = config.servers.iter().map(|server| without_user(server));
    json!({
        "endpoints": servers.collect::<Vec<_>>(),
        "grpc_port_offset": config.grpc_port_offset,
        "namespace": config.namespace,
        "group": config.group,
        "cluster": config.cluster,
        "clusters": config.clusters,
        "user": config.user,
        "context_path": config.context_path,
        "login_https": config.is_login_https,
        "access_key": config.access_key,
        "tls": config.tls.as_ref().map(registry_tls),
        "connect_timeout_ms": ms(config.connect_timeout),
        "request_timeout_ms": ms(config.request_timeout),
        "grace_ms": ms(config.grace),
        "max_message_bytes": config.max_message_len,
    })
}

fn kubernetes_shown(config: &KubernetesConfig) -> Value {
    let services = config.services.iter().map(|it| {
        let namespace = it.namespace.as_ref().map(|namespace| format!("{namespace}/"));
        let port = it.port.as_ref().map(|port| format!(":{port}"));
        let of = [namespace.unwrap_or_default(), it.name.clone(), port.unwrap_or_default()];
        (it.service.to_string(), Value::from(of.concat()))
    });
    // In a cluster it is that of the pod.
    let of_server = config.server.is_some().then_some("default");
    json!({
        "server": config.server.as_deref().map(without_user),
        "namespace": config.namespace.as_deref().or(of_server),
        "token_file": config.token_file.as_ref().map(|path| path.display().to_string()),
        "tls": registry_tls(&config.tls),
        "label_selector": config.label_selector,
        "annotations": config.annotations,
        "services": services.collect::<serde_json::Map<_, _>>(),
        "connect_timeout_ms": ms(config.connect_timeout),
        "request_timeout_ms": ms(config.request_timeout),
    })
}

fn registry_tls(tls: &RegistryTls) -> Value {
    let path =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    json!({
        "ca_file": path(&tls.ca_file),
        "cert_file": path(&tls.cert_file),
        "key_file": path(&tls.key_file),
        "server_name": tls.server_name,
    })
}

/// A URL without what may be a password.
pub(super) fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_what_may_be_a_password() {
        for (url, shown) in [
            ("http://root:pass@10.0.0.1:2379", "http://10.0.0.1:2379"),
            ("http://root:p@ss@10.0.0.1:2379", "http://10.0.0.1:2379"),
            ("http://10.0.0.1:2379", "http://10.0.0.1:2379"),
            ("root:pass@app:80", "app:80"),
            ("unix:/run/app.sock", "unix:/run/app.sock"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }
}
