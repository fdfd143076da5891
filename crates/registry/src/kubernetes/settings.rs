//! The checked configuration of a registry in Kubernetes, and who we are there.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fmt, io};

use dubbo_proto::without_credentials;
use wire::file::FileWork;
use wire::{Destination, SocketOptions};

use crate::config::KubernetesConfig;
use crate::error::RegistryError;
use crate::registry_tls::RenewedTls;

use super::objects::{ObjectKind, ObjectName};
use super::state::Mapped;

/// Where a pod finds who it is.
const IDENTITY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// All namespaces.
const ANY: &str = "*";

/// The longest token; those of service accounts have some 1,200 bytes.
const MAX_TOKEN_LEN: u64 = 64 << 10;
/// Many times what the name of a namespace may have.
const MAX_NAMESPACE_LEN: u64 = 4096;

/// What [`KubernetesSettings::new`] has checked.
pub(super) struct KubernetesSettings {
    pub(super) destination: Destination,
    pub(super) tls: Option<RenewedTls>,
    /// `host:port`, as HTTP has it.
    pub(super) host: String,
    /// Read for each request, since it is replaced before it expires.
    token_file: Option<PathBuf>,
    token_work: FileWork,
    /// `None` for all.
    namespace: Option<String>,
    label_selector: Option<String>,
    pub(super) reads_annotations: bool,
    pub(super) mapped: Vec<Mapped>,
    pub(super) connect_timeout: Duration,
    pub(super) request_timeout: Duration,
}

impl fmt::Debug for KubernetesSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesSettings").field("host", &self.host).finish_non_exhaustive()
    }
}

impl KubernetesSettings {
    pub(super) fn new(config: KubernetesConfig) -> Result<Self, RegistryError> {
        let is_in_cluster = config.server.is_none();
        let server = match config.server {
            Some(server) => server,
            None => own_server().ok_or(RegistryError::NotInCluster)?,
        };
        let (is_tls, address) = split(&server)?;
        let (host, port) = wire::address::split(address).map_err(|_| {
            RegistryError::BadKubernetesServer { server: without_credentials(&server) }
        })?;
        let identity = |name: &str| Path::new(IDENTITY).join(name);
        let mut files = config.tls;
        if is_in_cluster && files.ca_file.is_none() {
            files.ca_file = Some(identity("ca.crt"));
        }
        let tls = if is_tls { Some(files.load(&[])?) } else { None };
        let token_file = config.token_file.or_else(|| is_in_cluster.then(|| identity("token")));
        let namespace = match config.namespace {
            Some(namespace) => namespace,
            None if is_in_cluster => own_namespace(&identity("namespace"))?,
            None => "default".to_owned(),
        };
        if namespace != ANY && !is_label(&namespace) {
            return Err(RegistryError::BadNamespace { found: namespace });
        }
        let namespace = Some(namespace).filter(|namespace| namespace != ANY);
        let mapped = config.services.into_iter().map(|it| {
            let name = it.name;
            let Some(namespace) = it.namespace.or_else(|| namespace.clone()) else {
                return Err(RegistryError::NoNamespace { name });
            };
            let of = ObjectName { namespace, name };
            Ok(Mapped { service: it.service, of, port: it.port })
        });
        Ok(Self {
            mapped: mapped.collect::<Result<_, _>>()?,
            destination: Destination::Tcp {
                host: host.to_owned(),
                port,
                options: SocketOptions::default(),
                tls: tls.clone(),
            },
            tls: tls.map(|tls| RenewedTls::new(tls, "Kubernetes")),
            host: address.to_owned(),
            token_file,
            token_work: FileWork::default(),
            namespace,
            label_selector: config.label_selector,
            reads_annotations: config.annotations,
            connect_timeout: config.connect_timeout,
            request_timeout: config.request_timeout,
        })
    }

    /// The path of all objects of a kind, with these parameters.
    pub(super) fn path(&self, kind: ObjectKind, params: &[(&str, &str)]) -> String {
        let (api, objects) = match kind {
            ObjectKind::Slices => ("/apis/discovery.k8s.io/v1", "endpointslices"),
            ObjectKind::Services => ("/api/v1", "services"),
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(params);
        if let Some(selector) = &self.label_selector {
            query.append_pair("labelSelector", selector);
        }
        let query = query.finish();
        match &self.namespace {
            Some(namespace) => format!("{api}/namespaces/{namespace}/{objects}?{query}"),
            None => format!("{api}/{objects}?{query}"),
        }
    }

    /// The token of now, if one is needed.
    pub(super) async fn token(&self) -> io::Result<Option<String>> {
        let Some(path) = self.token_file.clone() else { return Ok(None) };
        let read = move || wire::file::read_text(&path, MAX_TOKEN_LEN);
        let read = self.token_work.run(self.request_timeout, read).await.and_then(|read| read);
        let token = read.map_err(|error| {
            let path = self.token_file.as_deref().unwrap_or(Path::new("")).display();
            io::Error::new(error.kind(), format!("cannot read {path}: {error}"))
        });
        Ok(Some(token?.trim().to_owned()))
    }
}

/// The API server, as pods are told of it.
fn own_server() -> Option<String> {
    let host = env::var("KUBERNETES_SERVICE_HOST").ok()?;
    let port = env::var("KUBERNETES_SERVICE_PORT_HTTPS");
    let port = port.or_else(|_| env::var("KUBERNETES_SERVICE_PORT")).ok()?.parse().ok()?;
    Some(format!("https://{}", wire::address::join(&host, port)))
}

fn split(server: &str) -> Result<(bool, &str), RegistryError> {
    let whole = server.trim_end_matches('/');
    let tls = whole.strip_prefix("https://").map(|rest| (true, rest));
    let plain = || whole.strip_prefix("http://").map(|rest| (false, rest));
    let bad = || RegistryError::BadKubernetesServer { server: without_credentials(server) };
    tls.or_else(plain).ok_or_else(bad)
}

fn own_namespace(path: &Path) -> Result<String, RegistryError> {
    let text = wire::file::read_text(path, MAX_NAMESPACE_LEN);
    let text = text.map_err(|source| RegistryError::Read { path: path.to_owned(), source })?;
    Ok(text.trim().to_owned())
}

fn is_label(name: &str) -> bool {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 63 && name.chars().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::KubernetesService;

    fn settings(change: impl FnOnce(&mut KubernetesConfig)) -> Result<KubernetesSettings, String> {
        let mut config = KubernetesConfig::new();
        config.server = Some("http://127.0.0.1:8001".to_owned());
        change(&mut config);
        KubernetesSettings::new(config).map_err(|error| error.to_string())
    }

    #[test]
    fn paths_name_the_namespace_and_the_selector() {
        let one = settings(|_| {}).unwrap();
        let path = one.path(ObjectKind::Slices, &[("limit", "5")]);
        assert_eq!(path, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?limit=5");
        let all = settings(|config| {
            config.namespace = Some("*".into());
            config.label_selector = Some("mesh=a b&c".into());
        });
        let path = all.unwrap().path(ObjectKind::Services, &[]);
        assert_eq!(path, "/api/v1/services?labelSelector=mesh%3Da+b%26c");
    }

    #[test]
    fn refuses_what_cannot_work_and_says_what_would() {
        let refused = |change: fn(&mut KubernetesConfig)| settings(change).map(|_| ()).unwrap_err();
        for server in ["127.0.0.1:80", "https://h", "ftp://h:1"] {
            let text = settings(|config| config.server = Some(server.into())).unwrap_err();
            assert!(text.contains("https://HOST:PORT"), "{text}");
        }
        let text = refused(|config| config.namespace = Some("../x".into()));
        assert!(text.contains("namespace \"../x\""), "{text}");
        let text = refused(|config| {
            config.namespace = Some("*".into());
            let service = "a.B".parse().unwrap();
            let name = "orders".to_owned();
            config.services =
                vec![KubernetesService { service, namespace: None, name, port: None }];
        });
        assert!(text.contains("NAMESPACE/orders"), "{text}");
        let text = refused(|config| {
            config.server = Some("https://127.0.0.1:1".into());
            config.tls.ca_file = Some("/no/such/ca.pem".into());
        });
        assert!(text.contains("/no/such/ca.pem"), "{text}");
    }
}
