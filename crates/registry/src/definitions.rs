//! What services look like: their methods and the classes that these take and return, from
//! wherever an estate has it.
//!
//! The sources, in their order:
//! 1. `folder`: a folder of documents, for registries that hold none and to set others right;
//! 2. Dubbo's metadata report in etcd or ZooKeeper, `/{root}/metadata/{interface}/..`;
//! 3. `telnet`: the provider itself, if it is of Dubbo 2.x and lists its methods by telnet.
//!
//! A definition is looked for when somebody first asks for it, and again from time to time for as
//! long as anybody wants it. While a source cannot be asked the last definition stays. What is
//! broken, or too long, counts as not there; the log says so once for each state of it, and it is
//! counted.

mod document;
mod folder;
mod room;
mod telnet;
mod warnings;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use dubbo_proto::definition::Variant;
use dubbo_proto::{ServiceDefinition, ServiceKey};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use wire::{Backoff, jitter};

use crate::endpoint::Snapshot;
use crate::list_counts::ListCounts;

use room::MAX_TOTAL_LEN;
use telnet::TelnetAnswer;
use warnings::Warnings;

pub(crate) use document::{Document, ReadAllowance, Unread};
pub(crate) use folder::DocumentFolder;
pub(crate) use room::Room;

/// How old a definition becomes before it is looked for again.
const MAX_AGE: Duration = Duration::from_secs(60);
/// The same for what a provider told: it is other people's connection that is asked.
const MAX_AGE_OF_TOLD: Duration = Duration::from_secs(600);
/// The first wait after a definition was not found. It doubles up to [`MAX_AGE`].
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// The least time between two looks, whoever asks for one.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// Where definitions are looked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DefinitionSources {
    /// A folder with documents `INTERFACE.json` or `INTERFACE@ANYTHING.json`.
    pub folder: Option<PathBuf>,
    /// The first part of the keys of Dubbo's metadata report, without slashes around it.
    pub report_root: String,
    /// Whether providers of Dubbo 2.x are asked by telnet on their Dubbo port.
    pub ask_providers: bool,
}

impl Default for DefinitionSources {
    fn default() -> Self {
        Self { folder: None, report_root: "dubbo".to_owned(), ask_providers: true }
    }
}

/// A definition, and where it is from.
#[derive(Debug)]
pub struct Definition {
    /// The methods and classes.
    pub service: ServiceDefinition,
    /// Where it was found.
    pub origin: DefinitionOrigin,
    _room: Room,
}

/// Where a definition was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DefinitionOrigin {
    /// A file of the folder.
    File(PathBuf),
    /// A key of the metadata report.
    Report(String),
    /// A provider's answer to telnet; `host:port`.
    Provider(String),
}

impl fmt::Display for DefinitionOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Report(key) => write!(f, "metadata report {key}"),
            Self::Provider(address) => write!(f, "telnet of provider {address}"),
        }
    }
}

/// What is known about a service's definition.
#[derive(Clone, Debug, Default)]
pub enum Lookup {
    /// Nobody has looked everywhere yet.
    #[default]
    Pending,
    /// There is none.
    Missing,
    /// This one.
    Found(Arc<Definition>),
}

impl Lookup {
    /// The definition, if there is one.
    #[must_use]
    pub fn found(&self) -> Option<&Arc<Definition>> {
        match self {
            Self::Found(definition) => Some(definition),
            Self::Pending | Self::Missing => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pending, Self::Pending) | (Self::Missing, Self::Missing) => true,
            (Self::Found(one), Self::Found(other)) => {
                one.origin == other.origin && one.service == other.service
            }
            _ => false,
        }
    }
}

/// Keeps the definition of one service up to date for as long as it lives.
#[derive(Clone, Debug)]
#[must_use = "nobody looks for the definition once this is dropped"]
pub struct DefinitionWatch {
    lookups: watch::Receiver<Lookup>,
    feed: Arc<DefinitionFeed>,
}

impl DefinitionWatch {
    /// What is known now. The next [`has_changed`](Self::has_changed) is about what comes after
    /// it.
    #[must_use]
    pub fn current(&mut self) -> Lookup {
        self.lookups.borrow_and_update().clone()
    }

    /// Whether something else is known than [`current`](Self::current) has told.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.lookups.has_changed().unwrap_or(false)
    }

    /// Waits until it is known whether there is a definition.
    pub async fn settled(&mut self) -> Lookup {
        let settled = self.lookups.wait_for(|lookup| !matches!(lookup, Lookup::Pending)).await;
        settled.map(|lookup| lookup.clone()).unwrap_or_default()
    }

    /// Asks for another look, soon: the definition seems to be out of date.
    pub fn suspect(&self) {
        self.feed.suspected.notify_one();
    }
}

#[derive(Debug)]
struct DefinitionFeed {
    lookups: watch::Receiver<Lookup>,
    suspected: Arc<Notify>,
    task: AbortHandle,
}

impl Drop for DefinitionFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The definitions that somebody wants, of one registry.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    sources: DefinitionSources,
    folder: Option<DocumentFolder>,
    /// Of every service, without looking.
    fixed: Option<Lookup>,
    feeds: Mutex<HashMap<ServiceKey, Weak<DefinitionFeed>>>,
    total_len: Arc<AtomicUsize>,
    /// Where documents are counted that are of no use.
    counts: Arc<ListCounts>,
}

impl Definitions {
    pub(crate) fn new(sources: DefinitionSources) -> Self {
        let folder = sources.folder.clone().map(DocumentFolder::new);
        Self { sources, folder, ..Self::default() }
    }

    /// Nobody looks: this is known already.
    pub(crate) fn fixed(lookup: Lookup) -> Self {
        Self { fixed: Some(lookup), ..Self::default() }
    }

    /// Counts here what is of no use.
    pub(crate) fn count_in(&mut self, counts: &Arc<ListCounts>) {
        self.counts = Arc::clone(counts);
    }

    pub(crate) fn sources(&self) -> &DefinitionSources {
        &self.sources
    }

    /// The folder of documents, if there is one.
    pub(crate) fn folder(&self) -> Option<&DocumentFolder> {
        self.folder.as_ref()
    }

    /// `open` gives what is asked about the service while somebody wants its definition.
    pub(crate) fn watch(
        &self,
        runtime: &Handle,
        service: &ServiceKey,
        open: impl FnOnce() -> Box<dyn DefinitionInputs>,
    ) -> DefinitionWatch {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        let known = feeds.get(service).and_then(Weak::upgrade);
        let feed = known.unwrap_or_else(|| {
            feeds.retain(|_, feed| 0 < feed.strong_count());
            let (sender, lookups) = watch::channel(self.fixed.clone().unwrap_or_default());
            let suspected = Arc::new(Notify::new());
            if self.fixed.is_some() {
                let keep_open = async move { sender.closed().await };
                let task = runtime.spawn(keep_open).abort_handle();
                return Arc::new(DefinitionFeed { lookups, suspected, task });
            }
            let seeker = Seeker {
                folder: self.folder.clone(),
                asks_providers: self.sources.ask_providers,
                watched: open(),
                service: service.clone(),
                sender,
                suspected: Arc::clone(&suspected),
                total_len: Arc::clone(&self.total_len),
                counts: Arc::clone(&self.counts),
                said: Warnings::default(),
                said_away: None,
                refused: None,
            };
            let task = runtime.spawn(seeker.run()).abort_handle();
            let feed = Arc::new(DefinitionFeed { lookups, suspected, task });
            feeds.insert(service.clone(), Arc::downgrade(&feed));
            feed
        });
        DefinitionWatch { lookups: feed.lookups.clone(), feed }
    }
}

/// Documents on their way.
pub(crate) type PendingDocuments<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Document>, Away>> + Send + 'a>>;

/// The source cannot be asked now; what is known stays.
#[derive(Debug)]
pub(crate) struct Away(pub(crate) String);

/// What is asked about one service whose definition is looked for.
pub(crate) trait DefinitionInputs: Send + Sync {
    /// The endpoints that offer it.
    fn snapshots(&self) -> watch::Receiver<Snapshot>;

    /// The documents that the registry itself holds about it, the newest first.
    fn reported(&self) -> PendingDocuments<'_>;
}

/// Looks for the definition of one service.
struct Seeker {
    folder: Option<DocumentFolder>,
    asks_providers: bool,
    watched: Box<dyn DefinitionInputs>,
    service: ServiceKey,
    sender: watch::Sender<Lookup>,
    suspected: Arc<Notify>,
    total_len: Arc<AtomicUsize>,
    counts: Arc<ListCounts>,
    /// What the log has of the documents.
    said: Warnings,
    /// Why a source is away, as far as the log has that.
    said_away: Option<String>,
    /// The endpoints among which nobody lists methods by telnet.
    refused: Option<Snapshot>,
}

impl Seeker {
    async fn run(mut self) {
        let mut missing = Backoff::new(FIRST_RETRY, MAX_AGE);
        loop {
            let mut wait = jitter(MAX_AGE);
            match self.look().await {
                Ok(found) => {
                    self.said.handle_end();
                    self.said_away = None;
                    match &found {
                        Some(Definition { origin: DefinitionOrigin::Provider(_), .. }) => {
                            wait = jitter(MAX_AGE_OF_TOLD);
                        }
                        Some(_) => {}
                        None => wait = missing.next_wait(),
                    }
                    self.publish(found);
                }
                Err(Away(reason)) => {
                    self.say_away(reason);
                    wait = jitter(FIRST_RETRY);
                    // Nobody need wait for a source that is away.
                    self.sender.send_if_modified(|lookup| {
                        let was_pending = matches!(lookup, Lookup::Pending);
                        if was_pending {
                            *lookup = Lookup::Missing;
                        }
                        was_pending
                    });
                }
            }
            self.pause(wait).await;
        }
    }

    /// Whether the definition is from a file of the folder.
    fn has_file(&self) -> bool {
        let lookup = self.sender.borrow();
        lookup.found().is_some_and(|found| matches!(found.origin, DefinitionOrigin::File(_)))
    }

    /// Waits until it is time for another look.
    async fn pause(&self, wait: Duration) {
        let mut snapshots = self.watched.snapshots();
        snapshots.mark_unchanged();
        tokio::time::sleep(MIN_PAUSE).await;
        // Other endpoints may tell more; but a definition of the estate does not hang on them.
        let is_told = !matches!(
            self.sender.borrow().found().map(|found| &found.origin),
            Some(DefinitionOrigin::File(_) | DefinitionOrigin::Report(_))
        );
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.suspected.notified() => {}
            Ok(()) = snapshots.changed(), if is_told => {}
        }
    }

    fn publish(&self, found: Option<Definition>) {
        let lookup = found.map_or(Lookup::Missing, |found| Lookup::Found(Arc::new(found)));
        self.sender.send_if_modified(|current| {
            let has_changed = !current.is_same(&lookup);
            if has_changed {
                *current = lookup;
            }
            has_changed
        });
    }

    async fn look(&mut self) -> Result<Option<Definition>, Away> {
        if let Some(folder) = self.folder.clone() {
            match folder.documents(&self.service.interface).await {
                Ok(documents) => {
                    if let Some(found) = self.first_good(documents) {
                        return Ok(Some(found));
                    }
                }
                // A folder that cannot be read does not hide the other sources, unless it has had
                // the definition.
                Err(away) if self.has_file() => return Err(away),
                Err(Away(reason)) => self.refuse(&format!("cannot be looked for: {reason}")),
            }
        }
        let documents = self.watched.reported().await?;
        if let Some(found) = self.first_good(documents) {
            return Ok(Some(found));
        }
        if !self.asks_providers {
            return Ok(None);
        }
        Ok(self.ask_providers().await)
    }

    /// The first document that is one, and of this service.
    fn first_good(&mut self, documents: Vec<Document>) -> Option<Definition> {
        let mut good = None;
        for Document { origin, text } in documents {
            let text = match text {
                Ok(text) => text,
                Err(unread) => {
                    self.refuse(&format!("in {origin} is ignored: {unread}"));
                    continue;
                }
            };
            match ServiceDefinition::parse(&text) {
                Ok(service) if !matches(&service, &self.service) => {}
                Ok(service) if good.is_none() => {
                    good = self.definition(service, origin, text.len());
                }
                Ok(_) => {}
                Err(error) => self.refuse(&format!("in {origin} is ignored: {error}")),
            }
        }
        good
    }

    async fn ask_providers(&mut self) -> Option<Definition> {
        let snapshot = self.watched.snapshots().borrow().clone();
        if self.refused.as_ref() == Some(&snapshot) {
            return None;
        }
        match telnet::ask(&snapshot, &self.service.interface).await {
            Ok(TelnetAnswer { service, address, len }) => {
                self.refused = None;
                self.definition(service, DefinitionOrigin::Provider(address), len)
            }
            Err(_) => {
                self.refused = Some(snapshot);
                None
            }
        }
    }

    fn definition(
        &mut self,
        service: ServiceDefinition,
        origin: DefinitionOrigin,
        len: usize,
    ) -> Option<Definition> {
        let Some(room) = Room::take(&self.total_len, len) else {
            self.refuse(&format!(
                "in {origin} is ignored: its {len} bytes would bring all definitions over \
                 {MAX_TOTAL_LEN}"
            ));
            return None;
        };
        Some(Definition { service, origin, _room: room })
    }

    /// A document is of no use. That is said and counted once, until something else is wrong.
    fn refuse(&mut self, what: &str) {
        if self.said.is_news(what) {
            self.counts.note_refused();
            self.warn(what);
        }
    }

    fn say_away(&mut self, reason: String) {
        if self.said_away.as_ref() != Some(&reason) {
            self.warn(&format!("cannot be looked for: {reason}"));
            self.said_away = Some(reason);
        }
    }

    fn warn(&self, what: &str) {
        tracing::warn!(service = %self.service, "the service's definition {what}");
    }
}

/// Whether a document is about the service. One that does not tell its variant is about all.
fn matches(document: &ServiceDefinition, service: &ServiceKey) -> bool {
    let is_interface = document.interface.is_empty() || document.interface == service.interface;
    let is_one_of = |wanted: &str, has: &str| {
        wanted == "*" || wanted.split(',').any(|wanted| wanted.trim() == has)
    };
    let is_variant = |variant: &Variant| {
        is_one_of(&service.version, &variant.version) && is_one_of(&service.group, &variant.group)
    };
    is_interface && !document.methods.is_empty() && document.variant.as_ref().is_none_or(is_variant)
}

/// The texts of a folder's documents that are about a service of ours, the first first. One that
/// tells no variant is about all.
pub(crate) async fn own_documents(folder: &DocumentFolder, service: &ServiceKey) -> Vec<Vec<u8>> {
    let documents = folder.documents(&service.interface).await.unwrap_or_default();
    let is_ours = |text: &Vec<u8>| {
        ServiceDefinition::parse(text).is_ok_and(|document| matches(&document, service))
    };
    documents.into_iter().filter_map(|document| document.text.ok()).filter(is_ours).collect()
}

#[cfg(test)]
mod tests;
