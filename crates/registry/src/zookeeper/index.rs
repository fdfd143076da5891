//! The services that ZooKeeper holds, for names that may be made up.
//!
//! A watch for each such name would cost ZooKeeper as much as callers like. This costs one watch,
//! on the list of all interfaces, whatever they ask for. An interface on that list has been
//! offered or wanted by somebody; which versions and groups it is offered in is read when somebody
//! asks, and again when that is some seconds old. All this begins with the first question, and
//! ends when there was none for a while.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use dubbo_proto::url::decode_key;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use wire::{Backoff, jitter};
use zookeeper_proto::{Answer, Refusal, Request};

use crate::definitions::Away;
use crate::directory::{Directory, Presence};
use crate::layout::Paths;
use crate::lookups::Lookups;
use crate::on_demand::{self, LastAsked, OnDemand, Progress};

use super::connection::{Live, SharedConnection, ZooKeeperError, is_about_node};
use super::node::Node;

/// Interfaces that are kept at most: a registry of more is not asked for its services.
const MAX_INTERFACES: usize = 100_000;

/// How often mappings are tried again that may not be read: nobody tells of a new access list.
const RETRY_EVERY: Duration = Duration::from_secs(10);

/// The least time between two reads of the list of interfaces.
const MIN_PAUSE: Duration = Duration::from_millis(200);

/// A handle on the task.
#[derive(Debug)]
pub(super) struct ZooKeeperIndex {
    paths: Paths,
    /// The folder of mappings.
    mappings: String,
    connection: SharedConnection,
    state: watch::Sender<KnownServices>,
    /// Somebody waits for versions and groups.
    wanted: Arc<Notify>,
    task: OnDemand,
}

#[derive(Debug, Default)]
struct KnownServices {
    progress: Progress,
    interfaces: HashSet<Box<str>>,
    /// Those that some application offers.
    mapped: HashSet<Box<str>>,
    /// Whether that may not be read.
    is_mapping_refused: bool,
    is_full: bool,
    /// The versions and groups of interfaces.
    lookups: Lookups<Directory>,
}

impl KnownServices {
    fn presence(&self, wanted: &ServiceKey, now: Instant) -> Presence {
        if self.progress == Progress::Reading {
            return Presence::Asking;
        }
        if self.is_full {
            return Presence::Unknown;
        }
        if self.mapped.contains(wanted.interface.as_str()) {
            // Only the applications know which versions and groups.
            return Presence::Offered;
        }
        let interface = wanted.interface.as_str();
        if !self.interfaces.contains(interface) {
            // An application may offer it.
            let is_unknown = self.is_mapping_refused && self.progress == Progress::Current;
            return if is_unknown { Presence::Unknown } else { self.progress.denied() };
        }
        self.lookups.presence(interface, now, self.progress, |directory| directory.offers(wanted))
    }
}

impl ZooKeeperIndex {
    pub(super) fn new(paths: Paths, mappings: String, connection: SharedConnection) -> Self {
        let (state, wanted, task) = Default::default();
        Self { paths, mappings, connection, state, wanted, task }
    }

    /// What is known of a service now.
    pub(super) fn presence(&self, wanted: &ServiceKey, runtime: &Handle) -> Presence {
        self.keep_running(runtime);
        let (presence, is_read) = {
            let state = self.state.borrow();
            (state.presence(wanted, Instant::now()), state.progress != Progress::Reading)
        };
        if presence == Presence::Asking && is_read {
            let interface = wanted.interface.as_str();
            self.state.send_if_modified(|state| state.lookups.ask(interface));
            self.wanted.notify_one();
        }
        presence
    }

    /// Waits until [`presence`](Self::presence) need not say that it is asking.
    pub(super) async fn settled(&self) {
        let mut state = self.state.subscribe();
        let is_settled = |state: &KnownServices| state.lookups.is_settled(state.progress);
        let _ends_with_the_registry = state.wait_for(is_settled).await;
    }

    /// The interfaces that ZooKeeper has a folder for.
    pub(super) async fn interfaces(&self, runtime: &Handle) -> Result<Vec<String>, Away> {
        self.keep_running(runtime);
        self.settled().await;
        let state = self.state.borrow();
        match state.progress {
            _ if state.is_full => Err(Away("it has too many services".to_owned())),
            Progress::Current => {
                let all = state.interfaces.union(&state.mapped);
                Ok(all.map(|name| name.as_ref().to_owned()).collect())
            }
            Progress::Reading | Progress::Stale => Err(self.connection.away()),
        }
    }

    fn keep_running(&self, runtime: &Handle) {
        self.task.keep_running(runtime, |asked| {
            let _ = self.state.send_replace(KnownServices::default());
            let reader = IndexReader {
                paths: self.paths.clone(),
                mappings: self.mappings.clone(),
                state: self.state.clone(),
                wanted: Arc::clone(&self.wanted),
                asked: Arc::clone(&asked),
            };
            on_demand::run(reader, self.connection.clone(), asked)
        });
    }
}

struct IndexReader {
    paths: Paths,
    mappings: String,
    state: watch::Sender<KnownServices>,
    wanted: Arc<Notify>,
    asked: Arc<LastAsked>,
}

impl on_demand::Reader<Live> for IndexReader {
    type Error = ZooKeeperError;

    fn set_stale(&self) {
        self.state.send_if_modified(|state| {
            let KnownServices { progress, lookups, .. } = state;
            lookups.set_stale(progress)
        });
    }

    async fn read_and_watch(
        &self,
        live: &Arc<Live>,
        backoff: &mut Backoff,
    ) -> Result<(), ZooKeeperError> {
        let wake = Arc::new(Notify::new());
        let mut root = Node::new(self.paths.root().to_owned(), &wake);
        let mut mappings = Node::new(self.mappings.clone(), &wake);
        let mut said = None;
        self.read(live, &mut root, &mut mappings, &mut said).await?;
        backoff.reset();
        let mut retry_at = Instant::now() + jitter(RETRY_EVERY);
        loop {
            tokio::select! {
                () = wake.notified() => {
                    let (is_other, is_mapped) = (root.has_changed(), mappings.has_changed());
                    if is_other || is_mapped {
                        tokio::time::sleep(MIN_PAUSE).await;
                        self.read(live, &mut root, &mut mappings, &mut said).await?;
                    }
                }
                () = tokio::time::sleep_until(retry_at), if said.is_some() => {
                    self.read(live, &mut root, &mut mappings, &mut said).await?;
                    retry_at = Instant::now() + jitter(RETRY_EVERY);
                }
                () = self.wanted.notified() => self.look(live).await?,
                () = self.asked.idle() => return Ok(()),
            }
        }
    }
}

impl IndexReader {
    /// Reads all interfaces. Mappings that may not be read take no other interface away; `said` is
    /// why, as far as the log has it.
    async fn read(
        &self,
        live: &Arc<Live>,
        root: &mut Node,
        mappings: &mut Node,
        said: &mut Option<Refusal>,
    ) -> Result<(), ZooKeeperError> {
        let names = root.names(live).await?;
        let (mapped, refusal) = match mappings.names(live).await {
            Ok(mapped) => (mapped, None),
            Err(ZooKeeperError::Refused { refusal, .. }) if is_about_node(refusal) => {
                (Vec::new(), Some(refusal))
            }
            Err(error) => return Err(error),
        };
        if let Some(refusal) = refusal.filter(|refusal| *said != Some(*refusal)) {
            let path = &mappings.path;
            tracing::warn!(path, %refusal, "the folder cannot be read; services that only \
                                            applications offer are not listed");
        }
        *said = refusal;
        self.take_interfaces(names, mapped, refusal.is_some());
        Ok(())
    }

    fn take_interfaces(&self, names: Vec<String>, mapped: Vec<String>, is_mapping_refused: bool) {
        let is_full = MAX_INTERFACES < names.len().max(mapped.len());
        let decoded = |names: Vec<String>| -> HashSet<Box<str>> {
            let kept = if is_full { Vec::new() } else { names };
            let names = kept.iter().filter_map(|name| decode_key(name).ok());
            names.map(String::into_boxed_str).collect()
        };
        let (interfaces, mapped) = (decoded(names), decoded(mapped));
        self.state.send_modify(|state| {
            state.progress = Progress::Current;
            (state.interfaces, state.mapped, state.is_full) = (interfaces, mapped, is_full);
            state.is_mapping_refused = is_mapping_refused;
        });
    }

    /// Reads the versions and groups that somebody waits for.
    async fn look(&self, live: &Live) -> Result<(), ZooKeeperError> {
        loop {
            let next = self.state.borrow().lookups.next();
            let Some(interface) = next else { return Ok(()) };
            let mut directory = Directory::default();
            for folder in self.paths.folders(&interface) {
                let request = Request::Children { path: folder.clone(), watcher: None };
                match live.ask(request).await? {
                    Ok(Answer::Children { names, .. }) => {
                        for name in names {
                            self.paths.note(format!("{folder}/{name}").as_bytes(), &mut directory);
                        }
                    }
                    Ok(_) | Err(Refusal::NoNode) => {}
                    // Its subscriber learns why. Other services have nothing to do with it.
                    Err(refusal) if is_about_node(refusal) => directory.add(&interface, None),
                    Err(refusal) => return Err(live.refused("reading", &folder, refusal)),
                }
            }
            let at = Instant::now();
            self.state.send_modify(|state| state.lookups.answer(interface, at, directory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_made_up_names_and_made_up_versions_from_real_ones() {
        let now = Instant::now();
        let key = |text: &str| text.parse::<ServiceKey>().unwrap();
        let mut state = KnownServices::default();
        assert_eq!(state.presence(&key("a.B"), now), Presence::Asking);
        state.progress = Progress::Current;
        state.interfaces.insert("a.B".into());
        assert_eq!(state.presence(&key("made.Up"), now), Presence::Absent);
        assert_eq!(state.presence(&key("a.B:1"), now), Presence::Asking);
        let mut directory = Directory::default();
        directory.add("a.B", Some(("1".into(), "".into())));
        state.lookups.answer("a.B".into(), now, directory);
        assert_eq!(state.presence(&key("a.B:1"), now), Presence::Offered);
        assert_eq!(state.presence(&key("a.B:2"), now), Presence::Absent);
        state.progress = Progress::Stale;
        assert_eq!(state.presence(&key("a.B:1"), now), Presence::Offered);
        assert_eq!(state.presence(&key("made.Up"), now), Presence::Unknown);
    }
}
