//! Who wants to know what a server says on one connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacos_proto::{Ask, ConfigKey, HeardKind, ServiceInfo, ServiceName};
use tokio::sync::{Notify, watch};

use super::connection::Live;
use super::error::NacosError;

/// Those who want to know. It ends with its connection.
#[derive(Debug, Default)]
pub(super) struct Hub {
    services: Mutex<HashMap<ServiceName, ListUsers>>,
    documents: Mutex<HashMap<ConfigKey, DocumentUsers>>,
}

/// The last list of a service; `None` before the first.
pub(super) type Lists = watch::Receiver<Option<Arc<ServiceInfo>>>;

#[derive(Debug)]
struct ListUsers {
    n_users: usize,
    list: watch::Sender<Option<Arc<ServiceInfo>>>,
}

#[derive(Debug, Default)]
struct DocumentUsers {
    n_users: usize,
    changed: Arc<Notify>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Passes on what the server says. Returns what is about the connection itself.
    pub(super) fn take(&self, heard: HeardKind) -> Option<HeardKind> {
        match heard {
            HeardKind::Instances(info) => self.take_list(info),
            HeardKind::DocumentChanged(key) => {
                if let Some(users) = lock(&self.documents).get(&key) {
                    users.changed.notify_waiters();
                    users.changed.notify_one();
                }
            }
            HeardKind::Detection => {}
            other => return Some(other),
        }
        None
    }

    /// The lists of a service, if somebody follows it.
    pub(super) fn lists(&self, name: &ServiceName) -> Option<Lists> {
        Some(lock(&self.services).get(name)?.list.subscribe())
    }

    fn take_list(&self, info: ServiceInfo) {
        let name = ServiceName { group: info.group.clone(), name: info.name.clone() };
        self.take_list_of(&name, info);
    }

    /// A list is older than the one that is known if two of them overtook each other.
    fn take_list_of(&self, name: &ServiceName, info: ServiceInfo) {
        let services = lock(&self.services);
        let Some(users) = services.get(name) else { return };
        users.list.send_if_modified(|known| {
            if known.as_ref().is_some_and(|known| info.last_ref_time < known.last_ref_time) {
                return false;
            }
            let mut info = info;
            if let Some(known) = known {
                if (&known.hosts, known.n_cut) == (&info.hosts, info.n_cut) {
                    return false;
                }
                info.share_with(known);
            }
            *known = Some(Arc::new(info));
            true
        });
    }
}

/// A subscription to one service, until it is dropped.
pub(super) struct Subscribed {
    live: Arc<Live>,
    name: ServiceName,
    pub(super) list: Lists,
}

impl Subscribed {
    /// Subscribes, and waits for the first list.
    pub(super) async fn new(live: &Arc<Live>, name: ServiceName) -> Result<Self, NacosError> {
        let list = {
            let mut services = lock(&live.hub.services);
            let new = || ListUsers { n_users: 0, list: watch::Sender::new(None) };
            let users = services.entry(name.clone()).or_insert_with(new);
            users.n_users += 1;
            users.list.subscribe()
        };
        // From here on it is taken back when it is dropped.
        let subscribed = Self { live: Arc::clone(live), name, list };
        subscribed.ask().await?;
        Ok(subscribed)
    }

    /// Subscribes, which a server takes as often as it is asked, and takes the list of now.
    pub(super) async fn ask(&self) -> Result<(), NacosError> {
        let ask = Ask::Subscribe(self.name.clone());
        let answer = self.live.ask(&ask).await?;
        let info = answer.service_info().map_err(Live::bad(ask.words()))?;
        self.live.hub.take_list_of(&self.name, info.unwrap_or_default());
        Ok(())
    }

    pub(super) fn name(&self) -> &ServiceName {
        &self.name
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        let mut services = lock(&self.live.hub.services);
        let Some(users) = services.get_mut(&self.name) else { return };
        users.n_users -= 1;
        if 0 < users.n_users {
            return;
        }
        services.remove(&self.name);
        drop(services);
        tell(&self.live, Ask::Unsubscribe(self.name.clone()));
    }
}

/// One who wants to know when a document changes, until it is dropped.
pub(super) struct Listening {
    live: Arc<Live>,
    key: ConfigKey,
    pub(super) changed: Arc<Notify>,
}

impl Listening {
    pub(super) fn new(live: &Arc<Live>, key: ConfigKey) -> Self {
        let changed = {
            let mut documents = lock(&live.hub.documents);
            let users = documents.entry(key.clone()).or_default();
            users.n_users += 1;
            Arc::clone(&users.changed)
        };
        Self { live: Arc::clone(live), key, changed }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut documents = lock(&self.live.hub.documents);
        let Some(users) = documents.get_mut(&self.key) else { return };
        users.n_users -= 1;
        if 0 < users.n_users {
            return;
        }
        documents.remove(&self.key);
        drop(documents);
        tell(&self.live, Ask::Unlisten(self.key.clone()));
    }
}

/// Tells the server something, whatever comes of it: it forgets all with the connection.
fn tell(live: &Arc<Live>, ask: Ask) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let live = Arc::clone(live);
    runtime.spawn(async move {
        if let Err(error) = live.try_ask(&ask).await {
            tracing::debug!(%error, "Nacos keeps sending changes that nobody asked for");
        }
    });
}
