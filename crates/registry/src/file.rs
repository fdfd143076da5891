//! Services in a TOML file.
//!
//! ```toml
//! [[service]]
//! interface = "com.acme.Orders"
//! version = "1.0"   # may be left out
//! group = "east"    # may be left out
//! endpoints = [
//!     "dubbo://10.0.0.1:20880?serialization=hessian2&weight=200",
//!     "link://10.0.0.2:30000",
//! ]
//! ```
//!
//! An endpoint's parameters are those of Dubbo's URLs: `weight`, `serialization`,
//! `prefer.serialization`, `timeout`, `timestamp`, `warmup`; `disabled=true` hides it. Endpoints
//! of other protocols are left out, and a warning names them.
//!
//! The file is watched. A change counts as soon as the file is valid; while it is missing or
//! invalid the last good list stays, marked as stale, and one warning says why. It may be
//! rewritten in place or replaced by renaming another file over it (which is the safer way).
//! Nothing can register in it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dubbo_proto::ServiceKey;
use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use wire::file::FileWork;

use crate::definitions::Away;
use crate::directory::Presence;
use crate::endpoint::{Endpoint, Freshness, Protocol, Registration, Unused};
use crate::error::RegistryError;
use crate::listing::{Leftover, Listing};
use crate::status::{RegistryStatus, StatusSender, note};
use crate::store::{Store, Wait, Watch, Withdraw};
use crate::table::{Row, Table, TableWatch};

mod doubts;
mod format;

use format::{FileContent, doubts_of};
pub(crate) use format::{FileService, FileText, parse_endpoint};
pub use format::{IgnoredParameter, OnLine};

/// The safety net below the file system's events: network file systems have none, and a link's
/// target may lie in a folder that we do not watch.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// An editor that writes in place writes more than once; what it leaves in between is not meant.
const SETTLE_TIME: Duration = Duration::from_millis(30);

/// How long a file system may take to tell what is in the file.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Unused endpoints that are logged when the file is read.
const MAX_TOLD: usize = 10;

/// The longest file: about a hundred thousand endpoints.
const MAX_FILE_LEN: u64 = 16 << 20;

/// The watched file.
#[derive(Debug)]
pub(crate) struct FileRegistry {
    path: PathBuf,
    table: watch::Receiver<Table>,
    status: watch::Receiver<RegistryStatus>,
    task: AbortHandle,
}

impl FileRegistry {
    /// Reads the file at once, so that who subscribes next sees it, and begins to watch it.
    pub(crate) fn open(path: PathBuf, runtime: &Handle) -> Self {
        let (table_sender, table) = watch::channel(Table::default());
        let (status_sender, status) = watch::channel(RegistryStatus::new(false));
        let changed = Arc::new(Notify::new());
        // The watcher comes first: a change after our first look is an event.
        let watcher = watch_folder(&path, &changed);
        let mut loader = Loader {
            path: path.clone(),
            table: table_sender,
            status: status_sender,
            text: None,
            failure: None,
        };
        loader.take(read(&path));
        let task = runtime.spawn(loader.run(changed, watcher)).abort_handle();
        Self { path, table, status, task }
    }
}

impl Store for FileRegistry {
    fn status(&self) -> watch::Receiver<RegistryStatus> {
        self.status.clone()
    }

    fn watch(&self, wanted: &ServiceKey) -> Box<dyn Watch> {
        Box::new(TableWatch::new(self.table.clone(), wanted))
    }

    fn register(
        &self,
        _registration: &Registration,
    ) -> Result<(watch::Receiver<bool>, Withdraw), RegistryError> {
        Err(RegistryError::ReadOnly { path: self.path.clone() })
    }

    fn presence(&self, wanted: &ServiceKey) -> Presence {
        self.table.borrow().presence(wanted)
    }

    fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        // Why the file cannot be used says more than that it cannot.
        let why = |away| self.status.borrow().last_error.clone().map_or(away, Away);
        Box::pin(std::future::ready(self.table.borrow().interfaces().map_err(why)))
    }
}

impl Drop for FileRegistry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Loader {
    path: PathBuf,
    table: watch::Sender<Table>,
    status: StatusSender,
    /// The text that was read last, good or bad.
    text: Option<String>,
    /// The failure that was logged last.
    failure: Option<String>,
}

impl Loader {
    async fn run(mut self, changed: Arc<Notify>, watcher: Option<RecommendedWatcher>) {
        let work = FileWork::default();
        let watcher = Arc::new(Mutex::new(watcher));
        loop {
            let is_told = tokio::time::timeout(POLL_INTERVAL, changed.notified()).await.is_ok();
            if is_told {
                tokio::time::sleep(SETTLE_TIME).await;
            }
            let (path, changed, watcher) = (self.path.clone(), changed.clone(), watcher.clone());
            let look = move || {
                let mut watcher = watcher.lock().unwrap_or_else(PoisonError::into_inner);
                if watcher.is_none() && !is_told {
                    *watcher = watch_folder(&path, &changed);
                }
                read(&path)
            };
            let late = |source| Err(RegistryError::Read { path: self.path.clone(), source });
            let found = work.run(READ_TIMEOUT, look).await.unwrap_or_else(late);
            self.take(found);
        }
    }

    /// Takes what was read over, if it is good.
    fn take(&mut self, read: Result<String, RegistryError>) {
        match read {
            Ok(text) if self.text.as_ref() == Some(&text) && self.failure.is_none() => {}
            Ok(text) => {
                let parsed = format::parse(&self.path, &text);
                self.text = Some(text);
                match parsed {
                    Ok(content) => self.accept(content),
                    Err(error) => self.refuse(&error),
                }
            }
            Err(error) => self.refuse(&error),
        }
    }

    fn accept(&mut self, content: FileContent) {
        let FileContent { rows, leftovers, doubts } = content;
        let path = self.path.display();
        tracing::info!(%path, endpoints = rows.len(), unused = leftovers.len(), "registry file read");
        for OnLine { line, it: (interface, leftover) } in leftovers.iter().take(MAX_TOLD) {
            let unused = &leftover.unused;
            tracing::warn!(%path, line, interface, %unused, "an endpoint of the registry file is not used");
        }
        for OnLine { line, it } in doubts.iter().take(MAX_TOLD) {
            let IgnoredParameter { interface, endpoint, what } = it;
            tracing::warn!(%path, line, interface, endpoint, what, "a parameter of an endpoint in the \
                registry file does not count");
        }
        self.failure = None;
        let rows = rows.into_iter().map(|row| row.it).collect();
        let leftovers = leftovers.into_iter().map(|leftover| leftover.it).collect();
        self.table.send_replace(Table::written(rows, leftovers));
        note(&self.status, true, None);
    }

    fn refuse(&mut self, error: &RegistryError) {
        let failure = error.to_string();
        if self.failure.as_ref() == Some(&failure) {
            return;
        }
        tracing::warn!(error = %failure, "the registry file cannot be used; the last good list \
                                          stays in use");
        self.table.send_if_modified(|table| {
            let changed = table.status == Freshness::Current;
            if changed {
                table.status = Freshness::Stale;
            }
            changed
        });
        note(&self.status, false, Some(failure.clone()));
        self.failure = Some(failure);
    }
}

/// What is in a registry file: how many endpoints, and what cannot be used of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checked {
    /// The endpoints of all services, with their interface.
    pub endpoints: Vec<OnLine<(String, Endpoint)>>,
    /// What is not used, by interface.
    pub unused: Vec<OnLine<(String, Unused)>>,
    /// What is used in another way than it is written.
    pub doubts: Vec<OnLine<IgnoredParameter>>,
}

/// Reads a registry file once, as an agent that uses it would.
///
/// # Errors
/// When the file is not there, or an agent would not take it.
pub fn check(path: &Path) -> Result<Checked, RegistryError> {
    let FileContent { rows, leftovers, doubts } = format::parse(path, &read(path)?)?;
    let unused = |OnLine { line, it: (interface, leftover) }: OnLine<(String, Leftover)>| OnLine {
        line,
        it: (interface, leftover.unused),
    };
    let endpoint = |OnLine { line, it: Row { interface, listing, .. } }: OnLine<Row>| OnLine {
        line,
        it: (interface, listing.endpoint.clone()),
    };
    Ok(Checked {
        endpoints: rows.into_iter().map(endpoint).collect(),
        unused: leftovers.into_iter().map(unused).collect(),
        doubts,
    })
}

/// The endpoints of a text in the form of a registry file, by service.
pub(crate) fn parse_text(
    path: &Path,
    text: &str,
) -> Result<Vec<(ServiceKey, Endpoint)>, RegistryError> {
    let rows = format::parse(path, text)?.rows;
    let of_row = |OnLine { it: Row { interface, listing, .. }, .. }: OnLine<Row>| {
        let Listing { version, group, endpoint, .. } = Arc::unwrap_or_clone(listing);
        (ServiceKey { interface, version, group }, endpoint)
    };
    Ok(rows.into_iter().map(of_row).collect())
}

/// What is to be said of an endpoint of a list that is written well.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CheckedEndpoint {
    /// It is used, but for parameters that do not count.
    Used {
        /// What is spoken there.
        protocol: Protocol,
        /// Where it is.
        host: Arc<str>,
        /// Where it is.
        port: u16,
        /// The parameters that do not count.
        doubts: Vec<IgnoredParameter>,
    },
    /// It is not used.
    Unused(Unused),
}

/// Whether an endpoint of a list can be used; if not, why.
///
/// # Errors
/// What is wrong with its text.
pub fn check_endpoint(service: &ServiceKey, text: &str) -> Result<CheckedEndpoint, String> {
    Ok(match parse_endpoint(service, text)? {
        Ok(row) => {
            let doubts = doubts_of(&row).collect();
            let Endpoint { protocol, host, port, .. } = &row.listing.endpoint;
            CheckedEndpoint::Used { protocol: *protocol, host: host.clone(), port: *port, doubts }
        }
        Err(leftover) => CheckedEndpoint::Unused(leftover.unused),
    })
}

fn read(path: &Path) -> Result<String, RegistryError> {
    let failed = |source| RegistryError::Read { path: path.to_owned(), source };
    wire::file::read_text(path, MAX_FILE_LEN).map_err(failed)
}

/// Watches the folder, not the file: a file that is replaced by a rename is another file.
fn watch_folder(path: &Path, changed: &Arc<Notify>) -> Option<RecommendedWatcher> {
    let changed = Arc::clone(changed);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let own = path.to_owned();
    let on_event = move |event: notify::Result<notify::Event>| {
        if event.map_or(true, |event| is_of(&own, &event)) {
            changed.notify_one();
        }
    };
    let watcher = notify::recommended_watcher(on_event).and_then(|mut watcher| {
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    watcher
        .inspect_err(|error| {
            tracing::debug!(folder = %folder.display(), %error, "file events are not available; \
                                                                 polling instead");
        })
        .ok()
}

/// Whether an event may mean that the file at `path` changed. The folder may hold a log that grows
/// with every line.
fn is_of(path: &Path, event: &notify::Event) -> bool {
    // Reading the file is an event, too, and must not make us read it again.
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    if event.need_rescan() || event.paths.is_empty() {
        return true;
    }
    // Whatever a link leads through may be exchanged, as Kubernetes does with `..data`. That is
    // never a change to the contents of another file.
    let is_contents = matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)));
    let target = if is_contents { None } else { std::fs::read_link(path).ok() };
    let names = || event.paths.iter().filter_map(|changed| changed.file_name());
    let leads_through =
        |target: PathBuf| target.iter().any(|part| names().any(|name| name == part));
    names().any(|name| Some(name) == path.file_name()) || target.is_some_and(leads_through)
}

#[cfg(test)]
mod tests {
    use notify::Event;
    use notify::event::{AccessKind, CreateKind, DataChange, Flag, RenameMode};

    use super::*;

    fn event(kind: EventKind, name: &str) -> Event {
        Event::new(kind).add_path(Path::new("/etc/mesh").join(name))
    }

    #[test]
    fn events_of_other_files_do_not_count() {
        let own = Path::new("/etc/mesh/services.toml");
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        for kind in [written, renamed, EventKind::Create(CreateKind::File), EventKind::Any] {
            assert!(is_of(own, &event(kind, "services.toml")), "{kind:?}");
            assert!(!is_of(own, &event(kind, "mesh.log")), "{kind:?}");
        }
        assert!(!is_of(own, &event(EventKind::Access(AccessKind::Any), "services.toml")));
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert!(is_of(own, &lost), "some events were lost");
        let moved = event(renamed, "services.toml.new").add_path(own.to_owned());
        assert!(is_of(own, &moved));
    }

    #[test]
    fn what_a_link_leads_through_counts() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("services.toml");
        std::os::unix::fs::symlink("..data/services.toml", &own).unwrap();
        let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        assert!(is_of(&own, &event(renamed, "..data")));
        assert!(!is_of(&own, &event(renamed, "..data_tmp")));
    }
}
