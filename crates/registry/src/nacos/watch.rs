//! The watch of the instances of some services: subscribe to each, and take what is pushed.
//!
//! A wanted version or group may be `*`. Then the names are listed every few seconds, as Dubbo
//! does it, because Nacos tells nobody of new ones. While a service has no instance, the names
//! are listed now and then as well, to tell in which other versions and groups it is there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use futures_util::future::select_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use nacos_proto::{ServiceInfo, ServiceName};
use tokio::time::Instant;
use wire::jitter;

use crate::lent::{LentReader, LentWatch};
use crate::store::{Item, News};

use super::connection::{Live, SharedConnection};
use super::error::NacosError;
use super::hub::Subscribed;
use super::index::list_names;
use super::names;

/// How often names are listed. Source: `NacosRegistry.LOOKUP_INTERVAL` is 30 s.
const LOOK_UP_EVERY: Duration = Duration::from_secs(10);

/// How often they are while a service has no instance. It is only a hint to who calls it.
const LOOK_AROUND_EVERY: Duration = Duration::from_secs(30);

/// Services that one wanted version and group of `*` may stand for.
const MAX_NAMES: usize = 1000;

/// Subscriptions that are asked for at the same time.
const MAX_ASKED: usize = 8;

/// What is made of the lists of all names: the entries, in any order.
pub(super) type ReadLists<E> =
    Box<dyn Fn(&[(ServiceName, Arc<ServiceInfo>)]) -> Vec<Item<E>> + Send>;

pub(super) struct NacosWatch<E> {
    group: String,
    wanted: Wanted,
    read: ReadLists<E>,
    subscribed: Vec<Subscribed>,
    /// What else there is of the interface, where nothing is found.
    others: Vec<ServiceName>,
    /// Whether a list was ever told.
    is_known: bool,
    look_up_at: Instant,
    ask_again_at: Instant,
}

/// Which services are watched.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// These.
    Names(Vec<String>),
    /// Those of a service of one version.
    Service(ServiceKey),
    /// Those of an interface that may be this one.
    Listed(ServiceKey),
}

impl<E: Send> NacosWatch<E> {
    pub(super) fn new(
        connection: SharedConnection,
        group: &str,
        wanted: Wanted,
        read: ReadLists<E>,
    ) -> LentWatch<Self> {
        let reader = Self {
            group: group.to_owned(),
            wanted,
            read,
            subscribed: Vec::new(),
            others: Vec::new(),
            is_known: false,
            look_up_at: Instant::now(),
            ask_again_at: Instant::now(),
        };
        LentWatch::new(connection, reader)
    }

    /// Subscribes to what is wanted, and to nothing else.
    async fn subscribe(&mut self, live: &Arc<Live>) -> Result<(), NacosError> {
        let wanted = match &self.wanted {
            Wanted::Names(names) => names.clone(),
            Wanted::Service(service) => names::names(service),
            Wanted::Listed(wanted) => {
                self.look_up_at = Instant::now() + jitter(LOOK_UP_EVERY);
                let names = list_names(live, &self.group).await?.into_iter();
                let names = names.filter(|name| names::may_be(name, wanted));
                let names: Vec<_> = names.take(MAX_NAMES + 1).collect();
                if names.len() > MAX_NAMES {
                    tracing::warn!(interface = wanted.interface, "too many versions and groups");
                }
                names.into_iter().take(MAX_NAMES).collect()
            }
        };
        let wanted: BTreeSet<String> = wanted.into_iter().collect();
        self.subscribed.retain(|it| wanted.contains(&it.name().name));
        let is_new = |name: &String| self.subscribed.iter().all(|it| it.name().name != *name);
        let name = |name| ServiceName { group: self.group.clone(), name };
        let new: Vec<_> = wanted.into_iter().filter(is_new).map(name).collect();
        let new = new.into_iter().map(|name| Subscribed::new(live, name));
        let new: Vec<_> = stream::iter(new).buffered(MAX_ASKED).try_collect().await?;
        self.subscribed.extend(new);
        Ok(())
    }

    /// Looks what else there is of an interface of which nothing is found. That is worth no
    /// error.
    async fn look_around(&mut self, live: &Live) {
        self.others.clear();
        let Wanted::Service(wanted) = &self.wanted else { return };
        if !self.is_empty() {
            return;
        }
        self.look_up_at = Instant::now() + jitter(LOOK_AROUND_EVERY);
        let names = list_names(live, &self.group).await.unwrap_or_default().into_iter();
        let others = names.filter(|name| names::may_be(name, wanted));
        let name = |name| ServiceName { group: self.group.clone(), name };
        self.others = others.take(MAX_NAMES).map(name).collect();
    }

    /// Whether there is no instance.
    fn is_empty(&self) -> bool {
        let n_hosts = |it: &Subscribed| it.list.borrow().as_ref().map_or(0, |it| it.hosts.len());
        self.subscribed.iter().all(|it| n_hosts(it) == 0)
    }

    /// Waits until a list has changed, or the names have to be listed again; false if the lists
    /// have to be asked for again.
    async fn changed(&mut self) -> bool {
        let is_listed = match self.wanted {
            Wanted::Names(_) => false,
            Wanted::Service(_) => self.is_empty(),
            Wanted::Listed(_) => true,
        };
        let (look_up_at, ask_again_at) = (self.look_up_at, self.ask_again_at);
        let changes = self.subscribed.iter_mut().map(|it| Box::pin(it.list.changed()));
        let changes: Vec<_> = changes.collect();
        tokio::select! {
            () = async {
                match changes.is_empty() {
                    true => std::future::pending().await,
                    false => drop(select_all(changes).await),
                }
            } => true,
            () = tokio::time::sleep_until(look_up_at), if is_listed => true,
            () = tokio::time::sleep_until(ask_again_at) => false,
        }
    }

    fn whole(&mut self, history_lost: bool) -> News<E> {
        let mut lists: Vec<_> = self
            .subscribed
            .iter_mut()
            .filter_map(|it| Some((it.name().clone(), it.list.borrow_and_update().clone()?)))
            .collect();
        if self.is_empty() {
            lists.extend(self.others.iter().map(|name| (name.clone(), Arc::default())));
        }
        let n_cut = lists.iter().map(|(_, info)| info.n_cut).sum();
        News::Whole { items: (self.read)(&lists), n_cut, history_lost, refusal: None }
    }
}

impl<E: Send> LentReader for NacosWatch<E> {
    type Live = Live;
    type News = News<E>;
    type Error = NacosError;

    async fn begin(&mut self, live: &Arc<Live>) -> Result<News<E>, NacosError> {
        self.ask_again_at = live.ask_again_at();
        self.subscribe(live).await?;
        self.look_around(live).await;
        let history_lost = std::mem::replace(&mut self.is_known, true);
        Ok(self.whole(history_lost))
    }

    /// May be dropped only with the connection: what is half read is read again.
    async fn next(&mut self, live: &Arc<Live>) -> Result<News<E>, NacosError> {
        while !self.changed().await {
            self.ask_again_at = live.ask_again_at();
            for subscribed in &self.subscribed {
                subscribed.ask().await?;
            }
        }
        if self.look_up_at <= Instant::now() {
            self.subscribe(live).await?;
            self.look_around(live).await;
        }
        // Each push has the whole list. What was known is compared with it, and not kept here
        // a second time.
        Ok(self.whole(false))
    }

    fn handle_end(&mut self) {
        self.subscribed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::NacosRule;
    use super::*;
    use crate::layout::Entry;

    /// What a future takes that is made of two arguments.
    fn size<A, B, F>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// There may be thousands, and nearly all of them rest at any time.
    #[test]
    fn a_watch_that_rests_is_small() {
        type Names = &'static mut NacosWatch<Entry>;
        let names = size(|watch: Names, live: &'static Arc<Live>| watch.next(live));
        let rule = size(|rule: &'static mut NacosRule, live| rule.next(live));
        assert!(names < 1024 && rule < 1024, "{names} and {rule} bytes");
    }
}
