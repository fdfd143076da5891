//! Services in Kubernetes, by its EndpointSlices.
//!
//! **Which.** A Service of Kubernetes offers Dubbo services by its annotation
//! `dubmesh.io/services` (`GROUP/INTERFACE:VERSION`, several with commas between them), or because
//! the configuration says so. `dubmesh.io/port` has the name or number of the port; without it,
//! that is the port named `dubbo`, or the only one. A port named `link` is that of an agent beside
//! the app: it takes the app's place. `dubmesh.io/params` has parameters as in Dubbo's URLs.
//!
//! **Who.** Endpoints that are ready and not terminating. Those that leave get nothing new. The
//! parameter `zone` is the zone of the endpoint's hint, else its own.
//!
//! **Reading.** Slices, and Services for their annotations, are listed and watched from there on.
//! A watch that breaks goes on from the last version. Where the history is gone (410, as a status
//! or within the stream), where the API server refuses the version, or fails again and again, the
//! list is read again. The token and the certificates are read again for each request. While the
//! API server is away, the last known endpoints stay, marked stale.
//!
//! Nothing is registered here: Kubernetes does that.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use crate::config::KubernetesConfig;
use crate::definitions::Away;
use crate::directory::Presence;
use crate::endpoint::{Freshness, Registration};
use crate::error::RegistryError;
use crate::status::{RegistryStatus, StatusSender, note};
use crate::store::{Store, Wait, Watch, Withdraw};
use crate::table::{Table, TableWatch};

use objects::ObjectKind;
use settings::KubernetesSettings;
use state::State;
use watcher::{ObjectNews, Watcher};

mod api;
mod lines;
mod objects;
mod settings;
mod state;
mod watcher;

/// News that wait to be taken over.
const MAX_NEWS: usize = 256;

/// The least time between two changes of the table, which is made whole each time.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(20);

/// What fuzz targets call.
///
/// # Panics
/// If something can be read that cannot be used.
#[cfg(feature = "fuzzing")]
pub fn exercise(data: &[u8]) {
    objects::exercise(data);
}

/// The handle on the tasks that talk to the API server.
#[derive(Debug)]
pub(crate) struct KubernetesRegistry {
    table: watch::Receiver<Table>,
    status: watch::Receiver<RegistryStatus>,
    request_timeout: Duration,
    tasks: Vec<AbortHandle>,
}

impl KubernetesRegistry {
    pub(crate) fn open(config: KubernetesConfig, runtime: &Handle) -> Result<Self, RegistryError> {
        let settings = Arc::new(KubernetesSettings::new(config)?);
        let (table_sender, table) = watch::channel(Table::default());
        let (status_sender, status) = watch::channel(RegistryStatus::new(false));
        let (sender, news) = mpsc::channel(MAX_NEWS);
        let mut kinds = vec![ObjectKind::Slices];
        kinds.extend(settings.reads_annotations.then_some(ObjectKind::Services));
        let keeper = TableKeeper {
            state: State::new(settings.mapped.clone()),
            known: kinds.iter().map(|kind| (*kind, KindStatus::default())).collect(),
            table: table_sender,
            status: status_sender,
            is_dirty: false,
        };
        let mut tasks = vec![runtime.spawn(keeper.run(news)).abort_handle()];
        for kind in kinds {
            let watcher = Watcher::new(kind, Arc::clone(&settings), sender.clone());
            tasks.push(runtime.spawn(watcher.run()).abort_handle());
        }
        Ok(Self { table, status, request_timeout: settings.request_timeout, tasks })
    }

    async fn read_interfaces(&self) -> Result<Vec<String>, Away> {
        let mut table = self.table.clone();
        let listed = table.wait_for(|table| table.status != Freshness::Pending);
        match timeout(self.request_timeout, listed).await {
            Ok(Ok(table)) => table.interfaces(),
            Ok(Err(_)) | Err(_) => {
                let said = self.status.borrow().last_error.clone();
                Err(Away(said.unwrap_or_else(|| "Kubernetes has not answered".to_owned())))
            }
        }
    }
}

impl Store for KubernetesRegistry {
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
        Err(RegistryError::KubernetesRegisters)
    }

    fn presence(&self, wanted: &ServiceKey) -> Presence {
        self.table.borrow().presence(wanted)
    }

    fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        Box::pin(self.read_interfaces())
    }
}

impl Drop for KubernetesRegistry {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// How far what is known of a kind can be trusted.
#[derive(Default)]
struct KindStatus {
    status: Freshness,
    /// Why it cannot be read now.
    away: Option<String>,
    /// The last event that could not be read.
    bad: Option<String>,
}

/// The task that makes the table from all news.
struct TableKeeper {
    state: State,
    known: HashMap<ObjectKind, KindStatus>,
    table: watch::Sender<Table>,
    status: StatusSender,
    is_dirty: bool,
}

impl TableKeeper {
    async fn run(mut self, mut news: mpsc::Receiver<(ObjectKind, ObjectNews)>) {
        let mut due = Instant::now();
        loop {
            let arrived = tokio::select! {
                arrived = news.recv() => arrived,
                () = tokio::time::sleep_until(due), if self.is_dirty => {
                    self.publish();
                    due = Instant::now() + PUBLISH_INTERVAL;
                    continue;
                }
            };
            let Some((kind, news)) = arrived else { return };
            self.handle(kind, news);
        }
    }

    fn handle(&mut self, kind: ObjectKind, news: ObjectNews) {
        match news {
            ObjectNews::Whole { objects, n_bad } => {
                if n_bad != 0 {
                    tracing::warn!(?kind, n_bad, "objects of Kubernetes cannot be read");
                }
                self.state.replace(kind, objects);
                self.is_dirty = true;
                // After an error, only a watch shows that the list stays up to date.
                match self.of(kind).away {
                    None => self.note_current(kind),
                    Some(_) => self.of(kind).status = Freshness::Stale,
                }
            }
            ObjectNews::Put(object) => self.is_dirty |= self.state.put(object),
            ObjectNews::Gone(name) => self.is_dirty |= self.state.remove(kind, &name),
            ObjectNews::Bad(error) => self.note_bad(kind, &error),
            ObjectNews::Current => self.note_current(kind),
            ObjectNews::Away(error) => self.note_away(kind, error),
        }
    }

    fn note_bad(&mut self, kind: ObjectKind, error: &str) {
        let error = format!("an event of Kubernetes cannot be read: {error}");
        let known = self.of(kind);
        if known.bad.as_ref() != Some(&error) {
            tracing::warn!(?kind, "{error}");
            known.bad = Some(error.clone());
        }
        let connected = self.status.borrow().connected;
        note(&self.status, connected, Some(error));
    }

    fn note_current(&mut self, kind: ObjectKind) {
        let known = self.of(kind);
        known.away = None;
        let before = std::mem::replace(&mut known.status, Freshness::Current);
        self.is_dirty |= before != Freshness::Current;
        if note(&self.status, self.freshness() == Freshness::Current, None) {
            tracing::info!("connected to Kubernetes");
        }
    }

    fn note_away(&mut self, kind: ObjectKind, error: String) {
        let known = self.of(kind);
        if known.away.as_ref() != Some(&error) {
            tracing::warn!(%error, "Kubernetes cannot be read; the last known endpoints stay in \
                                    use");
            known.away = Some(error.clone());
        }
        // One that was never listed stays pending.
        if known.status == Freshness::Current {
            known.status = Freshness::Stale;
            self.is_dirty = true;
        }
        note(&self.status, false, Some(error));
    }

    fn of(&mut self, kind: ObjectKind) -> &mut KindStatus {
        self.known.entry(kind).or_default()
    }

    fn freshness(&self) -> Freshness {
        let is = |status| self.known.values().any(|known| known.status == status);
        match (is(Freshness::Pending), is(Freshness::Stale)) {
            (true, _) => Freshness::Pending,
            (false, true) => Freshness::Stale,
            (false, false) => Freshness::Current,
        }
    }

    fn publish(&mut self) {
        self.is_dirty = false;
        let status = self.freshness();
        // A part of the picture is no picture.
        if status == Freshness::Pending {
            return;
        }
        let (rows, leftovers) = self.state.rows();
        self.table.send_replace(Table::new(status, rows, leftovers));
    }
}
