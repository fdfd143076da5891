//! A registry as an argument: `etcd://HOST:PORT[,HOST:PORT][?layout=contest][&root=NAME]`,
//! `zookeeper://HOST:PORT[,HOST:PORT][/CHROOT][?root=NAME]`, or `file:PATH`.

use std::fs;
use std::str::FromStr;

use registry::{EtcdConfig, Layout, RegistryConfig, ZooKeeperConfig};

/// What to write, for messages and `--help`.
const FORMS: &str = "etcd://HOST:PORT[,HOST:PORT...][?layout=dubbo|contest][&root=NAME], \
     zookeeper://HOST:PORT[,HOST:PORT...][/CHROOT][?root=NAME][&user=NAME&password_file=PATH]\
     [&tls=true][&ca_file=PATH][&cert_file=PATH&key_file=PATH][&server_name=NAME], or file:PATH";

/// A registry, and how the user wrote it.
#[derive(Clone, Debug)]
pub(crate) struct RegistryUrl {
    /// How it is reached.
    pub(crate) config: RegistryConfig,
    /// As it was written.
    pub(crate) text: String,
}

impl FromStr for RegistryUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let config = if let Some(path) = text.strip_prefix("file:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(format!("no path behind file:; write {FORMS}"));
            }
            RegistryConfig::File { path: path.into() }
        } else if let Some(rest) = text.strip_prefix("etcd://") {
            RegistryConfig::Etcd(etcd(rest)?)
        } else if let Some(rest) = text.strip_prefix("zookeeper://") {
            RegistryConfig::ZooKeeper(zookeeper(rest)?)
        } else {
            return Err(format!("write {FORMS}"));
        };
        Ok(Self { config, text: text.to_owned() })
    }
}

fn etcd(rest: &str) -> Result<EtcdConfig, String> {
    let (addresses, query) = rest.split_once('?').unwrap_or((rest, ""));
    let members = checked(addresses.trim_end_matches('/'))?;
    let members = members.map(|address| format!("http://{address}")).collect::<Vec<_>>();
    let (mut is_contest, mut root) = (false, None);
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("layout", "dubbo")) => is_contest = false,
            Some(("layout", "contest")) => is_contest = true,
            Some(("root", name)) if !name.is_empty() => root = Some(name.to_owned()),
            _ => return Err(format!("{parameter:?} is not known; write {FORMS}")),
        }
    }
    let layout = match (is_contest, root) {
        (false, None) => Layout::dubbo(),
        (true, None) => Layout::contest(),
        (false, Some(root)) => Layout::Dubbo { root },
        (true, Some(root)) => Layout::Contest { root },
    };
    Ok(EtcdConfig::new(members, layout))
}

fn zookeeper(rest: &str) -> Result<ZooKeeperConfig, String> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (addresses, chroot) = place.split_once('/').unwrap_or((place, ""));
    let mut config = ZooKeeperConfig::new(checked(addresses)?);
    chroot.trim_end_matches('/').clone_into(&mut config.chroot);
    let (mut is_tls, mut files) = (false, config.tls.take().unwrap_or_default());
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match name {
            "root" if !value.is_empty() => value.clone_into(&mut config.root),
            "user" => config.user = text(),
            "password_file" => {
                let password = fs::read_to_string(value);
                let password = password.map_err(|error| format!("cannot read {value}: {error}"))?;
                config.password = Some(password.trim_end().to_owned());
            }
            "tls" if ["true", "false"].contains(&value) => is_tls = value == "true",
            "ca_file" => files.ca_file = text().map(Into::into),
            "cert_file" => files.cert_file = text().map(Into::into),
            "key_file" => files.key_file = text().map(Into::into),
            "server_name" => files.server_name = text(),
            _ => return Err(format!("{parameter:?} is not known; write {FORMS}")),
        }
    }
    if !is_tls && files != registry::RegistryTls::default() {
        return Err("files for TLS have no effect without tls=true".to_owned());
    }
    config.tls = is_tls.then_some(files);
    config.instances_root().to_owned().clone_into(&mut config.applications.instances_root);
    Ok(config)
}

/// Addresses with commas between them, each of them good.
fn checked(addresses: &str) -> Result<impl Iterator<Item = &str>, String> {
    for address in addresses.split(',') {
        if let Err(error) = wire::address::split(address) {
            return Err(format!("{address:?} is not HOST:PORT: {error}; write {FORMS}"));
        }
    }
    Ok(addresses.split(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etcd_of(text: &str) -> EtcdConfig {
        match text.parse::<RegistryUrl>().unwrap().config {
            RegistryConfig::Etcd(etcd) => etcd,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_all_forms() {
        let etcd = etcd_of("etcd://127.0.0.1:2379,[::1]:2380?layout=contest&root=mesh");
        assert_eq!(etcd.endpoints, ["http://127.0.0.1:2379", "http://[::1]:2380"]);
        assert_eq!(etcd.layout, Layout::Contest { root: "mesh".to_owned() });
        assert_eq!(etcd_of("etcd://h:1/").layout, Layout::dubbo());
        let text = "zookeeper://a:2181,[::1]:2182/teams/blue?root=rpc&tls=true&ca_file=/ca.pem";
        let RegistryConfig::ZooKeeper(zookeeper) = text.parse::<RegistryUrl>().unwrap().config
        else {
            panic!("{text}");
        };
        assert_eq!(zookeeper.servers, ["a:2181", "[::1]:2182"]);
        assert_eq!((&*zookeeper.chroot, &*zookeeper.root), ("teams/blue", "rpc"));
        assert_eq!(zookeeper.tls.unwrap().ca_file.unwrap().to_str(), Some("/ca.pem"));
        for path in ["file:/etc/services.toml", "file:///etc/services.toml"] {
            let RegistryConfig::File { path } = path.parse::<RegistryUrl>().unwrap().config else {
                panic!("{path}");
            };
            assert_eq!(path.to_str(), Some("/etc/services.toml"));
        }
    }

    #[test]
    fn says_what_to_write() {
        for wrong in [
            "127.0.0.1:2379",
            "etcd://h",
            "etcd://",
            "etcd://h:1?lay=x",
            "file:",
            "zookeeper://h",
            "zookeeper://h:1?x=y",
        ] {
            let error = wrong.parse::<RegistryUrl>().unwrap_err();
            assert!(error.contains("write etcd://"), "{error}");
        }
    }
}
