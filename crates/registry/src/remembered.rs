//! What a registry listed last, in a file: who starts while the registry is away goes on with
//! that.
//!
//! The file has the form of a registry file, so that a person can read it, and an agent can use it
//! as one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dubbo_proto::{DubboUrl, ServiceKey};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use wire::file::FileWork;

use crate::endpoint::{DEFAULT_WEIGHT, Endpoint, Freshness, Snapshot};
use crate::file::{FileService, FileText, parse_text};
use crate::patience::Patience;
use crate::status::RegistryStatus;

/// Changes of so long are written together.
const GATHER_TIME: Duration = Duration::from_secs(1);
/// How long is waited for the file system.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// When a list is written again that could not be written.
const RETRY_TIME: Duration = Duration::from_secs(60);
/// A longer file is not written, nor read.
const MAX_FILE_LEN: u64 = 64 << 20;
/// What stands before the services in the file.
const HEAD: &str = "# Written by dubmesh: what its registry listed last. Changes are lost.\n";

/// The lists of all services, by what was asked for.
type RememberedLists = BTreeMap<ServiceKey, Arc<[Endpoint]>>;

/// The file and what is in it.
#[derive(Debug)]
pub(crate) struct Remembered {
    lists: Arc<Mutex<RememberedLists>>,
    changed: Arc<Notify>,
    /// Somebody was told that the registry is away.
    is_told: AtomicBool,
    path: PathBuf,
    writer: AbortHandle,
}

impl Remembered {
    /// Reads the file, if it is there, and writes it when lists change.
    pub(crate) fn open(path: PathBuf, runtime: &Handle) -> Self {
        let lists = match read(&path) {
            Ok(lists) => lists,
            Err(problem) => {
                let path = path.display();
                tracing::warn!(%path, problem, "the snapshot of the registry cannot be used");
                RememberedLists::new()
            }
        };
        let (lists, changed) = (Arc::new(Mutex::new(lists)), Arc::<Notify>::default());
        let writer = write_changes(path.clone(), Arc::clone(&lists), Arc::clone(&changed));
        let writer = runtime.spawn(writer).abort_handle();
        Self { lists, changed, is_told: AtomicBool::new(false), path, writer }
    }

    /// Whether it knows any service.
    pub(crate) fn knows_any(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Whether a service was listed.
    pub(crate) fn knows(&self, service: &ServiceKey) -> bool {
        self.lock().contains_key(service)
    }

    /// What was listed of a service.
    pub(crate) fn list(&self, service: &ServiceKey) -> Option<Arc<[Endpoint]>> {
        self.lock().get(service).cloned()
    }

    /// Takes over what the registry lists now.
    pub(crate) fn note(&self, service: &ServiceKey, snapshot: &Snapshot) {
        if snapshot.status != Freshness::Current {
            return;
        }
        let mut lists = self.lock();
        let is_same = match lists.get(service) {
            Some(known) => *known == snapshot.endpoints,
            None => snapshot.endpoints.is_empty(),
        };
        if is_same {
            return;
        }
        match snapshot.endpoints.is_empty() {
            true => drop(lists.remove(service)),
            false => drop(lists.insert(service.clone(), Arc::clone(&snapshot.endpoints))),
        }
        self.changed.notify_one();
    }

    /// The list of a service for as long as the registry has not said its own.
    pub(crate) fn fallback(&self, service: &ServiceKey) -> Option<Fallback> {
        let endpoints = self.list(service)?;
        Some(Fallback { endpoints, is_due: Arc::default() })
    }

    /// Tells the operator once that the registry is away.
    fn tell(&self, service: &ServiceKey) {
        if !self.is_told.swap(true, Relaxed) {
            tracing::warn!(
                %service,
                path = %self.path.display(),
                "the registry cannot be reached; using what it listed last"
            );
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, RememberedLists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

/// A list that is used as long as there is no other.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    endpoints: Arc<[Endpoint]>,
    is_due: Arc<AtomicBool>,
}

impl Fallback {
    /// The list, once the registry is taken to be away.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let endpoints = Arc::clone(&self.endpoints);
        let snapshot = || Snapshot { status: Freshness::Stale, endpoints, unused: Arc::default() };
        self.is_due.load(Relaxed).then(snapshot)
    }
}

/// Follows the lists of a service: those that the registry says are remembered. If it says none in
/// time, the one that was remembered is shown.
pub(crate) async fn follow_lists(
    remembered: Arc<Remembered>,
    service: ServiceKey,
    shown: Arc<watch::Sender<Snapshot>>,
    fallback: Option<Fallback>,
    mut status: watch::Receiver<RegistryStatus>,
    patience: Arc<Patience>,
) {
    let mut lists = shown.subscribe();
    if let Some(fallback) = fallback {
        let is_away = status.wait_for(RegistryStatus::is_away);
        let is_known = lists.wait_for(|snapshot| snapshot.status != Freshness::Pending);
        tokio::select! {
            biased;
            _ = is_known => {}
            _ = is_away => patience.handle_word(),
            () = tokio::time::sleep(patience.left()) => patience.handle_silence(),
        }
        fallback.is_due.store(true, Relaxed);
        let is_shown = shown.send_if_modified(|snapshot| match fallback.snapshot() {
            Some(list) if snapshot.status == Freshness::Pending => {
                *snapshot = list;
                true
            }
            _ => false,
        });
        if is_shown {
            remembered.tell(&service);
        }
    }
    // Without it the channel would never close.
    drop(shown);
    loop {
        let snapshot = lists.borrow_and_update().clone();
        remembered.note(&service, &snapshot);
        if lists.changed().await.is_err() {
            return;
        }
    }
}

async fn write_changes(path: PathBuf, lists: Arc<Mutex<RememberedLists>>, changed: Arc<Notify>) {
    let (work, mut has_failed) = (FileWork::default(), false);
    loop {
        tokio::select! {
            () = changed.notified() => {}
            () = tokio::time::sleep(RETRY_TIME), if has_failed => {}
        }
        tokio::time::sleep(GATHER_TIME).await;
        let now = lists.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let to = path.clone();
        let written = work.run(WRITE_TIMEOUT, move || write(&to, &now)).await;
        let problem = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem.as_ref().filter(|_| !has_failed) {
            let path = path.display();
            tracing::warn!(%path, problem, "the snapshot of the registry cannot be written");
        }
        has_failed = problem.is_some();
    }
}

fn text(lists: &RememberedLists) -> String {
    let of_service = |(service, endpoints): (&ServiceKey, &Arc<[Endpoint]>)| {
        let ServiceKey { interface, version, group } = service.clone();
        let endpoints = endpoints.iter().map(url).collect();
        FileService { interface, version, group, endpoints }
    };
    let file = FileText { service: lists.iter().map(of_service).collect() };
    // Texts and lists of texts can always be written.
    format!("{HEAD}{}", toml::to_string(&file).unwrap_or_default())
}

fn url(endpoint: &Endpoint) -> String {
    let is_plain = |text: &str| !text.contains(['&', '#']) && !text.contains(char::is_control);
    let params = endpoint.params.iter().filter(|(name, value)| {
        !name.contains('=') && !name.is_empty() && is_plain(name) && is_plain(value)
    });
    let mut params: BTreeMap<_, _> = params.collect();
    let weight = endpoint.weight.to_string();
    if endpoint.weight != DEFAULT_WEIGHT {
        params.insert("weight", &weight);
    }
    // Where an agent stands in for an app, only the agent is in the list.
    params.remove("for");
    let path = params.remove("path").unwrap_or_default().to_owned();
    let params = params.into_iter().collect();
    let scheme = endpoint.protocol.scheme();
    if let Some(socket) = wire::address::unix_path(&endpoint.host) {
        let query = DubboUrl { params, ..DubboUrl::default() }.to_string();
        let query = query.split_once('?').map_or("", |(_, query)| query);
        return format!("{scheme}+unix:{socket}?{query}");
    }
    let (protocol, host) = (scheme.to_owned(), endpoint.host.to_string());
    DubboUrl { protocol, host, port: endpoint.port, path, params, ..DubboUrl::default() }
        .to_string()
}

/// Replaces the file, so that nobody reads half of it.
fn write(path: &Path, lists: &RememberedLists) -> io::Result<()> {
    let text = text(lists);
    if MAX_FILE_LEN < text.len() as u64 {
        return Err(io::Error::other(format!("{} bytes are over the limit", text.len())));
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}

/// What the file has; nothing if there is none.
fn read(path: &Path) -> Result<RememberedLists, String> {
    let text = match wire::file::read_text(path, MAX_FILE_LEN) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RememberedLists::new()),
        Err(error) => return Err(error.to_string()),
    };
    let mut lists: BTreeMap<ServiceKey, Vec<Endpoint>> = BTreeMap::new();
    for (service, endpoint) in parse_text(path, &text).map_err(|error| error.to_string())? {
        lists.entry(service).or_default().push(endpoint);
    }
    // Somebody may have changed the file: each address once, ordered by key, as a registry's list.
    for endpoints in lists.values_mut() {
        endpoints.sort_by_key(Endpoint::key);
        endpoints.dedup_by_key(|endpoint| endpoint.key());
    }
    Ok(lists.into_iter().map(|(service, endpoints)| (service, endpoints.into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Protocol;

    fn endpoint(host: &str, params: &[(&str, &str)]) -> Endpoint {
        Endpoint::of_params(Protocol::Dubbo, host, 20880, params.iter().copied().collect())
    }

    fn current(endpoints: Vec<Endpoint>) -> Snapshot {
        let (status, unused) = (Freshness::Current, Arc::default());
        Snapshot { status, endpoints: endpoints.into(), unused }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.toml");
        let service = |key: &str| key.parse::<ServiceKey>().unwrap();
        let lists: RememberedLists = [
            (
                service("gray/com.acme.Echo:1.0"),
                vec![
                    endpoint("10.0.0.1", &[("weight", "200"), ("path", "ctx/com.acme.Echo")]),
                    endpoint("::1", &[("timeout", "700"), ("revision", "1.0 build 5")]),
                ],
            ),
            (service("com.acme.Any:*"), vec![endpoint("h", &[("threads", "7")])]),
        ]
        .map(|(service, endpoints)| (service, endpoints.into()))
        .into();
        write(&path, &lists).unwrap();
        let read = read(&path).unwrap();
        assert_eq!(read.keys().collect::<Vec<_>>(), lists.keys().collect::<Vec<_>>());
        for (service, endpoints) in &lists {
            assert_eq!(read[service], *endpoints, "{service}");
        }
    }

    #[test]
    fn a_file_in_another_order_is_read_as_a_registry_lists_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lists");
        let of = |hosts: &[&str]| -> Arc<[Endpoint]> {
            hosts.iter().map(|host| endpoint(host, &[])).collect()
        };
        let service: ServiceKey = "a.B".parse().unwrap();
        write(&path, &[(service.clone(), of(&["h3", "h1", "h2", "h1"]))].into()).unwrap();
        assert_eq!(read(&path).unwrap(), [(service, of(&["h1", "h2", "h3"]))].into());
    }

    #[test]
    fn values_that_would_break_a_url_are_left_out() {
        let one = endpoint("h", &[("a", "x&weight=7"), ("b", "x y"), ("c", "\n"), ("d", "ok")]);
        assert_eq!(url(&one), "dubbo://h:20880?b=x y&d=ok");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_and_nothing_is_not_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.toml");
        assert_eq!(read(&path), Ok(RememberedLists::new()));
        fs::write(&path, "[[service]]\ninter").unwrap();
        assert!(read(&path).unwrap_err().contains("snapshot.toml:2"));
    }

    #[tokio::test]
    async fn only_lists_that_count_are_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.toml");
        let remembered = Remembered::open(path, &Handle::current());
        let service: ServiceKey = "com.acme.Echo".parse().unwrap();
        let list = current(vec![endpoint("h", &[])]);
        let stale = Snapshot { status: Freshness::Stale, ..list.clone() };
        remembered.note(&service, &stale);
        assert!(!remembered.knows_any());
        remembered.note(&service, &list);
        assert!(remembered.knows(&service));
        remembered.note(&service, &current(Vec::new()));
        assert!(!remembered.knows_any(), "the registry says that nobody offers it");
    }
}
