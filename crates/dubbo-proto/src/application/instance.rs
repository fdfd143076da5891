//! Where an application runs.
//!
//! Two forms are met. In ZooKeeper it is Curator's record, with Dubbo's own in its payload; in
//! etcd it is Dubbo's record alone.

use parameters::Parameters;
use serde_json::{Value, json};

use super::{ApplicationError, is_application, object, port, text, texts, wrong};
use crate::DubboUrl;
use crate::url::is_host;

/// The longest record: one with a thousand parameters stays below.
const MAX_LEN: usize = 256 << 10;

/// The longest revision.
const MAX_REVISION_LEN: usize = 128;

const REVISION: &str = "dubbo.metadata.revision";
const STORAGE: &str = "dubbo.metadata.storage-type";
/// The ports of an instance, each with its protocol.
pub(super) const ENDPOINTS: &str = "dubbo.endpoints";
const URL_PARAMS: &str = "dubbo.metadata-service.url-params";
/// What Spring Cloud Alibaba writes in the place of [`URL_PARAMS`].
const URLS: &str = "dubbo.metadata-service.urls";
/// The revision of an instance that offers nothing.
const EMPTY: &str = "0";
/// The class by which Java's Curator reads the payload.
const PAYLOAD_CLASS: &str = "org.apache.dubbo.registry.zookeeper.ZookeeperInstance";

/// One running instance of an application.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Instance {
    /// The application's name.
    pub application: String,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port of one of its protocols.
    pub port: u16,
    /// Whether it says that it may be used.
    pub is_enabled: bool,
    /// What it says of itself, by Dubbo's names.
    pub metadata: Parameters,
}

/// Where the metadata of an instance are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Storage {
    /// The instance is asked.
    #[default]
    Local,
    /// In the metadata report.
    Remote,
}

impl Storage {
    fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

/// Where an instance tells its metadata.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MetadataAddress {
    /// What is spoken there, such as `dubbo`.
    pub protocol: String,
    /// Its port; the host is that of the instance.
    pub port: u16,
    /// All parameters, such as the serialization.
    pub params: Parameters,
}

/// Whether this can be a revision: it becomes a part of paths. Dubbo's are sums in hexadecimal.
fn is_revision(text: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    text.len() <= MAX_REVISION_LEN && text.chars().all(is_good)
}

impl Instance {
    /// Reads either form.
    ///
    /// # Errors
    /// [`ApplicationError`] with what is wrong with it.
    pub fn parse(record: &[u8]) -> Result<Self, ApplicationError> {
        let root = object(record, MAX_LEN)?;
        let is_curators = root.get("payload").is_some_and(|payload| !payload.is_null());
        let (name, host, metadata) = match is_curators {
            true => {
                let metadata = root.get("payload").and_then(|payload| payload.get("metadata"));
                (text(&root, "name"), text(&root, "address"), metadata)
            }
            false => (text(&root, "serviceName"), text(&root, "host"), root.get("metadata")),
        };
        let is_off = |name| root.get(name).and_then(Value::as_bool) == Some(false);
        let instance = Self {
            application: name.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: root.get("port").and_then(port).unwrap_or_default(),
            is_enabled: !is_off("enabled") && !is_off("healthy"),
            metadata: texts(metadata),
        };
        instance.check()?;
        Ok(instance)
    }

    /// Whether this can be an instance, however it was written.
    ///
    /// # Errors
    /// [`ApplicationError`] with what is wrong with it.
    pub fn check(&self) -> Result<(), ApplicationError> {
        if !is_application(&self.application) {
            return Err(wrong("the application's name"));
        }
        if self.host.is_empty() || !is_host(&self.host) {
            return Err(wrong("the host"));
        }
        if !self.metadata.get(REVISION).is_none_or(is_revision) {
            return Err(wrong("the revision"));
        }
        match self.port {
            0 => Err(wrong("the port")),
            _ => Ok(()),
        }
    }

    /// Which metadata it has; `None` if it offers nothing.
    #[must_use]
    pub fn revision(&self) -> Option<&str> {
        self.metadata.get(REVISION).filter(|revision| !revision.is_empty() && *revision != EMPTY)
    }

    /// Where its metadata are.
    #[must_use]
    pub fn storage(&self) -> Storage {
        match self.metadata.get(STORAGE) {
            Some("remote") => Storage::Remote,
            _ => Storage::Local,
        }
    }

    /// Where it tells its metadata. One that does not say so is asked at its own port.
    ///
    /// # Errors
    /// [`ApplicationError`] if what it says cannot be read.
    pub fn metadata_address(&self) -> Result<MetadataAddress, ApplicationError> {
        if let Some(urls) = self.metadata.get(URLS) {
            let urls: Vec<String> =
                serde_json::from_str(urls).map_err(|_| wrong("the list of metadata URLs"))?;
            let url = urls.first().and_then(|url| url.parse::<DubboUrl>().ok());
            let url = url.filter(|url| url.port != 0).ok_or(wrong("the metadata URL"))?;
            let DubboUrl { protocol, port, params, .. } = url;
            return Ok(MetadataAddress { protocol, port, params });
        }
        let Some(params) = self.metadata.get(URL_PARAMS).filter(|text| !text.is_empty()) else {
            let (protocol, params) = ("dubbo".to_owned(), Parameters::default());
            return Ok(MetadataAddress { protocol, port: self.port, params });
        };
        let params = object(params.as_bytes(), MAX_LEN)?;
        let port = params.get("port").and_then(port).ok_or(wrong("the metadata service's port"))?;
        let protocol = text(&params, "protocol").to_owned();
        Ok(MetadataAddress { protocol, port, params: texts(Some(&params)) })
    }

    /// The port of a protocol, as the instance itself says. `None` if it does not list the
    /// protocol.
    #[must_use]
    pub fn port_of(&self, protocol: &str) -> Option<u16> {
        let endpoints = serde_json::from_str::<Value>(self.metadata.get(ENDPOINTS)?).ok()?;
        let mut endpoints = endpoints.as_array()?.iter();
        let of_protocol = endpoints.find(|endpoint| text(endpoint, "protocol") == protocol)?;
        of_protocol.get("port").and_then(port)
    }

    /// An instance that offers `revision` by Dubbo TCP, and tells its metadata there itself, also
    /// if it says that they are in the metadata report. `params` are those of its metadata
    /// service.
    #[must_use]
    pub fn offering(
        application: &str,
        host: &str,
        port: u16,
        revision: &str,
        storage: Storage,
        params: &Parameters,
    ) -> Self {
        let params = params.with("port", &port.to_string()).with("protocol", "dubbo");
        let endpoints = json!([{ "port": port, "protocol": "dubbo" }]);
        let metadata = Parameters::from([
            (REVISION, revision),
            (STORAGE, storage.name()),
            (ENDPOINTS, &endpoints.to_string()),
            (URL_PARAMS, &json!(params).to_string()),
        ]);
        let (application, host) = (application.to_owned(), host.to_owned());
        Self { application, host, port, is_enabled: true, metadata }
    }

    /// Its name among the instances of its application.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The record as it is in ZooKeeper. `since_1970_ms` is when it was registered.
    #[must_use]
    pub fn curator_record(&self, since_1970_ms: u64) -> String {
        let Self { application, host, port, metadata, .. } = self;
        let id = self.id();
        let payload = json!({
            "@class": PAYLOAD_CLASS, "id": id, "name": application, "metadata": metadata,
        });
        json!({
            "name": application, "id": id, "address": host, "port": port, "sslPort": null,
            "payload": payload, "registrationTimeUTC": since_1970_ms, "serviceType": "DYNAMIC",
            "uriSpec": null,
        })
        .to_string()
    }

    /// The record as it is in etcd.
    #[must_use]
    pub fn plain_record(&self) -> String {
        let Self { application, host, port, is_enabled, metadata } = self;
        json!({
            "serviceName": application, "host": host, "port": port, "enabled": is_enabled,
            "healthy": true, "metadata": metadata,
        })
        .to_string()
    }
}
