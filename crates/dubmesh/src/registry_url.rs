//! A registry as an argument: `etcd://HOST:PORT[,HOST:PORT][?layout=contest][&root=NAME]`, or
//! `file:PATH`.

use std::str::FromStr;

use registry::{EtcdConfig, Layout, RegistryConfig};

/// What to write, for messages and `--help`.
const FORMS: &str =
    "etcd://HOST:PORT[,HOST:PORT...][?layout=dubbo|contest][&root=NAME] or file:PATH";

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
        } else {
            return Err(format!("write {FORMS}"));
        };
        Ok(Self { config, text: text.to_owned() })
    }
}

fn etcd(rest: &str) -> Result<EtcdConfig, String> {
    let (addresses, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut members = Vec::new();
    for address in addresses.trim_end_matches('/').split(',') {
        if let Err(error) = wire::address::split(address) {
            return Err(format!("{address:?} is not HOST:PORT: {error}; write {FORMS}"));
        }
        members.push(format!("http://{address}"));
    }
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
        for path in ["file:/etc/services.toml", "file:///etc/services.toml"] {
            let RegistryConfig::File { path } = path.parse::<RegistryUrl>().unwrap().config else {
                panic!("{path}");
            };
            assert_eq!(path.to_str(), Some("/etc/services.toml"));
        }
    }

    #[test]
    fn says_what_to_write() {
        for wrong in ["127.0.0.1:2379", "etcd://h", "etcd://", "etcd://h:1?lay=x", "file:"] {
            let error = wrong.parse::<RegistryUrl>().unwrap_err();
            assert!(error.contains("write etcd://"), "{error}");
        }
    }
}
