//! Instances, and the lists of them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use parameters::Parameters;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Instances of one service that are read at most.
pub const MAX_HOSTS: usize = 20_000;

/// Names of services that are read at most.
pub const MAX_NAMES: usize = 100_000;

/// Metadata of one instance that are read at most: Dubbo's URLs have no more parameters.
pub const MAX_METADATA: usize = 1024;

/// The longest metadata of an instance that a server takes: keys and values together, in
/// characters. Source: `ParamCheckRule.maxMetadataLength`, checked from Nacos 2.3 on.
pub const MAX_METADATA_LEN: usize = 1024;

/// As much as is kept of a bad instance's address, and of what is wrong with it, in characters.
const MAX_LINE_LEN: usize = 200;

/// One instance of a service. Source: `com.alibaba.nacos.api.naming.pojo.Instance`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Host or address.
    pub ip: String,
    /// Port of the service.
    #[serde(default)]
    pub port: u16,
    /// Share of the traffic, 1 unless somebody changed it.
    #[serde(default = "one")]
    pub weight: f64,
    /// Whether the server has heard of it lately.
    #[serde(default = "yes")]
    pub healthy: bool,
    /// Whether it may be called: an operator's switch.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Whether it ends with the connection of who registered it.
    #[serde(default = "yes")]
    pub ephemeral: bool,
    /// The part of the estate that it is in; `DEFAULT` for most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// `GROUP@@name` in what servers say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// What it says about itself. Values that are no texts are left out.
    #[serde(default, deserialize_with = "texts")]
    pub metadata: Parameters,
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Parameters, D::Error> {
    struct Texts;
    impl<'de> Visitor<'de> for Texts {
        type Value = Parameters;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "metadata of at most {MAX_METADATA} entries")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Parameters::default())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut texts = BTreeMap::<String, String>::new();
            while let Some(name) = map.next_key::<String>()? {
                let text = match map.next_value()? {
                    Value::String(text) => text,
                    Value::Number(number) => number.to_string(),
                    Value::Bool(bool) => bool.to_string(),
                    Value::Null | Value::Array(_) | Value::Object(_) => continue,
                };
                if MAX_METADATA <= texts.len() {
                    return Err(serde::de::Error::invalid_length(texts.len() + 1, &self));
                }
                texts.insert(name, text);
            }
            Ok(texts.into_iter().collect())
        }
    }
    from.deserialize_any(Texts)
}

impl Instance {
    /// One that is well, of weight 1, and says nothing about itself.
    #[must_use]
    pub fn new(ip: &str, port: u16) -> Self {
        Self {
            ip: ip.to_owned(),
            port,
            weight: one(),
            healthy: true,
            enabled: true,
            ephemeral: true,
            cluster_name: None,
            service_name: None,
            metadata: Parameters::default(),
        }
    }

    /// How much of [`MAX_METADATA_LEN`] the metadata take.
    #[must_use]
    pub fn metadata_len(&self) -> usize {
        let len = |text: &str| text.encode_utf16().count();
        self.metadata.iter().map(|(name, value)| len(name) + len(value)).sum()
    }

    /// The weight, between 0 and 10,000, which is the greatest that Nacos takes. What is no
    /// number counts as 1.
    #[must_use]
    pub fn bounded_weight(&self) -> f64 {
        if self.weight.is_nan() { one() } else { self.weight.clamp(0.0, 10_000.0) }
    }
}

/// An entry of a list that is no instance.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BadHost {
    /// What tells it from others, wherever it is in the list: its address if it has one.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

/// An entry of a list.
pub type Host = Result<Instance, BadHost>;

/// All instances of a service. Source: `com.alibaba.nacos.api.naming.pojo.ServiceInfo`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceInfo {
    /// The name of the service, without its group.
    pub name: String,
    /// Its group.
    pub group: String,
    /// The clusters that were asked for, separated by commas.
    pub clusters: String,
    /// Its instances, [`MAX_HOSTS`] at most.
    pub hosts: Vec<Host>,
    /// How many instances were left out.
    pub n_cut: usize,
    /// When the server made the list, by its clock, in milliseconds since 1970.
    pub last_ref_time: i64,
    /// So few instances are healthy that the server gives out all of them as such.
    pub is_protected: bool,
}

impl ServiceInfo {
    /// Takes over the metadata that a list before this has as well: a server tells the whole list
    /// with each change, and most of it is what it was.
    pub fn share_with(&mut self, before: &Self) {
        let by_address = before.hosts.iter().flatten().map(|it| ((&*it.ip, it.port), &it.metadata));
        let by_address: HashMap<_, _> = by_address.collect();
        for host in self.hosts.iter_mut().flatten() {
            let known = by_address.get(&(&*host.ip, host.port));
            if let Some(known) = known.filter(|known| ***known == host.metadata) {
                host.metadata = (*known).clone();
            }
        }
    }
}

/// The instances of a list. Each is read for itself as soon as its end is found: a list may be
/// long, and a bad one must not take the others away.
#[derive(Default)]
struct Hosts {
    read: Vec<Host>,
    n_cut: usize,
}

impl<'de> Deserialize<'de> for Hosts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Hosts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of instances")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Hosts, A::Error> {
                let mut hosts = Hosts::default();
                while let Some(text) = list.next_element::<Box<RawValue>>()? {
                    if MAX_HOSTS <= hosts.read.len() {
                        hosts.n_cut += 1;
                        continue;
                    }
                    let read = serde_json::from_str(text.get());
                    hosts.read.push(read.map_err(|error| BadHost::new(text.get(), &error)));
                }
                hosts.read.shrink_to_fit();
                Ok(hosts)
            }
        }
        from.deserialize_seq(Each)
    }
}

impl BadHost {
    fn new(text: &str, error: &serde_json::Error) -> Self {
        #[derive(Deserialize)]
        struct AddressJson {
            ip: String,
            #[serde(default)]
            port: Value,
        }
        let name = match serde_json::from_str(text) {
            Ok(AddressJson { ip, port }) => line(&format!("{ip}:{port}")),
            Err(_) => {
                let mut hasher = DefaultHasher::new();
                text.hash(&mut hasher);
                format!("#{:016x}", hasher.finish())
            }
        };
        Self { name, reason: line(&error.to_string()) }
    }
}

/// A line that is not longer than anybody reads.
fn line(text: &str) -> String {
    text.chars().take(MAX_LINE_LEN).collect()
}

impl<'de> Deserialize<'de> for ServiceInfo {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct ServiceInfoJson {
            name: Option<String>,
            group_name: Option<String>,
            clusters: Option<String>,
            hosts: Option<Hosts>,
            last_ref_time: Option<i64>,
            reach_protection_threshold: Option<bool>,
        }
        let written = ServiceInfoJson::deserialize(from)?;
        let Hosts { read, n_cut } = written.hosts.unwrap_or_default();
        // Old servers write the group before the name.
        let name = written.name.unwrap_or_default();
        let (before, name) = match name.split_once("@@") {
            Some((group, name)) => (Some(group.to_owned()), name.to_owned()),
            None => (None, name),
        };
        Ok(Self {
            name,
            group: written.group_name.or(before).unwrap_or_default(),
            clusters: written.clusters.unwrap_or_default(),
            hosts: read,
            n_cut,
            last_ref_time: written.last_ref_time.unwrap_or_default(),
            is_protected: written.reach_protection_threshold.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody keeps the same metadata twice, and nobody keeps old ones.
    #[test]
    fn what_stays_as_it_was_is_shared_with_the_list_before() {
        let list = |x: u8, y: u8| -> ServiceInfo {
            let host = |port, n| format!(r#"{{"ip":"h","port":{port},"metadata":{{"n":"{n}"}}}}"#);
            let text = format!(r#"{{"hosts":[{},7,{}]}}"#, host(1, x), host(2, y));
            serde_json::from_str(&text).unwrap()
        };
        let (before, mut now, told) = (list(1, 2), list(1, 3), list(1, 3));
        now.share_with(&before);
        assert_eq!(now, told);
        let is_shared = |at: usize| {
            let [one, other] = [&before, &now].map(|it| &it.hosts[at].as_ref().unwrap().metadata);
            one.is_shared_with(other)
        };
        assert!(is_shared(0) && !is_shared(2));
    }

    #[test]
    fn reads_what_a_server_pushes() {
        let text = r#"{"name":"providers:a.B::","groupName":"DEFAULT_GROUP","clusters":"",
            "cacheMillis":10000,"hosts":[{"instanceId":"10.0.0.1#20880#DEFAULT#x","ip":"10.0.0.1",
            "port":20880,"weight":2.5,"healthy":false,"enabled":true,"ephemeral":true,
            "clusterName":"DEFAULT","serviceName":"DEFAULT_GROUP@@providers:a.B::",
            "metadata":{"protocol":"dubbo","n":3,"no":null,"deep":{"x":[]}},
            "instanceHeartBeatInterval":5000},{"ip":7},{"ip":"10.0.0.2","port":70000},
            {"ip":"10.0.0.3","port":["x"]}],
            "lastRefTime":1700000000000,"checksum":"","allIPs":false,
            "reachProtectionThreshold":true,"valid":true}"#;
        let info: ServiceInfo = serde_json::from_str(text).unwrap();
        assert_eq!((info.name.as_str(), info.group.as_str()), ("providers:a.B::", "DEFAULT_GROUP"));
        assert!(info.is_protected && info.last_ref_time == 1_700_000_000_000);
        let first = info.hosts[0].as_ref().unwrap();
        assert_eq!((first.port, first.weight, first.healthy), (20880, 2.5, false));
        let metadata: Vec<_> = first.metadata.iter().collect();
        assert_eq!(metadata, [("n", "3"), ("protocol", "dubbo")]);
        let bad: Vec<_> = info.hosts.iter().filter_map(|host| host.as_ref().err()).collect();
        let names: Vec<_> = bad.iter().map(|bad| bad.name.as_str()).collect();
        assert!(names[0].starts_with('#'), "{names:?}");
        assert_eq!(names[1..], ["10.0.0.2:70000", "10.0.0.3:[\"x\"]"]);
        // The same one has the same name, wherever it is.
        let moved: ServiceInfo = serde_json::from_str(r#"{"hosts":[1,2,3,{"ip":7}]}"#).unwrap();
        assert_eq!(moved.hosts[3].as_ref().unwrap_err().name, names[0]);
    }

    #[test]
    fn weights_that_are_absurd_are_bounded() {
        let bounded = |weight| Instance { weight, ..Instance::new("h", 1) }.bounded_weight();
        assert_eq!([f64::NAN, -3.0, 1e300, 0.5].map(bounded), [1.0, 0.0, 10_000.0, 0.5]);
    }

    #[test]
    fn metadata_without_end_make_one_bad_instance() {
        let entries = |n: usize| (0..n).map(|n| (format!("k{n}"), n.into())).collect();
        let host =
            |n| serde_json::json!({"ip": "h", "port": 1, "metadata": Value::Object(entries(n))});
        let hosts = [host(MAX_METADATA), host(MAX_METADATA + 1), host(1)];
        let info: ServiceInfo =
            serde_json::from_value(serde_json::json!({"name": "s", "hosts": hosts})).unwrap();
        let lens = |host: &Host| host.as_ref().ok().map(|it| it.metadata.len());
        assert_eq!(info.hosts.iter().map(lens).collect::<Vec<_>>(), [Some(1024), None, Some(1)]);
        let deep = format!(r#"{{"ip":"h","metadata":{{"k":{}1}}}}"#, "[".repeat(100_000));
        assert!(serde_json::from_str::<Instance>(&deep).is_err());
    }

    #[test]
    fn a_list_that_is_too_long_is_cut() {
        let hosts = vec![serde_json::json!({"ip": "h", "port": 1}); MAX_HOSTS + 3];
        let info: ServiceInfo =
            serde_json::from_value(serde_json::json!({"name": "g@@s", "hosts": hosts})).unwrap();
        assert_eq!((info.hosts.len(), info.n_cut), (MAX_HOSTS, 3));
        assert_eq!((info.name.as_str(), info.group.as_str()), ("s", "g"));
    }

    #[test]
    fn written_and_read_again_an_instance_is_the_same() {
        let mut instance = Instance::new("10.0.0.1", 20880);
        instance.metadata = [("k", "é")].into();
        assert_eq!(instance.metadata_len(), 2);
        let text = serde_json::to_string(&instance).unwrap();
        assert_eq!(serde_json::from_str::<Instance>(&text).unwrap(), instance);
    }
}
