//! A registry as an argument: `etcd://HOST:PORT[,HOST:PORT][?layout=contest][&root=NAME]`,
//! `zookeeper://HOST:PORT[,HOST:PORT][/CHROOT][?root=NAME]`,
//! `nacos://HOST:PORT[,HOST:PORT][?namespace=ID][&group=NAME]`,
//! `kubernetes://[HOST:PORT][/NAMESPACE][?token_file=PATH]`, or `file:PATH`.
//!
//! Messages name parts of a URL and never quote what may be a secret: what is before an `@`, and
//! the values of unknown parameters.

use std::path::Path;
use std::str::FromStr;

use registry::{
    EtcdConfig, KubernetesConfig, Layout, NacosConfig, RegistryConfig, RegistryTls, ZooKeeperConfig,
};

/// What to write, for messages and `--help`.
const FORMS: &str = "etcd://HOST:PORT[,HOST:PORT...][?layout=dubbo|contest][&root=NAME] and \
     user and TLS as below, \
     zookeeper://HOST:PORT[,HOST:PORT...][/CHROOT][?root=NAME][&user=NAME&password_file=PATH]\
     [&tls=true][&ca_file=PATH][&cert_file=PATH&key_file=PATH][&server_name=NAME], \
     nacos://HOST:PORT[,HOST:PORT...][?namespace=ID][&group=NAME][&user=NAME&password_file=PATH]\
     [&access_key=KEY&secret_key_file=PATH] and TLS as above, \
     kubernetes://[HOST:PORT][/NAMESPACE][?token_file=PATH][&plain=true][&label_selector=TEXT], \
     or file:PATH";

/// A registry, and how the user wrote it.
#[derive(Clone, Debug)]
pub(crate) struct RegistryUrl {
    /// How it is reached.
    pub(crate) config: RegistryConfig,
    /// As it was written.
    pub(crate) text: String,
}

impl RegistryUrl {
    /// What to do if it cannot be read.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.config {
            RegistryConfig::File { .. } => "check the path of --registry",
            _ => "check --registry, and whether it is running",
        }
    }
}

impl FromStr for RegistryUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('@') && !text.starts_with("file:") {
            return Err(format!(
                "a URL has no user and password before an @: everybody on this machine can read \
                 the arguments of a process; write {FORMS}"
            ));
        }
        let config = if let Some(path) = text.strip_prefix("file:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(format!("no path after file:; write {FORMS}"));
            }
            RegistryConfig::File { path: path.into() }
        } else if let Some(rest) = text.strip_prefix("etcd://") {
            RegistryConfig::Etcd(etcd(rest)?)
        } else if let Some(rest) = text.strip_prefix("zookeeper://") {
            RegistryConfig::ZooKeeper(zookeeper(rest)?)
        } else if let Some(rest) = text.strip_prefix("nacos://") {
            RegistryConfig::Nacos(nacos(rest)?)
        } else if let Some(rest) = text.strip_prefix("kubernetes://") {
            RegistryConfig::Kubernetes(kubernetes(rest)?)
        } else {
            return Err(match meant(text) {
                Some(meant) => format!("did you mean {meant}? Otherwise write {FORMS}"),
                None => format!("write {FORMS}"),
            });
        };
        Ok(Self { config, text: text.to_owned() })
    }
}

/// What was probably meant by a text that begins with no known scheme. Of the text, only an
/// address or a path is repeated.
fn meant(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://").map_or(("", text), |(s, rest)| (s, rest));
    let (address, _) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if scheme.is_empty() && text.ends_with(".toml") {
        return Some(format!("file:{text}"));
    }
    let mut first = address.split(',').map(wire::address::split);
    let Some(Ok((_, port))) = first.next() else { return None };
    if !first.all(|it| it.is_ok()) {
        return None;
    }
    let kind = match (scheme.to_ascii_lowercase().as_str(), port) {
        ("zk" | "zookeeper", _) | ("" | "http" | "https", 2181) => "zookeeper",
        ("nacos", _) | ("" | "http" | "https", 8848) => "nacos",
        ("etcd" | "etcd3" | "etcds" | "" | "http" | "https", _) => "etcd",
        ("k8s" | "kubernetes", _) => "kubernetes",
        _ => return None,
    };
    Some(format!("{kind}://{address}"))
}

fn etcd(rest: &str) -> Result<EtcdConfig, String> {
    let (addresses, query) = rest.split_once('?').unwrap_or((rest, ""));
    let members = checked(addresses.trim_end_matches('/'))?;
    let (mut is_contest, mut root) = (false, None);
    let (mut user, mut password, mut tls) = (None, None, TlsParameters::default());
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match (name, value) {
            ("layout", "dubbo") => is_contest = false,
            ("layout", "contest") => is_contest = true,
            ("root", value) if !value.is_empty() => root = text(),
            ("user", _) => user = text(),
            ("password_file", _) => password = Some(secret_of(name, value)?.into()),
            _ if tls.take(name, value) => {}
            _ => return Err(unknown(parameter)),
        }
    }
    let layout = match (is_contest, root) {
        (false, None) => Layout::dubbo(),
        (true, None) => Layout::contest(),
        (false, Some(root)) => Layout::Dubbo { root },
        (true, Some(root)) => Layout::Contest { root },
    };
    let tls = tls.finish()?;
    if tls.as_ref().is_some_and(|tls| tls.ca_file.is_none()) {
        return Err("etcd with tls=true needs the authority of its certificate: add ca_file=PATH"
            .to_owned());
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    let urls: Vec<_> = members.map(|address| format!("{scheme}://{address}")).collect();
    Ok(EtcdConfig { user, password, tls, ..EtcdConfig::new(urls, layout) })
}

fn zookeeper(rest: &str) -> Result<ZooKeeperConfig, String> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (addresses, chroot) = place.split_once('/').unwrap_or((place, ""));
    let mut config = ZooKeeperConfig::new(checked(addresses)?);
    chroot.trim_end_matches('/').clone_into(&mut config.chroot);
    let mut tls = TlsParameters::default();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match name {
            "root" if !value.is_empty() => value.clone_into(&mut config.root),
            "user" => config.user = text(),
            "password_file" => config.password = Some(secret_of(name, value)?.into()),
            _ if tls.take(name, value) => {}
            _ => return Err(unknown(parameter)),
        }
    }
    config.tls = tls.finish()?;
    config.instances_root().to_owned().clone_into(&mut config.applications.instances_root);
    Ok(config)
}

fn nacos(rest: &str) -> Result<NacosConfig, String> {
    let (addresses, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut config = NacosConfig::new(checked(addresses.trim_end_matches('/'))?);
    let mut tls = TlsParameters::default();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match name {
            "namespace" => value.clone_into(&mut config.namespace),
            "group" if !value.is_empty() => value.clone_into(&mut config.group),
            "user" => config.user = text(),
            "password_file" => config.password = Some(secret_of(name, value)?.into()),
            "access_key" => config.access_key = text(),
            "secret_key_file" => config.secret_key = Some(secret_of(name, value)?.into()),
            _ if tls.take(name, value) => {}
            _ => return Err(unknown(parameter)),
        }
    }
    config.tls = tls.finish()?;
    config.group.clone_into(&mut config.applications.instances_root);
    Ok(config)
}

/// A parameter that is not known, or whose value is not. Its value may be a secret.
fn unknown(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, _)) => {
            format!("the parameter {name:?} is not known, or not with this value; write {FORMS}")
        }
        None => format!("a parameter is NAME=VALUE; write {FORMS}"),
    }
}

/// What the file holds that a parameter names. Who mistakes the parameter writes the secret
/// itself, so it is not repeated.
fn secret_of(parameter: &str, path: &str) -> Result<String, String> {
    let secret = wire::file::read_secret(Path::new(path));
    secret.map_err(|error| format!("cannot read the file of {parameter}: {error}"))
}

/// The parameters that are about TLS.
#[derive(Default)]
struct TlsParameters {
    is_tls: bool,
    files: RegistryTls,
}

impl TlsParameters {
    /// Takes a parameter, if it is one of these.
    fn take(&mut self, name: &str, value: &str) -> bool {
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match name {
            "tls" if ["true", "false"].contains(&value) => self.is_tls = value == "true",
            "ca_file" => self.files.ca_file = text().map(Into::into),
            "cert_file" => self.files.cert_file = text().map(Into::into),
            "key_file" => self.files.key_file = text().map(Into::into),
            "server_name" => self.files.server_name = text(),
            _ => return false,
        }
        true
    }

    fn finish(self) -> Result<Option<RegistryTls>, String> {
        if !self.is_tls && self.files != RegistryTls::default() {
            return Err("files for TLS have no effect without tls=true".to_owned());
        }
        Ok(self.is_tls.then_some(self.files))
    }
}

/// Without an address, the cluster in which we run.
fn kubernetes(rest: &str) -> Result<KubernetesConfig, String> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (address, namespace) = place.split_once('/').unwrap_or((place, ""));
    let mut config = KubernetesConfig::new();
    config.namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
    let mut scheme = "https";
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match name {
            "token_file" => config.token_file = text().map(Into::into),
            "label_selector" => config.label_selector = text(),
            "plain" if ["true", "false"].contains(&value) => {
                scheme = if value == "true" { "http" } else { "https" };
            }
            "ca_file" => config.tls.ca_file = text().map(Into::into),
            "cert_file" => config.tls.cert_file = text().map(Into::into),
            "key_file" => config.tls.key_file = text().map(Into::into),
            "server_name" => config.tls.server_name = text(),
            _ => return Err(unknown(parameter)),
        }
    }
    if !address.is_empty() {
        let _one = checked(address)?;
        config.server = Some(format!("{scheme}://{address}"));
    }
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
        let etcd = etcd_of("etcd://h:1?tls=true&ca_file=/ca.pem&cert_file=/c.pem&key_file=/c.key");
        assert_eq!(etcd.endpoints, ["https://h:1"]);
        assert_eq!(etcd.tls.unwrap().ca_file.unwrap().to_str(), Some("/ca.pem"));
        let text = "zookeeper://a:2181,[::1]:2182/teams/blue?root=rpc&tls=true&ca_file=/ca.pem";
        let RegistryConfig::ZooKeeper(zookeeper) = text.parse::<RegistryUrl>().unwrap().config
        else {
            panic!("{text}");
        };
        assert_eq!(zookeeper.servers, ["a:2181", "[::1]:2182"]);
        assert_eq!((&*zookeeper.chroot, &*zookeeper.root), ("teams/blue", "rpc"));
        assert_eq!(zookeeper.tls.unwrap().ca_file.unwrap().to_str(), Some("/ca.pem"));

        let text = "kubernetes://127.0.0.1:8001/shop?plain=true&label_selector=mesh=yes";
        let RegistryConfig::Kubernetes(kubernetes) = text.parse::<RegistryUrl>().unwrap().config
        else {
            panic!("{text}");
        };
        assert_eq!(kubernetes.server.as_deref(), Some("http://127.0.0.1:8001"));
        assert_eq!(kubernetes.namespace.as_deref(), Some("shop"));
        assert_eq!(kubernetes.label_selector.as_deref(), Some("mesh=yes"));

        let text = "nacos://a:8848,b:8849?namespace=ns&group=G";
        let RegistryConfig::Nacos(nacos) = text.parse::<RegistryUrl>().unwrap().config else {
            panic!("{text}");
        };
        assert_eq!(nacos.servers, ["a:8848", "b:8849"]);
        assert_eq!((&*nacos.namespace, &*nacos.group), ("ns", "G"));
        assert_eq!(nacos.applications.instances_root, "G");
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
            "nacos://h",
            "nacos://h:1?x=y",
            "kubernetes://h/shop",
            "kubernetes://?x=y",
            "zookeeper://u:hush@h:2181",
            "etcd://hu?s@h:1",
            "nacos://hu,sh@h:1",
            "zookeeper://h:1?password=hush",
            "etcd://h:1?hush",
        ] {
            let error = wrong.parse::<RegistryUrl>().unwrap_err();
            assert!(error.contains("write etcd://"), "{error}");
            assert!(!error.contains("hu"), "{error}");
        }
        for (wrong, meant) in [
            ("127.0.0.1:2379", "etcd://127.0.0.1:2379"),
            ("etcd3://127.0.0.1:2379", "etcd://127.0.0.1:2379"),
            ("ETCD://h:1", "etcd://h:1"),
            ("http://127.0.0.1:2379/", "etcd://127.0.0.1:2379"),
            ("http://a:1,b:2?hush", "etcd://a:1,b:2"),
            ("zk://h:2181/dubbo", "zookeeper://h:2181"),
            ("h:2181", "zookeeper://h:2181"),
            ("http://h:8848", "nacos://h:8848"),
            ("services.toml", "file:services.toml"),
        ] {
            let error = wrong.parse::<RegistryUrl>().unwrap_err();
            assert!(error.starts_with(&format!("did you mean {meant}? ")), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
        for wrong in ["hush", "hush://h:1", "http://h"] {
            let error = wrong.parse::<RegistryUrl>().unwrap_err();
            assert!(error.starts_with("write etcd://"), "{error}");
        }
        for wrong in ["zookeeper://h:1?password_file=hush", "nacos://h:1?secret_key_file=hush"] {
            let error = wrong.parse::<RegistryUrl>().unwrap_err();
            assert!(error.contains("_file: No such file") && !error.contains("hush"), "{error}");
        }
        for (wrong, said) in [
            ("etcd://h:1?tls=true", "add ca_file=PATH"),
            ("etcd://h:1?ca_file=/ca.pem", "no effect without tls=true"),
        ] {
            let error = wrong.parse::<RegistryUrl>().unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!("file:/a@b/c".parse::<RegistryUrl>().is_ok());
    }
}
