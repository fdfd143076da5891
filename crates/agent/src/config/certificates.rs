//! Whether certificates are good today, and for how long: those that the agent shows, and the
//! authorities that it trusts. A peer would say it too late, and only to its own log.
//!
//! Nothing else about them is looked at: what rustls cannot use is refused where it is loaded.
//! One that cannot be read here is passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use wire::tls::read_file;
use wire::tls::rustls::RootCertStore;
use wire::tls::rustls::pki_types::CertificateDer;
use wire::tls::rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

use super::http_app::origin::AppTransport;
use super::section::Section;
use super::{AppConfig, Config, ListenerTls, TlsClient, TlsFiles};

const DAY_S: i64 = 24 * 3600;

/// A certificate is warned of so many days before it expires: time to have a new one made.
const WARN_DAYS: i64 = 14;

/// The longest part of a name that is shown, in characters.
const MAX_SUBJECT_LEN: usize = 100;

/// What to do about a certificate that expires.
const RENEW: &str = "have a new one made, write it into the file, and run dubmesh reload";

/// Rustls takes an authority for good whatever its dates are; others do not.
const RENEW_AUTHORITY: &str = "certificates from it still count here, but many other programs \
                               refuse them; make a new authority, and certificates from it";

/// A certificate that is not good today, or will soon be so no longer.
#[derive(Debug, Eq, PartialEq)]
pub struct OutOfDate {
    problem: String,
    remedy: &'static str,
}

impl fmt::Display for OutOfDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

/// The certificates of one file that the agent shows.
#[derive(Clone, Debug)]
pub struct ShownChain {
    /// The file.
    pub file: PathBuf,
    /// Those that are in use now, which the file may have no more.
    certificates: Arc<[CertificateDer<'static>]>,
}

impl ShownChain {
    /// What the file has now; nothing of one that cannot be read. Blocks while it is read.
    #[must_use]
    pub fn read(file: PathBuf) -> Self {
        let certificates = read_chain(&file).into();
        Self { file, certificates }
    }

    /// When the first of them expires, in seconds since 1970. `None` if there is none.
    #[must_use]
    pub fn expires_s(&self) -> Option<i64> {
        let parsed = self.certificates.iter().filter_map(|it| Dates::of(it));
        parsed.map(|dates| dates.until.timestamp()).min()
    }

    /// Which of them are not good, or will soon be so no longer.
    pub fn out_of_date(&self, now: SystemTime) -> impl Iterator<Item = OutOfDate> {
        let now_s = seconds(now);
        self.certificates.iter().filter_map(move |it| check(it, &self.file, now_s))
    }
}

impl Config {
    /// The files with certificates for registries, each once. What they have now counts, since
    /// they are read again for each connection.
    #[must_use]
    pub fn registry_certificates(&self) -> BTreeSet<PathBuf> {
        let tls = self.registries.iter().filter_map(|entry| entry.config.tls());
        tls.filter_map(|tls| tls.cert_file.clone()).collect()
    }

    /// The certificates that the agent shows to those who call it and to those whom it calls, each
    /// file once. `of_registries` are those of the files for registries, and this reads none.
    #[must_use]
    pub fn shown_chains(&self, of_registries: &[ShownChain]) -> Vec<ShownChain> {
        let mut chains = Chains::default();
        for LoadedTls { files, chain, .. } in self.loaded_tls() {
            chains.add(files, &chain);
        }
        for chain in of_registries {
            chains.add_chain(&chain.file, &chain.certificates);
        }
        chains.0.into_values().collect()
    }

    /// What is in use of each file with certificates for listeners, apps and endpoints.
    #[must_use]
    pub fn certificates_in_use(&self) -> CertificatesInUse {
        let mut in_use = CertificatesInUse::default();
        for LoadedTls { files, chain, authorities } in self.loaded_tls() {
            if let Some(file) = &files.cert_file {
                in_use.add("certificates", file, Material::Chain(chain));
            }
            if let Some(file) = &files.ca_file {
                in_use.add("authorities", file, Material::Authorities(authorities));
            }
        }
        in_use
    }

    fn loaded_tls(&self) -> Vec<LoadedTls<'_>> {
        let listeners = self.listener_tls().map(|ListenerTls { files, secured, .. }| {
            let (chain, authorities) = (secured.tls.chain(), secured.tls.authorities());
            LoadedTls { files, chain, authorities }
        });
        let apps = self.exports.iter().filter_map(|export| match &export.app {
            AppConfig::Dubbo { tls, .. } => tls.as_ref(),
            AppConfig::Http(app) => match &app.origin.way {
                AppTransport::Tcp { tls, .. } => tls.as_ref(),
                AppTransport::Unix(_) => None,
            },
        });
        let rules = self.clusters.rules.iter().map(|rule| &rule.policy);
        let upstreams = rules.chain([&self.clusters.default]);
        let upstreams = upstreams.filter_map(|it| it.tls.as_ref()).map(|tls| &tls.link);
        listeners.chain(apps.chain(upstreams).map(LoadedTls::of_client)).collect()
    }
}

/// What a section of TLS has read from its files.
struct LoadedTls<'a> {
    files: &'a TlsFiles,
    chain: Arc<[CertificateDer<'static>]>,
    authorities: Arc<RootCertStore>,
}

impl<'a> LoadedTls<'a> {
    fn of_client(tls: &'a TlsClient) -> Self {
        let (chain, authorities) = (tls.client.chain(), tls.client.authorities());
        Self { files: &tls.files, chain, authorities }
    }
}

/// What is in use of each file, by the words for it: a file that several read may be there in
/// more than one form.
#[derive(Debug, Default)]
pub struct CertificatesInUse(BTreeMap<String, Vec<Material>>);

#[derive(Debug)]
enum Material {
    Chain(Arc<[CertificateDer<'static>]>),
    Authorities(Arc<RootCertStore>),
}

impl PartialEq for Material {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Chain(a), Self::Chain(b)) => a == b,
            (Self::Authorities(a), Self::Authorities(b)) => a.roots == b.roots,
            _ => false,
        }
    }
}

impl CertificatesInUse {
    fn add(&mut self, what: &str, file: &Path, material: Material) {
        self.0.entry(format!("{what} in {}", file.display())).or_default().push(material);
    }

    /// The files of which `later` has something else, such as `certificates in server.pem`.
    #[must_use]
    pub fn exchanged(&self, later: &Self) -> Vec<String> {
        let is_new = |name: &&String| {
            let (before, after) = (self.0.get(*name), later.0.get(*name));
            before.zip(after).is_some_and(|(before, after)| {
                after.iter().any(|material| !before.contains(material))
            })
        };
        later.0.keys().filter(is_new).cloned().collect()
    }
}

/// By their files.
#[derive(Default)]
struct Chains(BTreeMap<PathBuf, ShownChain>);

impl Chains {
    fn add(&mut self, files: &TlsFiles, chain: &Arc<[CertificateDer<'static>]>) {
        if let Some(file) = &files.cert_file {
            self.add_chain(file, chain);
        }
    }

    /// A listener may show one from before a reload that others have read: the older one stays.
    fn add_chain(&mut self, file: &Path, chain: &Arc<[CertificateDer<'static>]>) {
        let new = ShownChain { file: file.to_owned(), certificates: Arc::clone(chain) };
        let known = self.0.get(file).and_then(ShownChain::expires_s);
        if known.is_none_or(|known| new.expires_s().is_some_and(|new| new < known)) {
            self.0.insert(file.to_owned(), new);
        }
    }
}

/// Warns of each certificate in the file of a key that the agent shows.
pub(super) fn warn_of_chain(section: &Section<'_>, key: &str, file: &Path) {
    let chain = ShownChain::read(file.to_owned());
    for OutOfDate { problem, remedy } in chain.out_of_date(SystemTime::now()) {
        section.warn(key, problem, remedy);
    }
}

/// Warns if all authorities in the file of a key have expired. An old one beside a good one is
/// what a change of authorities leaves.
pub(super) fn warn_of_authorities(section: &Section<'_>, key: &str, file: &Path) {
    let all = read_chain(file);
    if let Some(problem) = check_authorities(&all, file, seconds(SystemTime::now())) {
        section.warn(key, problem, RENEW_AUTHORITY);
    }
}

/// None of a file that cannot be read or is no PEM: it is refused where it is loaded.
fn read_chain(file: &Path) -> Vec<CertificateDer<'static>> {
    let text = read_file(file).unwrap_or_default();
    CertificateDer::pem_slice_iter(&text).map_while(Result::ok).collect()
}

/// Of a clock before 1970, others say more.
fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// What a certificate says of itself.
struct Dates {
    /// " of NAME", or nothing.
    of: String,
    from: ASN1Time,
    until: ASN1Time,
}

impl Dates {
    /// `None` of what is no certificate.
    fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let subject = certificate.subject().to_string();
        let is_shown = |c: &char| !c.is_control();
        let subject: String = subject.chars().filter(is_shown).take(MAX_SUBJECT_LEN).collect();
        let of = if subject.is_empty() { String::new() } else { format!(" of {subject}") };
        let validity = certificate.validity();
        Some(Self { of, from: validity.not_before, until: validity.not_after })
    }

    fn is_over(&self, now_s: i64) -> bool {
        self.until.timestamp() < now_s
    }
}

/// What is wrong with the dates of a certificate of ours, if anything.
fn check(certificate: &[u8], file: &Path, now_s: i64) -> Option<OutOfDate> {
    let dates = Dates::of(certificate)?;
    let Dates { of, from, until } = &dates;
    let what = format!("the certificate{of} in {}", file.display());
    if now_s < from.timestamp() {
        let problem = format!("{what} is not valid before {}", day(*from));
        let remedy = "check the clock of this machine, or use another one until then";
        return Some(OutOfDate { problem, remedy });
    }
    if dates.is_over(now_s) {
        let problem = format!("{what} expired on {}", day(*until));
        return Some(OutOfDate { problem, remedy: RENEW });
    }
    let n_days = until.timestamp().saturating_sub(now_s) / DAY_S;
    if WARN_DAYS <= n_days {
        return None;
    }
    let when = match n_days {
        0 => "in less than a day".to_owned(),
        1 => "in a day".to_owned(),
        n => format!("in {n} days"),
    };
    let problem = format!("{what} expires {when}, on {}", day(*until));
    Some(OutOfDate { problem, remedy: RENEW })
}

/// What is wrong with authorities that have expired, all of them.
fn check_authorities(all: &[CertificateDer<'_>], file: &Path, now_s: i64) -> Option<String> {
    let all: Vec<Dates> = all.iter().map(|it| Dates::of(it)).collect::<Option<_>>()?;
    let last = all.iter().max_by_key(|dates| dates.until.timestamp())?;
    if !last.is_over(now_s) {
        return None;
    }
    let (file, day) = (file.display(), day(last.until));
    Some(match all.len() {
        1 => format!("the authority{} in {file} expired on {day}", last.of),
        n => format!("all {n} authorities in {file} have expired, the last one on {day}"),
    })
}

fn day(time: ASN1Time) -> String {
    time.to_datetime().date().to_string()
}

#[cfg(test)]
mod tests;
