//! The keys of sections that connect by TLS, or listen by it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use registry::RegistryTls;
use wire::Secured;
use wire::tls::{
    Certificate, ClientTls, ClientTlsConfig, Clients, Pem, Protocols, ServerTls, ServerTlsConfig,
    TlsError, read_file,
};

use super::certificates::{warn_of_authorities, warn_of_chain};
use super::defaults;
use super::section::Section;

/// The bit of a file's mode by which those may read it who neither own it nor are of its group.
const READ_BY_ALL: u32 = 0o004;

/// All of them.
pub(super) const TLS_KEYS: [&str; 4] = ["ca_file", "cert_file", "key_file", "server_name"];

/// Which files hold what TLS needs. Two of the same names are taken for the same.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsFiles {
    /// The authorities that the peer's certificate must come from; those of the system unless
    /// given.
    pub ca_file: Option<PathBuf>,
    /// Our certificate, and those between it and its authority.
    pub cert_file: Option<PathBuf>,
    /// Its private key.
    pub key_file: Option<PathBuf>,
    /// The name in the peer's certificate, where it is not its host.
    pub server_name: Option<String>,
}

impl TlsFiles {
    /// Those files that were named.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.ca_file, &self.cert_file, &self.key_file].into_iter().flatten()
    }
}

/// How this agent connects by TLS. Two of the same files are taken for the same.
#[derive(Clone, Debug)]
pub struct TlsClient {
    /// What was configured.
    pub files: TlsFiles,
    /// The same, loaded.
    pub client: ClientTls,
}

impl Eq for TlsClient {}

impl PartialEq for TlsClient {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl TlsClient {
    /// Uses the certificates that `new` has read, if it has read them from the same files.
    pub fn renew(&self, new: &Self) {
        if self == new {
            self.client.replace(&new.client);
        }
    }
}

/// Which endpoints are called by TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TlsEndpoints {
    /// Those that are registered with `ssl-enabled=true`, as Dubbo and agents with TLS register.
    Offering,
    /// All of them.
    All,
}

/// How the endpoints of a service are called by TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UpstreamTls {
    /// Which of them.
    pub endpoints: TlsEndpoints,
    /// For links, which have a name by ALPN.
    pub link: TlsClient,
    /// For Dubbo TCP, which has none.
    pub dubbo: TlsClient,
}

impl UpstreamTls {
    /// Uses the certificates that `new` has read, if it has read them from the same files.
    pub fn renew(&self, new: &Self) {
        self.link.renew(&new.link);
        self.dubbo.renew(&new.dubbo);
    }
}

/// How a listener speaks TLS. Two of the same files are taken for the same.
#[derive(Clone, Debug)]
pub struct ListenerTls {
    /// Certificate, key, and the authorities of clients.
    pub files: TlsFiles,
    /// Whether clients without a certificate are refused.
    pub requires_clients: bool,
    /// The settings, loaded, and how long a handshake may take.
    pub secured: Secured,
}

impl Eq for ListenerTls {}

impl PartialEq for ListenerTls {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
            && self.requires_clients == other.requires_clients
            && self.secured.timeout == other.secured.timeout
    }
}

impl ListenerTls {
    /// Uses the certificates that `new` has read, if it has read them from the same files.
    pub fn renew(&self, new: &Self) {
        if self == new {
            self.secured.tls.replace(&new.secured.tls);
        }
    }
}

/// Whether a text of the configuration is one of the words for endpoints.
const ENDPOINTS: [(&str, TlsEndpoints); 2] =
    [("offering", TlsEndpoints::Offering), ("all", TlsEndpoints::All)];
/// What is asked of clients whose authorities are named.
const CLIENTS: [(&str, bool); 2] = [("require", true), ("allow", false)];

/// Reads `[defaults.tls]` and `[cluster.tls]`: the TLS of endpoints.
pub(super) fn upstream_tls(mut section: Section<'_>, folder: &Path) -> Option<Arc<UpstreamTls>> {
    if !section.is_present() {
        return None;
    }
    let endpoints = section.choice("endpoints", &ENDPOINTS).unwrap_or(TlsEndpoints::Offering);
    let files = tls_files(&mut section, folder);
    let link = load_client(&section, &files, &[link::tls::ALPN]);
    let dubbo = link.as_ref().and_then(|_| load_client(&section, &files, &[]));
    section.finish();
    let (link, dubbo) = link.zip(dubbo)?;
    Some(Arc::new(UpstreamTls { endpoints, link, dubbo }))
}

/// Reads the keys of a client's TLS, and loads what they name. `protocols` go out by ALPN.
pub(super) fn tls_client(
    section: &mut Section<'_>,
    folder: &Path,
    protocols: Protocols,
) -> Option<TlsClient> {
    let files = tls_files(section, folder);
    load_client(section, &files, protocols)
}

/// The TLS of a registry. Its files are read again for each connection, but then nobody looks at
/// the terminal: what cannot be used is said now.
pub(super) fn registry_tls(section: &Section<'_>, files: TlsFiles) -> RegistryTls {
    if files != TlsFiles::default() {
        match ClientTls::new(client_config(&files), &[]) {
            // Inside Kubernetes there is another authority.
            Err(TlsError::NoSystemAuthorities) => {}
            client => drop(loaded(section, &files, client)),
        }
    }
    let TlsFiles { ca_file, cert_file, key_file, server_name } = files;
    RegistryTls { ca_file, cert_file, key_file, server_name }
}

fn load_client(section: &Section<'_>, files: &TlsFiles, protocols: Protocols) -> Option<TlsClient> {
    let client = loaded(section, files, ClientTls::new(client_config(files), protocols))?;
    Some(TlsClient { files: files.clone(), client })
}

fn client_config(files: &TlsFiles) -> ClientTlsConfig {
    ClientTlsConfig {
        ca: files.ca_file.as_ref().map_or_else(Pem::system, Pem::file),
        certificate: certificate(files),
        server_name: files.server_name.clone(),
    }
}

fn certificate(files: &TlsFiles) -> Option<Certificate> {
    let both = files.cert_file.as_ref().zip(files.key_file.as_ref());
    both.map(|(chain, key)| Certificate { chain: Pem::file(chain), key: Pem::file(key) })
}

/// Reads the section of a listener's TLS, such as `[ingress.tls]`. `protocols` are those that
/// clients may name by ALPN.
pub(super) fn listener_tls(
    mut section: Section<'_>,
    folder: &Path,
    protocols: Protocols,
) -> Option<ListenerTls> {
    if !section.is_present() {
        return None;
    }
    section.refuse(&["server_name"], "listeners do not check a server name");
    for (key, what) in [("cert_file", "the certificate"), ("key_file", "its private key")] {
        if !section.has(key) {
            let remedy = format!("write {key} = \"...\" with a PEM file of {what}");
            section.wrong(key, "is missing, and TLS needs it", remedy);
        }
    }
    let files = tls_files(&mut section, folder);
    let clients = section.choice("clients", &CLIENTS);
    if section.has("clients") && !section.has("ca_file") {
        let remedy = "add ca_file with the authorities of clients' certificates";
        section.wrong("clients", "has no effect without ca_file", remedy);
    }
    let requires_clients = clients.unwrap_or(true) && files.ca_file.is_some();
    let timeout =
        section.ms("handshake_timeout_ms", defaults::LONGEST, defaults::HANDSHAKE_TIMEOUT);
    let config = certificate(&files).map(|certificate| ServerTlsConfig {
        certificate,
        clients: match &files.ca_file {
            None => Clients::Unknown,
            Some(ca) if requires_clients => Clients::Require { ca: Pem::file(ca) },
            Some(ca) => Clients::Allow { ca: Pem::file(ca) },
        },
    });
    let tls = config.and_then(|config| loaded(&section, &files, ServerTls::new(config, protocols)));
    section.finish();
    Some(ListenerTls { files, requires_clients, secured: Secured { tls: tls?, timeout } })
}

/// What was loaded from `files`. Without it, something is said to be wrong: a section of TLS never
/// leaves its connections plain. A file that cannot be read is said once.
fn loaded<T>(section: &Section<'_>, files: &TlsFiles, loaded: Result<T, TlsError>) -> Option<T> {
    let error = match loaded {
        Ok(loaded) => return Some(loaded),
        Err(error) => error,
    };
    let key = key_of(&error, files);
    if !matches!(error, TlsError::Read { .. }) || !section.is_wrong(key) {
        section.wrong(key, error.to_string(), TLS_REMEDY);
    }
    None
}

const TLS_REMEDY: &str = "name PEM files: ca_file with the authorities that the peer's certificate \
                          comes from, cert_file and key_file with what we show ourselves";

/// The key that an error is about.
fn key_of(error: &TlsError, files: &TlsFiles) -> &'static str {
    match error {
        TlsError::ServerName(_) => "server_name",
        TlsError::NoKey { .. }
        | TlsError::KeyHasPassphrase { .. }
        | TlsError::BadKey { .. }
        | TlsError::KeyMismatch { .. } => "key_file",
        TlsError::BadCertificate { .. } => "cert_file",
        TlsError::Read { place, .. }
        | TlsError::NoCertificate { place }
        | TlsError::Malformed { place, .. } => {
            let is_of_certificate = matches!(error, TlsError::NoCertificate { .. });
            let is = |file: &Option<PathBuf>| file.as_ref().is_some_and(|it| is_at(it, place));
            match () {
                () if is(&files.cert_file) => "cert_file",
                // A certificate is looked for where certificates are.
                () if is_of_certificate && is(&files.ca_file) => "ca_file",
                () if is(&files.key_file) => "key_file",
                () => "ca_file",
            }
        }
        _ => "ca_file",
    }
}

fn is_at(file: &Path, place: &str) -> bool {
    Pem::file(file).to_string() == place
}

/// Reads them, and says which files cannot be opened. `folder` is where relative paths start.
pub(super) fn tls_files(section: &mut Section<'_>, folder: &Path) -> TlsFiles {
    let mut path = |key| {
        let path = folder.join(section.text(key)?);
        // Read again when the connection is made; but then nobody looks at the terminal.
        if let Err(error) = read_file(&path) {
            section.cannot_read(key, &path, &error);
        }
        Some(path)
    };
    let (ca_file, cert_file, key_file) = (path("ca_file"), path("cert_file"), path("key_file"));
    if let Some(path) = &key_file {
        warn_if_open(section, "key_file", path);
    }
    if let Some(path) = &cert_file {
        warn_of_chain(section, "cert_file", path);
    }
    if let Some(path) = &ca_file {
        warn_of_authorities(section, "ca_file", path);
    }
    let server_name = section.text("server_name").map(str::to_owned);
    if section.has("cert_file") != section.has("key_file") {
        let (there, missing) = match section.has("cert_file") {
            true => ("cert_file", "key_file"),
            false => ("key_file", "cert_file"),
        };
        let remedy = format!("add {missing} = \"...\"");
        section.wrong(there, format!("has no effect without {missing}"), remedy);
    }
    TlsFiles { ca_file, cert_file, key_file, server_name }
}

/// Warns of a file with a secret that every user of the machine may read.
pub(super) fn warn_if_open(section: &Section<'_>, key: &str, path: &Path) {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file);
    let mode = file.map_or(0, |file| file.permissions().mode());
    if mode & READ_BY_ALL != 0 {
        let problem = format!("every user may read {} (mode {:03o})", path.display(), mode & 0o777);
        section.warn(key, problem, format!("chmod o-r {}", path.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::error::Problems;
    use crate::config::tests::{GOOD, errors};

    /// What is wrong with a section `[ingress.tls]` of these lines.
    fn listener(lines: &str) -> Vec<String> {
        errors(&format!("{GOOD}[ingress.tls]\n{lines}"))
    }

    #[test]
    fn a_listener_needs_a_certificate_and_its_key() {
        let missing = listener("");
        assert_eq!(missing.len(), 2, "{missing:?}");
        assert!(missing[0].contains("ingress.tls.cert_file: is missing, and TLS needs it"));
        assert!(missing[1].contains("key_file = \"...\" with a PEM file of its private key"));
    }

    #[test]
    fn keys_without_effect_are_refused() {
        let pair = "cert_file = '/dev/null'\nkey_file = '/dev/null'\n";
        for (lines, problem) in [
            ("clients = 'allow'", "ingress.tls.clients: has no effect without ca_file"),
            ("server_name = 'a'", "ingress.tls.server_name: does not belong here"),
            ("clients = 'maybe'\nca_file = '/dev/null'", "ingress.tls.clients: \"maybe\""),
            ("handshake_timeout_ms = 0", "ingress.tls.handshake_timeout_ms: 0 is out of range"),
        ] {
            let errors = listener(&format!("{pair}{lines}"));
            assert!(errors.iter().any(|it| it.contains(problem)), "{lines}: {errors:?}");
        }
    }

    #[test]
    fn a_certificate_alone_has_no_effect() {
        for (there, missing) in [("cert_file", "key_file"), ("key_file", "cert_file")] {
            let errors = errors(&format!("{GOOD}[defaults.tls]\n{there} = '/dev/null'"));
            let problem = format!("{there}: has no effect without {missing}; add {missing}");
            assert!(errors.iter().any(|it| it.contains(&problem)), "{errors:?}");
        }
    }

    /// A file that cannot be opened is one mistake, although loading it fails, too.
    #[test]
    fn a_file_that_is_missing_is_said_once() {
        let errors = errors(&format!("{GOOD}[defaults.tls]\nca_file = '/no/ca.pem'"));
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("defaults.tls.ca_file: cannot read /no/ca.pem"), "{errors:?}");
    }

    /// What can be opened, but not read, must not leave a listener or endpoints without TLS; and a
    /// pipe that nobody writes into must not hold up the start.
    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
        assert!(made.success());
        let huge = fs::File::create(path("huge")).unwrap();
        huge.set_len(100 << 20).unwrap();
        for (file, problem) in [
            (path(""), "it is not a regular file"),
            (path("pipe"), "it is not a regular file"),
            (path("huge"), "104857600 bytes are over the limit of 4194304"),
        ] {
            let all = format!("ca_file = '{file}'\ncert_file = '{file}'\nkey_file = '{file}'\n");
            for section in ["ingress.tls", "defaults.tls"] {
                let errors = errors(&format!("{GOOD}[{section}]\n{all}"));
                let said = ["ca_file", "cert_file", "key_file"]
                    .map(|key| format!("{section}.{key}: cannot read {file}: {problem}"));
                assert_eq!(errors.len(), 3, "{errors:?}");
                for (error, said) in errors.iter().zip(said) {
                    assert!(error.contains(&said), "{error}");
                }
            }
        }
    }

    /// A file may go away, or come, after it was found to be there or not.
    #[test]
    fn no_section_of_tls_is_passed_over() {
        let text = format!("{GOOD}[defaults.tls]\nca_file = 'a'\n");
        let problems = Problems::new("a.toml", &text);
        let table = toml::de::DeTable::parse(&text).unwrap();
        let mut root = Section::root(table.get_ref(), &problems);
        let section = root.table("defaults").table_as("tls", "defaults.tls");
        let files = TlsFiles { ca_file: Some("a".into()), ..TlsFiles::default() };
        let gone = || {
            let (place, source) = ("'a'".to_owned(), std::io::ErrorKind::NotFound.into());
            Err::<(), _>(TlsError::Read { place, source })
        };
        assert_eq!(loaded(&section, &files, gone()), None);
        assert_eq!(loaded(&section, &files, gone()), None);
        let errors = problems.finish().unwrap_err();
        assert_eq!(errors.as_slice().len(), 1, "{errors}");
        assert!(errors.to_string().contains("defaults.tls.ca_file: cannot read 'a'"), "{errors}");
    }

    #[test]
    fn an_error_points_to_the_key_of_its_file() {
        let files = TlsFiles {
            ca_file: Some("ca.pem".into()),
            cert_file: Some("cert.pem".into()),
            key_file: Some("key.pem".into()),
            server_name: None,
        };
        let without = |file: &str| {
            key_of(&TlsError::NoCertificate { place: Pem::file(file).to_string() }, &files)
        };
        assert_eq!(without("cert.pem"), "cert_file");
        assert_eq!(without("key.pem"), "key_file");
        assert_eq!(without("ca.pem"), "ca_file");
        let twice = TlsFiles { ca_file: Some("key.pem".into()), ..files.clone() };
        let no_certificate = TlsError::NoCertificate { place: Pem::file("key.pem").to_string() };
        assert_eq!(key_of(&no_certificate, &twice), "ca_file");
        assert_eq!(key_of(&TlsError::NoKey { place: String::new() }, &files), "key_file");
        assert_eq!(key_of(&TlsError::ServerName("a b".to_owned()), &files), "server_name");
        assert_eq!(key_of(&TlsError::NoSystemAuthorities, &files), "ca_file");
    }
}
