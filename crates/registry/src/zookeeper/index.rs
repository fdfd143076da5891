//! The services that ZooKeeper holds.
//!
//! This costs one watch on the list of all interfaces, and one on that of mappings, whatever
//! callers ask for. An interface on the first list has been offered or wanted by somebody. Which
//! versions and groups it is offered in is read when somebody asks, and again when that is some
//! seconds old.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use dubbo_proto::url::decode_key;
use tokio::sync::Notify;
use tokio::time::Instant;
use wire::{Backoff, jitter};
use zookeeper_proto::{Answer, Refusal, Request};

use crate::directory::{Directory, Presence};
use crate::index::{IndexReader, IndexTask, ServiceIndex, ServiceList};
use crate::layout::Paths;
use crate::on_demand::Progress;

use super::connection::{Live, ZooKeeperError, is_about_node};
use super::node::Node;

/// Interfaces that are kept at most: a registry of more is not asked for its services.
const MAX_INTERFACES: usize = 100_000;

/// How often mappings are tried again that may not be read: nobody tells of a new access list.
const RETRY_EVERY: Duration = Duration::from_secs(10);

/// The least time between two reads of the list of interfaces.
const MIN_PAUSE: Duration = Duration::from_millis(200);

/// A handle on the task.
pub(super) type ZooKeeperIndex = ServiceIndex<ZooKeeperReader, Live>;

/// The interfaces of all services. Their versions and groups are looked up.
#[derive(Default)]
pub(super) struct ZooKeeperInterfaces {
    listed: HashSet<Box<str>>,
    /// Those that some application offers.
    mapped: HashSet<Box<str>>,
    /// Whether that may not be read.
    is_mapping_refused: bool,
    is_full: bool,
}

impl ServiceList for ZooKeeperInterfaces {
    /// Its versions and groups.
    type Answer = Directory;

    fn is_full(&self) -> bool {
        self.is_full
    }

    fn presence(&self, wanted: &ServiceKey, progress: Progress) -> Option<Presence> {
        let interface = wanted.interface.as_str();
        if self.mapped.contains(interface) {
            // Only the applications know which versions and groups.
            return Some(Presence::Offered);
        }
        if self.listed.contains(interface) {
            return None;
        }
        // An application may offer it.
        let is_unknown = self.is_mapping_refused && progress == Progress::Current;
        Some(if is_unknown { Presence::Unknown } else { progress.denied() })
    }

    fn offers(answer: &Directory, wanted: &ServiceKey) -> bool {
        answer.offers(wanted)
    }

    /// Those that ZooKeeper has a folder for.
    fn interfaces(&self) -> Vec<String> {
        self.listed.union(&self.mapped).map(|name| name.as_ref().to_owned()).collect()
    }
}

/// Reads the names of folders.
#[derive(Clone)]
pub(super) struct ZooKeeperReader {
    pub(super) paths: Paths,
    /// The folder of mappings.
    pub(super) mappings: String,
}

impl IndexReader<Live> for ZooKeeperReader {
    type List = ZooKeeperInterfaces;
    type Error = ZooKeeperError;

    async fn read_and_watch(
        &self,
        live: &Arc<Live>,
        index: &IndexTask<ZooKeeperInterfaces>,
        backoff: &mut Backoff,
    ) -> Result<(), ZooKeeperError> {
        let wake = Arc::new(Notify::new());
        let mut folders = Folders {
            root: Node::new(self.paths.root().to_owned(), &wake),
            mappings: Node::new(self.mappings.clone(), &wake),
            refusal: None,
        };
        index.take(folders.read(live).await?);
        backoff.reset();
        let mut retry_at = Instant::now() + jitter(RETRY_EVERY);
        loop {
            tokio::select! {
                () = wake.notified() => {
                    if folders.have_changed() {
                        tokio::time::sleep(MIN_PAUSE).await;
                        index.take(folders.read(live).await?);
                    }
                }
                () = tokio::time::sleep_until(retry_at), if folders.refusal.is_some() => {
                    index.take(folders.read(live).await?);
                    retry_at = Instant::now() + jitter(RETRY_EVERY);
                }
                () = index.wanted() => self.look(live, index).await?,
                () = index.idle() => return Ok(()),
            }
        }
    }
}

/// The folders whose names are read, with watches on them.
struct Folders {
    root: Node,
    mappings: Node,
    /// Why mappings may not be read, as far as the log has it.
    refusal: Option<Refusal>,
}

impl Folders {
    /// Whether they may have changed since they were read.
    fn have_changed(&self) -> bool {
        let (is_other, is_mapped) = (self.root.has_changed(), self.mappings.has_changed());
        is_other || is_mapped
    }

    /// Reads all interfaces. Mappings that may not be read take no other interface away.
    async fn read(&mut self, live: &Arc<Live>) -> Result<ZooKeeperInterfaces, ZooKeeperError> {
        let names = self.root.names(live).await?;
        let (mapped, refusal) = match self.mappings.names(live).await {
            Ok(mapped) => (mapped, None),
            Err(ZooKeeperError::Refused { refusal, .. }) if is_about_node(refusal) => {
                (Vec::new(), Some(refusal))
            }
            Err(error) => return Err(error),
        };
        if let Some(refusal) = refusal.filter(|refusal| self.refusal != Some(*refusal)) {
            let path = &self.mappings.path;
            tracing::warn!(path, %refusal, "the folder cannot be read; services that only \
                                            applications offer are not listed");
        }
        self.refusal = refusal;
        Ok(ZooKeeperInterfaces::new(names, mapped, refusal.is_some()))
    }
}

impl ZooKeeperInterfaces {
    fn new(names: Vec<String>, mapped: Vec<String>, is_mapping_refused: bool) -> Self {
        let is_full = MAX_INTERFACES < names.len().max(mapped.len());
        let decoded = |names: Vec<String>| -> HashSet<Box<str>> {
            let kept = if is_full { Vec::new() } else { names };
            let names = kept.iter().filter_map(|name| decode_key(name).ok());
            names.map(String::into_boxed_str).collect()
        };
        Self { listed: decoded(names), mapped: decoded(mapped), is_mapping_refused, is_full }
    }
}

impl ZooKeeperReader {
    /// Reads the versions and groups that somebody waits for.
    async fn look(
        &self,
        live: &Live,
        index: &IndexTask<ZooKeeperInterfaces>,
    ) -> Result<(), ZooKeeperError> {
        while let Some(interface) = index.next() {
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
            index.answer(interface, directory);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_looked_up_unless_the_lists_tell() {
        let service = |text: &str| text.parse::<ServiceKey>().unwrap();
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let list = |is_refused| {
            ZooKeeperInterfaces::new(names(&["a.B"]), names(&["a.Mapped"]), is_refused)
        };
        let says = |text, progress| list(false).presence(&service(text), progress);
        assert_eq!(says("a.B:1", Progress::Current), None);
        assert_eq!(says("a.Mapped:1", Progress::Stale), Some(Presence::Offered));
        assert_eq!(says("made.Up", Progress::Current), Some(Presence::Absent));
        assert_eq!(says("made.Up", Progress::Stale), Some(Presence::Unknown));
        let refused = list(true).presence(&service("made.Up"), Progress::Current);
        assert_eq!(refused, Some(Presence::Unknown));
        let mut all = list(false).interfaces();
        all.sort();
        assert_eq!(all, ["a.B", "a.Mapped"]);
    }
}
