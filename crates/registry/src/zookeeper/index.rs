//! The services that ZooKeeper holds, for names that may be made up.
//!
//! A watch for each such name would cost ZooKeeper as much as callers like. This costs one watch,
//! on the list of all interfaces, whatever they ask for. An interface on that list has been
//! offered or wanted by somebody; which versions and groups it is offered in is read when somebody
//! asks, and again when that is some seconds old. All this begins with the first question, and
//! ends when there was none for [`IDLE`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dubbo_proto::ServiceKey;
use dubbo_proto::url::decode_key;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::Backoff;
use zookeeper_proto::{Answer, Refusal, Request};

use crate::definitions::Away;
use crate::directory::{Directory, Presence};
use crate::follow::new_backoff;
use crate::layout::Paths;

use super::connection::{Connection, Live, ZooKeeperError};
use super::node::Node;

/// Without a question for so long, nothing is read or watched any more.
const IDLE: Duration = Duration::from_secs(60);

/// Interfaces that are kept at most: a registry of more is not asked for its services.
const MAX_INTERFACES: usize = 100_000;

/// Interfaces whose versions and groups are kept at a time, and that are waited for.
const MAX_LOOKED_AT: usize = 1000;

/// How long versions and groups that were read count as they are.
const FRESH: Duration = Duration::from_secs(5);

/// The least time between two reads of the list of interfaces.
const MIN_PAUSE: Duration = Duration::from_millis(200);

/// A handle on the task.
#[derive(Debug)]
pub(super) struct Index {
    paths: Paths,
    connection: Connection,
    state: watch::Sender<KnownServices>,
    asked: Arc<Notify>,
    task: Mutex<Task>,
}

#[derive(Debug)]
struct Task {
    asked_at: Arc<Mutex<Instant>>,
    running: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct KnownServices {
    progress: Progress,
    interfaces: HashSet<Box<str>>,
    is_full: bool,
    looked_at: HashMap<Box<str>, LookedAt>,
    /// Whose versions and groups somebody waits for.
    waiting: BTreeSet<Box<str>>,
}

#[derive(Debug)]
struct LookedAt {
    at: Instant,
    directory: Directory,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Progress {
    /// Not read yet.
    #[default]
    Reading,
    /// As ZooKeeper has it.
    Current,
    /// As ZooKeeper had it before it went away, or refused.
    Stale,
}

impl KnownServices {
    fn presence(&self, wanted: &ServiceKey, now: Instant) -> Presence {
        let if_denied = match self.progress {
            Progress::Reading => return Presence::Asking,
            Progress::Current => Presence::Absent,
            Progress::Stale => Presence::Unknown,
        };
        if self.is_full {
            return Presence::Unknown;
        }
        if !self.interfaces.contains(wanted.interface.as_str()) {
            return if_denied;
        }
        match self.looked_at.get(wanted.interface.as_str()) {
            Some(known) if known.directory.offers(wanted) => Presence::Offered,
            Some(known) if now < known.at + FRESH => if_denied,
            _ if self.progress == Progress::Stale => Presence::Unknown,
            _ if MAX_LOOKED_AT <= self.waiting.len() => Presence::Unknown,
            _ => Presence::Asking,
        }
    }
}

impl Index {
    pub(super) fn new(paths: Paths, connection: Connection) -> Self {
        let asked_at = Arc::new(Mutex::new(Instant::now()));
        let task = Mutex::new(Task { asked_at, running: None });
        Self { paths, connection, state: watch::Sender::default(), asked: Arc::default(), task }
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
            self.state.send_if_modified(|state| state.waiting.insert(interface.into()));
            self.asked.notify_one();
        }
        presence
    }

    /// Waits until [`presence`](Self::presence) need not say that it is asking.
    pub(super) async fn settled(&self) {
        let mut state = self.state.subscribe();
        let is_settled =
            |state: &KnownServices| state.progress != Progress::Reading && state.waiting.is_empty();
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
                Ok(state.interfaces.iter().map(|name| name.as_ref().to_owned()).collect())
            }
            Progress::Reading | Progress::Stale => {
                let said = self.connection.status().borrow().last_error.clone();
                Err(Away(said.unwrap_or_else(|| "its services cannot be listed".to_owned())))
            }
        }
    }

    fn keep_running(&self, runtime: &Handle) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        *task.asked_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if task.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return;
        }
        let _ = self.state.send_replace(KnownServices::default());
        let reader = Reader {
            paths: self.paths.clone(),
            connection: self.connection.clone(),
            state: self.state.clone(),
            asked: Arc::clone(&self.asked),
            asked_at: Arc::clone(&task.asked_at),
        };
        task.running = Some(runtime.spawn(reader.run()));
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &task.running {
            running.abort();
        }
    }
}

struct Reader {
    paths: Paths,
    connection: Connection,
    state: watch::Sender<KnownServices>,
    asked: Arc<Notify>,
    asked_at: Arc<Mutex<Instant>>,
}

impl Reader {
    /// Runs until nobody asks any more.
    async fn run(self) {
        let mut backoff = new_backoff();
        while !self.is_idle() {
            let Some(live) = self.connection.live_within_timeout().await else {
                self.set_stale();
                continue;
            };
            let outcome = tokio::select! {
                outcome = self.read_and_watch(&live, &mut backoff) => outcome,
                () = self.connection.lost(&live) => Err(ZooKeeperError::Lost),
            };
            match outcome {
                Ok(()) => break,
                Err(error) => {
                    self.set_stale();
                    tracing::debug!(%error, "the list of services is incomplete, trying again");
                }
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
        tracing::debug!("nobody asks for unknown services any more");
    }

    fn idle_at(&self) -> Instant {
        *self.asked_at.lock().unwrap_or_else(PoisonError::into_inner) + IDLE
    }

    fn is_idle(&self) -> bool {
        self.idle_at() <= Instant::now()
    }

    fn set_stale(&self) {
        self.state.send_if_modified(|state| {
            let was_current = state.progress != Progress::Stale || !state.waiting.is_empty();
            state.progress = Progress::Stale;
            state.waiting.clear();
            was_current
        });
    }

    async fn read_and_watch(
        &self,
        live: &Live,
        backoff: &mut Backoff,
    ) -> Result<(), ZooKeeperError> {
        let wake = Arc::new(Notify::new());
        let mut root = Node::new(self.paths.root().to_owned(), &wake);
        self.take_interfaces(root.names(live).await?);
        backoff.reset();
        loop {
            tokio::select! {
                () = wake.notified() => {
                    if root.has_changed() {
                        tokio::time::sleep(MIN_PAUSE).await;
                        self.take_interfaces(root.names(live).await?);
                    }
                }
                () = self.asked.notified() => self.look(live).await?,
                () = tokio::time::sleep_until(self.idle_at()) => {
                    if self.is_idle() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn take_interfaces(&self, names: Vec<String>) {
        let is_full = MAX_INTERFACES < names.len();
        let kept = if is_full { Vec::new() } else { names };
        let interfaces = kept.iter().filter_map(|name| decode_key(name).ok());
        let interfaces = interfaces.map(String::into_boxed_str).collect();
        self.state.send_modify(|state| {
            state.progress = Progress::Current;
            (state.interfaces, state.is_full) = (interfaces, is_full);
        });
    }

    /// Reads the versions and groups that somebody waits for.
    async fn look(&self, live: &Live) -> Result<(), ZooKeeperError> {
        loop {
            let next = self.state.borrow().waiting.first().cloned();
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
                    Err(refusal) => return Err(live.refused("reading", &folder, refusal)),
                }
            }
            let at = Instant::now();
            self.state.send_modify(|state| {
                if MAX_LOOKED_AT <= state.looked_at.len() {
                    state.looked_at.clear();
                }
                state.waiting.remove(&interface);
                state.looked_at.insert(interface, LookedAt { at, directory });
            });
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
        state.looked_at.insert("a.B".into(), LookedAt { at: now, directory });
        assert_eq!(state.presence(&key("a.B:1"), now), Presence::Offered);
        assert_eq!(state.presence(&key("a.B:2"), now), Presence::Absent);
        assert_eq!(state.presence(&key("a.B:2"), now + FRESH), Presence::Asking, "too old");
        state.progress = Progress::Stale;
        assert_eq!(state.presence(&key("a.B:1"), now), Presence::Offered);
        assert_eq!(state.presence(&key("made.Up"), now), Presence::Unknown);
    }
}
