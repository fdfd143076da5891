//! Where a service is, as arguments of commands that deal with one service.

use std::path::PathBuf;
use std::time::Duration;

use agent::description;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use dubbo_proto::{DubboUrl, Serialization, ServiceKey, without_credentials};
use registry::{
    DefinitionSources, Endpoint, MemoryHub, Protocol, Registered, Registration, Registry,
    RegistryConfig, RegistryError, Subscription,
};

use crate::registry_url::RegistryUrl;

/// Where a provider listens unless its URL says otherwise.
const DUBBO_PORT: u16 = 20880;

/// Where the service is: exactly one of the two.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct LocationArgs {
    /// One endpoint: dubbo://HOST:PORT of a provider, or link://HOST:PORT of an agent
    #[arg(long, value_name = "URL", value_parser = endpoint_url)]
    url: Option<DubboUrl>,
    /// The registry with the endpoints: etcd://HOST:PORT[?layout=contest],
    /// zookeeper://HOST:PORT[/CHROOT], nacos://HOST:PORT[?namespace=ID],
    /// kubernetes://HOST:PORT[/NAMESPACE],
    /// or file:PATH
    #[arg(long, value_name = "URL")]
    registry: Option<RegistryUrl>,
}

/// Which of the services there, and where its definition is.
#[derive(Args, Debug)]
pub(crate) struct VariantArgs {
    /// The service's version
    #[arg(long = "version", value_name = "VERSION")]
    service_version: Option<String>,
    /// The service's group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// A folder with definitions of services, INTERFACE.json
    #[arg(long, value_name = "FOLDER", value_parser = PathBufValueParser::new().try_map(folder))]
    definitions: Option<PathBuf>,
    /// The first part of the paths of Dubbo's metadata report; dubbo by default
    #[arg(long, value_name = "NAME")]
    metadata_root: Option<String>,
}

impl VariantArgs {
    /// For commands that need no definition.
    pub(crate) fn of(service_version: Option<String>, group: Option<String>) -> Self {
        Self { service_version, group, definitions: None, metadata_root: None }
    }
}

/// A registry that is open.
pub(crate) struct ServiceLocation {
    pub(crate) registry: Registry,
    /// How the user called it.
    pub(crate) name: String,
    /// Keeps a single endpoint registered.
    _registered: Option<Registered>,
}

/// Reads an address that is no URL.
pub(crate) fn plain_address(text: &str) -> Result<String, String> {
    if text.contains('@') && !text.starts_with("unix:") {
        return Err("an address has no user and password before an @".to_owned());
    }
    if let Some((scheme, rest)) = text.split_once("://")
        && !text.starts_with("unix:")
    {
        let place = rest.split(['/', '?']).next().unwrap_or_default();
        let place = wire::address::split(place).map_or("HOST:PORT", |_| place);
        return Err(format!("write {place}, without {scheme}://"));
    }
    Ok(text.to_owned())
}

/// Reads the `HOST:PORT` of a server, which is never a Unix socket.
pub(crate) fn server_address(text: &str) -> Result<String, String> {
    let text = plain_address(text)?;
    match wire::address::split(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(format!("{error}; write HOST:PORT")),
    }
}

/// A folder that is there.
fn folder(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path.is_dir() {
        true => Ok(path),
        false => Err("it is not a folder; name a folder with INTERFACE.json files"),
    }
}

pub(crate) fn endpoint_url(text: &str) -> Result<DubboUrl, String> {
    const FORMS: &str = "write dubbo://HOST:PORT or link://HOST:PORT";
    let mut url: DubboUrl = text.parse().map_err(|error| format!("{error}; {FORMS}"))?;
    let protocol = Protocol::from_scheme(&url.protocol);
    if protocol == Some(Protocol::Dubbo) && url.port == 0 {
        url.port = DUBBO_PORT;
    }
    if protocol.is_none() || url.host.is_empty() || url.port == 0 {
        return Err(FORMS.to_owned());
    }
    Ok(url)
}

impl LocationArgs {
    /// What is meant. A whole URL, as it is in a registry, tells version and group, too.
    pub(crate) fn service(
        &self,
        interface: &str,
        variant: &VariantArgs,
    ) -> Result<ServiceKey, dubbo_proto::ProtoError> {
        let in_url = |name| self.url.as_ref().and_then(|url| url.params.get(name));
        let version = variant.service_version.as_deref().or_else(|| in_url("version"));
        let group = variant.group.as_deref().or_else(|| in_url("group"));
        ServiceKey::new(interface, version.unwrap_or_default(), group.unwrap_or_default())
    }

    /// Whether one endpoint was named, rather than a registry.
    pub(crate) fn endpoint(&self) -> Option<(&str, u16)> {
        self.url.as_ref().map(|url| (&*url.host, url.port))
    }

    /// What to do if the registry cannot be read.
    pub(crate) fn remedy(&self) -> &'static str {
        self.registry.as_ref().map_or("check --url", RegistryUrl::remedy)
    }

    /// Opens the registry. A single endpoint is the one entry of a registry of its own.
    pub(crate) fn open(
        &self,
        service: &ServiceKey,
        variant: &VariantArgs,
        serialization: Option<Serialization>,
    ) -> Result<ServiceLocation, RegistryError> {
        let mut sources = DefinitionSources {
            folder: variant.definitions.clone(),
            ..DefinitionSources::default()
        };
        if let Some(root) = &variant.metadata_root {
            sources.report_root.clone_from(root);
        }
        let Some(url) = &self.url else {
            let (config, name) = match &self.registry {
                Some(url) => (url.config.clone(), url.text.clone()),
                None => (RegistryConfig::Memory(MemoryHub::new()), String::new()),
            };
            let registry = Registry::open_with(config, sources)?;
            return Ok(ServiceLocation { registry, name, _registered: None });
        };
        let hub = RegistryConfig::Memory(MemoryHub::new());
        let registry = Registry::open_with(hub, sources)?;
        let registration = Registration {
            service: service.clone(),
            endpoint: endpoint(url, serialization),
            methods: Vec::new(),
            app_address: None,
        };
        let registered = registry.register(&registration)?;
        let name = without_credentials(&url.to_string());
        Ok(ServiceLocation { registry, name, _registered: Some(registered) })
    }
}

/// What a URL names, and tells of its path and token. It is the only endpoint, whatever its
/// weight.
fn endpoint(url: &DubboUrl, serialization: Option<Serialization>) -> Endpoint {
    let plain = Endpoint::new(Protocol::Dubbo, &url.host, url.port);
    let listed = Endpoint::of_url(url.clone()).unwrap_or_else(|| plain.clone());
    let mut endpoint = Endpoint { weight: plain.weight, warm_up: None, ..listed };
    if let Some(chosen) = serialization {
        endpoint.serializations = vec![chosen];
        if let Some((major, minor)) = chosen.since() {
            // In a registration, its name means this one from that release on.
            let release = format!("{major}.{minor}.0");
            endpoint.params = endpoint.params.with("release", &release);
        }
    }
    endpoint
}

impl ServiceLocation {
    /// Waits for the first list of a service's endpoints; says why if the registry has not
    /// answered within `limit`.
    pub(crate) async fn first_list(
        &self,
        subscription: &Subscription,
        limit: Duration,
    ) -> Option<String> {
        description::first_list(&self.registry, &self.name, subscription, limit).await.err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_tells_what_it_would_tell_in_a_registry() {
        let text = "dubbo://h:1/ctx/a.B?token=s3cret&timeout=700&weight=0&timestamp=1&\
                    serialization=fastjson2";
        let of = |chosen| endpoint(&endpoint_url(text).unwrap(), chosen);
        let listed = of(None);
        assert_eq!(listed.params.get("path"), Some("ctx/a.B"));
        assert_eq!(listed.params.get("token"), Some("s3cret"));
        assert_eq!(listed.timeout, Some(Duration::from_millis(700)));
        assert_eq!(listed.serializations.first(), Some(&Serialization::Fastjson2));
        assert!(0 < listed.weight && listed.warm_up.is_none());
        let chosen = of(Some(Serialization::Hessian2));
        assert_eq!(chosen.serializations, [Serialization::Hessian2]);
        let bare = endpoint(&endpoint_url("dubbo://h:1").unwrap(), None);
        assert_eq!(bare.params.get("path"), None);
    }

    #[test]
    fn an_address_is_no_url() {
        for good in ["127.0.0.1:9700", "unix:/run/a.sock", "unix:///run/a.sock"] {
            assert_eq!(plain_address(good).as_deref(), Ok(good));
        }
        for (wrong, told) in [
            ("http://127.0.0.1:9700", "write 127.0.0.1:9700, without http://"),
            ("https://h:1/services?x", "write h:1, without https://"),
            ("http://h", "write HOST:PORT, without http://"),
        ] {
            assert_eq!(plain_address(wrong), Err(told.to_owned()));
        }
    }

    #[test]
    fn urls_name_one_endpoint() {
        let url = endpoint_url("dubbo://10.0.0.1").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("10.0.0.1", DUBBO_PORT));
        assert_eq!(endpoint_url("link://[::1]:30000").unwrap().port, 30000);
        for wrong in ["http://h:1", "link://h", "dubbo://", "h:1", "dubbo://:1"] {
            assert!(endpoint_url(wrong).unwrap_err().contains("dubbo://HOST:PORT"), "{wrong}");
        }
    }
}
